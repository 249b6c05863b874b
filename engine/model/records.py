"""Records of models: the request for the model of a run, rows of the list of models, and repositories of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from engine.base.errors import NotFound, UsageError
from engine.model.catalog_files import HubFile

RowKind = Literal["model", "endpoint", "adapter"]
"""What kind of thing a row of the list of models is."""

Work = Literal["scoring", "goals", "trees", "simulation", "questions"]
"""A kind of work that a project can choose a model for."""

WORKS: Final[dict[Work, str]] = {
    "scoring": "scores and remaining tasks",
    "goals": "summaries, labels and merges",
    "trees": "response trees",
    "simulation": "conversations that are played",
    "questions": "answers to questions",
}
"""The kinds of work that a project can choose a model for, each with a description."""

BUILT_IN_LIMITS: Final[dict[Work, str]] = {
    "goals": "only as in the paper (--paper)",
    "questions": "only with --anyway, near chance",
}
"""The kinds of work that the built-in model is used for only on request, each with how."""


Fact = tuple[str, str]
"""Name and value of one fact about a model."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model, an endpoint or an adapter in the list.

    Attributes:
        name: Name in the catalog.
        kind: What the row is.
        origin: `built in`, `added`, `pulled`, or another origin, for display.
        source: Repository or folder.
        size: Bytes on disk; None if there is no file.
        memory: Bytes of memory that it needs with the default context; None if unknown.
        fits: Whether the machine has so much memory; None if either figure is unknown.
        runs_as: Format that tuning found fastest, empty before tuning.
        tokens_per_s: Tokens of a prompt that it reads in a second, as measured on this machine; None before.
        license: Empty if unknown.
        note: The name in the model's header; for an adapter its base model and figures; for an endpoint its abilities.
        problem: Why it cannot be used; empty when it can.
        works: The kinds of work that this project uses it for when a run names no model.
    """

    name: str
    kind: RowKind
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
class HubModel:
    """A repository in the results of a search.

    Attributes:
        name: OWNER/NAME of the repository.
        gated: Whether its owners hand it out on request only.
        license: License that its tags name; empty if they name none.
        downloads: Number of downloads in the last month, as the hub counts.
        likes: How many people like it on the hub.
        changed: Date of the last change, ISO 8601; empty if the hub does not say.
    """

    name: str
    gated: bool
    license: str
    downloads: int
    likes: int
    changed: str


@dataclass(frozen=True, slots=True)
class HubRepository:
    """The GGUF files of a repository at one commit, smallest first.

    Attributes:
        name: OWNER/NAME.
        revision: Commit.
        license, gated: See `HubModel`.
        files: Its GGUF files.
        left_out: Number of other GGUF files, which cannot be pulled because of their name or checksum, or as one of
            several that make a model.
    """

    name: str
    revision: str
    license: str
    gated: bool
    files: tuple[HubFile, ...]
    left_out: int = 0

    def find_file(self, path_part: str | None) -> HubFile:
        """Returns the file with this path, else the one whose path contains it, such as `Q4_K_M`.

        Args:
            path_part: The path or a part of it; None for the only file.

        Raises:
            NotFound: No file has it.
            UsageError: There is no file to pull, or several have it.
        """
        if not self.files:
            raise UsageError(
                f"{self.name} has no GGUF file that can be pulled.",
                "Look for a repository whose name ends in GGUF.",
            )
        exact = [file for file in self.files if file.path == path_part]
        part = (path_part or "").lower()
        matching = exact or [file for file in self.files if part in file.path.lower()]
        if len(matching) == 1:
            (file,) = matching
            return file
        names = ", ".join(f"{file.path} ({file.size / 1e9:.1f} GB)" for file in self.files)
        if not matching:
            raise NotFound(f"{self.name} has no file {path_part!r}.", f"It has {names}.")
        raise UsageError(f"{self.name} has {len(matching)} such files.", f"Name one of {names}.")


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Which model a run is to load.

    Attributes:
        work: What the model is loaded for.
        model: Name or path; None is the one that the adapter was made for, or that the project uses for the work.
        adapter: Name, file or run of an adapter, or None.
        tuned: Whether the adapter in use is taken where `adapter` names none.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        first_layers: Of the built-in model without an adapter, load the first `catalog.FIRST_LAYERS` layers only.
        max_cost, fresh: See `engine.model.interface.Spending`.
    """

    work: Work
    model: str | None = None
    adapter: str | Path | None = None
    tuned: bool = False
    context: int | None = None
    first_layers: bool = False
    max_cost: float | None = None
    fresh: bool = False
