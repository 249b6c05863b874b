"""The evidence on a proposed merge of two goal groups: probabilities, what a model says, how alike they are.

The label of the merged group is proposed here too.
"""

from __future__ import annotations

from textual.content import Content

from engine.base import number_format
from engine.base.text import display_safe, one_line
from engine.goals.records import Evidence, PairAnswer, Proposal, ReviewProgress, model_says_yes
from screens.widgets.groups import Piece, rate_pieces

MAX_REASON_CHARACTERS = 2_000
"""Most characters that are shown of the reason that a model gives."""
TITLE_WIDTH = 7
"""Cells of what stands before a line of evidence: `merge`, `model`, `alike`, `after`."""
NARROW_COLUMNS = 60
"""Below this width in cells the longer lines are broken in two."""


def label_is_models(proposal: Proposal) -> bool:
    """Returns whether the label of the merged group is the model's: it is where its mean answer over both orders is
    yes.
    """
    answer = proposal.evidence.answer
    return bool(answer.label.strip()) and model_says_yes(answer.yes, answer.yes_reversed) is True


def proposed_label(proposal: Proposal) -> str:
    """Returns the label of the merged group unless the person writes one: the model's, or that of the larger group."""
    return proposal.evidence.answer.label.strip() if label_is_models(proposal) else proposal.a.label


def evidence_content(proposal: Proposal, progress: ReviewProgress | None, width: int) -> Content:
    """Returns the evidence in lines that fit `width` cells.

    Args:
        progress: Says what the merge probability is fitted on; None leaves that out.
    """
    evidence = proposal.evidence
    gap = "\n" + " " * TITLE_WIDTH if width < NARROW_COLUMNS else ""
    parts = _probability_pieces("merge", evidence.probability, "$tone-accent")
    if progress is not None:
        decisions = number_format.counted(progress.learned_from, "decision")
        basis = (
            f"fitted on {decisions}" if progress.learned_from else "not fitted yet, no decisions"
        )
        parts.append((f"  {basis}", "$tone-muted"))
    parts += ["\n", *_model_pieces(evidence, progress, gap)]
    parts += _reply_pieces(evidence.answer)
    parts += ["\n", *_similarity_pieces(evidence, gap)]
    parts += ["\n", *_merged_pieces(proposal, width)]
    if description := " ".join(evidence.answer.description[:MAX_REASON_CHARACTERS].split()):
        parts.append((f"\n{display_safe(description)}", "$tone-muted"))
    if proposal.why:
        parts.append((f"\nwhy now  {one_line(proposal.why, 120)}", "$tone-muted"))
    return Content.assemble(*parts)


def _reply_pieces(answer: PairAnswer) -> list[Piece]:
    """Returns the reasons that the model gives, each on a new line; without an answer, why there is none."""
    # One reason alone is a free reply, as in the paper.
    title = "reason" if answer.yes is None else "for" if answer.reason_against else "reply"
    pieces: list[Piece] = []
    for name, text in ((title, answer.reason), ("against", answer.reason_against)):
        if text.strip():
            safe = display_safe(" ".join(text[:MAX_REASON_CHARACTERS].split()))
            heading = f"{name} ".ljust(TITLE_WIDTH)
            pieces += [(f"\n{heading}", "$tone-muted"), (safe, "$tone-model")]
    return pieces


def _similarity_pieces(evidence: Evidence, gap: str) -> list[Piece]:
    """Returns how alike the two groups are: labels, members, overlap."""
    return [
        ("alike  ", "$tone-muted"),
        f"labels {number_format.signed(evidence.description_similarity)}",
        f" · members {number_format.signed(evidence.member_similarity)}",
        *_threshold_pieces(evidence),
        f"{gap or ' · '}overlap {100 * evidence.overlap:.0f}%",
    ]


def _probability_pieces(name: str, p: float | None, tone: str) -> list[Piece]:
    """Returns a line of evidence with a bar and its probability."""
    return [
        (f"{name:<{TITLE_WIDTH}}", "$tone-muted"),
        (number_format.bar(p), tone),
        (f" {number_format.estimate(p)}", "bold" if p is not None else "$tone-muted"),
    ]


def _threshold_pieces(evidence: Evidence) -> list[Piece]:
    """Returns from which similarity of members two such groups are more likely one goal than two; it differs by log."""
    if evidence.member_threshold is None:
        return []
    return [(f" (one goal from {number_format.signed(evidence.member_threshold)})", "$tone-muted")]


def _model_pieces(evidence: Evidence, progress: ReviewProgress | None, gap: str) -> list[Piece]:
    """Returns the model's probability of yes, or what it said, in the orders in which it was asked, marked where the
    two answers differ."""
    answer = evidence.answer
    yes, yes_reversed = answer.yes, answer.yes_reversed
    if yes is None:
        if answer.model:
            state = "gave no answer"
        elif progress is not None and progress.asking:
            state = "is being asked …"
        elif progress is not None and progress.can_ask:
            state = "not asked yet; g asks it"
        else:
            state = "not asked"
        return [("model  ", "$tone-muted"), (state, "$tone-muted")]
    if answer.spoken:
        pieces: list[Piece] = [("model  ", "$tone-muted"), ("said ", ""), (_word(yes), "bold")]
    else:
        pieces = [*_probability_pieces("model", yes, "$tone-model"), (" yes", "$tone-muted")]
    if yes_reversed is not None:
        figure = _word(yes_reversed) if answer.spoken else number_format.estimate(yes_reversed)
        pieces += [(", reversed ", "$tone-muted"), (figure, "bold")]
    if yes_reversed is not None and (yes > 0.5) != (yes_reversed > 0.5):
        pieces.append((f"{gap or '  '}⇄ depends on which comes first", "$tone-borderline"))
    return pieces


def _word(yes: float) -> str:
    """Returns the answer of a model that said one, which is stored as 1 or 0."""
    return "yes" if yes else "no"


def _merged_pieces(proposal: Proposal, width: int) -> list[tuple[str, str]]:
    """Returns the size, share and rate of ended ones of the merged group, and the rates of the two: on its line where
    that has `width` cells for it.
    """
    a, b = proposal.a, proposal.b
    pieces = [
        ("after  ", "$tone-muted"),
        (f"{a.size + b.size:,}", "bold"),
        (f" · {100 * (a.share + b.share):.1f}%  ", "$tone-muted"),
        *rate_pieces(proposal.after),
    ]
    if a.states.scored and b.states.scored:
        rates = (number_format.rate(group.states.above, group.states.scored) for group in (a, b))
        before = f"before: {' and '.join(rates)}"
        line = sum(len(text) for text, _ in pieces) + 2 + len(before)
        gap = "  " if line <= width else "\n" + " " * TITLE_WIDTH
        pieces.append((gap + before, "$tone-muted"))
    return pieces
