"""What triage asks beside a verdict: the note and the tags of a conversation, and which are judged blind.

In a blind round a person judges conversations again without seeing the first verdict, theirs or that of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.base.text import display_safe, one_line
from engine.questions.records import AnswerRow
from screens.shell.dialogs import ChoiceDialog, TextDialog
from screens.shell.marking import TagDialog
from screens.shell.workbench_screen import WorkbenchScreen
from screens.triage.formatting import TriageStatus
from screens.triage.queue import BlindRound, load_blind, load_status
from screens.widgets.background import write_in_order
from screens.widgets.formatting import agreement_piece


def ask_note(
    screen: WorkbenchScreen[Any], conversation: int, written: Callable[[AnswerRow | None], None]
) -> None:
    """Asks for the note of a conversation; `written` gets the stored row."""
    triage = screen.services.triage
    current = triage.current(conversation)

    def answered(text: str | None) -> None:
        if text is not None:
            write_in_order(
                screen, lambda: triage.note(conversation, text), written, screen.show_error
            )

    screen.app.push_screen(TextDialog("Note", value=current.note if current else ""), answered)


def ask_tags(screen: WorkbenchScreen[Any], conversation: int, written: Callable[[], None]) -> None:
    """Asks for the tags of a conversation; `written` is called once they are stored."""
    triage = screen.services.triage
    current = triage.current(conversation)
    # As they are shown in the input: without commas, and display-safe.
    before = {
        display_safe(name).replace(",", "‚"): name for name in (current.tags if current else ())
    }

    def answered(text: str | None) -> None:
        if text is None:
            return
        after = {" ".join(name.split()) for name in text.split(",")} - {""}

        def write() -> None:
            for shown in before.keys() - after:
                triage.untag([conversation], before[shown])
            for name in sorted(after - before.keys()):
                triage.tag([conversation], name)

        write_in_order(screen, write, lambda _: written(), screen.show_error)

    screen.app.push_screen(
        TagDialog(
            screen.services,
            "Tags, with commas between them",
            value="".join(f"{name}, " for name in before),
            placeholder="refund, too slow",
            adding=True,
        ),
        answered,
    )


MIN_VERDICTS_FOR_REPEATS = 20
"""Number of verdicts from which on a person can be asked again."""

MAX_CONVERSATIONS_PER_ROUND = 10
"""Largest number of conversations that are judged in one blind round."""


def ask_round(screen: WorkbenchScreen[Any], begin: Callable[[BlindRound], None]) -> None:
    """Asks which conversations are judged blind, where there is a choice, and hands the round to `begin`; says why
    where there are none."""

    def arrived(loaded: tuple[TriageStatus, list[int], list[int]]) -> None:
        status, own, others = loaded
        has_few_verdicts = status.given < MIN_VERDICTS_FOR_REPEATS
        if has_few_verdicts:
            own = []

        def answered(of_others: bool | None) -> None:
            if of_others is not None:
                begin(BlindRound(others if of_others else own, of_others=of_others))

        if own and others:
            choices = [
                (True, f"{len(others)} that other people judged"),
                (False, f"{len(own)} that you judged"),
            ]
            screen.app.push_screen(ChoiceDialog("Judge blind", choices), answered)
        elif own or others:
            answered(not own)
        elif has_few_verdicts:
            early = (
                f"Blind repeats begin at {MIN_VERDICTS_FOR_REPEATS} verdicts;"
                f" there are {status.given}."
            )
            screen.notify(early, markup=False)
        else:
            screen.notify("Everything but your newest verdicts was asked again.", markup=False)

    services = screen.services
    screen.in_background(
        lambda: load_blind(services, MAX_CONVERSATIONS_PER_ROUND), arrived, group="blind"
    )


def notify_result(
    screen: WorkbenchScreen[Any], of_others: bool, show: Callable[[TriageStatus], None]
) -> None:
    """Says after a round how far its verdicts agree with the first ones, and hands the new status to `show`."""
    services = screen.services

    def read() -> tuple[TriageStatus, list[str]]:
        status = load_status(services)
        if of_others:
            return status, services.calibration.people().of_pairs(status.annotator)
        return status, [f"You agree with yourself: {agreement_piece(status.itself)[0]}"]

    def notify(result: tuple[TriageStatus, list[str]]) -> None:
        status, sentences = result
        title = "Second verdicts" if of_others else "Blind repeats"
        screen.notify(one_line(" ".join(sentences), 400), title=title, markup=False)
        show(status)

    # Queued with the writes, so that it runs after the last answer is stored.
    write_in_order(screen, read, notify, screen.show_error)
