"""Goal groups as text: label, rate of ended conversations, stability; their members, and decisions on them.

The stability of a group is its mean Jaccard similarity with the groups that come of samples of the conversations. The
doubt of a member is how near it is to another group: above 1 it is nearer to that one than to its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from textual.content import Content

from engine.base import number_format
from engine.base.conversation import State
from engine.base.text import one_line
from engine.completeness.records import StateCounts
from engine.conversations.filter_fields import ANY_VALUE, NO_VALUE, NOVEL
from engine.goals.records import DecisionKind, GoalDecision, GoalGroup, MemberRow
from screens.widgets.formatting import STATE_LOOKS, rate_piece
from screens.widgets.messages import safe_text, wrap

Piece = str | tuple[str, str]
"""Text, or text with its style."""
UNSTABLE = 0.6
"""A group whose mean Jaccard similarity under resampling is lower is marked as unstable."""
UNSTABLE_SIGN = "▲"
"""The sign of a group that is not stable under resampling."""
MAX_MEMBER_CHARACTERS = 2_000
"""Most characters that are shown of the text of one member."""
MAX_MEMBER_LINES = 6
"""Lines that the text of one member may fill."""
MAX_SENTENCE_CHARACTERS = 300
"""Most characters that are shown of the sentence on a decision."""
GLYPHS: Mapping[DecisionKind, str] = {
    "merge": "⋈",
    "apart": "≠",
    "never": "⊘",
    "split": "⋔",
    "move": "→",
    "rename": "✎",
    "pin": "◉",
    "unpin": "◌",
    "theme": "⊂",
    "agree": "✓",
}
"""A sign for each kind of decision."""


def label_of(group: GoalGroup, limit: int = 80) -> str:
    """Returns the label of a group in at most `limit` safe characters; its id where it has no label."""
    return one_line(group.label, limit) or f"(no label, {one_line(group.id, 20)})"


def goal_value(group: GoalGroup, groups: Iterable[GoalGroup]) -> str:
    """Returns the value of the filter field `goal` for a group: its label, or its id where others have the same label
    or it has none.
    """
    label = group.label.lower()
    namesakes = sum(other.label.lower() == label for other in groups)
    return (
        group.label
        if namesakes == 1 and label not in ("", ANY_VALUE, NO_VALUE, NOVEL)
        else group.id
    )


def has_words(group: GoalGroup, words: Iterable[str]) -> bool:
    """Returns whether each of these lower-case words is in the label or the description of a group."""
    text = f"{group.label} {group.description}".lower()
    return all(word in text for word in words)


def rate_pieces(states: StateCounts) -> list[tuple[str, str]]:
    """Returns the rate of ended conversations with its interval and coverage, `● 68% [64, 72] · 96% scored`; the rate
    is faint where it is of few.
    """
    scored = states.scored
    look = STATE_LOOKS[State.COMPLETE]
    if not scored:
        unscored = STATE_LOOKS[State.UNSCORED]
        return [(f"{unscored.glyph} {unscored.word}", unscored.tone_variable)]
    shown, tone = rate_piece(states.above, scored, look.tone_variable)
    pieces = [(f"{look.glyph} {shown}", tone)]
    if states.unscored:
        share = scored / (scored + states.unscored)
        pieces.append((f" · {100 * share:.0f}% scored", "$tone-muted"))
    return pieces


def state_bar(states: StateCounts) -> list[tuple[str, str]]:
    """Returns how many conversations of all are in each state, as a bar in pieces of text and component class. The
    heights of the cells say the state without color; what is not scored is a dotted line.
    """
    total = states.scored + states.unscored
    scored_cells = round(states.scored / max(1, total) * number_format.BAR_WIDTH)
    dots = number_format.BAR_WIDTH - scored_cells if total else 0
    pieces, end, before = [], 0, 0
    for state, block, number in (
        (State.COMPLETE, "▇", states.complete),
        (State.BORDERLINE, "▄", states.borderline),
        (State.INCOMPLETE, "▁", states.incomplete),
    ):
        end += number
        cells = round(end / max(1, states.scored) * scored_cells)
        pieces.append((block * (cells - before), STATE_LOOKS[state].tone_class))
        before = cells
    return [*pieces, ("·" * dots, STATE_LOOKS[State.UNSCORED].tone_class)]


def group_line(group: GoalGroup) -> Content:
    """Returns the size, share, rate of ended conversations and stability of a group on one line."""
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


class DistinctMember(NamedTuple):
    """A member, and the number of members with its text, itself included."""

    member: MemberRow
    copies: int


def distinct(members: Sequence[MemberRow]) -> list[DistinctMember]:
    """Returns the first of the members with each text, in order; texts that differ in case and spaces alone are the
    same.
    """
    members_by_text: dict[str, DistinctMember] = {}
    for member in members:
        key = " ".join(member.text.casefold().split())
        first, copies = members_by_text.get(key, (member, 0))
        members_by_text[key] = DistinctMember(first, copies + 1)
    return list(members_by_text.values())


def member_lines(
    member: MemberRow, width: int, *, doubtful: bool, copies: int = 1
) -> list[Content]:
    """Returns the state and the text of a member in lines of at most `width` cells.

    Args:
        doubtful: Names the nearest other group and the doubt below the text.
        copies: Members with this text; shown where there are several.
    """
    look = STATE_LOOKS[member.state]
    text = safe_text(" ".join(member.text[:MAX_MEMBER_CHARACTERS].split())) or "(no text)"
    text_lines = wrap(text, width - len("● "))
    if len(text_lines) > MAX_MEMBER_LINES:
        *first_lines, last_line = text_lines[:MAX_MEMBER_LINES]
        text_lines = [*first_lines, last_line[: width - len("● …")] + "…"]
    lines = [
        Content.assemble((f"{look.glyph} ", look.tone_variable) if not index else "  ", line)
        for index, line in enumerate(text_lines)
    ]
    if copies > 1:
        lines[-1] = Content.assemble(lines[-1], (f"  ×{copies}", "$tone-muted"))
    if doubtful and member.other:
        nearness = "nearer to" if member.doubt > 1 else "near"
        # Two cells before the label and seven after it: ` · 0.83`.
        label = one_line(f"{nearness} {member.other}", max(8, width - 9))
        lines.append(Content.styled(f"  {label} · {member.doubt:.2f}", "$tone-muted"))
    return lines


def decision_text(decision: GoalDecision) -> str:
    """Returns what a decision did, `merged “A” and “B” into “C”`; if it is shown for a whole act, what the act did."""
    return one_line(decision.text, MAX_SENTENCE_CHARACTERS)
