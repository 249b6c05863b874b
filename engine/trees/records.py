"""The measures of response trees."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TreeRow:
    """The measures of one response tree, as `engine.trees.measures` defines them.

    Attributes:
        step: The step of the log at whose place the tree was grown; the last step for a tree at the end of the log.
        reason: Why there is no tree, in which case all figures are None or 0; None otherwise.
        prompt_tokens: Number of tokens before the root.
        note: The part of the log that was left out; None if nothing was.
        fork_depth, fork_entropy: Number of tokens before the first fork, and its entropy in bits; None if the tree has
            one leaf.
        answer_log_prob: Natural log-probability of the recorded answer's first `answer_tokens` tokens, of which
            `answer_held` are in the tree; None without a recorded answer.
        seconds: The tree's share of the time that growing took.
        place: `last-answer`, `end` or `every`.
    """

    conversation_id: int
    step: int
    config_hash: str
    run_id: int
    reason: str | None
    prompt_tokens: int
    note: str | None
    leaves: int
    answers: int
    nodes: int
    max_log_prob: float | None
    max_log_prob_per_token: float | None
    covered: float
    pruned: float
    unexpanded: float
    entropy_low: float
    entropy_high: float
    fork_depth: int | None
    fork_entropy: float | None
    answer_log_prob: float | None
    answer_tokens: int
    answer_held: int
    seconds: float
    alpha: float
    mode: str
    place: str
    model: str
    adapter: str | None
