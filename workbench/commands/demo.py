"""`workbench demo`: builds a sample project and opens it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from engine.number_format import duration
from engine.services.run_requests import STEP_STOP, ClusteringRequest, ScoringRequest, TreeRequest
from engine.services.workspace import Workspace
from engine.simulate.samples import sample_conversations, write_jsonl
from engine.stages.importing import ImportStage
from engine.trees.tree import TreeOptions
from workbench.commands.narration import narrate, print_json, print_text, run_stages
from workbench.commands.options import positive
from workbench.commands.status import counts_json, headline
from workbench.exits import DONE, WITH_GAPS

TREES = TreeRequest(TreeOptions(alpha=0.02, max_tokens=32, stop=(STEP_STOP,)), limit=6)
"""Trees of one conversation of each sample domain; others are grown on request."""

SCORING = ScoringRequest()
"""By a probe; with few conversations by the adapter that comes with the program."""

CLUSTERS = ClusteringRequest(labels=False, decide="ask")
"""Named after their words. The model is asked about merges when the merge desk is opened."""


def demo_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `demo`."""
    parser.add_argument("dir", nargs="?", help="folder for the project (default: workbench-demo)")
    parser.add_argument("--headless", action="store_true", help="do not open the terminal screens")
    parser.add_argument("--count", type=positive, default=150, help="conversations (default: 150)")
    parser.add_argument("--seed", type=int, default=7, help="seed of the samples (default: 7)")
    parser.add_argument(
        "--samples-only", action="store_true", help="import the samples and run nothing"
    )


def demo(arguments: argparse.Namespace) -> int:
    """Builds a project of sample conversations, runs everything that exists on it and opens it."""
    start = time.monotonic()
    folder = Path(arguments.dir or "workbench-demo")
    folder.mkdir(parents=True, exist_ok=True)
    samples = folder / "samples.jsonl"
    write_jsonl(sample_conversations(arguments.count, arguments.seed), samples)
    path = folder / "demo.wb"
    with Workspace(path, create=True) as workspace:
        run_stages(workspace, [ImportStage(workspace.project, [str(samples)])])
        if not arguments.samples_only:
            run_stages(workspace, workspace.scoring_runs.run(SCORING).stages)
            run_stages(workspace, workspace.tree_runs.stages(TREES))
            run_stages(workspace, workspace.goal_stages().cluster(CLUSTERS))
        counts = workspace.services().conversations.counts()
    seconds = time.monotonic() - start
    if arguments.json:
        print_json({"project": str(path), "seconds": round(seconds, 1), **counts_json(counts)})
    else:
        print_text(headline(counts))
    narrate(f"Built {path} in {duration(seconds)}. `workbench {path}` opens it.")
    if not arguments.headless and sys.stdout.isatty() and sys.stdin.isatty():
        from workbench.launcher import show_project

        show_project(path)
    unscored = counts.unscored and not arguments.samples_only
    return WITH_GAPS if unscored or counts.quarantined else DONE
