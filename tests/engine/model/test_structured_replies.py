"""Structured replies: repair, failures, and how much of a log is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest

from engine.goals.questions import GoalSummary
from engine.model.chat import Call, ChatMessage, Completion
from engine.model.prompt_files import parse_prompt, prompt_text
from engine.model.reply_forms import UnreadableReply
from engine.model.structured_replies import ask, ask_in_play, fenced_log

PROMPT = parse_prompt("summary-json", prompt_text("summary-json"))
GOOD = '{"goal": "The user wants a taxi."}'
LONG = f'{{"goal": "{"word " * 200}"}}'


class Numbered(msgspec.Struct):
    """A reply with a number."""

    number: int


@dataclass
class Scripted:
    """A client whose replies are given.

    Attributes:
        requests: The calls of each request.
        parallel: The number of items that it is asked about side by side.
    """

    replies: list[Completion]
    parallel: int = 1
    requests: list[list[Call]] = field(default_factory=list)

    def ask(self, request: Any, progress: object = None) -> Any:
        self.requests.append(list(request.calls))
        return [self.replies.pop(0) for _ in request.calls]

    def load(self, *_: object) -> Any:
        raise NotImplementedError

    def cancel(self) -> None:
        raise NotImplementedError

    def spent(self) -> str:
        return ""


def said(text: str, **more: Any) -> Completion:
    return Completion(text, more.pop("stopped", "end"), **more)


def test_a_repair() -> None:
    """A reply that cannot be read is asked for once more, beside its own text and with what was wrong; the others are
    not asked about again."""
    client = Scripted([said(GOOD), said(LONG), said(GOOD, note="cut")])
    first, second = ask(client, PROMPT, GoalSummary, ["one", "two"])
    assert first.fields == second.fields == GoalSummary("The user wants a taxi.")
    assert second.note == "cut"
    (repair,) = client.requests[1]
    assert [message.speaker for message in repair.messages] == ["user", "assistant", "user"]
    assert repair.messages[1].content == LONG
    assert "length <= 400" in repair.messages[2].content


def test_a_play_asks_again_with_what_was_wrong() -> None:
    """A play asks once more, hotter and with another seed, beside the reply and what was wrong with it; fields beyond
    the limits of a call, and those that cannot be used, are wrong; without a usable reply there is no result."""

    def not_two(reply: Numbered) -> int:
        if reply.number == 2:
            raise UnreadableReply("The number is 2")
        return reply.number

    def asked(*replies: str) -> tuple[list[Call], int | None]:
        limits = {"number": {"enum": [1, 2]}}
        call = Call("a", "judge", (ChatMessage("user", "Which?"),), seed=5)
        play = ask_in_play(call, Numbered, not_two, (0.0, 0.5), limits)
        *before, last = replies
        calls = [next(play), *(play.send(said(reply)) for reply in before)]
        with pytest.raises(StopIteration) as ended:
            play.send(said(last))
        return calls, ended.value.value

    (first, second), number = asked('{"number": 3}', "Number: 1")
    assert number == 1
    assert second.messages[1].content == '{"number": 3}'
    assert "has to be one of 1, 2." in second.messages[2].content
    assert (first.sampling.temperature, second.sampling.temperature) == (0, 0.5)
    assert first.seed == 5 != second.seed
    assert asked('{"number": 2}', "no") == ([first, ANY], None)


def test_a_failure_retains_the_reply() -> None:
    """What still cannot be read is a failure that says why and what the model wrote; a reply that was cut off is named
    as that."""
    client = Scripted([said(LONG), said("{", stopped="length")])
    (reply,) = ask(client, PROMPT, GoalSummary, ["one"])
    assert reply.fields is None
    assert reply.failure == "The reply was cut off at its greatest length. The model wrote: {"
    assert len(client.requests) == 2


def test_a_log_that_fits() -> None:
    """A log stands between marks that it cannot close."""
    log, note = fenced_log(["STEP 1:\na </log> b", "\nSTEP 2:\nc"], 0, 100)
    assert log == "<log>\nSTEP 1:\na < /log> b\nSTEP 2:\nc\n</log>"
    assert note is None


def test_a_log_that_does_not_fit() -> None:
    """Of a long log the pinned pieces and the last ones are shown, and text and note say what is left out."""
    texts = [f"\nSTEP {number}:\n{'word ' * 20}" for number in range(9)]
    log, note = fenced_log(texts, 1, 500)
    assert "STEP 0" in log
    assert "STEP 8" in log
    assert "STEP 4" not in log
    assert "steps are left out here]" in log
    assert note is not None
    assert "of 9 steps left out, 0 shortened" in note
    assert len(log) < 600
    short, note = fenced_log(["a" * 1_000], 0, 300)
    assert len(short) < 150
    assert note == "0 of 1 steps left out, 1 shortened"
