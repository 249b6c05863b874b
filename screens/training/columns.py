"""The columns of the list of training runs."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base import number_format
from engine.base.text import one_line
from engine.training.records import TrainingRun
from screens.training import formatting
from screens.widgets.row_table import Column, Piece
from screens.widgets.times import date_and_minute

Listed = tuple[int, TrainingRun]
"""A number that identifies a run while the screen is open, and the run."""


def run_columns() -> list[Column[Listed]]:
    """Name, state, recipe, base, conversations, figures, start and running time."""

    def name(row: Listed) -> Sequence[Piece]:
        used = f"{formatting.IN_USE} " if row[1].in_use else ""
        return [(used, "tone--accent"), (one_line(row[1].name, 200), "")]

    def state(row: Listed) -> Sequence[Piece]:
        run = row[1]
        look = formatting.STATES[run.state]
        word = formatting.state_word(run)
        if word == "running" and run.step is not None and run.steps:
            word = f"{100 * run.step / run.steps:.0f}%"
        return [(f"{look.glyph} {word}", look.tone_class)]

    def figure(value: float | None) -> Sequence[Piece]:
        return [(formatting.score(value), "" if value is not None else "tone--muted")]

    return [
        Column("name", "run", 16, name, flexible=True),
        Column("state", "state", 13, state),
        Column("recipe", "recipe", 10, lambda r: [(one_line(r[1].recipe, 20), "")], keep=4),
        Column("base", "base", 22, lambda r: [(one_line(r[1].base, 60), "tone--muted")], keep=1),
        Column("trained", "trained on", 10, lambda r: [(f"{r[1].conversations:,}", "")],
               right=True, keep=3),
        Column("auroc", "AUROC", 5, lambda r: figure(r[1].auroc), right=True, keep=8),
        Column("f1", "F1", 5, lambda r: figure(r[1].f1), right=True, keep=7),
        Column("when", "started (UTC)", 16, lambda r: [(date_and_minute(r[1].created_at), "tone--muted")],
               keep=2),
        Column("time", "time", 10,
               lambda r: [(number_format.duration(r[1].seconds) if r[1].seconds else formatting.DASH, "")],
               right=True, keep=5),
    ]  # fmt: skip
