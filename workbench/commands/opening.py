"""`workbench open`, which may be left out before a project: the terminal screens."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from engine.errors import UsageError
from engine.text import display_safe
from workbench.exits import DONE

THEMES = ("dark", "light", "high-contrast", "ansi")
"""The themes of `screens.shell.themes`, repeated here so that a wrong name is refused without importing the screens."""


def open_project_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `open_project`."""
    parser.add_argument("project", nargs="?", help="project file (default: asks which)")
    parser.add_argument("--create", action="store_true", help="make the project if it is not there")
    parser.add_argument("--read-only", action="store_true", help="look without changing anything")
    parser.add_argument("--theme", choices=THEMES, help="colours (default: the last ones used)")


def open_project(arguments: argparse.Namespace) -> int:
    """Opens a project and shows it until the person quits.

    A project that is not there is made with `--create`, or after a yes on the terminal.

    Raises:
        UsageError: There is no such project, and none is to be made.
        WorkbenchError: The project cannot be opened, or an error ended the screens.
    """
    path = None if arguments.project is None else Path(arguments.project)
    to_ask = not (arguments.create or arguments.read_only)
    if path is not None and not path.exists() and to_ask:
        _confirm_new(path)
    # imported here so that a mistyped project is refused at once
    from workbench import launcher

    if path is None:
        path = launcher.pick_project(arguments.theme)
        if path is None:
            return DONE
    launcher.show_project(path, read_only=arguments.read_only, theme=arguments.theme)
    return DONE


def _confirm_new(path: Path) -> None:
    """Asks on the terminal whether to make a project.

    Raises:
        UsageError: The answer is not yes, or there is no terminal to ask on.
    """
    near = difflib.get_close_matches(path.name, _projects_beside(path), n=1)
    meant = f"Did you mean {path.with_name(near[0])}? " if near else ""
    if sys.stdin.isatty() and sys.stdout.isatty():
        print(display_safe(f"There is no project {path}. {meant}".rstrip()))
        try:
            answer = input("Make a new project? [y/N] ")
        except EOFError:
            answer = ""
        if answer.strip().lower() in ("y", "yes"):
            return
    raise UsageError(
        f"There is no project {path}.", f"{meant}`workbench {path} --create` makes a new one."
    )


def _projects_beside(path: Path) -> list[str]:
    """The names of the project files in the folder of a path."""
    try:
        return sorted(file.name for file in path.parent.iterdir() if file.suffix == ".wb")
    except OSError:
        return []
