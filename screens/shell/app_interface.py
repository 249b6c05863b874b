"""What screens know of the app: the settings it remembers, and the functions that open the screens of other folders."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from textual.screen import Screen

from engine.base.errors import ProjectMoved
from engine.conversations.filters import Filter
from engine.results.associations.records import Split


@dataclass(frozen=True, slots=True)
class RecentProject:
    """A project that was open before.

    Attributes:
        path: Path of the project file.
        opened_at: When it was opened last, as ISO 8601 in UTC.
        size: Bytes of the file; None when it no longer exists.
    """

    path: str
    opened_at: str
    size: int | None


def _store_nothing(value: str) -> None:
    """Does nothing, in place of a function that stores a value."""


@dataclass(frozen=True, slots=True)
class Shell:
    """The settings that the app starts with, and the functions that store changes; the defaults store nothing.

    Attributes:
        theme: A name of `screens.shell.themes.THEMES`.
        annotator: Name of the person who judges; empty without one.
        keymap: Keys by the ids of bindings, as `App.set_keymap` takes them.
        problems: What was wrong with the files that these settings came from; shown once.
        log: Path of the log file; empty where there is none.
        recent: Returns the recent projects, the most recently opened first; it reads files, so it is not quick.
        remember_theme: Stores the name of a theme.
        remember_annotator: Stores the name of the person who judges.
        forget_project: Removes a project from the recent ones, by its path.
    """

    theme: str = "dark"
    annotator: str = ""
    keymap: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[str] = ()
    log: str = ""
    recent: Callable[[], list[RecentProject]] = list
    remember_theme: Callable[[str], None] = _store_nothing
    remember_annotator: Callable[[str], None] = _store_nothing
    forget_project: Callable[[str], None] = _store_nothing


class NamedConversations(NamedTuple):
    """Conversations that a person chose to judge.

    Attributes:
        name: What they have in common in words, such as the label of their goal.
        ids: Their ids.
        back: The mode to go back to from triage; empty to stay there.
    """

    name: str
    ids: tuple[int, ...]
    back: str = ""


@dataclass(frozen=True, slots=True)
class Routes:
    """Makes the screens that several folders open. `mode` is the mode of the screen that opens one.

    Attributes:
        reader: `(order, index, mode, words)`: reads through conversations by id from an index of `order` on, with words
            highlighted; answers with the id of the conversation that was read last.
        tree: `(conversation_id, step, mode)`: the response tree at one step of a conversation.
        calibration: `(mode)`: what the verdicts say about the scores.
        conversations: `(filter, mode)`: lists the conversations behind a figure.
        why: `(split, mode)`: what goes with one of two sides; None takes the sides of the outcome that is known best.
        members: `(group_id, mode)`: the conversations of a goal group, or with None the outliers.
        egress: `(address, allow)`: a dialog with what would be sent to an address on another machine; calls `allow`
            when a person allows it.
    """

    reader: Callable[[array[int], int, str, Sequence[str]], Screen[int]]
    tree: Callable[[int, int, str], Screen[Any]]
    calibration: Callable[[str], Screen[Any]]
    conversations: Callable[[Filter, str], Screen[Any]]
    why: Callable[[Split | None, str], Screen[Any]]
    members: Callable[[str | None, str], Screen[Any]]
    egress: Callable[[str, Callable[[], None]], Screen[None]]


class RoutedApp(Protocol):
    """What screens know of the app.

    Attributes:
        routes: Makes the screens of other folders.
        shell: The settings that the app started with; its `keymap` has the keys that a person chose.
    """

    routes: Routes
    shell: Shell

    def tell_moved(self, moved: ProjectMoved) -> None:
        """Shows that the project file was moved, so that nothing is written to it, and offers what can be done."""


class PaletteApp(Protocol):
    """What the palette knows of the app: the settings that it started with, and the methods that it calls."""

    shell: Shell

    def open_project(self, path: str) -> None:
        """Leaves this project and opens another."""

    def use_theme(self, name: str) -> None:
        """Changes the theme, by the name a person uses."""
