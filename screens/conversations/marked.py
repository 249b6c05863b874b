"""Actions on the marked conversations: copy their names, tag them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.base import number_format
from engine.base.text import one_line
from engine.opener.conversations import ConversationRow
from screens.shell.exporting import copy_names
from screens.shell.marking import TagDialog
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order

MOST_COPIED = 10_000
"""Most names copied at once: a terminal receives them in a single escape sequence."""


def copy_marked_names(screen: WorkbenchScreen[Any], ids: Sequence[int]) -> None:
    """Reads the names of conversations and copies them; too many for a clipboard are refused."""

    def copy(rows: list[ConversationRow]) -> None:
        copy_names(screen, [row.external_id for row in rows])

    if len(ids) > MOST_COPIED:
        screen.notify(
            f"{len(ids):,} names are too many for a clipboard; X exports to a file.",
            severity="warning",
            markup=False,
        )
    elif ids:
        screen.in_background(lambda: screen.services.conversations.rows(ids), copy, group="copy")


def ask_tag(screen: WorkbenchScreen[Any], ids: Sequence[int]) -> None:
    """Asks for a tag and gives it to conversations; with a minus before it, takes it away."""
    if not ids or not screen.may_write():
        return
    number = number_format.counted(len(ids), "conversation")

    def chosen(text: str | None) -> None:
        words = " ".join((text or "").split())
        away, tag = words.startswith("-"), words.removeprefix("-").strip()
        if not tag:
            return
        triage = screen.services.triage
        write_in_order(
            screen,
            lambda: triage.untag(ids, tag) if away else triage.tag(ids, tag),
            lambda _: screen.notify(
                f"{'Untagged' if away else 'Tagged'} {number}: {one_line(tag, 60)}.",
                markup=False,
            ),
            screen.show_error,
        )

    screen.app.push_screen(
        TagDialog(screen.services, f"Tag {number}", placeholder="a tag; -tag takes it away"), chosen
    )
