"""`workbench train`: starts and watches training runs, and lists, stops, uses and deletes them."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from engine.base import folders
from engine.base.errors import Cancelled, ProjectMissing, TrainingFailed, UsageError
from engine.base.number_format import counted, duration
from engine.base.text import one_line
from engine.model.service.run_setup import adapter_in_use
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.training.history import RunHistory
from engine.training.records import TrainingRun, estimate_lines
from engine.training.run_directory import is_running
from engine.training.service import RunDirectories
from engine.training.training_request import OPTIONS, TrainingRequest, read_settings
from workbench.arguments import PROJECT, argument, read_request, request_arguments, switch, takes
from workbench.command_result import EXIT_DONE, CommandResult
from workbench.narration import ask_first, narrate, print_result

POLL_SECONDS = 0.3
"""Seconds between two reads of a watched run."""

PROGRESS_SECONDS = 10.0
"""Seconds between two lines about a watched run."""

MAX_PROBLEM_CHARS = 400
"""Most characters that are printed of a warning, of the problem of a run, and of a hint."""


@takes(
    PROJECT,
    *request_arguments(TrainingRequest, without=("settings",)),
    argument(
        "--set",
        action="append",
        default=[],
        metavar=OPTIONS["settings"].metavar,
        help=OPTIONS["settings"].help,
    ),
    argument("--resume", metavar="RUN", help="resume this run at its last checkpoint"),
    switch("--estimate", "say what it would cost and stop"),
    switch("--force", "start it also where less memory is free than it is estimated to need"),
    switch("--detach", "start it and do not watch it"),
)
def start(arguments: argparse.Namespace) -> CommandResult:
    """Starts a run, or resumes one, and watches it to its end.

    Raises:
        UsageError: The request cannot be met.
        WorkbenchError: The run failed.
        Cancelled: It was stopped.
    """
    folders.log_to_file()
    project_path = Path(arguments.project)
    if arguments.resume:
        runs = _training_runs(project_path)
        fixed = [f"--{name.replace('_', '-')}" for name in OPTIONS if name in arguments]
        if arguments.estimate or fixed:
            raise UsageError(
                "A resumed run goes on with what it started with.",
                f"Leave out {' and '.join([*fixed, *['--estimate'] * arguments.estimate])}.",
            )
        with _counted_interrupts() as interrupts:
            runs.resume(arguments.resume, read_settings(arguments.set))
            narrate(f"{arguments.resume} is resumed.")
            return _watch(runs, arguments.resume, arguments, interrupts)
    with OpenProject(project_path) as workspace:
        training = workspace.training
        settings = read_settings(arguments.set)
        request = read_request(TrainingRequest, arguments, settings=settings)
        plan = training.planner.plan(request, whole=not arguments.estimate)
        if arguments.estimate:
            return CommandResult(estimate_lines(plan.estimate), asdict(plan.estimate))
        narrate(f"{plan.name}:", *estimate_lines(plan.estimate))
        name = training.prepare(plan, force=arguments.force).path.name
        runs = training.directories
    # the project is closed now, so another program can open it while the run is running
    with _counted_interrupts() as interrupts:
        runs.start(runs.history(name).run)
        return _watch(runs, name, arguments, interrupts)


@takes(
    PROJECT,
    argument("run_name", nargs="?", metavar="RUN", help="only this one, with its settings"),
)
def status(arguments: argparse.Namespace) -> CommandResult:
    """Prints the runs of a project, or one of them with its settings."""
    project_path = Path(arguments.project)
    runs = _training_runs(project_path)
    with Project.open(project_path, read_only=True, upgrade=True) as project:
        used = adapter_in_use(project)
    if arguments.run_name:
        detail = runs.history(arguments.run_name).detail(arguments.run_name == used)
        settings = [f"  {setting.name:<14} {one_line(setting.value)}" for setting in detail.config]
        warnings = [f"  ! {one_line(warning, MAX_PROBLEM_CHARS)}" for warning in detail.warnings]
        return CommandResult([*_run_lines(detail.run), *settings, *warnings], asdict(detail))
    rows = [history.row(history.run.path.name == used) for history in runs.histories()]
    lines = [line for row in rows for line in _run_lines(row)]
    return CommandResult(
        lines or ["No training runs yet. `workbench train PROJECT` starts one."],
        {"runs": [asdict(row) for row in rows]},
    )


@takes(PROJECT, argument("run_name", metavar="RUN", help="its name, as `train status` lists it"))
def stop(arguments: argparse.Namespace) -> CommandResult | int:
    """Stops a run and waits for its end; the best checkpoint becomes its adapter.

    Raises:
        UsageError: There is no such run, or it is not running.
    """
    runs = _training_runs(Path(arguments.project))
    history = runs.history(arguments.run_name)
    if not is_running(history.run):
        raise UsageError(f"{arguments.run_name} is not running.")
    runs.trainers.stop(history.run)
    narrate(f"{arguments.run_name} ends after its step and keeps the best checkpoint.")
    for _ in _follow(history):
        pass
    try:
        return _report(history, arguments.json)
    except Cancelled as stopped:
        narrate(str(stopped))
        return EXIT_DONE


@takes(
    PROJECT,
    argument(
        "run_name",
        nargs="?",
        metavar="RUN",
        help="name of the run, as `train status` lists it (default: only print which adapter is in use)",
    ),
    switch("--none", "use no adapter any more"),
)
def use(arguments: argparse.Namespace) -> CommandResult:
    """Makes scoring in the mode `tuned` use the adapter of a run, or prints which it uses.

    Raises:
        UsageError: There is no such run, or it has no adapter.
    """
    name, uses_none = arguments.run_name, arguments.none
    if name and uses_none:
        raise UsageError("A run and --none name different adapters.", "Give one of them.")
    with OpenProject(Path(arguments.project), read_only=not (name or uses_none)) as workspace:
        if name or uses_none:
            workspace.training.use(name)
        used = adapter_in_use(workspace.project)
    line = "No adapter is in use."
    if used is not None:
        line = f"Scoring in the mode tuned uses the adapter {one_line(used)}."
    return CommandResult([line], {"adapter": used})


@takes(
    PROJECT,
    argument("run_name", metavar="RUN", help="name of the run, as `train status` lists it"),
    switch("--yes", "delete without asking"),
)
def delete(arguments: argparse.Namespace) -> CommandResult:
    """Deletes a run with its data, checkpoints and adapter.

    Raises:
        UsageError: There is no such run, it is running, or its adapter is in use.
        Cancelled: The person does not want to.
    """
    name = arguments.run_name
    with OpenProject(Path(arguments.project)) as workspace:
        workspace.training.directories.history(name)
        ask_first(f"delete {name} with its data, checkpoints and adapter", arguments.yes)
        workspace.training.delete(name)
    return CommandResult([f"{one_line(name)} is deleted."], {"deleted": name})


def _training_runs(project: Path) -> RunDirectories:
    """Returns the training runs beside a project; raises ProjectMissing if there is no project."""
    if not project.is_file():
        raise ProjectMissing(
            f"There is no project {project}.", "Make one with `workbench import PROJECT PATH...`."
        )
    return RunDirectories(project)


# Watching a run


def _watch(
    runs: RunDirectories,
    name: str,
    arguments: argparse.Namespace,
    interrupts: Sequence[signal.Signals],
) -> CommandResult:
    """Narrates a run to its end, and returns its result.

    Args:
        interrupts: The signals of ctrl+c since before the run started; the list grows while this function runs.
    """
    history = runs.history(name)
    if arguments.detach:
        return CommandResult(
            [f"{name} is running; `workbench train status` shows its status."],
            {"run": name, "folder": str(history.run.path)},
        )
    handled = 0  # number of interrupts to which the run was told to react
    try:
        for _ in _follow(history):
            if len(interrupts) > handled:
                handled = len(interrupts)
                _react_to_interrupt(runs, history, handled)
    except KeyboardInterrupt:  # not ctrl+c, which is counted: the terminal closed, or the like
        raise Cancelled(
            f"{name} goes on; this command does not show it any more.",
            "`workbench train status` shows its status, `workbench train stop` ends it.",
        ) from None
    return _report(history, arguments.json, killed=handled > 1)


def _react_to_interrupt(runs: RunDirectories, history: RunHistory, number: int) -> None:
    """Stops a run after its step at the first ctrl+c, and kills it at a later one."""
    if number > 1:
        runs.trainers.kill(history.run)
        return
    runs.trainers.stop(history.run)
    narrate("Stopping after this step, keeping the best checkpoint. ctrl+c again kills it.")


def _report(history: RunHistory, as_json: bool, killed: bool = False) -> CommandResult:
    """Returns the result of a run that finished; of one that did not, prints the result and raises the error.

    Raises:
        WorkbenchError: The run failed.
        Cancelled: The run was stopped or killed.
    """
    row = history.row()
    result = CommandResult(_run_lines(row), asdict(row))
    was_killed = killed and row.state == "interrupted"
    if row.state == "stopped" or (as_json and (was_killed or row.problem)):
        print_result(result, as_json)
    if was_killed:
        raise Cancelled(
            f"{row.name} was killed.", f"`--resume {row.name}` continues at its last checkpoint."
        )
    if row.problem:
        raise TrainingFailed(f"{row.name} failed: {row.problem}", row.hint)
    if row.state == "stopped":
        raise Cancelled(
            f"{row.name} was stopped; its adapter is the best so far.",
            f"`--resume {row.name}` continues it.",
        )
    return result


def _follow(history: RunHistory) -> Iterator[None]:
    """Prints the state of a run every `PROGRESS_SECONDS`, and new warnings, to standard error until its process ends.

    Yields between two reads.
    """
    warning_count, next_line_at = len(history.detail().warnings), 0.0
    while True:
        # checked first, so that the last events of a process that ends meanwhile are read
        alive = is_running(history.run)
        detail = history.detail()
        for warning in detail.warnings[warning_count:]:
            narrate(f"  {one_line(warning, MAX_PROBLEM_CHARS)}")
        warning_count = len(detail.warnings)
        if time.monotonic() >= next_line_at:
            narrate(f"  {_headline(detail.run)}")
            next_line_at = time.monotonic() + PROGRESS_SECONDS
        if not alive:
            return
        yield
        time.sleep(POLL_SECONDS)


@contextmanager
def _counted_interrupts() -> Iterator[list[signal.Signals]]:
    """Collects the signals of ctrl+c in the block, instead of raising KeyboardInterrupt; yields the growing list."""
    interrupts: list[signal.Signals] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = signal.signal(signal.SIGINT, lambda _number, _frame: interrupts.append(signal.SIGINT))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


# Text


def _headline(row: TrainingRun) -> str:
    """Returns the state of a run in one line."""
    parts = [f"{row.name:<24} {row.phase or row.state:<11}"]
    if row.step is not None and row.steps:
        parts.append(f"step {row.step}/{row.steps}")
    if row.seconds_left is not None:
        parts.append(f"{duration(row.seconds_left)} left")
    parts.append(f"{row.recipe} on {row.base}, {counted(row.conversations, 'conversation')}")
    if row.auroc is not None:
        parts.append(f"AUROC {row.auroc:.3f} at step {row.best_step}")
    if row.seconds:
        parts.append(duration(row.seconds))
    if row.in_use:
        parts.append("in use")
    return " · ".join(one_line(part) for part in parts)


def _run_lines(row: TrainingRun) -> list[str]:
    """Returns lines on the state of a run, on its problem, and on how to use its adapter."""
    lines = [_headline(row)]
    if row.problem:
        lines.append(
            f"  {one_line(row.problem, MAX_PROBLEM_CHARS)} {one_line(row.hint, MAX_PROBLEM_CHARS)}".rstrip()
        )
    if row.adapter:
        lines.append(
            f"  its adapter: `workbench run complete PROJECT --mode tuned --adapter {row.name}`"
        )
    return lines
