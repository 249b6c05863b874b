"""Results of validation: frozen rows, no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.records.interval import Interval
from engine.records.scores import Mode

Curve = tuple[tuple[float, float], ...]
"""Points by their first coordinate."""
RowKind = Literal["scores", "keywords"]


@dataclass(frozen=True, slots=True)
class Classification:
    """How well a value separates complete from incomplete, each figure with its 95% bootstrap interval.

    Attributes:
        accuracy, precision, recall, f1: Of calling complete what has at least the threshold; precision is 0 where
            nothing has, and its interval then says that nothing is known of it.
        auroc: P(a complete one has a higher value than an incomplete one), equal values counting half.
        ap: Average precision; chance gives the share of complete ones.
        ece: Expected calibration error of the value as a probability, over ten equal bins.
    """

    accuracy: Interval
    precision: Interval
    recall: Interval
    f1: Interval
    auroc: Interval
    ap: Interval
    ece: Interval


@dataclass(frozen=True, slots=True)
class Contrast:
    """How one way to value things compares with another over the same things.

    Attributes:
        figure: By which they are compared, e.g. `AUROC`.
        n: Things.
        first, second: The figure of `one` and of `other`.
        difference: The first less the second, with its 95% interval from draws of conversations.
        p: Two-sided, of the hypothesis that there is none; None where there is too little to test.
        corrected: The same after Holm's correction for all contrasts of the table.
    """

    figure: str
    one: str
    other: str
    n: int
    first: float
    second: float
    difference: Interval
    p: float | None
    corrected: float | None = None


Metric = Literal["goals", "completeness", "trees"]


@dataclass(frozen=True, slots=True)
class Missing:
    """A comparison that is not possible yet.

    Attributes:
        what: What is not there, one sentence.
        how: What gives it, a command where one does.
    """

    metric: Metric
    what: str
    how: str


@dataclass(frozen=True, slots=True)
class TruncationRow:
    """One way to tell whole conversations from cut ones.

    Attributes:
        name: Its title, e.g. `tuned star-1` or `keyword rule`.
        mode, model, adapter, config_hash: Of the scores; None for the keyword rule.
        scored: Of the conversations asked for, those that it has a score for.
        recipe, conversations, cut: Of the adapter: how it was trained, on how many conversations, and how many of
            them were cut off for an experiment; empty and None where nobody says.
        roc: Share of whole ones called complete against share of cut ones, over all thresholds.
        reliability: Mean value and share of whole ones by tenth of the value.
    """

    name: str
    kind: RowKind
    scored: int
    found: Classification
    mode: Mode | None = None
    model: str | None = None
    adapter: str | None = None
    config_hash: str | None = None
    recipe: str = ""
    conversations: int | None = None
    cut: int | None = None
    roc: Curve = ()
    reliability: Curve = ()


@dataclass(frozen=True, slots=True)
class TruthRow:
    """The same values at the last boundary against what is known from elsewhere.

    Attributes:
        auroc: P(one for which the claim fails has a higher value than one for which it holds).
        ap: Average precision of low values, among them those for which the claim holds.
        roc: Share of those for which the claim holds against share of the others, from the lowest value up.
        rejection: Share for which the claim fails among those kept against the share rejected, lowest values first.
    """

    name: str
    auroc: Interval
    ap: Interval
    roc: Curve = ()
    rejection: Curve = ()


@dataclass(frozen=True, slots=True)
class TruthTable:
    """All rows against one claim that should go with a low value, such as `not complete` or `reward 0`.

    Attributes:
        holds, fails: Conversations that every row has scored, by whether the claim holds.
        known: Conversations asked for of which it is known, scored or not.
        rows: Empty where the claim is the same for all.
        contrasts: Every two rows by AUROC.
    """

    claim: str
    means: str
    holds: int
    fails: int
    known: int
    rows: tuple[TruthRow, ...]
    contrasts: tuple[Contrast, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletenessTable:
    """The truncation test over one project, and the same scores against truth where there is any.

    Attributes:
        run: The training run whose held-out conversations these are; None: all conversations of the project.
        seed: Of the cuts.
        threshold: On the value, from which a conversation is called complete.
        asked: Conversations asked for.
        single: Those that every row has scored and that could end in one place only, so that nothing can be cut.
        n: Conversations in the test; each stands whole and cut, and every row has an honest number for both.
        trained: Conversations not asked for because an adapter of a row was trained on them.
        left_out: Scores without a row because they cover too few of the conversations, each with its name and how many.
        truths: One for each claim that is known of some conversation that every row has scored.
        same_kind: Whether cuts were drawn only among steps of the kind (assistant or tool) that the conversation ends
            with, so that the kind gives nothing away.
        contrasts: Every two rows of the truncation test by AUROC and F1.
    """

    run: str | None
    seed: int
    threshold: float
    asked: int
    single: int
    n: int
    rows: tuple[TruncationRow, ...]
    truths: tuple[TruthTable, ...]
    trained: int = 0
    left_out: tuple[tuple[str, int], ...] = ()
    same_kind: bool = False
    contrasts: tuple[Contrast, ...] = ()

    @property
    def coverage(self) -> float:
        """Share of the conversations that could be cut that are in the test."""
        return self.n / (self.asked - self.single) if self.asked > self.single else 0.0
