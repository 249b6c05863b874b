"""Texts of the validation screen. Without widgets."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.base.number_format import signed
from engine.base.outcomes import (
    Verdict,
)
from engine.base.report_table import ReportRow, ReportTable
from engine.base.text import one_line
from engine.conversations.filters import parse_filter
from engine.results.records import Missing, ValidationReport
from screens.shell.figures import Figure
from screens.widgets.empty_state import EmptyState
from screens.widgets.report_columns import first_figure

LONGEST = 400
LONGEST_NAME = 60

METRICS = {
    "goals": "goals: groups against gold goals",
    "completeness": "completeness",
    "verdicts": "completeness",
    "trees": "uncertainty",
}


def summary(report: ValidationReport, page: int) -> Content:
    """Which page of how many this is, and what it is about."""
    place = f"{page + 1} of {pages(report)}"
    if page >= len(report.tables):
        title = f"what is missing for more ({len(report.missing)})"
        return Content.assemble((f"◂ {place} ▸ ", "$tone-accent"), (title, "bold"))
    table = report.tables[page]
    return Content.assemble(
        (f"◂ {place} ▸ ", "$tone-accent"),
        (METRICS[table.metric or ""], "bold"),
        "" if table.metric == "goals" else f" against {one_line(table.title, LONGEST_NAME)}",
        (f" · {one_line('; '.join(table.notes[:2]), 300)}", "$tone-muted"),
    )


def pages(report: ValidationReport) -> int:
    """The number of tables, and one page on what is missing where anything is."""
    return len(report.tables) + bool(report.missing)


def conclusions_content(
    table: ReportTable, row: ReportRow | None, compared: ReportRow | None
) -> Content:
    """What can be concluded of the row under the cursor and of all rows, and the notes of the table.

    Args:
        compared: The row whose curves are drawn beside those of `row`.
    """
    lines: list[Content] = []
    if row is not None:
        means = f": {one_line(row.means, 200)}" if row.means else ""
        lines.append(Content.assemble((name_of(row), "bold $tone-bright"), (means, "$tone-muted")))
        if compared is not None and row.curves:
            lines.append(
                Content.styled(f"drawn faintly: {name_of(compared)}, and chance", "$tone-muted")
            )
        lines += [Content(one_line(sentence, LONGEST)) for sentence in row.conclusions]
    if table.conclusions:
        lines.append(Content.styled("all rows", "bold"))
        lines += [Content(one_line(sentence, LONGEST)) for sentence in table.conclusions]
    by_chance = [
        f"{column.title} {signed(column.chance)}"
        for column in table.columns
        if column.chance is not None and column.on_screen
    ]
    if by_chance:
        lines.append(Content.styled(f"by chance: {', '.join(by_chance)}", "$tone-muted"))
    lines += [Content.styled(one_line(note, LONGEST), "$tone-muted") for note in table.notes]
    return Content("\n").join(lines)


def name_of(row: ReportRow) -> str:
    """The name of a row, display-safe."""
    return one_line(row.name, LONGEST_NAME)


def missing_content(missing: Sequence[Missing]) -> Content:
    """What is missing for more tables, and the commands that produce it."""
    lines = []
    for one in missing:
        lines.append(Content.assemble((one.metric, "bold"), f"  {one_line(one.what, LONGEST)}"))
        if one.how:
            lines.append(Content.styled(f"  {one_line(one.how, LONGEST)}", "$tone-accent"))
    return Content("\n").join(lines)


def empty_state(missing: Sequence[Missing]) -> EmptyState:
    """What to do when no metric can be compared with any truth."""
    return EmptyState(
        "Nothing to validate yet.\n\n"
        "Here every metric is compared with what is known of the conversations:\n"
        "rewards, completion, gold goals, judged answers that came with the import.\n\n"
        + missing_content(missing).plain,
        "imports logs for which the outcome is known",
        "import_files",
    )


def compared_row(table: ReportTable, row: ReportRow) -> ReportRow | None:
    """The row whose curves are drawn beside those of a row: the best of the other kind, or of the other rows where
    there is one kind only; None where there is no other row."""
    others = [one for one in table.rows if one.kind != row.kind] or [
        one for one in table.rows if one is not row
    ]
    return max(others, key=first_figure, default=None)


_CLAIMS = {
    "reward 0": ("truth.reward<=0", "truth.reward>0"),
    "reward below 1": ("truth.reward<1", "truth.reward>=1"),
    "not complete": ("truth.complete:false", "truth.complete:true"),
    "success below 1": ("truth.success<1", "truth.success>=1"),
    "hallucinated": ("truth.hallucination:true", "truth.hallucination:false"),
}
"""Filters of the conversations for which a claim holds and does not hold; of answers, of which one is so."""


def figures_of(table: ReportTable) -> list[Figure]:
    """The conversations that a table compares, as far as filters can name them."""
    if table.metric == "goals":
        return [
            Figure("with a gold goal, in a goal", parse_filter("has:truth.goal goal:any")),
            Figure("with a gold goal, in no goal", parse_filter("has:truth.goal goal:none")),
        ]
    if table.metric == "verdicts":
        return [
            *(
                Figure(f"verdict {one}", parse_filter(f"verdict:{one} -state:unscored"))
                for one in Verdict
            ),
            Figure("verdict and score in force differ", parse_filter("disagreement:verdict")),
            Figure("two sets of scores differ", parse_filter("disagreement:scores")),
        ]
    measured = "leaves>=0" if table.metric == "trees" else "-state:unscored"
    if table.title not in _CLAIMS:
        return [Figure("measured", parse_filter(measured))]
    holds, fails = _CLAIMS[table.title]
    return [
        Figure(f"{table.title}, {how}", parse_filter(f"{term} {measured}"))
        for how, term in (("yes", holds), ("no", fails))
    ]
