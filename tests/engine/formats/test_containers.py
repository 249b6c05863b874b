"""The same records come out of every container, and what is damaged is told."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from engine.base.errors import FormatError
from engine.formats.inputs import open_inputs
from engine.formats.opening.source import Source
from engine.formats.records import Parsed, Rejected

ROWS = [
    {"messages": [{"role": "user", "content": "Book a table"}, {"role": "assistant", "content": "Done"}]},
    {"messages": [{"role": "user", "content": "Grüße, 你好"}]},
]  # fmt: skip
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


NUMBERED = b"".join(
    json.dumps({"messages": [{"role": "user", "content": f"{n} {n * 7919 % 10007}"}]}).encode()
    + b"\n"
    for n in range(20_000)
)
"""Many rows that do not compress very well."""


def texts(path: Path) -> list[list[tuple[str, str]]]:
    """Roles and texts of the conversations of a file."""
    return [
        [(message.role, message.content) for message in record.conversation.messages]
        for found in open_inputs([path])
        for record in found.records()
        if isinstance(record, Parsed)
    ]


def reasons(path: Path) -> list[str]:
    """Why records of a file were rejected."""
    return [
        record.reason
        for found in open_inputs([path])
        for record in found.records()
        if isinstance(record, Rejected)
    ]


EXPECTED = [[("user", "Book a table"), ("assistant", "Done")], [("user", "Grüße, 你好")]]


def zipped(data: bytes, name: str = "logs/a.jsonl") -> bytes:
    """The bytes of a zip archive with one log and a folder."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/", b"")
        archive.writestr(name, data)
    return packed.getvalue()


def tarred(data: bytes) -> bytes:
    """The bytes of a tar archive with one log."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("logs/a.jsonl")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "zip": zipped,
    "zip of gzip": lambda data: zipped(gzip.compress(data), "logs/a.jsonl.gz"),
    "zip of zip": lambda data: zipped(zipped(data), "inner.zip"),
    "tar": tarred,
    "tar.gz": lambda data: gzip.compress(tarred(data)),
    "tar.zst": lambda data: zstandard.ZstdCompressor().compress(tarred(data)),
    "UTF-8 with BOM": lambda data: b"\xef\xbb\xbf" + data,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "UTF-16 without BOM": lambda data: data.decode().encode("utf-16-le"),
    "two streams of bzip2": lambda data: bz2.compress(data[:20]) + bz2.compress(data[20:]),
}


@pytest.mark.parametrize("pack", CONTAINERS.values(), ids=CONTAINERS)
def test_records_of_a_container(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """The conversations are those of the plain file, whatever the file is called."""
    path = tmp_path / "no ending"
    path.write_bytes(pack(LINES))
    assert texts(path) == EXPECTED
    assert reasons(path) == []


@pytest.mark.parametrize("name", ["bzip2", "xz", "zstd"])
def test_truncated_data_keep_what_is_readable(name: str) -> None:
    """Of data that were cut off, what is before the end is read, and the end is told."""
    packed = CONTAINERS[name](NUMBERED)
    source = Source(io.BytesIO(packed[: len(packed) * 9 // 10]))
    data = b"".join(iter(source.read, b""))
    assert len(data) > len(NUMBERED) // 4
    assert NUMBERED.startswith(data)
    assert "end early" in str(source.error)


def test_archive_has_an_input_for_each_member(tmp_path: Path) -> None:
    """Each file of an archive is an input named after it; one that fits no format is rejected with the reason."""
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/1.json", b'[{"role": "user", "content": "hello"}]')
        archive.writestr("b/1.json", b'[{"role": "user", "content": "hi"}]')
        archive.writestr("settings.json", b'{"colour": "blue"}')
    found = list(open_inputs([path]))
    assert [entry.label.removeprefix(str(path)) for entry in found] == [
        ": a/1.json", ": b/1.json", ": settings.json",
    ]  # fmt: skip
    ids = [
        record.conversation.external_id
        for entry in found
        for record in entry.records()
        if isinstance(record, Parsed)
    ]
    assert ids == ["logs/a/1.json", "logs/b/1.json"]
    assert "`colour`" in reasons(path)[0]


def encrypted(data: bytes, count: int) -> bytes:
    """A zip archive whose first members are marked as encrypted, in both kinds of headers."""
    marked = bytearray(data)
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        for _ in range(count):
            at = marked.index(magic, at + 1)
            marked[at + flags] |= 1
    return bytes(marked)


def many(names: list[str], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive with the same log under several names."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name in names:
            archive.writestr(name, LINES)
    return packed.getvalue()


def test_archives_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """An archive of which nothing can be read is an error that says what is wrong."""
    path = tmp_path / "a.zip"
    for data, words in (
        (encrypted(many(["a.jsonl", "b.jsonl"]), 2), "it is encrypted"),
        (many(["a.jsonl"])[:60], "damaged"),
        (zipped(zipped(zipped(LINES), "b.zip"), "c.zip"), "within 2 others"),
        (zipped(b"{}", "picture.png"), "has no logs in it"),
        (zipped(b'{"colour": "blue"}', "settings.json"), "`colour`"),
        (tarred(LINES)[:530], "damaged: unexpected end of data"),
        (b"7z\xbc\xaf\x27\x1c\0\4" + bytes(60), "is an archive that is not read"),
    ):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=words):
            list(open_inputs([path]))


def test_what_is_readable_in_a_bad_archive_is_read(tmp_path: Path) -> None:
    """An encrypted or damaged member is told, and the other members are read."""
    path = tmp_path / "a.zip"
    path.write_bytes(encrypted(many(["a.jsonl", "b.jsonl"]), 1))
    assert texts(path) == EXPECTED
    assert reasons(path) == [f"{path}: a.jsonl cannot be opened: it is encrypted."]

    path.write_bytes(many(["a.jsonl", "b.jsonl"]).replace(b"Done", b"Gone", 1))
    read = texts(path)
    assert [read[0][1], read[2][1]] == [("assistant", "Gone"), ("assistant", "Done")]
    assert reasons(path) == ["reading failed: the archive is damaged: the checksum is wrong"]

    whole = tarred(NUMBERED[:500_000])
    path.write_bytes(gzip.compress(whole)[:-2000])
    assert len(texts(path)) > 100
    assert any("the gzip data end early" in reason for reason in reasons(path))
    assert any("damaged" in reason for reason in reasons(path))


def test_zstd_within_zip(tmp_path: Path) -> None:
    """A member that is compressed with zstd, which the standard library cannot read, is read too."""
    packed = zstandard.ZstdCompressor().compress(LINES)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.jsonl", packed)
    marked = bytearray(data.getvalue())
    for magic, method in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        marked[marked.index(magic) + method] = 93
    path = tmp_path / "a.zip"
    path.write_bytes(marked)
    assert texts(path) == EXPECTED


def test_tables_within_archives_and_compressed(tmp_path: Path) -> None:
    """A Parquet file in a zip archive and a compressed SQLite database are read as if they were unpacked."""
    rows = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), rows)
    path = tmp_path / "a"
    path.write_bytes(zipped(rows.getvalue(), "rows.parquet"))
    assert texts(path) == EXPECTED
    database = sqlite3.connect(tmp_path / "t.db")
    database.execute("create table chat (messages)")
    database.executemany(
        "insert into chat values (?)", [(json.dumps(row["messages"]),) for row in ROWS]
    )
    database.commit()
    database.close()
    path.write_bytes(lzma.compress((tmp_path / "t.db").read_bytes()))
    assert texts(path) == EXPECTED


def test_what_is_no_log_is_counted_and_named(tmp_path: Path) -> None:
    """Files of an archive or a folder that are no logs, by their names or by what is in them, are named together."""
    names = {
        "a.jsonl": LINES,
        "me.png": b"\x89PNG",
        "__MACOSX/a.jsonl": b"x",
        "notes.txt": b"Hello",
    }
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in names.items():
            archive.writestr(name, data)
    folder = tmp_path / "folder"
    for name, data in names.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    for source in (path, folder):
        (log, passed) = open_inputs([source])
        assert len([*log.records()]) == 2
        assert passed.detection.format == "skipped"
        assert passed.detection.why.startswith("3 files hold no conversations:")
        assert all(name in passed.detection.why for name in ("me.png", "a.jsonl", "notes.txt"))


def test_progress_within_an_archive_is_that_of_the_file(tmp_path: Path) -> None:
    """The positions in the members of an archive add up to about the size of the archive on the disk."""
    for pack in (CONTAINERS["tar.gz"], zipped):
        path = tmp_path / "a"
        path.write_bytes(pack(LINES * 1_000))
        (found,) = open_inputs([path])
        assert len([*found.records()]) == 2_000
        assert found.position() == found.size
        assert found.size is not None
        assert found.size <= path.stat().st_size


def test_inspect_log_has_a_record_for_each_sample(tmp_path: Path) -> None:
    """A zip archive with a header and samples is one input; each sample comes with the header of the log."""
    path = tmp_path / "log.eval"
    sample = {
        "messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "sums"}}))
        archive.writestr("samples/1_epoch_1.json", json.dumps({"id": 1, "epoch": 1, **sample}))
        archive.writestr("samples/2_epoch_1.json", json.dumps({"id": 2, "epoch": 1, **sample}))
    assert texts(path) == 2 * [[("user", "2 + 2?"), ("assistant", "4")]]
    (found,) = open_inputs([path])
    (first, _) = [record for record in found.records() if isinstance(record, Parsed)]
    assert "sums" in json.dumps(first.conversation.meta)


cells = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30).filter(
    lambda text: text.strip() == text and text[:1] not in "[{" and text
)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), cells), min_size=1, max_size=6))
def test_tables_give_the_rows_that_were_written(
    tmp_path: Path, rows: list[tuple[str, str]]
) -> None:
    """A conversation with a row for each message is the same from CSV, Parquet and SQLite."""
    table: list[dict[str, Any]] = [
        {"conversation_id": "c1", "role": role, "content": text} for role, text in rows
    ]
    import csv

    written = tmp_path / "t.csv"
    with open(written, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(table)
    parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / "t.parquet")
    database = sqlite3.connect(tmp_path / "t.db")
    database.execute("drop table if exists chat")
    database.execute("create table chat (conversation_id, role, content)")
    database.executemany("insert into chat values (:conversation_id, :role, :content)", table)
    database.commit()
    database.close()
    for name in ("t.csv", "t.parquet", "t.db"):
        assert texts(tmp_path / name) == [list(rows)], name


def test_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library for Parquet the error says how to install it."""
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FormatError, match="pyarrow") as missing:
        open_inputs([tmp_path / "t.parquet"])
    assert "[formats]" in missing.value.hint


def test_text_of_old_windows_programs_is_read_and_told(tmp_path: Path) -> None:
    """A file without any UTF-8 outside ASCII is Windows-1252, and the reason says so."""
    row = {"messages": [{"role": "user", "content": "Où est ma commande? «Déjà livrée» – 5 €"}]}
    path = tmp_path / "old.jsonl"
    path.write_bytes(json.dumps(row, ensure_ascii=False).encode("cp1252"))
    assert texts(path) == [[("user", "Où est ma commande? «Déjà livrée» – 5 €")]]
    (found,) = open_inputs([path])
    assert found.detection.why.endswith("the text is not UTF-8 and was read as Windows-1252")


def test_damaged_utf8_is_not_guessed_at(tmp_path: Path) -> None:
    """Where a file has UTF-8 outside ASCII, other bytes are damage and their record is rejected."""
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(LINES + json.dumps(ROWS[0]).encode().replace(b"table", b"t\xe9b\xe8l\xe9"))
    assert texts(path) == EXPECTED
    assert "broken UTF-8" in reasons(path)[0]


@pytest.mark.parametrize("name", ["bzip2", "xz", "zstd"])
def test_no_step_of_decompressing_gives_much(name: str) -> None:
    """However well data were compressed, they come in pieces of at most 16 MiB."""
    source = Source(io.BytesIO(CONTAINERS[name](bytes(40 << 20))))
    sizes: list[int] = []
    while chunk := source.read():
        sizes.append(len(chunk))
    assert sum(sizes) == 40 << 20
    assert max(sizes) <= 16 << 20
    assert source.error is None


def test_missing_library_for_zstd_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library for zstd a named file is an error that says how to install it, and in a folder the other
    files are read.
    """
    (tmp_path / "a.jsonl.zst").write_bytes(CONTAINERS["zstd"](LINES))
    (tmp_path / "b.jsonl").write_bytes(LINES)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(FormatError, match="zstandard") as missing:
        open_inputs([tmp_path / "a.jsonl.zst"])
    assert "[formats]" in missing.value.hint
    assert texts(tmp_path) == EXPECTED
    assert "needs the library zstandard" in reasons(tmp_path)[0]
