"""Reads the bytes of one input in chunks, decompressed and in UTF-8; knows the position in the file, can be rewound."""

from __future__ import annotations

import bz2
import codecs
import itertools
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from engine.errors import FormatError

CHUNK = 1 << 18
PIECE = 1 << 12
GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_LONGEST_MAGIC = 6


def _zstd() -> Any:
    """A decompressor of zstd.

    Raises:
        FormatError: The library is not installed.
    """
    try:
        import zstandard
    except ImportError:
        raise missing_library("zstd", "zstandard") from None
    return zstandard.ZstdDecompressor().decompressobj()


def missing_library(what: str, library: str) -> FormatError:
    """The error for data that need a library of the extra `formats`."""
    return FormatError(
        f"Reading {what} needs the library {library}, which is not installed.",
        "Install it: pip install 'conversation-workbench[formats]'",
    )


_DECOMPRESSORS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMADecompressor),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
}
"""Compressed data by their first bytes: name, and what decompresses one stream of them; gzip is read apart."""


class Source:
    """Reads a binary stream in chunks. Compression and UTF-16 are recognised by the first bytes; the chunks are UTF-8,
    as far as the data are text, without a byte order mark.

    Attributes:
        position: Number of bytes read from the stream so far, before decompression.
        error: Why the data ended early (a truncated or damaged file, a failing disk); None if it did not.
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
        while len(start) < _LONGEST_MAGIC and (more := self._take()):
            start += more
        first = b""
        plain = self._uncompressed(start)
        for chunk in plain:
            first += chunk
            if len(first) >= _LONGEST_MAGIC:
                break
        if encoding := _utf16(first):
            yield from _in_utf8(encoding, first, plain)
            return
        if first := first.removeprefix(_BOM):
            yield first
        yield from plain

    def _uncompressed(self, start: bytes) -> Iterator[bytes]:
        if start.startswith(GZIP_MAGIC):
            yield from self._gunzipped(start)
            return
        for magic, (name, decompressor) in _DECOMPRESSORS.items():
            if start.startswith(magic):
                yield from self._streams(start, magic, name, decompressor)
                return
        yield from self._plain(start)

    def _streams(
        self, data: bytes, magic: bytes, name: str, new: Callable[[], Any]
    ) -> Iterator[bytes]:
        """Yields the data of all compressed streams one after the other."""
        stream = new()
        while data or (data := self._take()):
            # A small piece cannot become very large, however well it was compressed.
            piece, data = data[:PIECE], data[PIECE:]
            try:
                out = stream.decompress(piece)
            except Exception as error:  # noqa: BLE001 -- each library raises its own
                self.error = f"the {name} data are damaged: {error}"
                return
            if out:
                yield out
            if stream.eof:
                data = stream.unused_data + data
                while len(data) < len(magic) and (more := self._take()):
                    data += more
                if not data.strip(b"\0"):
                    return
                if not data.startswith(magic):
                    self.error = f"there is something else after the {name} data"
                    return
                stream = new()
        self.error = self.error or f"the {name} data end early: the file was cut off"

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


def _utf16(first: bytes) -> str | None:
    """The encoding of text that begins so, if it is UTF-16: by its byte order mark, or by the zero bytes in ASCII."""
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(first) >= 4 and first[1] == first[3] == 0 and first[0] and first[2]:
        return "utf-16-le"
    if len(first) >= 4 and first[0] == first[2] == 0 and first[1] and first[3]:
        return "utf-16-be"
    return None


def _in_utf8(encoding: str, first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in itertools.chain((first,), rest):
        if text := decoder.decode(chunk):
            yield text.encode("utf-8", "surrogatepass")
    if text := decoder.decode(b"", final=True):
        yield text.encode()
