"""What the models screens need of the rest of the program: models and adapters on disk, the hub, pulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.records.models import Work

Kind = Literal["model", "endpoint", "adapter"]
PullState = Literal["waiting", "pulling", "checking", "paused", "failed", "done"]


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model, an endpoint or an adapter as it stands in the list.

    Attributes:
        origin: `built in`, `added`, `pulled`, or another word for where it is from.
        source: Repository or folder.
        size: Bytes on disk; None where the file is gone, or there is none.
        memory: Bytes that it takes when it is loaded for a log of the usual length; None where that is not known.
        fits: Whether that is there; None where either is not known.
        runs_as: Format that tuning found fastest, empty before tuning.
        tokens_per_s: Of a prompt, as measured on this machine.
        licence: Empty where nobody says.
        note: What an adapter is for; what else is to be said in a few words.
        problem: Why it cannot be used; empty when it can.
        works: What this project uses it for, where a run names no model.
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
    """One line of what is known of a model."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class PullRow:
    """A pull as it stands.

    Attributes:
        name: What the model will be called.
        done, total: Bytes; of the file that is checked while the state is `checking`.
        rate: Bytes a second over the recent past; None before two measurements.
        seconds_left: At that rate.
        said: Where the download comes from when not from the hub itself.
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
    said: str = ""
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class HubRow:
    """A repository that a search found; `downloads` in the last month."""

    name: str
    licence: str
    gated: bool
    downloads: int
    changed: str


@dataclass(frozen=True, slots=True)
class HubFileRow:
    """One model of a repository.

    Attributes:
        name: Its place there.
        parts: Files that it consists of.
        fits: Whether its weights alone fit into the memory there is; None where that is not known.
    """

    name: str
    size: int
    parts: int
    fits: bool | None


@dataclass(frozen=True, slots=True)
class HubPage:
    """A repository that was looked at.

    Attributes:
        revision: Its commit.
        files: Smallest first.
        left_out: How many more GGUF files there are that cannot be pulled.
        page: Where a person reads about it.
        room: Bytes free on the disk that a pull goes to.
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
        memory: Bytes of the machines that its set is for.
        role: `instruct`, `base` or `embedder`.
        file: A piece of the file's name; `size` is about how many bytes it has.
        here: Whether the set is the one for this machine.
    """

    memory: int
    role: str
    repository: str
    file: str
    size: int
    licence: str
    note: str
    here: bool


class Models(Protocol):
    """Models and adapters of this machine. Not one method is quick but `pulls`, `pause`: the others read files or ask
    the hub. Those that name a model or a pull raise UsageError when it is not there."""

    def rows(self) -> list[ModelRow]:
        """Models, the built-in one first, then endpoints, then adapters."""

    def facts(self, name: str) -> list[Fact]:
        """Everything known of a model or adapter: path, checksum, source, sizes, memory by what takes it, tuning."""

    def pulls(self) -> list[PullRow]:
        """Quick. Pulls that work, rest or failed, and those that ended since the program was started, by name."""

    def hub(self) -> str:
        """The host that would be asked; raises WorkbenchError saying why none can be."""

    def recommended(self) -> list[Recommendation]:
        """The recommended models, for the smallest machine first."""

    def search(self, text: str) -> list[HubRow]:
        """Repositories of the hub with GGUF files."""

    def look_at(self, repository: str) -> HubPage:
        """The files of a repository."""

    def pull(self, repository: str, file: str) -> str:
        """Begins a pull in the background and returns its name; the next call of `pulls` has it."""

    def go_on(self, name: str) -> None:
        """Goes on with a pull that rests or failed."""

    def pause(self, name: str) -> None:
        """Quick. Stops a pull soon; what has arrived is kept."""

    def give_up(self, name: str) -> None:
        """Deletes what has arrived of a pull that rests."""

    def verify(self, name: str) -> str:
        """Computes the checksums of a model's files anew and reads their headers; says that all is well, raises
        ModelFileError when not."""

    def removal(self, name: str) -> str:
        """What `remove` would do, in words; raises UsageError for what cannot be removed."""

    def remove(self, name: str) -> None:
        """Deletes what was pulled, forgets what was added."""

    def add(self, path: str) -> list[str]:
        """Adds a GGUF file, or those of a folder, and returns their names; raises ModelFileError for what is none."""

    def use(self, name: str, works: Sequence[Work]) -> None:
        """Lets this project use a model for some work where a run names none; raises ProjectReadOnly."""

    def tune(self, name: str) -> int:
        """Measures on this machine which format of a model is fastest, in the background; returns the job id."""
