"""The first line of every screen: the modes, a text of the screen, offline or read-only, the name of the project."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from engine.base.text import one_line
from engine.opener.open_project import OpenProject

MAX_NAME_WIDTH = 40
"""Most cells of the project's name."""

MIN_NAME_WIDTH = 6
"""Fewest cells of the project's name that are worth showing."""

WIDTH_WITH_REASON = 120
"""Cells of the line from which on it tells why the project is read-only."""

MAX_REASON_WIDTH = 48
"""Most cells of that reason."""


class Tab(NamedTuple):
    """One tab of the title line.

    Attributes:
        name: The name of its mode.
        key: The key that goes to the mode.
        title: The whole title.
        short: The title where the whole ones do not fit.
    """

    name: str
    key: str
    title: str
    short: str


MODES = (
    Tab("overview", "1", "Overview", "Home"),
    Tab("conversations", "2", "Conversations", "List"),
    Tab("triage", "3", "Triage", "Triage"),
    Tab("trees", "4", "Trees", "Tree"),
    Tab("goals", "5", "Goals", "Goal"),
    Tab("desk", "6", "Desk", "Desk"),
    Tab("training", "7", "Training", "Train"),
    Tab("models", "8", "Models", "Model"),
)
"""The modes of the app."""

LENGTHS = ("whole", "short", "key")
"""The lengths of the titles, see `titles_of`; the first one that fits is drawn."""


class TitleLine(Widget):
    """The modes, a text of the screen, whether the program is offline or the project read-only, and its name.

    Where they do not fit, the titles of the modes become short, then those of other modes shrink to their keys.
    """

    DEFAULT_CSS = "TitleLine { height: 1; }"

    def __init__(self, project: OpenProject, mode: str) -> None:
        super().__init__()
        self._project = project
        self._mode = mode
        self._middle = Content("")
        self._titles = titles_of(mode, "whole")

        self.show_state()

    def show_state(self) -> None:
        """Shows whether the project is read-only now."""
        why = self._project.read_only
        self.tooltip = None if why is None else Content(one_line(why))
        self.refresh()

    def say(self, middle: Content) -> None:
        """Shows a text between the modes and the project's name."""
        self._middle = middle
        self.refresh()

    def render(self) -> RenderResult:
        """Draws the line; the text in the middle is cut first."""
        width = self.size.width
        needed_by_middle = self._middle.cell_length + 2 if self._middle.cell_length else 0
        name, badges = one_line(self._project.name, MAX_NAME_WIDTH), self._badges(width)
        right = Content.assemble(badges, (f" {name} ", "$tone-muted"))
        # The badges and the name are always shown, but for the end of a long name.
        min_right = right.cell_length - max(0, cell_len(name) - MIN_NAME_WIDTH)
        for length in LENGTHS:
            self._titles = titles_of(self._mode, length)
            if sum(len(title) for title in self._titles) <= width - needed_by_middle - min_right:
                break
        tabs = Content("").join(
            Content.styled(title, "bold $tone-tab on $tone-tab-back")
            if tab.name == self._mode
            else Content.styled(title, "$tone-muted")
            for title, tab in zip(self._titles, MODES, strict=True)
        )
        room = width - tabs.cell_length
        # Without room for the middle, the name goes before it is cut further; a short one is not cut.
        if room - needed_by_middle < min(right.cell_length, min_right + MIN_NAME_WIDTH):
            right = badges
        right = right.truncate(max(0, room - needed_by_middle), ellipsis=True)
        room -= right.cell_length
        middle = Content.assemble("  ", self._middle).truncate(max(0, room), ellipsis=True)
        return Content.assemble(tabs, middle, " " * (room - middle.cell_length), right)

    def _badges(self, width: int) -> Content:
        """Returns the badges: offline, and read-only with the reason."""
        offline = Content("")
        if self._project.offline_by is not None:
            offline = Content.styled(" offline ", "bold $tone-accent")
        why = self._project.read_only
        if why is None:
            warning = Content("")
        elif width >= WIDTH_WITH_REASON:
            warning = Content.styled(
                f" read-only: {one_line(why, MAX_REASON_WIDTH)} ", "bold $tone-incomplete"
            )
        else:
            warning = Content.styled(" read-only ", "bold $tone-incomplete")
        return Content.assemble(offline, warning)

    def on_click(self, event: events.Click) -> None:
        """Goes to the mode that is clicked; a click elsewhere tells why the project is read-only or offline."""
        end = 0
        for title, tab in zip(self._titles, MODES, strict=True):
            end += len(title)
            if event.x < end:
                # Not awaited here: the action may remove this screen, which waits until this handler has ended.
                self.app.call_later(self.app.run_action, f"switch_mode('{tab.name}')")
                return
        why = self._project.read_only
        if why is not None:
            self.notify(one_line(why), title="Read-only", severity="warning", markup=False)
        switch = self._project.offline_by
        if switch is not None:
            self.notify(f"No network is used, by {switch}.", title="Offline", markup=False)


def titles_of(mode: str, length: str) -> list[str]:
    """Returns the titles of the tabs in a length of `LENGTHS`; `key` shows only the keys of all modes but `mode`."""
    titles = []
    for tab in MODES:
        if length == "whole" or (length == "key" and tab.name == mode):
            titles.append(f" {tab.key} {tab.title} ")
        elif length == "key":
            titles.append(f" {tab.key} ")
        else:
            titles.append(f"{tab.key} {tab.short} ")
    return titles
