"""One training run below the list: its state, its curves, and samples of the model before and after training."""

from __future__ import annotations

from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from engine.training.records import RunDetail
from screens.training import formatting
from screens.widgets.line_plot import Cell, Line, LinePlot, loss_scale, share_scale

SELECTION = "×"
"""Sign of a value that was measured on the selection part."""
BEST = "◆"
"""Sign of the best validation."""


class RunPane(Vertical):
    """Shows one run; the scroll position stays while the same run is shown again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._detail: RunDetail | None = None
        self._memory: int | None = None  # bytes

    def compose(self) -> ComposeResult:
        """Yields the headline, why it failed, curves, and below them samples and log."""
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
        before = self._detail
        self._detail, self._memory = detail, memory
        self.display = detail is not None
        if detail is None:
            return
        self.query_one("#headline", Static).update(formatting.headline(detail.run, memory))
        problem = formatting.problem_content(detail.run)
        line = self.query_one("#problem", Static)
        line.display = problem is not None
        line.update(problem or "")
        if before is not None and _without_time(before) == _without_time(detail):
            return  # drawing takes processor time from the training run
        self._show_curves(detail)
        self._show_texts()
        if before is None or detail.run.name != before.run.name:
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
            valid_title(detail),
            valid_lines(detail),
            share_scale([value for line in valid_lines(detail) for _, value in line.points]),
            steps,
            marks=detail.resumed,
            empty="no validation yet",
        )


def _without_time(detail: RunDetail) -> RunDetail:
    """Returns the run without its running time, the only figure that changes while nothing happens."""
    return replace(detail, run=replace(detail.run, seconds=0.0))


def last_step(detail: RunDetail) -> int:
    """Returns the step at the right end of the curves: the last planned one while the run is running, else the last one
    done.
    """
    done = [point.step for point in detail.loss] + [point.step for point in detail.valid]
    if detail.run.state == "running" and detail.run.steps:
        done.append(detail.run.steps)
    return max(done, default=1)


def loss_lines(detail: RunDetail) -> list[Line]:
    """Returns the loss of the steps, and over it that of the validations."""
    selection = tuple((p.step, p.loss) for p in detail.valid if p.loss is not None)
    return [
        Line(tuple((point.step, point.loss) for point in detail.loss)),
        Line(selection, "tone--bright", SELECTION),
    ]


def valid_lines(detail: RunDetail) -> list[Line]:
    """Returns the AUROC as a line with its best point, and F1 as points."""
    auroc = tuple((p.step, p.auroc) for p in detail.valid if p.auroc is not None)
    f1 = tuple((p.step, p.f1) for p in detail.valid if p.f1 is not None)
    best = tuple((step, value) for step, value in auroc if step == detail.run.best_step)
    return [
        Line(auroc),
        Line(f1, "tone--bright", SELECTION),
        Line(best, "tone--accent", BEST),
    ]


def loss_title(detail: RunDetail) -> list[Cell]:
    """Returns the last loss of each kind, each after its sign."""
    newest = detail.loss[-1].loss if detail.loss else None
    selection = next((p.loss for p in reversed(detail.valid) if p.loss is not None), None)
    return [
        (" ⠒ loss ", "tone--accent"),
        (formatting.loss_text(newest), "tone--bright"),
        (f"   {SELECTION} selection part ", "tone--muted"),
        (formatting.loss_text(selection), "tone--bright"),
    ]


def valid_title(detail: RunDetail) -> list[Cell]:
    """Returns the best AUROC and its F1, each after its sign."""
    run = detail.run
    parts = [(" ⠒ AUROC ", "tone--accent"), (formatting.score_text(run.auroc), "tone--bright")]
    if run.best_step is not None:
        parts.append((f" {BEST} best at {run.best_step:,}", "tone--muted"))
    parts += [
        (f"   {SELECTION} F1 ", "tone--muted"),
        (formatting.score_text(run.f1), "tone--bright"),
    ]
    if detail.valid:
        parts.append((f"   n {detail.valid[-1].n:,}", "tone--muted"))
    return parts
