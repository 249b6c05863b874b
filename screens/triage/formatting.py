"""The texts of triage: orders, lines, notices. Draws nothing.

In a blind round a person judges conversations again without seeing the first answer. A check compares the answers of a
machine with those of a person. The probe of a question is fitted to a person's answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from textual.content import Content

from engine.base import number_format
from engine.base.conversation import SUCCEEDED
from engine.base.text import one_line
from engine.opener.conversations import ConversationRow
from engine.questions.question import NOTE, YES, Question
from engine.questions.records import Agreement, AnswerRow, CheckReport, ExampleProbe, QueueOrder
from engine.questions.service.questions import QuestionSummary
from screens.widgets.empty_state import SCORE, EmptyState
from screens.widgets.formatting import VERDICT_LOOKS, agreement_piece

ORDERS: Mapping[QueueOrder, tuple[str, str]] = {
    "trouble": ("most trouble first", "signs in the text that something went wrong"),
    "failures": ("least likely to have succeeded first", "by the probe of your answers"),
    "threshold": ("near the threshold first", "where the score is least certain"),
    "lowest": ("lowest score first", "surely broken off, which need not have failed"),
    "informative": ("most informative first", "few answers that tell most about all others"),
    "disagreement": ("disagreement first", "two ways of scoring say different things"),
    "people": ("people disagree", "answered ones, to decide which answer holds"),
    "sample": ("calibration sample", "drawn at random, for figures of all"),
    "check": ("check of the machine", "20 drawn that tell most about its errors; it stays hidden"),
    "answerers": ("answers differ", "two patterns, models, files or probes say different things"),
    "doubtful": ("least sure first", "where a machine's answer is least probable"),
    "list": ("the list's order", "its filter and its sorting"),
}
"""Name of each order and what it is good for."""

SCORE_ORDERS = frozenset(("threshold", "lowest", "disagreement"))
"""Orders by the completeness score, which are offered for the question of verdicts only."""

Piece = tuple[str, str]
"""A text and its style."""

_NAME_CHARACTERS = 40
"""Most characters of the name of a conversation or tag."""

_QUESTION_CHARACTERS = 26
"""Most characters of the name of a question in a choice, which has this width."""

_SHORT_TEXT_CHARACTERS = 34
"""Most characters of the text of a question beside its name."""

_TEXT_CHARACTERS = 120
"""Most characters of the text of a question on a line of its own."""

_LABEL_CHARACTERS = 60
"""Most characters of what an answer means."""

_ANSWERER_CHARACTERS = 20
"""Most characters of the name of who or what answers, and of an answer beside its number."""

MAX_ANSWERS = 5
"""Most answers whose numbers are shown in a line."""


@dataclass(frozen=True, slots=True)
class TriageStatus:
    """Counts of the answers to a question, and their agreement with themselves.

    Attributes:
        tally: Number of conversations by answer.
        agreement_with_self: Agreement of first answers with those of blind repeats.
        probe: The probe of the question; None before there is one.
        check: What the answers say of the machine that was checked last; None before any check.
        annotator: Name of the person who judges; empty without one.
    """

    tally: Mapping[str, int]
    agreement_with_self: Agreement
    probe: ExampleProbe | None = None
    check: CheckReport | None = None
    annotator: str = ""

    @property
    def given(self) -> int:
        """Number of conversations with an answer."""
        return sum(self.tally.values())


def orders_of(question: Question) -> Mapping[QueueOrder, tuple[str, str]]:
    """Returns the orders that make sense for a question."""
    return {
        order: words
        for order, words in ORDERS.items()
        if (order not in (*SCORE_ORDERS, "failures") or question.name == SUCCEEDED)
        and (order != "informative" or question.kind == "yes-no")
    }


def question_line(row: QuestionSummary) -> Content:
    """Returns a question as a line of a choice: its name, and who gave how many answers, or else its text."""
    counts = ", ".join(
        f"{one_line(answerer, _ANSWERER_CHARACTERS)} {sum(by_answer.values()):,}"
        for answerer, by_answer in row.answers
    )
    name = one_line(row.question.name, _QUESTION_CHARACTERS)
    text = one_line(row.question.text, _SHORT_TEXT_CHARACTERS)
    return Content.assemble(
        (f"{name:<{_QUESTION_CHARACTERS}} ", "bold"),
        (counts, "$tone-accent") if counts else (text, "$tone-muted"),
    )


def answers_line(question: Question) -> Content:
    """Returns a question in words, with the keys of its answers."""
    pieces: list[Piece] = [(f"{one_line(question.text, _TEXT_CHARACTERS)}  ", "bold $tone-accent")]
    for key, answer in _answer_keys(question):
        # What the answers of verdicts mean is clear, and so the line is short enough for 80 columns.
        help = "" if question.name == SUCCEEDED else question.labels.get(answer, "")
        words = "" if key == answer else f"{answer} "
        pieces += [
            (key, "bold"),
            (f" {one_line(words + help, _LABEL_CHARACTERS)}   ", "$tone-muted"),
        ]
    return Content.assemble(*pieces)


def _answer_keys(question: Question) -> list[tuple[str, str]]:
    """Returns the key of each answer; `r` asks for an answer that has no key of one digit."""
    if question.kind == "yes-no":
        return [("y", "yes"), ("n", "no"), ("m", "unsure")]
    keys = []
    for number, label in enumerate(question.labels, 1):
        digits = label if label.isdecimal() else str(number)
        keys.append((digits if len(digits) == 1 else "r", label))
    return keys or [("r", f"writes a {question.kind}")]


def tally_pieces(tally: Mapping[str, int]) -> list[Piece]:
    """Returns the number of conversations with each answer, of at most `MAX_ANSWERS` answers."""
    if tally.keys() == VERDICT_LOOKS.keys():
        return [
            (f"  {look.glyph} {tally[verdict]:,}", f"bold {look.tone_variable}")
            for verdict, look in VERDICT_LOOKS.items()
        ]
    shown = list(tally.items())[:MAX_ANSWERS]
    return [
        (f"  {one_line(value, _ANSWERER_CHARACTERS)} {count:,}", "bold") for value, count in shown
    ]


def check_pieces(check: CheckReport) -> list[Piece]:
    """Returns how often a machine is right by its check, and the rates that follow from that."""
    answerer = one_line(check.by, _ANSWERER_CHARACTERS)
    if not check.answered:
        return [(f" · {check.drawn} drawn to check {answerer}", "")]
    known = [share for share in check.shares if share.corrected is not None][:MAX_ANSWERS]
    rates = "; ".join(f"{share.value} {share.text}" for share in known)
    more = f", {check.more:,} more would halve it" if known and check.more else ""
    return [
        (f" · {answerer} right on {check.same} of {check.answered}", ""),
        (f" · {rates}{more}" if rates else "", "$tone-accent"),
    ]


def title_content(place: str, blind: str, tally: Mapping[str, int] | None) -> Content:
    """Returns the place in the queue or in a blind round, and the number of conversations with each answer.

    Args:
        place: The place in the queue, such as `3 of 120`; empty when nothing is left.
        blind: The place in the blind round; empty outside of one.
        tally: Number of conversations by answer; None leaves that out.
    """
    parts = [(f"blind {blind}", "bold $tone-accent") if blind else (place, "bold")]
    return Content.assemble(*parts, *([] if tally is None else tally_pieces(tally)))


def summary_content(row: ConversationRow) -> Content:
    """Returns the name, number of turns and opening of a conversation."""
    return Content.assemble(
        (one_line(row.external_id, _NAME_CHARACTERS), "bold"),
        (f" · {number_format.counted(row.turns, 'turn')} · ", "$tone-muted"),
        one_line(row.opening),
    )


def status_line(
    status: TriageStatus,
    question: Question,
    order: QueueOrder,
    narrowed_to: str,
    *,
    with_tally: bool,
) -> Content:
    """Returns the line with the state of triage: tally, person, the question unless it is that of verdicts, order,
    check, agreement, probe, and what narrows the queue; of these what there is.

    Args:
        narrowed_to: Which conversations are judged, in words; empty for all.
        with_tally: Whether it begins with the number of conversations with each answer, and says less, to be short.
    """
    name, reason = ORDERS[order]
    if order == "failures" and status.probe is not None and status.probe.tells:
        reason = status.probe.basis
    parts: list[Piece] = []
    if with_tally:
        parts += [*tally_pieces(status.tally), ("  ", "")]
    if status.annotator:
        parts.append((f"{one_line(status.annotator, _ANSWERER_CHARACTERS)} · ", "$tone-accent"))
    if question.name != SUCCEEDED:
        parts.append((f"{one_line(question.name, _NAME_CHARACTERS)} · ", "bold $tone-accent"))
    parts.append((name, "bold"))
    if status.check is not None:
        parts += check_pieces(status.check)
    elif not with_tally:
        parts.append((f" · {reason}", "$tone-muted"))
    if status.agreement_with_self.n and not with_tally:
        parts += [(" · you with yourself ", ""), agreement_piece(status.agreement_with_self)]
    test = None if with_tally or status.probe is None else status.probe.test
    if status.probe is not None and test is not None and test.enough:
        area = number_format.figure(test.auroc.value)
        chance = "" if status.probe.tells else ", at chance"
        subject = "success" if question.name == SUCCEEDED else "examples"
        parts.append((f" · AUROC of {subject} {area}{chance}", ""))
    if narrowed_to:
        parts.append((f" · ▽ {one_line(narrowed_to)}", "bold $tone-accent"))
    return Content.assemble(*parts)


def empty_state(
    status: TriageStatus, conversations: int, scored: bool, narrowed: bool, machines: int | None
) -> EmptyState:
    """Returns why the queue is empty, and what to do.

    Args:
        machines: Number of patterns, models, files and probes that answered the question; None in an order that does
            not go by them.
        conversations: Number of conversations in the project; an order may leave out some without an answer.
        scored: Whether any of them is scored.
        narrowed: Whether a filter or a choice of the person leaves out some.
    """
    if not scored:
        return SCORE
    if machines is not None and not narrowed:
        message = "Every conversation that was drawn or differs has an answer of yours."
        if not machines:
            message = (
                "No pattern, model, file or probe has answered this question, so there is nothing to check.\n"
                "2 and then Q asks one of them."
            )
        return EmptyState(message, "chooses another order", "order")
    if narrowed or conversations > status.given:
        return EmptyState(
            f"Nothing waits for an answer in this order{' and with this filter' if narrowed else ''}.",
            "chooses another order",
            "order",
            others=(("triage.filter", "changes the filter"),) if narrowed else (),
        )
    answers = number_format.counted(status.given, "answer")
    return EmptyState(
        f"Nothing is left in the queue. {answers} given.",
        "shows what your verdicts say of the scores",
        "calibration",
        others=(
            ("triage.undo", "takes the newest answer back"),
            ("app.switch-mode-conversations", "goes to the list"),
        ),
    )


def act_notice(row: AnswerRow, done: str) -> str:
    """Returns the notice after an undo or redo: what changed, and `done`, such as `taken back`."""
    if row.answers:
        conversations = number_format.counted(row.count, "conversation")
        ((name, value),) = row.answers  # an act has one answer
        if value == YES:
            act = f"Tag “{name}”"
        elif value:
            act = f"“{one_line(value, _NAME_CHARACTERS)}” to {name}"
        else:
            act = f"Removal of {name}"
        return f"{act} on {conversations} {done}."
    if row.count > 1:
        return f"{number_format.counted(row.count, 'imported verdict')} {done}."
    if row.question == NOTE:
        return f"Note {done}."
    return f"{'Blind answer' if row.blind else 'Verdict'} {done}."


def blind_panel(words: str, *, of_others: bool) -> Content:
    """Returns what is shown in place of the evidence in a blind round.

    Args:
        words: The progress of the round.
        of_others: Whether other people judged the conversations before; else the person did.
    """
    title, who, whose = (
        ("Second answer", "Somebody else", "Their")
        if of_others
        else ("Blind repeat", "You", "Your")
    )
    return Content.assemble(
        (f"{title} {words}\n\n", "bold"),
        f"{who} judged this one before. {whose} answer and what the model says are hidden, so that the two answers "
        "can be compared.\n\n",
        ("s", "bold $tone-accent"),
        " next   ",
        ("b", "bold $tone-accent"),
        " ends it",
    )
