"""One group of a merge proposal: its figures, its members, the groups nearest to it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.goals.records import GoalGroup, MemberRow
from screens.merge_review.cursor import SideMembers
from screens.merge_review.formatting import near_line
from screens.widgets.groups import DistinctMember, distinct, group_line, label_of, member_lines

FEWEST = 4
"""Least number of members of either kind on one page; more where they fit."""


class SidePane(Vertical):
    """Shows a group with its members; the same group again keeps the scroll position."""

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
        self._members = SideMembers((), ())
        self._central: list[DistinctMember] = []
        self._doubtful: list[DistinctMember] = []
        self._page = 0
        self._page_size = FEWEST

    def compose(self) -> ComposeResult:
        """Figures, members, nearest groups."""
        yield Static(classes="head")
        with VerticalScroll():
            yield Static(classes="members")
        yield Static(classes="near")

    @property
    def shown(self) -> list[MemberRow]:
        """The members on the page that is shown."""
        pages = (*self._on_page(self._central), *self._doubtful_on_page())
        return [found.member for found in pages]

    def show(
        self, group: GoalGroup, members: SideMembers, near: Sequence[tuple[str, float]], other: str
    ) -> None:
        """Shows a group with its members and the groups nearest to it; `other` is the label of the other side."""
        same = self._group is not None and self._group.id == group.id
        changed = not same or self._members != members
        self._group, self._members = group, members
        self._central, self._doubtful = distinct(members.central), distinct(members.doubtful)
        self.border_title = Content(f"{self._letter}  {label_of(group, 200)}")
        self.query_one(".head", Static).update(group_line(group))
        self.query_one(".near", Static).update(near_line(near, other))
        if not same:
            self._page = 0
            self.query_one(VerticalScroll).scroll_home(animate=False)
        if changed:
            self._show_members()

    def swap(self) -> None:
        """Shows the next page of members, after the last page the first."""
        self._page = (self._page + 1) % self._pages
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._show_members()

    def on_resize(self) -> None:
        """Breaks the lines for the new width."""
        self.call_after_refresh(self._show_members)

    @property
    def _pages(self) -> int:
        most = max(len(self._central), len(self._doubtful))
        return max(1, -(-most // self._page_size))

    def _on_page(self, members: Sequence[DistinctMember]) -> Sequence[DistinctMember]:
        return members[self._page * self._page_size : (self._page + 1) * self._page_size]

    def _doubtful_on_page(self) -> list[DistinctMember]:
        """The doubtful members of the page, without those shown as central above them."""
        central = {found.member.conversation_id for found in self._on_page(self._central)}
        return [
            found
            for found in self._on_page(self._doubtful)
            if found.member.conversation_id not in central
        ]

    def _show_members(self) -> None:
        if self._group is not None:
            room = self.query_one(VerticalScroll).scrollable_content_region
            width = max(8, room.width)
            self._page_size = self._fitting(width, room.height)
            self._page %= self._pages
            self.query_one(".members", Static).update(self._content(width))

    def _fitting(self, width: int, height: int) -> int:
        """The most members of either kind that fit on the first page, at least `FEWEST`."""
        central = [len(member_lines(m, width, doubtful=False, copies=n)) for m, n in self._central]
        doubtful = {
            one.member.conversation_id: len(
                member_lines(one.member, width, doubtful=True, copies=one.copies)
            )
            for one in self._doubtful
        }
        size = FEWEST
        while size < max(len(central), len(doubtful)):
            above = {one.member.conversation_id for one in self._central[: size + 1]}
            below = [n for key, n in list(doubtful.items())[: size + 1] if key not in above]
            if sum(central[: size + 1]) + sum(below) + 1 + bool(below) > height:
                break
            size += 1
        return size

    def _content(self, width: int) -> Content:
        size = self._group.size if self._group is not None else 0
        lines: list[Content] = []
        for name, members, whole in (
            ("central", self._on_page(self._central), self._central),
            ("doubtful", self._doubtful_on_page(), self._doubtful),
        ):
            if not members:
                continue
            first = whole.index(members[0]) + 1
            last = first + len(members) - 1
            which = f" {first}-{last} of {size:,}" if size > len(members) else ""
            lines.append(Content.assemble((name, "bold"), (which, "$tone-muted")))
            for member, copies in members:
                lines += member_lines(member, width, doubtful=name == "doubtful", copies=copies)
        return Content("\n").join(lines)
