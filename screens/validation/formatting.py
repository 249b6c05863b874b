"""What the validation screen says, and what it copies. Without Textual's widgets."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.records.interval import Interval
from engine.records.validation import Missing
from engine.services.validation.records import ReportTable, RowKind, SheetRow, ValidationReport
from engine.text import one_line
from screens.widgets.row_table import Column, Piece

LEVEL = 0.05
"""A corrected p below it is told from chance; see `engine.validate.statistics.significance`."""
Listed = tuple[int, SheetRow]
"""The place of a row in its sheet, and the row."""
CELLS, SIGNED_CELLS = 14, 19
"""Of a figure with its interval, without signs and with."""
NO_COLUMNS: list[Column[Listed]] = [Column("name", "", 20, lambda row: [], flexible=True)]
"""Before there is a sheet."""
_SIGNS: dict[RowKind, str] = {"measure": "●", "plain": "○", "way": "●"}
LONGEST = 400

METRICS = {
    "goals": "goals: groups against gold goals",
    "completeness": "completeness",
    "trees": "uncertainty",
}


def columns(sheet: ReportTable) -> list[Column[Listed]]:
    """Name with the sign of its kind, then each figure with its interval, then whether chance can be ruled out."""

    def name(listed: Listed) -> Sequence[Piece]:
        row = listed[1]
        tone = "tone--accent" if row.kind != "plain" else "tone--muted"
        return [(f"{_SIGNS[row.kind]} ", tone), (name_of(row), "")]

    def figure(nth: int) -> Column[Listed]:
        title = sheet.columns[nth]

        def cell(listed: Listed) -> Sequence[Piece]:
            one = listed[1].cells[nth]
            return [(short(one.value), ""), (f" {ends(one)}", "tone--muted")]

        signed = any(row.cells[nth].low < 0 for row in sheet.rows)
        return Column(title, title, SIGNED_CELLS if signed else CELLS, cell, keep=9 - nth)

    def chance(listed: Listed) -> Sequence[Piece]:
        row = listed[1]
        if row.p is None:
            return [("", "")]
        if row.p >= LEVEL:
            return [("no", "tone--muted")]
        above = row.cells[0].value > 0.5
        return [("above", "tone--complete")] if above else [("below", "tone--incomplete")]

    found = [Column("name", one_line(sheet.title, 60), 20, name, flexible=True)]
    found += [figure(nth) for nth in range(len(sheet.columns))]
    if any(row.p is not None for row in sheet.rows):
        found.append(Column("chance", "chance?", 7, chance, keep=8))
    return found


def short(value: float) -> str:
    """A figure with two digits: `.63`, `1.0`, `−.20`, `−1.20`; nothing has no sign."""
    text = f"{abs(value):.2f}".removeprefix("0")
    text = "1.0" if text == "1.00" else text
    return f"−{text}" if value < 0 and text != ".00" else text


def ends(one: Interval) -> str:
    """Both ends of an interval, `[.50, .73]`."""
    return f"[{short(one.low)}, {short(one.high)}]"


def summary(report: ValidationReport, page: int) -> Content:
    """Which page of how many this is, and what it is about."""
    many = pages(report)
    told = f"{page + 1} of {many}"
    if page >= len(report.sheets):
        title = f"what is missing for more ({len(report.missing)})"
        return Content.assemble((f"◂ {told} ▸ ", "$tone-accent"), (title, "bold"))
    sheet = report.sheets[page]
    return Content.assemble(
        (f"◂ {told} ▸ ", "$tone-accent"),
        (METRICS[sheet.metric], "bold"),
        "" if sheet.metric == "goals" else f" against {one_line(sheet.title, 60)}",
        (f" · {one_line(sheet.about[0], 300)}", "$tone-muted"),
    )


def pages(report: ValidationReport) -> int:
    """The sheets, and one page on what is missing where anything is."""
    return len(report.sheets) + bool(report.missing)


def said(sheet: ReportTable, row: SheetRow | None, beside: SheetRow | None) -> Content:
    """What can be concluded: on all rows, and on the one under the cursor."""
    lines: list[Content] = []
    if row is not None:
        means = f": {one_line(row.means, 200)}" if row.means else ""
        lines.append(Content.assemble((name_of(row), "bold $tone-bright"), (means, "$tone-muted")))
        if beside is not None and row.curves:
            lines.append(
                Content.styled(f"drawn faintly: {name_of(beside)}, and chance", "$tone-muted")
            )
        lines += [Content(one_line(sentence, LONGEST)) for sentence in row.said]
    if sheet.said:
        lines.append(Content.styled("all rows", "bold"))
        lines += [Content(one_line(sentence, LONGEST)) for sentence in sheet.said]
    by_chance = [
        f"{name} {short(value)}"
        for name, value in zip(sheet.columns, sheet.chance, strict=True)
        if value is not None
    ]
    if by_chance:
        lines.append(Content.styled(f"by chance: {', '.join(by_chance)}", "$tone-muted"))
    lines += [Content.styled(one_line(about, LONGEST), "$tone-muted") for about in sheet.about]
    return Content("\n").join(lines)


def name_of(row: SheetRow) -> str:
    """The name of a row, display-safe."""
    return one_line(row.name, 60)


def missing_content(missing: Sequence[Missing]) -> Content:
    """What is not there and what gives it."""
    lines = []
    for one in missing:
        lines.append(Content.assemble((one.metric, "bold"), f"  {one_line(one.what, LONGEST)}"))
        if one.how:
            lines.append(Content.styled(f"  {one_line(one.how, LONGEST)}", "$tone-accent"))
    return Content("\n").join(lines)


def empty_content(missing: Sequence[Missing]) -> Content:
    """What to do where no metric has anything to say."""
    head = (
        "Nothing to validate yet.\n\n"
        "Here every metric is held against what is known of the conversations:\n"
        "rewards, completion, gold goals, judged answers that came with the import.\n\n"
    )
    return Content.assemble(head, missing_content(missing))


def beside_of(sheet: ReportTable, row: SheetRow) -> SheetRow | None:
    """What a row is drawn beside: the best of the other kind, or of the others where there is one kind only."""
    others = [one for one in sheet.rows if one.kind != row.kind] or [
        one for one in sheet.rows if one is not row
    ]
    return max(others, key=lambda one: one.cells[0].value, default=None)


def as_text(sheet: ReportTable) -> str:
    """The table with tabs, each figure with both ends of its interval, and all conclusions below it."""
    heads = [f"{name}\t{name} low\t{name} high" for name in sheet.columns]
    lines = ["\t".join(["", *heads, "p"])]
    for row in sheet.rows:
        cells = [f"{v:.4f}" for one in row.cells for v in (one.value, one.low, one.high)]
        p = "" if row.p is None else f"{row.p:.4f}"
        lines.append("\t".join([" ".join(row.name.split()), *cells, p]))
    sentences = dict.fromkeys((*sheet.said, *(told for row in sheet.rows for told in row.said)))
    return "\n".join([*lines, *sheet.about, *sentences])
