"""The texts of triage: orders, lines, notices. Knows nothing of widgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual.content import Content

from engine.base import number_format
from engine.base.conversation import Verdict
from engine.base.text import one_line
from engine.opener.conversations import ConversationRow
from engine.questions.question import NOTE, YES
from engine.questions.records import (
    Agreement,
    AnswerRow,
    ExampleProbe,
    ExampleProbeChange,
    QueueOrder,
)
from screens.widgets.empty_state import SCORE, EmptyState
from screens.widgets.formatting import VERDICT_LOOKS, agreement_piece

ORDERS: Mapping[QueueOrder, tuple[str, str]] = {
    "trouble": ("most trouble first", "signs in the text that something went wrong"),
    "threshold": ("near the threshold first", "where the score is least certain"),
    "lowest": ("lowest score first", "surely broken off, to see what goes wrong"),
    "informative": ("most informative first", "few verdicts that tell most about all others"),
    "disagreement": ("disagreement first", "two ways of scoring say different things"),
    "people": ("people disagree", "judged ones, to decide which verdict holds"),
    "unsure": ("unsure answers first", "many likely answers, none of them very likely"),
    "sample": ("calibration sample", "spread over all scores, for figures of all"),
    "list": ("the list's order", "its filter and its sorting"),
}
"""Name of each order and what it is good for."""

Piece = tuple[str, str]
"""A text and its style."""

_NAME_CHARACTERS = 40
"""Most characters of the name of a conversation or tag."""

_ANNOTATOR_CHARACTERS = 20
"""Most characters of the name of the person who judges."""


@dataclass(frozen=True, slots=True)
class TriageStatus:
    """Counts of the verdicts, and their agreement with the model and with themselves.

    Attributes:
        model: Agreement of the verdicts with the states that the decision rule gives.
        itself: Agreement of first verdicts with those of blind repeats.
        success: The probe of success in force; None before there are verdicts enough.
        change: What newer verdicts would change about it; None if nothing waits.
        annotator: Name of the person who judges; empty without one.
    """

    tally: Mapping[Verdict, int]
    model: Agreement
    itself: Agreement
    success: ExampleProbe | None = None
    change: ExampleProbeChange | None = None
    annotator: str = ""

    @property
    def given(self) -> int:
        """Conversations with a verdict."""
        return sum(self.tally.values())


def tally_pieces(tally: Mapping[Verdict, int]) -> list[Piece]:
    """Returns the verdicts by kind."""
    return [
        (f"  {look.glyph} {tally.get(verdict, 0):,}", f"bold {look.tone_variable}")
        for verdict, look in VERDICT_LOOKS.items()
    ]


def title_content(
    place: str, blind: str, per_hour: float | None, tally: Mapping[Verdict, int] | None
) -> Content:
    """Returns the place in the queue, or in a blind round; verdicts in an hour; verdicts by kind unless `tally` is
    None.

    Args:
        place: Such as `3 of 120`; empty when nothing is left.
        blind: Place in the round of blind repeats; empty outside of one.
        per_hour: Verdicts in an hour; None while it is not known.
    """
    parts = [(f"blind {blind}", "bold $tone-accent") if blind else (place, "bold")]
    if per_hour is not None:
        parts.append((f" · {per_hour:.0f}/h", "$tone-muted"))
    return Content.assemble(*parts, *([] if tally is None else tally_pieces(tally)))


def summary_content(row: ConversationRow) -> Content:
    """Returns the name, number of turns and opening of a conversation."""
    return Content.assemble(
        (one_line(row.external_id, _NAME_CHARACTERS), "bold"),
        (f" · {number_format.counted(row.turns, 'turn')} · ", "$tone-muted"),
        one_line(row.opening),
    )


def status_line(
    status: TriageStatus, order: QueueOrder, narrowed_to: str, *, with_tally: bool
) -> Content:
    """Returns the order with its reason, agreement, and what the queue is narrowed to, empty for everything."""
    name, reason = ORDERS[order]
    parts: list[Piece] = []
    if with_tally:
        parts += [*tally_pieces(status.tally), ("  ", "")]
    if status.annotator:
        parts.append((f"{one_line(status.annotator, _ANNOTATOR_CHARACTERS)} · ", "$tone-accent"))
    parts.append((name, "bold"))
    if not with_tally:
        parts.append((f" · {reason}", "$tone-muted"))
    if status.model.n:
        parts += [(" · model agrees ", ""), agreement_piece(status.model)]
    if status.itself.n:
        parts += [(" · you with yourself ", ""), agreement_piece(status.itself)]
    if status.success is not None and status.success.test is not None:
        area = number_format.figure(status.success.test.auroc.value)
        chance = "" if status.success.tells else ", at chance"
        parts.append((f" · AUROC of success {area}{chance}", ""))
    if status.change is not None:
        turned = status.change.up + status.change.down
        parts.append((f" · newer verdicts would change {turned:,} (K)", "$tone-accent"))
    if narrowed_to:
        parts.append((f" · ▽ {one_line(narrowed_to)}", "bold $tone-accent"))
    return Content.assemble(*parts)


def empty_state(
    status: TriageStatus, conversations: int, scored: bool, narrowed: bool
) -> EmptyState:
    """Returns why the queue is empty, and what to do.

    Args:
        conversations: Number of all conversations; an order may leave out some that have no verdict.
        scored: Whether any of them is scored.
        narrowed: Whether a filter or a choice of conversations leaves out some.
    """
    if not scored:
        return SCORE
    if narrowed or conversations > status.given:
        return EmptyState(
            f"Nothing waits for a verdict in this order{' and with this filter' if narrowed else ''}.",
            "chooses another order",
            "order",
            others=(("triage.filter", "changes the filter"),) if narrowed else (),
        )
    verdicts = number_format.counted(status.given, "verdict")
    return EmptyState(
        f"Nothing is left in the queue. {verdicts} given.",
        "shows what your verdicts say of the scores",
        "calibration",
        others=(
            ("triage.undo", "takes the newest verdict back"),
            ("app.switch-mode-conversations", "goes to the list"),
        ),
    )


def act_notice(row: AnswerRow, done: str) -> str:
    """Returns the notice after an undo or redo, which names what changed: `Tag “late” on 12 conversations`."""
    if row.answers:
        conversations = number_format.counted(row.count, "conversation")
        ((name, value),) = row.answers
        act = f"“{one_line(value, _NAME_CHARACTERS)}” to {name}" if value else f"Removal of {name}"
        if value == YES:
            act = f"Tag “{name}”"
        return f"{act} on {conversations} {done}."
    if row.count > 1:
        return f"{number_format.counted(row.count, 'imported verdict')} {done}."
    if row.question == NOTE:
        return f"Note {done}."
    return f"{'Blind answer' if row.blind else 'Verdict'} {done}."


def blind_panel(words: str, *, of_others: bool) -> Content:
    """Returns what is shown in place of the evidence in a blind round, of conversations that the person or others
    judged before; `words` is the progress of the round."""
    title, who, whose = (
        ("Second verdict", "Somebody else", "Their")
        if of_others
        else ("Blind repeat", "You", "Your")
    )
    return Content.assemble(
        (f"{title} {words}\n\n", "bold"),
        f"{who} judged this one before. {whose} verdict and what the model says are hidden, so that the two answers "
        "can be compared.\n\n",
        ("c i m", "bold $tone-accent"),
        " answer   ",
        ("s", "bold $tone-accent"),
        " next   ",
        ("b", "bold $tone-accent"),
        " ends it",
    )
