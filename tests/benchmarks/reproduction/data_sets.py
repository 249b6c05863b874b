"""What a project holds of the tables and figures of Soroka et al."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from engine.base.errors import UsageError
from engine.base.statistics.intervals import Interval, wilson
from engine.base.statistics.ranking import Correlation, correlate
from engine.completeness.records import Mode
from engine.conversations.filters import Filter, ListQuery, parse_filter
from engine.opener.open_project import OpenProject
from engine.results.records import CompletenessTable, SeparationRow, TruncationTest
from engine.results.validation.completeness import completeness_table
from engine.training.run_files import all_runs, only_run
from engine.trees.records import TreeItem
from tests.benchmarks.reproduction.goals import measured_goals

RUN, RUN_WITHOUT_TAG = "reproduce", "reproduce-no-end-tag"
"""Names of the training runs of each data set: by recipe `paper`, and by `no-end-tag` for the ablation of Table 2."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One row of Table 2: what separated whole conversations from cut ones, and how well.

    Attributes:
        coverage: Share of the conversations that can be cut which it scored.
        n: Number of conversations, each once whole and once cut.
    """

    evaluator: str
    n: int
    coverage: float
    row: SeparationRow


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set with all that was computed of it.

    Attributes:
        paper_data_set: The paper's data set that it is compared with; empty for none.
        size, imported: Number of conversations used, and of all that were imported.
        turns: Median number of turns.
        tools: Share of the conversations in which tools are used.
        topics: Descriptions of the largest groups, the largest first.
        evaluated: Rows of Table 2.
        held_out: Whether they have only conversations that the training run did not train on.
        paper_goals: What `measured_goals` returns.
        trees: Its trees that have a best response.
        lengths: Characters of each conversation with a tree, by id.
        missing: What could not be computed, a sentence each.
    """

    name: str
    paper_data_set: str
    size: int
    imported: int
    turns: float
    tools: Interval
    topics: Sequence[str]
    evaluated: Sequence[Evaluated]
    held_out: bool
    paper_goals: Mapping[str, Any] | None
    trees: Sequence[TreeItem]
    lengths: Mapping[int, int]
    missing: Sequence[str] = ()

    def best_with_length(self) -> Correlation | None:
        """Correlation of the best log-probability with the length of the conversation in characters."""
        return correlate(self._best, [self.lengths[one.row.conversation_id] for one in self.trees])

    def best_with_leaves(self) -> Correlation | None:
        """Correlation of the best log-probability with the number of leaves."""
        return correlate(self._best, [one.row.leaves for one in self.trees])

    @property
    def _best(self) -> list[float]:
        return [one.row.max_log_prob or 0.0 for one in self.trees]


def read_data_set(
    workspace: OpenProject,
    name: str,
    wanted: Filter,
    paper_data_set: str,
    failures: Sequence[str],
) -> DataSet:
    """Reads what there is of the conversations of a filter; asks no model.

    Args:
        wanted: A filter that one conversation matches at least.
        failures: What could not be done before, a sentence each.
    """
    rows = workspace.conversations
    ids = rows.ids(ListQuery(wanted))
    about = rows.rows(ids.tolist())
    with_tools = rows.ids(ListQuery(Filter((*wanted.terms, *parse_filter("tool:*").terms))))
    tools = wilson(len(with_tools), len(ids))
    goals = measured_goals(workspace)
    groups = [] if goals is None else goals["clustering"]["groups"]
    largest = sorted(groups, key=lambda group: -int(group["size"]))
    project = Path(workspace.project.path)
    trained = {one.path.name for one in all_runs(project)}
    run = RUN if RUN in trained else only_run(project)
    evaluated, missing = _evaluated(workspace, wanted, run, trained)
    trees = [
        one for one in workspace.trees.items(ListQuery(wanted)) if one.row.max_log_prob is not None
    ]
    return DataSet(
        name,
        paper_data_set,
        len(ids),
        rows.counts().conversations,
        median(one.turns for one in about),
        Interval(tools.part / tools.of, tools.low, tools.high),
        [str(group["description"]) for group in largest if group["description"]][:2],
        evaluated,
        run is not None,
        goals,
        trees,
        {one.id: one.chars for one in about},
        (*failures, *missing),
    )


def _evaluated(
    workspace: OpenProject, wanted: Filter, run: str | None, trained: Collection[str]
) -> tuple[list[Evaluated], list[str]]:
    """The rows of Table 2, decided by what is generated.

    Args:
        run: The training run whose held-out conversations are tested.
        trained: Names of the project's training runs.
    """
    found: list[Evaluated] = []
    missing = []
    ways: list[tuple[Mode, str | None, str]] = [
        ("base", None, "prompted"),
        ("tuned", RUN_WITHOUT_TAG, "fine-tuned without end tag"),
        ("tuned", RUN if RUN in trained else None, "fine-tuned"),
    ]
    if RUN_WITHOUT_TAG not in trained:
        del ways[1]
    for mode, adapter, name in ways:
        try:
            table = completeness_table(
                workspace.project,
                workspace.catalog,
                TruncationTest(run, mode, adapter, paper=True),
                query=ListQuery(wanted),
            )
        except UsageError as nothing:
            missing.append(f"Table 2, {name}: {nothing.message}")
            continue
        found += _rows(table, name, with_rules=not found)
    return found, missing


def _rows(table: CompletenessTable, name: str, *, with_rules: bool) -> list[Evaluated]:
    return [
        Evaluated(
            row.name if row.config is None else f"{row.config.model}, {name}",
            table.n,
            table.coverage,
            row,
        )
        for row in table.rows
        if row.kind == "scores" or with_rules
    ]
