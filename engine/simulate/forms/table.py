"""Runs of form filling as the table of Hakimov, Weiser and Schlangen, "Evaluating Modular Dialogue System for Form
Filling Using Large Language Models" (2024): means over the runs of each form and variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from engine.simulate.forms.form import TOPICS
from engine.simulate.forms.run import VARIANTS


@dataclass(frozen=True, slots=True)
class FormRow:
    """The runs of one form by one variant.

    Attributes:
        fields: Number of fields of the form.
        required, optional: Mean share of filled fields of each kind; None if the form has none.
        turns, repetitions, success, efficiency, score: Means over runs.
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
    success: float
    efficiency: float
    score: float
    complete: int
    right: tuple[int, int] | None
    ended: Mapping[str, int]
    fallbacks: float


def table_of(results: Iterable[Mapping[str, Any]]) -> list[FormRow]:
    """Returns a row for each form and variant, in the order of the forms of Hakimov et al., modular first."""
    grouped: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for result in results:
        grouped.setdefault((result["form"], result["variant"]), []).append(result)
    known = list(TOPICS)

    def order(key: tuple[str, str]) -> tuple[int, str, int]:
        form, variant = key
        place = known.index(form) if form in known else len(known)
        return place, form, [str(one) for one in VARIANTS].index(variant)

    return [_row(*key, grouped[key]) for key in sorted(grouped, key=order)]


def _row(form: str, variant: str, runs: Sequence[Mapping[str, Any]]) -> FormRow:
    def mean(name: str) -> float:
        return fmean(float(run[name]) for run in runs)

    judged = [run["right"] for run in runs if run["right"] is not None]
    replies = sum(len(run["interactions"]) for run in runs)
    fallbacks = sum(count for run in runs for count in run["fallbacks"].values())
    return FormRow(
        form=form,
        variant=variant,
        runs=len(runs),
        fields=runs[0]["length"],
        required=_share(runs, "required"),
        optional=_share(runs, "optional"),
        turns=mean("turns"),
        repetitions=mean("repetitions"),
        success=mean("success"),
        efficiency=mean("efficiency"),
        score=mean("score"),
        complete=sum(bool(run["complete"]) for run in runs),
        right=(sum(one[0] for one in judged), sum(one[1] for one in judged)) if judged else None,
        ended=dict(Counter(run["ended"] for run in runs)),
        fallbacks=fallbacks / replies if replies else 0.0,
    )


def _share(runs: Sequence[Mapping[str, Any]], kind: str) -> float | None:
    shares = [filled / total for filled, total in (run[kind] for run in runs) if total]
    return fmean(shares) if shares else None
