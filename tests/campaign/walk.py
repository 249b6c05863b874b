"""Presses random keys on every screen of a real project, at random sizes, and reports what ends the program.

    python -m tests.campaign.walk --keys 100000 --seed 7

A walk is a few hundred keys: most are bound somewhere, some are a click or a paste of hostile text, some change the
size of the terminal. The project is that of hostile texts (`tests/terminal/hostile.py`) with scores, or one with goals
and trees. Jobs start and run as they do for a person. A failure is an exception, or a key after which the program
answers nothing for `SECONDS`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from textual.events import Paste

from engine.model.catalog import embedded_model
from engine.services.workspace import Workspace
from screens.shell.key_table import key_table
from tests.engine.model.weights import write_shallow
from tests.engine.services.tuned import tune
from tests.terminal import hostile
from tests.terminal.payloads import PAYLOADS
from workbench.app import WorkbenchApp
from workbench.cli import main as workbench

WALK = 300
"""Keys between two starts of the program."""

SECONDS = 20
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
        slowest: Seconds of the slowest key, and the key.
        failures: A sentence for each failure, with the keys before it.
    """

    keys: int = 0
    slowest: tuple[float, str] = (0.0, "")
    failures: list[str] = field(default_factory=list)


def bound_keys() -> list[str]:
    """Every key that does something anywhere."""
    found = {
        key for place in key_table(WorkbenchApp) for action in place.actions for key in action.keys
    }
    return sorted(found - LEAVES)


def projects(folder: Path) -> list[Path]:
    """A project of hostile texts, and a sample project with everything run on it."""
    first, second = folder / "hostile.wb", folder / "demo"
    hostile.make(first, folder)
    workbench(["demo", str(second), "--headless", "--count", "14", "--json"])
    return [first, second / "demo.wb"]


async def walk(path: Path, keys: int, choice: random.Random, outcome: Outcome) -> str:
    """Presses keys on a project; returns what ended the program, empty where nothing did."""
    bound, pressed = bound_keys(), ["start"]
    with Workspace(path) as workspace:
        app = WorkbenchApp(workspace.services(), workspace.subscribe)
        try:
            async with app.run_test(size=choice.choice(SIZES), notifications=True) as pilot:
                await pilot.pause()
                for _ in range(keys):
                    kind = choice.random()
                    began = time.monotonic()
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
                    else:
                        key = (
                            choice.choice(bound)
                            if kind < 0.7
                            else choice.choice(("escape", "enter", "down", *"123456789"))
                        )
                        pressed.append(key)
                        await asyncio.wait_for(pilot.press(key), SECONDS)
                    outcome.keys += 1
                    outcome.slowest = max(outcome.slowest, (time.monotonic() - began, pressed[-1]))
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
        number = 0
        while outcome.keys < keys:
            choice = random.Random(f"{seed} {number}")
            copy = folder / "walk" / "p.wb"
            copy.parent.mkdir()
            shutil.copy(made[number % len(made)], copy)
            wrong = asyncio.run(walk(copy, min(WALK, keys - outcome.keys), choice, outcome))
            if wrong:
                outcome.failures.append(f"seed {seed}, walk {number}: {wrong}")
                say(outcome.failures[-1])
            shutil.rmtree(copy.parent)
            number += 1
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
    slow, key = outcome.slowest
    seconds = time.monotonic() - began
    print(
        f"{outcome.keys:,} keys, {len(outcome.failures)} failures, slowest {slow:.1f} s ({key}), {seconds:.0f} s"
    )
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
