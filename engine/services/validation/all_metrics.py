"""All metrics of a project against all that is known of it, and what is missing for more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from engine.errors import UsageError
from engine.filters import ListQuery
from engine.model.catalog import Catalog
from engine.records.validation import CompletenessTable, Metric, Missing
from engine.services.validation.completeness import completeness_table, only_run
from engine.services.validation.goals import GoalValidation, goal_validation
from engine.services.validation.trees import TreeValidation, tree_validation
from engine.store.project import Project
from engine.validate import truths
from engine.validate.tables import Tell

T = TypeVar("T")
_TRUTH = "Truth comes with the import, in the field `truth` of a record."


@dataclass(frozen=True, slots=True)
class Everything:
    """What each metric has to say; None where it has nothing."""

    goals: GoalValidation | None
    completeness: CompletenessTable | None
    trees: TreeValidation | None
    missing: tuple[Missing, ...]


def everything(
    project: Project, catalog: Catalog, query: ListQuery, tell: Tell = lambda what: None
) -> Everything:
    """Holds every metric against what is known.

    Args:
        tell: Told what is worked out next; may raise to stop it.
    """
    missing: list[Missing] = []

    def asked(metric: Metric, ask: Callable[[], T]) -> T | None:
        tell(metric)
        try:
            return ask()
        except UsageError as nothing:
            missing.append(Missing(metric, nothing.message, nothing.hint))
            return None

    run = only_run(Path(project.path))
    goals = asked("goals", lambda: goal_validation(project, query))
    completeness = asked(
        "completeness", lambda: completeness_table(project, catalog, run, query=query, tell=tell)
    )
    trees = asked("trees", lambda: tree_validation(project, query, tell=tell))
    if completeness is not None:
        missing += _of_completeness(completeness)
    if trees is not None:
        missing += _of_trees(trees)
    return Everything(goals, completeness, trees, tuple(missing))


def _of_completeness(found: CompletenessTable) -> list[Missing]:
    there = {row.mode for row in found.rows}
    missing = [
        Missing(
            "completeness",
            f"No scores of mode {mode} are compared.",
            f"`workbench run complete PROJECT --mode {mode}` makes them.",
        )
        for mode in ("base", "judge", "tuned")
        if mode not in there
    ]
    if not found.truths:
        what = "Neither completion nor reward is known of what is scored."
        missing.append(Missing("completeness", what, _TRUTH))
    return missing


def _of_trees(found: TreeValidation) -> list[Missing]:
    missing = []
    if not found.known:
        missing.append(
            Missing("trees", "Nothing is known that trees could be held against.", _TRUTH)
        )
    of_answers = sorted(truths.OF_AN_ANSWER & found.known.keys())
    if of_answers and found.config.place != "every":
        what = f"Single answers are judged ({', '.join(of_answers)}), and most have no tree."
        how = "`workbench run trees PROJECT --at every` grows one for each."
        missing.append(Missing("trees", what, how))
    if found.conversations < found.wanted:
        what = f"{found.wanted - found.conversations:,} of {found.wanted:,} conversations have no tree."
        how = "`workbench run trees PROJECT` with the same options grows what is missing."
        missing.append(Missing("trees", what, how))
    if found.unkept:
        what = f"{found.unkept:,} trees of an earlier version hold no probabilities of tokens."
        how = "`workbench run trees PROJECT --max-tokens N` with another N grows them anew."
        missing.append(Missing("trees", what, how))
    return missing
