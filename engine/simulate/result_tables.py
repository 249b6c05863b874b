"""Tables of the results of plays, with the columns of the source papers: Laban et al. (2025) for sharded conversations,
Hakimov, Weiser and Schlangen (2024) for forms.

A play is one simulated conversation; a shard is a piece of an instruction, and the condition says how the shards are
given: FULL gives the instruction as it is, and other conditions are compared with it.

Aptitude says how good answers to one instruction are at best, unreliability how far good and bad runs lie apart. Each
instruction is simulated several times under a condition, with scores S of 0 to 100. Averaged performance P is their
mean, aptitude A90 their 90th percentile, unreliability U90-10 the 90th less the 10th percentile; percentiles are
interpolated linearly. All three are computed for each instruction and then averaged over instructions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from engine.base.report_table import Cell, ReportColumn, ReportRow, ReportTable
from engine.base.text import one_line
from engine.simulate.forms.form import TOPICS
from engine.simulate.forms.form_scores import FormScores
from engine.simulate.forms.run import BAD_OUTPUTS
from engine.simulate.sharded.play import CONDITIONS

_MAX_NAME_CHARS = 80
"""Most characters of the name of a row."""

SCORE_SCALE = 100
"""Aptitude is given on a scale from 0 to this, as in the paper; scores of conversations are in [0, 1]."""

LOW_PERCENTILE, HIGH_PERCENTILE = 10, 90
"""Percentiles of the runs of one instruction that count as its bad and its good runs."""


# Sharded conversations


class ScoredPlay(NamedTuple):
    """One simulated conversation: what was simulated, under which condition and by which model; `score` in [0, 1]."""

    task: str
    condition: str
    model: str
    instruction: str
    score: float


@dataclass(frozen=True, slots=True)
class Aptitude:
    """Means over the instructions of a task, under one condition and for one model; all but the counts in 0 to 100.

    Attributes:
        task: Name of the task.
        condition: Name of the condition.
        model: Name of the model.
        instructions: Number of instructions.
        runs: Number of conversations over all instructions.
        fewest: Least number of runs of an instruction; with one run, unreliability is always 0.
        performance, aptitude, unreliability: P, A90 and U90-10.
    """

    task: str
    condition: str
    model: str
    instructions: int
    runs: int
    fewest: int
    performance: float
    aptitude: float
    unreliability: float


def aptitudes(plays: Iterable[ScoredPlay]) -> list[Aptitude]:
    """Returns a row for each task, condition and model, in that order; conditions in that of the paper."""
    groups: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for play in plays:
        scores_by_instruction = groups[play.task, play.condition, play.model]
        scores_by_instruction[play.instruction].append(SCORE_SCALE * play.score)
    return [
        _aptitude_of(task, condition, model, list(groups[task, condition, model].values()))
        for task, condition, model in sorted(
            groups, key=lambda group: (group[0], _place_of(group[1]), group)
        )
    ]


def _aptitude_of(task: str, condition: str, model: str, scores: list[list[float]]) -> Aptitude:
    """Returns the means over instructions; `scores` has for each instruction the scores of its runs, in 0 to 100."""
    percentiles = [
        np.percentile(run_scores, (LOW_PERCENTILE, HIGH_PERCENTILE)) for run_scores in scores
    ]
    low, high = np.array(percentiles).T  # each of shape (instructions,)
    return Aptitude(
        task=task,
        condition=condition,
        model=model,
        instructions=len(scores),
        runs=sum(map(len, scores)),
        fewest=min(map(len, scores)),
        performance=float(np.mean([np.mean(run_scores) for run_scores in scores])),
        aptitude=float(high.mean()),
        unreliability=float((high - low).mean()),
    )


_APTITUDE_COLUMNS = (
    ReportColumn("instr.", "count"),
    ReportColumn("runs", "count"),
    ReportColumn("P", "number"),
    ReportColumn("of FULL", "percent"),
    ReportColumn("A90", "number"),
    ReportColumn("U90-10", "number"),
    ReportColumn("A of FULL", "percent"),
    ReportColumn("U of FULL", "percent"),
)
"""The columns of performance, aptitude and unreliability."""


def aptitude_table(rows: Sequence[Aptitude]) -> ReportTable:
    """Returns a row for each task, condition and model; the model is named where there are several. P, A90 and U90-10
    are also given as shares of those of the condition FULL, as Laban et al. tell them."""
    has_models = len({row.model for row in rows}) > 1
    table = []
    for row, share in zip(rows, _shares_of_full(rows), strict=True):
        cells: list[Cell] = [row.condition, one_line(row.task, _MAX_NAME_CHARS)]
        if has_models:
            cells.append(one_line(row.model, _MAX_NAME_CHARS))
        cells += [
            row.instructions,
            row.runs,
            row.performance,
            share["performance"],
            row.aptitude,
            row.unreliability if row.fewest > 1 else None,
            share["aptitude"],
            share["unreliability"],
        ]
        table.append(ReportRow(tuple(cells)))
    columns = (
        ReportColumn("condition", "text"),
        ReportColumn("task", "text"),
        *([ReportColumn("model", "text")] if has_models else []),
        *_APTITUDE_COLUMNS,
    )
    # `fewest` is the least number of runs of one instruction; one run alone says nothing of the spread of its scores.
    is_played_once = any(row.fewest == 1 for row in rows)
    notes = ("Where an instruction was played once, its reliability is not known.",)
    return ReportTable("by condition", columns, tuple(table), notes if is_played_once else ())


def aptitude_json(rows: Sequence[Aptitude]) -> list[dict[str, Any]]:
    """Returns the rows as JSON values; `of_full` has shares of the condition FULL, None where it was not played."""
    return [
        asdict(row) | {"of_full": share}
        for row, share in zip(rows, _shares_of_full(rows), strict=True)
    ]


def _shares_of_full(rows: Sequence[Aptitude]) -> list[dict[str, float | None]]:
    """Returns P, A90 and U90-10 of each row as shares of those of FULL for the same task and model; None where these
    are 0 or not known."""
    full_rows = {(row.task, row.model): row for row in rows if _place_of(row.condition) == 0}
    shares: list[dict[str, float | None]] = []
    for row in rows:
        full_row = full_rows.get((row.task, row.model))
        share: dict[str, float | None] = {}
        for name in ("performance", "aptitude", "unreliability"):
            whole = getattr(full_row, name) if full_row is not None else 0
            share[name] = getattr(row, name) / whole if whole else None
        if row.fewest == 1 or (full_row is not None and full_row.fewest == 1):
            share["unreliability"] = None
        shares.append(share)
    return shares


def _place_of(conv_type: str) -> int:
    """Returns the index of a condition among those of the paper; the number of these if the condition is none of them.

    Args:
        conv_type: Name of the condition in the logs, perhaps with a number of shards and temperatures after it.
    """
    while conv_type not in CONDITIONS and "-" in conv_type:
        conv_type = conv_type.rpartition("-")[0]
    return list(CONDITIONS).index(conv_type) if conv_type in CONDITIONS else len(CONDITIONS)


# Forms


_MEANS = (
    "fields", "turns", "repetitions", "filled_share", "success", "efficiency", "filled_score", "score",
)  # fmt: skip
"""The figures of a run whose means a `FormRow` has."""

_FORM_COLUMNS = (
    ReportColumn("model", "text"),
    ReportColumn("variant", "text"),
    ReportColumn("form", "text"),
    ReportColumn("runs", "count"),
    ReportColumn("complete", "count"),
    ReportColumn("failed", "count"),
    ReportColumn("fields", "number"),
    ReportColumn("turns", "number"),
    ReportColumn("reps", "number"),
    ReportColumn("Filled", "share"),
    ReportColumn("Success", "share"),
    ReportColumn("Efficiency", "share"),
    ReportColumn("Filled score", "share"),
    ReportColumn("Score", "share"),
)


class FilledForm(NamedTuple):
    """A form that was filled once: by which model, and the figures of `FormScores` by name, with `form`, `variant` and
    `ended`."""

    model: str
    result: Mapping[str, Any]


def _form_order(form: str) -> tuple[int, str]:
    """Returns the sort key of a form: those of Hakimov et al. in their order, then others by name."""
    known_forms = list(TOPICS)
    return known_forms.index(form) if form in known_forms else len(known_forms), form


def _mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are known; None without one."""
    known_values = [value for value in values if value is not None]
    return fmean(known_values) if known_values else None


@dataclass(frozen=True, slots=True)
class FormRow:
    """The runs of one form by one model and variant, as in Tables 1 and 2 of Hakimov et al.; a field is a column.

    Attributes:
        model: The model of the assistant.
        variant: The way to fill the form.
        form: The form; "" for the mean over forms (Figure 2a).
        runs, complete: Number of runs, and of those that filled all required fields; of the mean over forms, of all
            forms.
        failed: Number of runs that ended because the instructions were not followed: the × of Table 1.
        fields, turns, repetitions, filled_share, efficiency, filled_score: Means over the runs that did not fail; None
            if all failed. `fields` and `turns` are those of Figure 2b.
        success, score: Means over those of them whose correct answers are known; None without one.
    """

    model: str
    variant: str
    form: str
    runs: int
    complete: int
    failed: int
    fields: float | None
    turns: float | None
    repetitions: float | None
    filled_share: float | None
    success: float | None
    efficiency: float | None
    filled_score: float | None
    score: float | None


def form_rows(filled_forms: Iterable[FilledForm]) -> list[FormRow]:
    """Returns a row for each model, variant and form, and after the forms of a model and variant the mean over them."""
    results: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for filled in filled_forms:
        variant = str(filled.result.get("variant", ""))
        forms = results.setdefault((filled.model, variant), {})
        forms.setdefault(filled.result["form"], []).append(filled.result)
    table: list[FormRow] = []
    for (model, variant), forms in sorted(results.items()):
        rows = [
            _form_row(model, variant, name, forms[name]) for name in sorted(forms, key=_form_order)
        ]
        table += [*rows, _mean_over_forms(model, variant, rows)]
    return table


def _form_row(model: str, variant: str, form: str, runs: Sequence[Mapping[str, Any]]) -> FormRow:
    """Returns the row of one form; its means are over the runs that did not fail."""
    scores = [FormScores.of(run) for run in runs]
    usable_scores = [
        score for score, run in zip(scores, runs, strict=True) if run.get("ended") != BAD_OUTPUTS
    ]
    figures = [{**score.figures(), "fields": score.length} for score in usable_scores]
    means = {name: _mean(run_figures[name] for run_figures in figures) for name in _MEANS}
    return FormRow(
        model,
        variant,
        form,
        runs=len(runs),
        complete=sum(score.complete for score in scores),
        failed=len(runs) - len(usable_scores),
        **means,
    )


def _mean_over_forms(model: str, variant: str, rows: Sequence[FormRow]) -> FormRow:
    """Returns the row of the means over forms, each of which weighs alike."""
    means = {name: _mean(getattr(row, name) for row in rows) for name in _MEANS}
    return FormRow(
        model,
        variant,
        form="",
        runs=sum(row.runs for row in rows),
        complete=sum(row.complete for row in rows),
        failed=sum(row.failed for row in rows),
        **means,
    )


def form_table(filled_forms: Sequence[FilledForm]) -> ReportTable:
    """Returns models by forms, as in Tables 1 and 2 of Hakimov et al., and the means over forms of their Figure 2."""
    rows = []
    for row in form_rows(filled_forms):
        model, variant, form, *figures = astuple(row)
        rows.append(ReportRow((one_line(model, _MAX_NAME_CHARS), variant, form or "all", *figures)))
    note = (
        "Figures are of the runs that did not fail; without one they are unknown (× in the paper)."
    )
    return ReportTable("models by form", _FORM_COLUMNS, tuple(rows), (note,))
