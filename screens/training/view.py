"""The training runs without their keys: reads them again while one works, lists them, shows one of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from engine import number_format
from engine.errors import WorkbenchError
from engine.services.services import Services
from engine.services.training.records import RunDetail, TrainingOffers, TrainingRun
from engine.text import one_line
from screens.shell.marking import Marking
from screens.shell.workbench_screen import WorkbenchScreen
from screens.training import formatting as words
from screens.training.columns import Listed, run_columns
from screens.training.run_pane import RunPane, empty_content
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.marks import Marks
from screens.widgets.row_table import RowTable

POLL_SECONDS = 1.0
"""How often it is asked how a run stands that works, while the screen is in sight."""
IDLE_POLLS = 8
"""So many times less often while none works, or the screen is out of sight: one may be started elsewhere."""
ENDED = ("finished", "stopped", "failed", "interrupted")


class TrainingView(Marking, WorkbenchScreen[None]):
    """Reads and shows. `wanted` names the run on which the cursor is to stand once it is listed."""

    MODE = "training"

    def __init__(self, services: Services, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.training = services.training
        self.marks = Marks()
        self.offers: TrainingOffers | None = None
        self.runs: Sequence[TrainingRun] = ()
        self._numbers: dict[str, int] = {}
        self.by_number: dict[int, TrainingRun] = {}
        self._reading = self._read_again = False
        self._polls = 0
        self._starting = ""
        self.wanted: str | None = None
        self._conversations: int | None = None
        self.table = RowTable[Listed](
            run_columns(), self._fetch, lambda row: row[0], marked=self.marks, id="runs"
        )

    def compose_body(self) -> ComposeResult:
        """Summary, runs, the one under the cursor; or how to begin."""
        yield Static(id="summary")
        yield self.table
        yield RunPane(id="run")
        yield Static(classes="empty")

    def on_mount(self) -> None:
        """Reads for the first time, and begins to watch."""
        super().on_mount()
        self.query_one(RunPane).display = False
        self.in_background(self.training.offers, self._show_offers, group="offers")
        counts = self.services.conversations.counts
        self.in_background(lambda: counts().conversations, self._show_count, group="count")
        self.set_interval(POLL_SECONDS, self.poll)

    # Reading

    def poll(self) -> None:
        """Asks again: often while a run works in sight, seldom else."""
        self._polls += 1
        live = any(run.state == "running" for run in self.runs)
        seldom = self._polls % IDLE_POLLS == 0
        # A run that works out of sight is watched for its end, a list in sight for runs that are started elsewhere.
        often = live and self.is_active
        if not self._reading and (often or (seldom and (live or self.is_active))):
            self.refresh_data()

    def refresh_data(self) -> None:
        """Reads the runs, and everything about the one under the cursor; never twice at the same time: a wish that
        comes meanwhile is kept for afterwards."""
        if self._reading:
            self._read_again = True
            return
        self._reading = True
        training, wanted = self.training, self.wanted or self._name_here()

        def read() -> tuple[list[TrainingRun], RunDetail | None]:
            runs = training.runs()
            names = [run.name for run in runs]
            name = wanted if wanted in names else next(iter(names), None)
            return runs, None if name is None else training.detail(name)

        def arrived(found: tuple[list[TrainingRun], RunDetail | None]) -> None:
            self._show(*found)
            self._read_on()

        def failed(error: WorkbenchError) -> None:
            self._tell_problem(error)
            self._read_on()

        self.in_background(read, arrived, group="runs", failed=failed)

    def _read_on(self) -> None:
        self._reading = False
        if self._read_again:
            self._read_again = False
            self.refresh_data()

    def _tell_problem(self, error: WorkbenchError) -> None:
        """Where it is read again and again, an error is a line and no dialog."""
        told = Content.styled(one_line(f"{error.message} {error.hint}"), "$tone-incomplete")
        self.query_one("#summary", Static).update(told)

    def _show(self, runs: list[TrainingRun], detail: RunDetail | None) -> None:
        self._notify_ends(runs)
        self.feed.tell_training(next((run for run in runs if run.state == "running"), None))
        self.runs = runs
        for run in runs:
            self._numbers.setdefault(run.name, len(self._numbers))
        self.by_number = {self._numbers[run.name]: run for run in runs}
        self.set_class(not runs, "-empty")
        self.table.show(array("q", (self._numbers[run.name] for run in runs)))
        if self.wanted in self._numbers:
            self.table.move_to_id(self._numbers[self.wanted])
            self.wanted = None
        if runs and self.focused is None:  # it was hidden while there was nothing to list
            self.table.focus()
        self._tell()
        self._show_detail(detail)

    def _show_detail(self, detail: RunDetail | None) -> None:
        """Shows a run unless the cursor has left it."""
        here = self.run_here
        if detail is not None and here is not None and detail.run.name != here.name:
            self._read_detail()
            return
        memory = None if self.offers is None else self.offers.memory
        self.query_one(RunPane).show(detail, memory)

    def _read_detail(self) -> None:
        run = self.run_here
        if run is not None:
            self.in_background(
                lambda: self.training.detail(run.name),
                self._show_detail,
                group="detail",
                failed=self._tell_problem,
            )

    def _notify_ends(self, runs: Sequence[TrainingRun]) -> None:
        """Says what became of runs that worked when they were read last."""
        worked = {run.name for run in self.runs if run.state == "running"}
        for run in runs:
            if run.name in worked and run.state in ENDED:
                told = (
                    f"{words.state_word(run)}; AUROC {words.score(run.auroc)} on what was held out"
                )
                broken = run.state in ("failed", "interrupted")
                self.notify(
                    one_line(f"{run.problem} {run.hint}", 400) if broken else told,
                    title=f"Training {words.name_of(run)}{f' {run.state}' if broken else ''}",
                    severity="error" if broken else "information",
                    markup=False,
                )

    def _show_offers(self, offers: TrainingOffers) -> None:
        self.offers = offers
        self._tell()
        self._read_detail()

    def _show_count(self, count: int) -> None:
        self._conversations = count
        self._tell()

    def _tell(self) -> None:
        """The line above the list, and what stands there while it is empty."""
        missing = "" if self.offers is None else one_line(self.offers.missing, 300)
        hint = "" if self.offers is None else one_line(self.offers.hint, 300)
        empty = empty_content(missing, hint, self._conversations)
        self.query_one(".empty", Static).update(empty)
        parts: list[tuple[str, str] | str] = []
        if self.marks:
            parts.append((f"{len(self.marks)} marked · ", "bold $tone-accent"))
        parts.append((number_format.counted(len(self.runs), "run"), "bold"))
        working = [run for run in self.runs if run.state == "running"]
        if self._starting:
            parts.append((f" · {self._starting}", "$tone-accent"))
        elif working:
            parts.append(f" · {words.name_of(working[0])} works; it goes on when you quit")
        used = next((run for run in self.runs if run.in_use), None)
        if used is not None:
            parts.append(
                (f" · {words.IN_USE} {words.name_of(used)} is used for scoring", "$tone-muted")
            )
        if missing and self.runs:
            parts.append((f" · {missing} {hint}", "$tone-incomplete"))
        self.query_one("#summary", Static).update(Content.assemble(*parts))

    def say_starting(self, told: str) -> None:
        """Says that a run is being started; empty when it is no longer."""
        self._starting = told
        self._tell()

    # The list

    def _fetch(self, ids: Sequence[int]) -> list[Listed]:
        by_number = self.by_number
        return [(number, by_number[number]) for number in ids if number in by_number]

    def _name_here(self) -> str | None:
        run = self.run_here
        return None if run is None else run.name

    @property
    def run_here(self) -> TrainingRun | None:
        """The run under the cursor."""
        number = self.table.cursor_id
        return None if number is None else self.by_number.get(number)

    def marks_changed(self) -> None:
        """Tells how many are marked."""
        self._tell()

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the run under the cursor."""
        self._read_detail()
