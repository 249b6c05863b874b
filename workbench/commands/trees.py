"""`workbench run trees`."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from engine.services.run_requests import TreeRunRequest
from engine.services.trees.service import STEP_STOP
from engine.services.workspace import Workspace
from engine.store import trees
from engine.trees.transform import Transform
from engine.trees.tree import TreeOptions
from workbench.commands.filtering import asked_filter
from workbench.commands.narration import run_stages, say, show, tell
from workbench.exits import DONE, WITH_GAPS


def tree_options(arguments: argparse.Namespace) -> TreeOptions:
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


def run_trees(arguments: argparse.Namespace) -> int:
    """Grows the trees that are not there yet."""
    options = TreeRunRequest(
        tree_options(arguments),
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
