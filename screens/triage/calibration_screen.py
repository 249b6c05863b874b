"""Calibration: what the verdicts say about the scores, and the threshold that follows."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base.conversation import SUCCEEDED, Verdict
from engine.base.text import one_line
from engine.completeness.records import DecisionRule
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.open_project import OpenProject
from engine.questions.records import MIN_VERDICTS, CalibrationReport, format_threshold
from screens.shell.figures import Figure, choose_figure
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order
from screens.widgets.controls import titled
from screens.widgets.empty_state import SCORE, EmptyState
from screens.widgets.formatting import facts_table
from screens.widgets.jobs import EngineFeed


class CalibrationScreen(WorkbenchScreen[None]):
    """Shows what verdicts say of the scores, of success, and of all who answered."""

    PLACE = "calibration"
    AUTO_FOCUS = "#page"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "take_over", "Take over", tooltip="Use the threshold that your verdicts suggest"),
        Binding("enter", "figures", "Behind", tooltip="The conversations behind the figures"),
        Binding("escape,q,K", "close", "Back"),
        Binding("up,k", "page('up')", "Line up", show=False),
        Binding("down,j", "page('down')", "Line down", show=False),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str) -> None:
        super().__init__(services, feed, mode)
        self._report: CalibrationReport | None = None
        # Facts on the probe of success, as names and texts.
        self._success_facts: list[tuple[str, str]] = []

    def compose_body(self) -> ComposeResult:
        """Yields a section for the scores, for success and for agreement."""
        with VerticalScroll(id="page"):
            for name, title in (
                ("scores", "What your verdicts say of the scores"),
                ("success", "Did it succeed? By your verdicts"),
                ("agreement", "Agreement of those who answered"),
            ):
                yield titled(Static(id=name, classes="section"), title)
        yield Static(classes="empty")

    def on_mount(self) -> None:
        """Shows that the scores are being read, which takes a moment in a large project."""
        self.query_one(TitleLine).say(Content("Calibration · reading the scores…"))

    def refresh_data(self) -> None:
        """Computes the report, the facts on success and the agreement again."""
        probes, calibration = self.services.example_probes, self.services.calibration

        def read() -> tuple[CalibrationReport, list[tuple[str, str]], list[str]]:
            probe = probes.in_force()
            checks = self.services.questions.checks(SUCCEEDED)
            agreement = [
                *calibration.people().sentences(),
                *(line for check in checks for line in check.sentences()),
            ]
            return calibration.report(), [] if probe is None else probe.facts(), agreement

        self.in_background(read, self._show, group="report")

    async def action_figures(self) -> None:
        """Lists the verdicts, and where they differ from the score or from each other, to open those conversations.

        Where there are none, starts what brings them.
        """
        if self.has_class("-empty"):
            await self.action_fill()
            return
        services = self.services

        def read() -> list[Figure]:
            names = {f"succeeded: {value}": f"succeeded:{value}" for value in Verdict}
            names["verdict and score differ"] = "disagreement:verdict"
            names["people disagree"] = "disagreement:people"
            filters = {name: parse_filter(text) for name, text in names.items()}
            return [
                Figure(name, filter, len(services.conversations.ids(ListQuery(filter))))
                for name, filter in filters.items()
            ]

        self.in_background(
            read, lambda figures: choose_figure(self, "Conversations", figures), group="figures"
        )

    def _show(self, result: tuple[CalibrationReport, list[tuple[str, str]], list[str]]) -> None:
        """Shows the report, the figures of success, and the agreement of people and of checked machines."""
        self._report, self._success_facts, agreement = result
        self.query_one("#success").display = bool(self._success_facts)
        section = self.query_one("#agreement", Static)
        section.display = bool(agreement)
        section.update(Content("\n".join(map(one_line, agreement))))
        self.query_one(TitleLine).say(Content.styled("Calibration", "bold"))
        empty = self._report.verdicts == 0
        self.set_class(empty, "-empty")
        if empty:
            self.show_empty(_empty_state(self._report))
        self._show_facts()

    def _show_facts(self) -> None:
        """Shows the facts in the width there is."""
        if self._report is not None:
            width = self.size.width - 4
            scores = facts_table(self._report.facts(), width)
            self.query_one("#scores", Static).update(scores)
            success = facts_table(self._success_facts, width)
            self.query_one("#success", Static).update(success)

    def on_resize(self) -> None:
        """Wraps the facts for the new width."""
        self._show_facts()

    def action_take_over(self) -> None:
        """Uses the threshold that the verdicts suggest, or notifies why they suggest none."""
        report = self._report
        if report is None or not self.may_write():
            return
        proposal = report.proposal
        if proposal is None:
            message = f"Your verdicts suggest no other threshold: {one_line(report.no_proposal)}."
            self.notify(message, severity="warning", markup=False)
            return

        def notify(rule: DecisionRule) -> None:
            """Tells which threshold is in force now."""
            self.notify(f"The threshold is {format_threshold(rule)}.", markup=False)
            self.refresh_data()

        use = self.services.calibration.use
        write_in_order(self, lambda: use(proposal.rule), notify, self.show_error)

    def action_page(self, direction: str) -> None:
        """Scrolls by a line, `up` or `down`."""
        page = self.query_one("#page", VerticalScroll)
        page.scroll_relative(y=-1 if direction == "up" else 1, animate=False)


def _empty_state(report: CalibrationReport) -> EmptyState:
    """Returns what to do when there is nothing to calibrate."""
    if not report.rate.scored:
        return SCORE
    return EmptyState(
        "Here your verdicts are compared with the scores. No scored conversation has a verdict yet.\n"
        f"About {MIN_VERDICTS} verdicts suggest a threshold.",
        "goes to triage; there, O and then “calibration” chooses a fair sample",
        "app.switch_mode('triage')",
    )
