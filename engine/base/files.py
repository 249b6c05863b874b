"""Files that are written whole or not at all, a full disk, and projects that this process has open."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.base.errors import DiskFull

UNFINISHED = ".workbench-unfinished-"
"""How the name of a private folder begins."""

_MOST_LINKS = 40
"""Links that Linux follows in one path."""

_ATTEMPTS = 50
"""How often a folder is made before its lock is given up."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives the path of a file in a private folder, which takes the place of `path` at the end of the block, readable
    by its owner only. After an exception, or a loss of power, `path` is as it was or whole.

    A device or a pipe, which nothing can take the place of, is given itself. A symbolic link stays, and what it names
    is replaced. A file that is open as a descriptor of this process (`/dev/stdout`, `/dev/fd/3`) is not replaced, for
    whoever opened it has other content in it: what was written is added where the descriptor stands.

    Raises:
        OSError: The file cannot be written.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        yield path
        return
    descriptor = _named_descriptor(path)
    if descriptor is not None:
        with private_folder(Path(tempfile.gettempdir())) as folder:
            part = folder / "part"
            yield part
            with part.open("rb") as file, os.fdopen(os.dup(descriptor), "wb") as out:
                shutil.copyfileobj(file, out)
        return
    target = Path(os.path.realpath(path))
    with private_folder(target.parent) as folder:
        part = folder / target.name
        yield part
        part.chmod(0o600)
        _sync(part)
        part.replace(target)
        _sync(target.parent)


def _named_descriptor(path: Path) -> int | None:
    """The descriptor of this process that a path names, through links or not; None where it names none."""
    of_this_process = {"/dev/fd", os.path.realpath("/proc/self/fd")}
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if folder in of_this_process and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(folder, os.readlink(path))
    return None


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file; see `replacing`.

    Raises:
        OSError: The file cannot be written.
    """
    with replacing(path) as part:
        part.write_text(text, "utf-8")


@contextmanager
def private_folder(parent: Path) -> Iterator[Path]:
    """Makes a folder in `parent` that only its owner can enter, and removes it at the end of the block; before, removes
    what dead processes left in `parent`.

    Raises:
        OSError: The folder cannot be made.
    """
    remove_leftovers(parent)
    folder, lock = _locked_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sync_tree(folder: Path) -> None:
    """Waits until a folder and all that is in it are on the disk: files first, then the folders that name them.

    Raises:
        OSError: The disk refuses.
    """
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            _sync(Path(parent, name))
        _sync(Path(parent))
    _sync(folder.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Makes a folder and those above it that are missing, which only their owner can enter; those that are there stay
    as they are.

    Raises:
        OSError: A folder cannot be made.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def make_file(path: Path | str) -> None:
    """Makes an empty file for its owner only, whatever the umask is; one that is there stays as it is.

    Raises:
        OSError: The file cannot be made.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def remove_leftovers(parent: Path) -> None:
    """Removes from a folder what processes that have ended left unfinished; what a live one writes stays."""
    with suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(UNFINISHED):
                _remove_if_unlocked(parent / name)


def _remove_if_unlocked(folder: Path) -> None:
    with suppress(OSError):  # it is locked, gone, or of another user
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _locked_folder(parent: Path) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock.

    Raises:
        OSError: The folder cannot be made, or is another one each time that it is looked at, as on a file system whose
            files have no lasting numbers.
    """
    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=parent))
        # another process may take it for a leftover before it is locked
        with suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(folder)):
                    return folder, lock
            os.close(lock)
        with suppress(OSError):
            folder.rmdir()
    raise OSError(f"no folder in {parent} can be locked: its file system changes their numbers")


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_TEXTS = (
    "no space left on device",
    "disk quota exceeded",
    "file too large",
    "pytorchstreamwriter failed writing",  # PyTorch names no cause of a failed write,
    "] . unexpected pos ",  # nor where it notices it late
)
_LEAST_FREE = 1 << 20
"""Free bytes below which a disk is taken to be full: libraries report a failed write without its cause."""

DISK_FULL = "The disk is full, or a limit on file sizes is reached"
FULL_HINT = "Free some space, then resume the run: it continues at its last checkpoint."
"""What to do where a training run was written."""


def is_disk_full(error: BaseException | str, folder: Path | None = None) -> bool:
    """Whether an error, or the text of one, comes from a full disk.

    Args:
        folder: Where the write failed; if its disk is full now, the error is taken to come from that.
    """
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    if any(words in str(error).lower() for words in _FULL_TEXTS):
        return True
    if folder is None:
        return False
    try:
        return shutil.disk_usage(folder).free < _LEAST_FREE
    except OSError:
        return False


def disk_full(written: str) -> DiskFull:
    """The error that says that there is no room for what is written."""
    return DiskFull(
        f"{DISK_FULL}: {written} could not be written.",
        "Free some space and run it again; what was saved before is intact.",
    )


Identity = tuple[int, int]

in_use: set[Identity] = set()
"""Device and inode of each; written by `ProjectFile` only."""


def is_in_use(path: str) -> bool:
    """Whether a path, which may be a link, leads to a project that this process has open."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in in_use
