"""Errors for users: each has a message on what happened and where, and a hint on what to do.

WorkbenchError
├── ProjectError      the project file cannot be opened, read or written
│   ├── ProjectLocked     another workbench is writing it
│   └── ProjectReadOnly   a write was asked of a project opened read-only
├── FormatError       an input cannot be read as conversations
│   └── UnknownFormat     a file was opened, and is in no known format
├── ModelError        the model process cannot do what was asked
│   ├── ModelFileError    the weights are missing, damaged or of an unsupported kind
│   ├── ModelCrashed      the model process died while working on a request
│   └── RequestRefused    one request cannot be answered; others may be
├── NetworkRefused    something tried to reach another machine
├── Cancelled         a person cancelled the work; not an error
└── UsageError        the words of a command do not fit together
"""

from __future__ import annotations


class WorkbenchError(Exception):
    """Base of every error that is shown to a person.

    Args:
        message: What happened and where, one sentence.
        hint: What to do about it, one sentence; empty when there is nothing to do.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class ProjectError(WorkbenchError):
    """The project file cannot be opened, read or written."""


class ProjectLocked(ProjectError):
    """Another workbench holds the right to write this project."""


class ProjectReadOnly(ProjectError):
    """A write was asked of a project that is open read-only."""


class FormatError(WorkbenchError):
    """An input cannot be read as conversations."""


class UnknownFormat(FormatError):
    """A file was opened, and is in no known format.

    Args:
        path: The file, as the person gave it.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message, "Say where its messages are with `workbench import --map`.")
        self.path = path


class ModelError(WorkbenchError):
    """The model process cannot do what was asked."""


class ModelFileError(ModelError):
    """The weights are missing, damaged or of a kind that is not supported."""


class ModelCrashed(ModelError):
    """The model process died while it worked on a request."""


class RequestRefused(ModelError):
    """What was asked about one item cannot be answered honestly; other items may be."""


class NetworkRefused(WorkbenchError):
    """Something tried to reach another machine though nobody asked for it."""


class Cancelled(WorkbenchError):
    """The work was cancelled by a person; what was committed before stays."""


class UsageError(WorkbenchError):
    """The words of a command do not fit together."""
