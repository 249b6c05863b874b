"""Whether a person is there to use the screens."""

from __future__ import annotations

import sys

from engine.base.errors import UsageError


def on_terminal() -> bool:
    """Whether standard input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def require_terminal() -> None:
    """Refuses to draw screens where nobody sees them or can press a key: they would never end.

    Raises:
        UsageError: Standard input or output is no terminal.
    """
    if not on_terminal():
        raise UsageError(
            "The screens need a terminal, and standard input or output is none.",
            "`workbench status PROJECT`, `list` and the other commands need none.",
        )
