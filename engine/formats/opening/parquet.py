"""Rows of a Parquet file, in bounds of memory.

Arrow unpacks a page of a column as a whole, and then the values of some rows. How large both become is written before
each page, so it is known before anything is unpacked.

The footer and the head of each page are structures in Thrift's compact protocol, whose fields have numbers; these stand
in the file `parquet.thrift` of the format.

Not covered: what Arrow needs for the footer of the file, which is not compressed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from engine.formats.opening.bounds import FREELY_UNPACKED, LEAST_OF_RECORD, RAISED, Reading
from engine.formats.opening.framing import MAX_RECORD, Frame, too_large
from engine.formats.opening.source import missing_library
from engine.formats.opening.tables import row_frame

_MOST_ROWS = 256
"""Most rows that are unpacked together."""

_TOGETHER = 8 << 20
"""Number of bytes of rows that become Python objects together."""

_MOST_TIMES = 100
"""How many times its size a part may unpack to that Arrow must have in memory as a whole, beyond what any file may."""

_MOST_AT_ONCE = 1 << 30
"""Most bytes of such a part, unless a person allows more."""

_BESIDE = 8
"""Number of bytes that a value takes beside those of its text."""

_MOST_ENTRIES = 1_000_000
"""Entries of a dictionary of which the longest is looked for."""

_FOOTER_END = 8
"""Number of bytes at the end of a file: the length of the footer, and the name of the format."""

_ROW_GROUPS = 4
"""Field of the footer with the groups of rows."""

_BYTE_ARRAY = 6
"""Number of the type of a text or of bytes of any length."""
_CODECS = {1: "snappy", 2: "gzip", 3: "lzo", 4: "brotli", 5: "lz4_raw", 6: "zstd", 7: "lz4_raw"}
"""Names that Arrow has for the codecs, by the number that the format gives them; 0 is no compression."""

_DICTIONARY_PAGE = 2
"""Number of the kind of a page that holds the dictionary of a column."""
_BY_INDEX = (2, 8)
"""Numbers of the encodings in which the values of a page are indices of the dictionary."""
_EACH_BY_ITSELF = (0, 3, 4, 5, 6, 9)
"""Numbers of the encodings in which no value repeats a part of another."""

_DEEPEST = 8
"""Deepest nesting of the description of a page; the format has three levels."""


class _Damaged(Exception):
    """The file is not as the format says."""


@dataclass(slots=True)
class _Column:
    """What a column of a group of rows takes, as its pages say.

    Attributes:
        name: Its path.
        is_text: Whether its values are texts or bytes of any length.
        indexable: Whether Arrow can give its values as indices of a dictionary.
        nested: Whether a row may have many values.
        packed: Number of bytes in the file.
        page: Number of bytes of its largest page, unpacked.
        dictionary: Number of bytes of its dictionary, unpacked; 0 without one.
        values: Number of values.
        indices: Number of values that are indices of the dictionary.
        expanded: Number of bytes that all values may take, at most.
    """

    name: str
    is_text: bool
    indexable: bool
    nested: bool
    packed: int
    page: int = 0
    dictionary: int = 0
    values: int = 0
    indices: int = 0
    expanded: int = 0

    @property
    def by_index(self) -> bool:
        """Whether Arrow leaves the values as indices, so that a text is in memory once."""
        return self.indexable and self.indices == self.values and self.expanded > _TOGETHER

    @property
    def in_memory(self) -> int:
        """Number of bytes that all values may take in memory, at most."""
        return self.dictionary + self.values * _BESIDE if self.by_index else self.expanded


def parquet_rows(path: str, count: Reading) -> Iterator[Frame]:
    """Yields the rows of a Parquet file; a row that is larger than a record may be has a reason.

    Raises:
        FormatError: The library is not installed.
    """
    parquet = _import_parquet()
    number = 0
    try:
        with parquet.ParquetFile(path) as file, open(path, "rb") as pages:
            indexable = _indexable(path, file.metadata)
            for group, chunks in enumerate(_row_groups(pages)):
                rows = file.metadata.row_group(group).num_rows
                columns = _columns(file.metadata, chunks, indexable, pages)
                if reason := _reason_not_unpacked(columns, rows, count):
                    yield Frame(number + 1, b"", None, reason)
                    number += rows
                    continue
                for frame in _group_rows(path, file.metadata, group, columns, number, count):
                    yield frame
                    if not count.add(max(len(frame.raw), LEAST_OF_RECORD)):
                        yield Frame(None, b"", None, count.bounds.too_much)
                        return
                number += rows
    except (
        OSError,
        ValueError,
        NotImplementedError,
        TypeError,
        LookupError,
        OverflowError,
        _Damaged,
    ) as error:  # the errors of Arrow are these
        yield Frame(number + 1, b"", None, f"the Parquet data are damaged: {error}")


def _import_parquet() -> Any:
    """Returns the module of Arrow that reads Parquet; raises FormatError without it."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise missing_library("Parquet", "pyarrow") from None
    return parquet


def _indexable(path: str, metadata: Any) -> list[bool]:
    """Returns whether Arrow gives the values of each column as indices of a dictionary if it is told to. It does not
    for all types of a text, such as JSON."""
    names = [metadata.schema.column(position).path for position in range(metadata.num_columns)]
    with _import_parquet().ParquetFile(path, metadata=metadata, read_dictionary=names) as file:
        are_indices = [
            is_index for kind in file.schema_arrow.types for is_index in _are_indices(kind)
        ]
    return are_indices if len(are_indices) == len(names) else [False] * len(names)


def _are_indices(kind: Any) -> Iterator[bool]:
    """Yields whether the values of each column that a type has are indices."""
    import pyarrow

    if isinstance(kind, pyarrow.BaseExtensionType):
        kind = kind.storage_type
    if pyarrow.types.is_nested(kind):
        for position in range(kind.num_fields):
            yield from _are_indices(kind.field(position).type)
    else:
        yield pyarrow.types.is_dictionary(kind)


def _reason_not_unpacked(columns: list[_Column], rows: int, count: Reading) -> str | None:
    """Returns why a group of rows is not unpacked; None if it can be."""
    free = count.bounds.unpacked

    pages = sum(column.page + column.dictionary for column in columns)
    packed = sum(column.packed for column in columns)
    if pages > max(free, min(_MOST_TIMES * packed, _MOST_AT_ONCE)):
        return _rows_reason(rows, f"pages of {pages >> 20:,} MiB")
    for column in columns:
        if column.nested and column.in_memory > max(free, _MOST_TIMES * column.packed):
            size = f"{column.in_memory >> 20:,} MiB"
            return _rows_reason(rows, f"lists of {size} in the column {column.name}")
    return None


def _rows_reason(rows: int, what: str) -> str:
    """Returns why the rows of a group are not read."""
    if rows == 1:
        return too_large()
    return f"{too_large()}, or {rows:,} rows from here on lie together in {what}; these are not read {RAISED}"


def _group_rows(
    path: str, metadata: Any, group: int, columns: list[_Column], number: int, count: Reading
) -> Iterator[Frame]:
    """Yields the rows of a group, of which the first has the number after `number`."""
    by_index = [column.name for column in columns if column.by_index]
    largest = sum(column.page + column.dictionary for column in columns if not column.by_index)
    size = max(1, min(_MOST_ROWS, MAX_RECORD // max(1, largest)))
    with _import_parquet().ParquetFile(
        path,
        metadata=metadata,
        buffer_size=1 << 20,
        pre_buffer=False,
        read_dictionary=by_index,
    ) as file:
        for batch in file.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
            count.bounds.stop_if_cancelled()
            sizes = _row_sizes(batch)
            if sum(sizes) <= _TOGETHER:
                for row in batch.to_pylist():
                    number += 1
                    yield row_frame(number, row)
                continue
            for position, row_size in enumerate(sizes):
                number += 1
                if row_size > MAX_RECORD:
                    yield Frame(number, b"", None, too_large())
                else:
                    yield row_frame(number, batch.slice(position, 1).to_pylist()[0])


def _row_sizes(batch: Any) -> list[int]:
    """Returns the size of each row in bytes, about as JSON."""
    from pyarrow import compute

    sizes = [_value_sizes(column) for column in batch.columns]
    total = sizes[0]
    for more in sizes[1:]:
        total = compute.add(total, more)
    return list(total.to_pylist())


def _value_sizes(values: Any) -> Any:
    """Returns the size of each value of an array, as an array."""
    import pyarrow
    from pyarrow import compute, types

    kind = values.type
    if isinstance(values, pyarrow.ExtensionArray):
        return _value_sizes(values.storage)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return _value_sizes(values.cast(pyarrow.large_binary()))
    if types.is_dictionary(kind):
        sizes = _value_sizes(values.dictionary).take(values.indices)
        return compute.fill_null(sizes, _BESIDE)
    if any(
        is_text(kind)
        for is_text in (
            types.is_string, types.is_large_string, types.is_binary, types.is_large_binary,
        )
    ):  # fmt: skip
        sizes = compute.fill_null(compute.binary_length(values), 0).cast(pyarrow.int64())
        return compute.add(sizes, _BESIDE)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        offsets = values.offsets
        within = values.values.slice(offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py())
        return _sums_between(within, compute.subtract(offsets, offsets[0]))
    if types.is_fixed_size_list(kind):
        width = kind.list_size
        within = values.values.slice(values.offset * width, len(values) * width)
        return _sums_between(within, pyarrow.array(range(0, len(values) * width + 1, width or 1)))
    if types.is_struct(kind):
        total = pyarrow.repeat(pyarrow.scalar(_BESIDE, pyarrow.int64()), len(values))
        for field in values.flatten():
            total = compute.add(total, _value_sizes(field))
        return total
    width = kind.byte_width if types.is_fixed_size_binary(kind) else 0
    return pyarrow.repeat(pyarrow.scalar(width + _BESIDE, pyarrow.int64()), len(values))


def _sums_between(values: Any, offsets: Any) -> Any:
    """Returns the sums of the sizes of values between offsets."""
    import pyarrow
    from pyarrow import compute

    zero = pyarrow.array([0], pyarrow.int64())
    ends = pyarrow.concat_arrays([zero, compute.cumulative_sum(_value_sizes(values))])
    return compute.subtract(ends.take(offsets[1:]), ends.take(offsets[:-1]))


def _row_groups(file: BinaryIO) -> Iterator[list[Any]]:
    """Yields what the footer says of the columns of each group of rows, one group at a time.

    Arrow is not asked, since it ends the process where a damaged footer has another codec or statistics than there are.
    """
    file.seek(-_FOOTER_END, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    file.seek(-_FOOTER_END - length, os.SEEK_END)
    footer = io.BytesIO(file.read(length))
    for field, kind in _read_fields(footer):
        if field == _ROW_GROUPS:
            for group in _read_elements(footer):
                columns = group.get(1) if isinstance(group, dict) else None
                if not isinstance(columns, list):
                    raise _Damaged("a group of rows has no columns")
                yield columns
            return
        _read_value(footer, kind, 0)


def _columns(
    metadata: Any, chunks: list[Any], indexable: list[bool], file: BinaryIO
) -> list[_Column]:
    """Returns what the columns of a group of rows take.

    Args:
        chunks: What the footer says of each column.
    """
    columns = []
    for position, (chunk, is_index) in enumerate(zip(chunks, indexable, strict=True)):
        about = chunk.get(3) if isinstance(chunk, dict) else None  # a ColumnMetaData
        if not isinstance(about, dict):
            raise _Damaged("a column is not described")
        schema = metadata.schema.column(position)
        column = _Column(
            name=schema.path,
            is_text=about.get(1) == _BYTE_ARRAY,
            indexable=is_index,
            nested=schema.max_repetition_level > 0,
            packed=_required_number(about, 7),
        )
        start = _required_number(about, 9)  # of the pages with values
        if 11 in about:  # of the page with the dictionary
            start = min(start, _required_number(about, 11))
        values, codec = _required_number(about, 5), _required_number(about, 4)
        _look_at_pages(file, start, values, codec, column)
        columns.append(column)
    return columns


def _look_at_pages(file: BinaryIO, start: int, values: int, codec: int, column: _Column) -> None:
    """Reads what stands before each page of a column of so many values, and adds it to the column.

    Args:
        start: Position of the first page in the file.
        codec: Number of the codec.
    """
    file.seek(start)
    longest: int | None = (
        None  # bytes of the longest text of the dictionary; None until it is needed
    )
    dictionary = 0, 0, 0  # its position, its bytes unpacked and packed
    while column.values < values:
        page = _read_struct(file)  # a PageHeader; size and packed are bytes
        kind, size, packed = (
            _required_number(page, 1),
            _required_number(page, 2),
            _required_number(page, 3),
        )
        place = file.tell()
        if kind == _DICTIONARY_PAGE:
            column.dictionary, longest = max(column.dictionary, size), None
            dictionary = place, size, packed
        else:
            # the DataPageHeader, or that of version 2; the encoding is in another field of each
            about, encoded = (page[5], 2) if 5 in page else (page.get(8), 4)
            if not isinstance(about, dict):
                raise _Damaged("a page has no number of values")
            number, encoding = _required_number(about, 1), _required_number(about, encoded)
            column.page = max(column.page, size)
            column.values += number
            column.expanded += size + number * _BESIDE
            if encoding in _BY_INDEX:
                column.indices += number
                if longest is None:
                    longest = column.dictionary
                    if column.nested and column.is_text:
                        longest = _longest_text_bytes(file, *dictionary, codec)
                column.expanded += number * longest
            elif encoding not in _EACH_BY_ITSELF:
                column.expanded += number * size
        file.seek(place + packed)


def _longest_text_bytes(file: BinaryIO, place: int, size: int, packed: int, codec: int) -> int:
    """Returns the number of bytes of the longest text in a dictionary; of all of it where that cannot be said
    quickly."""
    import pyarrow

    if size > FREELY_UNPACKED:
        return size
    file.seek(place)
    data = file.read(packed)
    if codec != 0:
        try:
            name = _CODECS.get(codec)
            data = pyarrow.decompress(data, decompressed_size=size, codec=name, asbytes=True)
        except (ValueError, TypeError, OSError, NotImplementedError):  # also of an unknown codec
            return size
    longest = position = 0
    for _ in range(_MOST_ENTRIES):
        if position + 4 > len(data):  # each text has its length in four bytes before it
            return longest
        length = int.from_bytes(data[position : position + 4], "little")
        longest = max(longest, length)
        position += 4 + length
    return size


def _required_number(fields: dict[int, Any], field: int) -> int:
    """Returns the number in a field of a structure; raises _Damaged if there is none."""
    value = fields.get(field)
    if not isinstance(value, int) or value < 0:
        raise _Damaged("a column or a page does not say its size, number of values and encoding")
    return value


def _read_struct(file: BinaryIO, depth: int = 0) -> dict[int, Any]:
    """Returns the fields of a structure in Thrift's compact protocol: numbers, structures and lists; others are passed
    over."""
    if depth > _DEEPEST:
        raise _Damaged("a page's description is nested too deep")
    return {field: _read_value(file, kind, depth) for field, kind in _read_fields(file)}


def _read_fields(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yields the number and the kind of each field of a structure; who iterates reads its value."""
    field = 0
    while head := _read_byte(file):
        kind, step = (
            head & 15,
            head >> 4,
        )  # four bits each; a step of 0 says that the number follows
        field = field + step if step else _read_signed(file)
        yield field, kind


def _read_elements(file: BinaryIO, depth: int = 0) -> Iterator[Any]:
    """Yields the elements of a list."""
    if depth > _DEEPEST:
        raise _Damaged("a list is nested too deep")
    head = _read_byte(file)
    size, kind = head >> 4, head & 15
    size = _read_varint(file) if size == 15 else size
    place = file.tell()
    remaining_bytes = file.seek(0, os.SEEK_END) - place
    file.seek(place)
    if size > remaining_bytes:  # each takes a byte at least
        raise _Damaged("a list is longer than the file")
    for _ in range(size):
        yield _read_byte(file) if kind in (1, 2) else _read_value(file, kind, depth)


def _read_value(file: BinaryIO, kind: int, depth: int) -> Any:
    """Reads a value of a kind, as the protocol numbers them; returns numbers, structures and lists, None for others."""
    if kind in (1, 2):  # true and false, which have no bytes
        return None
    if kind == 3:  # a byte
        _read_byte(file)
    elif kind in (4, 5, 6):  # whole numbers of 16, 32 and 64 bits
        return _read_signed(file)
    elif kind == 7:  # a floating-point number
        file.seek(8, os.SEEK_CUR)
    elif kind == 8:  # a text, its length before it
        file.seek(_read_varint(file), os.SEEK_CUR)
    elif kind in (9, 10):  # a list or a set
        return list(_read_elements(file, depth + 1))
    elif kind == 12:
        return _read_struct(file, depth + 1)
    else:
        raise _Damaged("a page's description has a field of an unknown kind")
    return None


def _read_signed(file: BinaryIO) -> int:
    """Returns a whole number in zigzag encoding: 0, -1, 1, -2 are written as 0, 1, 2, 3."""
    number = _read_varint(file)
    return number >> 1 ^ -(number & 1)


def _read_varint(file: BinaryIO) -> int:
    """Returns a number of which each byte has seven bits, the lowest first; a set high bit says that more follow."""
    number = shift = 0
    while (byte := _read_byte(file)) & 128:
        number |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            raise _Damaged("a page's description has a number without an end")
    return number | byte << shift


def _read_byte(file: BinaryIO) -> int:
    """Returns the next byte; raises _Damaged at the end."""
    data = file.read(1)
    if not data:
        raise _Damaged("it was cut off")
    return data[0]
