"""Records of models: the request for one, rows of models on disk, pulls, repositories of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from engine.base.errors import NotFound, UsageError
from engine.model.catalog_files import PartFile

Kind = Literal["model", "endpoint", "adapter"]
"""What a row of the list of models is."""

PullState = Literal["waiting", "pulling", "checking", "paused", "failed", "done"]
"""The state of a pull; the first three go on by themselves."""

Work = Literal["scoring", "goals", "trees", "simulation", "questions"]
"""A kind of work that a project can choose a model for."""


Purpose = Literal["instruct", "base", "embedder"]
"""What a recommended model is for."""

WORKS: Final[dict[Work, str]] = {
    "scoring": "scores and remaining tasks",
    "goals": "summaries, labels and merges",
    "trees": "response trees",
    "simulation": "conversations that are played",
    "questions": "answers to questions",
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
        license: Empty if unknown.
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
    license: str = ""
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
        name: Name that the model will have in the catalog.
        done, total: Bytes of all files; while the state is `checking`, of the file that is checked.
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
class HubModel:
    """A repository in the results of a search.

    Attributes:
        gated: Whether its owners hand it out on request only.
        license: License that its tags name; empty if they name none.
        downloads: Number of downloads in the last month, as the hub counts.
        changed: Date of the last change, ISO 8601; empty if the hub does not say.
    """

    name: str
    gated: bool
    license: str
    downloads: int
    likes: int
    changed: str


@dataclass(frozen=True, slots=True)
class HubFile:
    """One model of a repository: a file, or the parts of a split one in order."""

    parts: tuple[PartFile, ...]

    @property
    def name(self) -> str:
        """The path of the first part in the repository."""
        first, *_ = self.parts
        return first.path

    @property
    def size(self) -> int:
        """The bytes of all parts."""
        return sum(part.size for part in self.parts)


@dataclass(frozen=True, slots=True)
class HubRepository:
    """The GGUF files of a repository at one commit, smallest first.

    Attributes:
        revision: Commit.
        left_out: Number of other GGUF files, which cannot be pulled because of their name, checksum or parts.
    """

    name: str
    revision: str
    license: str
    gated: bool
    files: tuple[HubFile, ...]
    left_out: int = 0

    def file(self, words: str | None) -> HubFile:
        """Returns the file with this path, else the one whose path contains the text, such as `Q4_K_M`.

        Args:
            words: The path or a part of it; None for the only file.

        Raises:
            UsageError: None or several could be meant.
        """
        if not self.files:
            raise UsageError(
                f"{self.name} has no GGUF file that can be pulled.",
                "Look for a repository whose name ends in GGUF.",
            )
        exact = [file for file in self.files if file.name == words]
        matching = exact or [
            file for file in self.files if words is None or words.lower() in file.name.lower()
        ]
        if len(matching) == 1:
            (file,) = matching
            return file
        names = ", ".join(f"{file.name} ({file.size / 1e9:.1f} GB)" for file in self.files)
        if not matching:
            raise NotFound(f"{self.name} has no file {words!r}.", f"It has {names}.")
        raise UsageError(f"{self.name} has {len(matching)} such files.", f"Name one of {names}.")


@dataclass(frozen=True, slots=True)
class HubPage:
    """A repository, as a person chooses a file of it.

    Attributes:
        page: URL of its web page.
        room: Free bytes on the disk that holds pulled files.
        memory: Bytes of memory of this machine; None if unknown.
    """

    repository: HubRepository
    page: str
    room: int
    memory: int | None

    def fits(self, file: HubFile) -> bool | None:
        """Returns whether the weights of a file alone fit into memory; None if unknown."""
        return None if self.memory is None else file.size <= self.memory


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Which model a run is to load.

    Attributes:
        work: What the model is loaded for.
        model: Name or path; None is the one that the adapter was made for, or that the project uses for the work.
        adapter: Name, file or run of an adapter, or None.
        tuned: Where no adapter is named, take the one in use, if there is one.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        first_layers: Of the built-in model without an adapter, load the first `catalog.FIRST_LAYERS` layers only.
        max_cost, fresh: See `Spending`.
    """

    work: Work
    model: str | None = None
    adapter: str | Path | None = None
    tuned: bool = False
    context: int | None = None
    first_layers: bool = False
    max_cost: float | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Recommended:
    """One model of a set.

    Attributes:
        role: What it is for: `instruct` (scores, trees, summaries, labels), `base` (to be trained on), `embedder`
            (vectors of summaries).
        repository: OWNER/NAME on the hub.
        file: A part of the file's name that matches one file of the repository.
        size: Approximate size in bytes; in the file in GB.
        license: Name that its owners give.
        note: A sentence for whoever chooses.
    """

    role: Purpose
    repository: str
    file: str
    size: int
    license: str
    note: str


@dataclass(frozen=True, slots=True)
class RecommendedSet:
    """The recommended models for machines of one size.

    Attributes:
        memory: Bytes of memory of these machines.
        here: Whether this machine is one of them.
    """

    memory: int
    models: tuple[Recommended, ...]
    here: bool = False
