"""Writes files whole or not at all, for their owner only; knows the projects that are open here, and a full disk."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.base.errors import DiskFull, ProjectError

UNFINISHED_PREFIX = ".workbench-unfinished-"
"""The beginning of the names of temporary private folders, whose files are unfinished."""

_MAX_LINKS = 40
"""Number of symbolic links that Linux follows in one path."""

_MAX_ATTEMPTS = 50
"""Number of times that a folder is created before its lock is given up."""


# Files that are written whole or not at all


@contextmanager
def atomic_replacement(path: Path) -> Iterator[Path]:
    """Yields the path of a file to write, which takes the place of `path` at the end of the block.

    The file is in a private folder, and can be read by its owner only. After an exception `path` is as it was, unless
    it is a device or a pipe; after a loss of power it is as it was, or whole.

    A device or a pipe is yielded itself; to a file that is open as a descriptor of this process (`/dev/stdout`,
    `/dev/fd/3`), what was written is added where the descriptor stands. A symbolic link stays, and what it names is
    replaced.

    Raises:
        OSError: The file cannot be written.
    """
    # a folder is no such file: its replacement fails below
    if path.exists() and not (path.is_file() or path.is_dir()):
        yield path  # a device or a pipe, which nothing can take the place of
        return
    descriptor = _find_named_descriptor(path)
    if descriptor is not None:  # whoever opened it has other content in it
        with temporary_private_folder(Path(tempfile.gettempdir())) as folder:
            part = folder / "part"
            yield part
            with part.open("rb") as file, os.fdopen(os.dup(descriptor), "wb") as out:
                shutil.copyfileobj(file, out)
        return
    target = Path(os.path.realpath(path))
    with temporary_private_folder(target.parent) as folder:
        part = folder / target.name
        yield part
        part.chmod(0o600)
        sync(part)
        part.replace(target)
        sync(target.parent)


def replaces_file(path: Path) -> bool:
    """Returns whether `atomic_replacement` of a path would replace a file that has content."""
    has_content = path.is_file() and path.stat().st_size > 0
    return has_content and _find_named_descriptor(path) is None


def _find_named_descriptor(path: Path) -> int | None:
    """Returns the descriptor of this process that a path names, itself or through links; None if it names none."""
    of_this_process = {"/dev/fd", os.path.realpath("/proc/self/fd")}
    for _ in range(_MAX_LINKS):
        folder = os.path.realpath(path.parent)
        if folder in of_this_process and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(folder, os.readlink(path))
    return None


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file; see `atomic_replacement`.

    Raises:
        OSError: The file cannot be written.
    """
    with atomic_replacement(path) as part:
        part.write_text(text, "utf-8")


@contextmanager
def temporary_private_folder(parent: Path) -> Iterator[Path]:
    """Yields a new folder in `parent` that only its owner can enter, and removes it at the end of the block.

    Before that, it removes what dead processes left in `parent`.

    Raises:
        OSError: The folder cannot be created.
    """
    remove_leftovers(parent)
    folder, lock = _create_locked_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sync_tree(folder: Path) -> None:
    """Waits until a folder and all that is in it are on the disk: files first, then the folders that name them.

    Raises:
        OSError: The disk cannot store them.
    """
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            sync(Path(parent, name))
        sync(Path(parent))
    sync(folder.parent)


def sync(path: Path) -> None:
    """Waits until a file or a folder is on the disk.

    Raises:
        OSError: There is none, or the disk cannot store it.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def create_private_folder(folder: Path) -> None:
    """Creates a folder, and those above it that are missing, which only their owner can enter.

    Folders that exist stay as they are.

    Raises:
        OSError: A folder cannot be created.
    """
    if not folder.is_dir():
        create_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def create_private_file(path: Path | str) -> None:
    """Creates an empty file for its owner only, whatever the umask is; a file that exists stays as it is.

    Raises:
        OSError: The file cannot be created.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def remove_leftovers(parent: Path) -> None:
    """Removes from a folder what processes that have ended left unfinished; what a running process writes stays."""
    with suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(UNFINISHED_PREFIX):
                _remove_if_unlocked(parent / name)


def _remove_if_unlocked(folder: Path) -> None:
    """Removes a private folder that no running process has locked."""
    with suppress(OSError):  # it is locked, gone, or of another user
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _create_locked_folder(parent: Path) -> tuple[Path, int]:
    """Returns a new folder in `parent`, and the descriptor that holds its lock, if its file system has locks.

    Raises:
        OSError: The folder cannot be created, or has another inode number each time that it is looked at, as on a file
            system whose files have no lasting numbers.
    """
    for _ in range(_MAX_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=UNFINISHED_PREFIX, dir=parent))
        # another process may take it for a leftover before it is locked
        with suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # without locks, a leftover is not told from a folder in use
                fcntl.flock(lock, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(folder)):
                    return folder, lock
            os.close(lock)
        with suppress(OSError):
            folder.rmdir()
    raise OSError(f"no folder in {parent} can be locked: its file system changes their numbers")


# Projects

APPLICATION_ID = 0x57_42_43_48
"""Marks a SQLite file as a project of this program (`WBCH`)."""

SQLITE_BEGINNING = b"SQLite format 3\0"
"""The first bytes of every SQLite file, and so of every project."""

SIDE_FILE_ENDINGS = ("-wal", "-shm", "-journal", ".lock")
"""Endings of the files that SQLite and the write lock keep beside a project, behind the name of the project."""

Identity = tuple[int, int]
"""Device and inode of a file, which stay the same when it is renamed."""

open_projects: set[Identity] = set()
"""The project files that this process has open. Only `engine.project.file_lock` changes it."""


def is_in_use(path: str) -> bool:
    """Returns whether a path, which may be a link, leads to a project that this process has open."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in open_projects


def is_project(path: str) -> bool:
    """Returns whether a path leads to a project. One that this process has open is not opened a second time: closing it
    would release the locks of SQLite.

    Raises:
        OSError: The file cannot be opened.
    """
    if is_in_use(path):
        return True
    header = _header(path)
    return header.startswith(SQLITE_BEGINNING) and header[68:] == APPLICATION_ID.to_bytes(4)


def is_database(path: str) -> bool:
    """Returns whether a path leads to a file of SQLite, as a project is one from its first moment; see `is_project`."""
    return is_in_use(path) or _header(path).startswith(SQLITE_BEGINNING)


def _header(path: str) -> bytes:
    """Returns the first bytes of a file, the application id of a file of SQLite at their end."""
    with open(path, "rb") as file:
        return file.read(72)  # https://www.sqlite.org/fileformat.html, 1.3


def remove_new_project(path: str) -> None:
    """Removes a project that was just made, with the files beside it; what cannot be removed stays."""
    for ending in ("", *SIDE_FILE_ENDINGS):
        with suppress(OSError):
            os.unlink(path + ending)


def refuse_side_file(path: str | Path) -> None:
    """Checks that a path is not kept for a file beside a project, whether that file is there now or not.

    Raises:
        ProjectError: It is; what is written there would destroy what is in the project.
        OSError: What may be the project cannot be opened.
    """
    real = os.path.realpath(path)
    for ending in SIDE_FILE_ENDINGS:
        project = real.removesuffix(ending)
        if project != real and os.path.isfile(project) and is_database(project):
            raise ProjectError(
                f"{path} belongs to the project {project}.",
                "Choose another name; nothing was written.",
            )


# A full disk

_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a write that failed for want of space."""

_DISK_FULL_TEXTS = (
    "no space left on device",
    "disk quota exceeded",
    "file too large",
    # PyTorch names no cause of a failed write. Where it notices it late, it says
    # `[enforce fail at inline_container.cc:603] . unexpected pos 1088 vs 978`.
    "pytorchstreamwriter failed writing",
    "] . unexpected pos ",
)
"""Parts of the messages of errors of a full disk, in lower case."""

_MIN_FREE_BYTES = 1 << 20
"""Free bytes below which a disk is taken to be full, because libraries report a failed write without its cause."""

DISK_FULL_MESSAGE = "The disk is full, or a limit on file sizes is reached"
"""What the message of a `DiskFull` error begins with."""

TRAINING_DISK_FULL_HINT = (
    "Free some space, then resume the run: it continues at its last checkpoint."
)
"""What to do when the files of a training run could not be written."""


def is_disk_full(error: BaseException | str, folder: Path | None = None) -> bool:
    """Returns whether an error, or the text of one, comes from a full disk.

    Args:
        error: The error or its text.
        folder: Where the write failed; if its disk is full now, the error is taken to come from that.
    """
    if isinstance(error, OSError) and error.errno in _DISK_FULL_ERRNOS:
        return True
    if any(words in str(error).lower() for words in _DISK_FULL_TEXTS):
        return True
    if folder is None:
        return False
    try:
        return shutil.disk_usage(folder).free < _MIN_FREE_BYTES
    except OSError:
        return False


def disk_full_error(written: str) -> DiskFull:
    """Returns the error that says that there was no room for `written`, a noun phrase."""
    return DiskFull(
        f"{DISK_FULL_MESSAGE}: {written} could not be written.",
        "Free some space and run it again; what was saved before is intact.",
    )
