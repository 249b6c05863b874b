"""The state of the merge desk as text: what is decided, what is left, the order and the least similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from textual.content import Content

from engine.base import number_format
from engine.base.text import one_line
from engine.goals.records import ClusteringSummary, GoalDecision, MergeOrder, ReviewProgress
from screens.widgets.empty_state import CLUSTER, EmptyState
from screens.widgets.formatting import agreement_piece
from screens.widgets.groups import GLYPHS, Piece, decision_text

ORDERS: Mapping[MergeOrder, tuple[str, str]] = {
    "similarity": ("most similar first", "by labels and descriptions, as Soroka et al. do"),
    "probability": ("most probable first", "quick work: most answers are yes"),
    "informative": ("most informative first", "where your answer says most about the other pairs"),
}
"""The name of each order of the proposals, and what it is good for."""


def counts_content(progress: ReviewProgress, skipped: int, *, brief: bool) -> Content:
    """Returns how many pairs were decided, how many are left, how many were skipped; `brief` leaves out how many are
    unlikely, which does not fit on a small terminal."""
    parts: list[Piece] = [_decided(progress)]
    if progress.asking:
        parts.append((" · asking …", "$tone-accent"))
    parts += _left_pieces(progress, brief=brief)
    if skipped:
        parts.append((f" · {skipped} skipped", "$tone-muted"))
    return Content.assemble(*parts)


def _decided(progress: ReviewProgress) -> str:
    """Returns how many pairs were merged and refused; where the rule or a model decided, too, who did what."""
    refused = progress.refused + progress.refused_by_rule + progress.refused_by_model
    automatic = [
        (merged, who)
        for merged, refused_by_it, who in (
            (progress.merged_by_rule, progress.refused_by_rule, "the rule"),
            (progress.merged_by_model, progress.refused_by_model, "the model"),
        )
        if merged + refused_by_it
    ]
    if not automatic:
        return f"{progress.merged:,} merged, {refused:,} refused"
    (first_merged, first), *others = [*automatic, (progress.merged, "you")]
    shares = [f"{first_merged:,} merged by {first}"]
    shares += [f"{merged:,} by {who}" for merged, who in others]
    return f"{', '.join(shares)}, {refused:,} refused"


def _left_pieces(progress: ReviewProgress, *, brief: bool) -> list[Piece]:
    """Returns the pairs that are left, between which numbers those to merge lie, and how many R refuses."""
    if progress.to_review and not progress.left:
        return [(f" · {progress.to_review:,} of the model to review", "bold")]
    unlikely = progress.left - progress.likely
    low, high = (round(end) for end in progress.to_merge_range)
    expected = f"{low:,} to {high:,}" if low < high else f"{low:,}"
    pieces: list[Piece] = [
        (f" · {progress.left:,} left", "bold"),
        f", {expected} to merge",
    ]
    if unlikely and not brief:
        pieces += [" · ", ("R", "bold $tone-accent"), f" refuses {unlikely:,} unlikely"]
    return pieces


def status_content(progress: ReviewProgress) -> Content:
    """Returns the order, least similarity where there is one, agreement of model and person, model calls that are
    left.
    """
    parts: list[Piece] = [
        (ORDERS[progress.order][0], "bold"),
    ]
    if least := _least_similarity(progress):
        parts.append((f" · {least}", "$tone-muted"))
    if progress.agreement.n:
        parts += [" · model agrees ", agreement_piece(progress.agreement)]
    if progress.unasked:
        calls = number_format.counted(progress.calls, "model call")
        wait = (
            f", {number_format.duration(progress.seconds)}" if progress.seconds is not None else ""
        )
        pairs = number_format.counted(progress.unasked, "pair")
        parts.append((f" · model not asked about {pairs}: {calls}{wait}", "$tone-muted"))
    return Content.assemble(*parts)


def _least_similarity(progress: ReviewProgress) -> str:
    """Returns the similarity below which no pair is proposed, in words; empty where all are."""
    return (
        f"least similarity {number_format.probability(progress.least_similarity)}"
        if progress.least_similarity > 0
        else ""
    )


def near_line(near: Sequence[tuple[str, float]], other: str) -> Content:
    """Returns the groups nearest to a side with their cosines, `near: Change a date .74 · …`, without the other side.

    Args:
        other: Label of the other side.
    """
    if not near:
        return Content()  # in a review of what a model decided, the groups are those of then
    groups = [
        f"{one_line(label, 40)} {number_format.signed(cosine)}"
        for label, cosine in near
        if label != other
    ] or ["nothing else"]
    return Content.styled("near: " + " · ".join(groups), "$tone-muted")


def recent_content(decisions: Sequence[GoalDecision]) -> Content:
    """Returns the latest decisions, a line each; those that were undone are dimmed."""
    lines = []
    for decision in decisions:
        tone = "" if decision.active else "$tone-muted"
        undone = "" if decision.active else " (undone)"
        sign = (f"{GLYPHS[decision.kind]} ", tone or "$tone-accent")
        lines.append(Content.assemble(sign, (decision_text(decision) + undone, tone)))
    return Content("\n").join(lines)


def empty_state(shown: ClusteringSummary | None, progress: ReviewProgress | None) -> EmptyState:
    """Returns why there is no proposal, and what to do."""
    if shown is None or progress is None:
        return replace(
            CLUSTER, message="Nothing to merge: the conversations are not in groups yet."
        )
    effect = "shows the groups"
    if not progress.finished:
        message = "No proposal is ready yet; the next ones are being computed."
        return EmptyState(message, effect, "app.switch_mode('goals')")
    least = _least_similarity(progress)
    lowers = (("desk.floor", "lowers the least similarity"),) if least else ()
    return EmptyState(
        "Done: every current pair was refused"
        + (f" or lies below the {least}.\n" if least else ".\n")
        + f"{_decided(progress)};"
        f" {number_format.counted(shown.groups, 'group')} remain.",
        effect,
        "app.switch_mode('goals')",
        others=(
            ("desk.history", "shows what was decided"),
            ("desk.undo", "undoes your newest decision"),
            *lowers,
            ("desk.pick", "merges any two groups"),
        ),
    )
