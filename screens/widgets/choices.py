"""A list of lines to choose from, with this program's keys."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar, Literal

from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from screens.widgets.keyed import Keyed


class Choices(Keyed, OptionList, inherit_bindings=False):
    """An `OptionList` of `Content`; the keys are those of the other lists."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor_up", "Line up", show=False),
        Binding("down,j", "cursor_down", "Line down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("home", "first", "First line", show=False),
        Binding("end", "last", "Last line", show=False),
        Binding("enter", "select", "Choose", show=False),
    ]

    def _move_page(self, direction: Literal[-1, 1]) -> None:
        with suppress(KeyError):  # a key before the list is laid out
            super()._move_page(direction)
