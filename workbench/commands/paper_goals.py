"""`workbench run paper-goals`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.base.text import one_line
from engine.goals.records import (
    ClusteringRequest,
)
from engine.goals.service.paper_report import as_json, gold_goals, keep
from engine.goals.stages.as_paper import PaperStage, Wanted
from engine.opener.open_project import OpenProject
from workbench.arguments import (
    PROJECT,
    argument,
    positive,
    read_request,
    request_arguments,
    share,
    takes,
)
from workbench.commands.goal_runs import ABOUT, keep_about
from workbench.narration import run_stages
from workbench.result import Result

MOST_GROUPS = 10
"""Groups of each run that are printed for people, as in Figure 4; `--json` has all."""


@takes(
    PROJECT,
    argument(
        "--k1", type=positive, required=True, metavar="K", help="clusters to begin with, an overestimate"
    ),
    ABOUT,
    *request_arguments(ClusteringRequest, ("embedder", "seed", "model")),
    argument(
        "--hold-out", type=share, metavar="SHARE",
        help="Table 4: cluster, describe and merge without this share, and assign it (the paper: 0.5)",
    ),
    argument(
        "--seeds", type=positive, default=0, metavar="N",
        help="Figure 4: N more runs of the whole algorithm with other seeds",
    ),
    argument(
        "--bootstraps", type=positive, default=0, metavar="N",
        help="N more runs on conversations drawn with replacement",
    ),
    argument(
        "--llm-only", type=positive, default=0, metavar="ORDERS",
        help="the baseline of appendix C.1: the model labels one whole log after another, in so many shuffled orders",
    ),
    *request_arguments(ClusteringRequest, ("filter", "limit")),
)  # fmt: skip
def run_paper_goals(arguments: argparse.Namespace) -> Result:
    """Finds goals by Algorithm 1 of Soroka et al. with the paper's prompts and free replies, shows them as the
    project's clustering, and says what is measured of it."""
    request = read_request(ClusteringRequest, arguments, text="summary", k=arguments.k1)
    wanted = Wanted(arguments.seeds, arguments.bootstraps, arguments.hold_out, arguments.llm_only)
    with OpenProject(Path(arguments.project)) as workspace:
        keep_about(workspace, arguments.about)
        stages = workspace.goal_stages().as_paper(request, wanted)
        run_stages(workspace, stages)
        stage = stages[-1]
        assert isinstance(stage, PaperStage)
        assert stage.result is not None
        found = as_json(stage.result, gold_goals(workspace.project))
        keep(workspace.project, found)
    return Result(_lines(found), found)


def _lines(found: dict[str, Any]) -> list[str]:
    lines = _run_lines("The clustering", found["clustering"])
    figure, table, baseline = found["figure_4"], found["table_4"], found["llm_only"]
    for name in ("seeds", "bootstraps"):
        if figure[name]:
            lines += ["", f"Figure 4, {name}: {_ari(figure[f'ari_{name}_mean'])}"]
            for number, run in enumerate(figure[name], 1):
                lines += _run_lines(f"{name[:-1]} {number}", run)
    if table:
        lines += [
            "",
            "Table 4           clusters  rows  cosine  Euclidean",
            _distances("train", table["clusters_train"], table["train"]),
            _distances("test", None, table["test"]),
            _distances("full", table["clusters_full"], table["full"]),
        ]
        if table["without_vector"]:
            lines.append(
                f"  {table['without_vector']:,} have no word that the training part has, and are not in it"
            )
    if baseline["orders"]:
        several = len(baseline["orders"]) > 1
        ari = f": {_ari(baseline['ari_orders_mean'])}" if several else ""
        lines += ["", f"LLM only{ari}"]
        if baseline["shortened"]:
            lines.append(f"  {baseline['shortened']:,} logs did not fit the context and were shortened")  # fmt: skip
        for number, order in enumerate(baseline["orders"], 1):
            lines.append(
                f"  order {number}: {order['categories']:,} categories, {order['several']:,} with several, "
                f"{order['without']:,} with none{_gold(order)}"
            )
            lines += [f"{count:>8,}  {one_line(name)}" for name, count in order["most_used"]]
    return lines


def _run_lines(title: str, run: dict[str, Any]) -> list[str]:
    head = (
        f"{title}: {run['clusters_before']} clusters merged to {run['clusters']}; {run['asked']} questions,"
        f" {run['merged']} yes, {run['unread']} replies unread, {run['undescribed']} without a description{_gold(run)}"
    )
    groups = run["groups"]
    lines = [f"{g['size']:>8,}  {one_line(g['description'])}" for g in groups[:MOST_GROUPS]]
    rest = len(groups) - MOST_GROUPS
    return [head, *lines, *([f"          and {rest:,} smaller ones"] if rest > 0 else [])]


def _gold(run: dict[str, Any]) -> str:
    against = run["against_gold"]
    if against is None:
        return ""
    figures = [
        f"{name} {found['value']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
        for name, found in (("V", against["v_measure"]), ("ARI", against["ari"]))
    ]
    return f"; against gold {', '.join(figures)}, {against['n']:,} conversations"


def _ari(value: float | None) -> str:
    return "no two runs can be compared" if value is None else f"mean ARI between runs {value:.2f}"


def _distances(name: str, clusters: int | None, found: dict[str, Any]) -> str:
    count = "" if clusters is None else f"{clusters:,}"
    if not found["rows"]:
        return f"  {name:<16}{count:>8}  {0:>4}"
    return f"  {name:<16}{count:>8}  {found['rows']:>4,}  {found['cosine']:>6.3f}  {found['euclidean']:>9.3f}"
