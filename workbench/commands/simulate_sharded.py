"""`workbench simulate sharded` and `workbench simulate shards`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from engine.services.simulation.options import SimulationOptions

from engine.errors import UsageError
from engine.records.simulation import PlayRow
from engine.services.simulation.service import priced_by
from engine.services.simulation.sharded import (
    ShardedChoice,
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
from engine.services.workspace import Workspace
from engine.simulate.sharded.log import CATEGORIES
from engine.simulate.sharded.making.draft import Draft
from engine.simulate.sharded.making.play import holds
from engine.simulate.sharded.scenario import ALL_CONDITIONS, CONDITIONS, Condition, place_of
from engine.text import one_line
from engine.validate.aptitude import Scored, aptitudes
from workbench.commands.analyse import aligned
from workbench.commands.narration import Result, narrate
from workbench.commands.options import not_negative, positive
from workbench.commands.playing import add_common, exit_code, played, read_common

LONGEST_NAME = 80
_FULL = "full"


def _add_replies(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-tokens",
        type=positive,
        default=1000,
        metavar="N",
        help="longest reply of the assistant (default: 1000)",
    )
    parser.add_argument(
        "--databases", type=Path, metavar="DIR", help="folder with DB_ID/*.sqlite of database tasks"
    )


def simulate_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `simulate`."""
    add_common(parser)
    parser.add_argument(
        "instructions", help="JSON or JSONL file; or what comes along: math, samples"
    )
    parser.add_argument(
        "--conditions",
        metavar="A,B",
        help="of full, concat, shuffle-concat, sharded, recap, recap-full, snowball (default: all but recap-full)",
    )
    parser.add_argument(
        "--user-temperature",
        type=not_negative,
        default=1.0,
        metavar="T",
        help="of the simulated user (default: 1)",
    )
    parser.add_argument(
        "--logs", type=Path, metavar="DIR", help="write the logs there, in the format of the source"
    )
    parser.add_argument(
        "--unapproved", action="store_true", help="also shards that wait for approval"
    )
    _add_replies(parser)


def simulate(arguments: argparse.Namespace) -> int:
    """Plays instructions under conditions and prints performance, aptitude and unreliability."""
    instructions, dataset = load_instructions(
        arguments.instructions, unapproved=arguments.unapproved
    )
    conditions = parse_conditions(arguments.conditions)
    options = read_common(arguments)
    with Workspace(Path(arguments.project), create=True) as workspace:
        choice = ShardedChoice(
            instructions,
            dataset,
            conditions,
            arguments.user_temperature,
            arguments.max_tokens,
            arguments.databases,
            _priced(workspace, options),
        )
        simulation = sharded_simulation(workspace.simulations(), choice, options)
        rows = played(workspace, simulation)
        if arguments.logs:
            written = write_logs(arguments.logs, workspace.simulations(), simulation, rows)
            narrate(f"Wrote {len(written):,} files of logs to {arguments.logs}.")
    report_of_plays(rows, conditions).print(arguments.json)
    return exit_code(rows)


def make_shards_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `make_shards`."""
    add_common(parser)
    parser.add_argument(
        "instructions", metavar="IN", help="JSON or JSONL file of full instructions"
    )
    parser.add_argument("output", metavar="OUT", help="JSONL file of instructions with shards")
    parser.add_argument(
        "--check",
        type=positive,
        default=0,
        metavar="N",
        help="play FULL and CONCAT so often: shards that lose nothing score alike",
    )
    _add_replies(parser)


def make_shards(arguments: argparse.Namespace) -> int:
    """Proposes shards for full instructions and writes them as a file of instructions that wait for approval."""
    sources = load_sources(arguments.instructions)
    output = Path(arguments.output)
    if output.exists():
        raise UsageError(f"{output} is there already.", "Choose another name.")
    options = read_common(arguments)
    with Workspace(Path(arguments.project), create=True) as workspace:
        choice = ShardedChoice(
            (),
            output.name,
            max_tokens=arguments.max_tokens,
            databases=arguments.databases,
            priced=_priced(workspace, options),
        )
        simulation = making_simulation(
            workspace.simulations(), sources, choice, options, arguments.check
        )
        rows = played(workspace, simulation)
    drafts = drafts_of(rows)
    write_drafts(output, drafts)
    narrate(f"Wrote shards of {len(drafts):,} instructions to {output}; they wait for approval.")
    report_of_drafts(drafts).print(arguments.json)
    return exit_code(rows)


def parse_conditions(words: str | None) -> tuple[Condition, ...]:
    """Conditions by their names, with commas between; the six of Laban et al. (2025) by default.

    Raises:
        UsageError: There is no such condition.
    """
    if words is None:
        return CONDITIONS
    known: dict[str, Condition] = {one: one for one in ALL_CONDITIONS}
    asked = [word.strip().lower() for word in words.split(",")]
    for word in asked:
        if word not in known:
            raise UsageError(
                f"There is no condition {word!r}.", f"Conditions are: {', '.join(ALL_CONDITIONS)}."
            )
    return tuple(dict.fromkeys(known[word] for word in asked))


def report_of_plays(rows: Sequence[PlayRow], conditions: Sequence[Condition]) -> Result:
    """The table of Laban et al. (2025) and the counts of the kinds of replies, by condition."""
    over = [row for row in rows if row.reason is None]
    found = sorted(
        aptitudes(scored(over)), key=lambda row: (row.task, place_of(row.condition, conditions))
    )
    full = {
        (row.task, row.model): row.performance
        for row in found
        if row.condition.partition("-t")[0] == _FULL
    }
    heads = ["instructions", "runs", "P", "of FULL", "A90", "U90-10", "task, condition, model"]
    body = [
        [
            f"{row.instructions:,}",
            f"{row.runs:,}",
            f"{row.performance:.1f}",
            _share(row.performance, full.get((row.task, row.model))),
            f"{row.aptitude:.1f}",
            f"{row.unreliability:.1f}" if row.fewest > 1 else "-",
            "  " + one_line(f"{row.task}, {row.condition}, {row.model}", LONGEST_NAME),
        ]
        for row in found
    ]
    lines = aligned(heads, body)
    replies = replies_by_condition(over, conditions)
    if replies:
        lines += ["", *aligned(["turns", "stand-ins", *CATEGORIES, "replies of"], _cells(replies))]
    if any(row.fewest == 1 for row in found):
        narrate("Where an instruction was played once, nothing is known of its reliability.")
    return Result(
        lines,
        {
            "aptitude": [asdict(row) for row in found],
            "instructions": _by_instruction(over),
            "replies": replies,
        },
    )


def report_of_drafts(drafts: Sequence[Draft]) -> Result:
    """The proposed shards, and what speaks against them."""
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
            verdict = "" if holds(draft.check) else ", which is too little"
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


def _share(performance: float, full: float | None) -> str:
    return f"{100 * performance / full:.0f}%" if full else "-"


def _cells(replies: Sequence[dict[str, Any]]) -> list[list[str]]:
    columns = ("turns", "stand_ins", *CATEGORIES)
    return [[*(f"{row[name]:,}" for name in columns), f"  {row['condition']}"] for row in replies]


def _priced(workspace: Workspace, options: SimulationOptions) -> bool:
    in_use = workspace.models_in_use
    named = partial(in_use.for_work, work="simulation")
    return priced_by(named, workspace.endpoints.serves)(options)
