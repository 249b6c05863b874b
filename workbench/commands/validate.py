"""`workbench validate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from engine.base.errors import NotYet, UsageError
from engine.base.number_format import figure
from engine.base.statistics.records import Contrast
from engine.completeness.records import Mode
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.results.metrics import conclusions
from engine.results.records import CompletenessTable
from engine.results.validation import completeness_report, goals, picture, trees
from engine.results.validation import service as all_metrics
from engine.results.validation import verdicts as validation_of_verdicts
from engine.results.validation.completeness import completeness_table, only_run
from engine.results.validation.goals import GoalValidation, goal_validation
from engine.results.validation.trees import TreeValidation, config_name, tree_validation
from engine.results.validation.verdicts import VerdictValidation, verdict_validation
from workbench.arguments import FILTER, PROJECT, Argument, argument, positive, takes, titled
from workbench.command_result import CommandResult
from workbench.narration import narrate
from workbench.text_tables import table_lines

OF_TREES = ("config",)
OF_COMPLETENESS = (
    "run_name",
    "adapter",
    "mode",
    "seed",
    "limit",
    "same_kind",
    "paper",
    "every_boundary",
    "plot",
    "against",
)
"""The options that only one of the metrics has, by their names in the parsed arguments."""


def _switch(name: str, help: str) -> Argument:
    """Returns a switch that is None where it is not given, as every option of one metric only."""
    return argument(name, action="store_const", const=True, help=help)


@takes(
    PROJECT,
    argument(
        "metric",
        choices=["goals", "completeness", "trees", "verdicts", "all"],
        help="what is compared; `all`: every one for which there is truth",
    ),
    FILTER,
    titled(
        "trees",
        argument(
            "--config",
            metavar="HASH",
            help="the trees with this configuration hash (default: those that the screens show)",
        ),
    ),
    titled(
        "completeness: whole conversations against cut ones",
        argument(
            "--run",
            dest="run_name",
            metavar="NAME",
            help="only the test part of this training run (default: the project's only run, else all conversations)",
        ),
        argument("--mode", choices=get_args(Mode), help="only scores of this mode"),
        argument("--adapter", help="only scores with this adapter"),
        argument("--seed", type=int, help="seed of the cuts (default: 0)"),
        argument("--limit", type=positive, help="only the first N conversations"),
        _switch(
            "--same-kind",
            "cut only after steps of the kind (assistant, tool) that a conversation ends with",
        ),
        _switch(
            "--paper",
            "decide as Soroka et al. do: complete where the end tag is what the model writes next",
        ),
        _switch(
            "--every-boundary",
            "also: are the scores probabilities of an end, before and after correction for how rare ends are?",
        ),
        argument("--plot", metavar="FILE", help="also draw the table, as .svg"),
        argument(
            "--against",
            choices=["rows", "conversations", "cut"],
            help="draw it row by row (default), by how many conversations an adapter was trained on, or by what share"
            " of them was cut",
        ),
    ),
)
def validate(arguments: argparse.Namespace) -> CommandResult:
    """Compares a metric, or all metrics, with the truth that was imported.

    Raises:
        UsageError: There is no truth or no result to compare, or an option does not apply here.
    """
    metric = arguments.metric
    if metric != "trees":
        _refuse(arguments, OF_TREES)
    if metric != "completeness":
        _refuse(arguments, OF_COMPLETENESS)
    if arguments.against and not arguments.plot:
        raise UsageError("--against needs --plot.", "Name the picture with --plot FILE.")
    report = _every if metric == "all" else _REPORTS[metric]
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        return report(workspace, arguments)


def _refuse(arguments: argparse.Namespace, options: Sequence[str]) -> None:
    for name in options:
        if getattr(arguments, name) is not None:
            option = name.removesuffix("_name").replace("_", "-")
            raise UsageError(
                f"--{option} has no effect on `validate {arguments.metric}`.", "Leave it out."
            )


def _every(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    """Compares all metrics, and prints what is missing for each.

    Raises:
        UsageError: No metric can be compared.
    """
    query = ListQuery(arguments.filter)
    found = all_metrics.validate_all(workspace.project, workspace.catalog, query)
    for one in found.missing:
        narrate(f"{one.metric}: {one.what} {one.how}".rstrip())
    parts = []
    if found.goals is not None:
        parts.append(_goals_lines(found.goals))
    if found.completeness is not None:
        parts.append(_completeness_lines(found.completeness))
    if found.verdicts is not None:
        parts.append(_verdicts_lines(found.verdicts))
    if found.trees is not None:
        parts.append(_trees_lines(found.trees))
    if not parts:
        raise NotYet(
            "There is no result to compare with a known outcome.",
            "Score, cluster or grow trees first, on conversations whose truth is known: `workbench help validation`.",
        )
    lines = [line for part in parts for line in ("", *part)][1:]
    return CommandResult(lines, all_metrics.metrics_json(found))


def _goals(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    found = goal_validation(workspace.project, ListQuery(arguments.filter))
    return CommandResult(_goals_lines(found), goals.goals_json(found))


def _goals_lines(found: GoalValidation) -> list[str]:
    table = goals.goal_table(found)
    return [
        f"{'goals':<15}{table.notes[0]}",
        f"{'':<15}{table.notes[1]}",
        "",
        *table_lines(table, max_name_length=27),
        *_pairwise(found.contrasts),
    ]


def _completeness(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    found = completeness_table(
        workspace.project,
        workspace.catalog,
        arguments.run_name or only_run(Path(arguments.project)),
        query=ListQuery(arguments.filter),
        mode=arguments.mode,
        adapter=arguments.adapter,
        seed=arguments.seed or 0,
        limit=arguments.limit,
        same_kind=bool(arguments.same_kind),
        as_generated=bool(arguments.paper),
        every_boundary=bool(arguments.every_boundary),
    )
    for note in completeness_report.notes(found):
        narrate(note)
    if arguments.plot:
        picture.save_picture(found, Path(arguments.plot), arguments.against or "rows")
        narrate(f"Drew {arguments.plot}.")
    return CommandResult(_completeness_lines(found), completeness_report.as_json(found))


def _completeness_lines(found: CompletenessTable) -> list[str]:
    cut, *against = completeness_report.tables(found)
    lines = [
        f"{'completeness':<15}{cut.notes[0]}",
        f"{'':<15}{cut.notes[1]}",
        "",
        *table_lines(cut, max_name_length=completeness_report.LONGEST_NAME),
        *_pairwise(completeness_report.main_contrasts(found)),
    ]
    if found.every_boundary:
        calibration = completeness_report.every_boundary_table(found)
        lines += ["", *table_lines(calibration, max_name_length=completeness_report.LONGEST_NAME)]
    for table, truth in zip(against, found.truths, strict=True):
        lines += ["", f"{table.title}: {table.notes[0]}", f"  {table.notes[1]}"]
        if not table.rows:
            lines.append(_ALL_THE_SAME)
            continue
        head, *rows = table_lines(table, max_name_length=completeness_report.LONGEST_NAME)
        chance = " and ".join(figure(one.chance or 0.0) for one in table.columns[1:])
        lines += [f"{head}  (by chance {chance})", *rows]
        lines += _pairwise(completeness_report.main_contrasts(found, truth))
    return lines


def _trees(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    query = ListQuery(arguments.filter)
    found = tree_validation(workspace.project, query, arguments.config)
    if not found.tables:
        narrate(trees.without_truth(found))
    return CommandResult(_trees_lines(found), trees.trees_json(found))


def _trees_lines(found: TreeValidation) -> list[str]:
    lines = [
        f"{'trees':<15}{config_name(found.config)}",
        f"{'':<15}{found.grown:,} trees of {found.conversations:,} conversations,"
        f" {found.wanted:,} asked for; median of {found.leaves:g} leaves",
    ]
    if found.unkept:
        lines.append(
            f"{'':<15}{found.unkept:,} trees of an earlier version hold no probabilities of tokens"
        )
    for table, claim in zip(trees.tree_tables(found), found.tables, strict=True):
        lines += ["", f"{table.title}: {table.notes[0]}", f"  {table.notes[1]}"]
        lines += (
            table_lines(table, indent="  ", with_chance_row=True) if table.rows else [_ALL_THE_SAME]
        )
        lines += [f"  {line}" for line in trees.claim_conclusions(claim)]
    correlations = trees.correlation_table(found)
    return [*lines, "", *table_lines(correlations)] if correlations.rows else lines


def _verdicts(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    found = verdict_validation(workspace.project, ListQuery(arguments.filter))
    return CommandResult(_verdicts_lines(found), validation_of_verdicts.verdicts_json(found))


def _verdicts_lines(found: VerdictValidation) -> list[str]:
    table = validation_of_verdicts.verdict_table(found)
    first, *others = table.notes
    return [
        f"{'verdicts':<15}{first}",
        *(f"{'':<15}{note}" for note in others),
        "",
        *table_lines(table, max_name_length=completeness_report.LONGEST_NAME),
        *_pairwise(found.contrasts),
    ]


def _pairwise(contrasts: Sequence[Contrast]) -> list[str]:
    return [f"  {line}" for line in conclusions.pairwise(contrasts)]


_ALL_THE_SAME = "  All are the same: there is nothing to tell apart."
_REPORTS: Mapping[str, Callable[[OpenProject, argparse.Namespace], CommandResult]] = {
    "goals": _goals,
    "completeness": _completeness,
    "trees": _trees,
    "verdicts": _verdicts,
}
