"""`workbench run stability`: measures how stable the clusters are."""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean
from typing import Any

from engine.base.text import one_line
from engine.goals.clusters.validation import DISSOLVED, STABLE
from engine.goals.stages.validation import StabilityStage
from engine.goals.tables import clusterings, measurements
from engine.goals.tables.clusterings import stored_clustering
from engine.opener.open_project import OpenProject
from workbench.commands.narration import print_json, print_text, run_stages
from workbench.commands.options import positive
from workbench.exits import DONE


def run_stability_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_stability`."""
    parser.add_argument("project")
    parser.add_argument(
        "--seeds", type=positive, default=5, help="number of other seeds (default: 5)"
    )
    parser.add_argument(
        "--bootstraps", type=positive, default=20, help="number of bootstrap samples (default: 20)"
    )


def run_stability(arguments: argparse.Namespace) -> int:
    """Clusters again with other seeds and with bootstrap samples, and prints how much of the clustering comes again."""
    with OpenProject(Path(arguments.project)) as workspace:
        stage = workspace.goal_stages().stability(arguments.seeds, arguments.bootstraps)
        run_stages(workspace, [stage])
        found = stability_json(workspace, stage)
    if arguments.json:
        print_json(found)
        return DONE
    print_text(
        f"ARI with the clustering: {_figure(found['ari_seeds'])} over {found['seeds']} seeds, "
        f"{_figure(found['ari_bootstraps'])} over {found['bootstraps']} bootstraps"
    )
    for cluster in found["clusters"]:
        mark = {True: "stable", False: "UNSTABLE", None: ""}[cluster["stable"]]
        print_text(f"{_figure(cluster['jaccard'])}  {mark:8}  {one_line(cluster['label'])}")
    return DONE


def stability_json(workspace: OpenProject, stage: StabilityStage) -> dict[str, Any]:
    """The result: adjusted Rand indices, and the mean Jaccard similarity of each cluster, least stable first."""
    with workspace.project.reading() as conn:
        stored = stored_clustering(conn, None)
        runs = measurements.agreements(conn, stored.id, stage.config_hash)
        jaccard = measurements.stability(conn, stored.id)
        clusters = clusterings.clusters(conn, stored.id)
    ari = {kind: [value for (of, _), value in runs if of == kind] for kind in ("seed", "bootstrap")}
    rows = [
        {
            "id": f"c{cluster.number}",
            "label": cluster.label or ", ".join(cluster.words[:3]),
            "size": cluster.size,
            "jaccard": jaccard.get(cluster.number),
            "stable": _stable(jaccard.get(cluster.number)),
        }
        for cluster in clusters
    ]
    rows.sort(key=lambda row: (row["jaccard"] is None, row["jaccard"] or 0.0))
    return {
        "clustering": stored.id,
        "seeds": len(ari["seed"]),
        "bootstraps": len(ari["bootstrap"]),
        "ari_seeds": mean(ari["seed"]) if ari["seed"] else None,
        "ari_bootstraps": mean(ari["bootstrap"]) if ari["bootstrap"] else None,
        "ari_each_seed": ari["seed"],
        "clusters": rows,
    }


def _stable(jaccard: float | None) -> bool | None:
    """Whether a cluster is stable; None where it is neither clearly stable nor dissolved."""
    if jaccard is None or DISSOLVED < jaccard < STABLE:
        return None
    return jaccard >= STABLE


def _figure(value: float | None) -> str:
    return "   –" if value is None else f"{value:.2f}"
