"""`workbench simulate forms`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.opener.open_project import OpenProject
from engine.simulate.forms.form_session import Rules
from engine.simulate.forms.table import table_of
from engine.simulate.records import PlayRow
from engine.simulate.service.forms import (
    KIND,
    forms_of,
    forms_simulation,
    profiles_of,
    rules_of,
    write_run,
)
from engine.simulate.service.result_tables import form_table
from engine.simulate.service.simulations import ProjectSimulations, Simulation
from workbench.commands.narration import Result, narrate
from workbench.commands.playing import add_request, exit_code, played, read_request
from workbench.commands.report_text import table_lines

LEFT_OUT = frozenset({"filled", "dialogue", "interactions", "information", "manager", "chunks"})
"""Parts of the result of a run that the JSON leaves out: they are long, and the project has them."""


def simulate_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `simulate`."""
    parser.add_argument("project")
    add_request(parser, KIND)
    parser.add_argument(
        "--files",
        metavar="DIR",
        help="also write each run there, in the files of Hakimov et al. (2024)",
    )


def simulate(arguments: argparse.Namespace) -> int:
    """Has forms filled in conversation, in a project that is created if needed, and prints the table of Hakimov et al.
    (2024).

    Raises:
        WorkbenchError: A model cannot be had, a file is no form, or files cannot be written.
    """
    request = read_request(KIND, arguments)
    # Before a project is made for files that cannot be read.
    forms_of(request), profiles_of(request)
    rules = rules_of(request)
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulations = workspace.simulation_runs
        simulation = forms_simulation(simulations, request)
        rows = played(workspace, simulation)
        ended = [row for row in rows if row.reason is None]
        if arguments.files:
            _write(simulations, simulation, ended, Path(arguments.files), rules)
    table = table_of(row.result for row in ended)
    result = {
        "config": simulation.play.config_hash,
        "rows": [asdict(row) for row in table],
        "runs": [
            {"key": row.key, "conversation": row.conversation_id} | _figures(row) for row in ended
        ],
    }
    Result(table_lines(form_table(table)), result).print(arguments.json)
    return exit_code(rows)


def _figures(row: PlayRow) -> dict[str, Any]:
    """The figures in the result of a run; its dialogue and its form are in the project."""
    return {name: value for name, value in row.result.items() if name not in LEFT_OUT}


def _write(
    simulations: ProjectSimulations,
    simulation: Simulation,
    rows: Sequence[PlayRow],
    folder: Path,
    rules: Rules,
) -> None:
    settings = {one.config_hash: one.models for one in simulations.settings(KIND)}
    models = settings.get(simulation.play.config_hash, {})
    for row in rows:
        write_run(folder, row, simulations.transcript(row.id), models, rules)
    narrate(f"Wrote {len(rows):,} runs into {folder}.")
