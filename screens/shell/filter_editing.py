"""Opens the filter line of a screen; the sources and tags of the project complete what is typed."""

from __future__ import annotations

from typing import Any

from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.filter_line import FilterLine


def edit_filter(screen: WorkbenchScreen[Any], *, words: bool = False) -> None:
    """Opens the filter line of a screen that has one.

    Args:
        words: Puts the cursor behind the present filter, to add words to search for.
    """
    line = screen.query_one(FilterLine)
    line.edit(words=words)

    def known(found: tuple[list[str], list[tuple[str, int]]]) -> None:
        line.know({"source": found[0], "tag": [tag for tag, _ in found[1]]})

    conversations = screen.services.conversations
    screen.in_background(
        lambda: (conversations.sources(), conversations.tags()), known, group="known"
    )
