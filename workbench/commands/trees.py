"""`workbench run trees`: grows the response trees of a project."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from pathlib import Path
from typing import get_args

from engine.base.number_format import counted
from engine.completeness.records.scoring_request import (
    STEP_STOP,
)
from engine.opener.open_project import OpenProject
from engine.trees import tables as trees
from engine.trees.places import At
from engine.trees.records import (
    TreeRequest,
)
from engine.trees.tree import ALPHA_HELP, Growth, Transform, TreeOptions
from workbench.commands.narration import narrate, print_json, print_text, run_stages
from workbench.commands.options import (
    above_zero,
    add_filter,
    add_model,
    positive,
    read_filter,
    share,
)
from workbench.exits import DONE, WITH_GAPS


def growth_options(parser: argparse.ArgumentParser) -> None:
    """Declares how trees grow, for `tree` and `run trees`."""
    default = TreeRequest()
    tree = default.tree
    add_model(parser)
    parser.add_argument(
        "--alpha", type=share, default=tree.alpha, help=f"{ALPHA_HELP} (default: {tree.alpha})"
    )
    parser.add_argument(
        "--mode",
        choices=get_args(Growth),
        default=tree.mode,
        help=f"alpha bounds the path, or each branching token as in Soroka et al. (default: {tree.mode})",
    )
    parser.add_argument(
        "--at",
        choices=get_args(At),
        default=default.at,
        help=f"where trees grow (default: {default.at})",
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help="as in appendix C.2.2 of Soroka et al.: --mode token --at end, with the adapter that scores completeness"
        " unless --adapter names one",
    )
    parser.add_argument(
        "--max-tokens",
        type=positive,
        default=tree.max_tokens,
        help=f"longest answer (default: {tree.max_tokens})",
    )
    parser.add_argument("--nodes", type=positive, help="stop a tree after reading this many nodes")
    parser.add_argument("--line", action="store_true", help="an answer ends at a line break")
    parser.add_argument(
        "--widest",
        type=positive,
        default=tree.widest,
        metavar="K",
        help="follow only the K best tokens after a node; the others count as pruned (default: all)",
    )
    sampler = tree.transform
    group = parser.add_argument_group("the sampler whose answers are explored (default: none)")
    group.add_argument(
        "--temperature", type=above_zero, default=sampler.temperature, metavar="T",
        help="divide the logits by this",
    )  # fmt: skip
    group.add_argument(
        "--top-k", type=positive, default=sampler.top_k, metavar="K",
        help="only the K most probable tokens",
    )  # fmt: skip
    group.add_argument(
        "--top-p", type=share, default=sampler.top_p, metavar="P",
        help="only the most probable tokens that reach this share together",
    )  # fmt: skip
    group.add_argument(
        "--min-p", type=share, default=sampler.min_p, metavar="P",
        help="only tokens with at least this share of the probability of the best",
    )  # fmt: skip


def request_from(arguments: argparse.Namespace) -> TreeRequest:
    """The request of a command that grows trees."""
    paper = arguments.paper
    return TreeRequest(
        TreeOptions(
            alpha=arguments.alpha,
            mode="token" if paper else arguments.mode,
            max_tokens=arguments.max_tokens,
            stop=("\n",) if arguments.line else (STEP_STOP,),
            transform=Transform(
                arguments.temperature, arguments.top_k, arguments.top_p, arguments.min_p
            ),
            widest=arguments.widest,
        ),
        "end" if paper else arguments.at,
        arguments.model,
        arguments.adapter or None,
        nodes=arguments.nodes,
        tuned=paper,
    )


def run_trees_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_trees`."""
    parser.add_argument("project")
    growth_options(parser)
    add_filter(parser)
    parser.add_argument("--limit", type=positive, help="only the first N conversations")
    parser.add_argument("--context", type=positive, help="longest log in tokens")


def run_trees(arguments: argparse.Namespace) -> int:
    """Grows the trees that the project does not have yet."""
    request = replace(
        request_from(arguments),
        filter=read_filter(arguments.filter),
        limit=arguments.limit,
        context=arguments.context,
    )
    with OpenProject(Path(arguments.project)) as workspace:
        run_stages(workspace, workspace.tree_runs.stages(request))
        with workspace.project.reading() as conn:
            rows = trees.measures(conn)
    grown = [row for row in rows if row.reason is None]
    missing = len(rows) - len(grown)
    figures = {
        "trees": len(grown),
        "without": missing,
        "median_leaves": statistics.median(row.leaves for row in grown) if grown else None,
        "nodes": sum(row.nodes for row in grown),
    }
    if arguments.json:
        print_json(figures)
    else:
        print_text(f"{counted(len(grown), 'tree')}, median of {figures['median_leaves']} leaves")
    if missing:
        narrate(f"Without a tree: {counted(missing, 'conversation')}; `export trees` says why.")
        return WITH_GAPS
    return DONE
