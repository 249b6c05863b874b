"""Opens the filter line of a screen; values that occur in the project, with their counts, complete what is typed."""

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
    line.read_values = screen.services.conversations.values
    line.edit(words=words)
