"""Tables 1 to 4 of Soroka et al. over several data sets, with the paper's rows: those that a data set is compared with
below its row, the others at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.base.number_format import counted
from engine.base.report_table import Cell, ReportColumn, ReportRow, ReportTable
from engine.base.statistics.intervals import Z95, Interval
from engine.base.statistics.ranking import Correlation
from engine.base.text import one_line
from tests.benchmarks.reproduction import paper
from tests.benchmarks.reproduction.data_sets import DataSet

LONGEST_TOPIC = 70
_NAME = ReportColumn("data set", "text", "data_set")
_COVERAGE = ReportColumn(
    "coverage",
    "percent",
    "coverage",
)
Rows = Sequence[tuple[Cell, ...]]


def tables(sets: Sequence[DataSet]) -> list[ReportTable]:
    """The four tables."""
    return [_table_1(sets), _table_2(sets), _table_3(sets), _table_4(sets)]


def _table_1(sets: Sequence[DataSet]) -> ReportTable:
    def of_paper(paper_data_set: str) -> Rows:
        return [
            (name, size, None, topic, None, float(tools))
            for name, size, topic, tools in paper.TABLE_1[paper_data_set]
        ]

    def ours(one: DataSet) -> Rows:
        topic = one_line("; ".join(one.topics), LONGEST_TOPIC)
        return [(one.name, one.size, one.size / one.imported, topic, one.turns, one.tools)]

    columns = (
        _NAME,
        ReportColumn("size", "count", "size"),
        _COVERAGE,
        ReportColumn("topic", "text", "topic"),
        ReportColumn("turns", "number", "turns"),
        ReportColumn("tool use", "interval", "tools"),
    )
    return _table("Table 1: data sets", columns, sets, ours, of_paper)


def _table_2(sets: Sequence[DataSet]) -> ReportTable:
    def of_paper(paper_data_set: str) -> Rows:
        return [(paper_data_set, None, None, *row) for row in _evaluators_first(paper_data_set)]

    def ours(one: DataSet) -> Rows:
        return [
            (
                one.name,
                each.n,
                each.coverage,
                each.evaluator,
                each.row.metrics.accuracy,
                each.row.metrics.precision,
                each.row.metrics.recall,
                each.row.metrics.f1,
            )
            for each in one.evaluated
        ]

    figures = ("accuracy", "precision", "recall", "F1")
    columns = (
        _NAME,
        ReportColumn("conversations", "count", "n"),
        _COVERAGE,
        ReportColumn("evaluator", "text", "evaluator"),
        *(ReportColumn(title, "interval", title.lower()) for title in figures),
    )
    return _table(
        "Table 2: whole conversations against cut ones", columns, sets, ours, of_paper
    )  # fmt: skip


def _evaluators_first(paper_data_set: str) -> Sequence[tuple[Cell, ...]]:
    return [(evaluator, *figures) for evaluator, *figures in paper.TABLE_2[paper_data_set]]


def _table_3(sets: Sequence[DataSet]) -> ReportTable:
    def of_paper(paper_data_set: str) -> Rows:
        length, leaves = paper.TABLE_3[paper_data_set]
        return [(paper_data_set, None, None, length, None, leaves, None)]

    def ours(one: DataSet) -> Rows:
        return [
            (
                one.name,
                len(one.trees),
                len(one.trees) / one.size,
                *_both(one.best_with_length()),
                *_both(one.best_with_leaves()),
            )
        ]

    columns = (
        _NAME,
        ReportColumn("trees", "count", "trees"),
        _COVERAGE,
        ReportColumn("max logprob and length", "interval", "length"),
        ReportColumn("(Pearson)", "share", "length_pearson"),
        ReportColumn("max logprob and leaves", "interval", "leaves"),
        ReportColumn("(Pearson)", "share", "leaves_pearson"),
    )
    return _table(
        "Table 3: correlations of response trees, Spearman with interval and Pearson",
        columns,
        sets,
        ours,
        of_paper,
    )


def _both(found: Correlation | None) -> tuple[Cell, Cell]:
    return (None, None) if found is None else (found.spearman, found.pearson)


def _table_4(sets: Sequence[DataSet]) -> ReportTable:
    def of_paper(paper_data_set: str) -> Rows:
        train, near, far, full, distance = paper.TABLE_4[paper_data_set]
        return [(paper_data_set, None, train, near, far, full, distance)]

    def ours(one: DataSet) -> Rows:
        table = None if one.paper_goals is None else one.paper_goals["table_4"]
        if table is None:
            return []
        parts = [table[name] for name in ("train", "test", "full")]
        near, far, full = map(_distance, parts)
        covered = parts[2]["rows"] / one.size
        return [
            (one.name, covered, table["clusters_train"], near, far, table["clusters_full"], full)
        ]

    columns = (
        _NAME,
        _COVERAGE,
        ReportColumn("clusters (train)", "count", "clusters_train"),
        ReportColumn("distance (train)", "interval", "distance_train"),
        ReportColumn("distance (test)", "interval", "distance_test"),
        ReportColumn("clusters (full)", "count", "clusters_full"),
        ReportColumn("distance (full)", "interval", "distance_full"),
    )
    return _table(
        "Table 4: mean Euclidean distance to the center of the cluster",
        columns,
        sets,
        ours,
        of_paper,
    )


def _distance(part: Mapping[str, Any]) -> Cell:
    """The mean distance with the interval of a mean; without one where the measurement has no standard error."""
    mean, error = part["euclidean"], part.get("euclidean_error")
    if mean is None or error is None:
        return None if mean is None else float(mean)
    return Interval(mean, mean - Z95 * error, mean + Z95 * error)


def _table(
    title: str,
    columns: tuple[ReportColumn, ...],
    sets: Sequence[DataSet],
    ours: Callable[[DataSet], Rows],
    of_paper: Callable[[str], Rows],
) -> ReportTable:
    """Rows of ours, each followed by the rows of the paper that it is compared with; then the paper's others."""
    rows: list[ReportRow] = []
    for one in sets:
        rows += [ReportRow(cells) for cells in ours(one)]
        if one.paper_data_set:
            rows += _of_paper(of_paper(one.paper_data_set))
    shown = {one.paper_data_set for one in sets}
    for paper_data_set in paper.DATA_SETS:
        if paper_data_set not in shown:
            rows += _of_paper(of_paper(paper_data_set))
    without = [one.name for one in sets if not ours(one)]
    notes = [f"Nothing for {', '.join(without)}."] if without else []
    return ReportTable(
        f"{title}; with 95% intervals, {counted(len(sets), 'data set')} and those of Soroka et al.",
        columns,
        tuple(rows),
        tuple(notes),
    )


def _of_paper(rows: Rows) -> list[ReportRow]:
    return [ReportRow((f"paper: {name}", *cells), details={"paper": True}) for name, *cells in rows]
