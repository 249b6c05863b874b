"""Rows of the sheets of a workbook: Excel (`.xlsx`, `.xlsb`, `.xls`) or OpenDocument (`.ods`).

The library reads a sheet as a whole, so a workbook unpacks in memory: it may be as large as `MOST_UNPACKED`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.base.errors import FormatError, TooMuch
from engine.formats.opening.bounds import LEAST_OF_RECORD, Reading
from engine.formats.opening.framing import Frame
from engine.formats.opening.source import CHUNK, missing_library
from engine.formats.opening.tables import column_names, row_frame

MOST_UNPACKED = 256 << 20
"""Most bytes of a workbook, unpacked."""

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of a workbook of old Excel."""
_SIGNS = frozenset(("xl/workbook.xml", "xl/workbook.bin"))
"""Members that only a workbook of Excel has."""
_HOW_TO_READ = "Save its sheet as CSV, and import that."
"""Hint for a workbook that is not read."""


def is_workbook(archive: zipfile.ZipFile) -> bool:
    """Returns whether a zip archive is a workbook."""
    names = archive.namelist()
    return not _SIGNS.isdisjoint(names) or (names[:1] == ["mimetype"] and "content.xml" in names)


def sheets(path: str, label: str) -> list[str]:
    """Returns the names of the sheets of a workbook that are shown.

    Raises:
        FormatError: It cannot be read, or the library for it is not installed.
        TooMuch: It is too large.
    """
    _check_size(path, label)
    return [
        sheet.name
        for sheet in _open(path, label).sheets_metadata
        if "Visible" in str(sheet.visible)
    ]


def sheet_rows(path: str, label: str, name: str, count: Reading) -> Iterator[Frame]:
    """Yields the rows of a sheet below its first, which has the names of the columns."""
    try:
        with _damage_as_format_error(label):
            rows = _open(path, label).get_sheet_by_name(name).to_python()
    except FormatError as error:
        yield Frame(1, b"", None, error.message)
        return
    names: list[str] = []
    for number, row in enumerate(rows, 1):
        if not names:
            names = column_names([str(cell) for cell in row]) if any(row) else []
            continue
        cells = {
            column: _cell(cell) for column, cell in zip(names, row, strict=False) if cell != ""
        }
        if not cells:
            continue
        frame = row_frame(number, cells)
        yield frame
        if not count.add(max(len(frame.raw), LEAST_OF_RECORD)):
            yield Frame(None, b"", None, count.bounds.too_much)
            return


def _cell(value: Any) -> Any:
    """Returns a cell with a whole number as such: a workbook has floats only."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_size(path: str, label: str) -> None:
    """Raises TooMuch for a workbook that unpacks to more than `MOST_UNPACKED`, whatever its members say."""
    if not zipfile.is_zipfile(path):
        return
    size = 0
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as member:
                    while size <= MOST_UNPACKED and (data := member.read(CHUNK)):
                        size += len(data)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        raise FormatError(f"The workbook {label} is damaged: {error}.", _HOW_TO_READ) from None
    if size > MOST_UNPACKED:
        raise TooMuch(f"The workbook {label} unpacks to more than {MOST_UNPACKED >> 20} MiB.")


def _open(path: str, label: str) -> Any:
    """Returns a workbook as the library has it."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise missing_library("workbooks", "python-calamine", _HOW_TO_READ) from None
    with _damage_as_format_error(label):
        return CalamineWorkbook.from_path(path)


@contextmanager
def _damage_as_format_error(label: str) -> Iterator[None]:
    """Raises FormatError for what the library raises of a damaged workbook; its panics are no Exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise FormatError(f"The workbook {label} cannot be read: {error}.", _HOW_TO_READ) from None
