"""Runs of form filling as the tables of Hakimov, Weiser and Schlangen, "Evaluating Modular Dialogue System for Form
Filling Using Large Language Models" (2024): means over the runs of each form and variant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from engine.formats.form_runs import FormScores
from engine.simulate.forms.form import TOPICS
from engine.simulate.forms.run import BAD_OUTPUTS, VARIANTS


@dataclass(frozen=True, slots=True)
class FormRow:
    """The runs of one form by one variant.

    Attributes:
        form, variant: Name of the form, and the way to fill it: `modular` or `baseline`.
        runs: Number of runs.
        fields: Number of fields of the form.
        required, optional: Mean share of filled fields of each kind; None if the form has none.
        turns, repetitions, filled_share, efficiency, filled_score: Means over runs; see `FormScores`.
        success, score: Means over the runs with known answers; None without one.
        complete: Number of runs that filled all required fields.
        right: Number of right fields and of judged fields over all runs; None without known answers.
        ended: Number of runs by how they ended.
        fallbacks: Share of the modules' replies that came from a fallback.
    """

    form: str
    variant: str
    runs: int
    fields: int
    required: float | None
    optional: float | None
    turns: float
    repetitions: float
    filled_share: float
    success: float | None
    efficiency: float
    filled_score: float
    score: float | None
    complete: int
    right: tuple[int, int] | None
    ended: Mapping[str, int]
    fallbacks: float


def table_of(results: Iterable[Mapping[str, Any]]) -> list[FormRow]:
    """Returns a row for each form and variant, in the order of the forms of Hakimov et al., modular first."""
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for result in results:
        grouped.setdefault((result["form"], result["variant"]), []).append(result)

    def order(key: tuple[str, str]) -> tuple[int, str, int]:
        form, variant = key
        return *_form_order(form), [str(name) for name in VARIANTS].index(variant)

    return [_row(*key, grouped[key]) for key in sorted(grouped, key=order)]


def _form_order(form: str) -> tuple[int, str]:
    """Returns the sort key of a form: those of Hakimov et al. in their order, then others by name."""
    known_forms = list(TOPICS)
    return known_forms.index(form) if form in known_forms else len(known_forms), form


def _row(form: str, variant: str, runs: Sequence[Mapping[str, Any]]) -> FormRow:
    """Returns the row of the runs of one form by one variant."""
    scores = [FormScores.of(run) for run in runs]
    right_and_judged = [run["right"] for run in runs if run["right"] is not None]
    right = sum(right_fields for right_fields, _ in right_and_judged)
    judged = sum(judged_fields for _, judged_fields in right_and_judged)
    replies = sum(len(run["interactions"]) for run in runs)
    fallbacks = sum(count for run in runs for count in run["fallbacks"].values())
    return FormRow(
        form=form,
        variant=variant,
        runs=len(runs),
        fields=runs[0]["length"],
        required=_share(runs, "required"),
        optional=_share(runs, "optional"),
        turns=fmean(score.turns for score in scores),
        repetitions=fmean(score.repetitions for score in scores),
        filled_share=fmean(score.filled_share for score in scores),
        success=_mean(score.success for score in scores),
        efficiency=fmean(score.efficiency for score in scores),
        filled_score=fmean(score.filled_score for score in scores),
        score=_mean(score.score for score in scores),
        complete=sum(bool(run["complete"]) for run in runs),
        right=(right, judged) if right_and_judged else None,
        ended=dict(Counter(run["ended"] for run in runs)),
        fallbacks=fallbacks / replies if replies else 0.0,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are known; None without one."""
    known_values = [value for value in values if value is not None]
    return fmean(known_values) if known_values else None


def _share(runs: Sequence[Mapping[str, Any]], kind: str) -> float | None:
    """Returns the mean share of filled fields, required or optional, over the runs whose form has such fields."""
    shares = [filled / total for filled, total in (run[kind] for run in runs) if total]
    return fmean(shares) if shares else None


@dataclass(frozen=True, slots=True)
class ModelRow:
    """The runs of one form by one model and variant, as in Tables 1 and 2 of Hakimov et al.

    Attributes:
        model: The model of the assistant.
        variant: The way to fill the form.
        form: The form; "" for the mean over forms (Figure 2a).
        runs: Number of runs; of the mean over forms, of all forms.
        failed: Number of runs that ended because the instructions were not followed: the × of Table 1.
        fields, turns, filled_share, efficiency, filled_score: Means over the runs that did not fail; None if all
            failed. `fields` and `turns` are those of Figure 2b.
        success, score: Means over those of them whose correct answers are known; None without one.
    """

    model: str
    variant: str
    form: str
    runs: int
    failed: int
    fields: float | None
    turns: float | None
    filled_share: float | None
    success: float | None
    efficiency: float | None
    filled_score: float | None
    score: float | None


_MEANS: Mapping[str, Callable[[FormScores], float | None]] = {
    "fields": lambda run: run.length,
    "turns": lambda run: run.turns,
    "filled_share": lambda run: run.filled_share,
    "success": lambda run: run.success,
    "efficiency": lambda run: run.efficiency,
    "filled_score": lambda run: run.filled_score,
    "score": lambda run: run.score,
}
"""The figures of a run whose means a `ModelRow` has."""


def by_model(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[ModelRow]:
    """Returns a row for each model, variant and form, and after the forms of a model and variant the mean over them.

    Args:
        runs: The model of the assistant, and the result of a run with `form`, `variant`, `ended` and its figures.
    """
    grouped: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for model, result in runs:
        forms = grouped.setdefault((model, str(result.get("variant", ""))), {})
        forms.setdefault(result["form"], []).append(result)
    table: list[ModelRow] = []
    for (model, variant), forms in sorted(grouped.items()):
        rows = [
            _form_row(model, variant, name, forms[name]) for name in sorted(forms, key=_form_order)
        ]
        table += [*rows, _mean_over_forms(model, variant, rows)]
    return table


def _form_row(model: str, variant: str, form: str, runs: Sequence[Mapping[str, Any]]) -> ModelRow:
    """Returns the row of one form; its means are over the runs that did not fail."""
    usable_scores = [FormScores.of(run) for run in runs if run.get("ended") != BAD_OUTPUTS]
    means = {name: _mean(map(figure, usable_scores)) for name, figure in _MEANS.items()}
    failed = len(runs) - len(usable_scores)
    return ModelRow(model, variant, form, runs=len(runs), failed=failed, **means)


def _mean_over_forms(model: str, variant: str, rows: Sequence[ModelRow]) -> ModelRow:
    """Returns the row of the means over forms, each of which weighs alike."""
    means = {name: _mean(getattr(row, name) for row in rows) for name in _MEANS}
    runs, failed = sum(row.runs for row in rows), sum(row.failed for row in rows)
    return ModelRow(model, variant, form="", runs=runs, failed=failed, **means)


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """How one module followed its instructions, over some runs.

    Attributes:
        replies: Number of times that it was used, fallbacks of all kinds included.
        repeated_calls: Number of times that it was asked once more.
        failed: Number of times that no reply followed the instructions.
    """

    module: str
    replies: int
    repeated_calls: int
    failed: int


def by_module(results: Iterable[Mapping[str, Any]]) -> list[ModuleRow]:
    """Returns a row for each module that was used, in the order of their first use."""
    replies: Counter[str] = Counter()
    repeated_calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for result in results:
        replies.update(interaction["module"] for interaction in result["interactions"])
        repeated_calls.update(result.get("again", {}))
        failed.update(result.get("failed", {}))
    names = dict.fromkeys([*replies, *failed])
    return [ModuleRow(name, replies[name], repeated_calls[name], failed[name]) for name in names]
