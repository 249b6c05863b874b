"""Baselines for completeness that read no model: patterns in the last words, and where a boundary lies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from engine.base.conversation import LogPiece
from engine.completeness import probe
from engine.completeness.probe import CrossFit, Ints

TAIL = 400
"""Number of characters at the end of a step that are searched."""


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


_USER = _any_of(
    r"\b(?:good ?)?bye\b|\bgood ?night\b|\bsee (?:you|ya)\b|\bhave a \w+ (?:day|one|night|evening|weekend)\b",
    r"\b(?:thank(?:s| you)|thx|cheers|appreciate)\b",
    r"\bthat(?:'?s| is| was| will be| would be|'?ll be) (?:all|it|everything)\b",
    r"\bno(?:pe)?,? that'?s\b|\bnothing (?:else|more)\b|\b(?:i'?m|we'?re) (?:all set|done|good)\b",
)
"""Farewells and thanks of a user."""

_FAREWELL = _any_of(
    r"\b(?:good ?)?bye\b|\btake care\b|\bdrive safe|\bsafe travels\b",
    r"\byou(?:'?re| are) (?:very |most |quite )?welcome\b|\bmy pleasure\b|\bno problem\b|\banytime\b",
    r"\b(?:glad|happy|pleased) (?:\w+ ){0,3}(?:help|assist|be of)",
    r"\b(?:have|enjoy) (?:a|your) (?:\w+ ){0,2}"
    r"(?:day|time|night|evening|weekend|trip|stay|flight|ride|meal|journey|one)\b",
    r"\b(?:further|more|other|else)\b[^.?!\n]*\bfeel free to\b",
)
"""Farewells of an assistant."""

_DONE = _any_of(
    r"\b(?:now|successfully|been) (?:\w+ ){0,2}(?:reserved|booked|cancell?ed)\b",
    r"\btask (?:is )?(?:complete|completed|done)\b|\bfinal answer\b",
    r"\bclick\[buy now\]|\b(?:finish|submit|answer)[\[(]|^action:\s*(?:finish|submit|answer|done)\b",
    r"\"name\": \"(?:transfer_to_human_agents|finish|submit|done)\"",
)
"""Words of an assistant, or actions of an agent, that say the task is done."""

_ANYTHING_ELSE = _any_of(r"\b(?:anything|something) (?:else|more)\b")


def sounds_complete(steps: Sequence[LogPiece]) -> bool:
    """Whether the end of a log looks like the end of a conversation.

    True when the last assistant step has a farewell or says that the task is done, or when the user said goodbye or
    thanks just before and the assistant asks nothing except whether there is anything else.

    Not covered: what the leak guard keeps from the model, such as actions that only end an episode; languages other
    than English.
    """
    user = answer = ""
    for step in reversed(steps):
        if step.role == "user":
            user = step.body[-TAIL:]
            break
        if step.role == "assistant" and not answer:
            answer = step.body[-TAIL:]
    if _FAREWELL.search(answer) or _DONE.search(answer):
        return True
    asked = answer.rstrip().endswith("?") and not _ANYTHING_ELSE.search(answer)
    return bool(_USER.search(user)) and not asked


STRENGTHS = (1.0,)
"""Three numbers need hardly any regularisation."""

Position = tuple[int, int, int]
"""Number of the boundary in its conversation from 0, characters of the log up to it, characters of its last step."""


def by_position(
    curves: Sequence[Sequence[Position]], group: Ints, on_fold: Callable[[], None] = lambda: None
) -> CrossFit:
    """Scores every boundary from its position, made like the probe: out of fold and calibrated.

    Args:
        curves: The boundaries of each conversation, in order.
        group: The group of each conversation; nearly equal ones share it.
        on_fold: See `probe.cross_fit`.

    Returns:
        Scores of all boundaries, those of each conversation in order.

    Raises:
        ValueError: There are too few groups for the folds.
    """
    counts = [len(curve) for curve in curves]
    rows = np.array([place for curve in curves for place in curve], dtype=np.float32)
    end = np.concatenate([np.arange(count) == count - 1 for count in counts])
    return probe.cross_fit(np.log1p(rows), end, np.repeat(group, counts), on_fold, STRENGTHS)
