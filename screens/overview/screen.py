"""The overview: what is in the project, what the scores say, and what to do next.

It has two sides: the answers, with what to read and to do, and the cards that show how the figures were measured. Each
part is read on its own, in the background, because some parts take much longer than others.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import ScreenResume
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.base.errors import WorkbenchError
from engine.base.events import DataChanged, Event, JobEnded, JobStarted
from engine.base.text import PATH_LIMIT, one_line
from engine.completeness.records import Mode, ScoreSet
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.sets import in_force, reliability
from engine.conversations.filters import Filter
from engine.conversations.personal_data import format_replaced
from engine.goals.records import GoalGroup, ReviewProgress
from engine.opener.key_figures import UNLIKELY, FirstReading, conversations_to_read, success_probe
from engine.opener.open_project import OpenProject
from engine.project.records import Estimate
from engine.questions.records import CalibrationReport
from engine.results.associations.records import Split
from screens.overview import facts
from screens.overview.next_steps import (
    PATH,
    Kind,
    ProjectProgress,
    Step,
    count_done_of_path,
    next_steps,
)
from screens.shell.dialogs import ChoiceDialog, ask
from screens.shell.exporting import ask_export, ask_file
from screens.shell.figures import choose_figure
from screens.shell.reading_dialogs import QuarantineDialog, SharedTextDialog
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.controls import Card, Choices, titled
from screens.widgets.curve import Histogram
from screens.widgets.evidence import Preview
from screens.widgets.jobs import EngineFeed, work_of

if TYPE_CHECKING:
    from engine.opener.exports import ExportKind

EXPORT_KINDS: tuple[tuple[ExportKind, str], ...] = (
    ("scores", "conversations, with their scores and states"),
    ("answers", "what people answered: verdicts, tags and notes"),
    ("conversations", "the messages, in the uniform format"),
    ("clusters", "goals, with the groups that they were made of"),
    ("assignments", "conversations, with their goals"),
)
"""What can be exported, with what it holds."""

REPORT_LACKS: dict[Kind, str] = {
    "import": "there is nothing to report yet",
    "score": "the report cannot say yet how many ended",
    "cluster": "the report has no goals yet",
}
"""What a report lacks while a step of the path is not done."""


class OverviewScreen(WorkbenchScreen[None]):
    """Shows the answers of the whole project, or how they were measured; it is read again while jobs write."""

    MODE = "overview"
    FIRST_KEYS = ("card.open", "overview.import-files", "overview.run-scoring")
    AUTO_FOCUS = "#next"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run_scoring", "Score", tooltip="Score conversations; says first what it costs"),
        Binding("S", "choose_scores", "Scores", tooltip="Choose which set of scores is in force", show=False),
        Binding("i", "import_files", "Import", tooltip="Import a file or a folder"),
        Binding("v", "measured", "Measured", tooltip="How the figures were measured, or the answers again"),
        Binding("K", "calibration", "Calibration", tooltip="What your verdicts say of the scores", show=False),
        Binding("p", "report", "Report", tooltip="Write a report on the project to a file"),
        Binding("C", "app.compare", "Compare", show=False, tooltip="Compare months, models or two filters"),
        Binding(
            "A", "accounts", "Accounts",
            tooltip="What was read from each source, and where its text went", show=False,
        ),
        Binding("Q", "quarantine", "Quarantine", tooltip="Records that could not be imported, and why", show=False),
        Binding(
            "B", "shared_text", "Shared text",
            tooltip="Text that many conversations share, which lists and goals leave out", show=False,
        ),
        Binding("q", "app.quit", "Quit", tooltip="Quit; jobs go on where they were next time"),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self._overview: facts.Overview | None = None  # None before it was read
        self._mode: Mode = "base"  # mode of the scoring that is offered
        self._cost: Estimate | str | None = None  # of that scoring; see `ProjectProgress.to_score`
        self._cost_for: int | None = None  # number of unscored conversations that it is the cost of
        self._steps: list[Step] = []
        self._readings: list[FirstReading] = []  # the conversations to read first
        self._readings_for: dict[str, int] | None = None  # number of verdicts when these were read
        self._goals: Sequence[GoalGroup] | None = None  # None before they were read
        self._has_new_decisions = False  # on goals, since they were read
        self._merges: ReviewProgress | None = None  # how far the decisions on pairs of goals are
        self._slow_figures = facts.SlowFigures()
        self._were_slow_figures_read = False
        self._answers: list[facts.AnswerLine] = []
        self._report: CalibrationReport | None = None
        self._report_for: object = None  # what the report was computed from

    def compose_body(self) -> ComposeResult:
        """Yields the answers, with what to read and to do and a conversation beside them; and the other cards."""
        with Horizontal(id="answered"):
            with Vertical(id="columns"):
                with Vertical(id="readings", classes="card"):
                    yield Choices(id="to-read", markup=False, compact=True)
                with titled(
                    Vertical(id="answers-card", classes="card"), "In short · enter says more"
                ):
                    yield Choices(id="answers", markup=False, compact=True)
                with Card("What did they want?", id="goals"):
                    yield Static(id="goals-text")
                with titled(Vertical(id="next-card", classes="card"), "Next"):
                    yield Choices(id="next", markup=False, compact=True)
            yield Preview(self.services)
        with Vertical(id="cards"):
            with Card("Did it end?", id="rate"):
                yield Static(id="rate-text")
                yield Static(id="set-text")
                yield Histogram(id="histogram")
            with Card("Did they get it?", id="verdicts"):
                yield Static(id="verdicts-text")
                yield Static(id="share-text")

    def refresh_data(self) -> None:
        """Reads the whole project again; a call during a read repeats it afterwards."""
        self.read_in_turn(lambda: facts.load_overview(self.services), self._show, group="overview")

    def _show(self, overview: facts.Overview) -> None:
        """Shows the overview, and reads the parts that take longer."""
        self._overview = overview
        self._show_cards()
        self.query_one("#rate-text", Static).update(facts.rate_content(overview))
        self.query_one(Histogram).show(overview.histogram, overview.rule)
        self.query_one(Histogram).display = bool(overview.counts.scored)
        self._estimate(overview)
        self._show_steps()
        self._load_report(overview)
        self._load_readings(overview.tally)
        self._load_goals()
        self._load_slow_figures()

    def _load_report(self, overview: facts.Overview) -> None:
        """Reads the report again if verdicts, scores or the rule changed since it was read."""
        report_for = (
            tuple(sorted(overview.tally.items())),
            overview.counts.scored,
            overview.rule,
            in_force(overview.sets),
        )
        if report_for == self._report_for:
            return
        self._report_for = report_for
        if not any(overview.tally.values()):
            self._show_report(None)
            return
        self.in_background(
            lambda: self.services.calibration.report(), self._show_report, group="report"
        )

    def _show_report(self, report: CalibrationReport | None) -> None:
        """Shows how many of all succeeded; None stands for a project without verdicts."""
        self._report = report
        line = self.query_one("#share-text", Static)
        line.display = report is not None
        if report is not None:
            line.update(Content(f"succeeded, of all: {report.rate.corrected_text}"))
        self._show_answers()
        self._show_steps()

    def _load_readings(self, tally: dict[str, int]) -> None:
        """Reads which conversations to read first.

        While a job keeps changing them they are read again only if the number of verdicts changed.
        """
        if tally == self._readings_for and self.services.jobs.active():
            return
        self._readings_for = tally

        def read() -> tuple[list[FirstReading], str]:
            """Returns the conversations, and the title of the card, which says by what they were chosen."""
            probe = success_probe(self.services)
            by = f" · {UNLIKELY}, {probe.basis}" if probe else ""
            return conversations_to_read(self.services), f"Read these first{by}"

        def show(read: tuple[list[FirstReading], str]) -> None:
            """Shows the card with these conversations, if there are any."""
            readings, title = read
            titled(self.query_one("#readings"), title)
            self._readings = readings
            self.set_class(bool(readings), "-readings")
            self.query_one(Preview).set_class(bool(readings), "-followed")
            self.call_after_refresh(self._show_readings)  # once the card has its width

        self.in_background(read, show, group="readings")

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Draws again what came in the meantime, since only a screen in front has its widths."""
        self.on_resize()

    def _show_readings(self) -> None:
        """Lists the conversations to read first, as wide as there is room; the cursor stays."""
        choices = self.query_one("#to-read", Choices)
        cells = choices.size.width
        _set_lines(choices, [facts.reading_content(reading, cells) for reading in self._readings])

    def _show_answers(self) -> None:
        """Shows what is known of each answer, as wide as there is room; the cursor stays."""
        if self._overview is None:
            return
        choices = self.query_one("#answers", Choices)
        self._answers = facts.answer_lines(
            self._overview, self._goals, self._report, self._slow_figures
        )
        cells = choices.size.width
        _set_lines(choices, [facts.answer_content(line, cells) for line in self._answers])

    def _load_slow_figures(self) -> None:
        """Reads the figures that take longest, and not again while a job keeps changing them."""
        if self._were_slow_figures_read and self.services.jobs.active():
            return
        self._were_slow_figures_read = True

        def show(figures: facts.SlowFigures) -> None:
            self._slow_figures = figures
            self._show_cards()

        self.in_background(
            lambda: facts.load_slow_figures(self.services), show, group="slow figures"
        )

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Shows the conversation under the cursor beside the list."""
        event.stop()
        if event.option_list.id == "to-read":
            self.query_one(Preview).follow(self._readings[event.option_index].row.id)

    def action_measured(self) -> None:
        """Shows how the figures were measured, or the answers again."""
        self.toggle_class("-measured")
        first = "#rate" if self.has_class("-measured") else "#next"
        self.query_one(first).focus()

    def _load_goals(self) -> None:
        """Reads the goals and how many merge proposals wait.

        While a job keeps changing them they are read again only if the person decided on them.
        """
        if self._goals is not None and not self._has_new_decisions and self.services.jobs.active():
            return
        self._has_new_decisions = False
        service = self.services.goals

        def read() -> Sequence[GoalGroup]:
            return () if service.shown() is None else service.groups()

        def show(goals: Sequence[GoalGroup]) -> None:
            self._goals = goals
            self._show_cards()
            self._show_steps()

        def show_progress(progress: ReviewProgress) -> None:
            self._merges = progress
            self._show_steps()

        self.in_background(read, show, group="goals")
        # Apart, because the merge probabilities take longer than all the rest.
        progress = self.services.merge_review.progress
        self.in_background(progress, show_progress, group="proposals")

    def _show_cards(self) -> None:
        """Shows the cards and the answers as far as they are known, in as many lines as there is room for."""
        narrow = self.has_class("-narrow")
        overview = self._overview
        if overview is not None:
            line = self.query_one("#set-text", Static)
            line.update(facts.set_content(overview.sets, brief=narrow))
            line.display = bool(overview.sets)
            verdicts = facts.verdicts_content(overview, self._slow_figures.failures)
            self.query_one("#verdicts-text", Static).update(verdicts)
        if self._goals is not None:
            self.query_one("#goals-text", Static).update(facts.goals_content(self._goals))
            self.set_class(bool(self._goals), "-goals")
        self._show_answers()

    def on_resize(self) -> None:
        """Draws the lines and cards again, since another width may have room for more."""
        self.call_after_refresh(self._show_cards)
        self.call_after_refresh(self._show_readings)

    # What to do next

    def _estimate(self, overview: facts.Overview) -> None:
        """Estimates the cost of scoring, if the number of conversations to score changed."""
        unscored = overview.counts.unscored
        if unscored == 0 or unscored == self._cost_for or "scoring" in self._working:
            return
        self._cost_for = unscored
        jobs = self.services.jobs

        def estimate() -> tuple[Mode, Estimate]:
            mode = jobs.scoring_mode()
            return mode, jobs.estimate_scoring(ScoringRequest(mode=mode))

        def show(mode_and_cost: tuple[Mode, Estimate]) -> None:
            self._mode, self._cost = mode_and_cost
            self._show_steps()

        def show_refusal(error: WorkbenchError) -> None:
            self._cost = error.message
            self._show_steps()

        self.in_background(estimate, show, group="estimate", on_error=show_refusal)

    @property
    def _working(self) -> frozenset[str]:
        """The work that jobs which run or wait are part of; finding a model's format is a part of scoring."""
        works = {work_of(job.stage) for job in self.services.jobs.active()}
        return frozenset("scoring" if work == "tune" else work for work in works)

    def _show_steps(self) -> None:
        """Lists the steps again where they changed, and keeps the cursor on its step."""
        overview = self._overview
        if overview is None:
            return
        steps = next_steps(self._progress(overview))
        if steps == self._steps:
            return
        choices = self.query_one("#next", Choices)
        index = choices.highlighted or 0
        kind = self._steps[index].kind if index else None
        self._steps = steps
        choices.set_options([Option(_step_content(step)) for step in steps])
        # The cursor on the first line stays there: that is always the next step.
        choices.highlighted = next(
            (number for number, step in enumerate(steps) if kind is not None and step.kind == kind),
            0,
        )
        title = f"Next · {count_done_of_path(steps)} of {len(PATH)} done"
        titled(self.query_one("#next-card"), title)

    def _progress(self, overview: facts.Overview) -> ProjectProgress:
        """Returns what is known of the project's state."""
        return ProjectProgress(
            counts=overview.counts,
            tally=overview.tally,
            interrupted=[] if self.services.jobs.active() else self.services.jobs.interrupted(),
            to_score=self._cost,
            working=self._working,
            calibrated=overview.rule.source != "default",
            proposal=None if self._report is None else self._report.proposal,
            better=_better(overview),
            goals=None if self._goals is None else len(self._goals),
            merges=self._merges,
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Opens the conversation, or does the step, that was chosen by enter or a click."""
        event.stop()
        if event.option_list.id == "to-read":
            order = array("q", (reading.row.id for reading in self._readings))
            self.open_reader(order, event.option_index)
            return
        if event.option_list.id == "answers":
            line = self._answers[event.option_index]
            self._open_figures(line.key, line.question)
            return
        self._do(self._steps[event.option_index])

    def _do(self, step: Step) -> None:
        """Does a step, or says what it waits for."""
        if step.after:
            self.notify(f"{step.title}: {step.after}.", markup=False)
            return
        actions: dict[Kind, Callable[[], object]] = {
            "import": self.action_import_files,
            "score": self.action_run_scoring,
            "resume": lambda: self.resume(step.run, self._mode) if step.run else None,
            "triage": lambda: self.app.switch_mode("triage"),
            "choose": self.action_choose_scores,
            "calibrate": self.action_calibration,
            "cluster": lambda: self.open_form("goals", "run_clustering"),
            "merge": lambda: self.app.switch_mode("desk"),
            "export": lambda: ask_export(self, "Export", EXPORT_KINDS, None),
        }
        if (act := actions.get(step.kind)) is not None:
            act()

    def action_report(self) -> None:
        """Asks whether to replace personal data, then for a file, and writes the report to it.

        The steps of the path without which the report would lack something are offered, too.
        """
        choices: list[tuple[bool | Step, str | Content]] = []
        if self._overview is None or self._overview.counts.conversations:
            choices = [
                (False, "with everything that was written"),
                (True, "without e-mail addresses, phone numbers, cards, IBANs and IP addresses"),
            ]
        choices += [
            (step, Content.assemble(f"first: {step.title}", (f"  {lacks}", "$tone-muted")))
            for step in self._steps
            if (lacks := REPORT_LACKS.get(step.kind)) and not step.done and not step.after
        ]

        def go_on(choice: bool | Step) -> None:
            """Does the step that was chosen, or writes the report, with or without personal data."""
            if isinstance(choice, Step):
                self._do(choice)
            else:
                title = "Write the report to (file.html)"
                ask_file(self, title, "report.html", lambda path: self._write_report(path, choice))

        ask(self, ChoiceDialog("The report", choices), go_on)

    def _write_report(self, path: str, redact: bool) -> str:
        """Writes the report and returns the notice about it; takes seconds."""
        # imported here because the report needs much that no screen does
        from engine.opener.report import write_report

        written = write_report(self.services, Path(path), Filter(), redact=redact)
        sentence = f"Wrote {one_line(path, PATH_LIMIT)} ({written.bytes / 1000:,.0f} kB)."
        return f"{sentence} {format_replaced(written.redacted)}" if redact else sentence

    def action_accounts(self) -> None:
        """Shows what was read from each source."""
        from screens.shell.reading_dialogs import SourcesDialog

        self.app.push_screen(SourcesDialog(self.services.conversations))

    def action_quarantine(self) -> None:
        """Shows the records that could not be imported."""
        self.app.push_screen(QuarantineDialog(self.services.conversations))

    def action_shared_text(self) -> None:
        """Shows the text that many conversations share."""
        if self._overview is not None:
            self.app.push_screen(SharedTextDialog(self._overview.shared))

    def action_choose_scores(self) -> None:
        """Asks which set of scores is in force from now on."""
        if self._overview is None or not self.may_write():
            return
        sets = self._overview.sets
        now = in_force(sets)
        if not sets:
            starts = self._key_of("overview.run-scoring")
            self.notify(f"No scores yet; {starts} scores.", markup=False)
            return

        now_key = None if now is None else now.config_hash

        def put_in_force(key: str) -> None:
            """Puts a set in force, by its config hash, unless it is already."""
            if key != now_key:
                self.in_background(
                    lambda: self.services.score_sets.use(key),
                    lambda _: self.refresh_data(),
                    group="choose",
                )

        title = "Scores in force; no run, and choosing again goes back"
        ask(self, ChoiceDialog(title, facts.set_choices(sets), now_key), put_in_force)

    def action_calibration(self) -> None:
        """Shows what the verdicts say about the scores."""
        self.app.push_screen(self.routes.calibration(self.MODE))

    def on_card_opened(self, message: Card.Opened) -> None:
        """Lists the figures of the card, to open the conversations behind one."""
        self._open_figures(message.card.id or "", str(message.card.border_title))

    def _open_figures(self, key: str, title: str) -> None:
        """Lists the figures of a card or an answer, or goes to the screen that has them."""
        if self._overview is None or key == "goals":
            self.app.switch_mode("goals" if key == "goals" else "conversations")
            return
        if key == "verdicts" and not any(self._overview.tally.values()):
            self.app.switch_mode("triage")
            return
        if key == "change" and self._slow_figures.change is not None:
            change = self._slow_figures.change
            # What goes with the last month in the goal that changed most, where one did.
            goal = next(
                (difference.goal for difference in change.differences if difference.goal), None
            )
            of_goal = Filter().with_choice("goal", goal)
            last, first = (
                of_goal.with_choice("date", month) for month in (change.last, change.first)
            )
            self.open_why(Split(last, first))
            return
        services, overview = self.services, self._overview
        self.in_background(
            lambda: facts.figures_of(services, key, overview),
            lambda figures: choose_figure(self, title, figures),
            group="figures",
        )

    def _handle_event(self, event: Event) -> None:
        """Reads again when a job begins or ends, and after changes, as every screen does."""
        if isinstance(event, DataChanged) and "goal_decision" in event.tables:
            self._has_new_decisions = True
        if isinstance(event, JobStarted | JobEnded):
            self._cost_for = None
            self._stale = not self.is_active
            if self.is_active:
                self.refresh_data()
        super()._handle_event(event)


def _set_lines(choices: Choices, lines: Sequence[Content]) -> None:
    """Puts lines into a list; the cursor stays where it is, or goes to the first one."""
    index = choices.highlighted or 0
    choices.set_options([Option(line) for line in lines])
    if lines:
        choices.highlighted = min(index, len(lines) - 1)


def _better(overview: facts.Overview) -> ScoreSet | None:
    """Returns a set of scores that is better than the one in force; None where there is none."""
    now = in_force(overview.sets)
    return None if now is None else reliability(now, overview.sets).better


def _step_content(step: Step) -> Content:
    """Returns a step as a line: its sign, its title, and the time or what stands in its way."""
    parts: list[tuple[str, str] | str] = []
    if step.done:
        parts += [("✓ ", "$tone-complete"), (step.title, "$tone-muted")]
    elif step.after:
        parts += [("· " + step.title, "$tone-muted"), (f"   {step.after}", "$tone-muted")]
    else:
        parts += [("▸ ", "$tone-accent"), step.title]
    if step.time:
        parts.append((f"   {step.time}", "$tone-muted"))
    if step.why_not:
        parts.append((f"   {step.why_not}", "$tone-incomplete"))
    return Content.assemble(*parts)
