"""Presses random keys on every screen of real projects, at random sizes, and reports what goes wrong.

    python -m tests.campaign.walk --keys 100000 --seed 7

A walk is up to `WALK` steps: most are a key that is bound where it is pressed, some any key, some are a click or a
paste of hostile text, some change the size of the terminal, and some are events of jobs with hostile text. The projects
are one of hostile texts (`tests/terminal/hostile.py`), one of samples on which everything ran, and one of hostile goals
with training runs and a watch. Jobs start and run as they do for a person. A failure is an exception, a key after which
the program answers nothing for `SECONDS`, or a control byte in what is drawn; it is walked again with fewer and fewer
steps, as long as it comes again. Counted, and no failure, are texts that only the guard at the terminal made safe, and
callbacks of the event loop that took more than 100 ms of processor time: meanwhile no key is answered.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import io
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.errors import NoWidget
from textual.events import Paste
from textual.pilot import Pilot
from textual.worker import WorkerFailed

from engine.base.conversation import without_surrogates
from engine.base.events import DataChanged, Event, JobEnded, JobProgress, JobStarted
from engine.model.catalog import embedded_model
from engine.opener.open_project import TABLES_BY_STAGE, OpenProject
from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl
from screens.shell.base_app import ControlGuard
from screens.shell.keymap import key_table
from tests.campaign.kills import descendants
from tests.campaign.stopping import until_stopped
from tests.engine.model.tuned import tune
from tests.engine.model.weights import ALL_BUT_FIRST, write_shallow
from tests.screens.driving import one_parse_of_each_style, wait_for_idle
from tests.screens.goals.goal_project import build
from tests.screens.test_hostile_text import CONTROL
from tests.screens.training.training_runs import fail, finish, write_run
from tests.terminal import hostile
from tests.terminal.payloads import NAME, PAYLOADS
from workbench.app import WorkbenchApp
from workbench.cli import main as workbench

WALK = 1_000
"""Steps between two starts of the program."""

SECONDS = 60
BLOCKED_S = 0.1
WORK_S = 0.05
"""Longest wait for the background work that a step set off: a person who types fast does not wait for it either."""

REPLAYS = 12
"""How often a walk that failed is walked again with fewer steps."""

OFTEN = ("escape", "escape", "enter", "down", *"123456789")
"""Keys that lead on from most places."""

SIZES = ((80, 24), (200, 60), (120, 36), (40, 12), (100, 70))
LEAVES = {"ctrl+q", "ctrl+z", "ctrl+c"}
"""Keys that end or stop the program."""

Step = tuple[str, Any]
"""A `key`, a `paste` of a payload by its name, a `click` at a cell, a `size` in cells, or an `event` of a job."""

Steps = Callable[[App[Any]], Iterable[Step]]
"""The steps of a walk, each asked for when the one before was taken; the first is a size."""


@dataclass
class Outcome:
    """What a campaign saw.

    Attributes:
        keys: Steps taken.
        screens: Steps by the screen or dialog on which they were taken.
        sizes: Steps by the size of the terminal.
        blocked: Callbacks of the event loop that took longer than `BLOCKED_S` of processor time, by screen and name.
        longest: The longest of them in seconds, by the same.
        guarded: Texts with control characters that a widget let through to the guard, by screen.
        failures: A sentence for each failure, with the fewest steps found that lead to it.
    """

    keys: int = 0
    guarded: Counter[str] = field(default_factory=Counter)
    screens: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    blocked: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


@contextmanager
def measured(outcome: Outcome, app: App[Any]) -> Iterator[list[str]]:
    """Counts the callbacks that block the event loop, and what the guard makes safe; gives what it lets out though it
    has a control character."""
    run, guard, let_out = asyncio.Handle._run, ControlGuard.apply, list[str]()
    collecting = 0.0

    def collected(phase: str, _: object) -> None:
        nonlocal collecting
        collecting += time.thread_time() * (1 if phase == "stop" else -1)

    def timed(handle: Any) -> None:
        nonlocal collecting
        collecting, began = 0.0, time.thread_time()
        run(handle)
        # A walk opens many apps in one process, so that garbage takes longer to look through than in one.
        taken = time.thread_time() - began - max(0.0, collecting)
        if taken > BLOCKED_S and app.is_running:
            task = getattr(handle._callback, "__self__", None)
            name = task.get_name() if isinstance(task, asyncio.Task) else repr(handle._callback)
            what = f"{type(app.screen).__name__}: {name[:60]}"
            outcome.blocked[what] += 1
            outcome.longest[what] = max(taken, outcome.longest.get(what, 0.0))

    def counted(self: ControlGuard, segments: list[Segment], background: Color) -> list[Segment]:
        kept = guard(self, segments, background)
        outcome.guarded[type(app.screen).__name__] += kept is not segments
        let_out.extend(one.text for one in kept if not one.control and CONTROL.search(one.text))
        return kept

    with (
        patch.object(asyncio.Handle, "_run", timed),
        patch.object(ControlGuard, "apply", counted),
        patch("textual.app.wait_for_idle", wait_for_idle),
        patch("textual.pilot.wait_for_idle", wait_for_idle),
        patch("textual.screen.UPDATE_PERIOD", 1.0),  # each step draws once, at its end
        one_parse_of_each_style(),
    ):
        gc.callbacks.append(collected)
        try:
            yield let_out
        finally:
            gc.callbacks.remove(collected)


def bound_keys() -> list[str]:
    """Every key that does something anywhere."""
    found = {
        key for place in key_table(WorkbenchApp) for action in place.actions for key in action.keys
    }
    return sorted(found - LEAVES)


def samples(path: Path) -> None:
    """A project of samples on which everything ran."""
    talks = path.parent / "talks.jsonl"
    write_jsonl(sample_conversations(24, seed=3), talks)
    for words in (
        ("import", path, talks),
        ("run", "complete", path, "--mode", "probe", "--no-remaining"),
        ("run", "cluster", path, "--no-labels"),
        ("run", "trees", path, "--limit", "4", "--nodes", "60", "--max-tokens", "12"),
        ("simulate", "recsim", path, "--limit", "1", "--turns", "2",),
    ):  # fmt: skip
        with redirect_stdout(io.StringIO()):
            code = workbench([*map(str, words), "--json"])
        assert code in (0, 3), (words, code)


def goals(path: Path) -> None:
    """A project of hostile goals that was watched and on which models were trained."""
    build(path, without_surrogates(" ".join(PAYLOADS.values())[:3_000]))
    with Project.open(path) as project:
        rows = [(key, key / 40, f"2026-11-23T12:00:{key:02}.000Z", key % 2) for key in range(1, 30)]
        project.write(
            lambda conn: conn.executemany(
                "INSERT INTO watched (conversation_id, boundaries, p, grew_at, ended) VALUES (?, 2, ?, ?, ?)",
                rows,
            )
        )
    write_run(path, "broken-off", 60)
    finish(write_run(path, "finished"))
    fail(write_run(path, "failed", 30), f"It broke. {NAME}", NAME)


PROJECTS: dict[str, Callable[[Path], None]] = {
    "hostile": lambda path: hostile.make(path, path.parent),
    "samples": samples,
    "goals": goals,
}
"""The projects to walk on, and what makes them."""


@contextmanager
def temporary_place() -> Iterator[Path]:
    """A temporary folder, which has this process's home and working directory meanwhile: what random keys write, as an
    export under a name that was pasted, lands in it and is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="walk-") as name, patch.dict(os.environ):
        home, work = Path(name, "home"), Path(name, "cwd")
        work.mkdir()
        os.environ.update(
            HOME=str(home),
            WORKBENCH_DATA=str(home / "data"),
            WORKBENCH_CACHE=str(home / "cache"),
            WORKBENCH_OFFLINE="1",
        )
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        with chdir(work):
            yield Path(name)


def prepared(folder: Path, only: Sequence[str]) -> list[Path]:
    """Makes projects in a temporary place, each in a folder of its own, and a model that is quick."""
    home = folder / "home"
    write_shallow(embedded_model(), folder / "shallow.gguf", ALL_BUT_FIRST)
    tune(folder / "shallow.gguf", home / "data", home / "cache", tokens_per_s=2_000.0)
    made = [folder / name / "p.wb" for name in only]
    for path in made:
        path.parent.mkdir()
        PROJECTS[path.parent.name](path)
    return made


def event(choice: random.Random) -> Event:
    """Something that a job tells, with hostile text wherever a job writes text."""
    text = choice.choice(sorted(PAYLOADS.values()))[:500]
    stage, number = choice.choice(sorted(TABLES_BY_STAGE)), choice.randint(1, 3)
    done, total = choice.randint(0, 10 ** choice.randint(0, 9)), choice.choice((None, 0, 10**6))
    figures = (choice.choice((None, 0.0, 1e9)), choice.choice((None, 0.0, 1e12)))
    return choice.choice(
        (
            JobStarted(number, stage, text),
            JobProgress(number, stage, text, done, total, text[:20], *figures, text),
            JobEnded(
                number, stage, text, choice.choice(("done", "cancelled", "failed")), text, text
            ),
            DataChanged(TABLES_BY_STAGE[stage]),
        )
    )


def random_steps(keys: int, choice: random.Random) -> Steps:
    """So many steps that follow from the seed and from what is on the screen."""
    bound = bound_keys()

    def steps(app: App[Any]) -> Iterator[Step]:
        yield "size", choice.choice(SIZES)
        for _ in range(keys):
            kind = choice.random()
            if kind < 0.03:
                yield "size", choice.choice(SIZES)
            elif kind < 0.06:
                yield "paste", choice.choice(sorted(PAYLOADS))
            elif kind < 0.1:
                yield "click", (choice.randrange(app.size.width), choice.randrange(app.size.height))
            elif kind < 0.13:
                yield "event", event(choice)
            else:
                here = sorted(app.screen.active_bindings.keys() - LEAVES)
                yield (
                    "key",
                    choice.choice(here if kind < 0.5 and here else bound if kind < 0.7 else OFTEN),
                )

    return steps


async def take(step: Step, pilot: Pilot[Any], emit: Callable[[Event], None]) -> None:
    """Takes a step, waits until the event loop rests and, not for long, for work in the background, and draws."""
    kind, what = step
    app = pilot.app
    if kind == "size":
        await pilot.resize_terminal(*what)
    elif kind == "click":
        if what[0] < app.size.width and what[1] < app.size.height:
            with suppress(NoWidget):  # not laid out yet; the program ignores such a click
                await pilot.click(offset=what)
    elif kind == "key":
        await app._press_keys([what])
    elif kind == "paste":
        app.post_message(Paste(PAYLOADS[what]))
    else:
        emit(what)
    end = time.monotonic() + WORK_S
    await wait_for_idle(0)
    while any(not worker.is_finished for worker in app.workers) and time.monotonic() < end:
        await wait_for_idle(0.005)
    if app.is_running:
        app.screen._on_timer_update()


class NoAnswer(BaseException):
    """A step took too long; the text says where each task waits."""


def raise_no_answer(number: int, frame: object) -> None:
    """Ends a step that took too long, also one that never gives the event loop back."""
    waiting = [f"{task.get_name()}: {task.get_stack(limit=1)}" for task in asyncio.all_tasks()]
    raise NoAnswer(f"no answer for {SECONDS} s; {'; '.join(waiting)}")


async def walk(path: Path, steps: Steps, outcome: Outcome, taken: list[Step]) -> str:
    """Takes steps on a project, which are added to `taken`; returns what ended the program, empty where nothing did."""
    signal.signal(signal.SIGALRM, raise_no_answer)
    with OpenProject(path) as workspace:
        app = WorkbenchApp(workspace, workspace.subscribe)
        walked = iter(steps(app))
        taken.append(next(walked))
        try:
            with measured(outcome, app) as let_out:
                async with app.run_test(size=taken[0][1], notifications=True) as pilot:
                    await pilot.pause()
                    for step in walked:
                        outcome.screens[type(app.screen).__name__] += 1
                        outcome.sizes["x".join(map(str, app.size))] += 1
                        outcome.keys += 1
                        taken.append(step)
                        signal.alarm(SECONDS)
                        await take(step, pilot, workspace._emit)
                        signal.alarm(0)
                        if let_out:
                            return (
                                f"control byte on {type(app.screen).__name__}: {let_out[0][:80]!r}"
                            )
                        if app._exception is not None or not app.is_running:
                            break
                    app.workers.cancel_all()
                    app.exit()
        except Exception as error:  # noqa: BLE001 - what it is for
            cause: BaseException = app._exception or error
            if isinstance(cause, WorkerFailed):
                cause = cause.error
            frames = traceback.extract_tb(cause.__traceback__)[-3:]
            place = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
            return f"{type(cause).__name__} at {place}: {str(cause)[:300]}"
        finally:
            signal.alarm(0)
    return ""


class LowPriorityProcess(subprocess.Popen[Any]):
    """A process that runs where no key needs the processor: each walk starts some that train or ask a model."""

    def __init__(self, args: Sequence[str], **options: Any) -> None:
        super().__init__(["nice", "-n", "19", *args], **options)


def walk_copy(source: Path, folder: Path, steps: Steps, outcome: Outcome) -> tuple[str, list[Step]]:
    """Walks on a copy of a project, which is then thrown away; returns what ended the program and the steps."""
    copy, taken = folder / "walk" / source.name, list[Step]()
    shutil.copytree(source.parent, copy.parent)
    try:
        with patch.object(subprocess, "Popen", LowPriorityProcess):
            return asyncio.run(walk(copy, steps, outcome, taken)), taken
    except (NoAnswer, RecursionError) as error:
        # Tasks that wait for each other cannot be cancelled: asyncio recurses for ever.
        return str(error.__context__ if isinstance(error, RecursionError) else error), taken
    finally:
        signal.alarm(0)
        for process in descendants(os.getpid()):  # training goes on when the program ends
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        shutil.rmtree(copy.parent)


def shrunk(source: Path, folder: Path, wrong: str, steps: list[Step]) -> list[Step]:
    """Fewer steps that still end in the same way: parts are left out, halves first, then ever smaller ones."""
    first, rest = steps[0], steps[1:]
    size, left = (len(rest) + 1) // 2, REPLAYS
    while size and left:
        for at in range(0, len(rest), size):
            fewer = rest[:at] + rest[at + size :]
            left -= 1
            found, _ = walk_copy(source, folder, lambda _, fewer=fewer: [first, *fewer], Outcome())  # type: ignore[misc]
            if found.partition(": ")[0] == wrong.partition(": ")[0]:
                rest = fewer
                break
            if not left:
                break
        else:
            size //= 2
    return [first, *rest]


def campaign(
    keys: int,
    seed: int,
    only: Sequence[str] = tuple(PROJECTS),
    say: Callable[[str], None] = lambda line: None,
    first: int = 0,
) -> Outcome:
    """Walks until so many steps were taken; every walk begins with a copy of its project. `first` is the number of the
    first walk."""
    outcome = Outcome()
    with temporary_place() as folder:
        made = prepared(folder, only)
        gc.collect()
        gc.freeze()
        for number in until_stopped(count(first)):
            if outcome.keys >= keys:
                break
            choice, source = random.Random(f"{seed} {number}"), made[number % len(made)]
            planned = random_steps(min(WALK, keys - outcome.keys), choice)
            wrong, taken = walk_copy(source, folder, planned, outcome)
            say(f"{outcome.keys:,} keys")
            if wrong:
                say(f"walk {number}: {wrong}; its last steps: {taken[-5:]}")
                few = shrunk(source, folder, wrong, taken)
                outcome.failures.append(
                    f"seed {seed}, walk {number} on {source.parent.name}: {wrong} after {few}"
                )
                say(outcome.failures[-1])
    return outcome


def main() -> int:
    """Runs the campaign of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(PROJECTS), help="projects, of: %(default)s")
    parser.add_argument("--first", type=int, default=0, help="number of the first walk")
    arguments = parser.parse_args()
    began = time.monotonic()
    only = arguments.only.split(",")
    outcome = campaign(
        arguments.keys,
        arguments.seed,
        only,
        lambda line: print(line, flush=True),
        arguments.first,
    )
    seconds = time.monotonic() - began
    for name, keys in outcome.screens.most_common():
        print(f"{name:<28}{keys:>8,}")
    for name, times in outcome.blocked.most_common():
        print(f"blocked {times:>5} times, at most {outcome.longest[name]:.2f} s: {name}")
    print(", ".join(f"{name}: {keys:,}" for name, keys in outcome.sizes.most_common()))
    print(
        f"{outcome.keys:,} keys on {len(outcome.screens)} screens and dialogs, {len(outcome.failures)} failures,"
        f" {outcome.blocked.total()} times blocked, {seconds:.0f} s, {time.process_time():.0f} s of processor time"
    )
    print(
        f"made safe by the guard only: {outcome.guarded.total()} lines, on"
        f" {', '.join(name for name, lines in outcome.guarded.most_common() if lines)}"
    )
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
