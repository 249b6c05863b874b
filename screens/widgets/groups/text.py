"""A goal group as text: its label, its completeness with interval and coverage, its stability."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content

from engine.base import number_format
from engine.base.outcomes import (
    State,
)
from engine.base.text import one_line
from engine.completeness.records.scores import (
    StateCounts,
)
from engine.conversations.filter_fields import ANY, NONE, NOVEL
from engine.goals.records import GoalGroup
from screens.widgets.groups.decisions import GLYPHS
from screens.widgets.states import STATE_LOOKS

Piece = str | tuple[str, str]
"""Text, or text with its style."""

UNSTABLE = 0.6
"""A group whose mean Jaccard similarity under resampling is lower is marked as unstable."""
UNSTABLE_SIGN = "▲"


def label_of(group: GoalGroup, limit: int = 80) -> str:
    """The label of a group in at most `limit` safe characters; its id where it has no label."""
    return one_line(group.label, limit) or f"(no label, {one_line(group.id, 20)})"


def goal_value(group: GoalGroup, groups: Iterable[GoalGroup]) -> str:
    """The value of the filter field `goal` for a group: its label, or its id where others have the same label or it has
    none."""
    label = group.label.lower()
    same = sum(other.label.lower() == label for other in groups)
    return group.label if same == 1 and label not in ("", ANY, NONE, NOVEL) else group.id


def has_words(group: GoalGroup, words: Iterable[str]) -> bool:
    """Whether each of these lower-case words is in the label or the description of a group."""
    text = f"{group.label} {group.description}".lower()
    return all(word in text for word in words)


def rate_pieces(states: StateCounts) -> list[Piece]:
    """The rate of complete conversations with its interval and coverage, `● 68% [64, 72] · 96% scored`."""
    number = states.scored
    look = STATE_LOOKS[State.COMPLETE]
    if not number:
        unscored = STATE_LOOKS[State.UNSCORED]
        return [(f"{unscored.glyph} none scored", unscored.tone_variable)]
    shown = number_format.rate(states.above, number)
    pieces: list[Piece] = [(f"{look.glyph} {shown}", look.tone_variable)]
    if states.unscored:
        share = number / (number + states.unscored)
        pieces.append((f" · {100 * share:.0f}% scored", "$tone-muted"))
    return pieces


def group_line(group: GoalGroup) -> Content:
    """Size, share, completeness and stability of a group on one line."""
    pieces: list[Piece] = [
        (f"{group.size:,}", "bold"),
        (f" · {100 * group.share:.1f}%  ", "$tone-muted"),
        *rate_pieces(group.states),
    ]
    if group.stability is not None:
        figure = number_format.probability(group.stability)
        pieces.append(
            (f"  {UNSTABLE_SIGN} unstable {figure}", "$tone-borderline")
            if group.stability < UNSTABLE
            else (f"  stable {figure}", "$tone-muted")
        )
    if group.pinned:
        pieces.append((f"  {GLYPHS['pin']} pinned", "bold $tone-accent"))
    return Content.assemble(*pieces)
