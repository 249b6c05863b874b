"""Starts the app with what its user prefers: theme, keys, name and recent projects.

Preferences hold for all projects and lie in one small JSON file. A file that cannot be read does not keep the program
from starting: the problem is shown, defaults are used, and the first change moves the old file aside instead of
overwriting it. Two programs that write at the same time lose at most one entry, never the file.
"""

from __future__ import annotations

import gc
import json
import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from engine.base import folders
from engine.base.errors import Cancelled, ProgramFault
from engine.base.files import create_private_folder, write_atomically
from engine.opener.open_project import OpenProject
from screens.shell.app_interface import RecentProject, Shell
from screens.shell.keymap import Place, key_table, markdown, read_keymap
from screens.shell.picker import Beginning, PickerApp
from screens.shell.themes import THEMES
from screens.widgets.keyed import shown_key
from workbench.app import WorkbenchApp
from workbench.surroundings import require_terminal

KEYS_WIDTH = 20
"""Characters for the keys of a line of `workbench keys`."""

MEANING_WIDTH = 48
"""Characters for what the keys do."""

MAX_RECENT_PROJECTS = 20


def choose_beginning(theme: str | None = None) -> Beginning | None:
    """Asks what to begin with: the demo, logs or a project; None when nothing was chosen.

    Raises:
        UsageError: There is no terminal.
        Cancelled: A signal ended the screen.
    """
    require_terminal()
    folders.log_to_file()
    app = PickerApp(load_shell(theme))
    beginning = app.run()
    _raise_if_cancelled(app)
    return beginning


def show_project(
    path: Path,
    *,
    read_only: bool = False,
    theme: str | None = None,
    start: Callable[[OpenProject], None] | None = None,
) -> None:
    """Runs the screens on a project, and then on each project that the person opens from there.

    Args:
        start: Called with the first project before its screens are drawn, to start jobs in the background.

    Raises:
        WorkbenchError: The project cannot be opened, there is no terminal, or an error ended the screens.
        Cancelled: A signal ended the screens; jobs stopped and can be resumed.
    """
    log = folders.log_to_file()
    preferences = Preferences(folders.preferences_file())
    next_path: Path | None = path
    while next_path is not None:
        with OpenProject(
            next_path, create=not read_only, read_only=read_only, upgrade=not read_only
        ) as workspace:
            require_terminal()  # after opening, since what is wrong with the project says more
            preferences.opened(next_path)
            if start is not None:
                start(workspace)
                start = None
            app = WorkbenchApp(
                workspace,
                workspace.subscribe,
                shell=load_shell(theme, log),
            )
            workspace.file.start()
            # A full collection walks every object of all modules: .15 s, once in about every screen that is opened.
            gc.freeze()
            app.run()
        _raise_if_cancelled(app)
        next_path = Path(app.next_project) if app.next_project is not None else None
        theme = None  # the theme may have been changed in the session
        if app.return_code:
            raise ProgramFault(
                "The screens stopped because of a fault in the program; what was saved is in the project.",
                f"The log has the details: {log}",
            )


def _raise_if_cancelled(app: PickerApp | WorkbenchApp) -> None:
    """Raises Cancelled where a signal ended the app."""
    if app.interrupted:
        raise Cancelled("The screens were ended by a signal, or their terminal is gone.")


def load_shell(theme: str | None = None, log: Path | None = None) -> Shell:
    """Returns the settings that the app starts with; `theme` takes precedence over the remembered one."""
    preferences = Preferences(folders.preferences_file())
    values, problem = preferences.read()
    problems = [problem] if problem is not None else []
    keymap, keymap_problems = load_keymap()
    theme_name = theme or values.theme
    return Shell(
        theme=theme_name if theme_name in THEMES else next(iter(THEMES)),
        annotator=values.annotator,
        keymap=keymap,
        problems=[*problems, *keymap_problems],
        log=str(log or ""),
        recent=lambda: recent_projects(preferences),
        remember_theme=preferences.choose_theme,
        remember_annotator=preferences.choose_annotator,
        forget_project=preferences.forget,
    )


def load_keymap() -> tuple[dict[str, str], list[str]]:
    """Returns the keys of `keymap.toml` by the ids of bindings, and what is wrong with the file; both empty without a
    file."""
    path = folders.keymap_file()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError) as error:
        return {}, [f"{path} cannot be read ({error}); the default keys are in force."]
    keymap = read_keymap(text, path.name, key_table(WorkbenchApp))
    return dict(keymap.keys), list(keymap.problems)


def recent_projects(preferences: Preferences) -> list[RecentProject]:
    """Returns the projects that were open, the newest first, with the size their files have now."""
    projects = []
    values, _ = preferences.read()
    for entry in values.recent:
        try:
            size = Path(entry.path).stat().st_size
        except OSError:
            size = None
        projects.append(RecentProject(entry.path, entry.at, size))
    return projects


def keys_in_force() -> tuple[list[Place], dict[str, str], list[str]]:
    """Returns all places with their keys, the keys that `keymap.toml` changes by the ids of their bindings, and what is
    wrong with that file."""
    keymap, problems = load_keymap()
    return key_table(WorkbenchApp, keymap), keymap, problems


def default_keys_page() -> str:
    """Returns the default keys as a page of the documentation, in Markdown."""
    return markdown(key_table(WorkbenchApp))


def key_lines(place: Place, changed: dict[str, str]) -> list[str]:
    """Returns a place and its keys as lines of text; a star marks those that `keymap.toml` changes."""
    lines = [f"{place.title}: {place.description}"]
    for action in place.actions:
        keys = " ".join(shown_key(key) for key in action.keys)
        mark = "*" if action.id in changed else " "
        lines.append(f" {mark}{keys:<{KEYS_WIDTH}} {action.meaning:<{MEANING_WIDTH}} {action.id}")
    return [*lines, ""]


# Preferences


@dataclass(frozen=True, slots=True)
class OpenedProject:
    """A project, and when it was opened last, as ISO 8601 in UTC."""

    path: str
    at: str


@dataclass(frozen=True, slots=True)
class PreferenceValues:
    """The content of the file of preferences.

    Attributes:
        theme: The colors of the screens (`T`); None until one was chosen.
        annotator: Name of the person, stored with their verdicts (`@`); empty without one.
        recent: Projects that were opened, the last one first, at most 20; each has `path` and `at`.
    """

    theme: str | None = None
    annotator: str = ""
    recent: tuple[OpenedProject, ...] = field(default=())


class Preferences:
    """The file of preferences; every change is written at once."""

    def __init__(self, path: Path) -> None:
        """Reads nothing yet; the file at `path` need not exist."""
        self.path = path

    def read(self) -> tuple[PreferenceValues, str | None]:
        """Returns the content of the file, and a message when it cannot be read, else None."""
        try:
            values = json.loads(self.path.read_text("utf-8"))
            return msgspec.convert(values, PreferenceValues), None
        except FileNotFoundError:
            return PreferenceValues(), None
        except (OSError, ValueError) as error:
            return PreferenceValues(), (
                f"The preferences in {self.path} cannot be read ({error}); defaults are used."
                " Correct the file or delete it."
            )

    def choose_theme(self, name: str) -> None:
        """Remembers a theme."""
        self._change(lambda values: replace(values, theme=name))

    def choose_annotator(self, name: str) -> None:
        """Remembers the name of the person who judges."""
        self._change(lambda values: replace(values, annotator=name))

    def opened(self, path: Path, now: datetime | None = None) -> None:
        """Remembers that a project was opened; it becomes the first of the recent ones."""
        full_path = os.path.abspath(os.path.expanduser(path))
        opened_at = (now or datetime.now(UTC)).isoformat(timespec="seconds")

        def with_project_first(values: PreferenceValues) -> PreferenceValues:
            """Returns the preferences with this project before the others."""
            others = tuple(entry for entry in values.recent if entry.path != full_path)
            return replace(
                values, recent=(OpenedProject(full_path, opened_at), *others)[:MAX_RECENT_PROJECTS]
            )

        self._change(with_project_first)

    def forget(self, path: str) -> None:
        """Takes a project off the recent ones."""
        self._change(
            lambda values: replace(
                values, recent=tuple(entry for entry in values.recent if entry.path != path)
            )
        )

    def _change(self, change: Callable[[PreferenceValues], PreferenceValues]) -> None:
        """Writes a change; a folder that cannot be written is logged, and the session goes on."""
        values, problem = self.read()
        try:
            create_private_folder(self.path.parent)
            if problem is not None:
                os.replace(self.path, self.path.with_suffix(".broken"))
            write_atomically(self.path, json.dumps(asdict(change(values)), indent=2) + "\n")
        except OSError as error:
            logging.getLogger(__name__).warning("preferences were not written: %s", error)
