"""The dialogs for the note and the tags of a conversation in triage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.base.text import display_safe
from engine.questions.records import VerdictRow
from screens.shell.dialogs import TextDialog
from screens.shell.marking import TagDialog
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order


def ask_note(
    screen: WorkbenchScreen[Any], conversation: int, written: Callable[[VerdictRow | None], None]
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
