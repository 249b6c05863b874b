"""Runs of form filling as the tables of Hakimov, Weiser and Schlangen, "Evaluating Modular Dialogue System for Form
Filling Using Large Language Models" (2024): means over the runs of each model, form and variant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from engine.simulate.forms.form import TOPICS
from engine.simulate.forms.form_scores import FormScores
from engine.simulate.forms.run import BAD_OUTPUTS
from engine.simulate.records import PlayRow, PlaySetting

_MEANS: Mapping[str, Callable[[FormScores], float | None]] = {
    "fields": lambda run: run.length,
    "turns": lambda run: run.turns,
    "repetitions": lambda run: run.repetitions,
    "filled_share": lambda run: run.filled_share,
    "success": lambda run: run.success,
    "efficiency": lambda run: run.efficiency,
    "filled_score": lambda run: run.filled_score,
    "score": lambda run: run.score,
}
"""The figures of a run whose means a `FormRow` has."""


class FilledForm(NamedTuple):
    """A form that was filled once.

    Attributes:
        model: The model of the assistant.
        variant: The way to fill the form: `modular` or `baseline`; with `, free` where replies followed no schema.
        result: The figures of `FormScores` by name, with `form` and `ended`.
        play_id: Id of the play; None where it was imported.
    """

    model: str
    variant: str
    result: Mapping[str, Any]
    play_id: int | None = None


def filled_form(setting: PlaySetting, play: PlayRow) -> FilledForm:
    """Returns a form that was filled in a play of a setting."""
    free = not setting.params["rules"]["schemas"]
    variant = f"{play.result['variant']}, free" if free else play.result["variant"]
    return FilledForm(setting.models.get("assistant", ""), variant, play.result, play.id)


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
    """The runs of one form by one model and variant, as in Tables 1 and 2 of Hakimov et al.

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
        forms = results.setdefault((filled.model, filled.variant), {})
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
    means = {name: _mean(map(figure, usable_scores)) for name, figure in _MEANS.items()}
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


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """Counts of how one module followed its instructions, over some runs.

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
