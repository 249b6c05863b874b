"""One conversation: its turns, and beside them the curve of `p_end`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from engine.rows import CurvePoint
from engine.text import one_line
from screens import figures
from screens.base import TitleLine, WorkbenchScreen
from screens.bridge import EngineFeed
from screens.facts import Facts, load_facts
from screens.ports import Services
from screens.provenance import OriginalDialog, ProvenanceDialog
from screens.widgets.curve import Curve, CurveData
from screens.widgets.evidence import note_content, remaining_content
from screens.widgets.row_table import Column, Piece, RowTable
from screens.widgets.states import STATE_LOOKS
from screens.widgets.transcript import Transcript


class ReaderScreen(WorkbenchScreen[int]):
    """Reads through an order of conversations; answers with the id of the last one read."""

    CSS_PATH = "reader.tcss"
    AUTO_FOCUS = "#text"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "go(1)", "Next", tooltip="Next conversation"),
        Binding("p", "go(-1)", "Previous", tooltip="Previous conversation"),
        Binding("w", "why", "Why", tooltip="Where the number comes from"),
        Binding("o", "original", "Original", tooltip="The record as imported"),
        Binding("v", "view", "Curve", tooltip="Turns or curve, on a narrow terminal"),
        Binding("q,escape", "leave", "Back"),
    ]

    def __init__(
        self, services: Services, feed: EngineFeed, order: array[int], at: int, mode: str
    ) -> None:
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._order = order
        self._at = at
        self._facts: Facts | None = None
        self._boundaries = RowTable[tuple[int, CurvePoint]](
            [
                Column(
                    "step", "step", 5, lambda row: [(str(row[1].step), "tone--muted")], right=True
                ),
                Column("turn", "turn", 5, lambda row: [(str(row[1].turn), "")], right=True),
                Column("p_end", "p end if it ended here", 14, self._bar_cell, flexible=True),
            ],
            self._fetch,
            lambda row: row[0],
            id="boundaries",
        )

    @property
    def conversation_id(self) -> int:
        """The conversation that is shown."""
        return self._order[self._at]

    def compose_body(self) -> ComposeResult:
        """Summary, turns, curve."""
        yield Static(id="summary")
        with Horizontal(id="main"):
            yield Transcript(id="text")
            with Vertical(id="side"):
                curve = Curve(id="curve")
                curve.add_class("section")
                curve.border_title = "Curve of p end"
                yield curve
                yield self._boundaries
                for name, title in (("remaining", "Remaining tasks (model)"), ("note", "You")):
                    section = Static(id=name, classes="section")
                    section.border_title = title
                    yield section

    def refresh_data(self) -> None:
        """Reads the conversation and what is known about it."""
        shown = self.conversation_id
        self.in_background(
            lambda: load_facts(self.services, shown), self._show_facts, group="facts"
        )

    def _show_facts(self, facts: Facts) -> None:
        same = self._facts is not None and self._facts.row.id == facts.row.id
        self._facts = facts
        row = facts.row
        look = STATE_LOOKS[row.state]
        p = row.p_end_normalised
        number = (
            f" {figures.bar(p)} {figures.probability(p, facts.digits)}" if p is not None else ""
        )
        reason = f" ({one_line(row.reason, 60)})" if row.reason else ""
        self.query_one("#summary", Static).update(
            Content.assemble(
                (f"{look.glyph} {look.word}{number}", look.tone_variable),
                (f"{reason} · ", "$tone-muted"),
                (one_line(row.external_id, 60), "bold"),
                (
                    f" · {one_line(row.source, 30)} · {figures.counted(row.turns, 'turn')}",
                    "$tone-muted",
                ),
            )
        )
        place = f"{self._at + 1:,} of {len(self._order):,}"
        self.query_one(TitleLine).say(Content.styled(place, "$tone-muted"))
        points = facts.score.curve if facts.score is not None else ()
        self.query_one(Curve).show(CurveData(points, facts.rule, facts.digits))
        self.query_one("#remaining", Static).update(remaining_content(facts))
        self.query_one("#note", Static).update(note_content(facts))
        self._boundaries.show(array("q", range(len(points))))
        if not same:
            self.query_one(Transcript).show(facts.messages, facts.leaks)

    def _fetch(self, ids: Sequence[int]) -> list[tuple[int, CurvePoint]]:
        score = self._facts.score if self._facts is not None else None
        points = score.curve if score is not None else ()
        return [(index, points[index]) for index in ids if index < len(points)]

    def _bar_cell(self, row: tuple[int, CurvePoint]) -> Sequence[Piece]:
        if self._facts is None:
            return []
        p = row[1].p_end_normalised
        tone = STATE_LOOKS[self._facts.rule.state(p)].tone_class
        return [(figures.bar(p), tone), (" " + figures.probability(p, self._facts.digits), "")]

    # Turns and boundaries follow each other

    def on_transcript_turn_changed(self, message: Transcript.TurnChanged) -> None:
        """Marks the turn on the curve and in the list of boundaries."""
        self.query_one(Curve).mark_message(message.message)
        if not self._boundaries.has_focus:
            at = self.query_one(Curve).marked
            if at is not None:
                self._boundaries.move_to_id(at)

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Choosing a boundary brings its turn into sight."""
        if self._boundaries.has_focus:
            self._go_to_boundary(message.row_id)

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Opening a boundary goes to its turn, on a narrow terminal back to the text."""
        self._go_to_boundary(message.row_id)
        self.remove_class("-list")
        self.query_one(Transcript).focus()

    def _go_to_boundary(self, index: int) -> None:
        if self._facts is not None and self._facts.score is not None:
            point = self._facts.score.curve[index]
            message = self._facts.messages[point.message]
            self.query_one(Transcript).go_to_turn(message.turn)
            self.query_one(Curve).mark_message(point.message)

    # Keys

    def action_go(self, delta: int) -> None:
        """Reads the next or the previous conversation of the order."""
        at = self._at + delta
        if 0 <= at < len(self._order):
            self._at = at
            self.refresh_data()
        else:
            word = "last" if delta > 0 else "first"
            self.notify(f"This is the {word} conversation of the list.", markup=False)

    def action_why(self) -> None:
        """Shows where the number comes from."""
        if self._facts is not None:
            self.app.push_screen(ProvenanceDialog(self._facts))

    def action_original(self) -> None:
        """Shows the record as imported."""
        self.app.push_screen(OriginalDialog(self.services.conversations, self.conversation_id))

    def action_view(self) -> None:
        """Changes between the turns and the list of boundaries where both have no room."""
        self.toggle_class("-list")
        (self._boundaries if self.has_class("-list") else self.query_one(Transcript)).focus()

    def action_leave(self) -> None:
        """Goes back."""
        self.dismiss(self.conversation_id)
