"""Triage: one conversation at a time, the evidence beside it, one key for each verdict."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from engine.errors import WorkbenchError
from engine.rows import TriageItem, Verdict, VerdictRow
from engine.text import one_line
from screens import figures
from screens.background import write_in_order
from screens.base import TitleLine, WorkbenchScreen
from screens.bridge import EngineFeed
from screens.dialogs import TextDialog
from screens.facts import Facts, load_facts
from screens.ports import Services
from screens.reader import ReaderScreen
from screens.triage_queue import Pace, TriageQueue
from screens.widgets.evidence import Evidence
from screens.widgets.states import VERDICT_LOOKS
from screens.widgets.transcript import Transcript


class TriageScreen(WorkbenchScreen[None]):
    """Shows what comes next at once and writes the verdict behind it, in the order given."""

    MODE = "triage"
    CSS_PATH = "triage.tcss"
    AUTO_FOCUS = "#text"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "verdict('complete')", "Complete"),
        Binding("i", "verdict('incomplete')", "Incomplete"),
        Binding("m", "verdict('unsure')", "Maybe", tooltip="Unsure"),
        Binding("s", "skip", "Skip", tooltip="Skip; it comes again at the end"),
        Binding("n", "note", "Note"),
        Binding("u", "undo", "Undo"),
        Binding("U", "redo", "Redo", show=False),
        Binding("o", "open", "Open", tooltip="Open in the reader"),
    ]

    def __init__(
        self,
        services: Services,
        feed: EngineFeed,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(services, feed)
        self._clock = clock
        self._queue = TriageQueue()
        self._pace = Pace()
        self._shown: int | None = None
        self._facts: Facts | None = None
        self._scored = 0

    def compose_body(self) -> ComposeResult:
        """Summary, turns, evidence; or that nothing is left."""
        yield Static(id="summary")
        with Horizontal(id="main"):
            yield Transcript(id="text")
            yield Evidence("Why it is here")
        yield Static(classes="empty")

    def refresh_data(self) -> None:
        """Reads the queue again; what is in front of the person stays."""

        def read() -> tuple[list[TriageItem], dict[Verdict, int], int]:
            triage = self.services.triage
            scored = self.services.conversations.counts().scored
            return list(triage.queue().items), triage.tally(), scored

        def show(answer: tuple[list[TriageItem], dict[Verdict, int], int]) -> None:
            items, tally, scored = answer
            self._queue.refresh(items)
            self._scored = scored
            self._show_title(tally)
            self._show_current()

        self.in_background(read, show, group="queue")

    def _show_title(self, tally: dict[Verdict, int]) -> None:
        queue = self._queue
        self.query_one(".empty", Static).update(_empty_content(tally, self._scored))
        parts: list[tuple[str, str]] = []
        if queue.current is not None:
            parts.append((f"{queue.position:,} of {queue.total:,}", "bold"))
        if (rate := self._pace.per_hour) is not None:
            parts.append((f" · {rate:.0f}/h", "$tone-muted"))
        for verdict, look in VERDICT_LOOKS.items():
            parts.append(
                (f"  {look.glyph} {tally.get(verdict, 0):,}", f"bold {look.tone_variable}")
            )
        parts.append(("  near the threshold first", "$tone-muted"))
        self.query_one(TitleLine).say(Content.assemble(*parts))

    def _show_current(self, *, again: bool = False) -> None:
        """Shows the current item, unless it is shown already and nothing about it changed."""
        item = self._queue.current
        self.set_class(item is None, "-empty")
        if item is None:
            self._shown = self._facts = None
            return
        if item.conversation_id == self._shown and not again:
            return
        self._shown = item.conversation_id
        self.in_background(
            lambda: load_facts(self.services, item.conversation_id),
            lambda facts: self._show_facts(facts, item),
            group="facts",
        )

    def _show_facts(self, facts: Facts, item: TriageItem) -> None:
        same = self._facts is not None and self._facts.row.id == facts.row.id
        self._facts = facts
        row = facts.row
        self.query_one("#summary", Static).update(
            Content.assemble(
                (one_line(row.external_id, 40), "bold"),
                (f" · {figures.counted(row.turns, 'turn')} · ", "$tone-muted"),
                one_line(row.opening),
            )
        )
        self.query_one(Evidence).show(facts, item.why)
        if not same:
            self.query_one(Transcript).show(facts.messages, facts.leaks, at_end=True)

    def on_transcript_turn_changed(self, message: Transcript.TurnChanged) -> None:
        """Marks the turn on the curve."""
        self.query_one(Evidence).mark(message.message)

    # Verdicts

    def action_verdict(self, name: str) -> None:
        """Gives a verdict and goes on."""
        item = self._queue.current
        if item is None or not self.may_write():
            return
        conversation, verdict = item.conversation_id, Verdict(name)
        self._queue.judge()
        self._pace.tick(self._clock())
        self._show_current()

        def failed(error: WorkbenchError) -> None:
            self._queue.bring_back(conversation, item.why)
            self._show_current()
            self.show_error(error)

        write_in_order(
            self, lambda: self.services.triage.give(conversation, verdict), self._written, failed
        )

    def action_skip(self) -> None:
        """Goes on without a verdict."""
        self._queue.skip()
        self._show_current()
        self._show_title(self.services.triage.tally())

    def action_note(self) -> None:
        """Asks for a note on the conversation that is shown."""
        item = self._queue.current
        if item is None or not self.may_write():
            return
        conversation = item.conversation_id
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

    def _written(self, row: VerdictRow) -> None:
        self._show_title(self.services.triage.tally())
        if row.conversation_id == self._shown:
            self._show_current(again=True)

    def action_undo(self) -> None:
        """Takes back the newest verdict or note and shows its conversation again."""
        if not self.may_write():
            return

        def undone(row: VerdictRow | None) -> None:
            if row is None:
                self.notify("There is nothing to undo.", markup=False)
                return
            self._queue.bring_back(row.conversation_id, "you took its verdict back")
            self._show_title(self.services.triage.tally())
            self._show_current(again=True)

        write_in_order(self, self.services.triage.undo, undone, self.show_error)

    def action_redo(self) -> None:
        """Gives again what the newest undo took back."""
        if not self.may_write():
            return

        def redone(row: VerdictRow | None) -> None:
            if row is None:
                self.notify("There is nothing to redo.", markup=False)
                return
            if row.verdict is not None:
                self._queue.settle(row.conversation_id)
            self._show_title(self.services.triage.tally())
            self._show_current(again=True)

        write_in_order(self, self.services.triage.redo, redone, self.show_error)

    def action_open(self) -> None:
        """Opens the conversation in the reader; the queue stays where it is."""
        if self._queue.current is not None:
            order = array("q", self._queue.ids)
            self.app.push_screen(
                ReaderScreen(self.services, self.feed, order, self._queue.index, self.MODE)
            )


def _empty_content(tally: dict[Verdict, int], scored: int) -> Content:
    given = sum(tally.values())
    if not scored:
        return Content.assemble(
            "Nothing to triage: no conversation has been scored.\n\n",
            ("2", "bold $tone-accent"),
            " goes to the list, ",
            ("r", "bold $tone-accent"),
            " scores it there.",
        )
    return Content.assemble(
        f"Nothing is left in the queue. {figures.counted(given, 'verdict')} given.\n\n",
        ("u", "bold $tone-accent"),
        " takes the newest back, ",
        ("2", "bold $tone-accent"),
        " goes to the list.",
    )
