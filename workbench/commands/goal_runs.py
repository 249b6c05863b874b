"""`workbench run cluster`, `assign`, `stability` and `splits`: runs on what users wanted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.text import one_line
from engine.goals.records import ClusteringRequest, SplitProposal
from engine.goals.service.run_results import assignment_result, clustering_result, stability_result
from engine.goals.service.runs import ABOUT_KEY
from engine.opener.open_project import OpenProject
from engine.project import settings
from workbench.arguments import (
    PROJECT,
    argument,
    positive,
    read_request,
    request_arguments,
    share,
    switch,
    takes,
)
from workbench.narration import narrate, run_stages
from workbench.result import DONE, WITH_GAPS, Result
from workbench.text_tables import cell_lines

MOST_LINES = 40
"""Groups that are printed for people; `--json` and `export clusters` have all."""

LONGEST = 40

ABOUT = argument("--about", help="paragraph on the application, for the summaries; is kept")


@takes(PROJECT, ABOUT, *request_arguments(ClusteringRequest))
def run_cluster(arguments: argparse.Namespace) -> Result:
    """Clusters goals: texts, vectors, clusters, labels, and what is to be decided."""
    request = read_request(ClusteringRequest, arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        keep_about(workspace, arguments.about)
        run_stages(workspace, workspace.goal_stages().cluster(request))
        clustering = shown_clustering(workspace)
    groups, without = clustering["groups"], clustering["without"]
    lines = [f"{group['size']:>8,}  {one_line(group['label'])}" for group in groups[:MOST_LINES]]
    if len(groups) > MOST_LINES:
        lines.append(f"          and {len(groups) - MOST_LINES:,} smaller ones")
    note = f"Without a vector, and in no group: {without:,}; `export assignments` says why."
    return Result(
        lines, clustering, WITH_GAPS if without else DONE, notes=[note] if without else []
    )


def keep_about(workspace: OpenProject, about: str | None) -> None:
    """Stores the paragraph on the application, if one is given."""
    if about is not None:
        workspace.project.write(lambda conn: settings.put(conn, ABOUT_KEY, about))


def shown_clustering(workspace: OpenProject) -> dict[str, Any]:
    """The clustering that is shown with its groups after all decisions, largest first, as JSON values."""
    groups = workspace.goals.groups()
    return clustering_result(workspace.project, workspace.merge_queue_cache.decision_log, groups)


@takes(
    PROJECT,
    argument("--model", help="model that wrote the summaries, for a clustering of summaries"),
    argument(
        "--holdout",
        type=share,
        metavar="S",
        help="assign nothing; cluster all but a share, like 0.5, and measure how near the held-out ones"
        " are to the clusters, as in Table 4 of Soroka et al.",
    ),
    argument("--seed", type=int, default=0, help="seed of what is held out (default: 0)"),
)
def run_assign(arguments: argparse.Namespace) -> Result:
    """Assigns the conversations that were imported after the clustering. With --holdout clusters a part of them
    instead, and measures how near the others are to its clusters."""
    with OpenProject(Path(arguments.project)) as workspace:
        if arguments.holdout is not None:
            stage = workspace.goal_stages().hold_out(arguments.holdout, arguments.seed)
            run_stages(workspace, [stage])
            return Result([stage.summary()], stage.result and asdict(stage.result))
        run_stages(workspace, workspace.goal_stages().assign(arguments.model))
        decision_log = workspace.merge_queue_cache.decision_log
        assigned = assignment_result(workspace.project, decision_log)
    novel = assigned["novel"]
    lines = [f"{group['assigned']:>8,}  {one_line(group['label'])}" for group in assigned["groups"]]
    note = f"{novel:,} conversations are like no group; cluster again when they grow in number."
    return Result(
        [*lines, f"{novel:>8,}  like no group"],
        assigned,
        WITH_GAPS if novel else DONE,
        notes=[note] if novel else [],
    )


@takes(
    PROJECT,
    argument("--seeds", type=positive, default=5, help="number of other seeds (default: 5)"),
    argument(
        "--bootstraps", type=positive, default=20, help="number of bootstrap samples (default: 20)"
    ),
)
def run_stability(arguments: argparse.Namespace) -> Result:
    """Clusters again with other seeds and with bootstrap samples; says how much of the clustering comes again."""
    with OpenProject(Path(arguments.project)) as workspace:
        stage = workspace.goal_stages().stability(arguments.seeds, arguments.bootstraps)
        run_stages(workspace, [stage])
        stability = stability_result(workspace.project, stage)
    lines = [
        f"ARI with the clustering: {_figure(stability['ari_seeds'])} over {stability['seeds']} seeds, "
        f"{_figure(stability['ari_bootstraps'])} over {stability['bootstraps']} bootstraps"
    ]
    for cluster in stability["clusters"]:
        mark = {True: "stable", False: "UNSTABLE", None: ""}[cluster["stable"]]
        lines.append(f"{_figure(cluster['jaccard'])}  {mark:8}  {one_line(cluster['label'])}")
    return Result(lines, stability)


def _figure(value: float | None) -> str:
    return "   –" if value is None else f"{value:.2f}"


@takes(
    PROJECT,
    switch("--ask", "ask a model first whether the parts are one goal"),
    argument("--model", metavar="M", help="the model that is asked"),
    argument("--limit", type=positive, metavar="N", help="ask about at most N groups"),
    argument(
        "--accept",
        action="append",
        default=[],
        metavar="GROUP",
        help="split this group as proposed; may be repeated",
    ),
)
def run_splits(arguments: argparse.Namespace) -> Result:
    """Lists the groups whose two parts lie about as far apart as groups do, and splits those that are accepted.

    Raises:
        UsageError: Nothing was clustered yet, or a group is not proposed.
    """
    accepted: list[str] = arguments.accept
    with OpenProject(
        Path(arguments.project), read_only=not (arguments.ask or accepted)
    ) as workspace:
        if arguments.ask:
            stages = workspace.goal_stages().ask_splits(arguments.model, arguments.limit)
            run_stages(workspace, stages)
        goals = workspace.goals
        proposals = {proposal.group_id: proposal for proposal in goals.split_proposals()}
        for group in accepted:
            if group not in proposals:
                raise UsageError(
                    f"{group} is not proposed for splitting.",
                    f"These are: {', '.join(proposals) or 'none'}.",
                )
        for group in accepted:
            goals.split(group, proposals[group].parts)
            narrate(f"Split {group}; `u` in the goals undoes it.")
    left = [proposal for group, proposal in proposals.items() if group not in accepted]
    rows = [
        {key: value for key, value in asdict(proposal).items() if key != "parts"}
        | {"sizes": [len(part) for part in proposal.parts]}
        for proposal in proposals.values()
    ]
    return Result(_split_lines(left), {"proposals": rows, "split": accepted})


def _split_lines(proposals: Sequence[SplitProposal]) -> list[str]:
    if not proposals:
        return ["No group seems to hold several goals."]
    return cell_lines(
        [
            ("group", "text"), ("label", "text"), ("parts", "text"), ("apart", "share"), ("one goal", "share"),
            ("words of the parts", "text"),
        ],
        [
            (
                one.group_id, one_line(one.label, LONGEST), " + ".join(f"{len(part):,}" for part in one.parts),
                one.apart, one.same, one_line(" | ".join(" ".join(words) for words in one.words), 2 * LONGEST),
            )
            for one in proposals
        ],
    )  # fmt: skip
