"""How long until the first picture, beside harlequin and posting, measured from a terminal by turns.

    python -m venv /tmp/h && /tmp/h/bin/pip install harlequin
    python -m venv /tmp/p && /tmp/p/bin/pip install posting
    python -m tests.benchmarks.first_paint /tmp/h/bin/harlequin /tmp/p/bin/posting

Each program gets an empty home of its own, is started once unmeasured, and then by turns. Two times are taken, both
from the start of the process: the end of the first frame with something in it, and the last byte before the program
had nothing to draw for a while, when everything that the first screen shows is there.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.parts.startup import make_project
from tests.benchmarks.parts.terminal import Terminal, drawn

QUIET = 0.35
"""Less than the half period of a blinking cursor, more than any pause before the first screen is whole."""
SECONDS = 30.0


def times(command: Sequence[str], home: Path) -> tuple[float, float]:
    """Seconds to the first frame and to rest.

    Raises:
        SystemExit: The program drew nothing.
    """
    env = {name: str(home) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    env |= {"XDG_CACHE_HOME": str(home), "WORKBENCH_CACHE": str(home), "WORKBENCH_DATA": str(home)}
    with Terminal(command, env=env, cwd=str(home)) as terminal:
        if not terminal.until(drawn, SECONDS):
            raise SystemExit(f"{command[0]} drew nothing: {bytes(terminal.output[-500:])!r}")
        first = terminal.last - terminal.started
        terminal.until_quiet(QUIET, SECONDS)
        return first, terminal.last - terminal.started


def main() -> None:
    """Measures and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("others", nargs="*", help="other full-screen programs, as paths")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--conversations", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-paint-") as name:
        folder = Path(name)
        project = folder / "thousand.wb"
        make_project(project, arguments.conversations)
        commands = [[sys.executable, "-m", "workbench", str(project)]]
        commands += [[path] for path in arguments.others]
        found: list[list[tuple[float, float]]] = [[] for _ in commands]
        for number in range(arguments.rounds + 1):
            for command, rows in zip(commands, found, strict=True):
                home = folder / Path(command[-1]).stem
                home.mkdir(exist_ok=True)
                measured = times(command, home)
                if number:
                    rows.append(measured)
        ours = [statistics.median(row[which] for row in found[0]) for which in (0, 1)]
        for command, rows in zip(commands, found, strict=True):
            medians = [statistics.median(row[which] for row in rows) for which in (0, 1)]
            sys.stdout.write(
                f"{Path(command[-1]).name:<14} first frame {medians[0]:.3f} s"
                f" (ours x {ours[0] / medians[0]:.2f}), at rest {medians[1]:.3f} s"
                f" (ours x {ours[1] / medians[1]:.2f})"
                f"  best {min(row[0] for row in rows):.3f}, {min(row[1] for row in rows):.3f}\n"
            )


if __name__ == "__main__":
    main()
