"""The figures of response trees that can be held against truth. Each grows with uncertainty, so that one above
another always says less sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from engine.rows import TreeRow

MEASURES: Mapping[str, str] = {
    "leaves": "leaves of the tree",
    "answers": "distinct answers",
    "-max_logprob": "minus the log-probability of the best leaf",
    "-max_logprob_per_token": "the same, divided by its tokens",
    "-covered": "minus the probability of all leaves together",
    "entropy_low": "least entropy, bits",
    "entropy_high": "entropy at the tree's resolution, bits",
    "-answer_logprob_per_token": "minus the log-probability of the recorded answer, divided by its tokens",
}
"""Name of each measure and what it is."""

BASELINES: Mapping[str, str] = {
    "fork_entropy": "bits of the one distribution at the first fork",
    "length": "characters of the conversation",
    "answer_tokens": "tokens of the recorded answer that were scored",
}
"""What needs no tree, or one token of it; a measure is worth something only beside them."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is to be judged: a tree, or all trees of a conversation.

    Attributes:
        figures: By name; None where the tree has no such figure.
        claims: Name of a claim and whether it holds, as `engine.validate.truths` reads them.
    """

    conversation: int
    figures: Mapping[str, float | None]
    claims: Mapping[str, bool] = field(default_factory=dict)


def figures_of(row: TreeRow, length: int) -> dict[str, float | None]:
    """All measures and baselines of one tree; `length` is that of its conversation in characters."""
    answer = None
    if row.answer_log_prob is not None and row.answer_tokens:
        answer = -row.answer_log_prob / row.answer_tokens
    return {
        "leaves": row.leaves,
        "answers": row.answers,
        "-max_logprob": _minus(row.max_log_prob),
        "-max_logprob_per_token": _minus(row.max_log_prob_per_token),
        "-covered": -row.covered,
        "entropy_low": row.entropy_low,
        "entropy_high": row.entropy_high,
        "-answer_logprob_per_token": answer,
        "fork_entropy": row.fork_entropy,
        "length": length,
        "answer_tokens": None if answer is None else row.answer_tokens,
    }


def by_conversation(cases: Sequence[Case], claims: Mapping[int, Mapping[str, bool]]) -> list[Case]:
    """One case for each conversation, with the claims about it.

    Where some conversation has several trees, `NAME mean` and `NAME most` stand for each figure but the length; where
    each has a single one the figures are as they were.
    """
    gathered: dict[int, list[Case]] = {}
    for case in cases:
        gathered.setdefault(case.conversation, []).append(case)
    several = len(gathered) < len(cases)
    return [
        Case(
            key,
            _together([case.figures for case in mine]) if several else mine[0].figures,
            claims.get(key, {}),
        )
        for key, mine in gathered.items()
    ]


def _together(figures: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in figures[0]:
        values = [value for one in figures if (value := one[name]) is not None]
        if name == "length":
            found[name] = values[0]
            continue
        found[f"{name} mean"] = fmean(values) if values else None
        found[f"{name} most"] = max(values, default=None)
    return found


def _minus(value: float | None) -> float | None:
    return None if value is None else -value
