"""Two training runs side by side: their figures, the settings that differ, and both AUROC curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import one_line
from engine.training.records import RunDetail
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.exporting import copy
from screens.training import formatting
from screens.training.run_pane import last_step
from screens.widgets.line_plot import Line, LinePlot, share_scale

VALUE_CHARACTERS = 40
Row = tuple[str, str, str]
"""A name, and its value in each run."""


class CompareRunsDialog(Dialog[None]):
    """Figures and differing settings of two runs, and the AUROC of both over their steps."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,c", "dismiss(None)", "Close"),
        Binding("y", "copy", "Copy"),
    ]

    def __init__(self, first: RunDetail, second: RunDetail) -> None:
        super().__init__()
        self._pair = first, second

    def compose(self) -> ComposeResult:
        """Curves, figures, settings, keys."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = Content("Two runs")
            yield LinePlot()
            with VerticalScroll():
                yield Static(compare_content(*self._pair))
            yield Static(hint_line(("escape", "closes"), ("↑↓", "scroll"), ("y", "copies")))

    def on_mount(self) -> None:
        """Draws both curves."""
        first, second = self._pair
        curves = [
            tuple((point.step, point.auroc) for point in detail.valid if point.auroc is not None)
            for detail in self._pair
        ]
        self.query_one(LinePlot).show(
            [
                (" AUROC   ⠒ ", "tone--muted"),
                (formatting.name_of(first.run, 24), "tone--accent"),
                ("   × ", "tone--muted"),
                (formatting.name_of(second.run, 24), "tone--bright"),
            ],
            [Line(curves[0]), Line(curves[1], "tone--bright", "×")],
            share_scale([value for curve in curves for _, value in curve]),
            max(last_step(detail) for detail in self._pair),
            empty="neither was validated yet",
        )

    def action_copy(self) -> None:
        """Copies both as lines with tabs."""
        rows = [("", self._pair[0].run.name, self._pair[1].run.name)]
        rows += figure_rows(*self._pair) + setting_rows(*self._pair)
        copy(self, "\n".join("\t".join(row) for row in rows), "the comparison")


def figure_rows(first: RunDetail, second: RunDetail) -> list[Row]:
    """The figures of both runs; of AUROC and F1 also the difference of the second to the first."""
    here, there = dict(formatting.figures_of(first)), dict(formatting.figures_of(second))
    rows = []
    for name in {**here, **there}:
        value = there.get(name, formatting.DASH)
        measures = {
            "AUROC": (first.run.auroc, second.run.auroc),
            "F1": (first.run.f1, second.run.f1),
        }
        one, other = measures.get(name, (None, None))
        if one is not None and other is not None:
            value += f" ({number_format.difference(other - one, 3)})"
        rows.append((name, here.get(name, formatting.DASH), value))
    return rows


def setting_rows(first: RunDetail, second: RunDetail) -> list[Row]:
    """The settings in which the runs differ."""
    here = {setting.name: setting.value for setting in first.config}
    there = {setting.name: setting.value for setting in second.config}
    return [
        (name, here.get(name, formatting.DASH), there.get(name, formatting.DASH))
        for name in {**here, **there}
        if here.get(name) != there.get(name)
    ]


def compare_content(first: RunDetail, second: RunDetail) -> Content:
    """Both tables."""
    heads = (
        formatting.name_of(first.run, VALUE_CHARACTERS),
        formatting.name_of(second.run, VALUE_CHARACTERS),
    )
    settings = setting_rows(first, second)
    blocks = [_table("", *heads, figure_rows(first, second))]
    if settings:
        blocks.append(_table("settings that differ", *heads, settings))
    else:
        blocks.append(Content.styled("All settings are the same.", "$tone-muted"))
    return Content("\n\n").join(blocks)


def _table(title: str, first: str, second: str, rows: Sequence[Row]) -> Content:
    shown = [tuple(one_line(part, VALUE_CHARACTERS) for part in row) for row in rows]
    names = max(len(title), *(len(row[0]) for row in shown)) + 2
    values = max(len(first), *(len(row[1]) for row in shown)) + 3
    lines = [
        Content.assemble(
            (f"{title:<{names}}", "bold"), (f"{first:<{values}}", "bold"), (second, "bold")
        )
    ]
    lines += [
        Content.assemble((f"{name:<{names}}", "$tone-muted"), f"{one:<{values}}", other)
        for name, one, other in shown
    ]
    return Content("\n").join(lines)
