"""Rows of a Parquet file, in bounds of memory: how large a group of rows is when it is unpacked stands in the footer of
the file, so it is known before anything is unpacked.

Not covered: a footer that says less than the truth, a dictionary of which one row names a long text many times, and
what Arrow needs for the footer itself, which is not compressed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from engine.formats.opening.bounds import LEAST_OF_RECORD, RAISED, Reading
from engine.formats.opening.framing import Frame, too_large
from engine.formats.opening.source import missing_library
from engine.formats.opening.tables import row_frame

_DAMAGES = (OSError, ValueError, NotImplementedError, TypeError, LookupError, OverflowError)
"""What Arrow raises for a damaged file."""

_MOST_ROWS = 256
"""Most rows that are unpacked together."""

_TOGETHER = 8 << 20
"""Number of bytes of rows that are unpacked together, if all rows of a group are alike."""

_MOST_TIMES = 100
"""How many times the size of the file a group of rows may unpack to, beyond what any file may."""


def parquet_rows(path: str, count: Reading) -> Iterator[Frame]:
    """Yields the rows of a Parquet file; a row that is larger than a record may be has a reason.

    Raises:
        FormatError: The library is not installed.
    """
    try:
        from pyarrow import parquet
    except ImportError:
        raise missing_library("Parquet", "pyarrow") from None
    most = max(count.bounds.unpacked, _MOST_TIMES * os.path.getsize(path))
    number = 0
    try:
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for group in range(file.metadata.num_row_groups):
                about = file.metadata.row_group(group)
                if about.total_byte_size > most:
                    yield Frame(number + 1, b"", None, _reason_not_unpacked(about))
                    number += about.num_rows
                    continue
                for row in _group_rows(file, group, about):
                    count.bounds.stop_if_cancelled()
                    number += 1
                    frame = row_frame(number, row)
                    yield frame
                    if not count.add(max(len(frame.raw), LEAST_OF_RECORD)):
                        yield Frame(None, b"", None, count.bounds.too_much)
                        return
    except _DAMAGES as error:
        yield Frame(number + 1, b"", None, f"the Parquet data are damaged: {error}")


def _group_rows(file: Any, group: int, about: Any) -> Iterator[dict[str, Any]]:
    """Yields the rows of a group, the fewer at a time the larger they are; `about` is what the footer says of it."""
    alike = _TOGETHER * about.num_rows // max(1, about.total_byte_size)
    size = max(1, min(_MOST_ROWS, alike))
    for batch in file.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
        yield from batch.to_pylist()


def _reason_not_unpacked(about: Any) -> str:
    """Returns why the rows of a group are not read."""
    if about.num_rows == 1:
        return too_large()
    size = f"{about.total_byte_size >> 20:,} MiB"
    return f"{too_large()}, or {about.num_rows:,} rows from here on unpack to {size}; these are not read {RAISED}"
