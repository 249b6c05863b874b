"""`workbench demo`: sample conversations, and `workbench open` on them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from engine.base.number_format import duration
from engine.completeness.scoring_request import ScoringRequest
from engine.jobs.contract import Stage
from engine.opener.demo_check import check_demo
from engine.opener.import_stages import import_stages
from engine.opener.open_project import OpenProject
from engine.simulate.demo.samples import sample_conversations, write_jsonl
from engine.trees.options import Transform, TreeOptions
from engine.trees.records import STEP_STOP, TreeRequest
from workbench.arguments import argument, number, switch, takes, whole_from_zero
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.commands import first_look
from workbench.commands.first_look import show_rest
from workbench.commands.summaries import counts_json, headline
from workbench.narration import print_result, run_stages
from workbench.surroundings import on_terminal

FOLDER = "workbench-demo"
"""Folder of the project where none is named."""

CONVERSATIONS = 300
"""Two months of a support desk: enough for goals, their changes, and what goes with failure."""

MIN_CHECKED = 100
"""Fewest conversations for which the demo says how right it is."""

SEED = 4
"""Seed of the samples."""
PROJECT = "demo.wb"
"""Name of the project in the folder."""

TREE = TreeRequest(
    TreeOptions(alpha=0.02, max_tokens=48, stop=(STEP_STOP,), transform=Transform(temperature=0.5)),
    limit=1,
)
"""One tree of the last answer, in a few seconds. Half the temperature keeps to what is likely, so that the tree shows
between which answers the model wavers."""


@takes(
    argument("dir", nargs="?", default=FOLDER, help="folder for the project"),
    switch("--headless", "do not open the terminal screens"),
    number("--count", "conversations", CONVERSATIONS),
    argument("--seed", type=whole_from_zero, default=SEED, help="seed of the samples"),
    switch("--samples-only", "import the samples and run nothing"),
)
def demo(arguments: argparse.Namespace) -> CommandResult | int:
    """Writes sample conversations, takes a first look at them and says how right it is; opens the screens.

    Raises:
        WorkbenchError: A stage failed; what was done is kept.
        Cancelled: It was cancelled from the keyboard; what was done is kept.
    """
    folder = Path(arguments.dir)
    if not (arguments.headless or arguments.json or arguments.samples_only) and on_terminal():
        return show_demo(folder, arguments.count, arguments.seed)
    samples, path = _samples(folder, arguments.count, arguments.seed)
    if arguments.samples_only:
        result = _import_only(samples, path)
        if not (arguments.headless or arguments.json) and on_terminal():
            print_result(result, json=False)
            show_rest(path, first_look.Looked(result.code))
            return result.code
        return result
    check = check_demo if arguments.count >= MIN_CHECKED else None
    looked = first_look.first_look(
        [samples], path, as_json=arguments.json, minutes=0, check=check, further=_tree
    )
    return looked.code


def show_demo(
    folder: Path, count: int = CONVERSATIONS, seed: int = SEED, *, theme: str | None = None
) -> int:
    """Takes the first look at the samples and opens the screens on them; see `demo`."""
    samples, path = _samples(folder, count, seed)
    looked = first_look.first_look(
        [samples],
        path,
        as_json=False,
        screens=True,
        further=_further,
        check=check_demo if count >= MIN_CHECKED else None,
    )
    show_rest(path, looked, theme)
    return looked.code


def _samples(folder: Path, count: int, seed: int) -> tuple[Path, Path]:
    """Writes the samples into the folder; returns their file, and that of the project beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = folder / "samples.jsonl"
    write_jsonl(sample_conversations(count, seed), samples)
    return samples, folder / PROJECT


def _tree(workspace: OpenProject) -> Sequence[Stage]:
    """Returns the stage that grows a response tree; finding the fastest format for the model would take longer."""
    return workspace.trees.stages(TREE)[-1:]


def _further(workspace: OpenProject) -> Sequence[Stage]:
    """Returns the stages of the tree and of remaining tasks, which the demo has beside what `workbench open` does."""
    remaining = workspace.scoring_runs.make_run(ScoringRequest()).stages[-1]
    return [*_tree(workspace), remaining]


def _import_only(samples: Path, path: Path) -> CommandResult:
    """Makes the project of the samples without running anything on it."""
    start = time.monotonic()
    with OpenProject(path, create=True) as workspace:
        run_stages(workspace, import_stages(workspace.project, [str(samples)]))
        rows = workspace.conversations
        counts, rule = rows.counts(), rows.rule()
    seconds = time.monotonic() - start
    document = {"project": str(path), "seconds": round(seconds, 1), **counts_json(counts, rule)}
    return CommandResult(
        [headline(counts, rule)],
        document,
        EXIT_INCOMPLETE if counts.quarantined else EXIT_DONE,
        notes=[f"Built {path} in {duration(seconds)}. `workbench {path}` opens it."],
    )
