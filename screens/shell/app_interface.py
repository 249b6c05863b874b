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
        path: Of the project file.
        opened_at: When it was opened last, as ISO 8601 in UTC.
        size: Bytes of the file; None when it is no longer there.
    """

    path: str
    opened_at: str
    size: int | None


def _no_projects() -> list[RecentProject]:
    """Returns no projects."""
    return []


def _nothing(word: str) -> None:
    """Remembers nothing."""


@dataclass(frozen=True, slots=True)
class Shell:
    """The settings that the app starts with, and the functions that store changes; the defaults store nothing.

    Attributes:
        theme: A name of `screens.shell.themes.THEMES`.
        annotator: Name of the person who judges; empty without one.
        keymap: Keys by the ids of bindings, as `App.set_keymap` takes them.
        problems: What was wrong with the files these came from; shown once.
        log: Path of the log file, empty where there is none.
        recent: Projects, the most recently opened first; reads files, so not quick.
        remember_theme: Keeps the name of a theme.
        remember_annotator: Keeps the name of the person who judges.
        forget_project: Takes a path off the recent projects.
    """

    theme: str = "dark"
    annotator: str = ""
    keymap: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[str] = ()
    log: str = ""
    recent: Callable[[], list[RecentProject]] = _no_projects
    remember_theme: Callable[[str], None] = _nothing
    remember_annotator: Callable[[str], None] = _nothing
    forget_project: Callable[[str], None] = _nothing


class NamedConversations(NamedTuple):
    """Ids of conversations, and what they have in common in words, such as the label of their goal.

    Attributes:
        back: The mode to go back to from triage; empty to stay there.
    """

    name: str
    ids: tuple[int, ...]
    back: str = ""


@dataclass(frozen=True, slots=True)
class Routes:
    """Makes the screens that several folders open. `mode` is that of the screen they are opened from.

    Attributes:
        reader: `(order, at, mode, words)`: reads through conversations by id from index `at`, with words
            highlighted; answers with the id of the conversation that was read last.
        tree: `(conversation_id, step, mode)`: the response tree at one step of a conversation.
        calibration: `(mode)`: what the verdicts say about the scores.
        conversations: `(filter, mode)`: lists the conversations behind a figure.
        why: `(split, mode)`: what goes with one of two sides; with None, of the outcome that is known best.
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
        shell: Its `keymap` has the keys that a person chose.
    """

    routes: Routes
    shell: Shell

    def tell_moved(self, moved: ProjectMoved) -> None:
        """Says that the project is no longer written, and offers what can be done."""


class PaletteApp(Protocol):
    """The methods of the app that the palette calls."""

    shell: Shell

    def open_project(self, path: str) -> None:
        """Leaves this project and opens another."""

    def use_theme(self, name: str) -> None:
        """Changes the theme, by the name a person uses."""
