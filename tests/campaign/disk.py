"""Lets writes of commands fail, as on a full or broken disk, and holds what they leave against an undisturbed run.

    python -m tests.campaign.disk --rounds 200 --seed 7 [--only import,score]

A library (`failing_writes.c`, compiled when a campaign begins) makes the n-th write, fsync, truncation or rename on
the files of a round fail: with ENOSPC or EIO, once or from there on. Within two minutes the command must end well, or
with exit code 1 and an error that names the file or says why, never with an unforeseen exception. Then the file must
pass `PRAGMA integrity_check`, and the same command must give what an undisturbed run gives, as in
`tests.campaign.kills`.
"""

from __future__ import annotations

import argparse
import errno
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaign.kills import ENDS, OPERATIONS, Campaign

SOURCE = Path(__file__).with_name("failing_writes.c")
FAILED = 1
LONGEST_S = 120.0


@dataclass
class Outcome:
    """What a campaign saw.

    Attributes:
        rounds: Rounds by operation.
        ended: Those that ended with an error; the others did their work though a call failed.
        calls: Number of calls of an undisturbed run, by operation.
        failures: A sentence for each failure.
    """

    rounds: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    calls: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def compiled(folder: Path, source: Path = SOURCE) -> Path | None:
    """The library of a source, by default the one that makes writes fail; None where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    library = folder / f"{source.stem}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


class FullDisk:
    """Rounds of commands of which one write fails."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.campaign = Campaign(folder)
        self._plain = self.campaign.environment
        self._library, self._count = library, folder / "calls"

    def failing(self, at: int, code: int, once: bool) -> dict[str, str]:
        """The environment of a command whose call number `at` fails."""
        return {
            **self._plain,
            "LD_PRELOAD": str(self._library),
            "FAIL_UNDER": str(self.campaign.folder / "round"),
            "FAIL_AT": str(at),
            "FAIL_WITH": str(code),
            "FAIL_ONCE": str(int(once)),
            "FAIL_COUNT": str(self._count),
        }

    def calls(self, name: str) -> int:
        """Number of calls that can fail when nobody disturbs the command."""
        folder = self.campaign.fresh(name, "round")
        self._count.unlink(missing_ok=True)
        self.campaign.environment = self.failing(0, 0, once=False)
        code = self.campaign.run(OPERATIONS[name].command, folder).wait()
        self.campaign.environment = self._plain
        shutil.rmtree(folder)
        if code not in ENDS:
            raise RuntimeError(f"{name} ended with {code}")
        return self._count.stat().st_size

    def round(self, name: str, at: int, code: int, once: bool, expected: Any) -> tuple[int, str]:
        """The exit code of the command, and what is wrong with it or afterwards; empty when nothing is."""
        folder = self.campaign.fresh(name, "round")
        self.campaign.environment = self.failing(at, code, once)
        try:
            child = self.campaign.run(OPERATIONS[name].command, folder)
            try:
                ended = child.wait(LONGEST_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                return FAILED, f"it ran longer than {LONGEST_S:.0f} s"
            finally:
                self.campaign.environment = self._plain
            said = (folder / "stderr.txt").read_text("utf-8", "replace")
            try:
                wrong = wrong_in(ended, said) or self.campaign.after(name, folder, expected)
            except Exception as error:  # noqa: BLE001 - a campaign goes on; what happened is what it is for
                wrong = f"{type(error).__name__}: {error}"
            return ended, wrong
        finally:
            shutil.rmtree(folder)


def wrong_in(ended: int, said: str) -> str:
    """What is wrong with how a command ended; empty when nothing is."""
    if "Traceback" in said or "This is a fault" in said:
        return f"an exception that nobody foresaw: {said[-800:]}"
    if ended in ENDS:
        return ""
    if ended != FAILED:
        return f"it ended with {ended}: {said[-400:]}"
    words = ("p.wb", "out.", "disk", "space", "written", "saved")
    if not any(word in said for word in words):
        return f"the error does not say what could not be written: {said[-400:]}"
    return ""


def campaign(
    rounds: int,
    seed: int,
    only: list[str],
    library: Path,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Runs `rounds` rounds, the operations by turns; one of each kind of failure after the other."""
    outcome = Outcome()
    kinds = [(code, once) for code in (errno.ENOSPC, errno.EIO) for once in (False, True)]
    with tempfile.TemporaryDirectory(prefix="disk-") as made:
        disk = FullDisk(Path(made) / "c", library)
        references: dict[str, Any] = {}
        for number in range(rounds):
            name = only[number % len(only)]
            if name not in references:
                references[name] = disk.campaign.reference(name)[1]
                outcome.calls[name] = disk.calls(name)
                say(f"{name}: {outcome.calls[name]} calls")
            at = random.Random(f"{seed} {number}").randint(1, max(1, outcome.calls[name]))
            code, once = kinds[(number // len(only)) % len(kinds)]
            ended, wrong = disk.round(name, at, code, once, references[name])
            outcome.rounds[name] += 1
            outcome.ended[name] += ended not in ENDS
            if wrong:
                kind = f"{errno.errorcode[code]} {'once' if once else 'from then on'}"
                outcome.failures.append(f"{name}, call {at}, {kind}: {wrong}")
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
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else list(OPERATIONS)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="library-") as folder:
        library = compiled(Path(folder))
        if library is None:
            parser.error("a C compiler is needed")
        outcome = campaign(
            arguments.rounds, arguments.seed, only, library, lambda line: print(line, flush=True)
        )
    print(f"\n{'operation':<14}{'calls':>8}{'rounds':>8}{'errors':>8}")
    for name in only:
        counts = (outcome.calls.get(name, 0), outcome.rounds[name], outcome.ended[name])
        print(f"{name:<14}" + "".join(f"{count:>8}" for count in counts))
    print(f"{len(outcome.failures)} failures, {time.monotonic() - began:.0f} s")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
