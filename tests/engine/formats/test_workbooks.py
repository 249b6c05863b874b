"""Workbooks of Excel and OpenDocument."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from engine.base.errors import FormatError
from engine.formats.inputs import open_inputs
from engine.formats.opening import tables
from engine.formats.records import Parsed

ROWS: list[list[object]] = [
    ["conversation_id", "role", "text"],
    [7, "user", "Where is it?"],
    [7, "agent", "In Oslo."],
]
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns"


def write_xlsx(path: Path, sheets: dict[str, list[list[object]]]) -> None:
    """Writes the smallest workbook of Excel with these sheets."""
    names = [
        f'<sheet name="{name}" sheetId="{number}" r:id="r{number}"/>'
        for number, name in enumerate(sheets, 1)
    ]
    targets = [
        f'<Relationship Id="r{number}" Type="{RELATIONS}/worksheet" Target="worksheets/{number}.xml"/>'
        for number in range(1, len(sheets) + 1)
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{PACKAGE}"><Relationship Id="r1" Type="{RELATIONS}/officeDocument"'
            ' Target="xl/workbook.xml"/></Relationships>',
        )
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{SHEET}" xmlns:r="{RELATIONS}"><sheets>{"".join(names)}</sheets></workbook>',
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{PACKAGE}">{"".join(targets)}</Relationships>',
        )
        for number, rows in enumerate(sheets.values(), 1):
            lines = "".join(f"<row>{''.join(map(xlsx_cell, row))}</row>" for row in rows)
            archive.writestr(
                f"xl/worksheets/{number}.xml",
                f'<worksheet xmlns="{SHEET}"><sheetData>{lines}</sheetData></worksheet>',
            )


def xlsx_cell(value: object) -> str:
    """Returns a cell of Excel."""
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return f"<c><v>{value}</v></c>"


def write_ods(path: Path) -> None:
    """Writes the smallest workbook of OpenDocument with the rows."""
    lines = "".join(
        f"<table:table-row>{''.join(map(ods_cell, row))}</table:table-row>" for row in ROWS
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "META-INF/manifest.xml", f'<m:manifest xmlns:m="{OPEN_DOCUMENT}:manifest:1.0"/>'
        )
        archive.writestr(
            "content.xml",
            f'<office:document-content xmlns:office="{OPEN_DOCUMENT}:office:1.0"'
            f' xmlns:table="{OPEN_DOCUMENT}:table:1.0" xmlns:text="{OPEN_DOCUMENT}:text:1.0">'
            '<office:body><office:spreadsheet><table:table table:name="Chats">'
            f"{lines}</table:table></office:spreadsheet></office:body></office:document-content>",
        )


def ods_cell(value: object) -> str:
    """Returns a cell of OpenDocument."""
    return (
        f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'
    )


def conversations(path: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns the id, and the roles and texts, of each conversation of a file."""
    return [
        (
            record.conversation.external_id,
            [(message.role, message.content) for message in record.conversation.messages],
        )
        for opened in open_inputs([path])
        for record in opened.records()
        if isinstance(record, Parsed)
    ]


@pytest.mark.parametrize("name", ["chats.xlsx", "chats.ods"])
def test_a_sheet_is_a_table(name: str, tmp_path: Path) -> None:
    """The rows of a sheet are read as those of a table, with whole numbers as such."""
    path = tmp_path / name
    if name.endswith("xlsx"):
        write_xlsx(path, {"Chats": ROWS})
    else:
        write_ods(path)
    assert conversations(path) == [("7", [("user", "Where is it?"), ("assistant", "In Oslo.")])]


def test_a_sheet_without_conversations_is_named(tmp_path: Path) -> None:
    """Of several sheets each is looked into, and those without conversations are named."""
    write_xlsx(tmp_path / "a.xlsx", {"Chats": ROWS, "Notes": [["a"]]})
    chats, skipped = open_inputs([tmp_path / "a.xlsx"])
    assert chats.detection.format == "rows"
    assert "a.xlsx: Notes" in skipped.detection.why


def test_a_workbook_that_cannot_be_read_is_to_be_saved_as_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged workbook, and one without the library, are refused with the advice to save it as CSV."""
    with zipfile.ZipFile(tmp_path / "damaged.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    write_xlsx(tmp_path / "whole.xlsx", {"Chats": ROWS})
    with pytest.raises(FormatError) as damaged:
        open_inputs([tmp_path / "damaged.xlsx"])
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(FormatError) as missing:
        open_inputs([tmp_path / "whole.xlsx"])
    for error in (damaged, missing):
        assert "CSV" in str(error.value)


def test_a_workbook_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workbook that unpacks to more than the bound is refused before the library reads it."""
    monkeypatch.setattr(tables, "MOST_UNPACKED", 100)
    write_xlsx(tmp_path / "a.xlsx", {"Chats": ROWS})
    with pytest.raises(FormatError, match="unpacks to more"):
        open_inputs([tmp_path / "a.xlsx"])
