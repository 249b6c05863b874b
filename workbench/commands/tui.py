"""`workbench PROJECT` and `workbench`: the terminal screens, and the choice of a project where none is named."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine import folders
from engine.errors import UsageError, WorkbenchError
from engine.services.workspace import Workspace
from screens.shell.recent_projects import RecentProject, Shell
from workbench.preferences import Preferences


def open_project(arguments: argparse.Namespace) -> int:
    """Opens a project, which is created if it is not there, and shows it until the person quits."""
    theme: str | None = arguments.theme
    path: Path | None
    if arguments.project is None:
        path = pick_project(theme)
        if path is None:
            return 0
    else:
        path = Path(arguments.project)
        if not path.suffix and not path.exists():
            raise UsageError(
                f"There is no project {path}, and no such command.",
                f"`workbench {path}.wb` makes a new project, `workbench --help` shows the commands.",
            )
    show_project(path, read_only=arguments.read_only, theme=theme)
    return 0


def pick_project(theme: str | None = None) -> Path | None:
    """Asks which project to open; None when the person left."""
    folders.log_to_file()
    from screens.shell.picker import PickerApp

    chosen = PickerApp(load_shell(theme)).run()
    return None if chosen is None else Path(chosen)


def show_project(path: Path, *, read_only: bool = False, theme: str | None = None) -> None:
    """Runs the screens over a project, and over whichever is chosen next in them.

    Raises:
        WorkbenchError: The project cannot be opened, or the screens ended by a fault.
    """
    log = folders.log_to_file()
    from workbench.app import WorkbenchApp

    preferences = Preferences(folders.preferences_file())
    following: Path | None = path
    while following is not None:
        with Workspace(
            following, create=not read_only, read_only=read_only, upgrade=not read_only
        ) as workspace:
            preferences.opened(following)
            app = WorkbenchApp(
                workspace.services(), workspace.subscribe, shell=load_shell(theme, log)
            )
            app.run()
        following = Path(app.next_project) if app.next_project is not None else None
        theme = None  # what was chosen since is remembered
        if app.return_code:
            raise WorkbenchError(
                "The screens ended by a fault of the program; everything committed is in the project.",
                f"The log has the details: {log}",
            )


def load_shell(theme: str | None = None, log: Path | None = None) -> Shell:
    """What the app begins with; `theme` takes precedence over the one that is remembered."""
    from screens.shell.themes import THEMES

    preferences = Preferences(folders.preferences_file())
    chosen, problem = preferences.read()
    problems = [problem] if problem is not None else []
    keymap, wrong = load_keymap()
    named = theme or chosen.theme
    return Shell(
        theme=named if named in THEMES else next(iter(THEMES)),
        keymap=keymap,
        problems=[*problems, *wrong],
        log=str(log or ""),
        recent=lambda: recent_projects(preferences),
        remember_theme=preferences.choose_theme,
        forget_project=preferences.forget,
    )


def load_keymap() -> tuple[dict[str, str], list[str]]:
    """Keys by the ids of bindings out of `keymap.toml`, and what is wrong with it; nothing where there is none."""
    path = folders.keymap_file()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError) as error:
        return {}, [f"{path} cannot be read ({error}); the default keys are in force."]
    from screens.shell.key_table import key_table
    from screens.shell.keymap_file import read_keymap
    from workbench.app import WorkbenchApp

    found = read_keymap(text, path.name, key_table(WorkbenchApp))
    return dict(found.keys), list(found.problems)


def recent_projects(preferences: Preferences) -> list[RecentProject]:
    """The projects that were open, the newest first, with the size their files have now."""
    found = []
    for entry in preferences.read()[0].recent:
        try:
            size = Path(entry.path).stat().st_size
        except OSError:
            size = None
        found.append(RecentProject(entry.path, entry.at, size))
    return found


def can_show() -> bool:
    """Whether there is a terminal to show screens on."""
    return sys.stdin.isatty() and sys.stdout.isatty()
