"""The truncation test: how well each kind of score separates whole conversations from cut ones."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.base.interval import Interval
from engine.base.text import one_line
from engine.results.records import CompletenessTable, TruthTable
from engine.results.table_rendering import tabbed_lines
from engine.results.validation import completeness_report
from engine.results.validation.service import ValidationService
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.exporting import copy
from screens.shell.run_form import refusal_content
from screens.widgets.background import background
from screens.widgets.report_columns import first_figure

NAME_WIDTH = 28
CELL = 17
"""Width of a column, with its interval."""


class TableDialog(Dialog[None]):
    """A row for each configuration of scores and for the two rules without a model; figures with 95% intervals."""

    PLACE = "truncation-table"
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,v", "dismiss(None)", "Close"),
        Binding("a", "all", "All", tooltip="On all conversations, or on the test part of the run"),
        Binding("y", "copy", "Copy", tooltip="Copy the table with tabs between the columns"),
    ]

    def __init__(self, validation: ValidationService, run: str | None) -> None:
        super().__init__()
        self._validation, self._run = validation, run
        self._shown_run = run
        self._table: CompletenessTable | None = None

    def compose(self) -> ComposeResult:
        """One text."""
        with Vertical(classes="dialog tall wide") as box:
            box.border_title = "Whole conversations against cut ones"
            with VerticalScroll():
                yield Static(Content.styled("computing …", "$tone-muted"), id="table")
            keys = (
                ("escape", "closes"),
                ("↑↓", "scroll"),
                ("a", "all conversations, or the test part"),
            )
            yield Static(hint_line(*keys, ("y", "copies")))

    def on_mount(self) -> None:
        """Computes the table."""
        self._read()

    def action_all(self) -> None:
        """Changes between the test part of the run and all conversations."""
        self._shown_run = None if self._shown_run is not None else self._run
        self._table = None
        self.query_one("#table", Static).update(Content.styled("computing …", "$tone-muted"))
        self._read()

    def _read(self) -> None:
        validation, run = self._validation, self._shown_run
        background(
            self,
            lambda: validation.truncation_test(run),
            self._show,
            self._failed,
            group="table",
        )

    def _show(self, table: CompletenessTable) -> None:
        self._table = table
        self._draw()

    def _failed(self, error: WorkbenchError) -> None:
        self.query_one("#table", Static).update(refusal_content(error))

    def on_resize(self) -> None:
        """Shows as many columns as fit."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        if self._table is not None:
            width = self.query_one(VerticalScroll).scrollable_content_region.width
            self.query_one("#table", Static).update(table_content(self._table, width))

    def action_copy(self) -> None:
        """Copies the table, intervals included."""
        if self._table is not None:
            copy(self, as_text(self._table), "the table")


def table_content(table: CompletenessTable, width: int) -> Content:
    """What was tested, the rows, and the same scores against the ground truth that was imported.

    A narrow terminal shows the first columns only.
    """
    cut, *_ = completeness_report.tables(table)
    columns = [one.title for one in cut.columns[1:]]
    which = completeness_report.tested_on(table)
    lines = [
        Content.assemble(
            (number_format.counted(table.n, "conversation"), "bold"),
            f" {which}: each whole, and cut at a random turn (seed {table.seed});"
            f" {100 * table.coverage:.0f}% of those that can be cut are scored.",
        ),
        Content.styled(
            "AUROC: how often the whole one has the higher value; 1 is perfect, .5 a coin."
            f" The others call complete what has at least {number_format.probability(table.threshold)}.",
            "$tone-muted",
        ),
        Content(""),
    ]
    shown = columns[: max(2, (width - NAME_WIDTH) // CELL)]
    head = f"{'':<{NAME_WIDTH}}" + "".join(f"{name:<{CELL}}" for name in shown)
    lines.append(Content.styled(head.rstrip(), "$tone-muted"))
    best = max(map(first_figure, cut.rows), default=0.0)
    for row in cut.rows:
        name = one_line(row.name, NAME_WIDTH - 2)
        look = "bold" if first_figure(row) == best else ""
        parts: list[tuple[str, str]] = [(f"{name:<{NAME_WIDTH}}", look)]
        figures = [one for one in row.cells if isinstance(one, Interval)]
        for figure in figures[: len(shown)]:
            value, interval = _cell(figure)
            parts += [(value, look), (f"{interval:<{CELL - len(value)}}", "$tone-muted")]
        lines.append(Content.assemble(*parts))
    if len(shown) < len(columns):
        left = ", ".join(columns[len(shown) :])
        lines.append(Content.styled(f"y copies {left} too", "$tone-muted"))
    for truth in table.truths:
        lines += _truth_lines(truth)
    return Content("\n").join(lines)


def _truth_lines(truth: TruthTable) -> list[Content]:
    head = Content.assemble(
        (f"against the ground truth: {one_line(truth.claim, 60)}", "bold"),
        (
            f"  holds for {truth.holds:,}, not for {truth.fails:,}; {one_line(truth.means, 160)}",
            "$tone-muted",
        ),
    )
    lines = [Content(""), head]
    if not truth.rows:
        lines.append(
            Content.styled(
                "it is the same for all conversations, so nothing can be measured", "$tone-muted"
            )
        )
    for row in truth.rows:
        auroc, ap = _cell(row.auroc), _cell(row.ap)
        lines.append(
            Content.assemble(
                f"{one_line(row.name, NAME_WIDTH - 2):<{NAME_WIDTH}}",
                ("AUROC ", "$tone-muted"),
                auroc[0],
                (f"{auroc[1]}   AP ", "$tone-muted"),
                ap[0],
                (ap[1], "$tone-muted"),
            )
        )
    return lines


def _cell(estimate: Interval) -> tuple[str, str]:
    """A figure and its interval as two texts, `.981` and ` [.95, .99]`."""
    value = number_format.probability(estimate.value, 3)
    return value, f" {number_format.ends(estimate.low, estimate.high)}"


def as_text(table: CompletenessTable) -> str:
    """The rows with tabs between the columns, each figure with its interval."""
    cut, *_ = completeness_report.tables(table)
    return "\n".join(tabbed_lines(cut, cut.rows, cut.columns))
