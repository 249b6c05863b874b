"""What the app remembers across projects: theme, keys, recent projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RecentProject:
    """A project that was open before; `size` in bytes is None when its file is no longer there."""

    path: str
    opened_at: str
    size: int | None


def _no_projects() -> list[RecentProject]:
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
