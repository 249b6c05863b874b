"""`workbench simulate sharded` and `workbench simulate shards`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NameTaken
from engine.base.report_table import CellKind
from engine.base.text import one_line
from engine.opener.open_project import OpenProject
from engine.results.metrics.aptitude import Scored, aptitudes
from engine.simulate.draft import Draft
from engine.simulate.records import PlayRow
from engine.simulate.request import OPTIONS
from engine.simulate.service.result_tables import aptitude_json, aptitude_table
from engine.simulate.service.sharded import (
    KIND,
    MAKING,
    drafts_of,
    load_instructions,
    load_sources,
    making_simulation,
    replies_by_condition,
    scored,
    sharded_simulation,
    write_drafts,
    write_logs,
)
from engine.simulate.sharded.scenario import CATEGORIES, CONDITIONS, Condition, place_of
from workbench.commands.narration import Result, narrate
from workbench.commands.playing import add_request, exit_code, played, read_request
from workbench.commands.report_text import cell_lines, table_lines

LONGEST_NAME = 80


def simulate_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `simulate`."""
    parser.add_argument("project")
    parser.add_argument("instructions", help=OPTIONS["instructions"].help)
    add_request(parser, KIND)
    parser.add_argument(
        "--logs",
        type=Path,
        metavar="DIR",
        help="write the logs there, in the format of Laban et al. (2025)",
    )


def simulate(arguments: argparse.Namespace) -> int:
    """Plays instructions under conditions and prints performance, aptitude and unreliability.

    Raises:
        WorkbenchError: The instructions cannot be read, a model cannot do this, or logs cannot be written.
    """
    request = read_request(KIND, arguments)
    # Before a project is made for a file that cannot be read.
    load_instructions(request.instructions, unapproved=request.unapproved)
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulation = sharded_simulation(workspace.simulation_runs, request)
        rows = played(workspace, simulation)
        if arguments.logs:
            written = write_logs(arguments.logs, workspace.simulation_runs, simulation, rows)
            narrate(f"Wrote {len(written):,} files of logs to {arguments.logs}.")
    report_of_plays(rows, request.conditions or CONDITIONS).print(arguments.json)
    return exit_code(rows)


def make_shards_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `make_shards`."""
    parser.add_argument("project")
    parser.add_argument(
        "instructions", metavar="IN", help="JSON or JSONL file of full instructions"
    )
    parser.add_argument("output", metavar="OUT", help="JSONL file of instructions with shards")
    add_request(parser, MAKING)


def make_shards(arguments: argparse.Namespace) -> int:
    """Proposes shards for full instructions and writes them as a file of instructions that wait for approval.

    Raises:
        WorkbenchError: The instructions cannot be read, the file exists or cannot be written, or a model cannot do
            this.
    """
    request = read_request(MAKING, arguments)
    # Before a project is made for a file that cannot be read.
    load_sources(request.instructions)
    output = Path(arguments.output)
    if output.exists():
        raise NameTaken(f"{output} is there already.", "Choose another name.")
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulation = making_simulation(workspace.simulation_runs, request)
        rows = played(workspace, simulation)
    drafts = drafts_of(rows)
    write_drafts(output, drafts)
    narrate(f"Wrote shards of {len(drafts):,} instructions to {output}; they wait for approval.")
    report_of_drafts(drafts).print(arguments.json)
    return exit_code(rows)


def report_of_plays(rows: Sequence[PlayRow], conditions: Sequence[Condition]) -> Result:
    """The table of Laban et al. (2025) and the counts of the kinds of replies, by condition."""
    over = [row for row in rows if row.reason is None]
    found = sorted(
        aptitudes(scored(over)), key=lambda row: (row.task, place_of(row.condition, conditions))
    )
    lines = table_lines(aptitude_table(found))
    replies = replies_by_condition(over, conditions)
    if replies:
        lines += ["", *_reply_lines(replies)]
    if any(row.fewest == 1 for row in found):
        narrate("Where an instruction was played once, nothing is known of its reliability.")
    return Result(
        lines,
        {
            "aptitude": aptitude_json(found),
            "instructions": _by_instruction(over),
            "replies": replies,
        },
    )


def report_of_drafts(drafts: Sequence[Draft]) -> Result:
    """The proposed shards of each instruction, and what the checks found missing."""
    lines: list[str] = []
    for draft in drafts:
        lines.append(one_line(f"{draft.task_id}: {len(draft.candidates)} shards", LONGEST_NAME))
        lines += [
            f"  {number}. {one_line(one.text, 160)}{'' if one.by == 'model' else '  (as in the text)'}"
            for number, one in enumerate(draft.candidates, 1)
        ]
        if draft.lost:
            lines.append(f"  no shard says: {one_line(', '.join(draft.lost), 160)}")
        if draft.missing:
            lines.append(f"  the model misses: {one_line(draft.missing, 160)}")
        if draft.check:
            verdict = "" if draft.holds else ", which is too little"
            lines.append(
                f"  FULL {100 * draft.check['full']:.0f}, CONCAT {100 * draft.check['concat']:.0f}{verdict}"
            )
    return Result(lines, {"drafts": [draft.record() for draft in drafts]})


def _by_instruction(rows: Sequence[PlayRow]) -> list[dict[str, Any]]:
    """The same figures for each instruction alone."""
    each: dict[str, list[Scored]] = {}
    for one in scored(rows):
        each.setdefault(one.instruction, []).append(one)
    return [
        {"task_id": task_id, **asdict(row)}
        for task_id, some in each.items()
        for row in aptitudes(some)
    ]


def _reply_lines(replies: Sequence[dict[str, Any]]) -> list[str]:
    kinds: list[tuple[str, CellKind]] = [(name, "count") for name in CATEGORIES]
    return cell_lines(
        [("turns", "count"), ("stand-ins", "count"), *kinds, ("replies of", "text")],
        [
            [row[name] for name in ("turns", "stand_ins", *CATEGORIES, "condition")]
            for row in replies
        ],
    )
