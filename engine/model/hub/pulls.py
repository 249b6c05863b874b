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

from engine.base.errors import (
    HubError,
    ModelError,
    ModelFileError,
    NameTaken,
    NetworkRefused,
    Paused,
    UsageError,
)
from engine.base.files import create_private_folder
from engine.model.gguf_file import read_gguf
from engine.model.hub.access import Hub
from engine.model.hub.download import Fetch
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
        redirect: `from HOST` if the hub redirects the download to another host; else empty.
    """

    state: PullState
    done: int
    total: int
    redirect: str = ""


ReportProgress = Callable[[PullProgress], None]


@dataclass(frozen=True, slots=True)
class PullPlan:
    """The files to pull and where they go.

    Attributes:
        folder: Folder of the files.
        wanted: The manifest that the model will have.
    """

    folder: Path
    wanted: Manifest

    @property
    def name(self) -> str:
        """Name that the model will have in the catalogue."""
        return self.wanted.name

    @property
    def first(self) -> Path:
        """Path of the first file of the model."""
        return self.folder / self.wanted.files[0].name

    @property
    def file(self) -> Path:
        """Path of the stored plan, which exists until the pull is finished."""
        return self.first.with_suffix(PLAN)

    @property
    def done(self) -> int:
        """Bytes that are on disk."""
        return sum(
            _size(self.folder / one.name) or _size(self.part(one)) for one in self.wanted.files
        )

    def part(self, one: PartFile) -> Path:
        """Returns the path of a file while it is incomplete."""
        return self.folder / (one.name + PART)


def plan_pull(
    data: Path, hub: Hub, repository: HubRepository, file: HubFile, name: str | None = None
) -> PullPlan:
    """Returns the plan for pulling a file of a repository, or the stored plan of an unfinished pull. Writes nothing.

    Args:
        data: The data folder of the program.
        name: Name in the catalogue; None: the name of the file.

    Raises:
        UsageError: The file was pulled already, another version of it is unfinished, or the name cannot be used.
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
        raise NameTaken(
            f"{file.name} of {repository.name} is here as {here.name!r}, pulled on {here.pulled_at[:10]}.",
            f"Remove it first (`workbench models remove {here.name}`) to pull it again.",
        )
    return plan


def unfinished(data: Path) -> list[PullPlan]:
    """Returns the plans of the unfinished pulls of a data folder, by name."""
    found = []
    for path in (data / PULLED).glob(f"*/*{PLAN}"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found.append(PullPlan(path.parent, Manifest.parse(path.read_text("utf-8"))))
    return sorted(found, key=lambda plan: plan.name)


def carry_out(hub: Hub, plan: PullPlan, stop: threading.Event, report: ReportProgress) -> Manifest:
    """Pulls the missing files, checks them, and adds the model to the catalogue.

    Raises:
        ModelError: The disk has no room, or the hub refuses or does not answer; see `Fetch.run`.
        ModelFileError: A file does not have the hub's checksum or is not a valid model; it was deleted.
        NetworkRefused: A switch forbids the network.
        Paused: `stop` was set; the partial files are kept.
        UsageError: Another process is pulling it.
    """
    refuse_without_room(plan)
    create_private_folder(plan.folder)
    with _alone(plan):
        try:
            report(PullProgress("pulling", plan.done, plan.wanted.size))
            for one in plan.wanted.files:
                if _size(plan.folder / one.name) != one.size:
                    _fetch(hub, plan, one, stop, report)
            files = tuple(_checked(plan, one, stop, report) for one in plan.wanted.files)
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
    """Deletes the partial files and the plan of a pull.

    Raises:
        UsageError: A process is pulling it.
    """
    if not plan.file.exists():
        return
    with _alone(plan):
        _drop(plan)


def free_space(folder: Path) -> int:
    """Returns the free bytes of the disk of a folder, which need not exist yet."""
    return shutil.disk_usage(next(at for at in (folder, *folder.parents) if at.exists())).free


def refuse_without_room(plan: PullPlan) -> None:
    """Raises if the disk cannot hold a pull.

    Raises:
        ModelError: There is not enough room.
    """
    missing, free = plan.wanted.size - plan.done, free_space(plan.folder)
    if missing + SPARE > free:
        raise HubError(
            f"{plan.name} needs {missing / 1e9:.1f} GB more, and {SPARE / 1e9:.1f} GB have to stay free;"
            f" {plan.folder} has {free / 1e9:.1f} GB.",
            "Make room, name another folder in WORKBENCH_DATA, or pull a smaller file.",
        )


def _drop(plan: PullPlan) -> None:
    """Deletes the files and the plan of a pull, but keeps the files of a model that is in the catalogue."""
    finished = read_manifest(plan.first) is not None
    for one in plan.wanted.files:
        plan.part(one).unlink(missing_ok=True)
        if not finished:
            (plan.folder / one.name).unlink(missing_ok=True)
    plan.file.unlink(missing_ok=True)
    if not any(plan.folder.iterdir()):
        plan.folder.rmdir()


def _fetch(
    hub: Hub, plan: PullPlan, one: PartFile, stop: threading.Event, report: ReportProgress
) -> None:
    others = plan.done - _size(plan.part(one))
    redirect = ""

    def arrived(count: int) -> None:
        report(PullProgress("pulling", others + count, plan.wanted.size, redirect))

    def on_redirect(host: str) -> None:
        nonlocal redirect
        redirect = f"from {host}"
        report(PullProgress("pulling", plan.done, plan.wanted.size, redirect))

    Fetch(
        hub,
        plan.wanted.repository,
        plan.wanted.revision,
        one,
        plan.part(one),
        stop=stop,
        arrived=arrived,
        on_redirect=on_redirect,
    ).run()


def _checked(
    plan: PullPlan, one: PartFile, stop: threading.Event, report: ReportProgress
) -> PartFile:
    """Verifies checksum and header of a file, moves it to its place, and returns it with its time of change."""
    place, part = plan.folder / one.name, plan.part(one)
    if place.exists():
        part = place
    digest, read = hashlib.sha256(), 0
    with part.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            read += len(piece)
            report(PullProgress("checking", read, one.size))
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
    """Writes the plan and locks it against other processes.

    Raises:
        UsageError: Another process holds the lock.
    """
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
