"""The state of the merge desk as text: what is decided, what is left, what the model was not asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.content import Content

from engine.base import number_format
from engine.goals.records import ClusteringSummary, GoalDecision, ReviewProgress
from screens.widgets.empty_state import CLUSTER, EmptyState
from screens.widgets.formatting import agreement_piece
from screens.widgets.groups import GLYPHS, Piece, decision_text


def counts_content(progress: ReviewProgress, groups: int, skipped: int) -> Content:
    """Returns how many pairs are decided, of how many groups pairs are left, how many of those are probably to be
    merged, and how many are skipped."""
    parts: list[Piece] = [_decided(progress)]
    if progress.asking:
        parts.append((" · asking …", "$tone-accent"))
    if progress.to_review and not progress.left:
        parts.append((f" · {progress.to_review:,} of the model to review", "bold"))
    else:
        parts += [
            (f" · {number_format.counted(progress.left, 'pair')} left", "bold"),
            f" of {number_format.counted(groups, 'group')}, about {progress.to_merge:,.0f} to merge",
        ]
    if skipped:
        parts.append((f" · {skipped} skipped", "$tone-muted"))
    return Content.assemble(*parts)


def _decided(progress: ReviewProgress) -> str:
    """Returns how many pairs were merged and refused; where the rule or a model merged or refused any, who merged."""
    refused = progress.refused + progress.refused_by_rule + progress.refused_by_model
    merged_by = []
    if progress.merged_by_rule + progress.refused_by_rule:
        merged_by.append((progress.merged_by_rule, "the rule"))
    if progress.merged_by_model + progress.refused_by_model:
        merged_by.append((progress.merged_by_model, "the model"))
    if not merged_by:
        return f"{progress.merged:,} merged, {refused:,} refused"
    (first_count, first), *others = [*merged_by, (progress.merged, "you")]
    parts = [
        f"{first_count:,} merged by {first}",
        *(f"{count:,} by {who}" for count, who in others),
    ]
    return f"{', '.join(parts)}, {refused:,} refused"


def status_content(progress: ReviewProgress) -> Content:
    """Returns the agreement of model and person, and the model calls that are left, or that no model can be asked."""
    parts: list[Piece] = []
    if progress.agreement.n:
        parts += ["model agrees ", agreement_piece(progress.agreement)]
    gap = " · " if parts else ""
    if not progress.can_ask:
        parts.append((f"{gap}no model that follows instructions is in use: 8, u", "$tone-muted"))
    elif progress.unasked:
        calls = number_format.counted(progress.calls, "model call")
        wait = (
            f", {number_format.duration(progress.seconds)}" if progress.seconds is not None else ""
        )
        pairs = number_format.counted(progress.unasked, "pair")
        parts.append((f"{gap}model not asked about {pairs}: {calls}{wait}", "$tone-muted"))
    return Content.assemble(*parts)


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
    enter_label = "shows the groups"
    if not progress.finished:
        message = "No proposal is ready yet; the next ones are being computed."
        return EmptyState(message, enter_label, "app.switch_mode('goals')")
    return EmptyState(
        f"Done: every current pair was refused.\n{_decided(progress)};"
        f" {number_format.counted(shown.groups, 'group')} remain.",
        enter_label,
        "app.switch_mode('goals')",
        others=(
            ("desk.history", "shows what was decided"),
            ("desk.undo", "undoes your newest decision"),
        ),
    )
