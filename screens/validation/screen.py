"""Validation: every metric against all that is known of the conversations, with curves and conclusions."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.errors import Cancelled, WorkbenchError
from engine.services.services import Services
from engine.services.validation.records import Plot, ReportTable, SheetRow, ValidationReport, Watch
from engine.text import one_line
from screens.shell.clipboard import copy
from screens.shell.save_dialogs import ask_file
from screens.shell.workbench_screen import TitleLine, WorkbenchScreen
from screens.validation import formatting as words
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.line_plot import Line, LinePlot, Scale
from screens.widgets.row_table import RowTable

POLL_SECONDS = 0.2
WHOLE = Scale(0.0, 1.0)
OTHER_LINES = 10
"""Title, summary, footer, jobs, and what of the rest the curves need at least."""
LEAST_LINES = 5


class ValidationScreen(WorkbenchScreen[None]):
    """Tables of every metric against truth, a page each; nothing here reaches a model."""

    PLACE = "validation"
    CSS_PATH = "validation.tcss"
    AUTO_FOCUS = "#rows"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "right_square_bracket,right,l", "turn(1)", "Next table", key_display="→", priority=True
        ),
        Binding(
            "left_square_bracket,left,h", "turn(-1)", "Table before", key_display="←", priority=True
        ),
        Binding("r", "again", "Work out", tooltip="Work everything out again"),
        Binding("y", "copy", "Copy", tooltip="Copy the table and its conclusions"),
        Binding("X", "export", "Export", tooltip="Write everything to a JSON file"),
        Binding("escape,q,V", "leave", "Back", tooltip="Cancel the work, or go back"),
    ]

    def __init__(self, services: Services, feed: EngineFeed, mode: str) -> None:
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._report: ValidationReport | None = None
        self._watch: Watch | None = None
        self._outdated = False
        self._page = 0
        self.table = RowTable[words.Listed](
            words.NO_COLUMNS,
            self._fetch,
            lambda listed: listed[0],
            id="rows",
        )

    def compose_body(self) -> ComposeResult:
        """Summary, table, curves, conclusions; or what is missing."""
        yield Static(id="summary")
        yield self.table
        with Horizontal(id="plots"):
            yield LinePlot(id="first")
            yield LinePlot(id="second")
        with VerticalScroll(id="said"):
            yield Static(id="words")
        yield Static(classes="empty")

    def on_mount(self) -> None:
        """Begins to work everything out, and watches it."""
        super().on_mount()
        self.query_one(TitleLine).say(Content.styled("Validation", "bold"))
        self.set_class(True, "-empty")
        self.set_interval(POLL_SECONDS, self._tell_progress)

    def on_unmount(self) -> None:
        """What is worked out for nobody is stopped."""
        if self._watch is not None:
            self._watch.cancelled = True

    # Working it out

    def refresh_data(self) -> None:
        """Begins at first; later, when the project changed, says that what is shown is from before."""
        if self._report is None and self._watch is None:
            self.action_again()
        elif self._report is not None:
            self._outdated = True
            self._tell()

    def action_again(self) -> None:
        """Works everything out, unless that is being done."""
        if self._watch is not None:
            return
        watch = self._watch = Watch()
        validation = self.services.validation
        self.in_background(
            lambda: validation.report(watch), self._show, group="report", failed=self._failed
        )
        self._tell_progress()

    def _tell_progress(self) -> None:
        if self._watch is None:
            return
        doing = one_line(self._watch.told, 100) or "reading the project"
        state = "stopping" if self._watch.cancelled else f"working it out: {doing}"
        told = Content.assemble((f"{state} … ", "$tone-accent"), ("escape cancels", "$tone-muted"))
        where = "#summary" if self._report is not None else ".empty"
        self.query_one(where, Static).update(told)

    def _failed(self, error: WorkbenchError) -> None:
        self._watch = None
        if self._report is not None:
            self._tell()
        else:
            again = "Cancelled." if isinstance(error, Cancelled) else one_line(str(error), 400)
            self.query_one(".empty", Static).update(
                Content.assemble(again, "\n\n", ("r", "bold $tone-accent"), " works it out again")
            )
        if not isinstance(error, Cancelled):
            self.show_error(error)

    def _show(self, report: ValidationReport) -> None:
        self._watch, self._report, self._outdated = None, report, False
        self.set_class(not report.sheets, "-empty")
        if not report.sheets:
            self.query_one("#summary", Static).update("")
            self.query_one(".empty", Static).update(words.empty_content(report.missing))
            return
        self._turn_to(min(self._page, words.pages(report) - 1))

    # Pages

    @property
    def _sheet(self) -> ReportTable | None:
        report = self._report
        if report is None or self._page >= len(report.sheets):
            return None
        return report.sheets[self._page]

    def action_turn(self, by: int) -> None:
        """Shows the next table, or the one before."""
        report = self._report
        if report is not None and report.sheets:
            self._turn_to((self._page + by) % words.pages(report))

    def _turn_to(self, page: int) -> None:
        self._page = page
        sheet = self._sheet
        self._tell()
        self.set_class(sheet is None, "-missing")
        self.set_class(sheet is not None and not sheet.plots, "-no-plots")
        self.query_one("#said", VerticalScroll).scroll_home(animate=False)
        if sheet is None:
            missing = () if self._report is None else self._report.missing
            self.query_one("#words", Static).update(words.missing_content(missing))
            self.query_one("#said", VerticalScroll).focus()
            return
        self._fit()
        self.table.show_columns(words.columns(sheet))
        # Rows are numbered through all sheets, so that none is taken for one of another sheet.
        first = self._first()
        self.table.show(array("q", range(first, first + len(sheet.rows))))
        self.table.focus()
        self._show_row()

    def _fit(self) -> None:
        """Gives the table as many lines as it has rows, and leaves room for curves and conclusions."""
        if self._sheet is not None:
            room = max(LEAST_LINES, (self.size.height - OTHER_LINES) // 2)
            self.table.styles.height = min(len(self._sheet.rows) + 1, room)

    def on_resize(self) -> None:
        """More or fewer rows have room."""
        self._fit()

    def _first(self) -> int:
        sheets = () if self._report is None else self._report.sheets
        return sum(len(sheet.rows) for sheet in sheets[: self._page])

    def _fetch(self, ids: Sequence[int]) -> list[words.Listed]:
        report = self._report
        rows = [] if report is None else [row for sheet in report.sheets for row in sheet.rows]
        return [(number, rows[number]) for number in ids if number < len(rows)]

    def _tell(self) -> None:
        if self._report is None or not self._report.sheets:
            return
        told = words.summary(self._report, self._page)
        if self._outdated:
            old = Content.styled(
                "the project has changed, r works it out again · ", "$tone-incomplete"
            )
            told = Content.assemble(old, told)
        self.query_one("#summary", Static).update(told)

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter goes to the conclusions, which may be longer than there is room."""
        self.query_one("#said", VerticalScroll).focus()

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Draws the row under the cursor."""
        self._show_row()

    @property
    def row_here(self) -> SheetRow | None:
        """The row under the cursor."""
        sheet, at = self._sheet, self.table.cursor_id
        if sheet is None or at is None:
            return None
        nth = at - self._first()
        return sheet.rows[nth] if 0 <= nth < len(sheet.rows) else None

    def _show_row(self) -> None:
        sheet, row = self._sheet, self.row_here
        if sheet is None or row is None:
            return
        beside = words.beside_of(sheet, row)
        self.query_one("#words", Static).update(words.said(sheet, row, beside))
        for nth, (place, plot) in enumerate(zip(("#first", "#second"), sheet.plots, strict=False)):
            other = () if beside is None else beside.curves[nth]
            self._draw(self.query_one(place, LinePlot), plot, row, row.curves[nth], other)

    def _draw(
        self,
        where: LinePlot,
        plot: Plot,
        row: SheetRow,
        curve: Sequence[tuple[float, float]],
        other: Sequence[tuple[float, float]],
    ) -> None:
        where.show(
            [
                (f" {one_line(plot.title, 40)} ", "tone--bright"),
                (words.name_of(row), "tone--accent"),
            ],
            [
                Line(tuple(plot.chance), "tone--muted"),
                Line(tuple(other), "tone--muted"),
                Line(tuple(curve), "tone--accent"),
            ],
            WHOLE,
            1.0,
            empty="no curve",
            across=one_line(plot.across, 40),
        )

    # Taking it along

    def action_copy(self) -> None:
        """Copies the table that is shown, with tabs, and its conclusions."""
        sheet = self._sheet
        if sheet is not None:
            copy(self, words.as_text(sheet), "the table")

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
        """Cancels what is being worked out; else goes back."""
        if self._watch is not None and not self._watch.cancelled:
            self._watch.cancelled = True
            self._tell_progress()
        else:
            self.dismiss(None)
