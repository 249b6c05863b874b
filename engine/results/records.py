"""The request and the results of a validation, as frozen rows without arrays.

The truncation test compares whole conversations with the same ones cut at an earlier boundary; a score of completeness
should be higher for the whole ones. Truth is what is known of conversations from elsewhere. A claim says that something
went wrong in a conversation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from engine.base.request_options import Option, check, choice, declare_option, switch, whole_number
from engine.base.statistics.intervals import Classification, Interval
from engine.completeness.records import Mode
from engine.completeness.tables.score_sets import ScoreConfig

RowKind = Literal["scores", "keywords", "position"]
"""Kind of a row of the truncation test: scores, or one of the two baselines."""


@dataclass(frozen=True, slots=True)
class AdapterTraining:
    """How an adapter was trained.

    Attributes:
        recipe: The training recipe; empty when neither the catalog nor a run records it.
        conversations: Number of training conversations; None when unknown.
    """

    recipe: str = ""
    conversations: int | None = None


@dataclass(frozen=True, slots=True)
class SeparationRow:
    """How well scores or a baseline separate whole from cut conversations.

    Attributes:
        name: Title of the row, such as `tuned star-1` or `keyword rule`.
        kind: Scores, or a baseline: the keyword rule, or position and length alone.
        scored: Number of the conversations asked for that have a score.
        metrics: Accuracy, precision, recall, F1, AUROC, average precision and calibration error, with intervals.
        matched: P(a whole conversation has a higher value than a longer one cut at the same boundary); None where there
            is no such pair of conversations.
        matched_pairs: Number of such pairs.
        config: How the scores were made; None for a baseline.
        training: How the adapter of the scores was trained.
    """

    name: str
    kind: RowKind
    scored: int
    metrics: Classification
    matched: Interval | None = None
    matched_pairs: int = 0
    config: ScoreConfig | None = None
    training: AdapterTraining = AdapterTraining()


@dataclass(frozen=True, slots=True)
class TruthRow:
    """How well the values of one row at the last boundary predict one claim.

    Attributes:
        name: Title of the row.
        auroc: P(a conversation for which the claim fails has a higher value than one for which it holds).
        ap: Average precision of finding the conversations for which the claim holds by low values.
    """

    name: str
    auroc: Interval
    ap: Interval


@dataclass(frozen=True, slots=True)
class TruthTable:
    """How well all rows predict one claim that should go with a low value, such as `not complete` or `reward 0`.

    Attributes:
        claim: Name of the claim.
        description: Description of the claim.
        holds, fails: Number of conversations, scored by every row, for which the claim holds and fails.
        known: Number of the conversations asked for that the claim is decided for, scored or not.
        rows: A row for each scoring; empty where the claim holds for all conversations or for none.
    """

    claim: str
    description: str
    holds: int
    fails: int
    known: int
    rows: tuple[TruthRow, ...]


@dataclass(frozen=True, slots=True)
class CompletenessTable:
    """The truncation test of a project, and the comparison of the same scores with truth if there is any.

    Attributes:
        run: The training run whose test part was tested; None where all conversations of the project were.
        seed: Seed of the cuts.
        threshold: Value from which a conversation is called complete.
        asked: Number of conversations asked for.
        single: Number of conversations, scored by every row, that have only one boundary and cannot be cut.
        n: Number of conversations in the test, each once whole and once cut; every row has a score for both.
        rows: A row for each configuration of scores and each baseline.
        trained: Number of conversations left out because an adapter of a row was trained on them.
        selecting: Number of conversations left out because they selected the checkpoint of an adapter of a row.
        left_out: (name, conversations) of scores without a row because they cover too few conversations.
        truths: A table for each claim whose value is known for a conversation that every row has scored.
        conclusion: A sentence that compares the best scores with the best baseline; empty where one is missing.
    """

    run: str | None
    seed: int
    threshold: float
    asked: int
    single: int
    n: int
    rows: tuple[SeparationRow, ...]
    truths: tuple[TruthTable, ...]
    trained: int = 0
    selecting: int = 0
    left_out: tuple[tuple[str, int], ...] = ()
    conclusion: str = ""

    @property
    def coverage(self) -> float:
        """Share of the conversations asked for, without those with a single boundary, that are in the test."""
        return self.n / (self.asked - self.single) if self.asked > self.single else 0.0


@dataclass(frozen=True, slots=True)
class TruncationTest:
    """A truncation test, as a person asks for it.

    Attributes:
        run_name: Training run whose test part is tested; None tests all conversations.
        mode, adapter: Restrict the rows to scores of this mode and adapter, which is given by name, file or run; the
            baselines always have rows.
        seed: Seed of the random cuts.
        limit: Most conversations that are tested; None tests all.
        paper: Whether a value is 1 or 0, by whether the end tag is what the model writes, as Soroka et al. decide.

    Raises:
        UsageError: A value cannot be used.
    """

    run_name: str | None = declare_option(
        None,
        Option(
            "only the test part of this training run",
            default="the project's only run, else all conversations",
            flag="run",
            metavar="NAME",
        ),
    )
    mode: Mode | None = choice(None, "only scores of this mode", get_args(Mode))
    adapter: str | None = declare_option(None, Option("only scores with this adapter"))
    seed: int = declare_option(0, Option("seed of the cuts", convert=int, must="a whole number"))
    limit: int | None = whole_number(None, "only the first N conversations", metavar="")
    paper: bool = switch(
        "decide as Soroka et al. do: ended where the end tag is what the model writes next"
    )

    def __post_init__(self) -> None:
        """Checks the values against the options that the fields declare."""
        check(self)
