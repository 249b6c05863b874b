"""`workbench open`, which may be left out before a project: the terminal screens, of a project or of log files."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from pathlib import Path

from engine.base.errors import NotFound, UsageError
from engine.base.text import display_safe
from engine.conversations.import_request import ImportRequest
from workbench.arguments import (
    argument,
    read_request,
    request_arguments,
    switch,
    takes,
    whole_from_zero,
)
from workbench.command_result import EXIT_DONE
from workbench.surroundings import on_terminal

SQLITE_HEADER = b"SQLite format 3\x00"
"""The first bytes of every SQLite file, and so of every project."""
PROJECT_ENDINGS = ("", ".wb", ".db", ".sqlite", ".sqlite3")
"""Endings with which a file that is not there may be meant as a new project; others are those of logs."""

THEMES = ("dark", "light", "high-contrast", "ansi")
"""The themes of `screens.shell.themes`, repeated here so that a wrong name is refused without importing the screens."""


@takes(
    argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="a project, or log files and folders, which are imported into one (default: asks what to begin with)",
    ),
    argument(
        "-o",
        "--output",
        metavar="PROJECT",
        help="with log files: the project to make or add to"
        " (default: named after the first file, in the current folder)",
    ),
    switch("--headless", "with log files: print the result, open no screens"),
    argument(
        "--minutes",
        type=whole_from_zero,
        metavar="N",
        help="with log files: for how long the model reads after the scores by words; 0: words only"
        " (default: until all is read)",
    ),
    switch("--create", "make the project if it is not there"),
    switch("--read-only", "look without changing anything"),
    *request_arguments(ImportRequest, ("most_unpacked",)),
    argument("--theme", choices=THEMES, help="colors (default: the last ones used)"),
)
def open_project(arguments: argparse.Namespace) -> int:
    """Opens a project and shows it until the person quits.

    Log files are imported, scored by their words and clustered first; the model reads while the screens are open. A
    project that is not there is made with `--create`, or after a yes on the terminal.

    Raises:
        UsageError: There is no such project, and none is to be made; or an option does not fit the paths.
        WorkbenchError: The project cannot be opened, a file cannot be read, or an error ended the screens.
        Cancelled: Reading log files was cancelled from the keyboard; what was done is kept.
    """
    paths = [Path(path) for path in arguments.paths]
    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None and (len(paths) > 1 or arguments.output or arguments.headless):
        raise NotFound(
            f"There is no file or folder {missing}.",
            "For example: `workbench open logs.jsonl -o mine.wb`",
        )
    if paths and are_logs(paths):
        if arguments.read_only:
            raise _read_only_refusal()
        return _open_logs(paths, arguments, read_request(ImportRequest, arguments))
    if arguments.output or arguments.headless:
        raise UsageError(
            "--output and --headless need log files.",
            "For example: `workbench open logs.jsonl -o mine.wb`",
        )
    if not paths:
        return _ask_and_begin(arguments)
    (path,) = paths  # several would be logs
    if not path.exists() and not (arguments.create or arguments.read_only):
        _confirm_new(path)
    # Imported here so that a mistyped project is refused at once.
    from workbench import launcher

    launcher.show_project(path, read_only=arguments.read_only, theme=arguments.theme)
    return EXIT_DONE


def _open_logs(
    paths: Sequence[Path], arguments: argparse.Namespace, importing: ImportRequest
) -> int:
    """Imports log files into a project, prints the first results, and opens the screens unless it is to run without."""
    from workbench.commands.first_look import (  # it brings what reads and scores
        first_look,
        show_rest,
    )

    project_path = Path(arguments.output or project_for(paths))
    screens = not (arguments.headless or arguments.json) and on_terminal()
    first_result = first_look(
        paths,
        project_path,
        as_json=arguments.json,
        screens=screens,
        importing=importing,
        minutes=arguments.minutes,
    )
    if screens:
        show_rest(project_path, first_result, arguments.theme)
    return first_result.code


def _ask_and_begin(arguments: argparse.Namespace) -> int:
    """Asks what to begin with, and does it.

    Raises:
        UsageError: It is to be read-only, and is no project.
    """
    from workbench import launcher

    beginning = launcher.choose_beginning(arguments.theme)
    if beginning is None:
        return EXIT_DONE
    if beginning.kind == "project":
        path = Path(beginning.path)
        launcher.show_project(path, read_only=arguments.read_only, theme=arguments.theme)
        return EXIT_DONE
    if arguments.read_only:
        raise _read_only_refusal()
    if beginning.kind == "logs":
        return _open_logs([Path(beginning.path)], arguments, ImportRequest(beginning.format))
    from workbench.commands.demo import FOLDER, show_demo

    return show_demo(Path(FOLDER), theme=arguments.theme)


def _read_only_refusal() -> UsageError:
    """Returns the error for what would be written though nothing is to be changed."""
    return UsageError(
        "--read-only is for a project; logs and the demo are written into one.", "Leave it out."
    )


def are_logs(paths: Sequence[Path]) -> bool:
    """Returns whether these are files or folders of conversations, not one project."""
    return len(paths) > 1 or paths[0].is_dir() or (paths[0].is_file() and not _is_project(paths[0]))


def _is_project(path: Path) -> bool:
    """Returns whether a file is a project; an empty one is a project that was just made."""
    with path.open("rb") as file:
        start = file.read(len(SQLITE_HEADER))
    return start == SQLITE_HEADER or not start


def project_for(paths: Sequence[Path]) -> Path:
    """Returns the project that log files are read into: named after the first of them, in the folder that one is in
    now.
    """
    first = paths[0].resolve()
    name = first.name.split(".")[0] or first.name
    return Path(f"{name}.wb")


def _confirm_new(path: Path) -> None:
    """Asks on the terminal whether to make a project.

    Raises:
        NotFound: Its ending is not that of a project, the answer is not yes, or there is no terminal to ask on.
    """
    if path.suffix.lower() not in PROJECT_ENDINGS:
        raise NotFound(
            f"There is no file {path}.",
            "Check the path. `workbench FILE...` reads logs; a project ends in .wb.",
        )
    similar_names = difflib.get_close_matches(path.name, _projects_beside(path), n=1)
    similar_name = next(iter(similar_names), None)
    suggestion = "" if similar_name is None else f"Did you mean {path.with_name(similar_name)}? "
    if on_terminal():
        print(display_safe(f"There is no project {path}. {suggestion}".rstrip()))
        try:
            answer = input("Make a new project? [y/N] ")
        except EOFError:
            answer = ""
        if answer.strip().lower() in ("y", "yes"):
            return
    raise NotFound(
        f"There is no project {path}.", f"{suggestion}`workbench {path} --create` makes a new one."
    )


def _projects_beside(path: Path) -> list[str]:
    """Returns the names of the project files in the folder of a path."""
    try:
        return sorted(file.name for file in path.parent.iterdir() if file.suffix == ".wb")
    except OSError:
        return []
