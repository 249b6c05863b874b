"""Types random keys into the real program on a real terminal, and refuses every byte that it should never write.

    python -m tests.campaign.terminal --keys 5000 --seed 7

The projects, and most keys, are those of `tests.campaign.walk`; each walk begins at another size of the terminal. What
is written is read as `tests/terminal/output.py` does: control sequences that a full-screen program needs and letters,
no more. Failures are a byte that is refused, another end than by a key that ends the program, a program that does not
end when it is asked to after its last key, and a fault in its log.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from engine.base.conversation import without_surrogates
from tests.campaign.kills import process_state
from tests.campaign.stopping import until_stopped
from tests.campaign.walk import OFTEN, PROJECTS, SIZES, bound_keys, prepared, temporary_place
from tests.terminal.payloads import PAYLOADS
from tests.terminal.pty import Session, typed

WALK = 200
"""Keys between two starts of the program."""

QUIET = 0.02
LONGEST = 0.5
"""The next key is typed once nothing was written for `QUIET` seconds, after `LONGEST` seconds at the latest."""

QUITS = "\x11"


@dataclass
class Outcome:
    """What a campaign saw.

    Attributes:
        keys: Keys and pastes by the size of the terminal, in columns and rows.
        written: Bytes that the program wrote.
        failures: A sentence for each failure, with the keys before it.
    """

    keys: Counter[str] = field(default_factory=Counter)
    written: int = 0
    failures: list[str] = field(default_factory=list)


def continue_if_suspended(pid: int) -> None:
    """Lets a program go on that was suspended from its palette, as the `fg` of a shell does."""
    if process_state(pid) == "T":
        os.kill(pid, signal.SIGCONT)


def abort_and_read_stacks(session: Session) -> str:
    """Ends a program that does not answer, and returns what its threads were doing."""
    terminal = session.terminal
    before = len(terminal.output)
    if not session.ended:
        os.kill(terminal.pid, signal.SIGABRT)
    end = time.monotonic() + 10
    while not session.ended and time.monotonic() < end:
        terminal.read(0.2)
    return bytes(terminal.output[before:]).decode("utf-8", "replace")[-8_000:]


def walk(
    path: Path, size: tuple[int, int], keys: int, choice: random.Random, outcome: Outcome
) -> str:
    """Types keys into a program on a project; returns what went wrong, empty where nothing did."""
    columns, rows = size
    bound = [key for key in map(typed, bound_keys()) if key is not None]
    often = [typed(key) or key for key in OFTEN]
    pressed: list[str] = []
    with Session(str(path), rows=rows, columns=columns) as session:
        try:
            session.settle()
            for _ in range(keys):
                kind = choice.random()
                if kind < 0.05:
                    payload = without_surrogates(PAYLOADS[choice.choice(sorted(PAYLOADS))])
                    key = f"\x1b[200~{payload[:500]}\x1b[201~"
                else:
                    key = choice.choice(bound if kind < 0.7 else often)
                pressed.append(key)
                outcome.keys[f"{columns}x{rows}"] += 1
                session.terminal.press(key)
                end = time.monotonic() + LONGEST
                while session.take(QUIET) and time.monotonic() < end:
                    pass
                continue_if_suspended(session.terminal.pid)
                if session.ended:
                    break
            if not session.ended:
                session.terminal.press(QUITS)
            code = session.end()
        except (AssertionError, OSError) as error:
            return f"{error} after {pressed[-25:]}; its threads: {abort_and_read_stacks(session)}"
        finally:
            outcome.written += len(session.terminal.output)
    said = " ".join(session.screen.text().split())
    return f"it ended with {code} and said {said!r} after {pressed[-25:]}" if code else ""


def campaign(
    keys: int,
    seed: int,
    only: Sequence[str] = tuple(PROJECTS),
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Walks until so many keys were typed; every walk begins with a copy of its project."""
    outcome = Outcome()
    with temporary_place() as folder:
        made = prepared(folder, only)
        log = folder / "home" / "cache" / "logs" / "workbench.log"
        os.environ["PYTHONFAULTHANDLER"] = "1"  # see `abort_and_read_stacks`
        for number in until_stopped(count()):
            left = keys - outcome.keys.total()
            if left <= 0:
                break
            choice, source = random.Random(f"{seed} {number}"), made[number % len(made)]
            copy = folder / "walk" / source.name
            shutil.copytree(source.parent, copy.parent)
            wrong = walk(copy, SIZES[number % len(SIZES)], min(WALK, left), choice, outcome)
            if log.exists() and "Traceback" in (said := log.read_text("utf-8")):
                wrong = f"{wrong}; a fault in its log: {said[said.index('Traceback') :][-2_000:]}"
            log.unlink(missing_ok=True)
            if wrong:
                outcome.failures.append(f"seed {seed}, walk {number}: {wrong}")
                say(outcome.failures[-1])
            shutil.rmtree(copy.parent)
    return outcome


def main() -> int:
    """Runs the campaign of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(PROJECTS), help="projects, of: %(default)s")
    arguments = parser.parse_args()
    began = time.monotonic()
    only = arguments.only.split(",")
    outcome = campaign(arguments.keys, arguments.seed, only, lambda line: print(line, flush=True))
    print(", ".join(f"{name}: {keys:,}" for name, keys in outcome.keys.items()))
    print(
        f"{outcome.keys.total():,} keys, {outcome.written:,} bytes written, {len(outcome.failures)} failures,"
        f" {time.monotonic() - began:.0f} s"
    )
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
