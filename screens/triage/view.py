"""The triage screen without its keys: reads the queue, keeps the place, and shows what is in front."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from engine import number_format
from engine.errors import WorkbenchError
from engine.events import DataChanged, Event
from engine.filters import Filter, FilterError, ListQuery, parse_filter
from engine.records.calibration import Agreement
from engine.records.triage import QueueOrder, TriagePage, TriagePlace
from engine.services.services import Services
from engine.text import one_line
from screens.shell.workbench_screen import TitleLine, WorkbenchScreen
from screens.triage import formatting
from screens.triage.formatting import ORDERS, TriageStatus
from screens.triage.queue import BlindRound, TriageQueue
from screens.widgets.background import write_in_order
from screens.widgets.conversation_facts import Facts, load_facts
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.evidence import Evidence
from screens.widgets.filter_line import FilterLine
from screens.widgets.pace import Pace
from screens.widgets.transcript import Transcript

NO_STANDING = TriageStatus({}, Agreement(0), Agreement(0))


class TriageDesk(WorkbenchScreen[None]):
    """Holds the queue, and shows its current item with the evidence and with what all verdicts amount to."""

    MODE = "triage"

    def __init__(
        self,
        services: Services,
        feed: EngineFeed,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(services, feed)
        self.clock = clock
        self.queue = TriageQueue()
        self.pace = Pace()
        self.blind: BlindRound | None = None
        self.order: QueueOrder = "threshold"
        self.filter = Filter()
        self._place: TriagePlace | None = None
        self.shown: int | None = None
        self._facts: Facts | None = None
        self.standing = NO_STANDING
        self._scored = True

    def compose_body(self) -> ComposeResult:
        """Summary, standing, turns, evidence; or that nothing is left."""
        yield Static(id="summary")
        yield Static(id="standing")
        yield FilterLine(id="filter")
        with Horizontal(id="main"):
            yield Transcript(id="text")
            yield Evidence("Why it is here")
            yield Static(id="blind", classes="section")
        yield Static(classes="empty")

    # Reading

    def _heard(self, event: Event) -> None:
        # What this screen writes itself it shows itself; the queue of a million is not read for each verdict.
        own = isinstance(event, DataChanged) and event.tables == {"verdict"} and self.is_active
        if not own:
            super()._heard(event)

    def refresh_data(self) -> None:
        """Reads the queue again; what is in front of the person stays."""
        if self._place is None:
            self._restore()
        else:
            self.read_queue(None)

    def _restore(self) -> None:
        """Goes back to where the person was when the project was open last."""

        def arrived(place: TriagePlace) -> None:
            self._place = place
            self.order = place.order if place.order in ORDERS else "threshold"
            try:
                self.filter = parse_filter(place.filter)
            except FilterError:
                self.filter = Filter()
            self.query_one(FilterLine).put(self.filter)
            self.read_queue(place)

        self.in_background(self.services.triage.place, arrived, group="queue")

    def read_queue(self, place: TriagePlace | None) -> None:
        """Reads the queue of the order and the filter that are chosen, and goes to a place in it."""
        order, wanted = self.order, self.filter

        def read() -> tuple[TriagePage, TriageStatus, bool]:
            query = ListQuery(wanted)
            if order == "list":
                listed = self.services.saved.view()[0]
                terms = (*listed.filter.terms, *wanted.terms)
                query = replace(listed, filter=Filter(terms))
            page = self.services.triage.queue(order, query)
            scored = page.total > 0 or self.services.conversations.counts().scored > 0
            return page, self.read_standing(), scored

        def show(answer: tuple[TriagePage, TriageStatus, bool]) -> None:
            page, standing, self._scored = answer
            if (order, wanted) != (self.order, self.filter):
                return
            self.queue.refresh(page)
            if place is not None:
                self.queue.restore(place.conversation, place.skipped)
            self.query_one(FilterLine).complain(None)
            self.show_standing(standing)
            self.show_current()

        def failed(error: WorkbenchError) -> None:
            if wanted:
                self.query_one(FilterLine).complain(error)
            else:
                self.show_error(error)

        self.in_background(read, show, group="queue", failed=failed)

    def read_standing(self) -> TriageStatus:
        """What all verdicts amount to now; for a thread worker."""
        model, itself = self.services.calibration.agreements()
        return TriageStatus(self.services.triage.tally(), model, itself)

    def show_standing(self, standing: TriageStatus) -> None:
        """Shows place, pace, verdicts, agreement, order and filter."""
        self.standing = standing
        narrow = self.size.width < 120
        parts: list[tuple[str, str]] = []
        if self.blind is not None:
            parts.append((f"blind {self.blind.words}", "bold $tone-accent"))
        elif self.queue.current is not None:
            parts.append((f"{self.queue.position:,} of {self.queue.total:,}", "bold"))
        if (rate := self.pace.per_hour) is not None:
            parts.append((f" · {rate:.0f}/h", "$tone-muted"))
        if not narrow:
            parts += formatting.tally_pieces(standing.tally)
        self.query_one(TitleLine).say(Content.assemble(*parts))
        self.query_one("#standing", Static).update(
            formatting.standing_line(standing, self.order, self.filter, with_tally=narrow)
        )
        narrowed = self._scored and (bool(self.filter) or self.order != "threshold")
        empty = formatting.empty_content(standing.tally, self._scored, narrowed)
        self.query_one(".empty", Static).update(empty)

    def on_resize(self) -> None:
        """The counts move to where there is room."""
        self.show_standing(self.standing)

    # What is in front

    @property
    def conversation(self) -> int | None:
        """What is in front of the person; None when nothing is."""
        if self.blind is not None:
            return self.blind.current
        return None if self.queue.current is None else self.queue.current.conversation_id

    def show_current(self, *, again: bool = False) -> None:
        """Shows what is in front now, unless it is shown already and nothing about it changed."""
        conversation = self.conversation
        self.set_class(conversation is None, "-empty")
        self.set_class(self.blind is not None, "-blind")
        if self.blind is not None:
            self.query_one("#blind", Static).update(formatting.blind_panel(self.blind.words))
        if conversation is None:
            self.shown = self._facts = None
            return
        if self.focused is None:  # what has the focus was hidden while there was nothing to judge
            self.query_one(Transcript).focus()
        if conversation == self.shown and not again:
            return
        self.shown = conversation
        item = self.queue.current
        why = "" if item is None or self.blind is not None else item.why
        self.in_background(
            lambda: load_facts(self.services, conversation),
            lambda facts: self._show_facts(facts, why),
            group="facts",
        )

    def _show_facts(self, facts: Facts, why: str) -> None:
        same = self._facts is not None and self._facts.row.id == facts.row.id
        self._facts = facts
        row = facts.row
        self.query_one("#summary", Static).update(
            Content.assemble(
                (one_line(row.external_id, 40), "bold"),
                (f" · {number_format.counted(row.turns, 'turn')} · ", "$tone-muted"),
                one_line(row.opening),
            )
        )
        self.query_one(Evidence).show(facts, why)
        if not same:
            self.query_one(Transcript).show(facts.messages, facts.leaks, at_end=True)

    def on_transcript_turn_changed(self, message: Transcript.TurnChanged) -> None:
        """Marks the turn on the curve."""
        self.query_one(Evidence).mark(message.message)

    def moved(self) -> None:
        """Another item is in front: shows it, remembers the place, and reads on when the page runs out."""
        self.show_standing(self.standing)
        self.show_current()
        if self.blind is None and self.services.project.read_only is None:
            place = TriagePlace(self.order, str(self.filter), self.conversation, self.queue.skipped)
            keep = self.services.triage.keep_place
            write_in_order(self, lambda: keep(place), lambda _: None, self.show_error)
        if self.queue.wants_more:
            self.read_queue(None)
