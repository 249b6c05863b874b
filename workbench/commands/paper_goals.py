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
from engine.goals.service.runs import ABOUT_KEY
from engine.goals.stages.as_paper import PaperStage, Wanted
from engine.opener.open_project import OpenProject
from engine.project import settings
from workbench.commands.narration import print_json, print_text, run_stages
from workbench.commands.options import add_filter, positive, read_filter, share
from workbench.exits import DONE

MOST_GROUPS = 10
"""Groups of each run that are printed for people, as in Figure 4; `--json` has all."""


def run_paper_goals_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_paper_goals`."""
    parser.add_argument("project")
    parser.add_argument(
        "--k1", type=positive, required=True, metavar="K", help="clusters to begin with, an overestimate"
    )  # fmt: skip
    parser.add_argument("--about", help="paragraph on the application, for the summaries; is kept")
    parser.add_argument(
        "--embedder", default="tfidf", metavar="E",
        help="what makes vectors: tfidf, minilm, mixed (both), a GGUF embedding model, or a URL (default: tfidf)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of everything random (default: 0)")  # fmt: skip
    parser.add_argument("--model", help="name or path of a model (default: the project's)")
    parser.add_argument(
        "--hold-out", type=share, metavar="SHARE",
        help="Table 4: cluster, describe and merge without this share, and assign it (the paper: 0.5)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=positive, default=0, metavar="N",
        help="Figure 4: N more runs of the whole algorithm with other seeds",
    )  # fmt: skip
    parser.add_argument(
        "--bootstraps", type=positive, default=0, metavar="N",
        help="N more runs on conversations drawn with replacement",
    )  # fmt: skip
    parser.add_argument(
        "--llm-only", type=positive, default=0, metavar="ORDERS",
        help="the baseline of appendix C.1: the model labels one whole log after another, in so many shuffled orders",
    )  # fmt: skip
    add_filter(parser)
    parser.add_argument("--limit", type=positive, help="only the first N conversations")


def run_paper_goals(arguments: argparse.Namespace) -> int:
    """Finds goals by Algorithm 1 of Soroka et al. with the paper's prompts and free replies, shows them as the
    project's clustering, and prints what is measured of it."""
    request = ClusteringRequest(
        text="summary",
        embedder=arguments.embedder,
        k=arguments.k1,
        seed=arguments.seed,
        model=arguments.model,
        filter=read_filter(arguments.filter),
        limit=arguments.limit,
    )
    wanted = Wanted(arguments.seeds, arguments.bootstraps, arguments.hold_out, arguments.llm_only)
    with OpenProject(Path(arguments.project)) as workspace:
        about = arguments.about
        if about is not None:
            workspace.project.write(lambda conn: settings.put(conn, ABOUT_KEY, about))
        stages = workspace.goal_stages().as_paper(request, wanted)
        run_stages(workspace, stages)
        stage = stages[-1]
        assert isinstance(stage, PaperStage)
        assert stage.result is not None
        found = as_json(stage.result, gold_goals(workspace.project))
        keep(workspace.project, found)
    if arguments.json:
        print_json(found)
    else:
        for line in _lines(found):
            print_text(line)
    return DONE


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
