"""Replies without a schema: what a model may do then, and how its failures are counted and tabulated."""

from __future__ import annotations

from typing import Any

import pytest

from engine.simulate.forms.run import BAD_OUTPUTS
from engine.simulate.forms.table import FilledForm, by_module, form_rows
from tests.engine.simulate.forms.playing import (
    Script,
    all_but,
    answer_by_label,
    played,
    result,
    town_only,
)


def test_failures_are_counted_for_the_module() -> None:
    """A module that twice does not follow its instructions has failed; one that a fallback replaces has not."""
    script = Script({"user": answer_by_label, "chunk_filling": "I will ask a question."})
    found = result(script, dummies=all_but("chunk_filling"), form=town_only(), schemas=False)
    assert found["failed"].keys() == {"chunk_filling"}
    rows = {row.module: row for row in by_module([found])}
    failing = rows["chunk_filling"]
    assert (
        failing.replies
        == failing.repeated_calls
        == failing.failed
        == found["failed"]["chunk_filling"]
    )
    assert (rows["Dialogue Manager"].replies > 0, rows["Dialogue Manager"].failed) == (True, 0)


def test_a_baseline_that_does_not_follow_has_no_figures() -> None:
    """A run that ends by bad outputs counts as failed, and its figures enter no mean: the × of the paper."""
    failed = dict(played(Script({"question_generation": "no"}), variant="baseline").ending.result)
    assert (failed["ended"], failed["failed"]) == (BAD_OUTPUTS, {"question_generation": 1})
    (row, mean) = form_rows([FilledForm("m", "baseline", failed)])
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
    runs = [
        ("b", run("inv", 6)),
        ("b", run("ss5", 2)),
        ("b", run("ss5", 4)),
        ("b", run("ss5", None)),
        ("b", run("med", ended=BAD_OUTPUTS)),
        ("a", run("ss5", None)),
    ]
    rows = form_rows(FilledForm(model, "modular", result) for model, result in runs)
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
