"""`workbench train`: begins a training run and watches it, says how runs stand, stops one."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from engine import folders
from engine.errors import Cancelled, ProjectError, UsageError, WorkbenchError
from engine.number_format import duration
from engine.run_directory.events import Event, read_events
from engine.services.training import adapter_in_use, process
from engine.services.training.history import RunHistory
from engine.services.training.records import TrainingEstimate, TrainingRequest, TrainingRun
from engine.services.training.service import Runs
from engine.services.workspace import Workspace
from engine.store.project import Project
from engine.text import one_line
from workbench.commands.filtering import asked_filter
from workbench.commands.narration import say, show, tell
from workbench.commands.options import above_zero, add_filter, positive, share
from workbench.exits import DONE

LOOK_SECONDS = 0.3
"""Between two looks at the events of a run that is watched."""

STEP_SECONDS = 10.0
"""Between two lines about steps."""

UNIT = 1e9


def start_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `start`."""
    parser.add_argument("project")
    parser.add_argument(
        "--base", metavar="M", help="model by name, GGUF file, or folder of weights"
    )
    parser.add_argument(
        "--recipe", default="boundary", help="boundary, paper or no-end-tag (default: boundary)"
    )
    parser.add_argument(
        "--epochs", type=above_zero, help="times that everything is read (default: 3)"
    )
    parser.add_argument(
        "--preset", help="cpu, 8g, 16g, 24g or 80g: by memory (default: what this machine has)"
    )
    parser.add_argument("--name", help="of the run (default: after base and recipe, numbered)")
    add_filter(parser)
    parser.add_argument(
        "--held-out",
        type=share,
        default=0.5,
        metavar="S",
        help="share of the conversations that is kept from training (default: 0.5)",
    )
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="train on so many conversations at most"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is held out (default: 0)")
    parser.add_argument(
        "--contaminate",
        type=share,
        default=0.0,
        metavar="S",
        help="cut this share of the training conversations, to measure what incomplete ones cost",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="another setting of the run, like rank=32; `train status PROJECT RUN` lists them",
    )
    parser.add_argument("--resume", metavar="RUN", help="go on with a run at its last checkpoint")
    parser.add_argument("--estimate", action="store_true", help="say what it would cost and stop")
    parser.add_argument("--detach", action="store_true", help="begin it and do not watch")


def start(arguments: argparse.Namespace) -> int:
    """Begins a run, or goes on with one, and watches it to its end.

    Raises:
        UsageError: What was asked for cannot be.
        WorkbenchError: The run failed.
        Cancelled: It was stopped.
    """
    folders.log_to_file()
    home = Path(arguments.project)
    if arguments.resume:
        runs = _runs(home)
        if arguments.estimate or arguments.filter:
            raise UsageError("A run goes on with the data that it began with.", "Leave that out.")
        told = _size(runs.history(arguments.resume).run.events)
        with _interrupts() as pressed:
            runs.go_on(arguments.resume, _settings(arguments.set))
            tell(f"{arguments.resume} goes on.")
            return _watch(runs, arguments.resume, arguments, pressed, told)
    with Workspace(home) as workspace:
        training = workspace.training
        plan = training.planner.plan(
            _wish(arguments),
            seed=arguments.seed,
            contaminate=arguments.contaminate,
            whole=not arguments.estimate,
        )
        if arguments.estimate:
            if arguments.json:
                show(asdict(plan.estimate))
            else:
                say(estimate_text(plan.estimate))
            return DONE
        tell(estimate_text(plan.estimate))
        name = training.prepare(plan).path.name
        runs = training.runs_beside
    # The project is closed by now: it is free for others while the run works.
    with _interrupts() as pressed:
        runs.begin(runs.history(name).run)
        return _watch(runs, name, arguments, pressed)


def status_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `status`."""
    parser.add_argument("project")
    parser.add_argument(
        "run_name", nargs="?", metavar="RUN", help="only this one, with its settings"
    )


def status(arguments: argparse.Namespace) -> int:
    """Says how the runs of a project stand, or how one does."""
    home = Path(arguments.project)
    runs = _runs(home)
    with Project.open(home, read_only=True, upgrade=True) as project:
        used = adapter_in_use.get(project)
    if arguments.run_name:
        detail = runs.history(arguments.run_name).detail(arguments.run_name == used)
        if arguments.json:
            show(asdict(detail))
            return DONE
        say("\n".join(_lines(detail.run)))
        for setting in detail.config:
            say(f"  {setting.name:<14} {one_line(setting.value)}")
        for warning in detail.warnings:
            say(f"  ! {one_line(warning, 400)}")
        return DONE
    rows = [history.row(history.run.path.name == used) for history in runs.histories()]
    if arguments.json:
        show({"runs": [asdict(row) for row in rows]})
    elif not rows:
        say("No training runs yet. `workbench train PROJECT` begins one.")
    else:
        say("\n".join(line for row in rows for line in _lines(row)))
    return DONE


def stop_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `stop`."""
    parser.add_argument("project")
    parser.add_argument("run_name", metavar="RUN")


def stop(arguments: argparse.Namespace) -> int:
    """Stops a run and waits for its end; the best checkpoint becomes its adapter.

    Raises:
        UsageError: It is not there, or does not work.
    """
    runs = _runs(Path(arguments.project))
    history = runs.history(arguments.run_name)
    if not process.has_process(history.run):
        raise UsageError(f"{arguments.run_name} is not running.")
    narrator = _Narrator(history, _size(history.run.events))
    runs.trainers.stop(history.run)
    tell(f"{arguments.run_name} ends after its step and keeps the best checkpoint.")
    while narrator.look():
        time.sleep(LOOK_SECONDS)
    try:
        return _said(history, arguments.json)
    except Cancelled as stopped:
        tell(f"{stopped.message} {stopped.hint}")
        return DONE


def estimate_text(estimate: TrainingEstimate) -> str:
    """An estimate in words."""
    text = (
        f"{estimate.name}: train on {estimate.train:,} of {estimate.matched:,} conversations,"
        f" hold out {estimate.held_out:,}, with {estimate.base}"
    )
    if estimate.tokens is not None and estimate.steps is not None:
        text += f"\n  {estimate.tokens:,} tokens an epoch, {estimate.steps:,} steps"
    if estimate.memory is not None:
        text += f"\n  about {estimate.memory / UNIT:.1f} GB of memory"
        text += "" if estimate.fits else f", which is not there. {estimate.advice}"
    if estimate.seconds is None:
        text += "\n  how long it takes is not known before its first steps"
    else:
        how = "as earlier runs went" if estimate.measured else "a guess until it runs"
        text += f"\n  about {duration(estimate.seconds)} ({how})"
    return "\n  ".join([text, *estimate.notes])


# Watching


def _watch(
    runs: Runs, name: str, arguments: argparse.Namespace, pressed: Sequence[int], told: int = 0
) -> int:
    """Tells what happens in a run, from a byte of its events on: those before it others were told.

    `pressed` counts ctrl+c since before the run began, so that none is lost between its beginning and this.
    """
    history = runs.history(name)
    if arguments.detach:
        if arguments.json:
            show({"run": name, "folder": str(history.run.path)})
        else:
            say(f"{name} runs by itself; `workbench train status` says how it stands.")
        return DONE
    narrator = _Narrator(history, told)
    asked = 0
    while narrator.look():
        if pressed[0] > asked:
            asked = pressed[0]
            if asked == 1:
                runs.trainers.stop(history.run)
                tell("Stopping after this step, keeping the best. ctrl+c again kills it.")
            else:
                runs.trainers.kill(history.run)
        time.sleep(LOOK_SECONDS)
    return _said(history, arguments.json, killed=asked > 1)


def _said(history: RunHistory, as_json: bool, killed: bool = False) -> int:
    """Tells what came of a run.

    Raises:
        WorkbenchError: It failed.
        Cancelled: It was stopped or killed.
    """
    row = history.row()
    if as_json:
        show(asdict(row))
    if killed and row.state == "interrupted":
        raise Cancelled(
            f"{row.name} was killed.", f"`--resume {row.name}` goes on at its last checkpoint."
        )
    if row.problem:
        raise WorkbenchError(f"{row.name} failed: {row.problem}", row.hint)
    if not as_json:
        say("\n".join(_lines(row)))
    if row.state == "stopped":
        raise Cancelled(
            f"{row.name} was stopped and keeps its best.", f"`--resume {row.name}` goes on with it."
        )
    return DONE


class _Narrator:
    """Tells the events of a run on standard error, from a byte of its events on."""

    def __init__(self, history: RunHistory, told: int) -> None:
        self._run, self._told = history.run, told
        self._spoken = 0.0
        self._steps = history.row().steps
        self._validated: int | None = None

    def look(self) -> bool:
        """Tells what happened since the last look; False once nothing works on the run any more."""
        works = process.has_process(self._run)
        events, self._told = read_events(self._run.events, self._told)
        for event in events:
            said = self._words(event)
            if said:
                tell(said)
        return works

    def _words(self, event: Event) -> str:
        kind, step = event["event"], event.get("step")
        if kind == "started":
            self._steps = event.get("steps")
            return (
                f"{self._run.path.name}: {event.get('examples', 0):,} conversations,"
                f" {event.get('tokens', 0):,} tokens an epoch, {self._steps} steps"
                + (f", on from step {step}" if step else "")
            )
        if kind == "step":
            if not self._again() and step != self._steps:
                return ""
            return f"  step {step} of {self._steps} · {_step_words(event)}"
        if kind == "validating":
            first = step != self._validated
            if not self._again() and not first:
                return ""
            self._validated = step
            far = f"{event.get('done', 0):,} of {event.get('of', 0):,} held out"
            return " · ".join(
                [f"  step {step} of {self._steps} · reading {far}", *_time_left(event)]
            )
        if kind == "valid":
            best = " · best so far" if event.get("best") else ""
            return f"  step {step} · held out: {_valid_words(event)}{best}"
        if kind == "warning":
            return f"  {one_line(str(event.get('message', '')))}"
        if kind == "parity":
            if event.get("skipped"):
                return f"  not compared with llama.cpp: {one_line(str(event['skipped']))}"
            return (
                f"  llama.cpp with the adapter agrees on {_figure(event.get('top1'), '.1%')}"
                f" of {event.get('tokens', 0):,} tokens"
            )
        return ""

    def _again(self) -> bool:
        """Whether it is time to say once more how far it is."""
        if time.monotonic() - self._spoken < STEP_SECONDS:
            return False
        self._spoken = time.monotonic()
        return True


def _step_words(event: Event) -> str:
    parts = [f"loss {_figure(event.get('loss'), '.3f')}"]
    if event.get("tokens_per_s"):
        parts.append(f"{event['tokens_per_s']:,.0f} tokens/s")
    if event.get("memory"):
        parts.append(f"{event['memory'] / UNIT:.1f} GB")
    return " · ".join([*parts, *_time_left(event)])


def _time_left(event: Event) -> list[str]:
    left = event.get("seconds_left")
    return [] if left is None else [f"{duration(left)} left"]


def _valid_words(event: Event) -> str:
    return (
        f"loss {_figure(event.get('loss'), '.3f')}, AUROC {_figure(event.get('auroc'), '.3f')},"
        f" F1 {_figure(event.get('f1'), '.3f')}"
    )


def _figure(value: Any, form: str) -> str:
    return format(value, form) if isinstance(value, (int, float)) else "-"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Counts how often ctrl+c was pressed, in place of the exception, for the time of a block."""
    pressed = [0]

    def count(number: int, frame: FrameType | None) -> None:
        pressed[0] += 1

    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, count)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


# Words


def _runs(project: Path) -> Runs:
    if not project.is_file():
        raise ProjectError(
            f"There is no project {project}.", "Make one with `workbench import PROJECT PATH...`."
        )
    return Runs(project)


def _wish(arguments: argparse.Namespace) -> TrainingRequest:
    settings = _settings(arguments.set)
    if arguments.epochs is not None:
        settings = [("epochs", str(arguments.epochs)), *settings]
    return TrainingRequest(
        filter=asked_filter(arguments.filter),
        name=arguments.name or "",
        recipe=arguments.recipe,
        preset=arguments.preset or "",
        base=arguments.base or "",
        held_out=arguments.held_out,
        limit=arguments.limit,
        settings=tuple(settings),
    )


def _settings(words: Sequence[str]) -> list[tuple[str, str]]:
    settings = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--set takes field=value, not {word!r}.", "Like --set rank=32.")
        settings.append((name.strip(), value))
    return settings


def _headline(row: TrainingRun) -> str:
    parts = [f"{row.name:<24} {row.state:<11}"]
    if row.step is not None and row.steps:
        parts.append(f"step {row.step}/{row.steps}")
    if row.to_validate:
        parts.append(f"validating {row.validated}/{row.to_validate}")
    if row.seconds_left is not None:
        parts.append(f"{duration(row.seconds_left)} left")
    parts.append(f"{row.recipe} on {row.base}, {row.conversations:,} conversations")
    if row.auroc is not None:
        parts.append(f"AUROC {row.auroc:.3f} at step {row.best_step}")
    if row.seconds:
        parts.append(duration(row.seconds))
    if row.in_use:
        parts.append("in use")
    return " · ".join(one_line(part) for part in parts)


def _lines(row: TrainingRun) -> list[str]:
    lines = [_headline(row)]
    if row.problem:
        lines.append(f"  {one_line(row.problem, 400)} {one_line(row.hint, 400)}".rstrip())
    if row.adapter:
        lines.append(
            f"  its adapter: `workbench run complete PROJECT --mode tuned --adapter {row.name}`"
        )
    return lines
