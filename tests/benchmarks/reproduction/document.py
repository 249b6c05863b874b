"""The report over several data sets: Tables 1 to 4 and Figures 3 to 6, 12 and 13 of Soroka et al."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from engine.base import folders
from engine.base.number_format import counted
from engine.base.report_table import (
    Cell,
    ReportColumn,
    ReportTable,
    format_cell,
    row_as_json,
    text_table,
)
from engine.base.statistics.intervals import Interval
from engine.base.text import one_line
from engine.results.document import Bar, BarChart, Block, Document, Paragraph, Section
from engine.trees.records import TreeItem
from tests.benchmarks.reproduction.data_sets import DataSet
from tests.benchmarks.reproduction.plots import Plot, against_length, leaves_against_log_prob
from tests.benchmarks.reproduction.tables import tables

MAX_GOALS = 10
"""Most goals that are listed, as in the paper; the title of the goals says "ten"."""
MAX_GROUPS, MAX_RUNS = 10, 4
"""Most groups of a run, and most runs, that stand side by side."""
MAX_GROUP_CHARS = 90
"""Most characters of a group of a run, with its size."""
FIGURES_OF_TREES: tuple[tuple[str, str, Callable[[TreeItem], float]], ...] = (
    ("number of leaves", "{:.0f}", lambda item: float(item.row.leaves)),
    ("log-probability of the best leaf", "{:.2f}", lambda item: item.row.max_log_prob or 0.0),
)
"""What it is, how it is written, and how a tree has it."""


def document(sets: Sequence[DataSet], commands: Sequence[str]) -> Document:
    """The report.

    Args:
        commands: What was run, one command of the program each.
    """
    one, two, three, four = tables(sets)
    return Document(
        "Soroka et al. on other data",
        f"Made by Conversation Workbench {folders.version()}.",
        (
            Section("Data sets", tuple(_shown(one))),
            Section("Completeness", (*_shown(two), Paragraph(_on_completeness(sets)))),
            Section("Goals", (*_shown(four), Paragraph(_ON_DISTANCES), *_goals(sets))),
            Section("Response trees", (*_shown(three), *_trees(sets))),
            Section("How this was made", tuple(_method(sets, commands))),
        ),
    )


_ON_COMPLETENESS = (
    "A conversation counts as complete if the model's most probable next text is the end tag. The rules without a model"
    " are this program's own. An interval from 0 to 1 means that the data say nothing about this figure."
)
_ON_DISTANCES = (
    "Intervals are of the mean over conversations, for the clusters as they are. Distances depend on the embedder, and"
    " compare with the paper's only in how those of the test part lie beside those of the training part."
)


def as_json(sets: Sequence[DataSet], commands: Sequence[str]) -> dict[str, Any]:
    """The tables, the figures that are no table, and what is missing, as JSON values."""
    return {
        "tables": [
            {"title": one.title, "rows": [row_as_json(one, row) for row in one.rows]}
            for one in tables(sets)
        ],
        "data_sets": [
            {
                "name": one.name,
                "paper_data_set": one.paper_data_set or None,
                "paper_goals": one.paper_goals,
                "trees": [
                    {
                        "id": item.name,
                        "characters": one.lengths[item.row.conversation_id],
                        "leaves": item.row.leaves,
                        "max_logprob": item.row.max_log_prob,
                    }
                    for item in one.trees
                ],
                "missing": list(one.missing),
            }
            for one in sets
        ],
        "commands": list(commands),
    }


def _on_completeness(sets: Sequence[DataSet]) -> str:
    held_out = [one.name for one in sets if one.held_out and one.evaluated]
    if not held_out:
        return _ON_COMPLETENESS
    names = ", ".join(held_out)
    return f"{_ON_COMPLETENESS} Of {names}, all are tested on conversations that the training did not read."


def _shown(table: ReportTable) -> Iterator[Block]:
    yield text_table(
        table.title,
        [column.title for column in table.columns],
        [tuple(map(_cell_text, table.columns, row.cells)) for row in table.rows],
        [index for index, column in enumerate(table.columns) if column.kind != "text"],
    )
    for note in table.notes:
        yield Paragraph(note)


def _cell_text(column: ReportColumn, cell: Cell) -> str:
    """A cell, with both ends of its interval where it has one."""
    text = format_cell(column.kind, cell)
    if not isinstance(cell, Interval):
        return text
    return f"{text} ({format_cell(column.kind, cell.low)} to {format_cell(column.kind, cell.high)})"


def _goals(sets: Sequence[DataSet]) -> Iterator[Block]:
    """Figures 3 to 5: the largest groups, and several runs side by side."""
    for one in sets:
        if one.paper_goals is None:
            continue
        groups = sorted(
            one.paper_goals["clustering"]["groups"], key=lambda group: -int(group["size"])
        )
        sizes = [(str(group["description"]), int(group["size"])) for group in groups]
        yield Paragraph(f"{one.name}:", True)
        yield largest_goals(sizes, int(one.paper_goals["conversations"]))
        yield from side_by_side(one.paper_goals)


def largest_goals(sizes: Sequence[tuple[str, int]], total: int) -> BarChart:
    """Returns the ten largest goals as bars.

    Args:
        sizes: Label and number of conversations of each goal, the largest first.
        total: Number of all conversations.
    """
    return BarChart(
        "The ten largest goals (Figures 3 and 5 of Soroka et al.): share of the conversations",
        tuple(
            Bar(label, size / total, f"{size:,} ({size / total:.0%})")
            for label, size in sizes[:MAX_GOALS]
        ),
    )


def side_by_side(paper: Mapping[str, Any]) -> Iterator[Block]:
    """Yields the largest groups of several runs of the paper's algorithm side by side.

    Args:
        paper: What `measured_goals` returns.
    """
    figure = paper["figure_4"]
    runs = [("this run", paper["clustering"])]
    runs += [(f"seed {number}", run) for number, run in enumerate(figure["seeds"], 1)]
    columns = [
        [f"{group['description']} ({group['size']:,})" for group in _largest_groups(run)]
        for _, run in runs[:MAX_RUNS]
    ]
    depth = max(map(len, columns))
    yield text_table(
        "Runs of the algorithm of Soroka et al. side by side (Figure 4): the largest groups with their sizes",
        ("", *(title for title, _ in runs[:MAX_RUNS])),
        tuple(
            (
                f"{index + 1}",
                *(
                    one_line(column[index], MAX_GROUP_CHARS) if index < len(column) else ""
                    for column in columns
                ),
            )
            for index in range(depth)
        ),
    )
    means = []
    if figure["ari_seeds_mean"] is not None:
        seeds = counted(len(figure["seeds"]), "other seed")
        means.append(f"{figure['ari_seeds_mean']:.2f} over {seeds}")
    orders = paper["llm_only"]["ari_orders_mean"]
    if orders is not None:
        means.append(f"{orders:.2f} between orders of the data where a model labels one by one")
    if means:
        yield Paragraph(f"Mean adjusted Rand index: {'; '.join(means)}.")


def _largest_groups(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the largest groups of a run of the paper's algorithm."""
    return sorted(run["groups"], key=lambda group: -int(group["size"]))[:MAX_GROUPS]


def _trees(sets: Sequence[DataSet]) -> Iterator[Block]:
    """Quartiles of all data sets, and the names of the plots."""
    grown = [one for one in sets if one.trees]
    if not grown:
        yield Paragraph("No response trees.")
        return
    yield _quartiles(grown)
    for plot in plots(sets):
        yield Paragraph(f"{plot.title}: `{plot.file}`. {plot.description}")


def plots(sets: Sequence[DataSet]) -> Iterator[Plot]:
    """Figure 6 over all data sets that have trees; Figures 12 and 13 of each."""
    grown = [one for one in sets if one.trees]
    for part, (what, _, value) in enumerate(FIGURES_OF_TREES if grown else ()):
        yield Plot(
            f"figure-6{'ab'[part]}.svg",
            f"Share of the trees up to a {what} (Figure 6 of Soroka et al.)",
            what,
            "share of the trees",
            "The quartiles are in the table before it.",
            tuple((one.name, _cumulative([value(item) for item in one.trees])) for one in grown),
        )
    for one in grown:
        yield leaves_against_log_prob(one.trees, one.name)
        yield from against_length(one.trees, one.lengths, one.name)


def _quartiles(sets: Sequence[DataSet]) -> ReportTable:
    def text(trees: Sequence[TreeItem], at: int) -> str:
        _, form, value = FIGURES_OF_TREES[at]
        low, middle, high = np.percentile([value(item) for item in trees], (25, 50, 75))
        return f"{form.format(middle)} ({form.format(low)} to {form.format(high)})"

    return text_table(
        "Response trees: median and quartiles (Figure 6 of Soroka et al.)",
        ("data set", "trees", *(what for what, _, _ in FIGURES_OF_TREES)),
        tuple(
            (one.name, f"{len(one.trees):,}", text(one.trees, 0), text(one.trees, 1))
            for one in sets
        ),
        (1, 2, 3),
    )


def _cumulative(values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """The steps of the empirical distribution function."""
    points = [(value, (nth + 1) / len(values)) for nth, value in enumerate(sorted(values))]
    return ((points[0][0], 0.0), *points)


def _method(sets: Sequence[DataSet], commands: Sequence[str]) -> Iterator[Block]:
    yield Paragraph(
        f"{counted(len(sets), 'data set')}, each a project of its own. Rows that begin with “paper:” are what Soroka et"
        " al. print, of their data, with LLaMA 8B models; what else differs is in docs/lab/fidelity.md."
    )
    yield text_table("The commands", ("",), tuple((f"workbench {one}",) for one in commands))
    missing = [(one.name, what) for one in sets for what in one.missing]
    if missing:
        yield text_table("What could not be computed", ("data set", ""), tuple(missing))
