"""Reads the bytes of one input in chunks, decompressed; knows the position in the file, and can be rewound."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

CHUNK = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


class Source:
    """Reads a binary stream in chunks; gzip is recognised by its first bytes, a byte order mark is dropped.

    Attributes:
        position: Number of bytes read from the stream so far, before decompression.
        error: Why the data ended early (a truncated or damaged gzip file, a failing disk); None if it did not.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.position = 0
        self.error: str | None = None
        self._stream = stream
        self._chunks = self._decompressed()
        self._kept: list[bytes] | None = None
        self._replay: list[bytes] = []

    def keep(self) -> None:
        """Keeps the chunks that are read from now on, so that `rewind` can return them again."""
        self._kept = []

    def rewind(self) -> None:
        """Returns to where `keep` was called; chunks read afterwards are no longer kept."""
        self._replay = [*(self._kept or []), *self._replay]
        self._kept = None

    def read(self) -> bytes:
        """Returns the next chunk, empty at the end. Memory is bounded for any compression ratio."""
        chunk = self._replay.pop(0) if self._replay else next(self._chunks, b"")
        if self._kept is not None and chunk:
            self._kept.append(chunk)
        return chunk

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()

    def _take(self) -> bytes:
        try:
            data = self._stream.read(CHUNK)
        except OSError as error:
            self.error = f"reading failed: {error.strerror or error}"
            return b""
        self.position += len(data)
        return data

    def _decompressed(self) -> Iterator[bytes]:
        start = b""
        while len(start) < len(_BOM) and (more := self._take()):
            start += more
        plain = self._gunzipped(start) if start.startswith(GZIP_MAGIC) else self._plain(start)
        first = b""
        for chunk in plain:
            first += chunk
            if len(first) >= len(_BOM):
                break
        if first := first.removeprefix(_BOM):
            yield first
        yield from plain

    def _plain(self, start: bytes) -> Iterator[bytes]:
        while start:
            yield start
            start = self._take()

    def _gunzipped(self, data: bytes) -> Iterator[bytes]:
        """Yields the data of all members of a gzip stream; only zero padding may follow, else it is an error."""
        member = zlib.decompressobj(wbits=31)
        while data or (data := self._take()):
            before = member.copy()
            try:
                out = member.decompress(data, CHUNK * 4)
            except zlib.error as error:
                self.error = f"the gzip data are damaged: {error}"
                yield from _readable(before, data)
                return
            if out:
                yield out
            data = member.unconsumed_tail
            if member.eof:
                data = member.unused_data.lstrip(b"\0")
                while not data and (more := self._take()):
                    data = more.lstrip(b"\0")
                if not data:
                    return
                if not data.startswith(GZIP_MAGIC[: len(data)]):
                    self.error = "there is something else after the gzip data"
                    return
                member = zlib.decompressobj(wbits=31)
        if rest := member.flush():
            yield rest
        if self.error is None:
            self.error = "the gzip data end early: the file was cut off"


def _readable(member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Yields the data before a damaged place. Feeds single bytes, because a failing step returns nothing."""
    for at in range(len(data)):
        try:
            out = member.decompress(data[at : at + 1])
        except zlib.error:
            return
        if out:
            yield out
