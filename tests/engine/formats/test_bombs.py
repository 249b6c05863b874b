"""A small file that is huge inside, or never ends, costs little memory and time, and hides nothing else.

The sizes here are small.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.base.errors import Cancelled, FormatError
from engine.formats.inputs import open_inputs
from engine.formats.opening import agent_stores, databases, framing, source, tables, text_turns
from engine.formats.opening import json_records as values
from engine.formats.opening.source import Bounds, Expansion, Reading
from engine.formats.records import Parsed, Rejected
from tests import bombs

MIB = bombs.MIB
SMALL = Bounds(unpacked=4 * MIB)


@pytest.fixture(autouse=True)
def small_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is at most 1 MiB."""
    for module in (agent_stores, databases, framing, tables, text_turns, values):
        monkeypatch.setattr(module, "MAX_RECORD", MIB)


def read(path: Path, bounds: Bounds = SMALL) -> tuple[list[str], list[str]]:
    """Ids of the conversations of a path, and reasons of what was rejected, in their order."""
    ids: list[str] = []
    reasons: list[str] = []
    for found in open_inputs([path], bounds=bounds):
        for record in found.records():
            if isinstance(record, Rejected):
                reasons.append(record.reason)
            else:
                ids.append(record.conversation.external_id)
    return ids, reasons


class TestRecords:
    """A record that is larger than it may be is told, and the others are read."""

    @pytest.mark.parametrize("before", [0, 2])
    def test_a_long_line(self, tmp_path: Path, before: int) -> None:
        """A line is passed over, also at the beginning, by which the format is detected."""
        bombs.long_line(tmp_path / "a.jsonl", 3 * MIB, before)
        ids, reasons = read(tmp_path / "a.jsonl")
        assert len(ids) == before + 2
        assert reasons == ["record is larger than 1 MiB"]

    def test_a_look_at_a_pipe_is_bounded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of a pipe a few bytes are kept; the records that they hold decide, and nothing is lost."""
        monkeypatch.setattr(source, "_MAX_LOOK_BYTES", 1 * MIB)
        bombs.long_line(tmp_path / "a.jsonl", 3 * MIB)
        with open(tmp_path / "a.jsonl", "rb") as stream:
            (found,) = open_inputs(["-"], stdin=stream)
            records = list(found.records())
        assert [type(record) for record in records] == [Parsed, Parsed, Rejected, Parsed, Parsed]

    def test_a_long_text_in_json(self, tmp_path: Path) -> None:
        """A text within a JSON document is refused with the reason."""
        bombs.long_string(tmp_path / "a.json", 24 * MIB)
        with pytest.raises(FormatError, match="record is larger than 1 MiB"):
            read(tmp_path / "a.json")

    @pytest.mark.parametrize("quoted", [False, True])
    def test_a_long_row_of_text(self, tmp_path: Path, quoted: bool) -> None:
        """A row of a text table is passed over, also one whose cell has many lines."""
        cell = '"' + ("word\n" * 400_000) + '"' if quoted else "a" * 2 * MIB
        rows = ["id,prompt,response", "1,hi,ho", f"2,{cell},ho", "3,hi,ho"]
        (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
        ids, reasons = read(tmp_path / "a.csv")
        assert ids[0] == "1"
        assert ids[-1] == "3"
        assert "record is larger than 1 MiB" in reasons

    def test_a_parquet_cell(self, tmp_path: Path) -> None:
        """A cell that Arrow would unpack as a whole is not unpacked; other groups of rows are read."""
        bombs.parquet_cell(tmp_path / "a.parquet", 6 * MIB, rows=5)
        ids, reasons = read(tmp_path / "a.parquet")
        assert ids == ["c0", "c1", "c3", "c4"]
        assert reasons == ["record is larger than 1 MiB"]

    @pytest.mark.parametrize("kind", ["", "without rowid"])
    def test_a_large_value_of_a_database(self, tmp_path: Path, kind: str) -> None:
        """Of a table the rows beside a large one are read, also where rows have no number."""
        with closing(sqlite3.connect(tmp_path / "a.db")) as conn:
            conn.execute(f"create table chat (id primary key, messages) {kind}")
            for number, text in enumerate(("x", "a" * 2 * MIB, "x" * 700_000, "y")):
                said = json.dumps([{"role": "user", "content": text}])
                conn.execute("insert into chat (id, messages) values (?, ?)", (f"c{number}", said))
            conn.commit()
        count = counting(Bounds(unpacked=64 * MIB))
        frames = list(databases.sqlite_rows(str(tmp_path / "a.db"), "chat", count))
        assert [frame.value and frame.value["id"] for frame in frames] == ["c0", None, "c2", "c3"]
        assert frames[1].reason == "record is larger than 1 MiB"


def counting(bounds: Bounds) -> Reading:
    """Counts a reading of a file of 1 MiB."""
    return Reading(Expansion(MIB, bounds), "", MIB)


class TestExpansion:
    """What a file unpacks to is limited, and a person can raise it."""

    @pytest.mark.parametrize("packing", sorted(bombs.OPENERS))
    def test_zeros_after_records(self, tmp_path: Path, packing: str) -> None:
        """Zeros after records end the reading; the records are read."""
        path = tmp_path / f"a.jsonl.{packing}"
        bombs.zeros_after_records(path, 12 * MIB, packing)
        ids, (reason, *more) = read(path)
        assert len(ids) == 5
        assert not more
        if packing == "gz":  # which makes nothing a thousand times as small
            assert reason == "record is larger than 1 MiB"
        else:
            assert reason.startswith("it unpacks to more than 4 MiB and 1,000 times its size")

    def test_the_limit_can_be_raised(self, tmp_path: Path) -> None:
        """With a higher limit the same file is read to its end."""
        path = tmp_path / "a.jsonl.xz"
        bombs.zeros_after_records(path, 12 * MIB, "xz")
        ids, reasons = read(path, Bounds(unpacked=20 * MIB))
        assert len(ids) == 5
        assert reasons == ["record is larger than 1 MiB"]

    @pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    def test_a_member_of_an_archive(self, tmp_path: Path, method: int) -> None:
        """A member that unpacks to much ends there; the other members are read whole."""
        bombs.zip_of_zeros(tmp_path / "a.zip", 12 * MIB, method)
        ids, (reason, *more) = read(tmp_path / "a.zip")
        assert sorted(ids) == [f"c{number}" for number in range(10)]
        assert not more
        deflated = method == zipfile.ZIP_DEFLATED
        assert ("record is larger" if deflated else "unpacks to more than") in reason

    def test_all_members_together(self, tmp_path: Path) -> None:
        """Many members that each stay below the limit are refused together."""
        said = json.dumps(bombs.record(1, "a" * 1000)).encode() + b"\n"
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_BZIP2) as archive:
            for number in range(4):
                archive.writestr(f"{number}.jsonl", said * 2_500)
        ids, reasons = read(tmp_path / "a.zip")
        assert 2_500 <= len(ids) < 10_000
        assert all("unpacks to more than" in reason for reason in reasons)

    def test_a_hole_in_a_tar_archive(self, tmp_path: Path) -> None:
        """A file of 200 GiB that is a hole counts as the nothing that it takes."""
        bombs.sparse_tar(tmp_path / "a.tar", 200 << 30)
        ids, (reason, *more) = read(tmp_path / "a.tar")
        assert len(ids) == 5
        assert not more
        assert "unpacks to more than" in reason

    def test_an_archive_in_a_compressed_file(self, tmp_path: Path) -> None:
        """What has to be unpacked on the disk is refused before the disk is full."""
        bombs.sparse_tar(tmp_path / "a.tar", MIB)
        with bombs.OPENERS["xz"](tmp_path / "b.tar.xz") as file:
            file.write((tmp_path / "a.tar").read_bytes() + bytes(12 * MIB))
        with pytest.raises(FormatError, match="unpacks to more than"):
            read(tmp_path / "b.tar.xz")

    @pytest.mark.parametrize("make", [bombs.equal_lines, bombs.parquet_equal_rows])
    def test_equal_records(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, int], None]
    ) -> None:
        """Records without end end at a number of them, which is told."""
        monkeypatch.setattr(source, "MOST_TIMES", 10)
        make(tmp_path / "a", 10_000)
        (found,) = open_inputs([tmp_path / "a"], bounds=Bounds(unpacked=1_000 << 10))
        *records, last = found.records()
        assert 1_000 < len(records) < 1_200  # lines count by their bytes and by their number
        assert isinstance(last, Rejected)
        assert "unpacks to more than" in last.reason

    def test_what_repeats_honestly_is_read(self, tmp_path: Path) -> None:
        """A log in which each record repeats the same long text compresses some hundred times and is read whole."""
        texts = "You are a helpful assistant. " * 700
        choice = random.Random(7)
        with bombs.OPENERS["xz"](tmp_path / "a.jsonl.xz") as file:
            for number in range(400):
                said = bombs.record(number, f"{texts} {choice.randbytes(60).hex()}")
                file.write(json.dumps(said).encode() + b"\n")
        assert (tmp_path / "a.jsonl.xz").stat().st_size * 100 < 8 * MIB
        ids, reasons = read(tmp_path / "a.jsonl.xz")
        assert len(ids) == 400
        assert reasons == []


class TestStopping:
    """A person can stop reading."""

    def test_reading_is_stopped_within_a_record(self, tmp_path: Path) -> None:
        """So does one within a record that has no end yet."""
        bombs.long_line(tmp_path / "a.jsonl", 3 * MIB)
        asked = 0

        def stop() -> bool:
            nonlocal asked
            asked += 1
            return asked > 4

        with pytest.raises(Cancelled):
            read(tmp_path / "a.jsonl", Bounds(is_cancelled=stop))


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    """A named pipe and a socket in a folder are not waited for, and are named with what holds no conversations."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(bombs.lines(3))
    os.mkfifo(folder / "pipe.jsonl")
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        before = os.getcwd()
        os.chdir(folder)  # the path of a socket is short
        try:
            listening.bind("socket.jsonl")
        finally:
            os.chdir(before)
        log, passed = open_inputs([folder])
        assert len(list(log.records())) == 3
    assert passed.detection.format == "skipped"
    assert "pipe.jsonl" in passed.detection.why
    assert "socket.jsonl" in passed.detection.why
