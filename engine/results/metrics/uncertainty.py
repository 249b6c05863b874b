"""Measures of response trees and the baselines they are compared with. Each grows with uncertainty: a higher value
always means a less certain model.

A *response tree* holds the answers that a model could give, token by token; each *leaf* is the end of one, with its
probability. A *fork* is where more than one token is probable. Log-probabilities are natural, entropies in bits. A
figure whose name begins with a minus is negated so that it grows with uncertainty too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from engine.trees.records import TreeRow

MEASURES: Mapping[str, str] = {
    "leaves": "leaves of the tree",
    "answers": "distinct answers",
    "-max_logprob": "minus the log-probability of the best leaf",
    "-covered": "minus the probability of all leaves together",
    "entropy": "entropy at the tree's resolution, bits",
}
"""Name of each measure and what it is."""

PLAIN: Mapping[str, str] = {
    "length": "characters of the conversation; where single answers are judged, of the answer",
    "perplexity": "of the recorded answer: e to minus the mean log-probability of its tokens",
    "-mean_token_p": "minus the mean probability of the recorded answer's tokens",
    "-min_token_p": "minus the probability of its least probable token",
    "predictive_entropy": "bits that a leaf of the tree takes on average, the leaves weighted by their probability",
}
"""The baselines that every measure is compared with.

Perplexity after Jelinek et al. (1977); mean and least probability of tokens after Varshney et al. (2023, A Stitch in
Time Saves Nine); predictive entropy after Malinin and Gales (2021, Uncertainty Estimation in Autoregressive Structured
Prediction), the sum of -q(s) log2 P(s) over answers s, where q is P over the sum of P: their importance-weighted
estimate without the division by length, with the leaves of the tree in place of a beam.
"""

BASELINES: Mapping[str, str] = {
    **PLAIN,
    "fork_entropy": "bits of the one distribution at the first fork",
    "answer_tokens": "tokens of the recorded answer that were scored",
}
"""All baselines: figures that need no tree, or little of it. A measure is useful only if it beats them."""

SUMMARIES: Mapping[str, str] = {
    "": "",
    "mean": "; mean over the trees of a conversation",
    "most": "; most of them",
}
"""How the figures of several trees are summarized for a conversation: the suffix of the name, and its meaning."""

_MAX_LOG_PERPLEXITY = 700.0
"""Greatest logarithm of a perplexity that is finite in double precision."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of trees or of a whole conversation.

    Attributes:
        base: One of `MEASURES` or `BASELINES`.
        summary: One of `SUMMARIES`.
    """

    base: str
    summary: str = ""

    @property
    def name(self) -> str:
        """The name with its summary: `leaves`, `leaves mean`."""
        return f"{self.base} {self.summary}".strip()

    @property
    def means(self) -> str:
        """A description of the figure."""
        return {**MEASURES, **BASELINES}[self.base] + SUMMARIES[self.summary]

    @property
    def is_measure(self) -> bool:
        """Whether it is a tree measure, not a baseline."""
        return self.base in MEASURES


FIGURES: Mapping[str, Figure] = {
    figure.name: figure
    for base in (*MEASURES, *BASELINES)
    for figure in (Figure(base, summary) for summary in SUMMARIES)
}
"""All figures by name."""


@dataclass(frozen=True, slots=True)
class TreeLogProbs:
    """Log-probabilities of one tree, from which baselines are computed.

    Attributes:
        leaves: Natural log-probabilities of its leaves.
        answer: Natural log-probabilities of the recorded answer's tokens; empty when not stored.
    """

    leaves: Sequence[float]
    answer: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One row of data: a tree, or all trees of a conversation.

    Attributes:
        conversation: Id of the conversation.
        figures: Figures by name; None where the tree has none.
        claims: Whether each claim of `engine.results.metrics.claims` holds, by name.
    """

    conversation: int
    figures: Mapping[str, float | None]
    claims: Mapping[str, bool] = field(default_factory=dict)


def figures_of(row: TreeRow, chars: int, log_probs: TreeLogProbs) -> dict[str, float | None]:
    """Returns all measures and baselines of one tree by name; `chars` is the length of the
    conversation in characters."""
    perplexity = None
    if row.answer_log_prob is not None and row.answer_tokens:
        perplexity = math.exp(min(-row.answer_log_prob / row.answer_tokens, _MAX_LOG_PERPLEXITY))
    probabilities = [math.exp(log_prob) for log_prob in log_probs.answer]
    return {
        "leaves": row.leaves,
        "answers": row.answers,
        "-max_logprob": _negated(row.max_log_prob),
        "-covered": -row.covered,
        "entropy": row.entropy,
        "length": chars,
        "perplexity": perplexity,
        "-mean_token_p": -fmean(probabilities) if probabilities else None,
        "-min_token_p": -min(probabilities) if probabilities else None,
        "predictive_entropy": predictive_entropy(log_probs.leaves),
        "fork_entropy": row.fork_entropy,
        "answer_tokens": None if perplexity is None else row.answer_tokens,
    }


def predictive_entropy(leaves: Sequence[float]) -> float | None:
    """Returns the predictive entropy in bits, by the formula at `PLAIN`; None without leaves.

    Args:
        leaves: Natural log-probabilities of the leaves.
    """
    if not leaves:
        return None
    # weights are the probabilities times a factor that cancels out, so that they do not all underflow to 0
    highest = max(leaves)
    weights = [math.exp(log_prob - highest) for log_prob in leaves]
    weighted_bits = math.fsum(
        -weight * log_prob for weight, log_prob in zip(weights, leaves, strict=True)
    ) / math.log(2)
    return weighted_bits / math.fsum(weights)


def by_conversation(cases: Sequence[Case], claims: Mapping[int, Mapping[str, bool]]) -> list[Case]:
    """Returns one case for each conversation, with the claims about it.

    If any conversation has several trees, each figure but the length becomes `NAME mean` and `NAME most`; otherwise the
    figures are unchanged.
    """
    cases_by_conversation: dict[int, list[Case]] = {}
    for case in cases:
        cases_by_conversation.setdefault(case.conversation, []).append(case)
    several = len(cases_by_conversation) < len(cases)
    return [
        Case(
            key,
            _summarize([case.figures for case in cases_of_conversation])
            if several
            else cases_of_conversation[0].figures,
            claims.get(key, {}),
        )
        for key, cases_of_conversation in cases_by_conversation.items()
    ]


def _summarize(figures_by_tree: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Returns the mean and the greatest value of each figure over the trees of a conversation."""
    summary: dict[str, float | None] = {}
    for name in figures_by_tree[0]:
        values = [value for figures in figures_by_tree if (value := figures[name]) is not None]
        if name == "length":
            summary[name] = values[0]  # that of the conversation, the same for all its trees
            continue
        summary[Figure(name, "mean").name] = fmean(values) if values else None
        summary[Figure(name, "most").name] = max(values, default=None)
    return summary


def _negated(value: float | None) -> float | None:
    """Returns the negated value; None for None."""
    return None if value is None else -value
