"""Calibration: what the verdicts say about the scores, and the threshold that follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base.conversation import Verdict
from engine.base.errors import FilterError
from engine.base.text import one_line
from engine.completeness.records import DecisionRule
from engine.conversations.filters import Filter, ListQuery, parse_filter
from engine.opener.open_project import OpenProject
from engine.questions.records import CalibrationReport
from screens.shell.dialogs import TextDialog
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import Figure, WorkbenchScreen, choose_figure
from screens.triage import calibration_formatting as words
from screens.triage.calibration_formatting import Reliability
from screens.widgets.background import write_in_order
from screens.widgets.jobs import EngineFeed


class CalibrationScreen(WorkbenchScreen[None]):
    """Verdicts, threshold, rate, reliability, and the rate of each saved filter."""

    PLACE = "calibration"
    AUTO_FOCUS = "#page"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "a", "take_over", "Take over", tooltip="Use the threshold that your verdicts suggest"
        ),
        Binding(
            "s",
            "take_success",
            "Success",
            tooltip="Use the newest probabilities of success, fitted to your verdicts",
        ),
        Binding("p", "pin", "Pin", tooltip="Pin the threshold, or free it"),
        Binding("enter", "figures", "Behind", tooltip="The conversations behind the figures"),
        Binding("escape,q,K", "close", "Back"),
        Binding("up,k", "page('up')", "Line up", show=False),
        Binding("down,j", "page('down')", "Line down", show=False),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str) -> None:
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._report: CalibrationReport | None = None

    def compose_body(self) -> ComposeResult:
        """Yields the figures of the scores beside the plot, filters below, then success and people."""
        with VerticalScroll(id="page"):
            with Horizontal(id="figures"):
                with Vertical(id="texts"):
                    for name, title in (
                        ("verdicts", "Your verdicts on what is scored"),
                        ("threshold", "Threshold"),
                        ("rate", "Did they get it? By your verdicts"),
                    ):
                        yield _section(name, title)
                plot = Reliability(id="plot")
                plot.add_class("section")
                plot.border_title = "Judged complete, by score"
                yield plot
            filters = Static(id="filters", classes="section")
            filters.border_title = (
                "Ended by score and complete by verdicts, overall and by saved filter"
            )
            yield filters
            yield _section("success", "Did it succeed? By your verdicts")
            yield _section("people", "Agreement of the people who judged")
        yield Static(classes="empty")

    def on_mount(self) -> None:
        """Shows that the scores are being read, which takes a moment in a large project."""
        super().on_mount()
        self.query_one(TitleLine).say(Content("Calibration · reading the scores…"))

    def refresh_data(self) -> None:
        """Computes everything again."""
        probes, calibration = self.services.example_probes, self.services.calibration

        def read() -> tuple[CalibrationReport, Content | None, list[str]]:
            newest = probes.newest_success()
            success = None
            if newest is not None:
                success = words.success_content(probes.in_force(), newest, probes.change())
            return calibration.report(), success, calibration.people().sentences()

        self.in_background(read, self._show, group="report")

    async def action_figures(self) -> None:
        """Lists the verdicts, where they differ from the score, and the saved filters, to open those conversations.

        Where there are none, starts what brings them.
        """
        if self.has_class("-empty"):
            await self.action_fill()
            return
        services = self.services

        def read() -> list[Figure]:
            figures = [(f"succeeded: {value}", f"succeeded:{value}") for value in Verdict]
            figures += [
                ("verdict and score differ", "disagreement:verdict"),
                ("people disagree", "disagreement:people"),
                *services.saved.filters().items(),
            ]
            return [_figure(services, name, text) for name, text in figures]

        self.in_background(
            read, lambda figures: choose_figure(self, "Conversations", figures), group="figures"
        )

    def _show(self, result: tuple[CalibrationReport, Content | None, list[str]]) -> None:
        """Shows the report, the figures of success, and the agreement of people."""
        report, success, people = result
        self._report = report
        section = self.query_one("#success", Static)
        section.display = success is not None
        if success is not None:
            section.update(success)
        section = self.query_one("#people", Static)
        section.display = bool(people)
        section.update(Content("\n".join(map(one_line, people))))
        self.query_one(TitleLine).say(Content.styled("Calibration", "bold"))
        empty = report.verdicts == 0
        self.set_class(empty, "-empty")
        if empty:
            self.show_empty(words.empty_state(report))
            return
        self.query_one("#verdicts", Static).update(words.verdicts_content(report))
        self.query_one("#threshold", Static).update(words.threshold_content(report))
        self.query_one("#rate", Static).update(words.rate_content(report.rate))
        plot = self.query_one(Reliability)
        plot.show(report.bins, report.rule.threshold)
        if report.calibration_error is not None:
            plot.border_subtitle = f"calibration error {report.calibration_error:.0%}"
        self._show_filters()

    def _show_filters(self) -> None:
        """Shows the table of filters in the width there is."""
        if self._report is not None:
            width = self.size.width - 4
            self.query_one("#filters", Static).update(words.filters_content(self._report, width))

    def on_resize(self) -> None:
        """The table uses the width there is."""
        self._show_filters()

    def action_pin(self) -> None:
        """Pins a threshold that is asked for, or frees the pinned one."""
        report = self._report
        if report is None or not self.may_write():
            return
        if report.rule.source == "chosen":
            self._pin(None)
            return

        def answered(text: str | None) -> None:
            if text is None:
                return
            try:
                threshold = float(text)
            except ValueError:
                threshold = -1.0
            if 0 <= threshold <= 1:
                self._pin(threshold)
            else:
                self.notify(
                    "A threshold is a number from 0 to 1.", severity="warning", markup=False
                )

        value = f"{report.rule.threshold:.3f}"
        self.app.push_screen(TextDialog("Pin the threshold at", value=value), answered)

    def action_take_over(self) -> None:
        """Uses the threshold that the verdicts suggest, or says why they suggest none."""
        report = self._report
        if report is None or not self.may_write():
            return
        proposal = report.proposal
        if proposal is None:
            why = report.why or report.not_proposed or "the threshold in force is the best one"
            message = f"Your verdicts suggest no other threshold: {one_line(why)}."
            self.notify(message, severity="warning", markup=False)
            return
        self._change(lambda: self.services.calibration.use(proposal.rule))

    def action_take_success(self) -> None:
        """Uses the newest probabilities of success, or says that nothing waits."""
        if not self.may_write():
            return
        probes = self.services.example_probes

        def work() -> bool:
            waits = probes.change() is not None
            if waits:
                probes.take_over()
            return waits

        def done(taken: bool) -> None:
            if taken:
                self.notify("The newest probabilities of success are in force.", markup=False)
                self.refresh_data()
            else:
                message = "No newer verdicts wait to be taken over about success."
                self.notify(message, severity="warning", markup=False)

        write_in_order(self, work, done, self.show_error)

    def _pin(self, threshold: float | None) -> None:
        """Pins a threshold; None frees the pinned one."""
        self._change(lambda: self.services.calibration.pin(threshold))

    def _change(self, work: Callable[[], DecisionRule]) -> None:
        """Changes the rule, and says which threshold is in force then."""

        def changed(rule: DecisionRule) -> None:
            pinned = "pinned at " if rule.source == "chosen" else ""
            threshold = words.format_threshold(rule.threshold)
            self.notify(f"The threshold is {pinned}{threshold}.", markup=False)
            self.refresh_data()

        write_in_order(self, work, changed, self.show_error)

    def action_page(self, direction: str) -> None:
        """Scrolls what does not fit."""
        page = self.query_one("#page", VerticalScroll)
        if direction == "up":
            page.scroll_up(animate=False)
        else:
            page.scroll_down(animate=False)


def _section(name: str, title: str) -> Static:
    """Returns an empty section with a title."""
    section = Static(id=name, classes="section")
    section.border_title = title
    return section


def _figure(services: OpenProject, name: str, text: str) -> Figure:
    """Returns a figure with its count; of a filter that cannot be read any more, of no conversation."""
    try:
        parsed_filter = parse_filter(text)
        return Figure(
            name, parsed_filter, len(services.conversations.ids(ListQuery(parsed_filter)))
        )
    except FilterError:
        return Figure(name, Filter(), 0)
