"""Pulls models from the hub into the catalog: downloads their files and checks them.

All state is on disk: the partial file and the plan, beside the place of the file. So a pull that ended in any way, even
with a killed process, resumes from there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from engine.base.errors import (
    HubError,
    ModelError,
    ModelFileError,
    NameTaken,
    NetworkRefused,
    UsageError,
)
from engine.base.files import create_private_folder
from engine.jobs.progress import RateMeter
from engine.model.catalog_files import PULLED, HubFile, Manifest, read_manifest
from engine.model.gguf_file import read_gguf
from engine.model.hub.access import Hub
from engine.model.hub.downloads import Download
from engine.model.records import HubRepository

PLAN_SUFFIX = ".pull.json"
"""Ending of a stored plan in place of that of the file."""

PART_SUFFIX = ".part"
"""Ending that is added to a file while it is incomplete."""

SPARE_BYTES = 500_000_000
"""Bytes that a pull leaves free on the disk."""

_CHUNK = 1 << 20
"""Bytes that are read at once to compute a checksum."""

MAX_NAME_CHARACTERS = 200
"""Longest name of a model."""

RATE_SECONDS = 5.0
"""Length of the time window of a rate."""


@dataclass(frozen=True, slots=True)
class PullPlan:
    """The file to pull and where it goes.

    Attributes:
        folder: Folder of the file.
        manifest: The manifest that the model will have.
    """

    folder: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        """The name that the model will have in the catalog."""
        return self.manifest.name

    @property
    def place(self) -> Path:
        """The path of the file of the model."""
        return self.folder / self.manifest.file.name

    @property
    def part(self) -> Path:
        """The path of the file while it is incomplete."""
        return self.folder / (self.manifest.file.name + PART_SUFFIX)

    @property
    def file(self) -> Path:
        """The path of the stored plan, which exists until the pull is finished."""
        return self.place.with_suffix(PLAN_SUFFIX)

    @property
    def done(self) -> int:
        """The bytes that are on disk."""
        return _size(self.place) or _size(self.part)

    @property
    def size(self) -> int:
        """The bytes of the whole file."""
        return self.manifest.file.size


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far a pull is.

    Attributes:
        checking: Whether the checksum is computed; before that the file is downloaded.
        done: Bytes that arrived, or that were checked.
        rate: Bytes a second over the recent past; None before two measurements.
        seconds_left: Estimated at that rate.
        redirect: `from HOST` when the hub sends the download on to another host; else empty.
    """

    checking: bool
    done: int
    rate: float | None = None
    seconds_left: float | None = None
    redirect: str = ""


class _Reporter:
    """Reports the progress of one pull with its rate; the rate of the check is measured anew."""

    def __init__(self, total: int, report: Callable[[PullProgress], None]) -> None:
        """Reports nothing yet."""
        self._total, self._report = total, report
        self._last = PullProgress(checking=False, done=0)
        self._meter = RateMeter(time.monotonic, RATE_SECONDS)

    def __call__(self, done: int, *, checking: bool = False, redirect: str = "") -> None:
        """Reports that so many bytes have arrived, or were checked."""
        # A server that cannot resume sends a file from its beginning.
        if checking != self._last.checking or done < self._last.done:
            self._meter = RateMeter(time.monotonic, RATE_SECONDS)
        self._meter.mark(done)
        seconds_left = self._meter.eta(done, self._total)
        self._last = PullProgress(checking, done, self._meter.rate(), seconds_left, redirect)
        self._report(self._last)


def plan_pull(
    data: Path, hub: Hub, repository: HubRepository, file: HubFile, name: str | None = None
) -> PullPlan:
    """Returns the plan for pulling a file of a repository, or the stored plan of an unfinished pull. Writes nothing.

    Args:
        data: The data folder of the program.
        name: Name in the catalog; None: the name of the file.

    Raises:
        UsageError: The file was pulled already, another version of it is unfinished, or the name cannot be used.
    """
    name = file.name.removesuffix(".gguf") if name is None else name.strip()
    if not name or not name.isprintable() or "/" in name or len(name) > MAX_NAME_CHARACTERS:
        raise UsageError(f"{name!r} cannot be the name of a model.", "Choose another with --name.")
    manifest = Manifest(
        name=name,
        hub=hub.url,
        repository=repository.name,
        revision=repository.revision,
        license=repository.license,
        pulled_at="",
        file=file,
    )
    plan = PullPlan(data / PULLED / repository.name.replace("/", "--"), manifest)
    stored_plan = next(
        (stored for stored in unfinished_pulls(data) if stored.file == plan.file), None
    )
    if stored_plan is not None:
        if stored_plan.manifest.file.sha256 == file.sha256:
            return stored_plan
        raise UsageError(
            f"A pull of another version of {file.name} was begun.",
            f"Go on with `workbench models pull`, or give it up: `workbench models remove {stored_plan.name}`.",
        )
    present = read_manifest(plan.place)
    if present is not None:
        raise NameTaken(
            f"{file.name} of {repository.name} is here as {present.name!r}, pulled on {present.pulled_at[:10]}.",
            f"Remove it first (`workbench models remove {present.name}`) to pull it again.",
        )
    return plan


def unfinished_pulls(data: Path) -> list[PullPlan]:
    """Returns the plans of the unfinished pulls of a data folder, by name."""
    plans = []
    for path in (data / PULLED).glob(f"*/*{PLAN_SUFFIX}"):
        with contextlib.suppress(OSError, ValueError):
            plans.append(PullPlan(path.parent, Manifest.parse(path.read_text("utf-8"))))
    return sorted(plans, key=lambda plan: plan.name)


def carry_out(hub: Hub, plan: PullPlan, report: Callable[[PullProgress], None]) -> Manifest:
    """Pulls what is missing of the file, checks it, and adds the model to the catalog; returns its manifest.

    Args:
        report: Called with the progress after each piece.

    Raises:
        ModelError: The disk has no room, or the hub refuses or does not answer; see `Download.run`.
        ModelFileError: The file does not have the hub's checksum or is not a valid model; it was deleted.
        NetworkRefused: A switch forbids the network.
        UsageError: Another process is pulling it.
    """
    refuse_without_room(plan)
    create_private_folder(plan.folder)
    reporter = _Reporter(plan.size, report)
    manifest = plan.manifest

    def report_arrived(count: int, redirect_host: str) -> None:
        """Reports the bytes that have arrived."""
        reporter(count, redirect=f"from {redirect_host}" if redirect_host else "")

    with _locked_plan(plan):
        try:
            reporter(plan.done)
            if _size(plan.place) != plan.size:
                repository, revision = manifest.repository, manifest.revision
                Download(
                    hub, repository, revision, manifest.file, plan.part, report=report_arrived
                ).run()
            file = _check(plan, reporter)
        except (ModelError, NetworkRefused):
            if not plan.done:  # nothing has arrived, so there is nothing to resume
                _delete_files(plan)
            raise
        pulled_at = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = replace(manifest, pulled_at=pulled_at, file=file)
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
    with _locked_plan(plan):
        _delete_files(plan)


def free_space(folder: Path) -> int:
    """Returns the free bytes of the disk of a folder, which need not exist yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free


def refuse_without_room(plan: PullPlan) -> None:
    """Raises if the disk cannot hold a pull.

    Raises:
        ModelError: There is not enough room.
    """
    missing, free = plan.size - plan.done, free_space(plan.folder)
    if missing + SPARE_BYTES > free:
        raise HubError(
            f"{plan.name} needs {missing / 1e9:.1f} GB more, and {SPARE_BYTES / 1e9:.1f} GB have to stay free;"
            f" {plan.folder} has {free / 1e9:.1f} GB.",
            "Make room, name another folder in WORKBENCH_DATA, or pull a smaller file.",
        )


def _delete_files(plan: PullPlan) -> None:
    """Deletes the files and the plan of a pull, but keeps the file of a model that is in the catalog."""
    plan.part.unlink(missing_ok=True)
    if read_manifest(plan.place) is None:
        plan.place.unlink(missing_ok=True)
    plan.file.unlink(missing_ok=True)
    if not any(plan.folder.iterdir()):
        plan.folder.rmdir()


def _check(plan: PullPlan, report: _Reporter) -> HubFile:
    """Verifies checksum and header of the file, moves it to its place, and returns it with its time of change.

    Raises:
        ModelFileError: It is damaged or no model; it was deleted.
    """
    expected, place = plan.manifest.file, plan.place
    path = place if place.exists() else plan.part
    digest, bytes_read = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            bytes_read += len(piece)
            report(bytes_read, checking=True)
    if digest.hexdigest() != expected.sha256:
        path.unlink()
        raise ModelFileError(
            f"{expected.name} arrived damaged: its checksum is not what the hub says. It was thrown away.",
            "Pull again; where it happens again, something between the hub and this machine changes it.",
        )
    try:
        read_gguf(path)
    except ModelFileError:
        path.unlink()
        raise
    path.replace(place)
    return replace(expected, changed_ns=place.stat().st_mtime_ns)


@contextlib.contextmanager
def _locked_plan(plan: PullPlan) -> Iterator[None]:
    """Writes the plan and locks it against other processes.

    Raises:
        UsageError: Another process holds the lock.
    """
    with plan.file.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                f"{plan.name} is being pulled already.", "Wait for it, or stop it there."
            ) from error
        file.truncate(0)
        file.write(json.dumps(asdict(plan.manifest), indent=1, sort_keys=True))
        file.flush()
        os.fsync(file.fileno())
        yield


def _size(path: Path) -> int:
    """Returns the bytes of a file; 0 if there is none."""
    return path.stat().st_size if path.exists() else 0
