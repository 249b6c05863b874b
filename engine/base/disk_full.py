"""Recognizes a full disk in errors of the system and of libraries, and says what to do about it."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from engine.base.errors import DiskFull

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
"""Parts of the messages of such errors, in lower case."""


_MIN_FREE_BYTES = 1 << 20
"""Free bytes below which a disk is taken to be full, because libraries report a failed write without its cause."""


DISK_FULL_MESSAGE = "The disk is full, or a limit on file sizes is reached"
"""What the message of such an error begins with."""


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
