"""`workbench open`, which may be left out before a project, shows a project or log files on the terminal screens;
`workbench demo` makes a project of samples and shows it."""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Sequence
from pathlib import Path

from engine.base.errors import FormatError, ProjectError, UsageError
from engine.base.files import is_database
from engine.base.number_format import duration
from engine.base.text import message_safe
from engine.completeness.scoring_request import ScoringRequest
from engine.conversations.records import ImportRequest
from engine.jobs.contract import Stage
from engine.opener.demo_check import check_demo
from engine.opener.jobs import import_stages
from engine.opener.open_project import OpenProject
from engine.simulate.demo import sample_conversations, write_jsonl
from engine.trees.records import TreeOptions, TreeRequest
from workbench.arguments import (
    argument,
    number,
    only_with,
    read_request,
    request_arguments,
    switch,
    takes,
    whole_from_zero,
)
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.commands.first_look import FirstResult, first_look, show_rest
from workbench.narration import print_result, run_stages
from workbench.surroundings import on_terminal
from workbench.text_tables import counts_json, headline

DEMO_FOLDER = "workbench-demo"
"""Folder of the project where none is named."""

DEMO_CONVERSATIONS = 300
"""Default number of samples, two months of a support desk: enough for goals, changes, and what goes with failure."""

MIN_CHECKED = 100
"""Fewest conversations for which the demo says how right it is."""

DEMO_SEED = 4
DEMO_PROJECT = "demo.wb"
"""Name of the project in the folder."""

DEMO_TREE = TreeRequest(TreeOptions(alpha=0.02, max_tokens=48, temperature=0.5), limit=1)
"""One tree of the last answer, in a few seconds. With half the temperature only likely answers remain, so that the tree
shows between which of them the model wavers."""

PROJECT_ENDINGS = ("", ".wb", ".db", ".sqlite", ".sqlite3")
"""Endings of a missing file that may be meant as a new project; other endings are those of logs."""

THEMES = ("dark", "light", "high-contrast", "ansi")
"""The themes of `screens.shell.themes`, repeated here so that a wrong name is refused without importing the screens."""


@takes(
    argument("dir", nargs="?", default=DEMO_FOLDER, help="folder for the project"),
    switch("--headless", "do not open the terminal screens"),
    number("--count", "conversations", DEMO_CONVERSATIONS),
    argument("--seed", type=whole_from_zero, default=DEMO_SEED, help="seed of the samples"),
    switch("--samples-only", "import the samples and run nothing"),
)
def demo(arguments: argparse.Namespace) -> CommandResult | int:
    """Writes sample conversations, takes a first look at them and says how right it is; opens the screens.

    Raises:
        WorkbenchError: A stage failed; what was done is kept.
        Cancelled: It was cancelled from the keyboard; what was done is kept.
    """
    folder = Path(arguments.dir)
    if not (arguments.headless or arguments.json or arguments.samples_only) and on_terminal():
        return show_demo(folder, arguments.count, arguments.seed)
    samples, path = _write_samples(folder, arguments.count, arguments.seed)
    if arguments.samples_only:
        result = _import_only(samples, path)
        if not (arguments.headless or arguments.json) and on_terminal():
            print_result(result, json=False)
            show_rest(path, FirstResult(result.code))
            return result.code
        return result
    check = check_demo if arguments.count >= MIN_CHECKED else None
    return first_look(
        [samples], path, as_json=arguments.json, minutes=0, check=check, further=_tree_stages
    ).code


def show_demo(
    folder: Path,
    count: int = DEMO_CONVERSATIONS,
    seed: int = DEMO_SEED,
    *,
    theme: str | None = None,
) -> int:
    """Takes the first look at the samples and opens the screens on them; see `demo`."""
    samples, path = _write_samples(folder, count, seed)
    result = first_look(
        [samples],
        path,
        as_json=False,
        screens=True,
        further=_further_stages,
        check=check_demo if count >= MIN_CHECKED else None,
    )
    show_rest(path, result, theme)
    return result.code


def _write_samples(folder: Path, count: int, seed: int) -> tuple[Path, Path]:
    """Writes the samples into a folder; returns their file, and the project file beside it.

    Raises:
        UsageError: There can be no such folder.
        ProjectError: The samples cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be a folder: {error.strerror}.", "Choose another place."
        ) from None
    samples = folder / "samples.jsonl"
    write_jsonl(sample_conversations(count, seed), samples)
    return samples, folder / DEMO_PROJECT


def _tree_stages(workspace: OpenProject) -> Sequence[Stage]:
    """Returns the stage that grows a response tree, without the one that tunes the model, which takes longer."""
    return workspace.trees.stages(DEMO_TREE)[-1:]


def _further_stages(workspace: OpenProject) -> Sequence[Stage]:
    """Returns the stages that only the demo has: those of the tree and of remaining tasks."""
    remaining = workspace.scoring_runs.make_run(ScoringRequest()).stages[-1]
    return [*_tree_stages(workspace), remaining]


def _import_only(samples: Path, path: Path) -> CommandResult:
    """Makes the project of the samples and runs nothing on it."""
    start = time.monotonic()
    with OpenProject(path, create=True) as workspace:
        run_stages(workspace, import_stages(workspace.project, [str(samples)]))
        rows = workspace.conversations
        counts, rule = rows.counts(), rows.rule()
    seconds = time.monotonic() - start
    document = {"project": str(path), "seconds": round(seconds, 1), **counts_json(counts, rule)}
    return CommandResult(
        [headline(counts, rule)],
        document,
        EXIT_INCOMPLETE if counts.quarantined else EXIT_DONE,
        notes=[f"Built {path} in {duration(seconds)}. `workbench {path}` opens it."],
    )


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
        UsageError: An option does not fit the paths.
        WorkbenchError: There is no such project, and none is to be made; it cannot be opened, a file cannot be read, or
            an error ended the screens.
        Cancelled: Reading log files was cancelled from the keyboard; what was done is kept.
    """
    paths = [Path(path) for path in arguments.paths]
    missing = next((path for path in paths if not path.exists()), None)
    if missing is not None and (len(paths) > 1 or arguments.output or arguments.headless):
        raise FormatError(
            f"There is no file or folder {missing}.",
            "For example: `workbench open logs.jsonl -o mine.wb`",
        )
    if paths and are_logs(paths):
        if arguments.read_only:
            raise _read_only_refusal()
        return _open_logs(paths, arguments, read_request(ImportRequest, arguments))
    only_with(arguments, "log files", False, "output", "headless")
    if not paths:
        return _ask_and_begin(arguments)
    (path,) = paths  # several would be logs
    if not path.exists() and not (arguments.create or arguments.read_only):
        _confirm_new(path)
    # imported here, so that a mistyped project is refused at once
    from workbench import launcher

    launcher.show_project(path, read_only=arguments.read_only, theme=arguments.theme)
    return EXIT_DONE


def _open_logs(
    paths: Sequence[Path], arguments: argparse.Namespace, importing: ImportRequest
) -> int:
    """Imports log files into a project, prints the first results, and opens the screens if there is a terminal."""
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
    """Asks the person what to begin with, and begins with it.

    Raises:
        UsageError: Logs or the demo are chosen with --read-only.
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
    return show_demo(Path(DEMO_FOLDER), theme=arguments.theme)


def _read_only_refusal() -> UsageError:
    """Returns the error for --read-only with a choice that writes."""
    return UsageError(
        "--read-only is for a project; logs and the demo are written into one.", "Leave it out."
    )


def are_logs(paths: Sequence[Path]) -> bool:
    """Returns whether paths are files or folders of conversations, not one project."""
    first = paths[0]
    # an empty file is a project that was just made
    is_log = first.is_file() and first.stat().st_size > 0 and not is_database(str(first))
    return len(paths) > 1 or first.is_dir() or is_log


def project_for(paths: Sequence[Path]) -> Path:
    """Returns the default project of log files: named after the first of them, in the current folder."""
    first = paths[0].resolve()
    name = first.name.split(".")[0] or first.name
    return Path(f"{name}.wb")


def _confirm_new(path: Path) -> None:
    """Asks on the terminal whether to make a project.

    Raises:
        FormatError: Its ending is not that of a project.
        ProjectError: The answer is not yes, or there is no terminal to ask on.
    """
    if path.suffix.lower() not in PROJECT_ENDINGS:
        raise FormatError(
            f"There is no file {path}.",
            "Check the path. `workbench FILE...` reads logs; a project ends in .wb.",
        )
    projects = [file.name for file in path.parent.glob("*.wb")]
    similar_names = difflib.get_close_matches(path.name, projects, n=1)
    similar_name = next(iter(similar_names), None)
    suggestion = "" if similar_name is None else f"Did you mean {path.with_name(similar_name)}? "
    if on_terminal():
        print(message_safe(f"There is no project {path}. {suggestion}".rstrip()))
        try:
            answer = input("Make a new project? [y/N] ")
        except EOFError:
            answer = ""
        if answer.strip().lower() in ("y", "yes"):
            return
    raise ProjectError(
        f"There is no project {path}.", f"{suggestion}`workbench {path} --create` makes a new one."
    )
