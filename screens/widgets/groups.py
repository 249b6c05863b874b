"""Goal groups as text: label, rate of ended conversations, stability; members, decisions, evidence on merges.

The stability of a group is its mean Jaccard similarity with the groups that come of samples of the conversations. The
doubt of a member is how near it is to another group: above 1 it is nearer to that one than to its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from textual.content import Content

from engine.base import number_format
from engine.base.conversation import State
from engine.base.text import LINE_LIMIT, PATH_LIMIT, display_safe, one_line
from engine.completeness.records import StateCounts
from engine.conversations.filter_fields import ANY_VALUE, NO_VALUE, NOVEL
from engine.goals.records import (
    DecisionKind,
    Evidence,
    GoalDecision,
    GoalGroup,
    MemberRow,
    PairAnswer,
    Proposal,
    ReviewProgress,
    model_says_yes,
)
from screens.widgets.formatting import STATE_LOOKS, rate_piece
from screens.widgets.messages import safe_text, wrap

Piece = str | tuple[str, str]
"""Text, or text with its style."""
SHORT_LABEL_LIMIT, LONG_LABEL_LIMIT = 40, 200
"""Most characters of a label in a sentence, and in a place that cuts it where it is wider."""
ID_CHARACTERS = 20
"""Most characters of an id that stands for a label."""
UNSTABLE = 0.6
"""Mean Jaccard similarity under resampling below which a group is marked as unstable."""
UNSTABLE_SIGN = "▲"
"""The sign of a group that is not stable under resampling."""
MAX_MEMBER_CHARACTERS = 2_000
"""Most characters that are shown of the text of one member."""
MAX_MEMBER_LINES = 6
"""Lines that the text of one member may fill."""
MAX_SENTENCE_CHARACTERS = 300
"""Most characters that are shown of the sentence on a decision."""
GLYPHS: Mapping[DecisionKind, str] = {
    "merge": "⋈",
    "apart": "≠",
    "never": "⊘",
    "split": "⋔",
    "move": "→",
    "rename": "✎",
    "pin": "◉",
    "unpin": "◌",
    "theme": "⊂",
    "agree": "✓",
}
"""A sign for each kind of decision."""

MAX_REASON_CHARACTERS = 2_000
"""Most characters that are shown of the reason that a model gives."""
TITLE_WIDTH = 7
"""Cells of what stands before a line of evidence: `merge`, `model`, `alike`, `after`."""
NARROW_COLUMNS = 60
"""Width in cells below which the longer lines are broken in two."""


def label_of(group: GoalGroup, limit: int = LINE_LIMIT) -> str:
    """Returns the label of a group in at most `limit` safe characters; its id where it has no label."""
    return one_line(group.label, limit) or f"(no label, {one_line(group.id, ID_CHARACTERS)})"


def goal_value(group: GoalGroup, groups: Iterable[GoalGroup]) -> str:
    """Returns the value of the filter field `goal` that selects a group.

    That is its label, or its id where it has no label, another of the groups has the same, or the label is a word of
    the filter language.
    """
    label = group.label.lower()
    namesakes = sum(other.label.lower() == label for other in groups)
    return (
        group.label
        if namesakes == 1 and label not in ("", ANY_VALUE, NO_VALUE, NOVEL)
        else group.id
    )


def has_words(group: GoalGroup, words: Iterable[str]) -> bool:
    """Returns whether each of these lower-case words is in the label or the description of a group."""
    text = f"{group.label} {group.description}".lower()
    return all(word in text for word in words)


def rate_pieces(states: StateCounts) -> list[tuple[str, str]]:
    """Returns the rate of ended conversations with its interval and coverage, `● 68% [64, 72] · 96% scored`."""
    scored = states.scored
    look = STATE_LOOKS[State.COMPLETE]
    if not scored:
        unscored = STATE_LOOKS[State.UNSCORED]
        return [(f"{unscored.glyph} {unscored.word}", unscored.tone_variable)]
    shown, tone = rate_piece(states.above, scored, look.tone_variable)
    pieces = [(f"{look.glyph} {shown}", tone)]
    if states.unscored:
        share = scored / (scored + states.unscored)
        pieces.append((f" · {100 * share:.0f}% scored", "$tone-muted"))
    return pieces


def state_bar(states: StateCounts) -> list[tuple[str, str]]:
    """Returns which part of the conversations is in each state, as a bar: pieces of text and component class.

    The heights of the cells tell the states apart without color; unscored ones are a dotted line.
    """
    total = states.scored + states.unscored
    scored_cells = round(states.scored / max(1, total) * number_format.BAR_WIDTH)
    dots = number_format.BAR_WIDTH - scored_cells if total else 0
    pieces, count_so_far, cells_so_far = [], 0, 0
    for state, block, count in (
        (State.COMPLETE, "▇", states.complete),
        (State.BORDERLINE, "▄", states.borderline),
        (State.INCOMPLETE, "▁", states.incomplete),
    ):
        count_so_far += count
        end = round(count_so_far / max(1, states.scored) * scored_cells)
        pieces.append((block * (end - cells_so_far), STATE_LOOKS[state].tone_class))
        cells_so_far = end
    return [*pieces, ("·" * dots, STATE_LOOKS[State.UNSCORED].tone_class)]


def group_line(group: GoalGroup) -> Content:
    """Returns the size, share, rate of ended conversations and stability of a group on one line."""
    pieces: list[Piece] = [
        (f"{group.size:,}", "bold"),
        (f" · {100 * group.share:.1f}%  ", "$tone-muted"),
        *rate_pieces(group.states),
    ]
    if group.stability is not None:
        figure = number_format.probability(group.stability)
        pieces.append(
            (f"  {UNSTABLE_SIGN} unstable {figure}", "$tone-borderline")
            if group.stability < UNSTABLE
            else (f"  stable {figure}", "$tone-muted")
        )
    if group.pinned:
        pieces.append((f"  {GLYPHS['pin']} pinned", "bold $tone-accent"))
    return Content.assemble(*pieces)


class DistinctMember(NamedTuple):
    """A member, and the number of members with its text, itself included."""

    member: MemberRow
    copies: int


def distinct(members: Sequence[MemberRow]) -> list[DistinctMember]:
    """Returns the first member with each text, in order; texts that differ only in case and spaces count as one."""
    members_by_text: dict[str, DistinctMember] = {}
    for member in members:
        key = " ".join(member.text.casefold().split())
        first, copies = members_by_text.get(key, (member, 0))
        members_by_text[key] = DistinctMember(first, copies + 1)
    return list(members_by_text.values())


def member_lines(
    member: MemberRow, width: int, *, doubtful: bool, copies: int = 1
) -> list[Content]:
    """Returns the state and the text of a member in lines of at most `width` cells.

    Args:
        doubtful: Whether the nearest other group and the doubt follow the text.
        copies: Number of members with this text; shown where there are several.
    """
    look = STATE_LOOKS[member.state]
    text = safe_text(" ".join(member.text[:MAX_MEMBER_CHARACTERS].split())) or "(no text)"
    text_lines = wrap(text, width - len("● "))
    if len(text_lines) > MAX_MEMBER_LINES:
        *first_lines, last_line = text_lines[:MAX_MEMBER_LINES]
        text_lines = [*first_lines, last_line[: width - len("● …")] + "…"]
    lines = [
        Content.assemble((f"{look.glyph} ", look.tone_variable) if not index else "  ", line)
        for index, line in enumerate(text_lines)
    ]
    if copies > 1:
        lines[-1] = Content.assemble(lines[-1], (f"  ×{copies}", "$tone-muted"))
    if doubtful and member.other:
        nearness = "nearer to" if member.doubt > 1 else "near"
        # Two cells before the label and seven after it: ` · 0.83`.
        label = one_line(f"{nearness} {member.other}", max(8, width - 9))
        lines.append(Content.styled(f"  {label} · {member.doubt:.2f}", "$tone-muted"))
    return lines


def decision_text(decision: GoalDecision) -> str:
    """Returns what a decision did, `merged “A” and “B” into “C”`; a decision that stands for an act tells all of it."""
    return one_line(decision.text, MAX_SENTENCE_CHARACTERS)


def is_label_of_model(proposal: Proposal) -> bool:
    """Returns whether the model's label is proposed for the merged group: where it answers yes, on average."""
    answer = proposal.evidence.answer
    return bool(answer.label.strip()) and model_says_yes(answer.yes, answer.yes_reversed) is True


def proposed_label(proposal: Proposal) -> str:
    """Returns the label that is proposed for the merged group: the model's, or that of the larger group."""
    answer = proposal.evidence.answer
    return answer.label.strip() if is_label_of_model(proposal) else proposal.a.label


def evidence_content(proposal: Proposal, progress: ReviewProgress | None, width: int) -> Content:
    """Returns the evidence in lines that fit `width` cells.

    Args:
        progress: Tells what the merge probability is fitted on; None leaves that out.
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
        parts.append((f"\nwhy now  {one_line(proposal.why, PATH_LIMIT)}", "$tone-muted"))
    return Content.assemble(*parts)


def _reply_pieces(answer: PairAnswer) -> list[Piece]:
    """Returns the reasons that the model gives, each on a new line."""
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


def _probability_pieces(name: str, p: float, tone: str) -> list[Piece]:
    """Returns a line of evidence with a bar and its probability."""
    return [
        (f"{name:<{TITLE_WIDTH}}", "$tone-muted"),
        (number_format.bar(p), tone),
        (f" {number_format.estimate(p)}", "bold"),
    ]


def _threshold_pieces(evidence: Evidence) -> list[Piece]:
    """Returns from which similarity of members on two groups are more likely one goal than two; it differs by log."""
    if evidence.member_threshold is None:
        return []
    return [(f" (one goal from {number_format.signed(evidence.member_threshold)})", "$tone-muted")]


def _model_pieces(evidence: Evidence, progress: ReviewProgress | None, gap: str) -> list[Piece]:
    """Returns what the model answered on the pair in both orders, and whether the answers differ.

    An answer is its probability of yes, or the word that it said; without one, it is why there is none.
    """
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
    """Returns the word that a model said, which is stored as 1 or 0."""
    return "yes" if yes else "no"


def _merged_pieces(proposal: Proposal, width: int) -> list[tuple[str, str]]:
    """Returns the size, share and rate of ended ones of the merged group, and the rates of the two groups.

    The rates are on a line of their own where `width` cells are too few for one line.
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
