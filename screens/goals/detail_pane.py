"""The pane beside the list that shows one group: its figures, its members, and the groups it was merged from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import display_safe
from engine.goals.records import GoalGroup, GroupExamples
from engine.goals.service.groups import GoalService
from screens.goals.formatting import is_theme
from screens.widgets.groups import (
    UNSTABLE,
    UNSTABLE_SIGN,
    distinct,
    group_line,
    label_of,
    member_lines,
)

SHOWN_MEMBERS = 5
"""Members shown of each kind, central and doubtful."""
READ_MEMBERS = 15
"""Members read of each kind; members with the same text are shown once, so more are read than shown."""
MAX_DESCRIPTION_CHARACTERS = 1_000
"""Most characters that are shown of a description."""


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """What the pane shows of a group; `parts` are the groups that a merge or split made it from."""

    group: GoalGroup
    examples: GroupExamples
    parts: tuple[GoalGroup, ...]


def read_detail(goals: GoalService, group: GoalGroup, listed: Sequence[GoalGroup]) -> GroupDetail:
    """Returns a group with its examples and its parts; not quick. `listed` has the goals of a theme, with the counts of
    the list: under a filter, of what matches.
    """
    if is_theme(group):
        parts = tuple(goal for goal in listed if goal.id in group.made_of)
        return GroupDetail(group, GroupExamples((), ()), parts)
    parts = tuple(part for key in group.made_of if (part := goals.group(key)) is not None)
    return GroupDetail(group, goals.examples(group.id, READ_MEMBERS), parts)


class DetailPane(VerticalScroll):
    """Shows a group; another group is shown from its first line."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes)
        self._detail: GroupDetail | None = None

    def compose(self) -> ComposeResult:
        """Yields one text."""
        yield Static(id="about")

    def show(self, detail: GroupDetail) -> None:
        """Shows a group; the same group again keeps the scroll position."""
        same = self._detail is not None and self._detail.group.id == detail.group.id
        self._detail = detail
        self.border_title = Content(label_of(detail.group, 200))
        self._break_lines()
        if not same:
            self.scroll_home(animate=False)

    def on_resize(self) -> None:
        """Breaks the lines for the new width, also when the pane is first shown."""
        self.call_after_refresh(self._break_lines)

    def _break_lines(self) -> None:
        """Draws the group that is shown in the present width."""
        if self._detail is not None:
            width = max(20, self.scrollable_content_region.width)
            self.query_one("#about", Static).update(detail_content(self._detail, width))


def detail_content(detail: GroupDetail, width: int) -> Content:
    """Returns the figures of a group, its description, what it was made of, its members; lines of at most `width`
    cells.
    """
    group = detail.group
    lines = [group_line(group)]
    if group.description.strip() and not is_theme(group):
        text = display_safe(" ".join(group.description[:MAX_DESCRIPTION_CHARACTERS].split()))
        lines.append(Content.styled(text, "$tone-model"))
    if group.support is not None:
        member_count = round(group.support * group.members_read)
        lines.append(
            Content.styled(
                f"the words of its name are in {member_count:,} of {group.members_read:,}",
                "$tone-muted",
            )
        )
    if not is_theme(group):
        spread = f"spread {number_format.probability(group.spread)}"
        if group.leaves is not None:
            spread += f" · {group.leaves:,.0f} leaves in the median tree"
        lines.append(Content.styled(spread, "$tone-muted"))
    if group.stability is not None and group.stability < UNSTABLE:
        lines.append(
            Content.styled(
                f"{UNSTABLE_SIGN} not stable under resampling: decide on it last, or split it",
                "$tone-borderline",
            )
        )
    if detail.parts:
        lines.append(Content.styled("goals" if is_theme(group) else "made of", "bold"))
        lines += [
            Content.assemble((f"{part.size:>7,}  ", "$tone-muted"), (label_of(part), ""))
            for part in detail.parts
        ]
    central = distinct(detail.examples.central)[:SHOWN_MEMBERS]
    shown = {member.conversation_id for member, _ in central}
    doubtful = [
        member
        for member in distinct(detail.examples.doubtful)
        if member.member.conversation_id not in shown
    ]
    for name, members in (("central", central), ("doubtful", doubtful[:SHOWN_MEMBERS])):
        if members:
            lines.append(Content.styled(name, "bold"))
        for member, copies in members:
            lines += member_lines(member, width, doubtful=name == "doubtful", copies=copies)
    return Content("\n").join(lines)
