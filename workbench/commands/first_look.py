"""`workbench open FILE...`: from log files to a first result in one go: import, scores, goals, what to read first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.filters import ListQuery
from engine.number_format import duration, probability
from engine.records.scores import State
from engine.services.run_requests import ClusteringRequest, ScoringRequest
from engine.services.workspace import Workspace
from engine.stages.importing import ImportStage
from engine.text import one_line
from workbench.commands.cluster import clustering_json
from workbench.commands.narration import narrate, print_json, print_text, run_stages
from workbench.commands.scores import set_lines, sets_json
from workbench.commands.status import counts_json, headline
from workbench.exits import DONE, WITH_GAPS

MOST_GOALS = 12
MOST_TO_READ = 10
SQLITE = b"SQLite format 3\x00"

SCORING = ScoringRequest(remaining=False)
"""Remaining tasks take longer than all the rest; `run complete` writes them later."""

CLUSTERS = ClusteringRequest(labels=False, decide="auto")
"""Named after their words and merged by the merge probability, so that no model is asked."""


def are_logs(paths: Sequence[Path]) -> bool:
    """Whether these are files or folders of conversations, not one project."""
    return len(paths) > 1 or paths[0].is_dir() or (paths[0].is_file() and not _is_project(paths[0]))


def _is_project(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(len(SQLITE))
    return start == SQLITE or not start


def project_for(paths: Sequence[Path]) -> Path:
    """The project that log files are read into: named after the first of them, in the folder that one is in now."""
    first = paths[0].resolve()
    name = first.name.split(".")[0] or first.name
    return Path(f"{name}.wb")


def first_look(paths: Sequence[Path], project: Path, *, as_json: bool) -> int:
    """Imports, scores and clusters, and prints the result; what is done already is not done again.

    Returns:
        The exit code: done, or done with gaps.

    Raises:
        WorkbenchError: A file cannot be read, or a stage failed; what was done is kept.
        Cancelled: It was cancelled from the keyboard; what was done is kept.
    """
    start = time.monotonic()
    with Workspace(project, create=True) as workspace:
        reading = ImportStage(workspace.project, [str(path) for path in paths])
        run_stages(workspace, [reading])
        services = workspace.services()
        run_stages(workspace, workspace.scoring_runs.run(SCORING).stages)
        run_stages(workspace, workspace.goal_stages().cluster(CLUSTERS))
        counts = services.conversations.counts()
        sets = services.score_sets.all()
        goals = clustering_json(workspace)
        lowest = services.conversations.rows(
            services.conversations.ids(ListQuery(sort="p"))[:MOST_TO_READ]
        )
    to_read = [row for row in lowest if row.state in (State.INCOMPLETE, State.BORDERLINE)]
    if as_json:
        print_json(
            {
                "project": str(project),
                "seconds": round(time.monotonic() - start, 1),
                **counts_json(counts),
                **sets_json(sets),
                "groups": goals["groups"],
                "read_first": [
                    {"name": row.external_id, "p": row.p_end_normalised, "opening": row.opening}
                    for row in to_read
                ],
            }
        )
    else:
        print_text(f"{reading.summary()}\n{headline(counts)}")
        print_text("\n".join(set_lines(sets)))
        _print_goals(goals["groups"])
        print_text("\nLeast likely to be complete, so worth reading first:")
        if not counts.scored:
            print_text("  none: no conversation is scored")
        elif not to_read:
            print_text("  none: every scored conversation looks complete")
        for row in to_read:
            print_text(
                f"  {probability(row.p_end_normalised):>5}  {one_line(row.external_id, 24)}"
                f"  {one_line(row.opening, 80)}"
            )
    narrate(f"{project} is ready, after {duration(time.monotonic() - start)}.")
    narrate(
        f"`workbench {project}` opens it; key 3 is triage, where O chooses this order, the lowest first."
    )
    return WITH_GAPS if counts.unscored or reading.quarantined else DONE


def _print_goals(groups: Sequence[dict[str, Any]]) -> None:
    print_text(f"\nWhat users wanted, {len(groups):,} groups:")
    for group in groups[:MOST_GOALS]:
        print_text(f"{group['size']:>8,}  {one_line(group['label'])}")
    if len(groups) > MOST_GOALS:
        print_text(f"          and {len(groups) - MOST_GOALS:,} smaller ones")
