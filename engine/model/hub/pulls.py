"""Pulls models from the hub into the catalog: downloads their files and checks them.

All state is on disk: the partial file and the plan, beside the place of the file. So a pull that ended in any way, even
with a killed process, resumes from there; the download asks for the bytes that are missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from engine.base import network_guard
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
from engine.model.endpoints.pacing import wait_after
from engine.model.gguf_file import read_gguf
from engine.model.hub.access import BUSY_STATUSES, Hub, hub_library, port_of
from engine.model.records import HubRepository

PLAN_SUFFIX = ".pull.json"
"""Ending of the name of a stored plan of a pull, in place of the ending of the file that is pulled."""

PART_SUFFIX = ".part"
"""Ending that is added to the name of a file while it is incomplete."""

SPARE_BYTES = 500_000_000
"""Bytes that a pull leaves free on the disk."""

_CHUNK = 1 << 20
"""Bytes that are read at once to compute a checksum."""

MAX_NAME_CHARACTERS = 200
"""Longest name of a model."""

RATE_SECONDS = 5.0
"""Length of the time window over which the rate of a download is measured."""

MAX_ATTEMPTS = 8
"""Most connections in a row that may bring no data before a download fails."""

WHOLE_FILE, PIECE, NO_SUCH_PIECE = 200, 206, 416
"""Status codes of an answer with the file from its beginning, with the piece that was asked for, and of a refusal
because the file ends before the piece."""

MAX_REDIRECTS = 5
"""Most requests on the way from the hub to the file."""

_RANGE = re.compile(r"bytes (?P<first>\d+)-\d+/(\d+|\*)")
"""Matches the header of an answer that gives a piece, like `bytes 500-999/1000`, with the number of its first byte."""


@dataclass(frozen=True, slots=True)
class PullPlan:
    """The file to pull and where it goes. The plan itself is stored beside it until the pull is finished.

    Attributes:
        folder: Folder of the file and of its plan.
        manifest: The manifest that the model will have; its `file` is the file in the repository.
    """

    folder: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        """The name that the model will have in the catalog."""
        return self.manifest.name

    @property
    def model_path(self) -> Path:
        """The path of the file of the model."""
        return self.folder / self.manifest.file.name

    @property
    def part_path(self) -> Path:
        """The path of the file while it is incomplete."""
        return self.folder / (self.manifest.file.name + PART_SUFFIX)

    @property
    def plan_path(self) -> Path:
        """The path of the stored plan."""
        return self.model_path.with_suffix(PLAN_SUFFIX)

    @property
    def bytes_on_disk(self) -> int:
        """The bytes of the file that have arrived."""
        return _size(self.model_path) or _size(self.part_path)

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
        seconds_left: Seconds left at that rate; None while it is unknown.
        redirect: `from HOST` when the hub sends the download on to another host; else empty.
    """

    checking: bool
    done: int
    rate: float | None = None
    seconds_left: float | None = None
    redirect: str = ""


class _Reporter:
    """Reports the progress of one pull with its rate; the rate of computing the checksum is measured anew."""

    def __init__(self, total: int, report: Callable[[PullProgress], None]) -> None:
        """Reports nothing yet."""
        self._total, self._report = total, report
        self._last = PullProgress(checking=False, done=0)
        self._meter = RateMeter(time.monotonic, RATE_SECONDS)

    def __call__(self, done: int, *, checking: bool = False, redirect: str = "") -> None:
        """Reports the number of bytes that have arrived, or were read for the checksum, so far."""
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
        (stored for stored in unfinished_pulls(data) if stored.plan_path == plan.plan_path), None
    )
    if stored_plan is not None:
        if stored_plan.manifest.file.sha256 == file.sha256:
            return stored_plan
        raise UsageError(
            f"A pull of another version of {file.name} was begun.",
            f"Go on with `workbench models pull`, or give it up: `workbench models remove {stored_plan.name}`.",
        )
    present = read_manifest(plan.model_path)
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
            reporter(plan.bytes_on_disk)
            if _size(plan.model_path) != plan.size:
                Download(hub, plan, report_arrived).run()
            file = _check(plan, reporter)
        except (ModelError, NetworkRefused):
            if not plan.bytes_on_disk:  # nothing has arrived, so there is nothing to resume
                _delete_files(plan)
            raise
        pulled_at = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = replace(manifest, pulled_at=pulled_at, file=file)
        manifest.write(plan.folder)
        plan.plan_path.unlink(missing_ok=True)
    return manifest


def forget(plan: PullPlan) -> None:
    """Deletes the partial files and the plan of a pull.

    Raises:
        UsageError: A process is pulling it.
    """
    if not plan.plan_path.exists():
        return
    with _locked_plan(plan):
        _delete_files(plan)


def free_space(folder: Path) -> int:
    """Returns the free bytes of the disk of a folder, which need not exist yet."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free


def refuse_without_room(plan: PullPlan) -> None:
    """Checks that the disk has room for what is missing of a pull, and for `SPARE_BYTES` more.

    Raises:
        ModelError: It has not.
    """
    missing, free = plan.size - plan.bytes_on_disk, free_space(plan.folder)
    if missing + SPARE_BYTES > free:
        raise HubError(
            f"{plan.name} needs {missing / 1e9:.1f} GB more, and {SPARE_BYTES / 1e9:.1f} GB have to stay free;"
            f" {plan.folder} has {free / 1e9:.1f} GB.",
            "Make room, name another folder in WORKBENCH_DATA, or pull a smaller file.",
        )


def _delete_files(plan: PullPlan) -> None:
    """Deletes the files and the plan of a pull, but keeps the file of a model that is in the catalog."""
    plan.part_path.unlink(missing_ok=True)
    if read_manifest(plan.model_path) is None:
        plan.model_path.unlink(missing_ok=True)
    plan.plan_path.unlink(missing_ok=True)
    if not any(plan.folder.iterdir()):
        plan.folder.rmdir()


def _check(plan: PullPlan, report: _Reporter) -> HubFile:
    """Verifies checksum and header of the file, moves it to its path in the catalog, and returns its record with its
    time of change.

    Raises:
        ModelFileError: It is damaged or no model; it was deleted.
    """
    expected, target = plan.manifest.file, plan.model_path
    path = target if target.exists() else plan.part_path
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
    path.replace(target)
    return replace(expected, changed_ns=target.stat().st_mtime_ns)


@contextlib.contextmanager
def _locked_plan(plan: PullPlan) -> Iterator[None]:
    """Writes the plan and locks it against other processes.

    Raises:
        UsageError: Another process holds the lock.
    """
    with plan.plan_path.open("a+", encoding="utf-8") as file:
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


class _RetryLater(Exception):
    """An attempt at the download ended, and another may go on where it stopped."""

    def __init__(self, why: str, headers: Mapping[str, str] | None = None) -> None:
        """Creates the exception.

        Args:
            why: A sentence without its end.
            headers: Headers of the answer, which may say how long to wait; None for none.
        """
        super().__init__(why)
        self.headers: Mapping[str, str] = headers or {}


@dataclass(slots=True)
class Download:
    """The download of the file of a plan, which can be resumed at any moment.

    The plan names a commit, so a resumed file is the file that was begun.

    Attributes:
        hub: The hub that the file comes from.
        plan: What is downloaded, and to which path.
        report: Called after each piece with the number of bytes in `plan.part_path` and the host that the hub redirects
            the download to ("" for none), and once before that host is asked.
    """

    hub: Hub
    plan: PullPlan
    report: Callable[[int, str], None]
    _redirect_host: str = ""

    def run(self) -> None:
        """Downloads until every byte is there.

        Raises:
            ModelError: The hub refuses, sends something else, or is away for too long; the disk is full.
            NetworkRefused: A switch forbids the network.
        """
        hub_library()
        attempt = 0
        with self.hub.client() as client:
            while (have := _size(self.plan.part_path)) < self.plan.size:
                try:
                    self._request_from(client, have)
                    failure = _RetryLater("the connection ended early")
                except _RetryLater as error:
                    failure = error
                arrived = _size(self.plan.part_path)
                if arrived >= self.plan.size:
                    return
                # Only attempts that bring nothing count.
                attempt = 0 if arrived > have else attempt + 1
                if attempt >= MAX_ATTEMPTS:
                    raise self._final_error(failure) from failure
                time.sleep(wait_after(max(0, attempt - 1), failure.headers, jitter=0.0))

    def _request_from(self, client: Any, have: int) -> None:
        """Requests the bytes from number `have` on, follows the hub to where the file lies, and writes what arrives.

        Raises:
            _RetryLater: The connection failed, or the server is busy.
        """
        import httpx2
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers

        manifest = self.plan.manifest
        url = hf_hub_url(
            manifest.repository,
            manifest.file.path,
            revision=manifest.revision,
            endpoint=self.hub.url,
        )
        headers = build_hf_headers(token=self.hub.sent_token)
        headers |= {"Range": f"bytes={have}-", "Accept-Encoding": "identity"}
        try:
            with contextlib.ExitStack() as stack:
                for _ in range(MAX_REDIRECTS):
                    host = urlsplit(url).hostname or ""
                    stack.enter_context(network_guard.reaching(host, port_of(url)))
                    answer = stack.enter_context(client.stream("GET", url, headers=headers))
                    if not answer.has_redirect_location:
                        self._write_answer(answer, have, host)
                        return
                    url = self._redirected(url, answer.headers["location"], headers)
                raise HubError(f"{self.hub.host} sends the download in circles.")
        except httpx2.TransportError as error:
            raise _RetryLater(str(error) or type(error).__name__) from error
        except httpx2.InvalidURL as error:
            raise self._bad_redirect_error() from error

    def _redirected(self, url: str, location: str, headers: dict[str, str]) -> str:
        """Returns the URL that a redirect leads to. The token is sent to the hub only, and https stays https.

        Raises:
            HubError: The redirect has no sound URL, or leads to an unencrypted one or to this machine.
        """
        try:
            target = urljoin(url, location)
            parts, port = urlsplit(target), port_of(target)
        except ValueError as error:
            raise self._bad_redirect_error() from error
        host = parts.hostname or ""
        if parts.scheme != "https" and not (parts.scheme == "http" and url.startswith("http://")):
            raise HubError(f"{self.hub.host} sends the download to {host} unencrypted.")
        hub = self.hub
        if (parts.scheme, host, port) != (urlsplit(hub.url).scheme, hub.host, hub.port):
            headers.pop("authorization", None)
            if network_guard.is_this_machine(host) and not network_guard.is_this_machine(hub.host):
                raise HubError(f"{hub.host} sends the download to this machine.")
            self._redirect_host = host
            self.report(_size(self.plan.part_path), host)
        return target

    def _bad_redirect_error(self) -> HubError:
        """Returns the error for a redirect to something that is no address."""
        return HubError(f"{self.hub.host} sends the download to an address that is none.")

    def _write_answer(self, answer: Any, have: int, host: str) -> None:
        """Writes what arrives to the file after its first `have` bytes; from its beginning where the server does not
        resume.

        Raises:
            _RetryLater: The server is busy, or does not have the rest.
            HubError: The server sent another piece or too much, or the folder cannot take the data.
        """
        part, size = self.plan.part_path, self.plan.size
        if answer.status_code in BUSY_STATUSES:
            raise _RetryLater(f"{host} answered {answer.status_code}", answer.headers)
        if answer.status_code == NO_SUCH_PIECE:
            part.unlink(missing_ok=True)
            raise _RetryLater(f"{host} does not have the rest")
        if answer.status_code not in (WHOLE_FILE, PIECE):
            self._refuse(answer, host)
        piece_range = _RANGE.match(answer.headers.get("content-range", ""))
        if answer.status_code == WHOLE_FILE:
            have = 0
        elif piece_range is None or int(piece_range["first"]) != have:
            raise HubError(f"{host} sent another piece than was asked for.", "Pull again.")
        try:
            with part.open("r+b" if part.exists() else "wb") as file:
                file.truncate(have)
                file.seek(have)
                for piece in answer.iter_raw():
                    have += len(piece)
                    if have > size:
                        raise HubError(
                            f"{host} sent more than the {size:,} bytes of the file.",
                            "Remove the pull and begin again.",
                        )
                    file.write(piece)
                    self.report(have, self._redirect_host)
        except OSError as error:
            raise HubError(
                f"{part.parent} cannot take the download ({error.strerror}).",
                "Make room there; pulling again goes on where it stopped.",
            ) from error

    def _refuse(self, answer: Any, host: str) -> None:
        """Raises the error for an answer that is no file."""
        from huggingface_hub.utils import hf_raise_for_status

        if host == self.hub.host:
            answer.read()
            with self.hub.translated_errors(self.plan.manifest.repository):
                hf_raise_for_status(answer)
        raise HubError(f"{host} answered {answer.status_code}.", "Run it again later.")

    def _final_error(self, why: Exception) -> ModelError:
        """Returns the error for a download that is given up."""
        error = self.hub.unreachable_error(why)
        arrived_mb, size_mb = _size(self.plan.part_path) / 1e6, self.plan.size / 1e6
        return HubError(
            f"{error.message} {arrived_mb:,.1f} of {size_mb:,.1f} MB have arrived and are kept.",
            "Pulling again goes on where it stopped.",
        )
