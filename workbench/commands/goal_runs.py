"""`workbench run cluster`, `assign` and `stability`: runs on what users wanted."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.text import one_line
from engine.goals.clustering_request import ClusteringRequest
from engine.goals.records import subject_of_reasons
from engine.goals.service.json_lines import assignment_result, clustering_result, stability_result
from engine.goals.service.runs import ABOUT_KEY
from engine.opener.open_project import OpenProject
from engine.project import settings
from engine.project.records import estimate_lines
from workbench.arguments import PROJECT, argument, read_request, request_arguments, switch, takes
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.narration import run_stages

MAX_GROUP_LINES = 40
"""Groups that are printed for people; `--json` and `export clusters` have all."""


@takes(
    PROJECT,
    argument("--about", help="paragraph on the application, for the summaries; is kept"),
    *request_arguments(ClusteringRequest),
    switch("--estimate", "estimate the cost and stop"),
)
def run_cluster(arguments: argparse.Namespace) -> CommandResult:
    """Clusters goals: texts, vectors, clusters, labels, and what is to be decided."""
    request = read_request(ClusteringRequest, arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        if (about := arguments.about) is not None:
            workspace.project.write(lambda conn: settings.put(conn, ABOUT_KEY, about))
        if arguments.estimate:
            estimate = workspace.goal_stages().estimate(request)
            return CommandResult(estimate_lines(estimate), asdict(estimate))
        run_stages(workspace, workspace.goal_stages().cluster_stages(request))
        clustering = shown_clustering(workspace)
    groups, without = clustering["groups"], clustering["without"]
    note = f"Without a vector, and in no group: {without:,}; `export assignments` says why."
    if request.goal_text == "summary":
        note += " `--fresh` asks about them again."
    if subject := subject_of_reasons(request.text):
        note = (
            f"Nothing explains the other {without:,} as “{subject}”. `workbench goals` now works on these reasons;"
            " `goals clusterings --show N` opens the goals again."
        )
    return CommandResult(
        group_lines(groups, MAX_GROUP_LINES),
        clustering,
        EXIT_INCOMPLETE if without and not subject else EXIT_DONE,
        notes=[note] if without else [],
    )


def group_lines(groups: Sequence[Mapping[str, Any]], most: int) -> list[str]:
    """Returns lines with the size and the label of the first groups, and the number of the others.

    Args:
        groups: The groups of `shown_clustering`.
        most: Most groups with a line of their own.
    """
    lines = [f"{group['size']:>8,}  {one_line(group['label'])}" for group in groups[:most]]
    if len(groups) > most:
        lines.append(f"          and {len(groups) - most:,} smaller ones")
    return lines


def shown_clustering(workspace: OpenProject) -> dict[str, Any]:
    """Returns the clustering that is open with its groups after all decisions, largest first, as JSON values."""
    groups = workspace.merge_review.goals.groups()
    return clustering_result(workspace.project, workspace.merge_queue_cache.decision_log, groups)


@takes(
    PROJECT,
    argument("--model", help="model that wrote the summaries, for a clustering of summaries"),
)
def run_assign(arguments: argparse.Namespace) -> CommandResult:
    """Assigns the conversations that were imported after the clustering."""
    with OpenProject(Path(arguments.project)) as workspace:
        run_stages(workspace, workspace.goal_stages().assign_stages(arguments.model))
        decision_log = workspace.merge_queue_cache.decision_log
        assigned = assignment_result(workspace.project, decision_log)
    novel = assigned["novel"]
    lines = [f"{group['assigned']:>8,}  {one_line(group['label'])}" for group in assigned["groups"]]
    note = f"{novel:,} conversations are like no group; cluster again when they grow in number."
    return CommandResult(
        [*lines, f"{novel:>8,}  like no group"],
        assigned,
        EXIT_INCOMPLETE if novel else EXIT_DONE,
        notes=[note] if novel else [],
    )


@takes(PROJECT)
def run_stability(arguments: argparse.Namespace) -> CommandResult:
    """Clusters again with other seeds and with bootstrap samples; says how much of the clustering comes again."""
    with OpenProject(Path(arguments.project)) as workspace:
        stage = workspace.goal_stages().stability_stage()
        run_stages(workspace, [stage])
        stability = stability_result(workspace.project, stage)
    lines = [
        f"ARI with the clustering: {_figure_text(stability['ari_seeds'])} over {stability['seeds']} seeds, "
        f"{_figure_text(stability['ari_bootstraps'])} over {stability['bootstraps']} bootstraps"
    ]
    for cluster in stability["clusters"]:
        mark = {True: "stable", False: "UNSTABLE", None: ""}[cluster["stable"]]
        lines.append(f"{_figure_text(cluster['jaccard'])}  {mark:8}  {one_line(cluster['label'])}")
    return CommandResult(lines, stability)


def _figure_text(value: float | None) -> str:
    """Returns a figure with two digits; a dash for None."""
    return "   –" if value is None else f"{value:.2f}"
