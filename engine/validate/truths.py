"""What is known from elsewhere, as yes or no: `yes` is where a sure model would be out of place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_EITHER = "unanswerable or underspecified"

CLAIMS: Mapping[str, str] = {
    "reward 0": "the reward is 0, against more",
    "reward below 1": "the reward is below 1, against 1",
    "not complete": "the source says that the goal was not reached, against reached",
    _EITHER: "the last question cannot be answered or is not clear, against answerable",
    "unanswerable": "the last question cannot be answered, against answerable",
    "underspecified": "the last question is not clear, against answerable",
    "hallucinated": "this answer holds something made up, against not",
}
"""Name of each claim and what is set against what; whoever is neither is left out."""

OF_AN_ANSWER = frozenset({"hallucinated"})
"""Claims about one answer; the others are about a whole conversation."""

_ANSWERABILITY: Mapping[str, Mapping[str, bool]] = {
    "ANSWERABLE": {_EITHER: False, "unanswerable": False, "underspecified": False},
    "UNANSWERABLE": {_EITHER: True, "unanswerable": True},
    "UNDERSPECIFIED": {_EITHER: True, "underspecified": True},
}


def of_conversation(truth: Mapping[str, Any]) -> dict[str, bool]:
    """The claims about a conversation that its truth decides."""
    found: dict[str, bool] = {}
    reward = truth.get("reward")
    if isinstance(reward, (int, float)) and not isinstance(reward, bool):
        found["reward 0"] = reward <= 0
        found["reward below 1"] = reward < 1
    complete = truth.get("complete")
    if isinstance(complete, bool):
        found["not complete"] = not complete
    found.update(_ANSWERABILITY.get(str(truth.get("answerability", "")).upper(), {}))
    return found


def judges_answers(truth: Mapping[str, Any]) -> bool:
    """Whether single answers were judged, so that their order matters."""
    return isinstance(truth.get("hallucination"), list)


def of_answers(truth: Mapping[str, Any], answers: int) -> list[dict[str, bool]]:
    """The claims about each of a conversation's assistant messages, in order.

    Args:
        answers: How many there are; judgements of another number belong to nobody knows which.
    """
    judged = truth["hallucination"] if judges_answers(truth) else []
    if len(judged) != answers:
        return [{} for _ in range(answers)]
    return [{"hallucinated": one} if isinstance(one, bool) else {} for one in judged]
