"""What a command ends with: its exit code, and what it says as text or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

DONE = 0
FAILED = 1
USAGE = 2
WITH_GAPS = 3
CANCELLED = 130


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command. The command line prints its text or its JSON document on standard output.

    Attributes:
        lines: The text; nothing is printed without lines.
        json: The document that `--json` prints.
        code: The exit code.
        notes: Sentences for standard error, after the result.
        hints: Sentences for standard error with the text only: what else a person may do.
    """

    lines: Sequence[str]
    json: Any
    code: int = DONE
    notes: Sequence[str] = ()
    hints: Sequence[str] = ()
