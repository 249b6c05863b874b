"""Rows of the model service: models and adapters on disk, pulls, repositories of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Kind = Literal["model", "endpoint", "adapter"]
PullState = Literal["waiting", "pulling", "checking", "paused", "failed", "done"]
Work = Literal["scoring", "goals", "trees", "simulation"]
WORKS: Final[dict[Work, str]] = {
    "scoring": "scores and remaining tasks",
    "goals": "summaries, labels and merges",
    "trees": "response trees",
    "simulation": "conversations that are played",
}
"""The kinds of work that a project can choose a model for, each with a description."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model, an endpoint or an adapter in the list.

    Attributes:
        origin: `built in`, `added`, `pulled`, or another origin, for display.
        source: Repository or folder.
        size: Bytes on disk; None if there is no file.
        memory: Bytes of memory that it needs with the default context; None if unknown.
        fits: Whether the machine has so much memory; None if either figure is unknown.
        runs_as: Format that tuning found fastest, empty before tuning.
        tokens_per_s: Of a prompt, as measured on this machine.
        licence: Empty if unknown.
        note: The name in the model's header; for an adapter its base model and figures; for an endpoint its abilities.
        problem: Why it cannot be used; empty when it can.
        works: The kinds of work that this project uses it for when a run names no model.
    """

    name: str
    kind: Kind
    origin: str
    source: str = ""
    size: int | None = None
    memory: int | None = None
    fits: bool | None = None
    runs_as: str = ""
    tokens_per_s: float | None = None
    licence: str = ""
    note: str = ""
    problem: str = ""
    works: tuple[Work, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact about a model, for a table of two columns."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class PullRow:
    """The state of a pull.

    Attributes:
        name: Name that the model will have in the catalogue.
        done, total: Bytes; of the file that is checked while the state is `checking`.
        rate: Bytes a second over the recent past; None before two measurements.
        seconds_left: Estimated at that rate.
        redirect: `from HOST` when the hub sends the download on to another host; else empty.
        problem, hint: Why it failed and what to do; empty otherwise.
    """

    name: str
    repository: str
    file: str
    state: PullState
    done: int
    total: int
    rate: float | None = None
    seconds_left: float | None = None
    redirect: str = ""
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class HubRow:
    """A repository found by a search; `downloads` are those of the last month."""

    name: str
    licence: str
    gated: bool
    downloads: int
    changed: str


@dataclass(frozen=True, slots=True)
class HubFileRow:
    """One model of a repository.

    Attributes:
        name: Its path in the repository.
        parts: Number of files that it is split into.
        fits: Whether its weights alone fit into memory; None if unknown.
    """

    name: str
    size: int
    parts: int
    fits: bool | None


@dataclass(frozen=True, slots=True)
class HubPage:
    """The files of one repository.

    Attributes:
        revision: Commit.
        files: Models, smallest first.
        left_out: Number of other GGUF files, which cannot be pulled.
        page: URL of its web page.
        room: Free bytes on the disk that holds pulled files.
    """

    name: str
    revision: str
    licence: str
    gated: bool
    files: tuple[HubFileRow, ...]
    left_out: int
    page: str
    room: int


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A model of the recommended sets.

    Attributes:
        memory: Bytes of memory of the machines that its set is for.
        role: `instruct`, `base` or `embedder`.
        file: A part of the file's name.
        size: Approximate size of the file in bytes.
        here: Whether its set is recommended for this machine.
    """

    memory: int
    role: str
    repository: str
    file: str
    size: int
    licence: str
    note: str
    here: bool


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Which model a run is to load.

    Attributes:
        work: What the model is loaded for.
        model: Name or path; None is the one that the adapter was made for, or that the project uses for the work.
        adapter: Name, file or run of an adapter, or None.
        tuned: Where no adapter is named, take the one in use, otherwise the one that comes with the program.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
    """

    work: Work
    model: str | None = None
    adapter: str | Path | None = None
    tuned: bool = False
    context: int | None = None
