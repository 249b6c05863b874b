"""Figures and the conversations behind them: a dialog that lists the figures of a pane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textual.content import Content

from engine.base.text import one_line
from engine.conversations.filters import Filter
from screens.shell.dialogs.basic import ChoiceDialog
from screens.shell.workbench_screen import WorkbenchScreen


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of conversations.

    Attributes:
        wanted: Selects them.
        count: How many they are; None if it is not known.
    """

    label: str
    wanted: Filter
    count: int | None = None


def choose_figure(screen: WorkbenchScreen[Any], title: str, figures: Sequence[Figure]) -> None:
    """Lists figures; enter on one opens the conversations behind it. Those of no conversation are left out."""
    shown = [figure for figure in figures if figure.count != 0]
    if not shown:
        screen.notify("There are no conversations behind it.", markup=False)
        return
    choices = [(at, _content(figure)) for at, figure in enumerate(shown)]

    def chosen(at: int | None) -> None:
        if at is not None:
            screen.open_conversations(shown[at].wanted)

    screen.app.push_screen(ChoiceDialog(title, choices), chosen)


def _content(figure: Figure) -> Content:
    number = "" if figure.count is None else f"{figure.count:,}"
    return Content.assemble((f"{number:>9}  ", "bold"), one_line(figure.label, 60))
