"""`workbench run assign`: assigns later conversations to the groups of a clustering."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.text import one_line
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import stored_clustering
from engine.opener.open_project import OpenProject
from workbench.commands.narration import narrate, print_json, print_text, run_stages
from workbench.commands.options import share
from workbench.exits import DONE, WITH_GAPS


def run_assign_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_assign`."""
    parser.add_argument("project")
    parser.add_argument(
        "--model", help="model that wrote the summaries, for a clustering of summaries"
    )
    parser.add_argument(
        "--holdout",
        type=share,
        metavar="S",
        help="assign nothing; cluster all but a share, like 0.5, and measure how near the held-out ones"
        " are to the clusters, as in Table 4 of Soroka et al.",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of what is held out (default: 0)")


def run_assign(arguments: argparse.Namespace) -> int:
    """Assigns the conversations that were imported after the clustering. With --holdout clusters a part of them
    instead, and
    measures how near the others are to its clusters."""
    with OpenProject(Path(arguments.project)) as workspace:
        if arguments.holdout is not None:
            return _hold_out(workspace, arguments)
        run_stages(workspace, workspace.goal_stages().assign(arguments.model))
        with workspace.project.reading() as conn:
            stored = stored_clustering(conn, None)
            found = clusterings.assignments(conn, stored.id)
        state = workspace.merge_queue_cache.decision_log.state(stored.id)
    counts: Counter[str] = Counter()
    for one in found:
        became = None if one.group is None else state.current_of(one.group)
        if became is not None:
            counts[became] += 1
    novel = len(found) - counts.total()
    several = sum(1 for one in found if one.others)
    groups: list[dict[str, Any]] = [
        {"id": key, "label": state.groups[key].label, "assigned": count}
        for key, count in counts.most_common()
    ]
    if arguments.json:
        print_json({"clustering": stored.id, "assigned": counts.total(), "novel": novel,
              "several": several, "groups": groups})  # fmt: skip
    else:
        for group in groups:
            print_text(f"{group['assigned']:>8,}  {one_line(group['label'])}")
        print_text(f"{novel:>8,}  like no group")
    if novel:
        narrate(
            f"{novel:,} conversations are like no group; cluster again when they grow in number."
        )
        return WITH_GAPS
    return DONE


def _hold_out(workspace: OpenProject, arguments: argparse.Namespace) -> int:
    stage = workspace.goal_stages().hold_out(arguments.holdout, arguments.seed)
    run_stages(workspace, [stage])
    if stage.result is not None and arguments.json:
        print_json(asdict(stage.result))
    else:
        print_text(stage.summary())
    return DONE
