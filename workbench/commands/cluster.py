"""`workbench run cluster`: clusters the goals of users."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

from engine.base.text import one_line
from engine.goals.records import (
    DEFAULT_TEXT,
    ClusteringRequest,
    Decide,
    GoalText,
)
from engine.goals.service.runs import ABOUT_KEY
from engine.goals.tables import vectors
from engine.goals.tables.clusterings import stored_clustering
from engine.opener.open_project import OpenProject
from engine.project import settings
from workbench.commands.narration import narrate, print_json, print_text, run_stages
from workbench.commands.options import add_filter, positive, read_filter, share
from workbench.exits import DONE, WITH_GAPS

MOST_LINES = 40
"""Groups that are printed for people; `--json` and `export clusters` have all."""


def request_from(arguments: argparse.Namespace) -> ClusteringRequest:
    """The request that the arguments make."""
    return ClusteringRequest(
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
        filter=read_filter(arguments.filter),
        limit=arguments.limit,
    )


def run_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_cluster`."""
    parser.add_argument("project")
    parser.add_argument(
        "--text",
        choices=get_args(GoalText),
        default=DEFAULT_TEXT,
        help="what stands for a goal: what the user wrote, what both sides wrote, or a model's summary"
        f" (default: {DEFAULT_TEXT})",
    )
    parser.add_argument("--about", help="paragraph on the application, for the summaries; is kept")
    parser.add_argument(
        "--embedder",
        default="tfidf",
        metavar="E",
        help="what makes vectors: tfidf, minilm, mixed (both), a GGUF embedding model, or a URL (default: tfidf)",
    )
    parser.add_argument(
        "--k1",
        type=positive,
        metavar="K",
        help="clusters to begin with, an overestimate (default: proposed from the data)",
    )
    parser.add_argument(
        "--largest", type=positive, metavar="N", help="split clusters of more than N conversations"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of everything random (default: 0)"
    )
    parser.add_argument(
        "--model",
        help="name or path of a model (default: what `models use` chose, else the built-in one)",
    )
    parser.add_argument(
        "--decide",
        choices=get_args(Decide),
        default="ask",
        help="who decides on merges: a person at the merge desk, the merge probability, the model's answer"
        " alone as in Soroka et al., or nobody (default: ask)",
    )
    parser.add_argument(
        "--threshold",
        type=share,
        default=0.5,
        metavar="P",
        help="merge probability from which `--decide auto` merges (default: 0.5)",
    )
    parser.add_argument(
        "--ask",
        type=positive,
        default=24,
        metavar="N",
        help="pairs that the model is asked about for `--decide ask` (default: 24);"
        " the merge desk asks about more",
    )
    parser.add_argument("--no-labels", action="store_true", help="ask no model")
    parser.add_argument(
        "--any-others",
        action="store_true",
        help="show the model any texts outside a cluster, not those nearest to it",
    )
    add_filter(parser)
    parser.add_argument("--limit", type=positive, help="only the first N conversations")


def run_cluster(arguments: argparse.Namespace) -> int:
    """Clusters goals: texts, vectors, clusters, labels, and what is to be decided."""
    options = request_from(arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        about = arguments.about
        if about is not None:
            workspace.project.write(lambda conn: settings.put(conn, ABOUT_KEY, about))
        run_stages(workspace, workspace.goal_stages().cluster(options))
        found = clustering_json(workspace)
    if arguments.json:
        print_json(found)
    else:
        for group in found["groups"][:MOST_LINES]:
            print_text(f"{group['size']:>8,}  {one_line(group['label'])}")
        if len(found["groups"]) > MOST_LINES:
            print_text(f"          and {len(found['groups']) - MOST_LINES:,} smaller ones")
    if found["without"]:
        narrate(
            f"Without a vector, and in no group: {found['without']:,}; `export assignments` says why."
        )
        return WITH_GAPS
    return DONE


def clustering_json(workspace: OpenProject) -> dict[str, Any]:
    """The shown clustering with its groups after all decisions, largest first."""
    with workspace.project.reading() as conn:
        stored = stored_clustering(conn, None)
        without = len(vectors.reasons(conn, stored.vector_config))
    decision_log = workspace.merge_queue_cache.decision_log
    state = decision_log.state(stored.id)
    decided: dict[str, int] = {}
    for decision in decision_log.active(stored.id):
        kind = f"{decision.kind} by {decision.author}"
        decided[kind] = decided.get(kind, 0) + 1
    return {
        "clustering": stored.id,
        "text": stored.text,
        "embedder": stored.embedder,
        "k": stored.k,
        "seed": stored.seed,
        "conversations": stored.conversations,
        "outliers": len(state.outliers),
        "without": without,
        "decisions": decided,
        "groups": [
            {
                "id": group.id,
                "label": group.label,
                "description": group.description,
                "size": group.size,
                "share": group.share,
            }
            for group in workspace.goals.groups()
        ],
    }
