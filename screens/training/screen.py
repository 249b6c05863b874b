"""The training screen: the runs that adapt a model to the project's conversations, watched while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from engine.base.errors import WorkbenchError
from engine.base.text import one_line
from engine.opener.open_project import OpenProject
from engine.training.records import RunDetail, TrainingChoices, TrainingRun
from engine.training.request import TrainingRequest
from screens.shell.dialogs import ask, confirm
from screens.shell.exporting import copy
from screens.shell.workbench_screen import WorkbenchScreen
from screens.training import formatting
from screens.training.dialogs import DetailDialog, LogDialog, TrainingRunForm
from screens.training.formatting import run_columns
from screens.training.run_pane import RunPane
from screens.widgets.background import write_in_order
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import ItemTable, RowTable

T = TypeVar("T")
"""What an act returns."""

POLL_SECONDS = 1.0
"""Seconds between two reads of the runs while one is running and the screen is in sight."""

IDLE_POLLS = 8
"""How many times less often they are read while none is running, or the screen is out of sight."""

ENDED = ("finished", "stopped", "failed", "interrupted")
"""The states of a run that no process works on any more."""


class TrainingScreen(WorkbenchScreen[None]):
    """A list of the runs, and below it the curves and samples of the one under the cursor."""

    MODE = "training"
    PLACE = "training"
    FIRST_KEYS = ("training.new", "training.use", "training.log")
    AUTO_FOCUS = "#runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new", "New", tooltip="A new run; shows first what it costs"),
        Binding("s", "stop", "Stop", tooltip="Stop the run and keep its best checkpoint; asks first"),
        Binding("R", "resume_run", "Resume", tooltip="Resume at the last checkpoint"),
        Binding("A", "use", "Use", tooltip="Score with this run's adapter"),
        Binding("r", "score", "Score", tooltip="Score with the adapter in use; shows first what it costs"),
        Binding("l", "log", "Log", tooltip="Everything that the run's process printed"),
        Binding("y", "copy", "Copy", tooltip="Copy the run's settings and figures", show=False),
        Binding("D", "delete", "Delete", tooltip="Delete the run with its files; asks first", show=False),
        Binding("q", "app.quit", "Quit", tooltip="Quit; a training run goes on", show=False),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.training = services.training
        self.choices: TrainingChoices | None = None
        self.runs: Sequence[TrainingRun] = ()
        self._reading = False  # a read is on its way
        self._read_again = False  # another was asked for meanwhile
        self._polls = 0
        self._starting = False  # a run is being started
        self._cursor_to: str | None = None  # the run to go to once it is listed
        self._conversations: int | None = (
            None  # how many the project has; None while they are counted
        )
        self.table = ItemTable(run_columns(), lambda run: run.name, id="runs")

    def compose_body(self) -> ComposeResult:
        """Yields the summary, list, the run under the cursor; or how to start one."""
        yield Static(id="summary")
        yield self.table
        yield RunPane(id="run")
        yield Static(classes="empty")

    def on_mount(self) -> None:
        """Reads for the first time and starts the timer."""
        super().on_mount()
        self.query_one(RunPane).display = False
        self.in_background(self.training.choices, self._show_choices, group="choices")
        counts = self.services.conversations.counts
        self.in_background(lambda: counts().conversations, self._show_count, group="count")
        self.set_interval(POLL_SECONDS, self.poll)

    # Reading

    def poll(self) -> None:
        """Reads the runs again if that is due: often while one is running in sight, else seldom."""
        self._polls += 1
        live = any(run.state == "running" for run in self.runs)
        seldom = self._polls % IDLE_POLLS == 0
        # Out of sight a running run is watched for its end; in sight the list is watched for runs started elsewhere.
        often = live and self.is_active
        if not self._reading and (often or (seldom and (live or self.is_active))):
            self.refresh_data()

    def refresh_data(self) -> None:
        """Reads the runs, and everything about the one under the cursor. A call during a read repeats it afterwards."""
        if self._reading:
            self._read_again = True
            return
        self._reading = True
        training, cursor = self.training, self._cursor_to or self._name_here()

        def read() -> tuple[list[TrainingRun], RunDetail | None]:
            """Returns the runs of the project, and the one at the cursor or the first."""
            runs = training.runs()
            names = [run.name for run in runs]
            name = cursor if cursor in names else next(iter(names), None)
            detail = None if name is None else training.detail(name)
            return runs, detail

        def arrived(result: tuple[list[TrainingRun], RunDetail | None]) -> None:
            self._show(*result)
            self._finish_read()

        def failed(error: WorkbenchError) -> None:
            self._show_read_error(error)
            self._finish_read()

        self.in_background(read, arrived, group="runs", failed=failed)

    def _finish_read(self) -> None:
        """Ends a read, and reads again if that was asked for meanwhile."""
        self._reading = False
        if self._read_again:
            self._read_again = False
            self.refresh_data()

    def _show_read_error(self, error: WorkbenchError) -> None:
        """Shows an error of reading in the summary line: a dialog would come again with each read."""
        text = one_line(f"{error.message} {error.hint}")
        self.query_one("#summary", Static).update(Content.styled(text, "$tone-incomplete"))

    def _show(self, runs: list[TrainingRun], detail: RunDetail | None) -> None:
        """Shows the runs and the one under the cursor, and notifies of runs that ended."""
        self._notify_ends(runs)
        self.feed.publish_training(next((run for run in runs if run.state == "running"), None))
        self.runs = runs
        self.set_class(not runs, "-empty")
        self.table.show_items(runs)
        if self._cursor_to is not None and self.table.move_to_key(self._cursor_to):
            self._cursor_to = None
        if runs and self.focused is None:  # the list was hidden while it was empty
            self.table.focus()
        self._show_summary()
        self._show_detail(detail)

    def _show_detail(self, detail: RunDetail | None) -> None:
        """Shows a run below the list; reads the right one if the cursor has moved meanwhile."""
        here = self.run_here
        if detail is not None and here is not None and detail.run.name != here.name:
            self._read_detail()
            return
        memory = None if self.choices is None else self.choices.memory
        self.query_one(RunPane).show(detail, memory)

    def _read_detail(self) -> None:
        """Reads and shows the run under the cursor."""
        run = self.run_here
        if run is not None:
            self.in_background(
                lambda: self.training.detail(run.name),
                self._show_detail,
                group="detail",
                failed=self._show_read_error,
            )

    def _notify_ends(self, runs: Sequence[TrainingRun]) -> None:
        """Notifies of the runs that have ended since the last read."""
        running = {run.name for run in self.runs if run.state == "running"}
        for run in runs:
            if run.name in running and run.state in ENDED:
                broken = run.state in ("failed", "interrupted")
                self.notify(
                    formatting.ending_text(run),
                    title=f"Training {formatting.name_of(run)}{f' {run.state}' if broken else ''}",
                    severity="error" if broken else "information",
                    markup=False,
                )

    def _show_choices(self, choices: TrainingChoices) -> None:
        """Shows whether this machine can train, and how much memory a run may use."""
        self.choices = choices
        self._show_summary()
        self._read_detail()

    def _show_count(self, count: int) -> None:
        """Shows how many conversations there are to train on."""
        self._conversations = count
        self._show_summary()

    def _show_summary(self) -> None:
        """Updates the line above the list, and the text in place of an empty list."""
        missing, hint = (
            ("", "") if self.choices is None else (self.choices.missing, self.choices.hint)
        )
        if self.has_class("-empty"):
            self.show_empty(formatting.empty_state(missing, hint, self._conversations))
        self.query_one("#summary", Static).update(
            formatting.summary_content(self.runs, self._starting, missing, hint)
        )

    def _show_starting(self, starting: bool) -> None:
        """Shows whether a run is being started."""
        self._starting = starting
        self._show_summary()

    # The list

    def _name_here(self) -> str | None:
        """Returns the name of the run under the cursor."""
        run = self.run_here
        return None if run is None else run.name

    @property
    def run_here(self) -> TrainingRun | None:
        """The run under the cursor."""
        return self.table.here

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the run under the cursor."""
        self._read_detail()

    # Dialogs that show

    def _with_detail(self, show: Callable[[RunDetail], None], group: str) -> None:
        """Reads everything about the run under the cursor and passes it on."""
        run = self.run_here
        if run is not None:
            self.in_background(lambda: self.training.detail(run.name), show, group=group)

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Opens everything about the run."""

        def show(detail: RunDetail) -> None:
            self.app.push_screen(DetailDialog(detail))

        self._with_detail(show, "open")

    def action_copy(self) -> None:
        """Copies the settings and figures of the run."""
        self._with_detail(
            lambda detail: copy(
                self, formatting.detail_text(detail), f"the run {formatting.name_of(detail.run)}"
            ),
            "copy",
        )

    def action_log(self) -> None:
        """Opens everything that the run's process printed."""
        run = self.run_here
        if run is not None:
            self.app.push_screen(LogDialog(self.training, run.name))

    # Actions that write

    def _act(self, name: str, work: Callable[[str], T], message: str) -> None:
        """Does something to a run, says so, and reads again."""

        def done(_: T) -> None:
            self.notify(message, markup=False)
            self.refresh_data()

        self.in_background(lambda: work(name), done, group=f"act on {name}")

    def _writable_run(self) -> TrainingRun | None:
        """Returns the run under the cursor; None where there is none or the project is read-only."""
        run = self.run_here
        return run if run is not None and self.may_write() else None

    def action_new(self) -> None:
        """Asks what to train on and how, shows what it costs, and starts it."""
        choices = self.choices
        if not self.may_write():
            return
        if choices is None:
            self.notify("Still checking what this machine can train.", markup=False)
        elif choices.missing:
            self.show_error(WorkbenchError(choices.missing, choices.hint))
        else:
            ask(self, TrainingRunForm(self.training, choices), self._start_run)

    def _start_run(self, request: TrainingRequest) -> None:
        """Starts a run, whose data are written first."""

        def started(name: str) -> None:
            self._show_starting(False)
            self.notify(
                "It goes on when you quit.", title=f"Training {one_line(name, 40)}", markup=False
            )
            self._cursor_to = name
            self.refresh_data()

        def failed(error: WorkbenchError) -> None:
            self._show_starting(False)
            self.show_error(error)

        self._show_starting(True)
        self.in_background(
            lambda: self.training.start(request), started, group="start", failed=failed
        )

    def action_stop(self) -> None:
        """Stops the run after its step, after a question."""
        run = self._writable_run()
        if run is None:
            return
        if run.state != "running":
            self.notify(f"{formatting.name_of(run)} is not running.", markup=False)
            return
        confirm(
            self,
            f"Stop {formatting.name_of(run)}?",
            lambda: self._act(run.name, self.training.stop, "It ends after its step."),
            yes="stop after this step: the best checkpoint becomes its adapter, R resumes it",
            no="let it run",
        )

    def action_resume_run(self) -> None:
        """Resumes a run that did not finish."""
        run = self._writable_run()
        if run is None:
            return
        if run.state in ("running", "finished"):
            self.notify(f"{formatting.name_of(run)} is {formatting.state_word(run)}.", markup=False)
            return
        self._act(run.name, self.training.resume, "It continues at its last checkpoint.")

    def action_delete(self) -> None:
        """Deletes a run that is not running, after a question."""
        run = self._writable_run()
        if run is None:
            return
        if run.state == "running":
            self.notify(f"{formatting.name_of(run)} is running; s stops it.", markup=False)
            return
        confirm(
            self,
            f"Delete {formatting.name_of(run)}?",
            lambda: self._act(run.name, self.training.delete, "It is deleted."),
            yes="delete its data, checkpoints and adapter; this cannot be undone",
        )

    def action_use(self) -> None:
        """Makes scoring use this run's adapter, and offers to score with it; on the one in use, undoes that."""
        run = self._writable_run()
        if run is None:
            return
        if not run.adapter:
            self.notify(f"{formatting.name_of(run)} has no adapter yet.", markup=False)
            return
        name = None if run.in_use else run.name

        def done(_: None) -> None:
            self.refresh_data()
            if name is None:
                self.notify("No adapter is in use any more.", markup=False)
            else:
                self.action_score()

        write_in_order(self, lambda: self.training.use(name), done, self.show_error)

    def action_score(self) -> None:
        """Shows what scoring with the adapter in use costs, and starts it."""
        if self.may_write():
            self.ask_scoring("tuned")
