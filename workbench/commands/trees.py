"""`workbench run trees`."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import get_args

from engine.services.run_requests import TreeRunRequest
from engine.services.trees.service import STEP_STOP
from engine.services.workspace import Workspace
from engine.store import trees
from engine.trees.places import At
from engine.trees.transform import Transform
from engine.trees.tree import TreeOptions
from workbench.commands.filtering import asked_filter
from workbench.commands.narration import run_stages, say, show, tell
from workbench.commands.options import above_zero, add_filter, add_model, positive, share
from workbench.exits import DONE, WITH_GAPS


def growth_options(parser: argparse.ArgumentParser) -> None:
    """Declares how trees grow, for `tree` and `run trees`."""
    add_model(parser)
    parser.add_argument(
        "--alpha", type=share, default=0.01, help="least probability (default: 0.01)"
    )
    parser.add_argument(
        "--mode",
        choices=["path", "token"],
        default="path",
        help="alpha bounds the path, or each branching token as in the paper (default: path)",
    )
    parser.add_argument(
        "--at",
        choices=get_args(At),
        default="last-answer",
        help="where trees grow (default: last-answer)",
    )
    parser.add_argument("--max-tokens", type=positive, default=64, help="longest answer")
    parser.add_argument("--nodes", type=positive, help="stop a tree after reading so many nodes")
    parser.add_argument("--line", action="store_true", help="an answer ends at a line break")
    parser.add_argument(
        "--widest",
        type=positive,
        default=0,
        metavar="K",
        help="follow the K best tokens of a place only; the rest counts as pruned (default: all)",
    )
    sampler = parser.add_argument_group("the sampler whose answers are explored (default: none)")
    sampler.add_argument("--temperature", type=above_zero, default=1.0, metavar="T")
    sampler.add_argument("--top-k", type=positive, default=0, metavar="K")
    sampler.add_argument("--top-p", type=share, default=1.0, metavar="P")
    sampler.add_argument("--min-p", type=share, default=0.0, metavar="P")


def growth_from(arguments: argparse.Namespace) -> TreeOptions:
    """How trees grow, as asked on the command line."""
    return TreeOptions(
        alpha=arguments.alpha,
        mode=arguments.mode,
        max_tokens=arguments.max_tokens,
        stop=("\n",) if arguments.line else (STEP_STOP,),
        transform=Transform(
            arguments.temperature, arguments.top_k, arguments.top_p, arguments.min_p
        ),
        widest=arguments.widest,
    )


def run_trees_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_trees`."""
    parser.add_argument("project")
    growth_options(parser)
    add_filter(parser)
    parser.add_argument("--limit", type=positive, help="only the first so many conversations")
    parser.add_argument("--context", type=positive, help="longest log in tokens")


def run_trees(arguments: argparse.Namespace) -> int:
    """Grows the trees that are not there yet."""
    options = TreeRunRequest(
        growth_from(arguments),
        arguments.at,
        arguments.model,
        Path(arguments.adapter) if arguments.adapter else None,
        asked_filter(arguments.filter),
        arguments.limit,
        arguments.nodes,
        arguments.context,
    )
    with Workspace(Path(arguments.project)) as workspace:
        run_stages(workspace, workspace.tree_stages(options))
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
        show(figures)
    else:
        say(f"{len(grown):,} trees, median of {figures['median_leaves']} leaves")
    if missing:
        tell(f"{missing:,} conversations have no tree; `export trees` says why.")
        return WITH_GAPS
    return DONE
