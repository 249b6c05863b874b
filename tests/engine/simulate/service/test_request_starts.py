"""Asking a model where further requests begin."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.chat import Call, Completion
from engine.simulate.service.request_starts import RequestStartScenario
from tests.engine.simulate.playing import play_all

TEXTS = {"system": "Judge.", "begins": "[[DIALOGUE]]"}
GREETED = ("Hello, how can I help?", "Weather in Ulm?", "Sunny.", "Book a table.")


def scenario(*texts: str) -> RequestStartScenario:
    """A conversation that the assistant opens."""
    roles = ("assistant", "user") * len(texts)
    turns = tuple((at, roles[at], text) for at, text in enumerate(texts))
    return RequestStartScenario(7, turns, TEXTS)


def test_the_first_message_of_the_user_is_not_asked_about() -> None:
    """After a greeting of the assistant it begins the first request, not a further one."""
    asked: list[str] = []

    def yes(calls: Sequence[Call]) -> list[Completion]:
        asked.extend(call.messages[-1].content for call in calls)
        return [Completion('{"new_request": true}', "end") for _ in calls]

    greeted = scenario(*GREETED)
    (played,) = play_all([greeted], yes, parallel=1)
    assert played.ending.result == {"conversation": 7, "starts": [3]}
    assert [GREETED[3] in text for text in asked] == [True]
    assert greeted.expected == 1


def test_a_replaced_text_is_asked_about_anew() -> None:
    """The answers of the text before are not those of this one."""
    assert scenario(*GREETED).key != scenario(*GREETED[:3], "And tomorrow?").key
