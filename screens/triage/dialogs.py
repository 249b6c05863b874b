"""Dialogs of triage: the question, an answer that no single key gives, the note, and a blind round.

In a blind round a person judges conversations again without seeing the first answer, theirs or that of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.base.errors import UsageError
from engine.base.text import NOTICE_LIMIT, PATH_LIMIT, one_line
from engine.questions.question import NOTE, Question
from engine.questions.records import AnswerRow
from engine.questions.service.questions import QuestionSummary
from screens.shell.dialogs import ChoiceDialog, TextDialog, TicksDialog, ask
from screens.shell.workbench_screen import WorkbenchScreen
from screens.triage import formatting
from screens.triage.formatting import TriageStatus
from screens.triage.queue import BlindRound, load_blind, load_status
from screens.widgets.background import write_in_order
from screens.widgets.formatting import agreement_piece

MIN_ANSWERS_FOR_REPEATS = 20
"""Number of answers from which on a person judges own conversations again."""

MAX_CONVERSATIONS_PER_ROUND = 10
"""Largest number of conversations that are judged in one blind round."""


def ask_note(
    screen: WorkbenchScreen[Any], conversation: int, show: Callable[[AnswerRow | None], None]
) -> None:
    """Asks for the note of a conversation, stores it, and calls `show` with the row that was stored."""
    triage = screen.services.triage
    current = triage.current(conversation)

    def store_note(text: str) -> None:
        write_in_order(screen, lambda: triage.note(conversation, text), show, screen.show_error)

    ask(screen, TextDialog("Note", value=current.note if current else ""), store_note)


def ask_question(screen: WorkbenchScreen[Any], current: str, choose: Callable[[str], None]) -> None:
    """Asks which question to answer, with the number of answers of each.

    Args:
        current: Name of the question under the cursor at first.
        choose: Called with the name of the chosen question.
    """

    def list_questions(rows: list[QuestionSummary]) -> None:
        choices = [
            (row.question.name, formatting.question_line(row))
            for row in rows
            if row.question.name != NOTE
        ]
        ask(screen, ChoiceDialog("Which question", choices, current), choose)

    screen.in_background(screen.services.questions.all, list_questions, group="questions")


def ask_answer(
    screen: WorkbenchScreen[Any], question: Question, give: Callable[[str], None], ticked: str = ""
) -> None:
    """Asks for an answer: a choice of the labels, several of them, or a line with a number or a text.

    Args:
        give: Called with the answer.
        ticked: A label that has a tick at first; empty for none.
    """
    title = one_line(question.text, PATH_LIMIT)
    labels = [(label, f"{label}  {help}") for label, help in question.labels.items()]

    def parse_answer(text: str) -> None:
        if text.strip():
            try:
                give(question.answer(text))
            except UsageError as error:
                screen.show_error(error)

    if question.kind == "several":
        dialog = TicksDialog(title, labels, [ticked] if ticked else [])
        ask(screen, dialog, lambda values: give(",".join(values)))
    elif question.labels:
        ask(screen, ChoiceDialog(title, labels), give)
    else:
        ask(screen, TextDialog(title, placeholder=f"a {question.kind}"), parse_answer)


def ask_round(
    screen: WorkbenchScreen[Any], question: str, begin: Callable[[BlindRound], None]
) -> None:
    """Asks whose conversations are judged blind, where there is a choice, and calls `begin` with the round.

    Where there are no conversations to judge blind, it notifies why.
    """

    def ask_whose(loaded: tuple[TriageStatus, list[int], list[int]]) -> None:
        """Begins a round with the only conversations there are, or asks which; notifies where there are none."""
        status, own_answers, others = loaded
        has_few = status.given < MIN_ANSWERS_FOR_REPEATS
        if has_few:
            own_answers = []

        def begin_round(of_others: bool) -> None:
            begin(BlindRound(others if of_others else own_answers, of_others=of_others))

        if own_answers and others:
            choices = [
                (True, f"{len(others)} that other people judged"),
                (False, f"{len(own_answers)} that you judged"),
            ]
            ask(screen, ChoiceDialog("Judge blind", choices), begin_round)
        elif own_answers or others:
            begin_round(not own_answers)
        elif has_few:
            reason = (
                f"Blind repeats begin at {MIN_ANSWERS_FOR_REPEATS} answers;"
                f" there are {status.given}."
            )
            screen.notify(reason, markup=False)
        else:
            screen.notify("Everything but your newest answers was asked again.", markup=False)

    services = screen.services
    screen.in_background(
        lambda: load_blind(services, question, MAX_CONVERSATIONS_PER_ROUND),
        ask_whose,
        group="blind",
    )


def notify_result(
    screen: WorkbenchScreen[Any],
    question: str,
    of_others: bool,
    show: Callable[[TriageStatus], None],
) -> None:
    """Notifies after a round how far its answers agree with the first ones, and calls `show` with the new status."""
    services = screen.services

    def read() -> tuple[TriageStatus, list[str]]:
        status = load_status(services, question)
        if of_others:
            return status, services.calibration.people(question).of_pairs(status.annotator)
        return status, [
            f"You agree with yourself: {agreement_piece(status.agreement_with_self)[0]}"
        ]

    def notify(result: tuple[TriageStatus, list[str]]) -> None:
        status, sentences = result
        title = "Second answers" if of_others else "Blind repeats"
        screen.notify(one_line(" ".join(sentences), NOTICE_LIMIT), title=title, markup=False)
        show(status)

    # It is read in order with the writes, so that the last answer is stored before.
    write_in_order(screen, read, notify, screen.show_error)
