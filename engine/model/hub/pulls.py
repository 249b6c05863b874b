"""Pulls models from the hub, which downloads and checks their files, into the catalog. An interrupted pull can be
resumed. `Pulls` runs pulls in the background, each on its own thread.

All state is on disk: a partial file beside the place of each incomplete file, and the plan beside the first file. So a
pull that ended in any way, even with a killed process, resumes from there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import threading
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
    NotFound,
    Paused,
    UsageError,
    WorkbenchError,
)
from engine.base.files import create_private_folder
from engine.jobs.progress import RateMeter
from engine.model.catalog_files import PULLED, Manifest, PartFile, read_manifest
from engine.model.gguf_file import read_gguf
from engine.model.hub.access import Hub
from engine.model.hub.download import Fetch
from engine.model.records import HubFile, HubRepository, PullRow, PullState

PLAN_SUFFIX = ".pull.json"
"""Ending of a stored plan in place of that of the first file."""

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

CLOSE_SECONDS = 2.0
"""Longest wait for pulls to stop when the program ends. Partial files are kept in any case."""


@dataclass(frozen=True, slots=True)
class PullPlan:
    """The files to pull and where they go.

    Attributes:
        folder: Folder of the files.
        manifest: The manifest that the model will have.
    """

    folder: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        """The name that the model will have in the catalog."""
        return self.manifest.name

    @property
    def first(self) -> Path:
        """The path of the first file of the model."""
        first, *_ = self.manifest.files
        return self.folder / first.name

    @property
    def file(self) -> Path:
        """The path of the stored plan, which exists until the pull is finished."""
        return self.first.with_suffix(PLAN_SUFFIX)

    @property
    def done(self) -> int:
        """The bytes that are on disk."""
        return sum(
            _size(self.folder / file.name) or _size(self.part(file)) for file in self.manifest.files
        )

    @property
    def sha256s(self) -> list[str]:
        """The checksums of the files, which identify their version."""
        return [file.sha256 for file in self.manifest.files]

    def part(self, file: PartFile) -> Path:
        """Returns the path of a file while it is incomplete."""
        return self.folder / (file.name + PART_SUFFIX)

    def row(self, state: PullState) -> PullRow:
        """Returns the pull in a state, with the bytes that are on disk."""
        return PullRow(
            name=self.name,
            repository=self.manifest.repository,
            file=self.first.name,
            state=state,
            done=self.done,
            total=self.manifest.size,
        )


class _Reporter:
    """Reports the state of one pull with its rate, which each new state measures anew."""

    def __init__(self, plan: PullPlan, report: Callable[[PullRow], None]) -> None:
        """Reports nothing yet."""
        self._plan, self._report = plan, report
        self._row = plan.row("waiting")
        self._meter = RateMeter(time.monotonic, RATE_SECONDS)

    def __call__(
        self, state: PullState, done: int, total: int | None = None, redirect: str = ""
    ) -> None:
        """Reports so many bytes of `total`, by default of all files."""
        # A server that cannot resume sends a file from its beginning.
        if state != self._row.state or done < self._row.done:
            self._meter = RateMeter(time.monotonic, RATE_SECONDS)
        self._meter.mark(done)
        total = self._plan.manifest.size if total is None else total
        self._row = replace(
            self._row,
            state=state,
            done=done,
            total=total,
            rate=self._meter.rate(),
            seconds_left=self._meter.eta(done, total),
            redirect=redirect,
        )
        self._report(self._row)


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
    _, _, file_name = file.name.rpartition("/")
    name = file_name.removesuffix(".gguf") if name is None else name.strip()
    if not name or not name.isprintable() or "/" in name or len(name) > MAX_NAME_CHARACTERS:
        raise UsageError(f"{name!r} cannot be the name of a model.", "Choose another with --name.")
    manifest = Manifest(
        name=name,
        hub=hub.url,
        repository=repository.name,
        revision=repository.revision,
        license=repository.license,
        pulled_at="",
        files=file.parts,
    )
    plan = PullPlan(data / PULLED / repository.name.replace("/", "--"), manifest)
    stored_plan = next((stored for stored in unfinished(data) if stored.file == plan.file), None)
    if stored_plan is not None:
        if stored_plan.sha256s == plan.sha256s:
            return stored_plan
        raise UsageError(
            f"A pull of another version of {file.name} was begun.",
            f"Go on with `workbench models pull`, or give it up: `workbench models remove {stored_plan.name}`.",
        )
    present = read_manifest(plan.first)
    if present is not None:
        raise NameTaken(
            f"{file.name} of {repository.name} is here as {present.name!r}, pulled on {present.pulled_at[:10]}.",
            f"Remove it first (`workbench models remove {present.name}`) to pull it again.",
        )
    return plan


def unfinished(data: Path) -> list[PullPlan]:
    """Returns the plans of the unfinished pulls of a data folder, by name."""
    plans = []
    for path in (data / PULLED).glob(f"*/*{PLAN_SUFFIX}"):
        with contextlib.suppress(OSError, ValueError):
            plans.append(PullPlan(path.parent, Manifest.parse(path.read_text("utf-8"))))
    return sorted(plans, key=lambda plan: plan.name)


def carry_out(
    hub: Hub, plan: PullPlan, stop: threading.Event, report: Callable[[PullRow], None]
) -> Manifest:
    """Pulls the missing files, checks them, and adds the model to the catalog; returns its manifest.

    Args:
        report: Called with the state of the pull after each piece.

    Raises:
        ModelError: The disk has no room, or the hub refuses or does not answer; see `Fetch.run`.
        ModelFileError: A file does not have the hub's checksum or is not a valid model; it was deleted.
        NetworkRefused: A switch forbids the network.
        Paused: `stop` was set; the partial files are kept.
        UsageError: Another process is pulling it.
    """
    refuse_without_room(plan)
    create_private_folder(plan.folder)
    reporter = _Reporter(plan, report)
    with _locked_plan(plan):
        try:
            reporter("pulling", plan.done)
            for part in plan.manifest.files:
                if _size(plan.folder / part.name) != part.size:
                    _fetch(hub, plan, part, stop, reporter)
            files = tuple(_check(plan, part, stop, reporter) for part in plan.manifest.files)
        except (ModelError, NetworkRefused):
            # Nothing has arrived, so there is nothing to resume.
            if not plan.done:
                _delete_files(plan)
            raise
        pulled_at = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = replace(plan.manifest, pulled_at=pulled_at, files=files)
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
    missing, free = plan.manifest.size - plan.done, free_space(plan.folder)
    if missing + SPARE_BYTES > free:
        raise HubError(
            f"{plan.name} needs {missing / 1e9:.1f} GB more, and {SPARE_BYTES / 1e9:.1f} GB have to stay free;"
            f" {plan.folder} has {free / 1e9:.1f} GB.",
            "Make room, name another folder in WORKBENCH_DATA, or pull a smaller file.",
        )


def _delete_files(plan: PullPlan) -> None:
    """Deletes the files and the plan of a pull, but keeps the files of a model that is in the catalog."""
    finished = read_manifest(plan.first) is not None
    for part in plan.manifest.files:
        plan.part(part).unlink(missing_ok=True)
        if not finished:
            (plan.folder / part.name).unlink(missing_ok=True)
    plan.file.unlink(missing_ok=True)
    if not any(plan.folder.iterdir()):
        plan.folder.rmdir()


def _fetch(
    hub: Hub, plan: PullPlan, part: PartFile, stop: threading.Event, report: _Reporter
) -> None:
    """Downloads the rest of one file, and reports after each piece."""
    other_bytes = plan.done - _size(plan.part(part))

    def report_file(count: int, redirect_host: str) -> None:
        """Reports the bytes of all files, with so many of this one."""
        redirect = f"from {redirect_host}" if redirect_host else ""
        report("pulling", other_bytes + count, redirect=redirect)

    manifest = plan.manifest
    Fetch(
        hub,
        manifest.repository,
        manifest.revision,
        part,
        plan.part(part),
        stop=stop,
        report=report_file,
    ).run()


def _check(
    plan: PullPlan, expected: PartFile, stop: threading.Event, report: _Reporter
) -> PartFile:
    """Verifies checksum and header of a file, moves it to its place, and returns it with its time of change.

    Raises:
        ModelFileError: It is damaged or no model; it was deleted.
        Paused: `stop` was set.
    """
    place, path = plan.folder / expected.name, plan.part(expected)
    if place.exists():
        path = place
    digest, bytes_read = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            bytes_read += len(piece)
            report("checking", bytes_read, expected.size)
            if stop.is_set():
                raise Paused("The pull is paused.", "Pull again to go on.")
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
                f"{plan.name} is being pulled already.", "Wait for it, or pause it there."
            ) from error
        file.truncate(0)
        file.write(json.dumps(asdict(plan.manifest), indent=1, sort_keys=True))
        file.flush()
        os.fsync(file.fileno())
        yield


def _size(path: Path) -> int:
    """Returns the bytes of a file; 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


class _Pull:
    """One pull of this process, from its start to its result."""

    def __init__(self, hub: Hub, plan: PullPlan, ended: Callable[[], None]) -> None:
        """Prepares a pull; `ended` is called from its thread at its end."""
        self.plan = plan
        self.stop = threading.Event()
        self._hub, self._ended = hub, ended
        self.row = plan.row("waiting")
        self.thread = threading.Thread(target=self._run, daemon=True, name="workbench-pull")

    @property
    def is_active(self) -> bool:
        """Whether the pull has not ended."""
        return self.row.state in ("waiting", "pulling", "checking")

    def _show(self, row: PullRow) -> None:
        """Takes over the state of the download."""
        self.row = row

    def _end(self, state: PullState, problem: str = "", hint: str = "") -> None:
        """Stores how the download ended."""
        self.row = replace(
            self.row, state=state, rate=None, seconds_left=None, problem=problem, hint=hint
        )

    def _run(self) -> None:
        """Downloads the files and stores how that ended."""
        try:
            carry_out(self._hub, self.plan, self.stop, self._show)
            self._end("done")
        except Paused:
            self._end("paused")
        except WorkbenchError as error:
            self._end("failed", error.message, error.hint)
        except Exception as error:
            logging.getLogger(__name__).exception("a pull failed")
            self._end(
                "failed", f"Something went wrong that was not foreseen: {type(error).__name__}"
            )
        self._ended()


class Pulls:
    """The pulls of a data folder: those of this process, and paused ones on disk.

    Args:
        ended: Called from a thread when a pull ends, whatever the result.
    """

    def __init__(self, data: Path, ended: Callable[[], None] = lambda: None) -> None:
        """Starts nothing yet."""
        self._data, self._ended = data, ended
        self._lock = threading.Lock()
        self._pulls: dict[str, _Pull] = {}

    def begin(self, hub: Hub, plan: PullPlan) -> None:
        """Starts or resumes a pull.

        Raises:
            UsageError: It is active already.
        """
        with self._lock:
            current = self._pulls.get(plan.name)
            if current is not None and current.is_active:
                raise UsageError(f"{plan.name} is being pulled already.")
            pull = self._pulls[plan.name] = _Pull(hub, plan, self._ended)
        pull.thread.start()

    def rows(self) -> list[PullRow]:
        """Returns all pulls, by name."""
        with self._lock:
            pulls = dict(self._pulls)
        rows = {name: pull.row for name, pull in pulls.items()}
        for plan in unfinished(self._data):
            if plan.name not in rows:
                rows[plan.name] = plan.row("paused")
        return [rows[name] for name in sorted(rows)]

    def plan(self, name: str) -> PullPlan:
        """Returns the plan of an unfinished pull.

        Raises:
            UsageError: There is none.
        """
        with self._lock:
            pull = self._pulls.get(name)
        # First the plan on disk; a pull that has not begun to download has none yet.
        for plan in unfinished(self._data):
            if plan.name == name:
                return plan
        if pull is None or pull.row.state == "done":
            raise NotFound(f"There is no unfinished pull {name!r}.")
        return pull.plan

    def pause(self, name: str) -> None:
        """Stops a pull of this process after its current piece.

        Raises:
            UsageError: It is not active in this process.
        """
        with self._lock:
            pull = self._pulls.get(name)
        if pull is None or not pull.is_active:
            raise UsageError(f"{name} is not being pulled here.")
        pull.stop.set()

    def give_up(self, name: str) -> None:
        """Deletes the partial files of a pull.

        Raises:
            UsageError: There is no such pull, or it is active.
        """
        plan = self.plan(name)
        forget(plan)
        with self._lock:
            self._pulls.pop(name, None)

    def close(self) -> None:
        """Pauses the active pulls."""
        with self._lock:
            pulls = [pull for pull in self._pulls.values() if pull.is_active]
        for pull in pulls:
            pull.stop.set()
        deadline = time.monotonic() + CLOSE_SECONDS
        for pull in pulls:
            pull.thread.join(max(0.0, deadline - time.monotonic()))
