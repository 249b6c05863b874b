"""Makes small files that are huge inside, or never end. None of them is committed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import zstandard
from pyarrow import parquet

MIB = 1 << 20


def record(number: int, text: str = "hello") -> dict[str, Any]:
    """A conversation of two messages."""
    said = ({"role": "user", "content": text}, {"role": "assistant", "content": f"answer {number}"})
    return {"id": f"c{number}", "messages": [*said]}


def lines(count: int, first: int = 0) -> bytes:
    """JSON Lines of conversations."""
    rows = (json.dumps(record(number)) + "\n" for number in range(first, first + count))
    return "".join(rows).encode()


def _filled(size: int, fill: bytes) -> Iterator[bytes]:
    block = fill * (MIB // len(fill))
    for _ in range(size // MIB):
        yield block


OPENERS: dict[str, Callable[[Path], Any]] = {
    "gz": partial(gzip.open, mode="wb", compresslevel=1),
    "bz2": partial(bz2.open, mode="wb", compresslevel=1),
    "xz": partial(lzma.open, mode="wb", preset=0),
    "zst": partial(zstandard.open, mode="wb"),
}


def zeros_after_records(path: Path, size: int, packing: str) -> None:
    """Five records and then zeros, compressed."""
    with OPENERS[packing](path) as file:
        file.write(lines(5))
        for block in _filled(size, b"\0"):
            file.write(block)


def long_line(path: Path, size: int, before: int = 2) -> None:
    """Some records, a line of that size that is no JSON, and two records."""
    with open(path, "wb") as file:
        file.write(lines(before))
        for block in _filled(size, b"a"):
            file.write(block)
        file.write(b"\n" + lines(2, first=before))


def long_string(path: Path, size: int) -> None:
    """One conversation with a text of that size."""
    before, after = json.dumps(record(1, "@")).encode().split(b"@")
    with open(path, "wb") as file:
        file.write(before)
        for block in _filled(size, b"word "):
            file.write(block)
        file.write(after)


def equal_lines(path: Path, count: int) -> None:
    """The same record on so many lines, in xz."""
    line = lines(1)
    with OPENERS["xz"](path) as file:
        for _ in range(count // 1000):
            file.write(line * 1000)


def zip_of_zeros(path: Path, size: int, method: int) -> None:
    """A zip archive with a log of five records, and one of five records and zeros."""
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        archive.writestr("good.jsonl", lines(5))
        with archive.open("bad.jsonl", "w", force_zip64=True) as file:
            file.write(lines(5, first=5))
            for block in _filled(size, b"\0"):
                file.write(block)


def sparse_tar(path: Path, size: int) -> None:
    """A tar archive with a log of five records and a file of that size that consists of a hole."""
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("good.jsonl")
        entry.size = len(lines(5))
        archive.addfile(entry, io.BytesIO(lines(5)))
        hole = tarfile.TarInfo("hole.jsonl")
        hole.type = tarfile.GNUTYPE_SPARSE
        header = bytearray(hole.tobuf(tarfile.GNU_FORMAT))
        header[386:410] = b"%011o\0%011o\0" % (0, 0)  # one piece of no bytes
        header[483:495] = b"\x80" + size.to_bytes(11, "big")
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header[:512])
        assert archive.fileobj is not None
        archive.fileobj.write(bytes(header[:512]))
        archive.offset += 512


def parquet_cell(path: Path, size: int, rows: int = 1) -> None:
    """A Parquet file of so many groups of one conversation, one of which has a text of that size."""
    large = json.dumps([{"role": "user", "content": "@"}]).split("@")
    schema = pyarrow.schema([("id", pyarrow.string()), ("messages", pyarrow.large_string())])
    with parquet.ParquetWriter(path, schema, compression="zstd", write_statistics=False) as writer:
        for number in range(rows):
            said = json.dumps(record(number)["messages"])
            if number == rows // 2:
                said = large[0] + "a" * size + large[1]
            cells = {"id": [f"c{number}"], "messages": [said]}
            writer.write_table(pyarrow.table(cells, schema=schema))


def parquet_equal_rows(path: Path, count: int) -> None:
    """The same conversation in so many rows, a few bytes each million."""
    row = {"id": "c", "messages": json.dumps(record(1)["messages"])}
    step = min(count, 1_000_000)
    cells = {
        name: pyarrow.DictionaryArray.from_arrays(
            pyarrow.repeat(pyarrow.scalar(0, pyarrow.int32()), step), pyarrow.array([text])
        )
        for name, text in row.items()
    }
    table = pyarrow.table(cells)
    with parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(count // step):
            writer.write_table(table)
