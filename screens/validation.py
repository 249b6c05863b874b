"""Validation: every metric against all that is known of the conversations, with curves and conclusions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base.errors import Cancelled, WorkbenchError
from engine.base.number_format import signed
from engine.base.report_table import CurveAxes, ReportRow, ReportTable, tab_separated
from engine.base.text import one_line
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.open_project import OpenProject
from engine.results.records import Missing, ValidationProgress, ValidationReport
from screens.shell.exporting import ask_file, copy
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import Figure, WorkbenchScreen, choose_figure
from screens.widgets.empty_state import EmptyState
from screens.widgets.jobs import EngineFeed
from screens.widgets.line_plot import Line, LinePlot, Scale
from screens.widgets.report_columns import NO_COLUMNS, first_figure, report_columns
from screens.widgets.row_table import ItemTable, RowTable

POLL_SECONDS = 0.2
"""Seconds between two updates of the progress that is shown."""

UNIT_SCALE = Scale(0.0, 1.0)
"""The horizontal axis of both plots."""

OTHER_LINES = 10
"""Lines of title, summary, footer, jobs bar and the smallest curves: the table gets the others."""

MIN_TABLE_LINES = 5
"""Fewest lines of the table."""

MAX_SENTENCE_CHARS = 400
"""Most characters of a conclusion or note."""

MAX_NAME_CHARS = 60
"""Most characters of the name of a row or table."""

MAX_STEP_CHARS = 100
"""Most characters of the step that is shown while the validation runs."""

MAX_AXIS_CHARS = 40
"""Most characters of the title of a plot or of its axis."""

MAX_NOTES_CHARS = 300
"""Most characters of the notes of a table in the summary."""

MAX_DESCRIPTION_CHARS = 200
"""Most characters of the description of a row."""

METRICS = {
    "goals": "goals: groups against gold goals",
    "completeness": "completeness",
    "trees": "uncertainty",
}
"""How the summary names each metric."""

_CLAIMS = {
    "reward 0": ("truth.reward<=0", "truth.reward>0"),
    "reward below 1": ("truth.reward<1", "truth.reward>=1"),
    "not complete": ("truth.complete:false", "truth.complete:true"),
    "success below 1": ("truth.success<1", "truth.success>=1"),
    "verdict no": ("succeeded:no", "succeeded:yes"),
}
"""Filters of the conversations for which a claim holds and does not hold."""


class ValidationScreen(WorkbenchScreen[None]):
    """Shows tables of every metric against the truth, a page each; nothing here asks a model."""

    PLACE = "validation"
    FIRST_KEYS = ("validation.next-table", "validation.copy", "validation.leave")
    AUTO_FOCUS = "#rows"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket,right,l", "turn(1)", "Next table", key_display="→", priority=True),
        Binding("left_square_bracket,left,h", "turn(-1)", "Table before", key_display="←", priority=True),
        Binding("r", "again", "Work out", tooltip="Work everything out again"),
        Binding("y", "copy", "Copy", tooltip="Copy the table and its conclusions"),
        Binding("X", "export", "Export", tooltip="Write everything to a JSON file"),
        Binding("escape,q,V", "leave", "Back", tooltip="Cancel the work, or go back"),
    ]  # fmt: skip

    def __init__(self, services: OpenProject, feed: EngineFeed, mode: str) -> None:
        """See `WorkbenchScreen`."""
        super().__init__(services, feed, mode)
        self._report: ValidationReport | None = None  # the newest one
        self._progress: ValidationProgress | None = None  # of the validation that runs
        self._outdated = False  # whether the project changed since the report
        self._page = 0  # index of the table that is shown; one more is the page of what is missing
        self.table = ItemTable(NO_COLUMNS, id, id="rows")

    def compose_body(self) -> ComposeResult:
        """Yields the summary, table, curves, conclusions; or what is missing."""
        yield Static(id="summary")
        yield self.table
        with Horizontal(id="plots"):
            yield LinePlot(id="first")
            yield LinePlot(id="second")
        with VerticalScroll(id="conclusions"):
            yield Static(id="words")
        yield Static(classes="empty")

    def on_mount(self) -> None:
        """Starts the validation and shows its progress."""
        super().on_mount()
        self.query_one(TitleLine).say(Content.styled("Validation", "bold"))
        self.set_class(True, "-empty")
        self.set_interval(POLL_SECONDS, self._show_progress)

    def on_unmount(self) -> None:
        """Cancels the validation."""
        if self._progress is not None:
            self._progress.cancelled = True

    # Computing

    def refresh_data(self) -> None:
        """Starts the validation the first time; later, when the project changed, shows that the tables are outdated."""
        if self._report is None and self._progress is None:
            self.action_again()
        elif self._report is not None:
            self._outdated = True
            self._show_summary()

    def action_again(self) -> None:
        """Starts the validation, unless it is running."""
        if self._progress is not None:
            return
        progress = self._progress = ValidationProgress()
        validation = self.services.validation
        self.in_background(
            lambda: validation.report(progress), self._show, group="report", failed=self._failed
        )
        self._show_progress()

    def _show_progress(self) -> None:
        """Shows at what the validation is, while it runs."""
        if self._progress is None:
            return
        step = one_line(self._progress.step, MAX_STEP_CHARS) or "reading the project"
        state = "stopping" if self._progress.cancelled else f"working it out: {step}"
        text = Content.assemble((f"{state} … ", "$tone-accent"), ("escape cancels", "$tone-muted"))
        where = "#summary" if self._report is not None else ".empty"
        self.query_one(where, Static).update(text)

    def _failed(self, error: WorkbenchError) -> None:
        """Shows why there is no report, and how to go on."""
        self._progress = None
        if self._report is not None:
            self._show_summary()
        else:
            notice = (
                "Cancelled."
                if isinstance(error, Cancelled)
                else one_line(str(error), MAX_SENTENCE_CHARS)
            )
            self.show_empty(
                EmptyState(notice, "works it out again", "again", needs_no_conversations=True)
            )
        if not isinstance(error, Cancelled):
            self.show_error(error)

    def _show(self, report: ValidationReport) -> None:
        """Shows a report."""
        self._progress, self._report, self._outdated = None, report, False
        self.set_class(not report.tables, "-empty")
        if not report.tables:
            self.query_one("#summary", Static).update("")
            self.show_empty(empty_state(report.missing))
            return
        self._turn_to(min(self._page, pages(report) - 1))

    # Pages

    @property
    def _table_here(self) -> ReportTable | None:
        """The table that is shown; None on the page of what is missing."""
        report = self._report
        if report is None or self._page >= len(report.tables):
            return None
        return report.tables[self._page]

    def action_turn(self, by: int) -> None:
        """Shows the next table, or the one before."""
        report = self._report
        if report is not None and report.tables:
            self._turn_to((self._page + by) % pages(report))

    def _turn_to(self, page: int) -> None:
        """Shows a page."""
        self._page = page
        table = self._table_here
        self._show_summary()
        self.set_class(table is None, "-missing")
        self.set_class(table is not None and not table.plots, "-no-plots")
        self.query_one("#conclusions", VerticalScroll).scroll_home(animate=False)
        if table is None:
            missing = () if self._report is None else self._report.missing
            self.query_one("#words", Static).update(missing_content(missing))
            self.query_one("#conclusions", VerticalScroll).focus()
            return
        self._fit()
        self.table.show_columns(report_columns(table))
        self.table.show_items(table.rows)
        self.table.focus()
        self._show_row()

    def _fit(self) -> None:
        """Gives the table as many lines as it has rows, and leaves room for curves and conclusions."""
        if self._table_here is not None:
            room = max(MIN_TABLE_LINES, (self.size.height - OTHER_LINES) // 2)
            self.table.styles.height = min(len(self._table_here.rows) + 1, room)

    def on_resize(self) -> None:
        """Fits the table to the room that there is."""
        self._fit()

    def _show_summary(self) -> None:
        """Shows what the page is about, and whether the project changed since."""
        if self._report is None or not self._report.tables:
            return
        text = summary(self._report, self._page)
        if self._outdated:
            old = Content.styled(
                "the project has changed, r works it out again · ", "$tone-incomplete"
            )
            text = Content.assemble(old, text)
        self.query_one("#summary", Static).update(text)

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Lists the conversations that the table compares, as far as a filter can name them."""
        table = self._table_here
        if table is not None:
            figures = figures_of(table)
            conversations = self.services.conversations

            def choose(counted_figures: list[Figure]) -> None:
                """Lets the person choose among the figures, whose conversations are listed then."""
                choose_figure(self, table.title, counted_figures)

            self.in_background(
                lambda: [
                    replace(figure, count=len(conversations.ids(ListQuery(figure.filter))))
                    for figure in figures
                ],
                choose,
                group="figures",
            )

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Draws the row under the cursor."""
        self._show_row()

    @property
    def row_here(self) -> ReportRow | None:
        """The row under the cursor."""
        return None if self._table_here is None else self.table.here

    def _show_row(self) -> None:
        """Shows conclusions and curves of the row under the cursor."""
        table, row = self._table_here, self.row_here
        if table is None or row is None:
            return
        compared = compared_row(table, row)
        self.query_one("#words", Static).update(conclusions_content(table, row, compared))
        places = ("#first", "#second")
        for index, (place, axes) in enumerate(zip(places, table.plots, strict=False)):
            other = () if compared is None else compared.curves[index]
            self._draw(self.query_one(place, LinePlot), axes, row, row.curves[index], other)

    def _draw(
        self,
        plot: LinePlot,
        axes: CurveAxes,
        row: ReportRow,
        curve: Sequence[tuple[float, float]],
        other: Sequence[tuple[float, float]],
    ) -> None:
        """Draws the curve of a row beside that of another one and that of guessing.

        Args:
            plot: Where it is drawn.
            axes: The axes of the curves.
            other: The curve of the other row; empty where there is none.
        """
        plot.show(
            [
                (f" {one_line(axes.title, MAX_AXIS_CHARS)} ", "tone--bright"),
                (name_of(row), "tone--accent"),
            ],
            [
                Line(tuple(axes.chance), "tone--muted"),
                Line(tuple(other), "tone--muted"),
                Line(tuple(curve), "tone--accent"),
            ],
            UNIT_SCALE,
            1.0,
            empty="no curve",
            across=one_line(axes.x_title, MAX_AXIS_CHARS),
        )

    # Copy and export

    def action_copy(self) -> None:
        """Copies the table that is shown, with tabs, and its conclusions."""
        table = self._table_here
        if table is not None:
            copy(self, tab_separated(table, table.rows), "the table")

    def action_export(self) -> None:
        """Asks for a file and writes everything to it."""
        report = self._report
        if report is None:
            return

        validation = self.services.validation
        ask_file(
            self,
            "Write all tables to",
            "validation.json",
            lambda path: validation.export(report, path),
        )

    def action_leave(self) -> None:
        """Cancels a running validation; else goes back."""
        if self._progress is not None and not self._progress.cancelled:
            self._progress.cancelled = True
            self._show_progress()
        else:
            self.dismiss(None)


def summary(report: ValidationReport, page: int) -> Content:
    """Returns which page of how many this is, and what it is about."""
    place = f"{page + 1} of {pages(report)}"
    if page >= len(report.tables):
        title = f"what is missing for more ({len(report.missing)})"
        return Content.assemble((f"◂ {place} ▸ ", "$tone-accent"), (title, "bold"))
    table = report.tables[page]
    return Content.assemble(
        (f"◂ {place} ▸ ", "$tone-accent"),
        (METRICS[table.metric or ""], "bold"),
        "" if table.metric == "goals" else f" against {one_line(table.title, MAX_NAME_CHARS)}",
        (f" · {one_line('; '.join(table.notes[:2]), MAX_NOTES_CHARS)}", "$tone-muted"),
    )


def pages(report: ValidationReport) -> int:
    """Returns the number of tables, and one page on what is missing where anything is."""
    return len(report.tables) + bool(report.missing)


def conclusions_content(
    table: ReportTable, row: ReportRow | None, compared: ReportRow | None
) -> Content:
    """Returns what the row under the cursor is, what can be concluded of all rows, and the notes of the table.

    Args:
        compared: The row whose curves are drawn beside those of `row`.
    """
    lines: list[Content] = []
    if row is not None:
        description = (
            f": {one_line(row.description, MAX_DESCRIPTION_CHARS)}" if row.description else ""
        )
        lines.append(
            Content.assemble((name_of(row), "bold $tone-bright"), (description, "$tone-muted"))
        )
        if compared is not None and row.curves:
            lines.append(
                Content.styled(f"drawn faintly: {name_of(compared)}, and chance", "$tone-muted")
            )
    if table.conclusions:
        lines.append(Content.styled("all rows", "bold"))
        lines += [Content(one_line(sentence, MAX_SENTENCE_CHARS)) for sentence in table.conclusions]
    by_chance = [
        f"{column.title} {signed(column.chance)}"
        for column in table.columns
        if column.chance is not None and column.on_screen
    ]
    if by_chance:
        lines.append(Content.styled(f"by chance: {', '.join(by_chance)}", "$tone-muted"))
    lines += [
        Content.styled(one_line(note, MAX_SENTENCE_CHARS), "$tone-muted") for note in table.notes
    ]
    return Content("\n").join(lines)


def name_of(row: ReportRow) -> str:
    """Returns the name of a row, display-safe."""
    return one_line(row.name, MAX_NAME_CHARS)


def missing_content(missing: Sequence[Missing]) -> Content:
    """Returns what is missing for more tables, and the commands that produce it."""
    lines = []
    for gap in missing:
        lines.append(
            Content.assemble((gap.metric, "bold"), f"  {one_line(gap.what, MAX_SENTENCE_CHARS)}")
        )
        if gap.how:
            lines.append(
                Content.styled(f"  {one_line(gap.how, MAX_SENTENCE_CHARS)}", "$tone-accent")
            )
    return Content("\n").join(lines)


def empty_state(missing: Sequence[Missing]) -> EmptyState:
    """Returns what to do when no metric can be compared with any truth."""
    return EmptyState(
        "Nothing to validate yet.\n\n"
        "Here every metric is compared with what is known of the conversations:\n"
        "rewards, completion, gold goals, judged answers that came with the import.\n\n"
        + missing_content(missing).plain,
        "imports logs for which the outcome is known",
        "import_files",
    )


def compared_row(table: ReportTable, row: ReportRow) -> ReportRow | None:
    """Returns the row whose curves are drawn beside those of a row: the best of the other kind, or of the other rows
    where there is one kind only; None where there is no other row.
    """
    of_other_kind = [other for other in table.rows if other.kind != row.kind]
    others = of_other_kind or [other for other in table.rows if other is not row]
    return max(others, key=first_figure, default=None)


def figures_of(table: ReportTable) -> list[Figure]:
    """Returns the conversations that a table compares, as far as filters can name them."""
    if table.metric == "goals":
        return [
            Figure("with a gold goal, in a goal", parse_filter("truth.goal:any goal:any")),
            Figure("with a gold goal, in no goal", parse_filter("truth.goal:any goal:none")),
        ]
    measured = "leaves>=0" if table.metric == "trees" else "-state:not-scored"
    if table.title not in _CLAIMS:
        return [Figure("measured", parse_filter(measured))]
    holds, fails = _CLAIMS[table.title]
    return [
        Figure(f"{table.title}, {answer}", parse_filter(f"{term} {measured}"))
        for answer, term in (("yes", holds), ("no", fails))
    ]
