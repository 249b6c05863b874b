"""Asks for a file name, writes the file in a thread, and shows what was written or why it was not."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from engine import number_format
from engine.services.exports import ExportKind
from engine.text import one_line
from screens.shell.dialogs import ChoiceDialog, TextDialog
from screens.shell.workbench_screen import WorkbenchScreen


def ask_file(
    screen: WorkbenchScreen[Any],
    title: str,
    proposed: str,
    write: Callable[[str], int | None],
) -> None:
    """Asks for the name of a new file, and writes it.

    Args:
        proposed: The name that is filled in at first.
        write: Writes a new file at a path and returns its number of lines; None if that is not to be shown. Runs in a
            thread.
    """

    def chosen(path: str | None) -> None:
        if path is None or not path.strip():
            return
        place = os.path.expanduser(path.strip())
        shown = one_line(place, 120)

        def notify(count: int | None) -> None:
            lines = "" if count is None else f"{number_format.counted(count, 'line')} to "
            screen.notify(f"Wrote {lines}{shown}.", markup=False)

        screen.in_background(lambda: write(place), notify, group=f"export {place}")

    screen.app.push_screen(TextDialog(title, value=proposed, placeholder="a new file"), chosen)


def ask_export(
    screen: WorkbenchScreen[Any],
    title: str,
    kinds: Sequence[tuple[ExportKind, str]],
    ids: Sequence[int] | None,
) -> None:
    """Asks what to export, then for the file.

    Args:
        kinds: What may be written, with words for each.
        ids: Of the conversations it is about; None for all.
    """
    exports = screen.services.exports

    def chosen(kind: ExportKind | None) -> None:
        if kind is not None:
            ask_file(
                screen,
                f"Write {kind} to",
                f"{kind}.jsonl",
                lambda path: exports.export(kind, ids, path),
            )

    screen.app.push_screen(ChoiceDialog(title, kinds), chosen)
