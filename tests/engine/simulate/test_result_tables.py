"""Aptitude and unreliability of repeated simulations, and the table of models by form."""

from __future__ import annotations

from typing import Any

import pytest

from engine.simulate.forms.run import BAD_OUTPUTS
from engine.simulate.result_tables import (
    FilledForm,
    ScoredPlay,
    aptitude_table,
    aptitudes,
    form_rows,
)
from tests.engine.simulate.forms.playing import Script, played


def runs(instruction: str, *scores: float, condition: str = "sharded") -> list[ScoredPlay]:
    """Repetitions of one instruction."""
    return [ScoredPlay("math", condition, "m", instruction, score) for score in scores]


def test_means_over_instructions() -> None:
    """Each figure is computed for each instruction and then averaged, whatever their numbers of runs."""
    (row,) = aptitudes([*runs("a", *[0] * 5, *[1] * 5), *runs("b", 1, 1), *runs("c", *[0] * 9, 1)])
    assert (row.instructions, row.runs, row.fewest) == (3, 22, 2)
    assert row.performance == pytest.approx((50 + 100 + 10) / 3)
    # Of nine zeros and a one, the 90th percentile lies a tenth of the way between them.
    assert row.aptitude == pytest.approx((100 + 100 + 10) / 3)
    assert row.unreliability == pytest.approx((100 + 0 + 10) / 3)


def test_the_papers_table() -> None:
    """The table has P, A90 and U90-10 by condition, in the order of the paper, and the shares of FULL."""
    found = aptitudes([*runs("a", 1, 0), *runs("a", 1, 1, condition="full")])
    table = aptitude_table(found)
    full, sharded = table.rows
    assert full.cells == ("full", "math", 1, 2, 100.0, 1.0, 100.0, 0.0, 1.0, None)
    assert sharded.cells == ("sharded", "math", 1, 2, 50.0, 0.5, 90.0, 80.0, 0.9, None)
    assert table.notes == ()
    assert aptitudes([]) == []


def test_a_baseline_that_does_not_follow_has_no_figures() -> None:
    """A run that ends by bad outputs counts as failed, and its figures enter no mean: the × of the paper."""
    failed = dict(played(Script({}), variant="baseline").ending.result)
    assert failed["ended"] == BAD_OUTPUTS
    (row, mean) = form_rows([FilledForm("m", failed)])
    assert (row.form, row.runs, row.failed, row.filled_share, mean.filled_score) == (
        "small", 1, 1, None, None,
    )  # fmt: skip


def run(form: str, right: int | None = 8, ended: str = "stop") -> dict[str, Any]:
    """The result of a run that filled nine of ten fields."""
    return {
        "form": form, "variant": "modular", "length": 10, "turns": 4, "repetitions": 0, "ended": ended,
        "required": (9, 10), "optional": (0, 0),
        "required_right": None if right is None else (right, 10), "optional_right": None if right is None else (0, 0),
    }  # fmt: skip


def test_models_by_form_and_their_means() -> None:
    """Rows follow the forms of the paper; the mean over forms weighs each form alike, without failed ones. Success is
    of the runs whose answers are known."""
    filled = [
        ("b", run("inv", 6)),
        ("b", run("ss5", 2)),
        ("b", run("ss5", 4)),
        ("b", run("ss5", None)),
        ("b", run("med", ended=BAD_OUTPUTS)),
        ("a", run("ss5", None)),
    ]
    rows = form_rows(FilledForm(model, result) for model, result in filled)
    assert [(row.model, row.form, row.runs, row.failed) for row in rows] == [
        ("a", "ss5", 1, 0),
        ("a", "", 1, 0),
        ("b", "ss5", 3, 0),
        ("b", "med", 1, 1),
        ("b", "inv", 1, 0),
        ("b", "", 5, 1),
    ]
    assert (rows[0].success, rows[0].filled_share, rows[3].filled_share) == (None, 0.9, None)
    assert [rows[at].success for at in (2, 4, 5)] == pytest.approx([0.3, 0.6, 0.45])
    assert [rows[at].filled_share for at in (2, 4, 5)] == pytest.approx([0.9] * 3)
