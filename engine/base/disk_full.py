"""How a full disk is recognized, and the error that says so. Standard library only."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from engine.base.errors import DiskFull

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
