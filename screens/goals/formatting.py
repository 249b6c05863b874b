"""What the goal screens and the merge desk say: groups, proposals, progress, acts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from textual.content import Content

from engine import number_format
from engine.records.goals import (
    ClusteringRow,
    DecisionKind,
    DeskOrder,
    Evidence,
    GoalDecision,
    GoalGroup,
    GroupStates,
    Proposal,
    ReviewProgress,
    said_yes,
)
from engine.records.scores import State
from engine.text import display_safe, one_line
from screens.widgets.agreement import format_agreement
from screens.widgets.states import STATE_LOOKS

Piece = str | tuple[str, str]

UNSTABLE = 0.6
"""Mean Jaccard below which a cluster is not to be trusted: resampling dissolves it as often as not."""
UNSTABLE_SIGN = "▲"
REASON_CHARACTERS = 2_000

ORDERS: Mapping[DeskOrder, tuple[str, str]] = {
    "similarity": ("most similar first", "as in the paper"),
    "probability": ("most probable first", "quick work: yes after yes"),
    "teaching": ("what teaches most first", "where your answer tells most about the other pairs"),
}
"""Name of each order and what it is good for."""

ACTS: Mapping[DecisionKind, str] = {
    "merge": "merged",
    "apart": "kept apart",
    "never": "never to merge",
    "split": "split",
    "move": "moved",
    "rename": "renamed",
    "pin": "pinned",
    "unpin": "unpinned",
}
AT_ONCE: Mapping[DecisionKind, str] = {
    "merge": "merged {} pairs at once",
    "apart": "kept {} pairs apart at once",
}
"""What can be done to a whole list of pairs as one act."""
GLYPHS: Mapping[DecisionKind, str] = {
    "merge": "⋈",
    "apart": "≠",
    "never": "⊘",
    "split": "⋔",
    "move": "→",
    "rename": "✎",
    "pin": "◉",
    "unpin": "◌",
}
"""One sign for each kind of act, in the history and in the list of what came last."""


def label_of(group: GoalGroup, limit: int = 80) -> str:
    """What a group is called, display-safe, never empty."""
    return one_line(group.label, limit) or f"(no label, {one_line(group.id, 20)})"


def named_by_model(proposal: Proposal) -> bool:
    """Whether the model's label is proposed: only where it says yes, in the mean of both orders."""
    found = proposal.evidence
    return bool(found.label.strip()) and said_yes(found.yes, found.yes_reversed) is True


def label_for(proposal: Proposal) -> str:
    """What the merged group would be called unless the person says otherwise, as it came."""
    return proposal.evidence.label.strip() if named_by_model(proposal) else proposal.a.label


def scored(states: GroupStates) -> int:
    """Members with an honest number."""
    return states.complete + states.incomplete + states.borderline


def rate_pieces(states: GroupStates, *, brief: bool = False) -> list[Piece]:
    """Share of complete ones with interval and coverage, `● 68% ± 4 · 96% scored`; no number where none is scored."""
    number = scored(states)
    size = number + states.unscored
    look = STATE_LOOKS[State.COMPLETE]
    if not number:
        unscored = STATE_LOOKS[State.UNSCORED]
        return [(f"{unscored.glyph} none scored", unscored.tone_variable)]
    shown = number_format.rate(states.complete, number)
    if brief:
        return [(f"{look.glyph} {shown.split(' ')[0]}", look.tone_variable)]
    pieces: list[Piece] = [(f"{look.glyph} {shown}", look.tone_variable)]
    if states.unscored:
        pieces.append((f" · {100 * number / size:.0f}% scored", "$tone-muted"))
    return pieces


def stability_piece(group: GoalGroup) -> Piece:
    """How stable a cluster is under resampling, marked where it is not."""
    if group.stability is None:
        return ("", "")
    figure = number_format.probability(group.stability)
    if group.stability < UNSTABLE:
        return (f"{UNSTABLE_SIGN} unstable {figure}", "$tone-borderline")
    return (f"stable {figure}", "$tone-muted")


def group_line(group: GoalGroup) -> Content:
    """Size, share, rate, stability of one group on one line."""
    pieces: list[Piece] = [
        (f"{group.size:,}", "bold"),
        (f" · {100 * group.share:.1f}%  ", "$tone-muted"),
        *rate_pieces(group.states),
    ]
    if (stability := stability_piece(group))[0]:
        pieces += [("  ", ""), stability]
    if group.pinned:
        pieces.append((f"  {GLYPHS['pin']} pinned", "bold $tone-accent"))
    return Content.assemble(*pieces)


def near_line(near: Sequence[tuple[str, float]], but: str) -> Content:
    """The other groups nearest to a side, `near: Change a date .74 · …`; `but` is the label of the other side."""
    found = [
        f"{one_line(label, 40)} {number_format.signed(cosine)}"
        for label, cosine in near
        if label != but
    ] or ["nothing else"]
    return Content.styled("near: " + " · ".join(found), "$tone-muted")


# A proposal


def probability_pieces(name: str, p: float | None, tone: str) -> list[Piece]:
    """A named probability as a bar and two digits."""
    return [
        (f"{name:<7}", "$tone-muted"),
        (number_format.bar(p), tone),
        (f" {number_format.probability(p)}", "bold" if p is not None else "$tone-muted"),
    ]


def mind_changed(evidence: Evidence) -> bool:
    """Whether the model's word depends on which of the two comes first."""
    yes, back = evidence.yes, evidence.yes_reversed
    return yes is not None and back is not None and (yes > 0.5) != (back > 0.5)


NARROW = 60
"""Cells below which what belongs together is broken into lines."""


def evidence_content(proposal: Proposal, progress: ReviewProgress | None, width: int) -> Content:
    """All that speaks for and against, in lines that fit `width`; what may still grow comes last."""
    found = proposal.evidence
    gap = "\n       " if width < NARROW else ""
    parts: list[Piece] = [*probability_pieces("merge", found.probability, "$tone-accent")]
    if progress is not None:
        learned = progress.learned_from
        told = f"learned from {learned}" if learned else "a prior; you teach it"
        parts.append((f"  {told}", "$tone-muted"))
    parts += ["\n", *_model_pieces(found, progress, gap), "\n"]
    parts += [
        ("alike  ", "$tone-muted"),
        f"labels {number_format.signed(found.description_similarity)}",
        f" · members {number_format.signed(found.member_similarity)}",
        f"{gap or ' · '}overlap {100 * found.overlap:.0f}%",
    ]
    if found.likelihood_ratio is not None:
        sign = "+" if found.likelihood_ratio >= 0 else "−"
        parts.append(f" · likelihood {sign}{abs(found.likelihood_ratio):.2f}")
    parts += ["\n", *_after_pieces(proposal, gap)]
    for text, before, after, tone in (
        (found.reason, "“", "”", "$tone-model"),
        (found.description, "", "", "$tone-muted"),
    ):
        if text.strip():
            safe = display_safe(" ".join(text[:REASON_CHARACTERS].split()))
            parts.append((f"\n{before}{safe}{after}", tone))
    if proposal.why:
        parts += [("\nnow    ", "$tone-muted"), (one_line(proposal.why, 120), "$tone-muted")]
    return Content.assemble(*parts)


def _model_pieces(found: Evidence, progress: ReviewProgress | None, gap: str) -> list[Piece]:
    if found.yes is None and found.yes_reversed is None:
        asking = progress is not None and progress.asking
        told = "is being asked …" if asking else "was not asked; g asks it"
        return [("model  ", "$tone-muted"), (told, "$tone-muted")]
    pieces: list[Piece] = [
        *probability_pieces("model", found.yes, "$tone-model"),
        (" yes, reversed ", "$tone-muted"),
        (number_format.probability(found.yes_reversed), "bold"),
    ]
    if mind_changed(found):
        pieces.append((f"{gap or '  '}⇄ the order changed its mind", "$tone-borderline"))
    return pieces


def _after_pieces(proposal: Proposal, gap: str) -> list[Piece]:
    a, b = proposal.a, proposal.b
    pieces: list[Piece] = [
        ("after  ", "$tone-muted"),
        (f"{a.size + b.size:,}", "bold"),
        (f" · {100 * (a.share + b.share):.1f}%  ", "$tone-muted"),
        *rate_pieces(proposal.after),
    ]
    if scored(a.states) and scored(b.states):
        rates = [f"{100 * g.states.complete / scored(g.states):.0f}%" for g in (a, b)]
        pieces.append((f"{gap or '  '}before: {rates[0]} and {rates[1]}", "$tone-muted"))
    return pieces


# The desk as a whole


def counts_content(progress: ReviewProgress, skipped: int) -> Content:
    """How far the work is."""
    decided = progress.merged + progress.refused
    parts: list[Piece] = [
        (f"{decided:,} decided", "bold"),
        (f" ({progress.merged:,} merged, {progress.refused:,} refused)", "$tone-muted"),
        *_left_pieces(progress),
    ]
    if progress.asking:
        parts.append((" · asking …", "$tone-accent"))
    if skipped:
        parts.append((f" · {skipped} skipped", "$tone-muted"))
    return Content.assemble(*parts)


def _left_pieces(progress: ReviewProgress) -> list[Piece]:
    """What is left to the end: the likely pairs one by one, the others in one act."""
    unlikely = progress.left - progress.likely
    if not unlikely:
        return [f" · {progress.left:,} left"]
    told = f"{progress.likely:,} likely left, then " if progress.likely else "nothing likely left: "
    return [f" · {told}", ("R", "bold $tone-accent"), f" refuses {unlikely:,} at once"]


def standing_content(progress: ReviewProgress) -> Content:
    """Order, floor, agreement, calls to the end, and what the merge probability rests on."""
    parts: list[Piece] = [
        (ORDERS[progress.order][0], "bold"),
        (f" · {_floor(progress) or 'no floor'}", "$tone-muted"),
    ]
    if progress.agreement.n:
        parts.append(f" · model agrees {format_agreement(progress.agreement)}")
    if progress.unasked:
        calls = number_format.counted(progress.calls, "model call")
        wait = (
            f", {number_format.duration(progress.seconds)}" if progress.seconds is not None else ""
        )
        parts.append((f" · {progress.unasked:,} unasked: {calls}{wait}", "$tone-muted"))
    learned = progress.learned_from
    decisions = number_format.counted(learned, "decision")
    state = f"learned from {decisions}" if learned else "merge probability is a prior"
    parts.append((f" · {state}", "$tone-muted"))
    return Content.assemble(*parts)


def _floor(progress: ReviewProgress) -> str:
    return f"floor {number_format.probability(progress.floor)}" if progress.floor > 0 else ""


def order_prompt(order: DeskOrder) -> Content:
    """An order as a line to choose."""
    name, reason = ORDERS[order]
    return Content.assemble(name, (f"  {reason}", "$tone-muted"))


def desk_empty_content(shown: ClusteringRow | None, progress: ReviewProgress | None) -> Content:
    """Why there is no proposal, and what to do."""
    key = "bold $tone-accent"
    if shown is None or progress is None:
        return Content.assemble(
            "Nothing to merge: no clustering was made yet.\n\n",
            ("5", key),
            " goes to the goals, ",
            ("r", key),
            " clusters them there and says first how long it takes.",
        )
    if not progress.finished:
        return Content.assemble("No proposal is ready yet; the next ones are being computed.")
    floor = _floor(progress)
    lowers: tuple[Piece, ...] = (("F", key), " lowers the floor, ") if floor else ()
    return Content.assemble(
        ("Done: every current pair was refused", "bold"),
        f" or lies below the {floor}.\n" if floor else ".\n",
        f"{progress.merged:,} merged, {progress.refused:,} refused;"
        f" {number_format.counted(shown.groups, 'group')} stand.\n\n",
        ("5", key),
        " shows them, ",
        ("H", key),
        " what was decided, ",
        ("u", key),
        " takes the newest back, ",
        *lowers,
        ("m", key),
        " merges any two.",
    )


# Acts


def folded(acts: Sequence[GoalDecision]) -> list[GoalDecision]:
    """Acts as they are listed: pairs that were refused at once are one, the first of them with their count."""
    found: list[GoalDecision] = []
    for given in acts:
        last = found[-1] if found else None
        if last and (last.act, last.kind) == (given.act, "apart") and not given.carried:
            found[-1] = replace(given, count=last.count + 1)
        else:
            found.append(given)
    return found


def decision_words(given: GoalDecision) -> str:
    """One act in words: `merged A + B into C`."""
    if given.count > 1 and (given.carried or given.kind in AT_ONCE):
        if given.carried:
            return f"took over {given.count:,} decisions from an earlier clustering"
        return AT_ONCE[given.kind].format(f"{given.count:,}")
    labels = [f"“{one_line(label, 40)}”" for label in given.labels]
    text = one_line(given.text, 60)
    if given.kind == "merge":
        return f"merged {' + '.join(labels)}" + (f" into “{text}”" if text else "")
    if given.kind in ("apart", "never"):
        return f"{ACTS[given.kind]}: {' and '.join(labels)}"
    if given.kind == "rename":
        return f"renamed {' '.join(labels)} to “{text}”"
    if given.kind == "split":
        parts = f" into {len(given.made)}" if given.made else ""
        return f"split {' '.join(labels)}{parts}"
    where = f" {' '.join(labels)}" if labels else ""
    return f"{ACTS[given.kind]}{where}"


def act_words(given: GoalDecision, done: str) -> str:
    """What an undo or redo concerned."""
    return f"{done}: {decision_words(given)}."
