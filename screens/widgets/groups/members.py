"""Members of a goal group as text: equal texts once, lines with a hanging indent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from engine.base.text import one_line
from engine.goals.records import MemberRow
from screens.widgets.states import STATE_LOOKS
from screens.widgets.text.wrap import safe_text, wrap

CHARACTERS = 2_000
LINES = 6
"""Lines that the text of one member may fill."""


class DistinctMember(NamedTuple):
    """A member, and the number of members with its text, itself included."""

    member: MemberRow
    copies: int


def distinct(members: Sequence[MemberRow]) -> list[DistinctMember]:
    """The first of the members with each text, in order; texts that differ in case and spaces alone are the same."""
    found: dict[str, DistinctMember] = {}
    for member in members:
        key = " ".join(member.text.casefold().split())
        first, copies = found.get(key, (member, 0))
        found[key] = DistinctMember(first, copies + 1)
    return list(found.values())


def member_lines(
    member: MemberRow, width: int, *, doubtful: bool, copies: int = 1
) -> list[Content]:
    """The state and the text of a member in lines of at most `width` cells.

    Args:
        doubtful: Names the nearest other group and the doubt below the text.
        copies: Members with this text; shown where there are several.
    """
    look = STATE_LOOKS[member.state]
    text = safe_text(" ".join(member.text[:CHARACTERS].split())) or "(no text)"
    broken = wrap(text, width - 2)
    if len(broken) > LINES:
        broken = [*broken[: LINES - 1], broken[LINES - 1][: width - 3] + "…"]
    lines = [
        Content.assemble((f"{look.glyph} ", look.tone_variable) if not at else "  ", line)
        for at, line in enumerate(broken)
    ]
    if copies > 1:
        lines[-1] = Content.assemble(lines[-1], (f"  ×{copies}", "$tone-muted"))
    if doubtful and member.other:
        nearness = "nearer to" if member.doubt > 1 else "near"
        label = one_line(f"{nearness} {member.other}", max(8, width - 9))
        lines.append(Content.styled(f"  {label} · {member.doubt:.2f}", "$tone-muted"))
    return lines
