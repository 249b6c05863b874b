"""The conversations behind a figure, over the screen that shows the figure."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from engine.conversations.filters import Filter, ListQuery
from engine.opener.open_project import OpenProject
from screens.conversations.screen import ConversationsScreen
from screens.widgets.filter_line import FilterLine
from screens.widgets.jobs import EngineFeed


class ConversationsBehindScreen(ConversationsScreen):
    """The list of conversations with the filter of a figure. Nothing of it is remembered; escape goes back."""

    PLACE = "behind"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, wanted: Filter, mode: str) -> None:
        super().__init__(services, feed)
        self.MODE = mode  # type: ignore[misc]
        self._wanted = wanted

    def _restore(self) -> None:
        self._restored = True
        self.query_shown = ListQuery(self._wanted)
        self.query_one(FilterLine).put(self._wanted)
        self._look_for()
        self._read()

    def _remember(self) -> None:
        """Keeps the view of the list as it was."""
