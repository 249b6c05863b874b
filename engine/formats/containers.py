"""What is in a file, decided by its bytes and not by its name: text, perhaps compressed; the members of an archive; the
rows of a table."""

from __future__ import annotations

import io
import os
import re
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from engine.errors import FormatError
from engine.formats.framing import MAX_RECORD, Frame, Outer, load
from engine.formats.json_values import BadRecord, as_json
from engine.formats.source import Source, missing_library
from engine.formats.tables import parquet_rows, sqlite_rows, sqlite_tables

DEEPEST_ARCHIVE = 2
"""How deep archives within archives are opened."""

_ZSTD_IN_ZIP = 93
_COPIED_AT_ONCE = 1 << 20
_JUNK = re.compile(r"(?:^|/)(?:__MACOSX/|\.|Thumbs\.db$|desktop\.ini$)")
_INSPECT_SAMPLE = re.compile(r"^samples/.*\.json$")
_INSPECT_HEADERS = ("header.json", "_journal/start.json")


@dataclass(frozen=True, slots=True)
class Content:
    """Something in a file that has records: bytes, or rows.

    Attributes:
        label: Where it is, as a person reads it: the path, and in an archive or a database the name inside.
        name: Its path or name from which conversations without an id get theirs.
        size: Number of bytes on disk or in the archive; None if unknown.
        stream: Opens its bytes; None if it has rows.
        rows: Yields its rows; None if it has bytes.
        once: Whether it can be read only once, as a pipe.
    """

    label: str
    name: str
    size: int | None
    stream: Callable[[], BinaryIO] | None = None
    rows: Callable[[], Iterator[Frame]] | None = None
    once: bool = False


def contents(path: str, name: str) -> list[Content]:
    """Returns what a file has, at least one content.

    Args:
        name: Name of the file for conversations without an id.

    Raises:
        FormatError: An archive or a database cannot be read, or has nothing in it.
        OSError: The file cannot be opened.
    """
    with open(path, "rb") as file:
        start = file.read(512)
    if start.startswith(b"PAR1"):
        return [Content(path, name, os.path.getsize(path), rows=lambda: parquet_rows(path))]
    if start.startswith(b"SQLite format 3\0"):
        return _tables(path, name)
    found = list(_archived(lambda: _open(path), path, name, os.path.getsize(path), 0))
    if not found:
        raise FormatError(f"The archive {path} has no files in it.", "Check the file.")
    return found


def _open(path: str) -> BinaryIO:
    return open(path, "rb")


def _tables(path: str, name: str) -> list[Content]:
    names = sqlite_tables(path)
    if not names:
        raise FormatError(f"The SQLite database {path} has no rows.", "Check the file.")
    size = os.path.getsize(path)

    def content(table: str) -> Content:
        return Content(
            f"{path}: {table}", f"{name}/{table}", size, rows=lambda: sqlite_rows(path, table)
        )

    return [content(table) for table in names]


def _archived(
    opened: Callable[[], BinaryIO], label: str, name: str, size: int | None, depth: int
) -> Iterator[Content]:
    """Yields the members of an archive; the stream itself if it is none, or lies too deep."""
    with opened() as stream:
        start = stream.read(4)
    if depth < DEEPEST_ARCHIVE and start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        yield from _zip_members(opened, label, name, depth)
    elif depth < DEEPEST_ARCHIVE and (unpacked := _tar(opened, label)) is not None:
        yield from _tar_members(unpacked, label, name, depth)
    else:
        yield Content(label, name, size, stream=opened)


def _zip_members(
    opened: Callable[[], BinaryIO], label: str, name: str, depth: int
) -> Iterator[Content]:
    try:
        archive = zipfile.ZipFile(opened())
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise FormatError(
            f"The zip archive {label} is damaged: {error}.", "Check the file."
        ) from None
    members = [entry for entry in archive.infolist() if _is_wanted(entry.filename, entry.is_dir())]
    if any(entry.flag_bits & 1 for entry in members):
        raise FormatError(f"The zip archive {label} is encrypted.", "Unpack it first.")
    names = {entry.filename for entry in members}
    header = next((one for one in _INSPECT_HEADERS if one in names), None)
    samples = [entry for entry in members if _INSPECT_SAMPLE.match(entry.filename)]
    if header is not None and samples:
        rows = _inspect_rows(archive, archive.getinfo(header), samples)
        yield Content(label, name, None, rows=rows)
        return
    for entry in members:

        def member(entry: zipfile.ZipInfo = entry) -> BinaryIO:
            return _zip_stream(archive, entry)

        inside = f"{label}: {entry.filename}"
        yield from _archived(member, inside, f"{name}/{entry.filename}", entry.file_size, depth + 1)


def _zip_stream(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> BinaryIO:
    """The bytes of a member of a zip archive, also if they are compressed with zstd."""
    if entry.compress_type != _ZSTD_IN_ZIP:
        try:
            return archive.open(entry)  # type: ignore[return-value]
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise OSError(f"the zip archive cannot be read: {error}") from None
    try:
        import zstandard
    except ImportError:
        raise missing_library("this zip archive", "zstandard") from None
    file = archive.fp
    assert file is not None
    file.seek(entry.header_offset)
    *_, name_length, extra_length = struct.unpack("<4s5H3I2H", file.read(30))
    file.seek(entry.header_offset + 30 + name_length + extra_length)
    packed = io.BytesIO(file.read(entry.compress_size))
    unpacked: BinaryIO = zstandard.ZstdDecompressor().stream_reader(packed)
    return unpacked


def _inspect_rows(
    archive: zipfile.ZipFile, header: zipfile.ZipInfo, samples: list[zipfile.ZipInfo]
) -> Callable[[], Iterator[Frame]]:
    """The rows of a log of Inspect: the samples, split from the log."""

    def rows() -> Iterator[Frame]:
        head: Any = None
        try:
            head = _json_of(archive, header)
        except BadRecord as bad:
            yield Frame(None, b"", None, f"{header.filename}: {bad.reason}")
        for number, entry in enumerate(samples, 1):
            try:
                sample = _json_of(archive, entry)
            except BadRecord as bad:
                yield Frame(number, b"", None, f"{entry.filename}: {bad.reason}")
                continue
            raw = as_json(sample).encode()
            yield Frame(number, raw, sample, outer=Outer(head, number == 1))

    return rows


def _json_of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Any:
    if entry.file_size > MAX_RECORD:
        raise BadRecord(f"it is larger than {MAX_RECORD >> 20} MiB")
    try:
        with _zip_stream(archive, entry) as stream:
            return load(stream.read(), "file")
    except (OSError, zipfile.BadZipFile) as error:
        raise BadRecord(f"it is damaged: {error}") from None


def _tar(opened: Callable[[], BinaryIO], label: str) -> BinaryIO | None:
    """The bytes of a tar archive, decompressed into a file without a name; None if it is none."""
    source = Source(opened())
    start = source.read()
    while len(start) < 512 and (more := source.read()):
        start += more
    if start[257:262] != b"ustar":
        source.close()
        return None
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115 -- lives as long as its members are read
    while start:
        unpacked.write(start)
        start = source.read()
    source.close()
    unpacked.seek(0)
    return unpacked


def _tar_members(unpacked: BinaryIO, label: str, name: str, depth: int) -> Iterator[Content]:
    try:
        archive = tarfile.open(fileobj=unpacked)  # noqa: SIM115 -- read with its members
        members = archive.getmembers()
    except tarfile.TarError as error:
        raise FormatError(
            f"The tar archive {label} is damaged: {error}.", "Check the file."
        ) from None
    for entry in members:
        if not _is_wanted(entry.name, not entry.isfile()):
            continue

        def member(entry: tarfile.TarInfo = entry) -> BinaryIO:
            stream = archive.extractfile(entry)
            assert stream is not None
            return stream  # type: ignore[return-value]

        inside = f"{label}: {entry.name}"
        yield from _archived(member, inside, f"{name}/{entry.name}", entry.size, depth + 1)


def _is_wanted(name: str, is_folder: bool) -> bool:
    return not is_folder and not _JUNK.search(str(PurePosixPath(name)))
