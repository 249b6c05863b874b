"""Training: the runs that adapt a model to the project's conversations, watched while they work."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType

from engine.errors import WorkbenchError
from engine.records.conversations import Mode
from engine.services.training.records import RunDetail, TrainingRequest
from engine.text import one_line
from screens.shell.clipboard import copy
from screens.shell.dialogs import ChoiceDialog
from screens.shell.run_dialog import RunDialog
from screens.training import formatting as words
from screens.training.compare_dialog import CompareRunsDialog
from screens.training.detail_dialogs import DetailDialog, LogDialog
from screens.training.run_form import TrainingRunForm
from screens.training.truncation_dialog import TableDialog
from screens.training.view import TrainingView
from screens.widgets.background import write_in_order
from screens.widgets.row_table import RowTable

T = TypeVar("T")


class TrainingScreen(TrainingView):
    """Training runs: their curves, what the model says before and after, and what they gained."""

    PLACE = "training"
    CSS_PATH = "training.tcss"
    AUTO_FOCUS = "#runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new", "New", tooltip="A new run; says first what it costs"),
        Binding("s", "stop", "Stop", tooltip="Stop the run and keep its best; asks first"),
        Binding("R", "resume_run", "Resume", tooltip="Go on at the last checkpoint"),
        Binding("A", "use", "Use", tooltip="Score with this run's adapter"),
        Binding("r", "score", "Score", tooltip="Score with the adapter in use; says first what it costs"),
        Binding("v", "table", "Table", tooltip="The truncation test over what was held out"),
        Binding("c", "compare", "Compare", tooltip="Two runs side by side"),
        Binding("space", "mark", "Mark", tooltip="Mark or unmark, and go on", show=False),
        Binding("l", "log", "Log", tooltip="Everything that the run's process wrote"),
        Binding("y", "copy", "Copy", tooltip="Copy the run's settings and figures", show=False),
        Binding("D", "delete", "Delete", tooltip="Delete the run with its files; asks first", show=False),
        Binding("q", "app.quit", "Quit", tooltip="Quit; a training run goes on", show=False),
    ]  # fmt: skip

    # Looking

    def _open(self, detail: RunDetail) -> None:
        self.app.push_screen(DetailDialog(detail))

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter shows everything about the run."""
        run = self.run_here
        if run is not None:
            self.in_background(
                lambda: self.training.detail(run.name),
                self._open,
                group="open",
            )

    def action_log(self) -> None:
        """Shows everything that the run's process wrote."""
        run = self.run_here
        if run is not None:
            self.app.push_screen(LogDialog(self.training, run.name))

    def action_table(self) -> None:
        """Shows the truncation test over what the run held out; without a run, over everything."""
        run = self.run_here
        self.app.push_screen(TableDialog(self.training, None if run is None else run.name))

    def action_compare(self) -> None:
        """Shows two runs side by side: the marked ones, or this one and another that is chosen."""
        marked = [self.by_number[number] for number in self._meant() if number in self.by_number]
        here = self.run_here
        if here is None or len(self.runs) < 2:
            self.notify("There are no two runs to compare yet.", markup=False)
        elif len(marked) == 2:
            self._compare(marked[0].name, marked[1].name)
        elif len(marked) > 2:
            self.notify("Two runs are compared; more are marked.", markup=False)
        elif marked[0].name != here.name:
            self._compare(marked[0].name, here.name)
        else:
            choices = [
                (run.name, f"{words.name_of(run, 60)} · AUROC {words.score(run.auroc)}")
                for run in self.runs
                if run.name != here.name
            ]

            def chosen(name: str | None) -> None:
                if name is not None:
                    self._compare(here.name, name)

            self.app.push_screen(
                ChoiceDialog(f"Compare {words.name_of(here)} with", choices), chosen
            )

    def _compare(self, first: str, second: str) -> None:
        training = self.training

        def show(found: tuple[RunDetail, RunDetail]) -> None:
            self.app.push_screen(CompareRunsDialog(*found))

        self.in_background(
            lambda: (training.detail(first), training.detail(second)), show, group="compare"
        )

    def action_copy(self) -> None:
        """Copies the settings and figures of the run."""
        run = self.run_here
        if run is not None:
            self.in_background(
                lambda: self.training.detail(run.name),
                lambda detail: copy(self, words.as_text(detail), f"the run {words.name_of(run)}"),
                group="copy",
            )

    # Doing

    def _act(self, name: str, work: Callable[[str], T], said: str) -> None:
        """Does something to a run, says so, and reads again."""

        def done(_: T) -> None:
            self.notify(said, markup=False)
            self.refresh_data()

        self.in_background(lambda: work(name), done, group=f"act on {name}")

    def _if_sure(self, title: str, yes: str, no: str, act: Callable[[], None]) -> None:
        """Asks first; what changes nothing stands first."""

        def answered(sure: bool | None) -> None:
            if sure:
                act()

        self.app.push_screen(ChoiceDialog(title, [(False, no), (True, yes)]), answered)

    def action_new(self) -> None:
        """Asks what to train on and how, says what it costs, and starts it."""
        offers = self.offers
        if not self.may_write():
            return
        if offers is None:
            self.notify("Still looking at what this machine can train.", markup=False)
        elif offers.missing:
            self.show_error(WorkbenchError(offers.missing, offers.hint))
        else:
            self.app.push_screen(TrainingRunForm(self.training, offers), self._begin)

    def _begin(self, wish: TrainingRequest | None) -> None:
        if wish is None:
            return

        def started(name: str) -> None:
            self.say_starting("")
            self.notify(
                "It goes on when you quit.", title=f"Training {one_line(name, 40)}", markup=False
            )
            self.marks.clear()
            self.wanted = name
            self.refresh_data()

        def failed(error: WorkbenchError) -> None:
            self.say_starting("")
            self.show_error(error)

        self.say_starting("writing the data of the new run …")
        self.in_background(lambda: self.training.start(wish), started, group="start", failed=failed)

    def action_stop(self) -> None:
        """Stops the run after its step, once that is confirmed."""
        run = self.run_here
        if run is None or not self.may_write():
            return
        if run.state != "running":
            self.notify(f"{words.name_of(run)} is not running.", markup=False)
            return
        self._if_sure(
            f"Stop {words.name_of(run)}?",
            "stop after this step: the best checkpoint becomes its adapter, R goes on",
            "let it run",
            lambda: self._act(run.name, self.training.stop, "It ends after its step."),
        )

    def action_resume_run(self) -> None:
        """Goes on with a run that did not come to its end."""
        run = self.run_here
        if run is None or not self.may_write():
            return
        if run.state in ("running", "finished"):
            self.notify(f"{words.name_of(run)} is {words.state_word(run)}.", markup=False)
            return
        self._act(run.name, self.training.resume, "It goes on at its last checkpoint.")

    def action_delete(self) -> None:
        """Deletes a run, once that is confirmed; never one that works."""
        run = self.run_here
        if run is None or not self.may_write():
            return
        if run.state == "running":
            self.notify(f"{words.name_of(run)} is running; s stops it.", markup=False)
            return
        self._if_sure(
            f"Delete {words.name_of(run)}?",
            "delete its data, checkpoints and adapter; this cannot be undone",
            "keep it",
            lambda: self._act(run.name, self.training.delete, "It is deleted."),
        )

    def action_use(self) -> None:
        """Scores with this run's adapter from now on, and offers to score with it."""
        run = self.run_here
        if run is None or not self.may_write():
            return
        if not run.adapter:
            self.notify(f"{words.name_of(run)} has made no adapter yet.", markup=False)
            return
        name = None if run.in_use else run.name

        def done(_: None) -> None:
            self.refresh_data()
            if name is None:
                self.notify("Scoring uses the adapter that the program brings.", markup=False)
            else:
                self.action_score()

        write_in_order(self, lambda: self.training.use(name), done, self.show_error)

    def action_score(self) -> None:
        """Shows what scoring with the adapter in use costs, and starts it."""
        if not self.may_write():
            return

        def chosen(mode: Mode | None) -> None:
            if mode is not None:
                self._start(lambda: self.services.jobs.start_scoring(mode))

        self.app.push_screen(RunDialog(self.services.jobs, "tuned"), chosen)
