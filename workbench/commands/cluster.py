"""`workbench run cluster`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.services.goals.run_stages import ABOUT_KEY, ClusterOptions
from engine.services.workspace import Workspace
from engine.store import settings, vectors
from engine.text import one_line
from engine.views.goal_inputs import stored_clustering
from workbench.commands.filtering import asked_filter
from workbench.commands.narration import run_stages, say, show, tell
from workbench.exits import DONE, WITH_GAPS

MOST_LINES = 40
"""Groups that are printed for people; `--json` and `export clusters` have all."""


def cluster_options(arguments: argparse.Namespace) -> ClusterOptions:
    """How to cluster, as asked on the command line."""
    return ClusterOptions(
        text=arguments.text,
        embedder=arguments.embedder,
        k=arguments.k1,
        seed=arguments.seed,
        decide=arguments.decide,
        threshold=arguments.threshold,
        ask=arguments.ask,
        largest=arguments.largest,
        model=arguments.model,
        labels=not arguments.no_labels,
        near=not arguments.any_others,
        filter=asked_filter(arguments.filter),
        limit=arguments.limit,
    )


def run_cluster(arguments: argparse.Namespace) -> int:
    """Clusters goals: texts, vectors, clusters, labels, and what is to be decided."""
    options = cluster_options(arguments)
    with Workspace(Path(arguments.project)) as workspace:
        about = arguments.about
        if about is not None:
            workspace.project.write(lambda conn: settings.put(conn, ABOUT_KEY, about))
        run_stages(workspace, workspace.goal_stages().cluster(options))
        found = clustering_json(workspace)
    if arguments.json:
        show(found)
    else:
        for group in found["groups"][:MOST_LINES]:
            say(f"{group['size']:>8,}  {one_line(group['label'])}")
        if len(found["groups"]) > MOST_LINES:
            say(f"          and {len(found['groups']) - MOST_LINES:,} smaller ones")
    if found["without"]:
        tell(
            f"Without a vector, and in no group: {found['without']:,}; `export assignments` says why."
        )
        return WITH_GAPS
    return DONE


def clustering_json(workspace: Workspace) -> dict[str, Any]:
    """The clustering that is shown with its groups as they stand, largest first."""
    with workspace.project.reading() as conn:
        stored = stored_clustering(conn, None)
        without = len(vectors.reasons(conn, stored.vector_config))
    desks = workspace.goal_stages().desks
    desk = desks.desk(stored.id)
    groups = sorted((desk.groups[key] for key in desk.current), key=lambda g: (-g.size, g.id))
    decided: dict[str, int] = {}
    for decision in desks.standing(stored.id):
        kind = f"{decision.kind} by {decision.author}"
        decided[kind] = decided.get(kind, 0) + 1
    return {
        "clustering": stored.id,
        "text": stored.text,
        "embedder": stored.embedder,
        "k": stored.k,
        "seed": stored.seed,
        "conversations": stored.conversations,
        "outliers": len(desk.outliers),
        "without": without,
        "decisions": decided,
        "groups": [
            {
                "id": group.id,
                "label": group.label,
                "description": group.description,
                "size": group.size,
                "share": group.size / stored.conversations,
            }
            for group in groups
        ],
    }
