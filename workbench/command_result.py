"""Defines what a command ends with: its exit code, and what it says as text or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.base.errors import Cancelled, UsageError, WorkbenchError

if TYPE_CHECKING:
    from rich.console import RenderableType

EXIT_DONE = 0
"""The command did all that it was asked for."""
EXIT_FAILED = 1
"""The command could not do its work; an error says why."""
EXIT_USAGE = 2
"""The command line was not understood."""
EXIT_INCOMPLETE = 3
"""The command did its work, except for some of the conversations or records; notes say which."""
EXIT_CANCELLED = 130
"""A person stopped the command with Ctrl+C."""


def exit_code(kind: type[WorkbenchError]) -> int:
    """Returns the exit code of a command that ends with an error of this class."""
    if issubclass(kind, Cancelled):
        return EXIT_CANCELLED
    return EXIT_USAGE if issubclass(kind, UsageError) else EXIT_FAILED


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Holds what a command returns. The command line prints its text or its JSON document on standard output.

    Attributes:
        lines: The lines of the text. A command with no lines prints no text.
        json: The document that `--json` prints in place of the text.
        code: The exit code of the process, one of the `EXIT_` constants.
        notes: Sentences for standard error, printed after the result.
        hints: Sentences for standard error that say what else a person may do. They are left out under `--json`.
        drawing: What rich draws in place of the lines, such as a table; None prints the lines.
    """

    lines: Sequence[str]
    json: Any
    code: int = EXIT_DONE
    notes: Sequence[str] = ()
    hints: Sequence[str] = ()
    drawing: RenderableType | None = None
