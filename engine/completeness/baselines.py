"""Baselines for completeness that read no model: patterns in the last words, and where a boundary lies.

A boundary is a step of a log after which the conversation could end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from engine.base.arrays import Ints
from engine.base.conversation import LogPiece
from engine.completeness import probe
from engine.completeness.probe import CrossFit

SEARCHED_CHARACTERS = 400
"""Number of characters at the end of a step that are searched."""

INVERSE_STRENGTHS = (1.0,)
"""Inverse strength of the regularization: three numbers need hardly any."""


def _any_of(*patterns: str) -> re.Pattern[str]:
    """Returns a pattern that matches where one of these does, whatever the case."""
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


_USER_FAREWELL = _any_of(
    r"\b(?:good ?)?bye\b|\bgood ?night\b|\bsee (?:you|ya)\b|\bhave a \w+ (?:day|one|night|evening|weekend)\b",
    r"\b(?:thank(?:s| you)|thx|cheers|appreciate)\b",
    r"\bthat(?:'?s| is| was| will be| would be|'?ll be) (?:all|it|everything)\b",
    r"\bno(?:pe)?,? that'?s\b|\bnothing (?:else|more)\b|\b(?:i'?m|we'?re) (?:all set|done|good)\b",
)
"""Farewells and thanks of a user."""

_ASSISTANT_FAREWELL = _any_of(
    r"\b(?:good ?)?bye\b|\btake care\b|\bdrive safe|\bsafe travels\b",
    r"\byou(?:'?re| are) (?:very |most |quite )?welcome\b|\bmy pleasure\b|\bno problem\b|\banytime\b",
    r"\b(?:glad|happy|pleased) (?:\w+ ){0,3}(?:help|assist|be of)",
    r"\b(?:have|enjoy) (?:a|your) (?:\w+ ){0,2}"
    r"(?:day|time|night|evening|weekend|trip|stay|flight|ride|meal|journey|one)\b",
    r"\b(?:further|more|other|else)\b[^.?!\n]*\bfeel free to\b",
)
"""Farewells of an assistant."""

_SAYS_DONE = _any_of(
    r"\b(?:now|successfully|been) (?:\w+ ){0,2}(?:reserved|booked|cancell?ed)\b",
    r"\btask (?:is )?(?:complete|completed|done)\b|\bfinal answer\b",
    r"\bclick\[buy now\]|\b(?:finish|submit|answer)[\[(]|^action:\s*(?:finish|submit|answer|done)\b",
    r"\"name\": \"(?:transfer_to_human_agents|finish|submit|done)\"",
)
"""Words of an assistant, or actions of an agent, that say the task is done."""

_ANYTHING_ELSE = _any_of(r"\b(?:anything|something) (?:else|more)\b")
"""The question whether there is anything else, which does not keep a conversation open."""


class Position(NamedTuple):
    """Where a boundary lies.

    Attributes:
        number: Number of the boundary in its conversation, from 0.
        log_characters: Number of characters of the log up to it.
        step_characters: Number of characters of its last step.
    """

    number: int
    log_characters: int
    step_characters: int


def sounds_complete(steps: Sequence[LogPiece]) -> bool:
    """Returns whether the end of a log looks like the end of a conversation.

    It does when the last assistant step after the last user step has a farewell or says that the task is done, or when
    that user step says goodbye or thanks and the assistant asks nothing except whether there is anything else.

    It does not see what is removed from a log because it would give the end away, such as actions that only end an
    episode, and it knows no language but English.
    """
    user = answer = ""
    for step in reversed(steps):
        if step.role == "user":
            user = step.body[-SEARCHED_CHARACTERS:]
            break
        if step.role == "assistant" and not answer:
            answer = step.body[-SEARCHED_CHARACTERS:]
    if _ASSISTANT_FAREWELL.search(answer) or _SAYS_DONE.search(answer):
        return True
    asks_more = answer.rstrip().endswith("?") and not _ANYTHING_ELSE.search(answer)
    return bool(_USER_FAREWELL.search(user)) and not asks_more


def cross_fit_by_position(
    positions: Sequence[Sequence[Position]],
    group_ids: Ints,
    on_fold: Callable[[], None] = lambda: None,
) -> CrossFit:
    """Returns scores of every boundary by its position alone, made like the probe: out of fold and calibrated.

    Args:
        positions: The boundaries of each conversation, in order.
        group_ids: The group of each conversation, shape (conversations,); nearly equal ones share it.
        on_fold: See `probe.cross_fit`.

    Returns:
        Scores of all boundaries, those of each conversation in order.

    Raises:
        ValueError: There are too few groups for the folds.
    """
    counts = [len(conversation) for conversation in positions]
    rows = np.array(
        [position for conversation in positions for position in conversation], dtype=np.float32
    )
    is_end = np.concatenate([np.arange(count) == count - 1 for count in counts])
    return probe.cross_fit(
        np.log1p(rows), is_end, np.repeat(group_ids, counts), on_fold, INVERSE_STRENGTHS
    )
