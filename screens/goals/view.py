"""The goals without their keys: reads the groups, lists them, and shows what is under the cursor."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from screens.goals.undo import GoalActsScreen
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine import number_format
from engine.records.goals import ClusteringRow, GoalGroup, MapPoint, MemberRow
from engine.services.services import Services
from engine.text import display_safe, one_line
from screens.goals import formatting
from screens.goals.columns import Listed, group_columns, ordered
from screens.goals.group_map import LETTERS, Dot, GroupMap
from screens.merge_review.group_pane import distinct, member_lines
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.find_line import FindLine
from screens.widgets.row_table import RowTable

DETAIL_MEMBERS = 5
DETAIL_READ = 15
DESCRIPTION_CHARACTERS = 1_000
TEXTS = {
    "first-user": "the first user message",
    "all-user": "all user messages",
    "all": "what both sides wrote",
    "summary": "the model's summary",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """What is shown of one group beside the list."""

    group: GoalGroup
    central: tuple[MemberRow, ...]
    doubtful: tuple[MemberRow, ...]
    parts: tuple[GoalGroup, ...]


class GoalsView(GoalActsScreen):
    """A table of groups beside the one under the cursor and the map of all."""

    MODE = "goals"

    def __init__(self, services: Services, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.goals = services.goals
        self.clustering: ClusteringRow | None = None
        self.groups: Sequence[GoalGroup] = ()
        self.sort = ("size", True)
        self._words: list[str] = []
        self._keys: dict[str, int] = {}  # numbers that stay with a group while others come and go
        self._by_key: dict[int, GoalGroup] = {}
        self.table = RowTable[Listed](
            group_columns(lambda: max((group.share for group in self.groups), default=0.0)),
            self._fetch,
            lambda row: row[0],
            id="groups",
        )

    def compose_body(self) -> ComposeResult:
        """Summary, table, detail and map, find line; or how to make a first clustering."""
        yield Static(id="summary")
        with Horizontal(id="main"):
            yield self.table
            with Vertical(id="side"):
                yield DetailPane(id="detail", classes="section")
                yield GroupMap(id="map")
        yield FindLine()
        yield Static(classes="empty")

    # Reading

    def refresh_data(self) -> None:
        """Reads the groups as they stand; the map after them."""
        goals = self.goals

        def read() -> tuple[ClusteringRow | None, list[GoalGroup]]:
            shown = goals.shown()
            return shown, [] if shown is None else goals.groups()

        self.in_background(read, lambda found: self._show(*found), group="goals")

    def _show(self, shown: ClusteringRow | None, groups: list[GoalGroup]) -> None:
        self.clustering, self.groups = shown, groups
        for group in groups:
            self._keys.setdefault(group.id, len(self._keys))
        self._by_key = {self._keys[group.id]: group for group in groups}
        self.set_class(shown is None, "-empty")
        if shown is None:
            self.query_one(".empty", Static).update(_empty_content())
            self.query_one("#summary", Static).update("")
            return
        self.show_order()
        if self.focused is None:  # it was hidden while there was nothing to list
            self.table.focus()
        self.in_background(self.goals.map, self._show_map, group="map")

    def show_order(self) -> None:
        """Lists the groups that hold the words that are looked for, in the order that is chosen."""
        found = [
            group
            for group in ordered(self.groups, *self.sort)
            if all(word in f"{group.label} {group.description}".lower() for word in self._words)
        ]
        self.table.show(array("q", (self._keys[group.id] for group in found)), self.sort)
        if self._words:
            self.query_one(FindLine).say(f"{len(found):,} of {len(self.groups):,}")
        if self.clustering is not None:
            summary = summary_content(self.clustering, self.groups)
            self.query_one("#summary", Static).update(summary)
        self._read_detail()

    def _fetch(self, ids: Sequence[int]) -> list[Listed]:
        return [(key, self._by_key[key]) for key in ids if key in self._by_key]

    @property
    def group(self) -> GoalGroup | None:
        """The group under the cursor."""
        key = self.table.cursor_id
        return None if key is None else self._by_key.get(key)

    def put_cursor(self, group_id: str) -> None:
        """Puts the cursor on a group that is listed."""
        if group_id in self._keys:
            self.table.move_to_id(self._keys[group_id])

    # Beside the list

    def _show_map(self, points: list[MapPoint]) -> None:
        largest = sorted(self.groups, key=lambda group: -group.size)[: len(LETTERS)]
        names = [(group.id, formatting.label_of(group)) for group in largest]
        self.query_one(GroupMap).show([Dot(p.x, p.y, p.group) for p in points], names)

    def on_row_table_highlighted(self) -> None:
        """Shows the group under the cursor."""
        self._read_detail()

    def _read_detail(self) -> None:
        group, goals = self.group, self.goals
        self.query_one(GroupMap).point_to(None if group is None else group.id)
        if group is None:
            return

        def read() -> Detail:
            parts = [found for part in group.made_of if (found := goals.group(part)) is not None]
            return Detail(
                group,
                tuple(goals.members(group.id, "central", DETAIL_READ)),
                tuple(goals.members(group.id, "doubtful", DETAIL_READ)),
                tuple(parts),
            )

        self.in_background(read, self.query_one(DetailPane).show, group="detail")

    # Finding

    def action_find(self) -> None:
        """Opens the line in which one types words of a label."""
        self.query_one(FindLine).open()

    def on_find_line_changed(self, message: FindLine.Changed) -> None:
        """Lists only what holds the words."""
        self._words = message.text.lower().split()
        self.show_order()

    def on_find_line_stepped(self, message: FindLine.Stepped) -> None:
        """Moves the cursor while typing."""
        self.table.action_move(message.delta)

    def on_find_line_left(self) -> None:
        """Back to the list."""
        self.table.focus()


class DetailPane(VerticalScroll):
    """What is known of one group; another one is shown from its beginning."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes)
        self._detail: Detail | None = None

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(id="about")

    def show(self, detail: Detail) -> None:
        """Shows a group."""
        same = self._detail is not None and self._detail.group.id == detail.group.id
        self._detail = detail
        self.border_title = Content(formatting.label_of(detail.group, 200))
        self._break_lines()
        if not same:
            self.scroll_home(animate=False)

    def on_resize(self) -> None:
        """Breaks the lines again; also when the pane is seen for the first time."""
        self.call_after_refresh(self._break_lines)

    def _break_lines(self) -> None:
        if self._detail is not None:
            width = max(20, self.scrollable_content_region.width)
            self.query_one("#about", Static).update(detail_content(self._detail, width))


def summary_content(shown: ClusteringRow, groups: Sequence[GoalGroup]) -> Content:
    """How many groups, what is outside of them, and what the clustering was made of."""
    parts: list[Content | tuple[str, str] | str] = [
        (number_format.counted(len(groups), "goal"), "bold"),
        f" of {number_format.counted(shown.conversations, 'conversation')}",
    ]
    outside = [
        number_format.counted(number, word)
        for number, word in ((shown.outliers, "outlier"), (shown.novel, "novel one"))
        if number
    ]
    if shown.without:
        outside.append(f"{shown.without:,} without a text")
    if outside:
        parts.append((" · " + " · ".join(outside), "$tone-muted"))
    known = [group.stability for group in groups if group.stability is not None]
    if known:
        unstable = sum(value < formatting.UNSTABLE for value in known)
        told = (
            f" · {formatting.UNSTABLE_SIGN} {unstable:,} unstable" if unstable else " · all stable"
        )
        parts.append((told, "$tone-borderline" if unstable else "$tone-muted"))
    made = (
        f" · {TEXTS[shown.text]} · {one_line(shown.embedder, 30)} · k {shown.k} · seed {shown.seed}"
    )
    parts.append((made, "$tone-muted"))
    return Content.assemble(*parts)


def detail_content(detail: Detail, width: int) -> Content:
    """One group in words: its description, its figures, what it was made of, its members."""
    group = detail.group
    lines = [formatting.group_line(group)]
    if group.description.strip():
        text = display_safe(" ".join(group.description[:DESCRIPTION_CHARACTERS].split()))
        lines.append(Content.styled(text, "$tone-model"))
    spread = f"spread {number_format.probability(group.spread)}"
    if group.leaves is not None:
        spread += f" · {group.leaves:,.0f} leaves in the median tree"
    lines.append(Content.styled(spread, "$tone-muted"))
    if group.stability is not None and group.stability < formatting.UNSTABLE:
        lines.append(
            Content.styled(
                f"{formatting.UNSTABLE_SIGN} resampling dissolves it: decide on it last, or split it",
                "$tone-borderline",
            )
        )
    if detail.parts:
        lines.append(Content.styled("made of", "bold"))
        lines += [
            Content.assemble((f"{part.size:>7,}  ", "$tone-muted"), (formatting.label_of(part), ""))
            for part in detail.parts
        ]
    central = distinct(detail.central)[:DETAIL_MEMBERS]
    shown = {member.conversation_id for member, _ in central}
    doubtful = [told for told in distinct(detail.doubtful) if told[0].conversation_id not in shown]
    for name, members in (("central", central), ("doubtful", doubtful[:DETAIL_MEMBERS])):
        if members:
            lines.append(Content.styled(name, "bold"))
        for member, times in members:
            lines += member_lines(member, width, doubtful=name == "doubtful", times=times)
    return Content("\n").join(lines)


def _empty_content() -> Content:
    return Content.assemble(
        "No goals yet: what users wanted, as groups of conversations.\n\n",
        ("r", "bold $tone-accent"),
        " clusters the conversations, and says first how many and how long it takes.",
    )
