"""Presses random keys on every screen of real projects, at random sizes, and reports what goes wrong.

    python -m tests.campaign.walk --keys 100000 --seed 7

A walk is a few hundred keys: most are bound where they are pressed, some anywhere, some are a click or a paste of
hostile text, some change the size of the terminal, and some are events of jobs with hostile text. The projects are one
of hostile texts (`tests/terminal/hostile.py`), the demo's, and one of hostile goals with training runs and a watch.
Jobs start and run as they do for a person. A failure is an exception, a key after which the program answers nothing for
`SECONDS`, or a control byte in what is drawn. Counted, and no failure, are texts that only the guard at the terminal
made safe, and callbacks of the event loop that took more than 100 ms of processor time: meanwhile no key is answered.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.events import Paste

from engine.conversation import without_surrogates
from engine.events import DataChanged, Event, JobEnded, JobProgress, JobStarted
from engine.model.catalog import embedded_model
from engine.services.workspace import TABLES, Workspace
from engine.store.project import Project
from screens.shell.control_guard import ControlGuard
from screens.shell.key_table import key_table
from tests.campaign.stopping import until_stopped
from tests.engine.model.weights import write_shallow
from tests.engine.services.tuned import tune
from tests.screens.driving import wait_for_idle
from tests.screens.goals.goal_project import build
from tests.screens.test_hostile_text import CONTROL
from tests.screens.training.training_runs import fail, finish, write_run
from tests.terminal import hostile
from tests.terminal.payloads import NAME, PAYLOADS
from workbench.app import WorkbenchApp
from workbench.cli import main as workbench

WALK = 300
"""Keys between two starts of the program."""

SECONDS = 60
BLOCKED_S = 0.1
OFTEN = ("escape", "enter", "down", *"123456789")
"""Keys that lead on from most places."""

SIZES = ((80, 24), (200, 60), (120, 36), (40, 12), (100, 70))
LEAVES = {"ctrl+q", "ctrl+z", "ctrl+c"}
"""Keys that end or stop the program."""


@dataclass
class Outcome:
    """What a campaign saw.

    Attributes:
        keys: Keys pressed.
        screens: Keys by the screen or dialog on which they were pressed.
        blocked: Callbacks of the event loop that took longer than `BLOCKED_S` of processor time, by screen and name.
        longest: The longest of them in seconds, by the same.
        guarded: Texts with control characters that a widget let through to the guard, by screen.
        failures: A sentence for each failure, with the keys before it.
    """

    keys: int = 0
    guarded: Counter[str] = field(default_factory=Counter)
    screens: Counter[str] = field(default_factory=Counter)
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


def projects(folder: Path) -> list[Path]:
    """A project of hostile texts, a sample project with everything run on it, and one of hostile goals that was watched
    and on which models were trained; each in a folder of its own."""
    first, second, third = folder / "h" / "p.wb", folder / "demo", folder / "g" / "p.wb"
    for path in (first, third):
        path.parent.mkdir()
    hostile.make(first, folder)
    workbench(["demo", str(second), "--headless", "--count", "14", "--json"])
    build(third, without_surrogates(" ".join(PAYLOADS.values())[:3_000]))
    with Project.open(third) as project:
        rows = [(key, key / 40, f"2026-11-23T12:00:{key:02}.000Z", key % 2) for key in range(1, 30)]
        project.write(
            lambda conn: conn.executemany(
                "INSERT INTO watched (conversation_id, boundaries, p, grew_at, ended) VALUES (?, 2, ?, ?, ?)",
                rows,
            )
        )
    write_run(third, "broken-off", 60)
    finish(write_run(third, "finished"))
    fail(write_run(third, "failed", 30), f"It broke. {NAME}", NAME)
    return [first, second / "demo.wb", third]


def event(choice: random.Random) -> Event:
    """Something that a job tells, with hostile text wherever a job writes text."""
    text = choice.choice(sorted(PAYLOADS.values()))[:500]
    stage, number = choice.choice(sorted(TABLES)), choice.randint(1, 3)
    done, total = choice.randint(0, 10 ** choice.randint(0, 9)), choice.choice((None, 0, 10**6))
    figures = (choice.choice((None, 0.0, 1e9)), choice.choice((None, 0.0, 1e12)))
    return choice.choice(
        (
            JobStarted(number, stage, text),
            JobProgress(number, stage, text, done, total, text[:20], *figures, text),
            JobEnded(
                number, stage, text, choice.choice(("done", "cancelled", "failed")), text, text
            ),
            DataChanged(TABLES[stage]),
        )
    )


async def walk(path: Path, keys: int, choice: random.Random, outcome: Outcome) -> str:
    """Presses keys on a project; returns what ended the program, empty where nothing did."""
    bound, pressed = bound_keys(), ["start"]
    with Workspace(path) as workspace:
        app = WorkbenchApp(workspace.services(), workspace.subscribe)
        try:
            with measured(outcome, app) as let_out:
                async with app.run_test(size=choice.choice(SIZES), notifications=True) as pilot:
                    await pilot.pause()
                    for _ in range(keys):
                        kind = choice.random()
                        outcome.screens[type(app.screen).__name__] += 1
                        outcome.keys += 1
                        if kind < 0.03:
                            size = choice.choice(SIZES)
                            pressed.append(f"size {size}")
                            await asyncio.wait_for(pilot.resize_terminal(*size), SECONDS)
                        elif kind < 0.06:
                            name = choice.choice(sorted(PAYLOADS))
                            pressed.append(f"paste {name}")
                            app.post_message(Paste(PAYLOADS[name]))
                            await asyncio.wait_for(pilot.pause(), SECONDS)
                        elif kind < 0.1:
                            at = choice.randrange(app.size.width), choice.randrange(app.size.height)
                            pressed.append(f"click {at}")
                            await asyncio.wait_for(pilot.click(offset=at), SECONDS)
                        elif kind < 0.13:
                            told = event(choice)
                            pressed.append(f"event {type(told).__name__}")
                            workspace._emit(told)
                            await asyncio.wait_for(pilot.pause(), SECONDS)
                        else:
                            here = sorted(app.screen.active_bindings.keys() - LEAVES)
                            key = choice.choice(
                                here if kind < 0.5 and here else bound if kind < 0.7 else OFTEN
                            )
                            pressed.append(key)
                            await asyncio.wait_for(pilot.press(key), SECONDS)
                        if let_out:
                            at_screen = type(app.screen).__name__
                            return f"{let_out[0][:80]!r} on {at_screen} after {' '.join(pressed[-25:])}"
                        if app._exception is not None or not app.is_running:
                            break
                    app.workers.cancel_all()
        except Exception as error:  # noqa: BLE001 - what it is for
            cause = app._exception or error
            where = cause.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            place = (
                f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
                if where is not None
                else ""
            )
            return f"{type(cause).__name__}: {str(cause)[:300]} at {place} after {' '.join(pressed[-25:])}"
    return ""


def campaign(keys: int, seed: int, say: Callable[[str], None] = lambda line: None) -> Outcome:
    """Walks until `keys` keys were pressed; every walk begins with a copy of its project."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="walk-") as name:
        folder = Path(name)
        home = folder / "home"
        os.environ.update(
            HOME=str(home),
            WORKBENCH_DATA=str(home / "data"),
            WORKBENCH_CACHE=str(home / "cache"),
            WORKBENCH_OFFLINE="1",
        )
        shallow = folder / "shallow.gguf"
        write_shallow(embedded_model(), shallow)
        tune(shallow, home / "data", home / "cache", tokens_per_s=2_000.0)
        made = projects(folder)
        (folder / "cwd").mkdir()
        os.chdir(folder / "cwd")  # what dialogs of exports write
        for number in until_stopped(count()):
            if outcome.keys >= keys:
                break
            choice = random.Random(f"{seed} {number}")
            source = made[number % len(made)]
            copy = folder / "walk" / source.name
            shutil.copytree(source.parent, copy.parent)
            wrong = asyncio.run(walk(copy, min(WALK, keys - outcome.keys), choice, outcome))
            if wrong:
                outcome.failures.append(f"seed {seed}, walk {number}: {wrong}")
                say(outcome.failures[-1])
            shutil.rmtree(copy.parent)
        os.chdir("/")
    return outcome


def main() -> int:
    """Runs the campaign of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began = time.monotonic()
    outcome = campaign(arguments.keys, arguments.seed, lambda line: print(line, flush=True))
    seconds = time.monotonic() - began
    for name, keys in outcome.screens.most_common():
        print(f"{name:<28}{keys:>8,}")
    for name, times in outcome.blocked.most_common():
        print(f"blocked {times:>5} times, at most {outcome.longest[name]:.2f} s: {name}")
    print(
        f"{outcome.keys:,} keys on {len(outcome.screens)} screens and dialogs, {len(outcome.failures)} failures,"
        f" {outcome.blocked.total()} times blocked, {seconds:.0f} s"
    )
    print(
        f"made safe by the guard only: {outcome.guarded.total()} lines, on"
        f" {', '.join(name for name, lines in outcome.guarded.most_common() if lines)}"
    )
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
