"""Reads the bytes of one input in chunks, decompressed and in UTF-8; knows the position in the file, can be rewound.

How much a file may unpack to is bounded. A log that compresses a thousand times has nothing new in its records, so the
limits refuse no honest one; a person can raise them all the same (`import --most-unpacked`).
"""

from __future__ import annotations

import bz2
import codecs
import itertools
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from engine.base.errors import Cancelled, FormatError

# Limits

FREELY_UNPACKED = 256 << 20
"""Number of bytes to which any file may unpack."""

MOST_TIMES = 1_000
"""How many times its own size a file may unpack to, where that is more than `FREELY_UNPACKED`; a history that each
record repeats compresses some hundred times."""

LEAST_OF_RECORD = 1 << 10
"""Number of bytes that a record counts for at least, so that there is a limit on their number too: about one for each
byte of the file, and a quarter of a million of a small one."""

RAISED = "(`import --most-unpacked` raises the limit)"
"""Ending of the reason of each limit that a person can raise."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What limits and stops reading.

    Attributes:
        unpacked: Number of bytes to which any file may unpack.
        is_cancelled: Whether a person wants to stop; asked often, also within one record.
    """

    unpacked: int = field(default_factory=lambda: FREELY_UNPACKED)
    is_cancelled: Callable[[], bool] = lambda: False

    def stop_if_cancelled(self) -> None:
        """Does nothing, or raises Cancelled when a person wants to stop."""
        if self.is_cancelled():
            raise Cancelled("Reading was cancelled.")

    @property
    def too_much(self) -> str:
        """Why reading ends at the limit."""
        size = self.unpacked / (1 << 20)
        free = f"{size:,.0f} MiB" if size < 1 << 10 else f"{size / (1 << 10):,.1f} GiB"
        return f"it unpacks to more than {free} and {MOST_TIMES:,} times its size, and is read no further {RAISED}"


class Expansion:
    """Counts to how much one file of a person unpacks, in all its parts.

    Attributes:
        bounds: The limits.
    """

    def __init__(self, size: int | None, bounds: Bounds) -> None:
        """Counts from zero.

        Args:
            size: Number of bytes of the file; None if unknown, as of a pipe.
        """
        self.bounds = bounds
        self._size = size
        self._parts: dict[str, int] = {}
        self._total = 0

    def set_count(self, part: str, count: int, size: int) -> bool:
        """Sets to how much a part unpacked so far; returns whether that is too much, by itself or with the others.

        What is read again is not counted again, and what is too much by itself takes nothing from the others.

        Args:
            part: Its name.
            count: Number of bytes that it unpacked to so far.
            size: Number of bytes of the file that it stands for.
        """
        before = self._parts.get(part, 0)
        is_over = count > self._most(size)
        self._parts[part] = 0 if is_over else max(count, before)
        self._total += self._parts[part] - before
        return is_over or self._all_are_over()

    def may_begin(self, part: str) -> bool:
        """Returns whether a part may be read that was not read yet: not where the others were too much."""
        return part in self._parts or not self._all_are_over()

    def _all_are_over(self) -> bool:
        """Returns whether all parts together unpacked to more than the file may."""
        return self._size is not None and self._total > self._most(self._size)

    def _most(self, size: int) -> int:
        """Returns to how many bytes `size` bytes of a file may unpack."""
        return max(self.bounds.unpacked, MOST_TIMES * size)


class Reading:
    """Counts one reading of a part of a file, from its beginning.

    Attributes:
        expansion: Counts all parts of the file.
        is_over: Whether it unpacked to more than it may, or may not be begun.
    """

    def __init__(self, expansion: Expansion, part: str, size: int | None) -> None:
        """Counts from zero.

        Args:
            part: Name of the part.
            size: Number of bytes of the file that it stands for; None if unknown.
        """
        self.expansion, self._part, self._size = expansion, part, size
        self._count = 0
        self.is_over = not expansion.may_begin(part)

    @property
    def bounds(self) -> Bounds:
        """The limits."""
        return self.expansion.bounds

    def add(self, count: int, position: int = 0) -> bool:
        """Counts unpacked bytes; False if that is too much.

        Args:
            position: Number of bytes of the file that were read; used where the size is unknown.

        Raises:
            Cancelled: A person wants to stop.
        """
        self.bounds.stop_if_cancelled()
        self._count += count
        size = position if self._size is None else self._size
        self.is_over = self.expansion.set_count(self._part, self._count, size)
        return not self.is_over


def unlimited() -> Reading:
    """Returns a count without a limit, for what this program wrote."""
    return Reading(Expansion(None, Bounds(unpacked=sys.maxsize)), "", None)


# Decompression

_ZSTD_PIECE = 1 << 9
"""Number of bytes of zstd that are decompressed at a time."""

_MAX_XZ_MEMORY = 128 << 20
"""Most memory for the dictionary of data in xz; `xz -9` needs half of it."""


def missing_library(what: str, library: str, otherwise: str = "") -> FormatError:
    """Returns the error for data that need a library of the extra `formats`, with what can be done without it."""
    return FormatError(
        f"Reading {what} needs the library {library}, which is not installed.",
        "Install it: pip install 'conversation-workbench[formats]'." + f" {otherwise}".rstrip(),
    )


class _Zstd:
    """Decompresses one stream of zstd as `bz2.BZ2Decompressor` does.

    The library cannot bound what comes out of a call, so little is put in: a block of 4 bytes can become 128 KiB.

    Raises:
        FormatError: The library is not installed.
    """

    def __init__(self) -> None:
        try:
            import zstandard
        except ImportError:
            raise missing_library("zstd", "zstandard") from None
        self._stream = zstandard.ZstdDecompressor().decompressobj()
        self._left = memoryview(b"")

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""
        return bool(self._stream.eof)

    @property
    def needs_input(self) -> bool:
        """Whether nothing is left to decompress."""
        return not self._left

    @property
    def unused_data(self) -> bytes:
        """What stands after the end of the stream."""
        return bytes(self._stream.unused_data) + bytes(self._left)

    def decompress(self, data: bytes, _: int) -> bytes:
        """Returns what the next piece unpacks to; the second argument is not heeded."""
        packed = memoryview(data) if data else self._left
        self._left = packed[_ZSTD_PIECE:]
        return bytes(self._stream.decompress(packed[:_ZSTD_PIECE]))


_DECOMPRESSORS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lambda: lzma.LZMADecompressor(memlimit=_MAX_XZ_MEMORY)),
    b"\x28\xb5\x2f\xfd": ("zstd", _Zstd),
}
"""First bytes of compressed data -> the name of the compression, and what decompresses one stream of it; gzip is read
apart."""

GZIP_MAGIC = b"\x1f\x8b"
"""First bytes of gzip."""


# The bytes of an input

CHUNK = 1 << 18
"""Number of bytes that are read at a time."""

_BOM = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8."""

_MAGIC_BYTES = 6
"""Number of bytes at the beginning from which the compression is read."""

_MAX_LOOK_BYTES = 64 << 20
"""Number of bytes of a pipe that are kept while its beginning is looked at."""


class Source:
    """Reads a binary stream in chunks. Compression, UTF-16, UTF-32 and Windows-1252 are recognized by the first bytes;
    the chunks are UTF-8, as far as the data are text, without a byte order mark.

    Attributes:
        position: Number of bytes read from the stream so far, before decompression.
        error: Why the data ended early (a truncated or damaged file, a failing disk, too much data); None if they did
            not.
        guessed_encoding: The encoding, if nothing says it and the beginning is not UTF-8; None until that was read.
        is_look_cut_off: Whether the last look at the beginning ended at `_MAX_LOOK_BYTES` bytes.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        reopen: Callable[[], BinaryIO] | None = None,
        start_count: Callable[[], Reading] = unlimited,
    ) -> None:
        """Begins at the position of the stream.

        Args:
            reopen: Opens the stream at its beginning; None if it can be read only once.
            start_count: Returns a new count of what is read.
        """
        self._reopen = reopen
        self._start_count = start_count
        self.guessed_encoding: str | None = None
        self.is_look_cut_off = False
        self._begin(stream)

    def _begin(self, stream: BinaryIO) -> None:
        """Begins to read a stream."""
        self.position = 0
        self.error: str | None = None
        self.count = self._start_count()
        self._stream = stream
        self._chunks = self._decompressed()
        self._kept: list[bytes] | None = None  # chunks of a look at the beginning
        self._kept_size = 0  # bytes
        self._replay: list[bytes] = []  # chunks that are read again

    def mark_beginning(self) -> None:
        """Begins a look at the data, which `rewind` ends; of a stream that can be read only once it reaches at most
        `_MAX_LOOK_BYTES`."""
        self.is_look_cut_off = False
        self._kept_size = 0
        self._kept = [] if self._reopen is None else None

    def rewind(self) -> None:
        """Returns to where `mark_beginning` was called, which is the beginning.

        Raises:
            OSError: The stream cannot be opened again.
        """
        if self._reopen is not None:
            self.close()
            self._begin(self._reopen())
            return
        self._replay = [*(self._kept or []), *self._replay]
        self._kept = None

    def read(self) -> bytes:
        """Returns the next chunk, empty at the end. Memory is bounded for any compression ratio."""
        if self._kept is not None and self._kept_size >= _MAX_LOOK_BYTES:
            self.is_look_cut_off = True
            return b""
        chunk = self._next()
        if self._kept is not None and chunk:
            self._kept.append(chunk)
            self._kept_size += len(chunk)
        return chunk

    def peek(self, least: int) -> bytes:
        """Returns what is read next, at least `least` bytes if there are so many; it is read again afterwards."""
        chunks: list[bytes] = []
        size = 0
        while size < least and (chunk := self._next()):
            chunks.append(chunk)
            size += len(chunk)
        self._replay = [*chunks, *self._replay]
        return b"".join(chunks)

    def _next(self) -> bytes:
        """Returns the next chunk, one that is to be read again first; empty at the end."""
        return self._replay.pop(0) if self._replay else next(self._chunks, b"")

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()

    def _read_raw(self) -> bytes:
        """Returns the next bytes of the stream as they are; empty at the end, and where reading fails."""
        try:
            data = self._stream.read(CHUNK)
        except OSError as error:
            self.error = f"reading failed: {error.strerror or error}"
            return b""
        self.position += len(data)
        return data

    def _decompressed(self) -> Iterator[bytes]:
        """Yields the data, decompressed and as UTF-8."""
        start = b""
        while len(start) < _MAGIC_BYTES and (more := self._read_raw()):
            start += more
        first = b""
        plain = self._counted(self._uncompressed(start))
        for chunk in plain:
            first += chunk
            if len(first) >= _MAGIC_BYTES:
                break
        if encoding := _wide_encoding(first):
            yield from _encode_utf8(codecs.getincrementaldecoder(encoding)("replace"), first, plain)
            return
        if _is_windows_1252(first):
            self.guessed_encoding = "Windows-1252"
            yield from _encode_utf8(
                codecs.getincrementaldecoder("utf-8")(_MIXED_ENCODING), first, plain
            )
            return
        if first := first.removeprefix(_BOM):
            yield first
        yield from plain

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yields the chunks until there are too many bytes."""
        if self.count.is_over:
            self.error = self.count.bounds.too_much
            return
        for chunk in chunks:
            yield chunk
            if not self.count.add(len(chunk), self.position):
                self.error = self.count.bounds.too_much
                return

    def _uncompressed(self, start: bytes) -> Iterator[bytes]:
        """Yields the data of a stream that begins so, decompressed."""
        if start.startswith(GZIP_MAGIC):
            yield from self._gunzipped(start)
            return
        for magic, (name, decompressor) in _DECOMPRESSORS.items():
            if start.startswith(magic):
                yield from self._decompressed_streams(start, magic, name, decompressor)
                return
        yield from self._plain(start)

    def _decompressed_streams(
        self, data: bytes, magic: bytes, name: str, new: Callable[[], Any]
    ) -> Iterator[bytes]:
        """Yields the data of all compressed streams one after the other."""
        stream = new()
        while data or not stream.needs_input or (data := self._read_raw()):
            try:
                out = stream.decompress(data, CHUNK * 4)
            except Exception as error:  # noqa: BLE001 -- each library raises its own
                too_large = "usage limit" in str(error)  # of xz, which has no class for it
                need = f"need more than {_MAX_XZ_MEMORY >> 20} MiB of memory"
                what = need if too_large else "are damaged"
                self.error = f"the {name} data {what}: {error}"
                return
            data = b""
            if out:
                yield out
            if stream.eof:
                data = stream.unused_data
                while len(data) < len(magic) and (more := self._read_raw()):
                    data += more
                if not data.strip(b"\0"):
                    return
                if not data.startswith(magic):
                    self.error = f"there is something else after the {name} data"
                    return
                stream = new()
        self.error = self.error or f"the {name} data end early: the file was cut off"

    def _plain(self, start: bytes) -> Iterator[bytes]:
        """Yields the data of a stream without compression."""
        while start:
            yield start
            start = self._read_raw()

    def _gunzipped(self, data: bytes) -> Iterator[bytes]:
        """Yields the data of all members of a gzip stream; only zero padding may follow, else it is an error."""
        member = zlib.decompressobj(wbits=31)
        while data or (data := self._read_raw()):
            before = member.copy()
            try:
                out = member.decompress(data, CHUNK * 4)
            except zlib.error as error:
                self.error = f"the gzip data are damaged: {error}"
                yield from _readable_bytes(before, data)
                return
            if out:
                yield out
            data = member.unconsumed_tail
            if member.eof:
                data = member.unused_data.lstrip(b"\0")
                while not data and (more := self._read_raw()):
                    data = more.lstrip(b"\0")
                if not data:
                    return
                if not data.startswith(GZIP_MAGIC[: len(data)]):
                    self.error = "there is something else after the gzip data"
                    return
                member = zlib.decompressobj(wbits=31)
        if following := member.flush():
            yield following
        if self.error is None:
            self.error = "the gzip data end early: the file was cut off"


def _readable_bytes(member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Yields the data before a damaged place. Feeds single bytes, because a failing step returns nothing."""
    for position in range(len(data)):
        try:
            out = member.decompress(data[position : position + 1])
        except zlib.error:
            return
        if out:
            yield out


# Encodings

_MIXED_ENCODING = "windows-1252-where-not-utf-8"
"""Name of the error handler that reads what is not UTF-8 as Windows-1252."""

_NOT_ASCII = re.compile(rb"[\x80-\xff]+")
"""Finds bytes outside ASCII."""

_NEVER_IN_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x81\x8d\x8f\x90\x9d]")
"""Finds bytes that no text in Windows-1252 has."""


def _wide_encoding(first: bytes) -> str | None:
    """Returns the encoding of text that begins so, if it is UTF-16 or UTF-32: by its byte order mark, or by zeros in
    the other bytes of each letter, as where the letters are ASCII."""
    if first.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    is_zero = [byte == 0 for byte in first[:4]]
    if is_zero == [False, True, False, True]:
        return "utf-16-le"
    if is_zero == [True, False, True, False]:
        return "utf-16-be"
    if is_zero == [False, True, True, True]:
        return "utf-32-le"
    return "utf-32-be" if is_zero == [True, True, True, False] else None


def _is_windows_1252(first: bytes) -> bool:
    """Returns whether a beginning is text in the usual encoding of old Windows programs.

    Nothing in it may be UTF-8 outside ASCII. JSON is UTF-8 by its definition and may be damaged, so a few bytes in it
    prove nothing.
    """
    byte_runs = _NOT_ASCII.findall(first)
    least_runs = 3 if first.lstrip()[:1] in (b"{", b"[") else 1
    return (
        len(byte_runs) >= least_runs
        and _NEVER_IN_TEXT.search(first) is None
        and not any(map(_is_utf8, byte_runs))
    )


def _is_utf8(data: bytes) -> bool:
    """Returns whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _as_windows_1252(error: UnicodeError) -> tuple[str, int]:
    """Returns bytes that are not UTF-8 as Windows-1252, and the position after them, as an error handler of `codecs`
    does."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(_MIXED_ENCODING, _as_windows_1252)


def _encode_utf8(
    decoder: codecs.IncrementalDecoder, first: bytes, following: Iterator[bytes]
) -> Iterator[bytes]:
    """Yields chunks in another encoding as UTF-8."""
    for chunk in itertools.chain((first,), following):
        if text := decoder.decode(chunk):
            yield text.encode("utf-8", "surrogatepass")
    if text := decoder.decode(b"", final=True):
        yield text.encode()
