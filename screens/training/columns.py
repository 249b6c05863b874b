"""The columns of the list of training runs. Without Textual."""

from __future__ import annotations

from collections.abc import Sequence

from engine import number_format
from engine.services.training.records import TrainingRun
from engine.text import one_line
from screens.training import formatting as words
from screens.widgets.row_table import Column, Piece

Listed = tuple[int, TrainingRun]
"""A number that stays with a run while the list is shown, and the run."""


def run_columns() -> list[Column[Listed]]:
    """Name, state, what it was made of, how good it is, when and how long."""

    def name(row: Listed) -> Sequence[Piece]:
        used = f"{words.IN_USE} " if row[1].in_use else ""
        return [(used, "tone--accent"), (one_line(row[1].name, 200), "")]

    def state(row: Listed) -> Sequence[Piece]:
        run = row[1]
        look = words.STATES[run.state]
        told = words.state_word(run)
        if told == "running" and run.step is not None and run.steps:
            told = f"{100 * run.step / run.steps:.0f}%"
        return [(f"{look.glyph} {told}", look.tone_class)]

    def best(value: float | None) -> Sequence[Piece]:
        return [(words.score(value), "" if value is not None else "tone--muted")]

    return [
        Column("name", "run", 16, name, flexible=True),
        Column("state", "state", 13, state),
        Column("recipe", "recipe", 10, lambda r: [(one_line(r[1].recipe, 20), "")], keep=4),
        Column("base", "base", 22, lambda r: [(one_line(r[1].base, 60), "tone--muted")], keep=1),
        Column("trained", "trained on", 10, lambda r: [(f"{r[1].conversations:,}", "")],
               right=True, keep=3),
        Column("auroc", "AUROC", 5, lambda r: best(r[1].auroc), right=True, keep=8),
        Column("f1", "F1", 5, lambda r: best(r[1].f1), right=True, keep=7),
        Column("when", "begun (UTC)", 16, lambda r: [(words.when(r[1].created_at), "tone--muted")],
               keep=2),
        Column("time", "took", 10,
               lambda r: [(number_format.duration(r[1].seconds) if r[1].seconds else words.DASH, "")],
               right=True, keep=5),
    ]  # fmt: skip
