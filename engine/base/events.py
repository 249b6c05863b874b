"""Events that the engine sends to a listener, which is a plain callable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["done", "cancelled", "failed"]
"""How a job ended."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Progress of a job.

    Attributes:
        job_id: Id of the run record of the present stage; each stage of a run has its own.
        stage: Name of the stage, such as `read`.
        title: What the work is called on screens.
        done: What is done, in `unit`.
        total: What there is to do, in `unit`; None while it is not known.
        unit: What is counted, such as `bytes`.
        rate: Units a second, measured over the recent past; None before two measurements.
        eta_seconds: Seconds left at that rate; None while total or rate is unknown.
        note: What is being worked on, a few words.
        share: Share of the work that is done, 0 to 1, where the units differ in size; None for `done / total`.
        result: What was reached on the way, a sentence; empty where nothing was.
    """

    job_id: int
    stage: str
    title: str
    done: int = 0
    total: int | None = None
    unit: str = ""
    rate: float | None = None
    eta_seconds: float | None = None
    note: str = ""
    share: float | None = None
    result: str = ""


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A job began to run; `job_id` is the id of its run record."""

    job_id: int
    stage: str
    title: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job ended; `message` is a sentence on its result, with counts; `hint` and `code` are those of an error."""

    job_id: int
    stage: str
    title: str
    outcome: Outcome
    message: str
    hint: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class DataChanged:
    """Data changed; `tables` are its topics, see `TABLES_BY_STAGE` of `engine.opener.open_project`."""

    tables: frozenset[str]


@dataclass(frozen=True, slots=True)
class FileChanged:
    """The project file was moved or replaced, or it can be written again because another program has let go of it.

    `ProjectFileWatch.moved` tells which.
    """


@dataclass(frozen=True, slots=True)
class ModelRestarted:
    """The model process was started anew; `reason` is a sentence on why the one before ended."""

    reason: str


Event = JobStarted | JobProgress | JobEnded | DataChanged | FileChanged | ModelRestarted
"""Any event that a listener may get."""

Listener = Callable[[Event], None]
"""Takes an event; any thread may call it."""
