"""The keys that move a cursor through lines, the same in every list that draws its own lines."""

from __future__ import annotations

from textual.binding import Binding, BindingType


def movement(line: str) -> list[BindingType]:
    """Bindings for `action_move(delta)`, `action_page(direction)` and `action_move_to(index)`; -1 is the last.

    Args:
        line: What a line is called, as in `Row up`.
    """
    return [
        Binding("up,k", "move(-1)", f"{line} up", show=False),
        Binding("down,j", "move(1)", f"{line} down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move_to(0)", f"First {line.lower()}", show=False),
        Binding("end", "move_to(-1)", f"Last {line.lower()}", show=False),
    ]
