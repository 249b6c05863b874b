"""Decides merge proposals with keys on a terminal, until so many are decided: one round of `tests.campaign.kills`.

    python -m tests.campaign.desk PROJECT --decisions 6

Which key comes next follows from what the desk says was decided, so that the same command goes on after a kill. It
ends with the exit status of the program, negative for a signal.
"""

from __future__ import annotations

import argparse
import re
import sys

from tests.terminal.pty import Session

KEYS = "ynyyNnyn"
"""Merge, not now, never: by turns."""

DECIDED = re.compile(r"(\d+) merged, (\d+) refused")


def decide(project: str, decisions: int) -> int:
    """Decides and returns the exit status of the program."""
    with Session(project, columns=120, rows=40) as session:
        try:
            session.wait(lambda seen: "conversations" in seen.lower())
            session.press_until(lambda seen: DECIDED.search(seen) is not None, "6")
            while (done := counted(session)) < decisions:
                session.press_until(
                    lambda seen, done=done: counted(session) > done,  # type: ignore[misc]
                    KEYS[done % len(KEYS)],
                )
            session.terminal.press(b"\x11")  # ctrl+q
            return session.end()
        except AssertionError:
            if session.terminal.status is not None:  # it was killed
                return session.terminal.status
            raise


def counted(session: Session) -> int:
    """How many decisions the desk shows."""
    found = DECIDED.search(session.screen.text())
    return 0 if found is None else sum(map(int, found.groups()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("project")
    parser.add_argument("--decisions", type=int, default=6)
    asked, _ = parser.parse_known_args()
    sys.exit(decide(asked.project, asked.decisions))
