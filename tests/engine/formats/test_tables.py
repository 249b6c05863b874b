"""Rows of tables become records with all that was in them."""

from __future__ import annotations

import datetime
import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from engine.formats.opening.databases import sqlite_rows, sqlite_tables
from engine.formats.opening.framing import Frame
from engine.formats.opening.source import Bounds, Source, unlimited
from engine.formats.opening.tables import csv_rows, delimiter_of, parquet_rows


def rows_of(data: str | bytes) -> list[Frame]:
    """The rows of a text table."""
    return list(csv_rows(Source(io.BytesIO(data.encode() if isinstance(data, str) else data))))


@pytest.mark.parametrize(
    "text",
    [
        "id,text\n1,hi\n2,ho\n",
        "id;text\r\n1;hi\r\n2;ho\r\n",
        "id\ttext\n1\thi\n2\tho",
        "id|text\n1|hi\n\n2|ho\n",
        '\ufeff"id","text"\n"1","hi"\n"2","ho"\n',
        "sep=;\nid;text\n1;hi\n2;ho\n",
    ],
)
def test_tables_of_all_kinds_of_text(text: str) -> None:
    """The separator is found, also with a byte order mark, Windows line ends, blank lines and Excel's first line."""
    assert [frame.value for frame in rows_of(text)] == [
        {"id": "1", "text": "hi"},
        {"id": "2", "text": "ho"},
    ]


def test_cells_keep_their_text() -> None:
    """Quoted separators and line ends are kept, and an empty cell is null."""
    (frame,) = rows_of('id,text,note\n1,"a, ""b""\nc",\n')
    assert frame.value == {"id": "1", "text": 'a, "b"\nc', "note": None}
    assert json.loads(frame.raw) == frame.value


def test_cells_with_json_are_that_value() -> None:
    """A JSON list or object in a cell is that value; the text of a message stays text, whatever the case of its column,
    unless it is in parts or a whole message."""
    rows = [
        {"messages": '[{"role": "user"}]', "content": '{"ok": true}', "Msg": '{"code": 504}', "x": "[1] is not JSON"},
        {"messages": "{}", "content": '[{"type": "text", "text": "hi"}]', "Msg": '{"role": "user"}', "x": "[NaN]"},
    ]  # fmt: skip
    header = ",".join(rows[0])
    cells = ["," .join('"' + cell.replace('"', '""') + '"' for cell in row.values()) for row in rows]  # fmt: skip
    first, second = rows_of("\n".join([header, *cells]))
    assert first.value == {
        "messages": [{"role": "user"}],
        "content": '{"ok": true}',
        "Msg": '{"code": 504}',
        "x": "[1] is not JSON",
    }
    assert second.value == {
        "messages": {},
        "content": [{"type": "text", "text": "hi"}],
        "Msg": {"role": "user"},
        "x": [None],
    }


def test_columns_without_a_name_and_with_the_same() -> None:
    """No cell is lost where the header has no name or the same name twice."""
    (frame,) = rows_of(",text,text\n0,hi,ho\n")
    assert frame.value == {"column 1": "0", "text": "hi", "text 3": "ho"}


def test_rows_that_do_not_fit_are_told() -> None:
    """A row with other cells than the header, or broken UTF-8, has a reason and keeps what it has."""
    frames = rows_of("id,text\n1,hi\n2,a,b\n3,ö\n4,Grü\n".encode().replace(b"\xc3\xbc", b"\xc3"))
    assert [frame.reason for frame in frames] == [
        None, "the row has 3 cells, the header 2", None, "broken UTF-8",
    ]  # fmt: skip
    assert json.loads(frames[1].raw) == ["2", "a", "b"]
    assert b"Gr\xc3" in frames[3].raw


@pytest.mark.parametrize(
    "text",
    ["Hello, world.\nHow are you?\n", "one line, two cells", "", "a\nb\n", "a,,,\n1,2,3,4\n"],
)
def test_prose_is_no_table(text: str) -> None:
    """A text is a table only if its rows have as many cells as its header."""
    assert delimiter_of(text.encode()) is None


def test_a_row_that_is_cut_off_does_not_speak_against_a_table() -> None:
    """Its cells are counted only where all of it was looked at."""
    assert delimiter_of(b"a,b\n1,%s,3\n" % (b"2" * (1 << 20))) is None
    assert delimiter_of(b"a,b\n1,2\n%s,4\n" % (b"3" * (1 << 20))) == ","


cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1, max_size=5))
def test_any_text_in_cells_is_kept(table: list[list[str]]) -> None:
    """Whatever text is in quoted cells comes out as it was, or as the JSON value that it is."""
    quoted = "\n".join(
        ",".join('"' + cell.replace('"', '""') + '"' for cell in row)
        for row in [["content", "text"], *table]
    )
    frames = rows_of(quoted)
    assert [list(frame.value.values()) for frame in frames] == [
        [cell or None for cell in row] for row in table
    ]


VALUES: dict[str, Any] = {
    "id": 1,
    "messages": [{"role": "tool", "content": '{"ok": true}'}],
    "at": datetime.datetime(2024, 5, 1, 12, 30),
    "day": datetime.date(2024, 5, 1),
    "image": b"\x00\x01",
    "share": float("nan"),
    "metadata": '{"a": [1]}',
}


def test_values_of_parquet(tmp_path: Path) -> None:
    """Times are ISO 8601, bytes base64, NaN null; text within lists stays text, and a cell with JSON is its value."""
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([VALUES] * 600), path)
    frames = list(parquet_rows(str(path), unlimited()))
    assert [frame.number for frame in frames] == list(range(1, 601))
    assert frames[599].value == {
        "id": 1,
        "messages": [{"role": "tool", "content": '{"ok": true}'}],
        "at": "2024-05-01T12:30:00",
        "day": "2024-05-01",
        "image": "AAE=",
        "share": None,
        "metadata": {"a": [1]},
    }
    assert json.loads(frames[0].raw) == frames[0].value


def test_values_of_parquet_that_python_lacks(tmp_path: Path) -> None:
    """Nanoseconds, and times in an unknown zone or out of range, are texts; the row is read with the others."""
    path = tmp_path / "t.parquet"
    ticks = [1_700_000_000_000_000_001, 0]
    nanoseconds, clock = pyarrow.timestamp("ns"), pyarrow.time64("ns")
    call = pyarrow.struct([("at", nanoseconds), ("many", pyarrow.list_(clock))])
    columns = {
        "at": pyarrow.array(ticks, nanoseconds),
        "zoned": pyarrow.array(ticks, pyarrow.timestamp("ns", "No/Zone")),
        "took": pyarrow.array([1, 1000], pyarrow.duration("ns")),
        "day": pyarrow.array([-(2**31), 0], pyarrow.date32()),
        "call": pyarrow.array([{"at": ticks[0], "many": [1]}, None], call),
        "by": pyarrow.array([[("a", ticks[0])], None], pyarrow.map_("string", nanoseconds)),
    }
    parquet.write_table(pyarrow.table(columns), path)
    first, second = parquet_rows(str(path), unlimited())
    at = "2023-11-14T22:13:20.000000001"
    assert first.value == {
        "at": at,
        "zoned": f"{at}Z",
        "took": "1",
        "day": "<value out of range: -2147483648>",
        "call": {"at": at, "many": ["00:00:00.000000001"]},
        "by": [["a", at]],
    }
    assert second.value["at"] == "1970-01-01T00:00:00"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(st.dictionaries(st.integers(0, 5_000), st.integers(0, 255), min_size=1, max_size=6))
def test_damaged_parquet_raises_nothing(tmp_path: Path, changes: dict[int, int]) -> None:
    """Whatever bytes are overwritten, reading a Parquet file ends with rows or a reason."""
    path = tmp_path / "t.parquet"
    said = [{"role": "user", "content": "hello"}] * 3
    parquet.write_table(pyarrow.Table.from_pylist([{"id": "a", "messages": said}] * 50), path)
    whole = bytearray(path.read_bytes())
    for at, byte in changes.items():
        whole[at % len(whole)] = byte
    path.write_bytes(whole)
    for frame in parquet_rows(str(path), unlimited()):
        assert frame.reason or isinstance(frame.value, dict)


def test_a_damaged_footer_of_parquet_ends_no_process(tmp_path: Path) -> None:
    """Where a byte of the footer is another one, as that of a codec, reading ends with rows or a reason."""
    path = tmp_path / "t.parquet"
    table = pyarrow.Table.from_pylist([{"said": ["hello"]}] * 5)
    parquet.write_table(table, path, store_schema=False)
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    for position in range(len(whole) - 8 - length, len(whole) - 8):
        path.write_bytes(whole[:position] + b"\x54" + whole[position + 1 :])
        for frame in parquet_rows(str(path), unlimited()):
            assert frame.reason or isinstance(frame.value, dict)


def test_damaged_parquet_is_told(tmp_path: Path) -> None:
    """A Parquet file that was cut off gives a reason."""
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([{"id": 1}]), path)
    path.write_bytes(path.read_bytes()[:-20])
    (frame,) = parquet_rows(str(path), unlimited())
    assert frame.reason is not None
    assert frame.reason.startswith("the Parquet data are damaged")


def database(path: Path) -> sqlite3.Connection:
    """A database with a table of three rows, an empty table, a view, and a table whose module is not there."""
    made = sqlite3.connect(path)
    made.execute("create table chat (id, text, blob)")
    made.execute("create table empty (id)")
    made.execute('create view "all chats" as select * from chat')
    made.execute("insert into chat values (1, 'hi', x'0001'), (2.5, '[{\"a\": 1}]', null)")
    made.execute("insert into chat values (3, cast(x'47ff' as text), 'x')")
    made.execute("pragma writable_schema = on")
    virtual = "'table', 'v', 'v', 0, 'create virtual table v using absent'"
    made.execute(f"insert into sqlite_master values ({virtual})")
    made.commit()
    return made


def test_values_of_sqlite(tmp_path: Path) -> None:
    """Tables with rows are read, and no views; a broken text does not end the table."""
    path = tmp_path / "t#1.db"
    database(path).close()
    assert sqlite_tables(str(path), "t.db", Bounds()) == ["chat"]
    assert [frame.value for frame in sqlite_rows(str(path), "chat", unlimited())] == [
        {"id": 1, "text": "hi", "blob": "AAE="},
        {"id": 2.5, "text": '[{"a": 1}]', "blob": None},
        {"id": 3, "text": "G\ufffd", "blob": "x"},
    ]


def test_a_damaged_table_is_not_left_out(tmp_path: Path) -> None:
    """A table whose first page is damaged is read, which says so."""
    path = tmp_path / "t.db"
    database(path).close()
    path.write_bytes(path.read_bytes()[: 2 * 4096] + bytes([9]) * 4096)  # of three pages the last
    assert sqlite_tables(str(path), "t.db", Bounds()) == ["chat", "empty"]
    (frame,) = sqlite_rows(str(path), "empty", unlimited())
    assert "malformed" in str(frame.reason)


def test_a_database_in_use_is_read_and_left_alone(tmp_path: Path) -> None:
    """Rows that are still in the log of writes are read; a database at rest gets no file beside it."""
    path = tmp_path / "t.db"
    made = database(path)
    made.execute("pragma journal_mode=wal")
    made.execute("insert into chat values (9, 'new', null)")
    made.commit()
    assert [frame.value["id"] for frame in sqlite_rows(str(path), "chat", unlimited())] == [
        1,
        2.5,
        3,
        9,
    ]
    made.close()
    before = sorted(tmp_path.iterdir())
    assert len(list(sqlite_rows(str(path), "chat", unlimited()))) == 4
    assert sorted(tmp_path.iterdir()) == before == [path]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.binary(max_size=300), at=st.integers(0, 8000))
def test_damaged_databases_raise_nothing(tmp_path: Path, data: bytes, at: int) -> None:
    """Whatever bytes are overwritten, reading a table ends with rows or a reason."""
    path = tmp_path / "t.db"
    path.unlink(missing_ok=True)
    database(path).close()
    whole = bytearray(path.read_bytes())
    whole[100 + at : 100 + at + len(data)] = data
    path.write_bytes(whole)
    for frame in sqlite_rows(str(path), "chat", unlimited()):
        assert frame.reason or isinstance(frame.value, dict)
