"""The training screen: the runs that adapt a model to the project's conversations, watched while they run.

A run trains in steps, and at some of them it is validated on the selection part of the conversations. Its result is an
adapter, with which the model scores conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from engine.base.errors import FilterError, WorkbenchError
from engine.base.text import NAME_LIMIT, one_line, short_name
from engine.conversations.filters import parse_filter
from engine.opener.open_project import OpenProject
from engine.training.records import (
    Choice,
    RunDetail,
    TrainingChoices,
    TrainingEstimate,
    TrainingRun,
    estimate_lines,
)
from engine.training.service import TrainingService
from engine.training.training_request import OPTIONS, TrainingRequest, read_request
from screens.shell.dialogs import ask, confirm
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line
from screens.shell.workbench_screen import WorkbenchScreen
from screens.training import formatting
from screens.training.formatting import run_columns
from screens.widgets.background import write_in_order
from screens.widgets.controls import LineInput
from screens.widgets.jobs import EngineFeed
from screens.widgets.line_plot import Cell, Line, LinePlot, loss_scale, share_scale
from screens.widgets.row_table import ItemTable, RowTable

T = TypeVar("T")
"""What changing a run returns."""

POLL_SECONDS = 1.0
"""Seconds between two reads of the runs while one is running and the screen is in sight."""

IDLE_POLLS = 8
"""Number of polls (`POLL_SECONDS`) between two reads of the runs while none is running, or the screen is out of
sight."""

ENDED = ("finished", "stopped", "failed", "interrupted")
"""The states of a run that no process works on any more."""

SELECTION_SIGN = "×"
"""Sign of a value that was measured on the selection part."""

BEST_SIGN = "◆"

HELD_OUT = {
    share: FormChoice(f"{100 * float(share):.0f}% of the conversations")
    for share in ("0.5", "0.3", "0.2", "0.1")
}
"""The shares of the conversations that can be held out of training, the default first."""


class TrainingScreen(WorkbenchScreen[None]):
    """Lists the runs, and below them shows the curves and samples of the one under the cursor."""

    MODE = "training"
    PLACE = "training"
    FIRST_KEYS = ("training.new", "training.use", "training.stop")
    AUTO_FOCUS = "#runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new", "New", tooltip="A new run; shows first what it costs"),
        Binding("s", "stop", "Stop", tooltip="Stop the run and keep its best checkpoint; asks first"),
        Binding("R", "resume_run", "Resume", tooltip="Resume at the last checkpoint"),
        Binding("A", "use", "Use", tooltip="Score with this run's adapter"),
        Binding("r", "score", "Score", tooltip="Score with the adapter in use; shows first what it costs"),
        Binding("D", "delete", "Delete", tooltip="Delete the run with its files; asks first", show=False),
        Binding("q", "app.quit", "Quit", tooltip="Quit; a training run goes on", show=False),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.training = services.training
        self.choices: TrainingChoices | None = None
        self.runs: Sequence[TrainingRun] = ()
        self._polls = 0  # number of polls so far
        self._is_starting = False  # a run is being started
        self._run_to_select: str | None = None  # the run to go to once it is listed
        # Number of conversations of the project; None while they are counted.
        self._conversations: int | None = None
        self.table = ItemTable(run_columns(), lambda run: run.name, id="runs")

    def compose_body(self) -> ComposeResult:
        """Yields the summary, list, the run under the cursor; or how to start one."""
        yield Static(id="summary")
        yield self.table
        yield RunPane(id="run")
        yield Static(classes="empty")

    def on_mount(self) -> None:
        """Reads what is read once, and starts the timer."""
        self.query_one(RunPane).display = False
        self.in_background(self.training.choices, self._show_choices, group="choices")
        counts = self.services.conversations.counts
        self.in_background(lambda: counts().conversations, self._show_count, group="count")
        self.set_interval(POLL_SECONDS, self.poll)

    # Reading

    def poll(self) -> None:
        """Reads the runs again if that is due: often while one is running in sight, else seldom."""
        self._polls += 1
        is_running = any(run.state == "running" for run in self.runs)
        if is_running and self.is_active:
            is_due = True
        else:
            # Out of sight a running run is watched for its end, in sight the list for runs started elsewhere.
            is_due = self._polls % IDLE_POLLS == 0 and (is_running or self.is_active)
        if is_due and not self._is_reading:
            self.refresh_data()

    def refresh_data(self) -> None:
        """Reads the runs, and everything about the one under the cursor; a call during a read repeats it afterwards."""
        training, here = self.training, self.table.cursor_item
        name_to_show = self._run_to_select or (None if here is None else here.name)

        def read() -> tuple[list[TrainingRun], RunDetail | None]:
            """Returns the runs of the project, and the one at the cursor or the first."""
            runs = training.runs()
            names = [run.name for run in runs]
            name = name_to_show if name_to_show in names else next(iter(names), None)
            if name is None:
                return runs, None
            detail = training.detail(name)
            # The run may have ended since the list was read: both must say the same.
            return [detail.run if run.name == name else run for run in runs], detail

        self.read_in_turn(
            read,
            lambda result: self._show_runs(*result),
            group="runs",
            on_error=self.show_in_summary,
        )

    def _show_runs(self, runs: list[TrainingRun], detail: RunDetail | None) -> None:
        """Shows the runs and the one under the cursor, and notifies of runs that ended."""
        self._notify_ends(runs)
        self.feed.publish_training(next((run for run in runs if run.state == "running"), None))
        self.runs = runs
        self.set_class(not runs, "-empty")
        self.table.show_items(runs)
        if self._run_to_select is not None and self.table.move_to_key(self._run_to_select):
            self._run_to_select = None
        if runs and self.focused is None:  # the list was hidden while it was empty
            self.table.focus()
        self._show_summary()
        self._show_detail(detail)

    def _show_detail(self, detail: RunDetail | None) -> None:
        """Shows a run below the list; reads again if the cursor has moved, or the run has ended, meanwhile."""
        here = self.table.cursor_item
        if detail is not None and here is not None:
            if detail.run.name != here.name:
                self._read_detail()
                return
            if detail.run.state != here.state:
                self.refresh_data()
                return
        memory = None if self.choices is None else self.choices.memory
        self.query_one(RunPane).show(detail, memory)

    def _read_detail(self) -> None:
        """Reads and shows the run under the cursor."""
        run = self.table.cursor_item
        if run is not None:
            self.in_background(
                lambda: self.training.detail(run.name),
                self._show_detail,
                group="detail",
                on_error=self.show_in_summary,
            )

    def _notify_ends(self, runs: Sequence[TrainingRun]) -> None:
        """Notifies of the runs that have ended since the last read."""
        running = {run.name for run in self.runs if run.state == "running"}
        for run in runs:
            if run.name in running and run.state in ENDED:
                is_broken = run.state in ("failed", "interrupted")
                self.notify(
                    formatting.ending_text(run),
                    title=f"Training {formatting.name_of(run)}{f' {run.state}' if is_broken else ''}",
                    severity="error" if is_broken else "information",
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
            formatting.summary_content(self.runs, self._is_starting, missing, hint)
        )

    def _show_starting(self, starting: bool) -> None:
        """Shows whether a run is being started."""
        self._is_starting = starting
        self._show_summary()

    # The list

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the run under the cursor."""
        self._read_detail()

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Goes to the samples and the log of the run, which the arrow keys then scroll."""
        self.query_one("#about").focus()

    # Actions that write

    def _change_run(self, name: str, work: Callable[[str], T], message: str) -> None:
        """Changes a run by `work` on another thread, then shows `message` in a notice, and reads again."""

        def show_change(_: T) -> None:
            self.notify(message, markup=False)
            self.refresh_data()

        self.in_background(lambda: work(name), show_change, group=f"act on {name}")

    def _writable_run(self) -> TrainingRun | None:
        """Returns the run under the cursor; None where there is none or the project is read-only."""
        run = self.table.cursor_item
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

        def show_start(name: str) -> None:
            self._show_starting(False)
            self.notify(
                "It goes on when you quit.", title=f"Training {short_name(name)}", markup=False
            )
            self._run_to_select = name
            self.refresh_data()

        def show_failure(error: WorkbenchError) -> None:
            self._show_starting(False)
            self.show_error(error)

        self._show_starting(True)
        self.in_background(
            lambda: self.training.start(request), show_start, group="start", on_error=show_failure
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
            lambda: self._change_run(run.name, self.training.stop, "It ends after its step."),
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
        self._change_run(run.name, self.training.resume, "It continues at its last checkpoint.")

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
            lambda: self._change_run(run.name, self.training.delete, "It is deleted."),
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

        def offer_scoring(_: None) -> None:
            self.refresh_data()
            if name is None:
                self.notify("No adapter is in use any more.", markup=False)
            else:
                self.action_score()

        write_in_order(self, lambda: self.training.use(name), offer_scoring, self.show_error)

    def action_score(self) -> None:
        """Shows what scoring with the adapter in use costs, and starts it."""
        if self.may_write():
            self.ask_scoring("tuned")


class TrainingRunForm(RunForm[TrainingRequest, TrainingEstimate]):
    """Asks what to train on, how and on which weights; estimates memory and time as the fields change."""

    PLACE = "training-new"
    FORM_TITLE = "Train an adapter"
    FIRST_FIELD = "recipe"
    OPTIONS = OPTIONS
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, training: TrainingService, choices: TrainingChoices) -> None:
        super().__init__()
        self._training = training
        self.choices = {
            "recipe": _form_choices(choices.recipes),
            "base": _form_choices(choices.bases),
            "held_out": HELD_OUT,
        }

    def compose_fields(self) -> ComposeResult:
        """Yields a line for each field of the request that a person chooses here."""
        yield field_line("filter", LineInput(id="filter", placeholder=OPTIONS["filter"].default))
        yield field_line("name", LineInput(id="name"))
        yield field_line("recipe", self.choice_field("recipe"))
        yield field_line("base", self.choice_field("base"))
        yield field_line("held out", self.choice_field("held_out"))
        yield field_line("limit", LineInput(id="limit", placeholder="all"))
        yield field_line("settings", LineInput(id="settings", placeholder="what fits this machine"))

    def request(self) -> TrainingRequest:
        """Returns the request that the fields describe.

        Raises:
            WorkbenchError: A field cannot be understood.
        """
        texts = {name: self.text(name) for name in ("name", "limit")}
        texts |= {field: self.chosen(field) for field in self.choices}
        try:
            filter = parse_filter(self.text("filter"))
        except FilterError as error:
            raise WorkbenchError(f"The filter: {one_line(error.message)}") from error
        return read_request(texts, self.text("settings").split(), filter)

    def estimate(self, request: TrainingRequest) -> TrainingEstimate:
        """Returns the estimate of the run."""
        return self._training.estimate(request)

    def estimate_content(self, cost: TrainingEstimate) -> Content:
        """Returns the estimate as text; also shows the proposed name in its field."""
        self.query_one("#name", Input).placeholder = one_line(cost.name, NAME_LIMIT)
        parts, facts, memory, *notes = estimate_lines(cost)
        return Content("\n").join(
            [
                Content(f"{parts}\n{facts}"),
                Content.styled(memory, "" if cost.fits else "$tone-incomplete"),
                *(Content.styled(note, "$tone-borderline") for note in notes),
            ]
        )


def _form_choices(choices: Sequence[Choice]) -> dict[str, FormChoice]:
    """Returns choices of the service as those of a field of the form, by their names."""
    return {choice.name: FormChoice(choice.name, choice.help) for choice in choices}


class RunPane(Vertical):
    """Shows a run; the scroll position stays while the same run is shown again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._detail: RunDetail | None = None

    def compose(self) -> ComposeResult:
        """Yields the headline, why the run failed, the curves, and below them the samples and the log."""
        yield Static(id="headline")
        yield Static(id="problem")
        with Horizontal(id="plots"):
            yield LinePlot(id="loss")
            yield LinePlot(id="valid")
        with VerticalScroll(id="about"), Container(id="both"):
            yield Static(id="samples")
            yield Static(id="tail")

    def show(self, detail: RunDetail | None, memory: int | None) -> None:
        """Shows a run, or nothing for None; `memory` is what a run may use, in bytes."""
        previous = self._detail
        self._detail = detail
        self.display = detail is not None
        if detail is None:
            return
        self.query_one("#headline", Static).update(formatting.headline(detail.run, memory))
        problem = formatting.problem_content(detail.run)
        line = self.query_one("#problem", Static)
        line.display = problem is not None
        line.update(problem or "")
        if previous is not None and _without_time(previous) == _without_time(detail):
            return  # drawing takes processor time from the training run
        self._show_curves(detail)
        self._show_texts()
        if previous is None or detail.run.name != previous.run.name:
            self.query_one("#about", VerticalScroll).scroll_home(animate=False)

    def on_resize(self) -> None:
        """Cuts the samples to the new width."""
        self.call_after_refresh(self._show_texts)

    def _show_texts(self) -> None:
        """Shows the samples in lines as wide as their pane, and the end of the log."""
        if self._detail is not None:
            width = self.query_one("#samples").size.width or self.size.width
            self.query_one("#samples", Static).update(formatting.about_content(self._detail, width))
            self.query_one("#tail", Static).update(formatting.tail_content(self._detail))

    def _show_curves(self, detail: RunDetail) -> None:
        """Draws the loss, and AUROC and F1 of the validations, over the steps."""
        steps = last_step(detail)
        empty = "no step yet" if detail.run.state in ("new", "running") else "no step was done"
        self.query_one("#loss", LinePlot).show(
            loss_title(detail),
            loss_lines(detail),
            loss_scale([value for line in loss_lines(detail) for _, value in line.points]),
            steps,
            marks=detail.resumed,
            empty=empty,
        )
        self.query_one("#valid", LinePlot).show(
            validation_title(detail),
            validation_lines(detail),
            share_scale([value for line in validation_lines(detail) for _, value in line.points]),
            steps,
            marks=detail.resumed,
            empty="no validation yet",
        )


def _without_time(detail: RunDetail) -> RunDetail:
    """Returns the run without its running time, the only figure that changes while nothing happens."""
    return replace(detail, run=replace(detail.run, seconds=0.0))


def last_step(detail: RunDetail) -> int:
    """Returns the step at the right end of the curves: while the run is running its last planned one, else its last."""
    steps = [point.step for point in detail.loss] + [point.step for point in detail.valid]
    if detail.run.state == "running" and detail.run.steps:
        steps.append(detail.run.steps)
    return max(steps, default=1)


def loss_lines(detail: RunDetail) -> list[Line]:
    """Returns the curve of the loss of the steps, and that of the validations over it."""
    selection = tuple((point.step, point.loss) for point in detail.valid if point.loss is not None)
    return [
        Line(tuple((point.step, point.loss) for point in detail.loss)),
        Line(selection, "tone--bright", SELECTION_SIGN),
    ]


def validation_lines(detail: RunDetail) -> list[Line]:
    """Returns the curve of the AUROC, that of F1, and the best point of the AUROC."""
    auroc = tuple((point.step, point.auroc) for point in detail.valid if point.auroc is not None)
    f1 = tuple((point.step, point.f1) for point in detail.valid if point.f1 is not None)
    best = tuple((step, value) for step, value in auroc if step == detail.run.best_step)
    return [
        Line(auroc),
        Line(f1, "tone--bright", SELECTION_SIGN),
        Line(best, "tone--accent", BEST_SIGN),
    ]


def loss_title(detail: RunDetail) -> list[Cell]:
    """Returns the title of the curves of losses: the last loss of each kind, after its sign."""
    newest = detail.loss[-1].loss if detail.loss else None
    selection = next(
        (point.loss for point in reversed(detail.valid) if point.loss is not None), None
    )
    return [
        (" ⠒ loss ", "tone--accent"),
        (formatting.loss_text(newest), "tone--bright"),
        (f"   {SELECTION_SIGN} selection part ", "tone--muted"),
        (formatting.loss_text(selection), "tone--bright"),
    ]


def validation_title(detail: RunDetail) -> list[Cell]:
    """Returns the title of the curves of validations: the best AUROC and its F1, each after its sign."""
    run = detail.run
    cells = [(" ⠒ AUROC ", "tone--accent"), (formatting.score_text(run.auroc), "tone--bright")]
    if run.best_step is not None:
        cells.append((f" {BEST_SIGN} best at {run.best_step:,}", "tone--muted"))
    cells += [
        (f"   {SELECTION_SIGN} F1 ", "tone--muted"),
        (formatting.score_text(run.f1), "tone--bright"),
    ]
    if detail.valid:
        cells.append((f"   n {detail.valid[-1].n:,}", "tone--muted"))
    return cells
