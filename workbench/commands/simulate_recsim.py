"""`workbench simulate recsim`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from engine.services.simulation.recsim import RecsimChoice, recsim_simulation
from engine.services.simulation.result_tables import task_table
from engine.services.workspace import Workspace
from engine.simulate.recsim.people import LANGUAGES, TASKS
from engine.simulate.recsim.table import by_task
from workbench.commands.analyse import aligned_table
from workbench.commands.narration import Result
from workbench.commands.options import positive
from workbench.commands.playing import add_common, exit_code, played, read_common


def simulate_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `simulate`."""
    add_common(parser)
    parser.add_argument(
        "--task",
        action="append",
        choices=TASKS,
        metavar="TASK",
        help=f"{', '.join(TASKS)}; may be repeated (default: all)",
    )
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="default: en")
    parser.add_argument(
        "--turns",
        type=positive,
        default=10,
        metavar="N",
        help="answers of the assistant, at most (default: 10)",
    )
    parser.add_argument(
        "--questions", action="store_true", help="ask both sides afterwards what came of it"
    )
    parser.add_argument(
        "--user-tokens", type=positive, default=200, metavar="N", help="of a wish (default: 200)"
    )
    parser.add_argument(
        "--assistant-tokens",
        type=positive,
        default=512,
        metavar="N",
        help="of an answer (default: 512)",
    )


def simulate(arguments: argparse.Namespace) -> int:
    """Plays people with profiles who plan with an assistant, and prints the results by task.

    Raises:
        WorkbenchError: A model cannot be had.
    """
    options = read_common(arguments)
    choice = RecsimChoice(
        tuple(dict.fromkeys(arguments.task or TASKS)),
        arguments.language,
        arguments.turns,
        arguments.questions,
        arguments.user_tokens,
        arguments.assistant_tokens,
    )
    with Workspace(Path(arguments.project), create=True) as workspace:
        simulation = recsim_simulation(workspace.simulations(), choice, options)
        rows = played(workspace, simulation)
    ended = [row for row in rows if row.reason is None]
    table = by_task(row.result for row in ended)
    runs = [{"key": row.key, "conversation": row.conversation_id, **row.result} for row in ended]
    result = {
        "config": simulation.play.config_hash,
        "tasks": [asdict(row) for row in table],
        "runs": runs,
    }
    Result(aligned_table(task_table(ended)), result).print(arguments.json)
    return exit_code(rows)
