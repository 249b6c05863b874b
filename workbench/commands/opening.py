"""`workbench open`, which may be left out before a project: the terminal screens."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.errors import UsageError
from workbench.exits import DONE

THEMES = ("dark", "light", "high-contrast", "ansi")
"""The themes of `screens.shell.themes`, repeated here so that a wrong name is refused without importing the screens."""


def open_project_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `open_project`."""
    parser.add_argument("project", nargs="?", help="project file (default: asks which)")
    parser.add_argument("--read-only", action="store_true", help="look without changing anything")
    parser.add_argument("--theme", choices=THEMES, help="colours (default: the last ones used)")


def open_project(arguments: argparse.Namespace) -> int:
    """Opens a project, which is created if it is not there, and shows it until the person quits.

    Raises:
        UsageError: The argument is neither a project file nor a command.
        WorkbenchError: The project cannot be opened, or an error ended the screens.
    """
    if arguments.project is not None:
        path = Path(arguments.project)
        if not path.suffix and not path.exists():
            raise UsageError(
                f"There is no project {path}, and no such command.",
                f"`workbench {path}.wb` makes a new project, `workbench --help` shows the commands.",
            )
    # imported here so that a mistyped command is refused at once
    from workbench import launcher

    if arguments.project is None:
        chosen = launcher.pick_project(arguments.theme)
        if chosen is None:
            return DONE
        path = chosen
    launcher.show_project(path, read_only=arguments.read_only, theme=arguments.theme)
    return DONE
