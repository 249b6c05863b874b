"""Two dialogs: everything about one training run, and the log of its process."""

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
from engine.training.records import RunDetail, Setting, ValidPoint
from engine.training.service import TrainingService
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.exporting import copy
from screens.shell.reading_dialogs import ReadingDialog
from screens.training import formatting
from screens.widgets.background import background
from screens.widgets.formatting import facts_table
from screens.widgets.text_pane import TextPane

MOST_VALIDATIONS = 200
"""Validations that are listed, the newest ones."""

WIDTH = 96
"""Cells of a line of a sample."""


class DetailDialog(Dialog[None]):
    """Figures, validations, samples, settings and warnings of a run, as of when the dialog was opened."""

    PLACE = "training-run"
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss(None)", "Close"),
        Binding("y", "copy", "Copy"),
    ]

    def __init__(self, detail: RunDetail) -> None:
        super().__init__()
        self._detail = detail

    def compose(self) -> ComposeResult:
        """One text."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = Content(formatting.name_of(self._detail.run, 80))
            with VerticalScroll():
                yield Static(detail_content(self._detail))
            yield Static(hint_line(("escape", "closes"), ("↑↓", "scroll"), ("y", "copies")))

    def action_copy(self) -> None:
        """Copies settings and figures."""
        copy(
            self,
            formatting.as_text(self._detail),
            f"the run {formatting.name_of(self._detail.run)}",
        )


def detail_content(detail: RunDetail) -> Content:
    """Everything about a run, in sections."""
    blocks = []
    problem = formatting.problem_content(detail.run)
    if problem is not None:
        blocks.append(problem)
    blocks.append(
        facts_table([*formatting.figures_of(detail), ("folder", one_line(detail.folder))])
    )
    if detail.valid:
        blocks.append(_section("validations", _valid_lines(detail.valid, detail.run.best_step)))
    if detail.samples:
        blocks.append(_section("samples", formatting.sample_content(detail.samples, WIDTH)))
    if detail.warnings:
        lines = [
            Content.styled(f"! {one_line(w, 400)}", "$tone-borderline") for w in detail.warnings
        ]
        blocks.append(_section("warnings", lines))
    if detail.config:
        blocks.append(_section("settings", [_setting(setting) for setting in detail.config]))
    if detail.last_lines:
        blocks.append(formatting.tail_content(detail))
    return Content("\n\n").join(blocks)


def _section(title: str, lines: Sequence[Content]) -> Content:
    return Content("\n").join([Content.styled(title, "bold"), *lines])


def _valid_lines(points: Sequence[ValidPoint], best: int | None) -> list[Content]:
    shown = list(points[-MOST_VALIDATIONS:])
    lines = [Content.styled("    step    loss   AUROC      F1   pairs", "$tone-muted")]
    for point in shown:
        mark = "  ◆ best" if point.step == best else ""
        lines.append(
            Content.assemble(
                f"{point.step:>8,}{formatting.loss(point.loss):>8}{formatting.score(point.auroc):>8}"
                f"{formatting.score(point.f1):>8}{point.n:>8,}",
                (mark, "$tone-accent"),
            )
        )
    if len(shown) < len(points):
        earlier = number_format.counted(len(points) - len(shown), "earlier validation")
        lines.insert(1, Content.styled(f"{earlier} left out", "$tone-muted"))
    return lines


def _setting(setting: Setting) -> Content:
    name, value = one_line(setting.name, 30), one_line(setting.value, 120)
    return Content.assemble(
        (f"{name:<15}", "$tone-muted"), f"{value}  ", (one_line(setting.help, 300), "$tone-muted")
    )


class LogDialog(ReadingDialog):
    """What the processes of a run printed, from its end."""

    PLACE = "training-log"
    WHAT = "the log"
    OWN_HINTS = (("r", "reads again"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close"),
        Binding("q,l", "dismiss(None)", "Close at once"),
        Binding("slash", "find", "Find"),
        Binding("n", "hit(1)", "Next hit"),
        Binding("N", "hit(-1)", "Previous hit"),
        Binding("r", "read", "Again", tooltip="Read what was printed since"),
        Binding("y", "copy", "Copy"),
    ]

    def __init__(self, training: TrainingService, name: str) -> None:
        super().__init__()
        self._training, self._run = training, name

    def title_line(self) -> Content:
        """Names the run."""
        return Content(f"Log of {one_line(self._run, 60)}")

    def on_mount(self) -> None:
        """Reads the log."""
        self.action_read()

    def action_read(self) -> None:
        """Reads the log again and goes to its end."""
        training, name = self._training, self._run
        background(self, lambda: training.log(name), self._show, self.show_error, group="log")

    def _show(self, text: str) -> None:
        self.query_one(TextPane).show(text or "Nothing was printed yet.", at_end=True)
