"""A merge proposal as text: which label the merged group gets, and the evidence for and against the merge."""

from __future__ import annotations

from textual.content import Content

from engine.base import number_format
from engine.base.text import display_safe, one_line
from engine.goals.records import Evidence, Proposal, ReviewProgress, model_says_yes
from screens.widgets.groups.text import Piece, rate_pieces

REASON_CHARACTERS = 2_000
NARROW = 60
"""Below this width in cells the longer lines are broken in two."""


def label_is_models(proposal: Proposal) -> bool:
    """Whether the label of the merged group is the model's: it is where its mean answer over both orders is yes."""
    answer = proposal.evidence.answer
    return bool(answer.label.strip()) and model_says_yes(answer.yes, answer.yes_reversed) is True


def proposed_label(proposal: Proposal) -> str:
    """The label of the merged group unless the person writes one: the model's, or that of the larger group."""
    return proposal.evidence.answer.label.strip() if label_is_models(proposal) else proposal.a.label


def evidence_content(proposal: Proposal, progress: ReviewProgress | None, width: int) -> Content:
    """The evidence in lines that fit `width` cells; the model's reason, which arrives later, comes last.

    Args:
        progress: Says what the merge probability is fitted on; None leaves that out.
    """
    evidence = proposal.evidence
    gap = "\n       " if width < NARROW else ""
    parts = _probability_pieces("merge", evidence.probability, "$tone-accent")
    if progress is not None:
        fitted = progress.learned_from
        basis = (
            f"fitted on {number_format.counted(fitted, 'decision')}"
            if fitted
            else "not fitted yet, no decisions"
        )
        parts.append((f"  {basis}", "$tone-muted"))
    parts += ["\n", *_model_pieces(evidence, progress, gap), "\n"]
    parts += [
        ("alike  ", "$tone-muted"),
        f"labels {number_format.signed(evidence.description_similarity)}",
        f" · members {number_format.signed(evidence.member_similarity)}",
        *_threshold_pieces(evidence),
        f"{gap or ' · '}overlap {100 * evidence.overlap:.0f}%",
    ]
    if evidence.answer.likelihood_ratio is not None:
        sign = "+" if evidence.answer.likelihood_ratio >= 0 else "−"
        parts.append(f" · likelihood {sign}{abs(evidence.answer.likelihood_ratio):.2f}")
    parts += ["\n", *_merged_pieces(proposal, gap)]
    for text, before, after, tone in (
        (evidence.answer.reason, "“", "”", "$tone-model"),
        (evidence.answer.description, "", "", "$tone-muted"),
    ):
        if text.strip():
            safe = display_safe(" ".join(text[:REASON_CHARACTERS].split()))
            parts.append((f"\n{before}{safe}{after}", tone))
    if proposal.why:
        parts.append((f"\nwhy now  {one_line(proposal.why, 120)}", "$tone-muted"))
    return Content.assemble(*parts)


def _probability_pieces(name: str, p: float | None, tone: str) -> list[Piece]:
    return [
        (f"{name:<7}", "$tone-muted"),
        (number_format.bar(p), tone),
        (f" {number_format.estimate(p)}", "bold" if p is not None else "$tone-muted"),
    ]


def _threshold_pieces(evidence: Evidence) -> list[Piece]:
    """From which similarity of members two such groups are more likely one goal than two; it differs between logs."""
    if evidence.member_threshold is None:
        return []
    return [(f" (one goal from {number_format.signed(evidence.member_threshold)})", "$tone-muted")]


def _model_pieces(evidence: Evidence, progress: ReviewProgress | None, gap: str) -> list[Piece]:
    """The model's probability of yes in both orders, marked where the two answers differ."""
    yes, yes_reversed = evidence.answer.yes, evidence.answer.yes_reversed
    if yes is None and yes_reversed is None:
        asking = progress is not None and progress.asking
        state = "is being asked …" if asking else "not asked yet; g asks it"
        return [("model  ", "$tone-muted"), (state, "$tone-muted")]
    pieces: list[Piece] = [
        *_probability_pieces("model", yes, "$tone-model"),
        (" yes, reversed ", "$tone-muted"),
        (number_format.estimate(yes_reversed), "bold"),
    ]
    if yes is not None and yes_reversed is not None and (yes > 0.5) != (yes_reversed > 0.5):
        pieces.append((f"{gap or '  '}⇄ depends on which comes first", "$tone-borderline"))
    return pieces


def _merged_pieces(proposal: Proposal, gap: str) -> list[Piece]:
    """Size, share and completeness of the merged group, beside the completeness of the two."""
    a, b = proposal.a, proposal.b
    pieces: list[Piece] = [
        ("after  ", "$tone-muted"),
        (f"{a.size + b.size:,}", "bold"),
        (f" · {100 * (a.share + b.share):.1f}%  ", "$tone-muted"),
        *rate_pieces(proposal.after),
    ]
    before = [g.states.rate for g in (a, b)]
    rates = [f"{100 * rate.value:.0f}%" for rate in before if rate is not None]
    if len(rates) == len(before):
        pieces.append((f"{gap or '  '}before: {' and '.join(rates)}", "$tone-muted"))
    return pieces
