"""What is in a file, decided by its bytes and not by its name: text, perhaps compressed; the members of an archive; the
rows of a table."""

from __future__ import annotations

import copy
import io
import os
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, Literal, cast

from engine.base.errors import FormatError, TooMuch
from engine.base.files import SQLITE_BEGINNING, is_project
from engine.formats.json_values import BadRecord, json_text
from engine.formats.opening.agent_stores import session_tables, stored_sessions
from engine.formats.opening.databases import sqlite_rows, sqlite_tables
from engine.formats.opening.framing import (
    MAX_RECORD,
    Envelope,
    Frame,
    bounded_frames,
    load,
    too_large,
)
from engine.formats.opening.source import Bounds, Expansion, Reading, Source
from engine.formats.opening.tables import (
    OLE_MAGIC,
    is_workbook,
    parquet_rows,
    sheet_names,
    sheet_rows,
)

# What a file has

_OpenStream = Callable[[], BinaryIO]
"""Opens a stream of bytes at its beginning."""


@dataclass(frozen=True, slots=True)
class Content:
    """Something in a file: bytes, or rows, or what cannot be read.

    Attributes:
        label: Where it is, as a person reads it: the path, and in an archive or a database the name inside.
        name: Its path or name from which conversations without an id get theirs.
        size: Number of bytes of the file on disk that it stands for; None if unknown.
        stream: Opens its bytes; None if it has none.
        rows: Yields its rows; None if it has none.
        read_once: Whether it can be read only once, as a pipe.
        length: Number of bytes of its stream, if that is not `size`, as in an archive.
        kind: What may be a log; the table of a database, which may be about anything; or what is no log by its name.
        error: Why it cannot be read.
        expansion: Counts what the file unpacks to of which it is a part.
    """

    label: str
    name: str
    size: int | None
    stream: _OpenStream | None = None
    rows: Callable[[], Iterator[Frame]] | None = None
    read_once: bool = False
    length: int | None = None
    kind: Literal["log", "table", "other"] = "log"
    error: FormatError | None = None
    expansion: Expansion = field(default_factory=lambda: Expansion(None, Bounds()))

    def source(self) -> Source | None:
        """Returns its bytes, decompressed and counted; None if it has none.

        Raises:
            OSError: It cannot be opened.
        """
        if self.stream is None:
            return None
        reopen = None if self.read_once else self.stream
        start_count = partial(Reading, self.expansion, self.label, self.size)
        return Source(self.stream(), reopen=reopen, start_count=start_count)


@dataclass(frozen=True, slots=True)
class _File:
    """A file on disk: the one that the person gave, or one that was unpacked from it.

    Attributes:
        path: Where it is.
        label: What a person reads as its place, as in `Content`.
        name: As in `Content`.
        size: Number of bytes of the person's file that it stands for.
        depth: In how many archives it lies.
        expansion: Counts what the person's file unpacks to.
        held: The object of an unpacked file; the file is deleted when nothing refers to it any more.
    """

    path: str
    label: str
    name: str
    size: int
    depth: int
    expansion: Expansion
    held: Any = None

    def share(self, packed: int) -> int:
        """Returns for how many bytes of the person's file `packed` bytes of this one stand."""
        return packed * self.size // max(1, os.path.getsize(self.path))


DEEPEST_ARCHIVE = 2
"""How deep archives within archives are opened."""

_UNREAD_ARCHIVES = (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
"""The first bytes of archives that are not read: 7z and RAR."""

_BYTES_FOR_KIND = 512
"""Number of bytes at the beginning of a file from which its kind is read."""

_EXPORT_FIRST = "`workbench export PROJECT conversations -o FILE` writes what can be imported."
"""Hint for a project that is given as a log."""


def contents(path: str, name: str, bounds: Bounds | None = None) -> list[Content]:
    """Returns what a file has, at least one content that may be a log; of a project, only its name.

    Args:
        name: Name of the file for conversations without an id.
        bounds: What limits and stops reading; None for the usual limits.

    Raises:
        FormatError: An archive or a database cannot be read, or has nothing in it.
        OSError: The file cannot be opened.
    """
    size = os.path.getsize(path)
    expansion = Expansion(size, bounds or Bounds())
    if is_project(path):
        error = FormatError(f"{path} is a project and not read as a log.", _EXPORT_FIRST)
        return [Content(path, name, size, kind="other", error=error)]
    file_contents = list(
        _contents(_File(path, label=path, name=name, size=size, depth=0, expansion=expansion))
    )
    if all(content.kind == "other" for content in file_contents):
        raise FormatError(f"The archive {path} has no logs in it.", "Check the file.")
    return file_contents


def _contents(file: _File) -> Iterator[Content]:
    """Yields what is in a file on disk, by its first bytes."""
    with open(file.path, "rb") as opened:
        kind = _kind_of_bytes(opened.read(_BYTES_FOR_KIND))
    if kind == "Parquet":
        yield _row_content(file, file.label, file.name, file.size, partial(parquet_rows, file.path))
    elif kind == "SQLite":
        yield from _table_contents(file)
    elif kind == "workbook":
        yield from _sheet_contents(file)
    elif kind == "zip":
        yield from _zip_members(file)
    elif kind == "tar":
        yield from _tar_members(file)
    else:
        # whoever reads the stream closes it
        yield from _unpack(lambda: open(file.path, "rb"), file, None)  # noqa: SIM115


def _kind_of_bytes(start: bytes) -> Literal["zip", "tar", "Parquet", "SQLite", "workbook"] | None:
    """Returns the kind of file that begins with these bytes; None for any that needs no file on disk to be read."""
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if start.startswith(b"PAR1"):
        return "Parquet"
    if start.startswith(SQLITE_BEGINNING):
        return "SQLite"
    if start.startswith(OLE_MAGIC):
        return "workbook"
    return "tar" if start[257:262] == b"ustar" else None


def _unpack(open_stream: _OpenStream, file: _File, length: int | None) -> Iterator[Content]:
    """Yields what is in a stream: itself, or what is in the archive, database or table that it is, decompressed.

    A stream that cannot be opened or is damaged, and an archive within too many others, are yielded with the error.

    Args:
        open_stream: Opens the stream.
        file: What to call it; its path need not be that of the stream.
        length: Number of bytes of the stream; None if that is the size of the file.
    """
    content_itself = Content(
        file.label,
        file.name,
        file.size,
        stream=open_stream,
        length=length,
        expansion=file.expansion,
    )
    try:
        source = content_itself.source()
        assert source is not None
        start = source.read()
        while len(start) < _BYTES_FOR_KIND and (more := source.read()):
            start += more
        kind = _kind_of_bytes(start)
        if start.startswith(_UNREAD_ARCHIVES):
            raise FormatError(f"{file.label} is an archive that is not read.", "Unpack it first.")
        if kind is None:
            source.close()
            yield content_itself
            return
        if kind in ("zip", "tar") and file.depth >= DEEPEST_ARCHIVE:
            raise FormatError(
                f"{file.label} is an archive within {DEEPEST_ARCHIVE} others.", "Unpack it first."
            )
        temporary_file = _write_to_disk(start, source, file)
        on_disk = replace(file, path=temporary_file.name, held=temporary_file)
        for content in _contents(on_disk):
            # of a stream that broke off, the error that is raised below says more
            if not (source.error and content.error is not None and content.label == file.label):
                yield content
        if source.error:
            raise FormatError(f"{file.label} is damaged: {source.error}.", "Check the file.")
    except FormatError as error:
        yield replace(content_itself, stream=None, error=error)
    except OSError as error:
        yield replace(content_itself, stream=None, error=cannot_open(file.label, error))


def _write_to_disk(start: bytes, source: Source, file: _File) -> Any:
    """Writes a stream into a file that is deleted when it is closed.

    Raises:
        TooMuch: It unpacks to more than is allowed.
    """
    temporary_file = tempfile.NamedTemporaryFile()  # noqa: SIM115 -- lives as long as what is in it is read
    while start:
        temporary_file.write(start)
        start = source.read()
    source.close()
    if source.count.is_over:
        raise TooMuch(f"{file.label} is refused: {source.error}.")
    temporary_file.flush()
    return temporary_file


def cannot_open(label: str, error: OSError) -> FormatError:
    """Returns the error for something that cannot be opened."""
    return FormatError(
        f"{label} cannot be opened: {error.strerror or error}.",
        "Check that you may read it, and that it is whole.",
    )


# Files that are no logs by their names

_NO_LOG_NAME = re.compile(
    r"\.(?:png|jpe?g|gif|webp|svg|ico|bmp|heic|mp3|wav|ogg|opus|m4a|mp4|mov|webm|pdf|docx|pptx|odt|epub|html?|css|"
    r"[jt]sx?|pyc?|c|h|cc|cpp|java|go|rs|rb|sh|ipynb|so|dll|exe|whl|jar|ya?ml|toml|ini|lock|bin|pt|onnx|gguf|safetensors|"
    r"np[yz]|pkl|wb)$|-(?:wal|shm|journal)$",
    re.IGNORECASE,
)
"""Finds names of files that are no logs."""

_FILE_MANAGER_NAME = re.compile(r"(?:^|/)(?:__MACOSX/|(?:Thumbs\.db|desktop\.ini)$)", re.IGNORECASE)
"""Finds what file managers leave in archives."""

_AIDER_LOG = ".aider.chat.history.md"
"""Name of the log of Aider, which is hidden."""


def is_no_log(name: str) -> bool:
    """Returns whether a file of a folder or an archive is no log by its name: hidden, an image, code and the like."""
    base = name.replace(os.sep, "/").rpartition("/")[2]
    if base.startswith(".") and base != _AIDER_LOG:
        return True
    return bool(_NO_LOG_NAME.search(base) or _FILE_MANAGER_NAME.search(name))


# Tables


def _table_contents(file: _File) -> Iterator[Content]:
    """Yields the tables of a database; those in which a program stores sessions are one content.

    Raises:
        FormatError: The database has no rows.
    """
    names = sqlite_tables(file.path, file.label, file.expansion.bounds)
    if not names:
        raise FormatError(f"The SQLite database {file.label} has no rows.", "Check the file.")
    if pieces := session_tables(names):
        rows = partial(stored_sessions, file.path, pieces)
        yield _row_content(file, file.label, file.name, file.size, rows)
    for table in names:
        if table in pieces:
            continue
        label, name = f"{file.label}: {table}", f"{file.name}/{table}"
        size = file.size // len(names)  # as if all tables were alike
        yield _row_content(
            file, label, name, size, partial(sqlite_rows, file.path, table), kind="table"
        )


def _sheet_contents(file: _File) -> Iterator[Content]:
    """Yields the sheets of a workbook."""
    names = sheet_names(file.path, file.label)
    for sheet in names:
        rows = partial(sheet_rows, file.path, file.label, sheet)
        if len(names) == 1:
            yield _row_content(file, file.label, file.name, file.size, rows)
        else:
            label, name = f"{file.label}: {sheet}", f"{file.name}/{sheet}"
            yield _row_content(file, label, name, file.size // len(names), rows, kind="table")


def _row_content(
    file: _File,
    label: str,
    name: str,
    size: int,
    rows: Callable[[Reading], Iterator[Frame]],
    kind: Literal["log", "table"] = "log",
) -> Content:
    """Returns the content whose rows are read so, counted."""

    def counted() -> Iterator[Frame]:
        """Yields the rows, and counts them anew."""
        return rows(Reading(file.expansion, label, size))

    return Content(label, name, size, rows=counted, kind=kind, expansion=file.expansion)


# Archives

_ZIP_ZSTD = 93
"""Number of zstd among the compressions of zip archives."""

_KEPT_COMPRESSED = (zipfile.ZIP_BZIP2, _ZIP_ZSTD)
"""Compressions of members whose data are as in a file of their own, so that `Source` decompresses them."""

_ENCRYPTED = 1
"""Bit of the flags of a member of a zip archive that is encrypted."""


class _Member(io.BufferedIOBase):
    """The bytes of a member of an archive; whatever goes wrong is an OSError, after all bytes before it."""

    def __init__(self, stream: Any, checksum: int | None) -> None:
        self._stream = stream
        self._expected = checksum
        self._sum = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Returns the next bytes; empty at the end."""
        try:
            data: bytes = self._stream.read(size)
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
            raise OSError(f"the archive is damaged: {error}") from None
        self._sum = zlib.crc32(data, self._sum)
        if not data and size and self._expected is not None and self._sum != self._expected:
            self._expected = None
            raise OSError("the archive is damaged: the checksum is wrong")
        return data

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()
        super().close()


def _zip_members(file: _File) -> Iterator[Content]:
    """Yields what is in the members of a zip archive; a log of Inspect is one content.

    Raises:
        FormatError: The archive is damaged.
    """
    try:
        archive = zipfile.ZipFile(file.path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise FormatError(
            f"The zip archive {file.label} is damaged: {error}.", "Check the file."
        ) from None
    if is_workbook(archive):
        yield from _sheet_contents(file)
        return
    members = [entry for entry in archive.infolist() if not entry.is_dir()]
    names = {entry.filename for entry in members}
    header = next((name for name in _INSPECT_HEADERS if name in names), None)
    samples = [entry for entry in members if _INSPECT_SAMPLE.match(entry.filename)]
    if header is not None and samples:

        def rows(count: Reading) -> Iterator[Frame]:
            """Returns the samples, split from the log."""
            return bounded_frames(_inspect_frames(archive, archive.getinfo(header), samples), count)

        yield _row_content(file, file.label, file.name, file.size, rows)
        return
    for entry in members:

        def open_stream(entry: zipfile.ZipInfo = entry) -> BinaryIO:
            """Opens the bytes of this member; the default keeps it when the loop goes on."""
            return _zip_stream(archive, entry)

        packed = entry.compress_type in _KEPT_COMPRESSED
        length = entry.compress_size if packed else entry.file_size
        yield from _member(file, entry.filename, entry.compress_size, open_stream, length)


def _zip_stream(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> BinaryIO:
    """Returns the bytes of a member of a zip archive; compressed ones if `Source` can decompress them.

    Raises:
        OSError: The member is encrypted or compressed in a way that is not read, or the archive is damaged.
    """
    if entry.flag_bits & _ENCRYPTED:
        raise OSError("it is encrypted")
    plain = copy.copy(entry)
    checksum: int | None = entry.CRC
    del plain.CRC  # the archive would keep back the last bytes before a wrong checksum
    if entry.compress_type == zipfile.ZIP_LZMA:
        raise OSError("it is compressed with LZMA: unpack it first")
    if entry.compress_type in _KEPT_COMPRESSED:
        plain.compress_type, plain.file_size = zipfile.ZIP_STORED, entry.compress_size
        checksum = None
    try:
        return cast(BinaryIO, _Member(archive.open(plain), checksum))
    except NotImplementedError:
        raise OSError("its compression is not known: unpack it first") from None
    except zipfile.BadZipFile as error:
        raise OSError(f"the archive is damaged: {error}") from None


def _tar_members(file: _File) -> Iterator[Content]:
    """Yields what is in the members of a tar archive."""
    try:
        archive = tarfile.open(file.path, "r:")  # noqa: SIM115 -- read with its members
        for entry in archive:
            if entry.isdir():
                continue

            def open_stream(entry: tarfile.TarInfo = entry) -> BinaryIO:
                """Opens the bytes of this member; the default keeps it when the loop goes on."""
                stream = archive.extractfile(entry) if entry.isfile() else None
                if stream is None:
                    raise OSError("it is a link or a device")
                return cast(BinaryIO, _Member(stream, None))

            pieces: Any = entry.sparse  # of a file with holes, those without
            stored = entry.size if pieces is None else sum(size for _, size in pieces)
            yield from _member(file, entry.name, stored, open_stream, entry.size)
    except (tarfile.TarError, OSError) as error:
        damage = FormatError(
            f"The tar archive {file.label} is damaged: {error}.", "Check the file."
        )
        yield Content(file.label, file.name, 0, error=damage)


def _member(
    file: _File, name: str, packed: int, open_stream: _OpenStream, length: int
) -> Iterator[Content]:
    """Yields what is in a member of an archive.

    Args:
        packed: Number of bytes of the member in the archive.
        open_stream: Opens the bytes of the member.
        length: Number of these bytes.
    """
    label = f"{file.label}: {name}"
    if is_no_log(name):
        yield Content(label, name, 0, kind="other")
        return
    inside = replace(
        file,
        label=label,
        name=f"{file.name}/{name}",
        size=file.share(packed),
        depth=file.depth + 1,
        held=None,
    )
    yield from _unpack(open_stream, inside, length)


# Archives of Inspect

_INSPECT_SAMPLE = re.compile(r"^samples/.*\.json$")
"""Matches the samples in an archive of Inspect."""

_INSPECT_HEADERS = ("header.json", "_journal/start.json")
"""Names of the file with what the samples of an archive of Inspect have in common."""


def _inspect_frames(
    archive: zipfile.ZipFile, header: zipfile.ZipInfo, samples: list[zipfile.ZipInfo]
) -> Iterator[Frame]:
    """Yields a frame for each sample of a log of Inspect, with the header of the log as its outer object."""
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
        else:
            outer = Envelope(head, number == 1)
            yield Frame(number, json_text(sample).encode(), sample, outer=outer)


def _json_of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Any:
    """Returns the JSON value of a member, which may be as large as a record.

    Raises:
        BadRecord: The member is too large, damaged or no JSON.
    """
    try:
        source = Source(_zip_stream(archive, entry))
    except OSError as error:
        raise BadRecord(str(error)) from None
    pieces: list[bytes] = []
    size = 0
    while size <= MAX_RECORD and (piece := source.read()):
        pieces.append(piece)
        size += len(piece)
    source.close()
    if size > MAX_RECORD:
        raise BadRecord(too_large())
    if source.error:
        raise BadRecord(source.error)
    return load(b"".join(pieces), "file")
