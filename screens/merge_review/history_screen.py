"""The history of the merge desk: every act, and what stood after it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import ClassVar

from screens.goals.undo import GoalActsScreen
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine import number_format
from engine.records.goals import GoalDecision, GoalGroup
from engine.services.services import Services
from engine.text import one_line
from screens.goals import formatting
from screens.merge_review.replay import ReplayedState, replay
from screens.shell.clipboard import copy
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.row_table import Column, Piece, RowTable

MOST_GROUPS = 400
"""Groups that are listed beside an act; their number is told in full."""
WHO = {"human": "you", "auto": "rule", "llm": "model"}


class DeskHistoryScreen(GoalActsScreen):
    """Acts, newest first; the cursor steps through them, and beside it stands what each left behind."""

    PLACE = "history"
    CSS_PATH = "history.tcss"
    AUTO_FOCUS = "#acts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(1)", "Earlier", key_display="← →", tooltip="The act before"),
        Binding("right", "step(-1)", "Later", show=False, tooltip="The act after"),
        Binding("u", "undo", "Undo", tooltip="Take the newest act back"),
        Binding("U", "redo", "Redo", tooltip="Give again what was taken back"),
        Binding("v", "view", "Groups", tooltip="Acts or groups, on a narrow terminal"),
        Binding("y", "copy_history", "Copy", tooltip="Copy the history as text"),
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]

    def __init__(self, services: Services, feed: EngineFeed, mode: str) -> None:
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._acts: list[GoalDecision] = []
        self._stood: list[ReplayedState] = []
        self._sizes: dict[str, int] = {}
        self.table = RowTable[tuple[int, GoalDecision]](
            [
                Column("at", "when", 16, lambda r: [(_when(r[1].given_at), "tone--muted")], keep=3),
                Column("who", "who", 5, lambda r: [(WHO[r[1].author], "tone--muted")], keep=4),
                Column("kind", "", 1, _kind_cell),
                Column("text", "what", 24, _text_cell, flexible=True),
                Column("p", "p", 4, _p_cell, right=True, keep=5),
            ],
            self._fetch,
            lambda row: row[0],
            id="acts",
        )

    def compose_body(self) -> ComposeResult:
        """Counts, acts beside what stood after the one under the cursor."""
        yield Static(id="summary")
        with Horizontal(id="main"):
            yield self.table
            with VerticalScroll(id="stood", classes="section") as stood:
                stood.border_title = "What stood then"
                yield Static(id="groups")
        yield Static(
            "Nothing was decided yet. Every act on the desk is kept here, and can be stepped through.",
            classes="empty",
        )

    # Reading

    def refresh_data(self) -> None:
        """Reads the acts and what stands now."""
        goals = self.services.goals

        def read() -> tuple[list[GoalDecision], list[GoalGroup], dict[str, int]]:
            acts, groups = formatting.folded(goals.history()), goals.groups()
            sizes = {group.id: group.size for group in groups}
            for name in {name for act in acts for name in (*act.sides, *act.made)} - sizes.keys():
                gone = goals.group(name)
                if gone is not None:
                    sizes[name] = gone.size
            return acts, groups, sizes

        self.in_background(read, lambda found: self._show(*found), group="history")

    def _show(
        self, acts: list[GoalDecision], groups: list[GoalGroup], sizes: dict[str, int]
    ) -> None:
        self._acts, self._sizes = acts, sizes
        self._stood = replay(groups, acts)
        self.set_class(not acts, "-empty")
        standing = sum(act.stands for act in acts)
        carried = sum(act.carried for act in acts)
        parts: list[tuple[str, str]] = [(number_format.counted(len(acts), "act"), "bold")]
        if standing < len(acts):
            parts.append((f" · {len(acts) - standing:,} taken back", "$tone-muted"))
        if carried:
            parts.append((f" · {carried:,} carried over from an earlier clustering", "$tone-muted"))
        parts.append((f" · {number_format.counted(len(groups), 'group')} stand now", "$tone-muted"))
        self.query_one("#summary", Static).update(Content.assemble(*parts))
        ids = array("q", (act.id for act in acts))
        self.table.show(ids)
        self._show_stood()

    def _fetch(self, ids: Sequence[int]) -> list[tuple[int, GoalDecision]]:
        by_id = {act.id: act for act in self._acts}
        return [(number, by_id[number]) for number in ids if number in by_id]

    def on_row_table_highlighted(self) -> None:
        """Another act: what stood after it."""
        self._show_stood()

    def _show_stood(self) -> None:
        at = self.table.cursor_index
        if at >= len(self._stood):
            return
        act, stood = self._acts[at], self._stood[at]
        ids = sorted(
            stood.labels, key=lambda key: (key not in stood.touched, -self._sizes.get(key, 0), key)
        )
        lines = [Content.assemble((formatting.decision_words(act), "bold"))]
        told = [one_line(act.model, 40)] if act.model else []
        told += ["carried over"] if act.carried else []
        told += [] if act.stands else ["taken back since: it changed nothing that stands"]
        if told:
            lines.append(Content.styled(" · ".join(told), "$tone-muted"))
        count = number_format.counted(len(ids), "group")
        lines.append(Content.styled(f"\n{count} stood after it", "$tone-muted"))
        for key in ids[:MOST_GROUPS]:
            sign = formatting.GLYPHS[act.kind] if key in stood.touched else " "
            label = one_line(stood.labels[key], 80) or key
            lines.append(
                Content.assemble(
                    (f"{sign} ", "bold $tone-accent"),
                    (f"{self._sizes.get(key, 0):>7,}  ", "$tone-muted"),
                    (label, "bold" if key in stood.touched else ""),
                )
            )
        self.query_one("#groups", Static).update(Content("\n").join(lines))
        self.query_one("#stood", VerticalScroll).scroll_home(animate=False)

    # Keys

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the members of what the act made, or of what it concerned."""
        (found,) = self._fetch([message.row_id])
        act = found[1]
        groups = (*act.made, *act.sides)
        if groups:
            self.app.push_screen(self.routes.members(groups[0], self.MODE))

    def action_step(self, by: int) -> None:
        """Steps to the act before or after."""
        self.table.action_move(by)

    def action_view(self) -> None:
        """Changes between acts and groups where both have no room."""
        self.toggle_class("-groups")

    def action_copy_history(self) -> None:
        """Copies the acts, oldest first, a line each."""
        lines = [
            "\t".join(
                (
                    act.given_at,
                    WHO[act.author],
                    formatting.decision_words(act),
                    number_format.probability(act.probability),
                    "" if act.stands else "taken back",
                )
            ).rstrip()
            for act in reversed(self._acts)
        ]
        if lines:
            copy(self, "\n".join(lines), f"the history, {number_format.counted(len(lines), 'act')}")

    def action_close(self) -> None:
        """Goes back."""
        if self.is_attached and not self._pruning:  # not a second key while it closes
            self.dismiss(None)


def _when(at: str) -> str:
    """Day and minute, `2026-10-31 10:04`."""
    return one_line(at[:16].replace("T", " "))


def _kind_cell(row: tuple[int, GoalDecision]) -> Sequence[Piece]:
    return [(formatting.GLYPHS[row[1].kind], "tone--accent" if row[1].stands else "tone--muted")]


def _text_cell(row: tuple[int, GoalDecision]) -> Sequence[Piece]:
    act = row[1]
    after = "" if act.stands else "  taken back"
    return [
        (formatting.decision_words(act), "" if act.stands else "tone--muted"),
        (after, "tone--muted"),
    ]


def _p_cell(row: tuple[int, GoalDecision]) -> Sequence[Piece]:
    return [(number_format.probability(row[1].probability), "tone--muted")]
