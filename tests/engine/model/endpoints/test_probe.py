"""What a probe finds out about servers of several kinds, and which of their claims it checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.base.errors import ModelError
from engine.model.endpoints.capabilities import (
    Capabilities,
    no_curve,
    no_reading,
    no_tree,
    no_writing,
)
from engine.model.endpoints.client import parse_address
from engine.model.endpoints.probe import probe
from engine.model.prompt_files import parse_prompt, prompt_text
from tests.engine.model.endpoints.toy_peer import NAMES, Manner, running, says
from tests.engine.model.toy import END

SUMMARY, BASE = (parse_prompt(name, prompt_text(name)) for name in ("paper-summary", "base"))


def probed(manner: Manner, end_text: str = "") -> Capabilities:
    with running(manner) as peer:
        return probe(parse_address(peer.url), end_text=end_text)


class TestWhatIsFound:
    def test_vllm(self) -> None:
        """vLLM: token ids in both directions, log-probabilities of the prompt, the 20 best; the end token is given by a
        person.
        """
        found = probed("vllm", NAMES[END])
        assert (found.ids, found.named, found.echo, found.forced) == (True, True, True, False)
        assert (found.top, found.chat_top, found.tokens, found.template) == (20, 20, "vllm", "vllm")
        assert (found.prefill, found.context) == ("continue", 4096)
        assert (found.end_token, found.controls, found.embeddings) == (END, True, False)

    def test_llama_server(self) -> None:
        """llama-server reports its end token and its number of slots, and accepts a forced continuation."""
        found = probed("llama-server")
        assert (found.ids, found.named, found.echo, found.forced) == (True, True, False, True)
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
        assert (found.ids, found.named, found.echo, found.forced) == (False, False, False, True)
        assert (found.tokens, found.template, found.prefill) == ("llama-cpp-python", "", "")


class TestWhatIsEnough:
    def reasons(self, can: Capabilities) -> list[bool]:
        """Whether it is enough for: replies, a curve to the end token, one to a tag, base, answers, trees."""
        asked = [
            no_writing(can, SUMMARY),
            no_curve(can, None, None),
            no_curve(can, None, "END"),
            no_curve(can, BASE, None),
            no_reading(can),
            no_tree(can),
        ]
        return [reason is None for reason in asked]

    @pytest.mark.parametrize(
        ("manner", "enough"),
        [
            ("vllm", [1, 1, 1, 1, 1, 1]),
            ("llama-server", [1, 1, 1, 1, 1, 1]),
            ("llama-cpp-python", [1, 0, 1, 0, 1, 1]),
            ("chat", [1, 0, 0, 0, 0, 0]),
            ("bare", [1, 0, 0, 0, 0, 0]),
        ],
    )
    def test_each_server(self, manner: Manner, enough: list[int]) -> None:
        """Each kind of work states what it needs, and each kind of server what it has."""
        assert self.reasons(probed(manner, NAMES[END])) == [bool(one) for one in enough]


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
