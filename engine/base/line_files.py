"""Writes lines as JSON Lines, a JSON list, CSV or Parquet, to a stream or to a file."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TextIO

from engine.base.conversation import without_surrogates
from engine.base.errors import ProjectError, UsageError, WorkbenchError
from engine.base.files import (
    atomic_replacement,
    disk_full_error,
    is_disk_full,
    is_project,
    refuse_side_file,
    replaces_file,
)
from engine.base.text import as_json, display_safe

ColumnType = Literal["text", "integer", "number", "truth value", "texts"]
"""What is in a cell of a column of Parquet: one value, or a list of texts."""

_BATCH = 2_000
"""Lines that are written to Parquet at a time."""

_FORMULA = re.compile(r"[=+\-@\t\r]")
"""Matches the beginning of a text that a spreadsheet may run as a formula: `=`, `+`, `-`, `@`, tab or return."""

_NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]+)*|[.,][0-9]+)(e[+-]?[0-9]+)?%?", re.IGNORECASE)
"""Matches a number, which is no formula: `-1`, `+1,204.5`, `.5`, `1e-9`, `12%`."""


def write_lines(
    lines: Iterable[dict[str, Any]],
    out: TextIO,
    kind: str,
    brackets: tuple[str, str] = ("[", "]"),
    *,
    formulas: bool = False,
) -> int:
    """Writes lines as JSON Lines (`jsonl`), a list within a JSON text (`json`) or CSV (nested values as JSON), and
    returns how many.

    CSV knows no escapes, so a terminal gets it made safe; a file and a pipe get the text as it is. A spreadsheet runs a
    text of CSV that begins as a formula does; such a text gets an apostrophe before it. Both hold for the heading too.

    Args:
        kind: `jsonl`, `json` or `csv`.
        brackets: What stands before and after the list of a JSON text.
        formulas: Whether texts of CSV that begin as formulas do are left as they are.
    """
    if kind == "csv":
        return _write_csv(lines, out, formulas=formulas)
    count = 0
    if kind == "jsonl":
        for line in lines:
            out.write(as_json(line) + "\n")
            count += 1
        return count
    assert kind == "json", kind
    opening, closing = brackets
    out.write(opening)
    for line in lines:
        out.write((",\n" if count else "\n") + as_json(line))
        count += 1
    out.write(f"\n{closing}\n")
    return count


def _write_csv(lines: Iterable[dict[str, Any]], out: TextIO, *, formulas: bool) -> int:
    """Writes lines as CSV, with the keys of the first as heading, and returns how many; see `write_lines`."""
    is_terminal = out.isatty()
    writer: Any = None
    count = 0
    for line in lines:
        count += 1
        if writer is None:
            writer = csv.DictWriter(_RowsOut(out), list(line), lineterminator="\r\n")
            writer.writerow({key: _csv_cell(key, formulas, is_terminal) for key in line})
        writer.writerow({key: _csv_cell(line[key], formulas, is_terminal) for key in line})
    return count


def _csv_cell(value: Any, formulas: bool, is_terminal: bool) -> Any:
    """Returns a value as a cell of CSV: a number as it is, anything nested as JSON, a text as `write_lines` says."""
    text = as_json(value) if isinstance(value, list | dict) else value
    if not isinstance(text, str):
        return text
    if not formulas and _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        text = f"'{text}"  # as OWASP advises against CSV injection
    return display_safe(text) if is_terminal else text


class _RowsOut:
    """Takes rows that end with `\\r\\n`, so that the writer of CSV quotes texts with either sign, and ends them with
    `\\n`."""

    def __init__(self, out: TextIO) -> None:
        """`out` gets the rows."""
        self._out = out

    def write(self, row: str) -> int:
        """Writes a row, for which the writer of CSV calls this once; returns the number of characters."""
        return self._out.write(row.removesuffix("\r\n") + "\n")


def write_file(
    lines: Iterable[dict[str, Any]],
    path: Path,
    kind: str,
    brackets: tuple[str, str] = ("[", "]"),
    *,
    formulas: bool = False,
) -> int:
    """Writes a file completely or not at all, and returns how many lines; see `write_lines`.

    Raises:
        ProjectError: The file cannot be written.
    """
    with write_beside(path) as part, part.open("w", encoding="utf-8", newline="") as out:
        return write_lines(lines, out, kind, brackets, formulas=formulas)


def write_parquet(
    lines: Iterable[dict[str, Any]], columns: Mapping[str, ColumnType], path: Path
) -> int:
    """Writes lines as a Parquet file and returns how many; a value that is no text in a column of text becomes JSON.

    Raises:
        WorkbenchError: pyarrow is not installed.
        UsageError: The path is that of a pipe.
        ProjectError: The file cannot be written.
    """
    if path.is_fifo():  # the end of the file says where its parts are, so that a reader has to seek
        raise UsageError(
            f"{path} is a pipe, and Parquet can only be written to a file.",
            "Name one with -o FILE, or write CSV or JSON Lines.",
        )
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise WorkbenchError(
            "Parquet needs pyarrow.", "Install conversation-workbench[formats], or write CSV."
        ) from None
    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "truth value": pyarrow.bool_(),
        "texts": pyarrow.list_(pyarrow.string()),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    count = 0
    remaining = iter(lines)
    with write_beside(path) as part, parquet.ParquetWriter(part, schema) as writer:
        while batch := list(islice(remaining, _BATCH)):
            rows = [
                {name: _parquet_value(line[name], kind) for name, kind in columns.items()}
                for line in batch
            ]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))
            count += len(batch)
    return count


def _parquet_value(value: Any, kind: ColumnType) -> Any:
    """Returns a value as a column of some type takes it: texts without lone surrogates, what is no text as JSON, and
    numbers in double precision, as pyarrow refuses to round a large whole number itself."""
    if kind == "text" and value is not None:
        return without_surrogates(value if isinstance(value, str) else as_json(value))
    return float(value) if kind == "number" and value is not None else value


def new_file(path: str) -> Path:
    """Returns the path of a file that is not there yet, `~` expanded.

    Raises:
        ProjectError: There is such a file already, or the name is kept for a file beside a project.
    """
    target = Path(os.path.expanduser(path))
    refuse_side_file(target)
    if os.path.lexists(target):
        raise ProjectError(f"{path} is there already.", "Choose another name; nothing was written.")
    return target


def check_target(path: Path, *, force: bool) -> None:
    """Checks that a file may be written to a path; that nothing is written over a project, `write_beside` checks.

    Args:
        force: Whether a file that is there may be written over.

    Raises:
        ProjectError: There is a file already that is no project, or the name is kept for a file beside a project.
    """
    refuse_side_file(path)
    if not force and replaces_file(path) and not is_project(str(path)):
        raise ProjectError(
            f"{path} is there already.", "Choose another name, or add --force to write over it."
        )


@contextmanager
def write_beside(path: Path) -> Iterator[Path]:
    """Yields the path of a file that takes the place of `path` at the end of the block, so that an interrupted export
    leaves no partial file; a device and a pipe are written themselves.

    Raises:
        DiskFull: There is no room for it.
        ProjectError: The file cannot be written, or is a project or kept for a file beside one.
    """
    try:
        refuse_side_file(path)
        if path.is_file() and is_project(str(path)):
            raise ProjectError(f"{path} is a project.", "Choose another name; nothing was written.")
        with atomic_replacement(path) as part:
            yield part
    except OSError as error:
        if is_disk_full(error):
            raise disk_full_error(str(path)) from error
        reason = os.strerror(error.errno) if error.errno else error
        raise ProjectError(
            f"{path} cannot be written: {reason}.", "Choose another place."
        ) from error
