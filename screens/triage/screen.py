"""Triage: one conversation at a time, the evidence beside it, one key for each verdict."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from engine.errors import WorkbenchError
from engine.records.triage import QueueOrder, TriagePlace, Verdict, VerdictRow
from engine.services.services import Services
from engine.text import display_safe
from screens.shell.dialogs import ChoiceDialog, TextDialog
from screens.shell.filter_editing import edit_filter
from screens.triage import formatting
from screens.triage.calibration_screen import CalibrationScreen
from screens.triage.formatting import ORDERS, TriageStatus
from screens.triage.queue import BlindRound, TriageQueue
from screens.triage.view import TriageDesk
from screens.widgets.agreement import format_agreement
from screens.widgets.background import write_in_order
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.filter_line import FilterLine
from screens.widgets.transcript import Transcript

BLIND_FROM = 20
"""Verdicts from which some are asked again."""
BLIND_COUNT = 10


class TriageScreen(TriageDesk):
    """Shows what comes next at once and writes the verdict behind it, in the order given."""

    PLACE = "triage"
    CSS_PATH = "triage.tcss"
    AUTO_FOCUS = "#text"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "verdict('complete')", "Complete"),
        Binding("i", "verdict('incomplete')", "Incomplete"),
        Binding("m", "verdict('unsure')", "Maybe", tooltip="Unsure"),
        Binding("s", "skip", "Skip", tooltip="Skip; it comes again at the end"),
        Binding("n", "note", "Note"),
        Binding("t", "tag", "Tag", tooltip="Tags, with commas between them"),
        Binding("u", "undo", "Undo"),
        Binding("U", "redo", "Redo", show=False),
        Binding("O", "order", "Order", tooltip="Choose the order of the queue", show=False),
        Binding("f", "filter", "Filter", tooltip="Judge only what a filter matches", show=False),
        Binding("b", "blind", "Blind", tooltip="Judge ten again, blind, or end that", show=False),
        Binding("K", "calibration", "Calibration", tooltip="What the verdicts say of the scores"),
        Binding("o", "open", "Open", tooltip="Open in the reader"),
    ]

    def __init__(
        self,
        services: Services,
        feed: EngineFeed,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(services, feed, clock)
        self._told_of_blind = False

    # Verdicts

    def action_verdict(self, name: str) -> None:
        """Gives a verdict and goes on."""
        conversation, verdict = self.conversation, Verdict(name)
        if conversation is None or not self.may_write():
            return
        self.pace.tick(self.clock())
        if self.blind is not None:
            self._answer_again(self.blind, conversation, verdict)
            return
        item = self.queue.current
        self.queue.judge()

        def failed(error: WorkbenchError) -> None:
            self.queue.bring_back(conversation, item.why if item is not None else "")
            self.moved()
            self.show_error(error)

        write_in_order(
            self, lambda: self.services.triage.give(conversation, verdict), self._written, failed
        )
        self.moved()

    def action_skip(self) -> None:
        """Goes on without a verdict."""
        if self.blind is not None:
            self.blind.go_on()
            self._go_on_blind()
        else:
            self.queue.skip()
            self.moved()

    def action_note(self) -> None:
        """Asks for a note on the conversation that is shown."""
        conversation = self.conversation
        if conversation is None or self.blind is not None or not self.may_write():
            return
        current = self.services.triage.current(conversation)

        def answered(text: str | None) -> None:
            if text is not None:
                write_in_order(
                    self,
                    lambda: self.services.triage.note(conversation, text),
                    self._written,
                    self.show_error,
                )

        self.app.push_screen(TextDialog("Note", value=current.note if current else ""), answered)

    def action_tag(self) -> None:
        """Asks for the tags of the conversation that is shown."""
        conversation = self.conversation
        if conversation is None or self.blind is not None or not self.may_write():
            return
        current = self.services.triage.current(conversation)
        # As they are written in the line: without a comma, and without what could act on a terminal.
        before = {
            display_safe(name).replace(",", "‚"): name for name in (current.tags if current else ())
        }

        def answered(text: str | None) -> None:
            if text is None:
                return
            after = {" ".join(name.split()) for name in text.split(",")} - {""}
            triage = self.services.triage

            def write() -> None:
                for shown in before.keys() - after:
                    triage.untag([conversation], before[shown])
                for name in sorted(after - before.keys()):
                    triage.tag([conversation], name)

            write_in_order(self, write, lambda _: self.show_current(again=True), self.show_error)

        self.app.push_screen(
            TextDialog(
                "Tags",
                value="".join(f"{name}, " for name in before),
                placeholder="refund, too slow",
                adding=True,
            ),
            answered,
        )

    def _written(self, row: VerdictRow | None) -> None:
        """What was written counts, and may move the threshold."""

        def settle() -> tuple[str, TriageStatus]:
            rule = self.services.calibration.refresh()
            told = "" if rule is None else formatting.rule_words(rule)
            return told, self.read_standing()

        def settled(found: tuple[str, TriageStatus]) -> None:
            told, standing = found
            self.show_standing(standing)
            if told:
                self.notify(told, title="Calibration", markup=False)
                self.refresh_data()
            if standing.given >= BLIND_FROM and not standing.itself.n and not self._told_of_blind:
                self._told_of_blind = True
                self.notify(
                    f"{standing.given} verdicts. b asks ten of them again, blind, to see how sure you are.",
                    markup=False,
                )

        write_in_order(self, settle, settled, self.show_error)
        if row is not None and row.conversation_id == self.shown:
            self.show_current(again=True)

    # Undo and redo

    def action_undo(self) -> None:
        """Takes back the newest act; what it was a verdict on is shown again."""
        if not self.may_write():
            return

        def undone(row: VerdictRow | None) -> None:
            if row is None:
                self.notify("There is nothing to undo.", markup=False)
                return
            if row.kind == "give" and self.blind is None:
                self.queue.bring_back(row.conversation_id, "you took its verdict back")
                self.moved()
            elif row.kind == "repeat" and self.blind is not None:
                self.blind.back_to(row.conversation_id)
                self.moved()
            else:
                self.notify(formatting.act_words(row, "taken back"), markup=False)
            self._written(row)

        write_in_order(self, self.services.triage.undo, undone, self.show_error)

    def action_redo(self) -> None:
        """Gives again what the newest undo took back."""
        if not self.may_write():
            return

        def redone(row: VerdictRow | None) -> None:
            if row is None:
                self.notify("There is nothing to redo.", markup=False)
                return
            if row.kind == "give":
                self.queue.settle(row.conversation_id)
                self.moved()
            else:
                self.notify(formatting.act_words(row, "given again"), markup=False)
            self._written(row)

        write_in_order(self, self.services.triage.redo, redone, self.show_error)

    # Order and filter

    def action_order(self) -> None:
        """Asks for the order of the queue."""

        def chosen(order: QueueOrder | None) -> None:
            if order is not None and order != self.order:
                self.order = order
                self._ask_anew()

        choices = [(order, formatting.order_prompt(order)) for order in ORDERS]
        self.app.push_screen(ChoiceDialog("Which first", choices, self.order), chosen)

    def action_filter(self) -> None:
        """Goes to the filter line."""
        edit_filter(self)

    def on_filter_line_asked(self, message: FilterLine.Asked) -> None:
        """Another filter: the queue begins anew."""
        self.filter = message.filter
        self._ask_anew()

    def on_filter_line_left(self, message: FilterLine.Left) -> None:
        """Back to the conversation."""
        self.query_one(Transcript).focus()

    def _ask_anew(self) -> None:
        self.queue = TriageQueue()
        self.read_queue(TriagePlace())

    # Blind repeats

    def action_blind(self) -> None:
        """Asks some conversations again, blind; in such a round ends it."""
        if self.blind is not None:
            self._end_blind()
            return
        if not self.may_write():
            return

        def begin(found: tuple[TriageStatus, list[int]]) -> None:
            standing, conversations = found
            if standing.given < BLIND_FROM:
                told = f"Blind repeats begin at {BLIND_FROM} verdicts; there are {standing.given}."
                self.notify(told, markup=False)
            elif not conversations:
                self.notify("Everything but your newest verdicts was asked again.", markup=False)
            else:
                self.blind = BlindRound(conversations)
                self.moved()

        self.in_background(
            lambda: (self.read_standing(), self.services.triage.to_repeat(BLIND_COUNT)),
            begin,
            group="blind",
        )

    def _answer_again(self, blind: BlindRound, conversation: int, verdict: Verdict) -> None:
        blind.go_on()

        def failed(error: WorkbenchError) -> None:
            blind.back_to(conversation)
            self.moved()
            self.show_error(error)

        write_in_order(
            self, lambda: self.services.triage.repeat(conversation, verdict), self._written, failed
        )
        self._go_on_blind()

    def _go_on_blind(self) -> None:
        if self.blind is not None and self.blind.current is None:
            self._end_blind()
        else:
            self.moved()

    def _end_blind(self) -> None:
        self.blind = None
        self.moved()

        def tell(standing: TriageStatus) -> None:
            words = format_agreement(standing.itself)
            self.notify(f"You agree with yourself: {words}", title="Blind repeats", markup=False)
            self.show_standing(standing)

        # In the writing order: after the last answer.
        write_in_order(self, self.read_standing, tell, self.show_error)

    # Going elsewhere

    def action_calibration(self) -> None:
        """Shows what the verdicts say about the scores."""
        self.app.push_screen(CalibrationScreen(self.services, self.feed, self.MODE))

    def action_open(self) -> None:
        """Opens the conversation in the reader; the queue stays where it is."""
        if self.blind is None and self.queue.current is not None:
            order = array("q", self.queue.ids)
            self.open_reader(order, self.queue.index)
