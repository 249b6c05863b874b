"""Runs commands with less memory than they want, and holds what they leave against an undisturbed run.

    python -m tests.campaign.memory --rounds 100 --seed 7 [--only import,score] [--cgroup /sys/fs/cgroup/memory/NAME]

Each round limits the address space of the command and its children (`ulimit -v`), or with `--cgroup`, a group of cgroup
v1 that may be written, the memory of all of them together, so that the system's out-of-memory killer ends one of them.
The command must end well, or say that memory ran out (or be killed itself), without an unforeseen exception; then the
file must pass `PRAGMA integrity_check`, and the same command without a limit must give what an undisturbed run gives,
as in `tests.campaign.kills`.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaign.kills import ENDS, OPERATIONS, Campaign
from tests.campaign.stopping import until_stopped

LEAST, MOST = {False: 120 << 20, True: 60 << 20}, {False: 3 << 30, True: 400 << 20}
"""Bytes between which the limit lies: of address space, and of memory."""

KILLED = -signal.SIGKILL
WORDS = ("memory", "room", "thread", "killed")
"""What the error must speak of."""


@dataclass
class Outcome:
    """What a campaign saw.

    Attributes:
        rounds: Rounds by operation.
        ended: Rounds by operation and how the command ended: `well`, `with an error`, or `killed` by the system.
        failures: A sentence for each failure.
    """

    rounds: Counter[str] = field(default_factory=Counter)
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def limited(limit: int, group: Path | None) -> Callable[[], None]:
    """What the command does before it begins."""

    def work() -> None:
        if group is None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        else:
            (group / "cgroup.procs").write_text("0")

    return work


def wrong_in(ended: int, said: str) -> str:
    """What is wrong with how a command ended; empty when nothing is."""
    if "This is a fault" in said:
        return f"an exception that nobody foresaw: {said[-600:]}"
    if ended in ENDS or ended == KILLED:
        return ""
    if not any(word in said.lower() for word in WORDS):
        return f"it ended with {ended} and does not say that memory ran out: {said[-600:]}"
    return ""


def campaign(
    rounds: int,
    seed: int,
    only: list[str],
    group: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Runs `rounds` rounds, the operations by turns."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="memory-") as folder:
        made = Campaign(Path(folder) / "c")
        references: dict[str, Any] = {}
        for number in until_stopped(range(rounds)):
            name = only[number % len(only)]
            if name not in references:
                references[name] = made.reference(name)[1]
            share = random.Random(f"{seed} {number}").random()
            grouped = group is not None
            limit = int(LEAST[grouped] * (MOST[grouped] / LEAST[grouped]) ** share)
            if group is not None:
                (group / "memory.limit_in_bytes").write_text(str(limit))
            place = made.fresh(name, "round")
            operation = OPERATIONS[name]
            made.before_start = limited(limit, group)
            child = made.run(operation.command, place, operation.module)
            made.before_start = None
            try:
                ended = child.wait(300)
                wrong = wrong_in(ended, (place / "stderr.txt").read_text("utf-8", "replace"))
            except subprocess.TimeoutExpired:
                child.kill()
                ended, wrong = child.wait(), "it ran longer than 300 s"
            try:
                wrong = wrong or made.after(name, place, references[name])
            except Exception as error:  # noqa: BLE001 - a campaign goes on; what happened is what it is for
                wrong = f"{type(error).__name__}: {error}"
            shutil.rmtree(place)
            how = "well" if ended in ENDS else "killed" if ended == KILLED else "with an error"
            outcome.rounds[name] += 1
            outcome.ended[name, how] += 1
            if wrong:
                outcome.failures.append(f"{name}, {limit >> 20} MiB: {wrong}")
                say(outcome.failures[-1])
    return outcome


def main() -> int:
    """Runs the campaign of the command line and prints its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", help=f"operations with commas between them, of: {', '.join(OPERATIONS)}"
    )
    parser.add_argument("--cgroup", type=Path, help="group of cgroup v1 to run in")
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else list(OPERATIONS)
    began = time.monotonic()
    outcome = campaign(
        arguments.rounds,
        arguments.seed,
        only,
        arguments.cgroup,
        lambda line: print(line, flush=True),
    )
    hows = ("well", "with an error", "killed")
    print(f"\n{'operation':<14}{'rounds':>8}" + "".join(f"{how:>16}" for how in hows))
    for name in only:
        counts = "".join(f"{outcome.ended[name, how]:>16}" for how in hows)
        print(f"{name:<14}{outcome.rounds[name]:>8}{counts}")
    print(f"{len(outcome.failures)} failures, {time.monotonic() - began:.0f} s")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
