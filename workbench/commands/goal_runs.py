"""`workbench run cluster`, `paper-goals`, `assign`, `stability` and `splits`: runs on what users wanted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.base.request_options import options_of
from engine.base.text import one_line
from engine.goals.records import SplitProposal, theme_of
from engine.goals.requests import ClusteringRequest
from engine.goals.service.results import (
    assignment_result,
    clustering_result,
    gold_goals,
    paper_result,
    stability_result,
    store_paper_result,
)
from engine.goals.service.runs import ABOUT_KEY, MODEL_TASKS
from engine.goals.stages.as_paper import PaperMeasurements, PaperStage
from engine.opener.open_project import OpenProject
from engine.project import settings
from workbench.arguments import (
    PROJECT,
    argument,
    number,
    positive,
    read_request,
    request_arguments,
    several,
    share,
    switch,
    takes,
)
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.narration import narrate, run_stages
from workbench.text_tables import cell_lines, cost_lines

MAX_GROUP_LINES = 40
"""Groups that are printed for people; `--json` and `export clusters` have all."""

MAX_LABEL_CHARACTERS = 40
"""Most characters that are printed of the label of a group."""

ABOUT = argument("--about", help="paragraph on the application, for the summaries; is kept")
"""The option --about, of all commands that cluster."""


@takes(
    PROJECT,
    ABOUT,
    *request_arguments(ClusteringRequest),
    switch("--estimate", "estimate the cost and stop"),
)
def run_cluster(arguments: argparse.Namespace) -> CommandResult:
    """Clusters goals: texts, vectors, clusters, labels, and what is to be decided."""
    request = read_request(ClusteringRequest, arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        keep_about(workspace, arguments.about)
        if arguments.estimate:
            estimate = workspace.goal_stages().estimate(request)
            asked = f": {', '.join(estimate.asked)}" if estimate.asked else ""
            line = f"{counted(estimate.items, 'conversation')} with {estimate.model}{asked}"
            estimated = {MODEL_TASKS[cost.stage] for cost in estimate.costs}
            missing = [task for task in estimate.asked if task not in estimated]
            later = f"Not estimated before there are groups of such texts: {', '.join(missing)}."
            return CommandResult(
                [line, *cost_lines(estimate.costs)],
                asdict(estimate),
                notes=[later] if estimate.costs and missing else [],
            )
        run_stages(workspace, workspace.goal_stages().cluster_stages(request))
        clustering = shown_clustering(workspace)
    groups, without = clustering["groups"], clustering["without"]
    lines = [
        f"{group['size']:>8,}  {one_line(group['label'])}" for group in groups[:MAX_GROUP_LINES]
    ]
    if len(groups) > MAX_GROUP_LINES:
        lines.append(f"          and {len(groups) - MAX_GROUP_LINES:,} smaller ones")
    notes = [f"Without a vector, and in no group: {without:,}; `export assignments` says why."]
    if theme := theme_of(request.text):
        notes = [
            f"Nothing explains the other {without:,} as “{theme}”. These themes are shown in place of goals;"
            " `goals clusterings --show N` shows goals again."
        ]
    return CommandResult(
        lines,
        clustering,
        EXIT_INCOMPLETE if without and not theme else EXIT_DONE,
        notes=notes if without else [],
    )


def keep_about(workspace: OpenProject, about: str | None) -> None:
    """Stores the paragraph on the application, if one is given."""
    if about is not None:
        workspace.project.write(lambda conn: settings.put(conn, ABOUT_KEY, about))


def shown_clustering(workspace: OpenProject) -> dict[str, Any]:
    """Returns the clustering that is shown with its groups after all decisions, largest first, as JSON values."""
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
    argument("--seed", type=int, default=0, help="seed of what is held out"),
)
def run_assign(arguments: argparse.Namespace) -> CommandResult:
    """Assigns the conversations that were imported after the clustering. With --holdout clusters a part of them
    instead, and measures how near the others are to its clusters."""
    with OpenProject(Path(arguments.project)) as workspace:
        if arguments.holdout is not None:
            stage = workspace.goal_stages().hold_out_stage(arguments.holdout, arguments.seed)
            run_stages(workspace, [stage])
            return CommandResult([stage.summary()], stage.result and asdict(stage.result))
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


@takes(
    PROJECT,
    number("--seeds", "number of other seeds", 5),
    number("--bootstraps", "number of bootstrap samples", 20),
)
def run_stability(arguments: argparse.Namespace) -> CommandResult:
    """Clusters again with other seeds and with bootstrap samples; says how much of the clustering comes again."""
    with OpenProject(Path(arguments.project)) as workspace:
        stage = workspace.goal_stages().stability_stage(arguments.seeds, arguments.bootstraps)
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


@takes(
    PROJECT,
    switch("--ask", "ask a model first whether the parts are one goal"),
    argument("--model", metavar="M", help="the model that is asked"),
    number("--limit", "ask about at most N groups"),
    several("--accept", "split this group as proposed", "GROUP"),
)
def run_splits(arguments: argparse.Namespace) -> CommandResult:
    """Lists the groups whose two parts lie about as far apart as groups do, and splits those that are accepted.

    Raises:
        UsageError: Nothing was clustered yet, or a group is not proposed.
    """
    accepted: list[str] = arguments.accept
    with OpenProject(
        Path(arguments.project), read_only=not (arguments.ask or accepted)
    ) as workspace:
        if arguments.ask:
            stages = workspace.goal_stages().ask_split_stages(arguments.model, arguments.limit)
            run_stages(workspace, stages)
        review = workspace.merge_review
        proposals = {proposal.group_id: proposal for proposal in review.split_proposals()}
        for group in accepted:
            if group not in proposals:
                raise UsageError(
                    f"{group} is not proposed for splitting.",
                    f"These are: {', '.join(proposals) or 'none'}.",
                )
        for group in accepted:
            review.split(group, proposals[group].parts)
            narrate(f"Split {group}; `u` in the goals undoes it.")
    open_proposals = [proposal for group, proposal in proposals.items() if group not in accepted]
    rows = [
        {key: value for key, value in asdict(proposal).items() if key != "parts"}
        | {"sizes": [len(part) for part in proposal.parts]}
        for proposal in proposals.values()
    ]
    return CommandResult(_split_lines(open_proposals), {"proposals": rows, "split": accepted})


def _split_lines(proposals: Sequence[SplitProposal]) -> list[str]:
    """Returns the proposed splits as a table."""
    if not proposals:
        return ["No group seems to hold several goals."]
    return cell_lines(
        [
            ("group", "text"), ("label", "text"), ("parts", "text"), ("apart", "share"), ("one goal", "share"),
            ("words of the parts", "text"),
        ],
        [
            (
                proposal.group_id, one_line(proposal.label, MAX_LABEL_CHARACTERS),
                " + ".join(f"{len(part):,}" for part in proposal.parts), proposal.apart, proposal.same,
                one_line(" | ".join(" ".join(words) for words in proposal.words), 2 * MAX_LABEL_CHARACTERS),
            )
            for proposal in proposals
        ],
    )  # fmt: skip


# Goals as Soroka et al. find them

MAX_GROUPS_PER_RUN = 10
"""Groups of each run that are printed for people, as in Figure 4; `--json` has all."""

_K1_HELP = options_of(ClusteringRequest)["k"].help
"""Help of --k1, which is the `k` of a clustering run: the number of its first groups."""


@takes(
    PROJECT,
    argument("--k1", type=positive, required=True, metavar="K", help=_K1_HELP),
    ABOUT,
    *request_arguments(ClusteringRequest, ("embedder", "seed", "model")),
    *request_arguments(PaperMeasurements, ("hold_out", "seeds", "bootstraps", "orders")),
    *request_arguments(ClusteringRequest, ("filter", "limit")),
)
def run_paper_goals(arguments: argparse.Namespace) -> CommandResult:
    """Finds goals by Algorithm 1 of Soroka et al. with the paper's prompts and free replies, shows them as the
    project's clustering, and says what is measured of it."""
    request = read_request(ClusteringRequest, arguments, text="summary", k=arguments.k1)
    measurements = read_request(PaperMeasurements, arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        keep_about(workspace, arguments.about)
        stages = workspace.goal_stages().paper_stages(request, measurements)
        run_stages(workspace, stages)
        stage = stages[-1]
        assert isinstance(stage, PaperStage)
        assert stage.result is not None
        report = paper_result(stage.result, gold_goals(workspace.project))
        store_paper_result(workspace.project, report)
    return CommandResult(_paper_lines(report), report)


def _paper_lines(report: dict[str, Any]) -> list[str]:
    """Returns the clusterings, Figure 4, Table 4 and the baseline as text."""
    lines = _run_lines("The clustering", report["clustering"])
    figure, table, baseline = report["figure_4"], report["table_4"], report["llm_only"]
    for name in ("seeds", "bootstraps"):
        if figure[name]:
            lines += ["", f"Figure 4, {name}: {_ari_text(figure[f'ari_{name}_mean'])}"]
            for number, run in enumerate(figure[name], 1):
                lines += _run_lines(f"{name[:-1]} {number}", run)
    if table:
        lines += [
            "",
            "Table 4           clusters  rows  cosine  Euclidean",
            _distance_line("train", table["clusters_train"], table["train"]),
            _distance_line("test", None, table["test"]),
            _distance_line("full", table["clusters_full"], table["full"]),
        ]
        if table["without_vector"]:
            lines.append(
                f"  {table['without_vector']:,} have no word that the training part has, and are not in it"
            )
    if baseline["orders"]:
        several = len(baseline["orders"]) > 1
        ari = f": {_ari_text(baseline['ari_orders_mean'])}" if several else ""
        lines += ["", f"LLM only{ari}"]
        if baseline["shortened"]:
            lines.append(f"  {baseline['shortened']:,} logs did not fit the context and were shortened")  # fmt: skip
        for number, order in enumerate(baseline["orders"], 1):
            lines.append(
                f"  order {number}: {order['categories']:,} categories, {order['several']:,} with several, "
                f"{order['without']:,} with none{_gold_text(order)}"
            )
            lines += [f"{count:>8,}  {one_line(name)}" for name, count in order["most_used"]]
    return lines


def _run_lines(title: str, run: dict[str, Any]) -> list[str]:
    """Returns one run: its merges and its largest groups."""
    head = (
        f"{title}: {run['clusters_before']} clusters merged to {run['clusters']}; {run['asked']} questions,"
        f" {run['merged']} yes, {run['unread']} replies unread,"
        f" {run['undescribed']} without a description{_gold_text(run)}"
    )
    groups = run["groups"]
    lines = [f"{g['size']:>8,}  {one_line(g['description'])}" for g in groups[:MAX_GROUPS_PER_RUN]]
    smaller_groups = len(groups) - MAX_GROUPS_PER_RUN
    return [
        head,
        *lines,
        *([f"          and {smaller_groups:,} smaller ones"] if smaller_groups > 0 else []),
    ]


def _gold_text(run: dict[str, Any]) -> str:
    """Returns how well a run agrees with the known goals; empty without any."""
    against = run["against_gold"]
    if against is None:
        return ""
    figures = [
        f"{name} {interval['value']:.2f} ({interval['low']:.2f} to {interval['high']:.2f})"
        for name, interval in (("V", against["v_measure"]), ("ARI", against["ari"]))
    ]
    return f"; against gold {', '.join(figures)}, {against['n']:,} conversations"


def _ari_text(value: float | None) -> str:
    """Returns how well the runs agree with one another."""
    return "no two runs can be compared" if value is None else f"mean ARI between runs {value:.2f}"


def _distance_line(name: str, clusters: int | None, distances: dict[str, Any]) -> str:
    """Returns a line of Table 4; without distances where a part has no rows."""
    count = "" if clusters is None else f"{clusters:,}"
    if not distances["rows"]:
        return f"  {name:<16}{count:>8}  {0:>4}"
    cosine, euclidean = distances["cosine"], distances["euclidean"]
    return f"  {name:<16}{count:>8}  {distances['rows']:>4,}  {cosine:>6.3f}  {euclidean:>9.3f}"
