"""Turns truth into yes-or-no claims. `yes` means that something went wrong, where the model should be uncertain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

_EITHER = "unanswerable or underspecified"

CLAIMS: Mapping[str, str] = {
    "reward 0": "the reward is 0, against more",
    "reward below 1": "the reward is below 1, against 1",
    "not complete": "the source says that the goal was not reached, against reached",
    "success below 1": "the success rate is below 1, against 1",
    _EITHER: "the last question cannot be answered or is not clear, against answerable",
    "unanswerable": "the last question cannot be answered, against answerable",
    "underspecified": "the last question is not clear, against answerable",
    "hallucinated": "this answer holds something made up, against not",
    "not satisfied": "the user rated this answer 3 or less of 5, against more",
}
"""Name of each claim, and what counts as yes and as no; other conversations are left out."""

OF_AN_ANSWER = frozenset({"hallucinated", "not satisfied"})
"""Claims about one answer; the others are about a whole conversation."""

SATISFIED = 4
"""Least rating that counts as satisfied: RecLLMSim asks users for a reason only below it."""

_ANSWERABILITY: Mapping[str, Mapping[str, bool]] = {
    "ANSWERABLE": {_EITHER: False, "unanswerable": False, "underspecified": False},
    "UNANSWERABLE": {_EITHER: True, "unanswerable": True},
    "UNDERSPECIFIED": {_EITHER: True, "underspecified": True},
}


def of_conversation(truth: Mapping[str, Any]) -> dict[str, bool]:
    """Returns the claims about a conversation that its truth decides."""
    found: dict[str, bool] = {}
    reward, success = truth.get("reward"), truth.get("success")
    if _is_number(reward):
        found["reward 0"] = reward <= 0
        found["reward below 1"] = reward < 1
    if _is_number(success):
        found["success below 1"] = success < 1
    complete = truth.get("complete")
    if isinstance(complete, bool):
        found["not complete"] = not complete
    found.update(_ANSWERABILITY.get(str(truth.get("answerability", "")).upper(), {}))
    return found


def judges_answers(truth: Mapping[str, Any]) -> bool:
    """Whether truth has judgements of single answers."""
    return any(isinstance(truth.get(name), list) for name in _OF_ANSWERS)


def of_answers(truth: Mapping[str, Any], answers: int) -> list[dict[str, bool]]:
    """Returns the claims about each of a conversation's assistant messages, in order.

    Args:
        answers: Number of assistant messages. A list of judgements of another length is ignored, since it is unknown
            which answers it is about.
    """
    found: list[dict[str, bool]] = [{} for _ in range(answers)]
    for name, read in _OF_ANSWERS.items():
        judged = truth.get(name)
        if isinstance(judged, list) and len(judged) == answers:
            for claims, one in zip(found, judged, strict=True):
                claims.update(read(one))
    return found


def _hallucinated(judged: Any) -> dict[str, bool]:
    return {"hallucinated": judged} if isinstance(judged, bool) else {}


def _not_satisfied(rated: Any) -> dict[str, bool]:
    return {"not satisfied": rated < SATISFIED} if _is_number(rated) else {}


_OF_ANSWERS: Mapping[str, Callable[[Any], dict[str, bool]]] = {
    "hallucination": _hallucinated,
    "satisfaction": _not_satisfied,
}
"""Fields of truth with a value for each answer, and the claim made from a value."""


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
