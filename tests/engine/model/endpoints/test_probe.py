"""What a probe finds out about servers of several kinds, and which of their claims it checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.base.errors import ModelError
from engine.model.endpoints.capabilities import Capabilities, no_tree, no_writing
from engine.model.endpoints.client import parse_address
from engine.model.endpoints.probe import probe
from engine.model.prompt_files import parse_prompt, prompt_text
from tests.engine.model.endpoints.toy_peer import NAMES, Manner, running, says
from tests.engine.model.toy import END

SUMMARY = parse_prompt("paper-summary", prompt_text("paper-summary"))


def probed(manner: Manner, end_text: str = "") -> Capabilities:
    with running(manner) as peer:
        return probe(parse_address(peer.url), end_text=end_text)


class TestWhatIsFound:
    def test_vllm(self) -> None:
        """vLLM: token ids in both directions, log-probabilities of the prompt, the 20 best; the end token is given by a
        person.
        """
        found = probed("vllm", NAMES[END])
        assert (found.ids, found.named, found.echo) == (True, True, True)
        assert (found.top, found.chat_top, found.tokens, found.template) == (20, 20, "vllm", "vllm")
        assert (found.prefill, found.context) == ("continue", 4096)
        assert (found.end_token, found.controls, found.embeddings) == (END, True, False)

    def test_llama_server(self) -> None:
        """llama-server reports its end token and its number of slots."""
        found = probed("llama-server")
        assert (found.ids, found.named, found.echo) == (True, True, False)
        assert (found.tokens, found.template, found.prefill) == (
            "llama-server",
            "llama-server",
            "last",
        )
        assert (found.end_token, found.end_text, found.controls) == (END, NAMES[END], False)
        assert (found.parallel, found.context, found.structure) == (4, 4096, "")
        assert found.top == 259

    def test_llama_cpp_python(self) -> None:
        """llama-cpp-python: texts only; its log-probabilities of prompt tokens are shifted by a position, which the
        probe detects, so they are not used.
        """
        found = probed("llama-cpp-python", NAMES[END])
        assert (found.ids, found.named, found.echo) == (False, False, False)
        assert (found.tokens, found.template, found.prefill) == ("llama-cpp-python", "", "")


class TestWhatIsEnough:
    @pytest.mark.parametrize(
        ("manner", "trees"),
        [
            ("vllm", True),
            ("llama-server", True),
            ("llama-cpp-python", True),
            ("chat", False),
            ("bare", False),
        ],
    )
    def test_each_server(self, manner: Manner, trees: bool) -> None:
        """Every kind of server writes replies; response trees need probabilities of a text's next tokens."""
        found = probed(manner, NAMES[END])
        assert no_writing(found, SUMMARY) is None
        assert (no_tree(found) is None) == trees


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
