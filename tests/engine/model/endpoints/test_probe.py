"""What a probe finds out about servers of several kinds, and which of their claims it checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

import pytest

from engine.base.errors import ModelError
from engine.model.endpoints.capabilities import why_no_replies
from engine.model.endpoints.client import parse_address
from engine.model.endpoints.probe import probe
from engine.model.prompt_files import parse_prompt, prompt_text
from tests.engine.model.endpoints.toy_endpoint import capabilities
from tests.engine.model.endpoints.toy_peer import Manner, running, says

SUMMARY = parse_prompt("paper-summary", prompt_text("paper-summary"))


class TestWhatIsFound:
    def test_vllm(self) -> None:
        """vLLM: prompts as token ids, the 20 best tokens of replies."""
        found = capabilities("vllm")
        assert (found.ids, found.chat_top, found.tokens, found.template) == (
            True,
            20,
            "vllm",
            "vllm",
        )
        assert (found.prefill, found.context) == ("continue", 4096)

    def test_llama_server(self) -> None:
        """llama-server reports its number of slots."""
        found = capabilities("llama-server")
        assert found.ids
        assert (found.tokens, found.template, found.prefill) == (
            "llama-server",
            "llama-server",
            "last",
        )
        assert (found.parallel, found.context, found.structure) == (4, 4096, "")

    def test_llama_cpp_python(self) -> None:
        """llama-cpp-python: texts only."""
        found = capabilities("llama-cpp-python")
        assert not found.ids
        assert (found.tokens, found.template, found.prefill) == ("llama-cpp-python", "", "")


class TestWhatIsEnough:
    @pytest.mark.parametrize("manner", get_args(Manner))
    def test_each_server(self, manner: Manner) -> None:
        """Every kind of server writes replies."""
        assert why_no_replies(capabilities(manner), SUMMARY) is None


@contextmanager
def silent() -> Iterator[str]:
    """The URL of an endpoint that was just closed."""
    with running("vllm") as peer:
        url = peer.url
    yield url


class TestTrouble:
    def test_nobody_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An unreachable endpoint is an error that says so."""
        monkeypatch.setattr("engine.model.endpoints.pacing.FIRST_WAIT", 0.001)
        with silent() as url, pytest.raises(ModelError, match="cannot be reached"):
            probe(parse_address(url))

    def test_another_model(self) -> None:
        """A model that neither completes nor chats is an error that names it and says how to list the server's
        models.
        """
        with running("vllm") as peer:
            peer.faults = [says(404, "no such model")] * 3
            with pytest.raises(ModelError, match="neither continues texts nor answers"):
                probe(parse_address(peer.url))

    def test_wrong_key(self) -> None:
        """The error about a wrong key has the server's message and says where keys come from; the key in the message is
        hidden.
        """
        with running("vllm") as peer:
            peer.faults = [says(401, "no such key sk-wrong")] * 3
            with pytest.raises(ModelError, match=r"answered 401 \(.*no such key …") as caught:
                probe(parse_address(peer.url), "sk-wrong")
        assert "--key-env" in caught.value.hint
        assert "sk-wrong" not in str(caught.value)
