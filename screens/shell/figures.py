"""Figures that lead to the conversations behind them, and the question which two sides are compared.

A figure is a number of conversations that a filter selects. A side is a filter, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList

from engine.base.errors import FilterError
from engine.base.text import NAME_LIMIT, one_line
from engine.conversations.filters import Filter, parse_filter
from engine.results.associations.records import Split
from screens.shell.dialogs import ChoiceDialog, TextDialog, ask
from screens.shell.workbench_screen import WorkbenchScreen


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of conversations.

    Attributes:
        label: What the conversations have in common, in words.
        filter: Selects the conversations.
        count: How many there are; None if that is not known.
    """

    label: str
    filter: Filter
    count: int | None = None


def choose_figure(screen: WorkbenchScreen[Any], title: str, figures: Sequence[Figure]) -> None:
    """Lists figures, without those of no conversation, and opens the conversations behind the chosen one.

    The key `!` opens what goes with these conversations instead.
    """
    listed = [figure for figure in figures if figure.count != 0]
    if not listed:
        screen.notify("There are no conversations behind it.", markup=False)
        return
    choices = [((index, False), _figure_line(figure)) for index, figure in enumerate(listed)]

    def on_choice(answer: tuple[int, bool]) -> None:
        """Opens the conversations behind the figure, or what goes with them."""
        index, asks_why = answer
        filter = listed[index].filter
        if asks_why:
            screen.open_why(Split(filter, Filter()))
        else:
            screen.open_conversations(filter)

    ask(screen, FigureDialog(title, choices), on_choice)


def _figure_line(figure: Figure) -> Content:
    """Returns a figure as a line of a choice."""
    number = "" if figure.count is None else f"{figure.count:,}"
    return Content.assemble((f"{number:>9}  ", "bold"), one_line(figure.label, NAME_LIMIT))


class FigureDialog(ChoiceDialog[tuple[int, bool]]):
    """Asks for a figure; answers with its index, and whether to show what goes with its conversations."""

    HINTS = (("enter", "lists them"), ("!", "says what goes with them"), ("escape", "cancels"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "exclamation_mark",
            "why",
            "Why",
            key_display="!",
            tooltip="What goes with the conversations of this figure",
        ),
    ]

    def action_why(self) -> None:
        """Answers with the figure under the cursor, to show what goes with its conversations."""
        self.dismiss((self.query_one(OptionList).highlighted or 0, True))


def ask_sides(screen: WorkbenchScreen[Any], then: Callable[[Filter, Filter], None]) -> None:
    """Asks for two filters, and calls `then` with both.

    A text that is no filter is shown as an error, and nothing more is asked.
    """

    def ask_filter(title: str, use: Callable[[Filter], None]) -> None:
        """Asks for a filter, and calls `use` with it."""

        def on_text(text: str) -> None:
            """Goes on if the text is a filter."""
            try:
                filter = parse_filter(text)
            except FilterError as error:
                screen.show_error(error)
            else:
                use(filter)

        ask(screen, TextDialog(title, placeholder="date:2026-10"), on_text)

    ask_filter(
        "The first side: a filter",
        lambda first: ask_filter(
            "The second side: a filter, or nothing for all others",
            lambda second: then(first, second),
        ),
    )
