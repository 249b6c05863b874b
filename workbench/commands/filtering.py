"""`--filter` of the commands: the filter language of the screens, with the place of a mistake."""

from __future__ import annotations

from rich.cells import cell_len

from engine.errors import UsageError
from engine.filters import Filter, FilterError, parse_filter
from engine.text import display_safe


def asked_filter(text: str) -> Filter:
    """The filter of this text.

    Raises:
        UsageError: It cannot be understood; the message shows the text with a caret under the place.
    """
    try:
        return parse_filter(text)
    except FilterError as error:
        line = "".join(" " if char.isspace() else char for char in text)
        before = cell_len(display_safe(line[: error.at]))
        place = f"  {display_safe(line)}\n  {' ' * before}^"
        raise UsageError(
            f"{display_safe(error.message)}\n{place}", display_safe(error.hint)
        ) from error
