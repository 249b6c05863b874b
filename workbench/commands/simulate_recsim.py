"""`workbench simulate recsim`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from engine.opener.open_project import OpenProject
from engine.simulate.recsim.play import by_task
from engine.simulate.service.recsim import KIND, recsim_simulation
from engine.simulate.service.result_tables import task_table
from workbench.commands.narration import Result
from workbench.commands.playing import add_request, exit_code, played, read_request
from workbench.commands.report_text import table_lines


def simulate_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `simulate`."""
    parser.add_argument("project")
    add_request(parser, KIND)


def simulate(arguments: argparse.Namespace) -> int:
    """Plays people with profiles who plan with an assistant, and prints the results by task.

    Raises:
        WorkbenchError: A model cannot be had.
    """
    request = read_request(KIND, arguments)
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulation = recsim_simulation(workspace.simulation_runs, request)
        rows = played(workspace, simulation)
    ended = [row for row in rows if row.reason is None]
    table = by_task(row.result for row in ended)
    runs = [{"key": row.key, "conversation": row.conversation_id, **row.result} for row in ended]
    result = {
        "config": simulation.play.config_hash,
        "tasks": [asdict(row) for row in table],
        "runs": runs,
    }
    Result(table_lines(task_table(ended)), result).print(arguments.json)
    return exit_code(rows)
