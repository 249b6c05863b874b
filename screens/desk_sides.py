"""One side of a merge proposal: what the group is called and how it fares, its members, its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.goal_rows import GoalGroup, MemberRow
from engine.text import one_line
from screens import goal_words
from screens.desk_place import Side
from screens.widgets.states import STATE_LOOKS
from screens.widgets.wrap import safe_text, wrap

AT_ONCE = 4
"""Members of either kind that are shown together."""
CHARACTERS = 2_000
LINES = 6
"""Lines that one member's text may fill."""

Piece = tuple[str, str]


class SidePane(Vertical):
    """Shows a side; the same group again keeps its place in the text."""

    DEFAULT_CSS = """
    SidePane { border: round $tone-frame; border-title-color: $tone-bright; border-title-style: bold; padding: 0 1; }
    SidePane:focus-within { border: round $tone-accent; }
    SidePane .head, SidePane .near { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    SidePane VerticalScroll { height: 1fr; }
    SidePane .members { height: auto; }
    """

    def __init__(self, letter: str, *, id: str) -> None:
        super().__init__(id=id)
        self._letter = letter
        self._group: GoalGroup | None = None
        self._side = Side((), ())
        self._page = 0

    def compose(self) -> ComposeResult:
        """Figures, members, neighbours."""
        yield Static(classes="head")
        with VerticalScroll():
            yield Static(classes="members")
        yield Static(classes="near")

    @property
    def page(self) -> int:
        """Which of the members are shown, from 0."""
        return self._page

    @property
    def shown(self) -> list[MemberRow]:
        """The members that are in sight."""
        return [*self._part(self._side.central), *self._part_doubtful()]

    def show(
        self, group: GoalGroup, side: Side, near: Sequence[tuple[str, float]], other: str
    ) -> None:
        """Shows a group with its members and neighbours; `other` is the label of the other side."""
        same = self._group is not None and self._group.id == group.id
        changed = not same or self._side != side
        self._group, self._side = group, side
        self.border_title = Content(f"{self._letter}  {goal_words.label_of(group, 200)}")
        self.query_one(".head", Static).update(goal_words.group_line(group))
        self.query_one(".near", Static).update(goal_words.near_line(near, other))
        if not same:
            self._page = 0
            self.query_one(VerticalScroll).scroll_home(animate=False)
        if changed:
            self._show_members()

    def swap(self) -> None:
        """Shows other members; after the last the first again."""
        most = max(len(self._side.central), len(self._side.doubtful))
        self._page = (self._page + 1) % max(1, -(-most // AT_ONCE))
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._show_members()

    def on_resize(self) -> None:
        """Breaks the lines again."""
        self.call_after_refresh(self._show_members)

    def _part(self, members: Sequence[MemberRow]) -> Sequence[MemberRow]:
        return members[self._page * AT_ONCE : (self._page + 1) * AT_ONCE]

    def _part_doubtful(self) -> list[MemberRow]:
        """The doubtful ones that do not stand among the central ones above them."""
        central = {member.conversation_id for member in self._part(self._side.central)}
        return [m for m in self._part(self._side.doubtful) if m.conversation_id not in central]

    def _show_members(self) -> None:
        if self._group is not None:
            width = self.query_one(VerticalScroll).scrollable_content_region.width
            self.query_one(".members", Static).update(self._members(max(8, width)))

    def _members(self, width: int) -> Content:
        first = self._page * AT_ONCE + 1
        size = self._group.size if self._group is not None else 0
        lines: list[Content] = []
        for name, members in (
            ("central", self._part(self._side.central)),
            ("doubtful", self._part_doubtful()),
        ):
            if not members:
                continue
            last = first + len(members) - 1
            told = f" {first}-{last} of {size:,}" if size > len(members) else ""
            lines.append(Content.assemble((name, "bold"), (told, "$tone-muted")))
            for member in members:
                lines += member_lines(member, width, doubtful=name == "doubtful")
        return Content("\n").join(lines)


def member_lines(member: MemberRow, width: int, *, doubtful: bool) -> list[Content]:
    """A member's state and text in lines with a hanging indent; a doubtful one with what it may belong to."""
    look = STATE_LOOKS[member.state]
    text = safe_text(" ".join(member.text[:CHARACTERS].split())) or "(no text)"
    broken = wrap(text, width - 2)
    if len(broken) > LINES:
        broken = [*broken[: LINES - 1], broken[LINES - 1][: width - 3] + "…"]
    lines = [
        Content.assemble((f"{look.glyph} ", look.tone_variable) if not at else "  ", line)
        for at, line in enumerate(broken)
    ]
    if doubtful and member.other:
        sign = "nearer to" if member.doubt > 1 else "near"
        told = one_line(f"{sign} {member.other}", max(8, width - 9))
        lines.append(Content.styled(f"  {told} · {member.doubt:.2f}", "$tone-muted"))
    return lines
