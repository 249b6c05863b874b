"""Runs commands in unusual surroundings, and holds what they give against a run in usual ones.

    python -m tests.campaign.surroundings [--only import,export] [--in C,clock]

The surroundings are locales (those that the system lacks are made by `localedef`, where it is there), time zones, a
clock that jumps, a home that cannot be written, and terminals without colors or with nothing at all. Everything that is
exported must be the same, bit for bit, with as many rows in every table, as in `tests.campaign.kills`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaign.disk import compiled
from tests.campaign.kills import ENDS, OPERATIONS, Campaign, difference, result
from tests.campaign.stopping import until_stopped

LOCALES = {
    "tr_TR.UTF-8": ("tr_TR", "UTF-8"),
    "tr_TR.ISO-8859-9": ("tr_TR", "ISO-8859-9"),
    "de_DE.ISO-8859-1": ("de_DE", "ISO-8859-1"),
    "ja_JP.EUC-JP": ("ja_JP", "EUC-JP"),
}
"""Names of locales, and what `localedef` makes them of."""

OPERATIONS_BY_DEFAULT = ("import", "check", "cluster", "verdicts", "scores", "export", "report")


@dataclass
class Outcome:
    """What a campaign saw.

    Attributes:
        rounds: Rounds by surroundings.
        failures: A sentence for each failure.
    """

    rounds: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def surroundings(folder: Path) -> dict[str, dict[str, str]]:
    """Environment variables by what they make."""
    bare = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    found = {f"locale {name}": {**bare, "LC_ALL": name} for name in ("C", "C.UTF-8", "none_NO")}
    if localedef := shutil.which("localedef"):
        for name, (source, charset) in LOCALES.items():
            made = subprocess.run(
                [localedef, "-i", source, "-f", charset, folder / name],
                capture_output=True,
                check=False,
            )
            if made.returncode == 0:
                found[f"locale {name}"] = {**bare, "LC_ALL": name, "LOCPATH": str(folder)}
    for zone in ("Asia/Kathmandu", "Pacific/Kiritimati", "America/St_Johns", "nowhere"):
        found[f"time zone {zone}"] = {"TZ": zone}
    if library := compiled(folder, Path(__file__).with_name("jumping_clock.c")):
        found["a clock that jumps"] = {"LD_PRELOAD": str(library)}
    found["a home that cannot be written"] = {"HOME": "/proc/none"}
    found["TERM=dumb"] = {"TERM": "dumb", "COLUMNS": "0", "LINES": "0"}
    found["NO_COLOR"] = {"NO_COLOR": "1", "TERM": "vt100"}
    return found


def campaign(
    only: list[str], where: list[str] | None, say: Callable[[str], None] = lambda line: None
) -> Outcome:
    """Runs each operation in each of the surroundings whose names have one of the words of `where`."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="surroundings-") as name:
        folder = Path(name)
        made, references = Campaign(folder / "c"), dict[str, Any]()
        usual = made.environment
        rounds = [
            (place, given, operation)
            for place, given in surroundings(folder).items()
            if where is None or any(word in place for word in where)
            for operation in only
        ]
        for number in until_stopped(range(len(rounds))):
            place, given, operation = rounds[number]
            if operation not in references:
                references[operation] = made.reference(operation)[1]
            at = made.fresh(operation, "round")
            made.environment = {**usual, **given}
            code = made.run(OPERATIONS[operation].command, at).wait()
            made.environment = usual
            outcome.rounds[place] += 1
            wrong = ""
            if code not in ENDS:
                wrong = (
                    f"ended with {code}: {(at / 'stderr.txt').read_text('utf-8', 'replace')[-400:]}"
                )
            elif (found := result(at, OPERATIONS[operation])) != references[operation]:
                wrong = difference(references[operation], found)
            if wrong:
                outcome.failures.append(f"{operation}, {place}: {wrong}")
                say(outcome.failures[-1])
            shutil.rmtree(at)
    return outcome


def main() -> int:
    """Runs the campaign of the command line and prints its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(OPERATIONS_BY_DEFAULT), help="operations")
    parser.add_argument("--in", dest="where", help="words of surroundings; by default all")
    arguments = parser.parse_args()
    began = time.monotonic()
    outcome = campaign(
        arguments.only.split(","),
        arguments.where and arguments.where.split(","),
        lambda line: print(line, flush=True),
    )
    for place, rounds in outcome.rounds.items():
        print(f"{place:<34}{rounds:>6}")
    print(f"{len(outcome.failures)} failures, {time.monotonic() - began:.0f} s")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
