"""Pulls a model from the hub into the catalogue. An interrupted pull can be resumed.

All state is on disk: a partial file beside the place of each incomplete file, and the plan beside the first file. So a
pull that ended in any way, even with a killed process, resumes from there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from engine.errors import ModelError, ModelFileError, NetworkRefused, UsageError
from engine.model.gguf_file import read_gguf
from engine.model.hub.access import Hub
from engine.model.hub.download import Fetch, Paused
from engine.model.hub.repositories import HubFile, HubRepository
from engine.model.manifest import PULLED, Manifest, PartFile, read_manifest

PLAN = ".pull.json"
PART = ".part"
SPARE = 500_000_000
"""Bytes that a pull leaves free on the disk."""
_CHUNK = 1 << 20

PullState = Literal["waiting", "pulling", "checking", "paused", "failed"]


@dataclass(frozen=True, slots=True)
class PullProgress:
    """The progress of a pull.

    Attributes:
        done, total: Bytes of all files.
        said: Host of the download if it is not the hub itself; empty otherwise.
    """

    state: PullState
    done: int
    total: int
    said: str = ""


Tell = Callable[[PullProgress], None]


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What is to be pulled, and where it will lie.

    Attributes:
        folder: Of the files.
        wanted: What the manifest will say.
    """

    folder: Path
    wanted: Manifest

    @property
    def name(self) -> str:
        """What the model will be called in the catalogue."""
        return self.wanted.name

    @property
    def first(self) -> Path:
        """Its first file, once it is there."""
        return self.folder / self.wanted.files[0].name

    @property
    def file(self) -> Path:
        """Where the plan lies while it is not carried out."""
        return self.first.with_suffix(PLAN)

    @property
    def done(self) -> int:
        """Bytes that are on disk."""
        return sum(
            _size(self.folder / one.name) or _size(self.part(one)) for one in self.wanted.files
        )

    def part(self, one: PartFile) -> Path:
        """Where a file lies while it is not whole."""
        return self.folder / (one.name + PART)


def plan_pull(
    data: Path, hub: Hub, repository: HubRepository, file: HubFile, name: str | None = None
) -> PullPlan:
    """The plan for a file of a repository, the one that was begun where there is one; nothing is written yet.

    Args:
        data: The data folder of the program.
        name: In the catalogue; None takes that of the file.

    Raises:
        UsageError: It is here already, another version of it was begun, or the name does not fit into a line.
    """
    stem = file.name.rpartition("/")[2].removesuffix(".gguf")
    name = stem if name is None else name.strip()
    if not name or not name.isprintable() or "/" in name or len(name) > 200:
        raise UsageError(f"{name!r} cannot be the name of a model.", "Choose another with --name.")
    wanted = Manifest(
        name=name,
        hub=hub.url,
        repository=repository.name,
        revision=repository.revision,
        licence=repository.licence,
        pulled_at="",
        files=file.parts,
    )
    plan = PullPlan(data / PULLED / repository.name.replace("/", "--"), wanted)
    begun = next((one for one in unfinished(data) if one.file == plan.file), None)
    if begun is not None:
        if [one.sha256 for one in begun.wanted.files] == [one.sha256 for one in wanted.files]:
            return begun
        raise UsageError(
            f"A pull of another version of {file.name} was begun.",
            f"Go on with `workbench models pull`, or give it up: `workbench models remove {begun.name}`.",
        )
    here = read_manifest(plan.first)
    if here is not None:
        raise UsageError(
            f"{file.name} of {repository.name} is here as {here.name!r}, pulled on {here.pulled_at[:10]}.",
            f"Remove it first (`workbench models remove {here.name}`) to pull it anew.",
        )
    return plan


def unfinished(data: Path) -> list[PullPlan]:
    """The pulls of a data folder that have not come to their end, by name."""
    found = []
    for path in (data / PULLED).glob(f"*/*{PLAN}"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found.append(PullPlan(path.parent, Manifest.parse(path.read_text("utf-8"))))
    return sorted(found, key=lambda plan: plan.name)


def carry_out(hub: Hub, plan: PullPlan, stop: threading.Event, tell: Tell) -> Manifest:
    """Pulls what is missing, checks it, and puts it into the catalogue.

    Raises:
        ModelError: The disk has no room, the hub refuses or is away; see `Fetch.run`.
        ModelFileError: What arrived is not what the hub said, or no sound model; it was thrown away.
        NetworkRefused: A switch forbids the network.
        Paused: `stop` was set; what has arrived is kept.
        UsageError: Another process works on it.
    """
    refuse_without_room(plan)
    plan.folder.mkdir(parents=True, exist_ok=True)
    with _alone(plan):
        try:
            tell(PullProgress("pulling", plan.done, plan.wanted.size))
            for one in plan.wanted.files:
                if _size(plan.folder / one.name) != one.size:
                    _fetch(hub, plan, one, stop, tell)
            files = tuple(_checked(plan, one, stop, tell) for one in plan.wanted.files)
        except (ModelError, NetworkRefused):
            if not plan.done:
                _drop(plan)
            raise
        at = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = replace(plan.wanted, pulled_at=at, files=files)
        manifest.write(plan.folder)
        plan.file.unlink(missing_ok=True)
    return manifest


def forget(plan: PullPlan) -> None:
    """Deletes a pull: what has arrived, and the plan.

    Raises:
        UsageError: A process works on it.
    """
    if not plan.file.exists():
        return
    with _alone(plan):
        _drop(plan)


def free_space(folder: Path) -> int:
    """Bytes that may still be written to the disk of a folder."""
    return shutil.disk_usage(next(at for at in (folder, *folder.parents) if at.exists())).free


def refuse_without_room(plan: PullPlan) -> None:
    """Refuses a pull that the disk cannot hold, before anything is pulled.

    Raises:
        ModelError: There is not enough room.
    """
    missing, free = plan.wanted.size - plan.done, free_space(plan.folder)
    if missing + SPARE > free:
        raise ModelError(
            f"{plan.name} needs {missing / 1e9:.1f} GB more, and {SPARE / 1e9:.1f} GB have to stay free;"
            f" {plan.folder} has {free / 1e9:.1f} GB.",
            "Make room, name another folder in WORKBENCH_DATA, or pull a smaller file.",
        )


def _drop(plan: PullPlan) -> None:
    """Deletes a pull and what has arrived of it; whole files of a model that is in the catalogue stay."""
    finished = read_manifest(plan.first) is not None
    for one in plan.wanted.files:
        plan.part(one).unlink(missing_ok=True)
        if not finished:
            (plan.folder / one.name).unlink(missing_ok=True)
    plan.file.unlink(missing_ok=True)
    if not any(plan.folder.iterdir()):
        plan.folder.rmdir()


def _fetch(hub: Hub, plan: PullPlan, one: PartFile, stop: threading.Event, tell: Tell) -> None:
    others = plan.done - _size(plan.part(one))
    said = ""

    def arrived(count: int) -> None:
        tell(PullProgress("pulling", others + count, plan.wanted.size, said))

    def sent_on(host: str) -> None:
        nonlocal said
        said = f"from {host}"
        tell(PullProgress("pulling", plan.done, plan.wanted.size, said))

    Fetch(
        hub,
        plan.wanted.repository,
        plan.wanted.revision,
        one,
        plan.part(one),
        stop=stop,
        arrived=arrived,
        sent_on=sent_on,
    ).run()


def _checked(plan: PullPlan, one: PartFile, stop: threading.Event, tell: Tell) -> PartFile:
    """A file in its place, once its checksum and its header are found to be right."""
    place, part = plan.folder / one.name, plan.part(one)
    if place.exists():
        part = place
    digest, read = hashlib.sha256(), 0
    with part.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            read += len(piece)
            tell(PullProgress("checking", read, one.size))
            if stop.is_set():
                raise Paused("The pull is paused.", "Pull again to go on.")
    if digest.hexdigest() != one.sha256:
        part.unlink()
        raise ModelFileError(
            f"{one.name} arrived damaged: its checksum is not what the hub says. It was thrown away.",
            "Pull again; where it happens again, something between the hub and this machine changes it.",
        )
    try:
        read_gguf(part)
    except ModelFileError:
        part.unlink()
        raise
    part.replace(place)
    return replace(one, changed_ns=place.stat().st_mtime_ns)


@contextlib.contextmanager
def _alone(plan: PullPlan) -> Iterator[None]:
    """Writes the plan and keeps other processes from working on it."""
    with plan.file.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"{plan.name} is being pulled already.", "Wait for it, or pause it there."
            ) from error
        file.truncate(0)
        file.write(json.dumps(asdict(plan.wanted), indent=1, sort_keys=True))
        file.flush()
        os.fsync(file.fileno())
        yield


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
