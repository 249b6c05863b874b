"""One side of a merge proposal: what the group is called and how it fares, its members, its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.records.goals import GoalGroup, MemberRow
from engine.text import one_line
from screens.goals import formatting
from screens.merge_review.cursor import Side
from screens.widgets.states import STATE_LOOKS
from screens.widgets.wrap import safe_text, wrap

FEWEST, MOST = 4, 12
"""Members of either kind that are shown together: as many as have room."""
LINES_EACH = 7
CHARACTERS = 2_000
LINES = 6
"""Lines that one member's text may fill."""

Told = tuple[MemberRow, int]
"""A member, and how many of those read say the same."""


class SidePane(Vertical):
    """Shows a side; the same group again keeps its place in the text."""

    DEFAULT_CSS = """
    SidePane { border: round $tone-frame; border-title-color: $tone-bright; border-title-style: bold; padding: 0 1; }
    SidePane:focus-within { border: round $tone-accent; }
    SidePane .head, SidePane .near { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    SidePane VerticalScroll { height: 1fr; scrollbar-gutter: stable; }
    SidePane .members { height: auto; }
    """

    def __init__(self, letter: str, *, id: str) -> None:
        super().__init__(id=id)
        self._letter = letter
        self._group: GoalGroup | None = None
        self._side = Side((), ())
        self._central: list[Told] = []
        self._doubtful: list[Told] = []
        self._page = 0

    def compose(self) -> ComposeResult:
        """Figures, members, neighbours."""
        yield Static(classes="head")
        with VerticalScroll():
            yield Static(classes="members")
        yield Static(classes="near")

    @property
    def shown(self) -> list[MemberRow]:
        """The members that are in sight."""
        return [member for member, _ in (*self._part(self._central), *self._part_doubtful())]

    @property
    def _at_once(self) -> int:
        return min(max(self.query_one(VerticalScroll).size.height // LINES_EACH, FEWEST), MOST)

    def show(
        self, group: GoalGroup, side: Side, near: Sequence[tuple[str, float]], other: str
    ) -> None:
        """Shows a group with its members and neighbours; `other` is the label of the other side."""
        same = self._group is not None and self._group.id == group.id
        changed = not same or self._side != side
        self._group, self._side = group, side
        self._central, self._doubtful = distinct(side.central), distinct(side.doubtful)
        self.border_title = Content(f"{self._letter}  {formatting.label_of(group, 200)}")
        self.query_one(".head", Static).update(formatting.group_line(group))
        self.query_one(".near", Static).update(formatting.near_line(near, other))
        if not same:
            self._page = 0
            self.query_one(VerticalScroll).scroll_home(animate=False)
        if changed:
            self._show_members()

    def swap(self) -> None:
        """Shows other members; after the last the first again."""
        most = max(len(self._central), len(self._doubtful))
        self._page = (self._page + 1) % max(1, -(-most // self._at_once))
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._show_members()

    def on_resize(self) -> None:
        """Breaks the lines again."""
        self.call_after_refresh(self._show_members)

    def _part(self, members: Sequence[Told]) -> Sequence[Told]:
        return members[self._page * self._at_once : (self._page + 1) * self._at_once]

    def _part_doubtful(self) -> list[Told]:
        """The doubtful ones that do not stand among the central ones above them."""
        central = {member.conversation_id for member, _ in self._part(self._central)}
        return [
            told for told in self._part(self._doubtful) if told[0].conversation_id not in central
        ]

    def _show_members(self) -> None:
        if self._group is not None:
            width = self.query_one(VerticalScroll).scrollable_content_region.width
            self.query_one(".members", Static).update(self._members(max(8, width)))

    def _members(self, width: int) -> Content:
        size = self._group.size if self._group is not None else 0
        lines: list[Content] = []
        for name, members, known in (
            ("central", self._part(self._central), self._central),
            ("doubtful", self._part_doubtful(), self._doubtful),
        ):
            if not members:
                continue
            first = known.index(members[0]) + 1
            told = f" {first}-{first + len(members) - 1} of {size:,}" if size > len(members) else ""
            lines.append(Content.assemble((name, "bold"), (told, "$tone-muted")))
            for member, times in members:
                lines += member_lines(member, width, doubtful=name == "doubtful", times=times)
        return Content("\n").join(lines)


def distinct(members: Sequence[MemberRow]) -> list[Told]:
    """The members whose texts differ in more than case and spaces, each with how many say the same."""
    found: dict[str, Told] = {}
    for member in members:
        key = " ".join(member.text.casefold().split())
        first, times = found.get(key, (member, 0))
        found[key] = (first, times + 1)
    return list(found.values())


def member_lines(member: MemberRow, width: int, *, doubtful: bool, times: int = 1) -> list[Content]:
    """A member's state and text in lines with a hanging indent; a doubtful one with what it may belong to.

    Args:
        times: How many say the same.
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
    if times > 1:
        lines[-1] = Content.assemble(lines[-1], (f"  ×{times}", "$tone-muted"))
    if doubtful and member.other:
        sign = "nearer to" if member.doubt > 1 else "near"
        told = one_line(f"{sign} {member.other}", max(8, width - 9))
        lines.append(Content.styled(f"  {told} · {member.doubt:.2f}", "$tone-muted"))
    return lines
