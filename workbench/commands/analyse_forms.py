"""`workbench analyse forms`: models by form, as in the tables of Hakimov et al. (2024)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NotYet
from engine.opener.open_project import OpenProject
from engine.simulate.forms.table import by_model, draw_forms
from engine.simulate.service.result_tables import form_model_table
from workbench.commands.narration import Result, narrate
from workbench.commands.report_text import table_lines
from workbench.exits import DONE


def forms_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `analyse forms`."""
    parser.add_argument("projects", nargs="+", metavar="project", help="project files")
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="also draw Figure 2 of the paper (means over forms; fields and turns by form), as .svg or .png",
    )


def forms(arguments: argparse.Namespace) -> int:
    """Prints a row for each model, variant and form of all runs in the projects, simulated or imported, and draws them.

    Raises:
        UsageError: No project has a run, or the picture cannot be drawn.
        ProjectError: The picture cannot be written.
    """
    runs: list[tuple[str, Mapping[str, Any]]] = []
    for project in arguments.projects:
        with OpenProject(Path(project), read_only=True) as workspace:
            runs += workspace.simulation_runs.form_runs()
    if not runs:
        raise NotYet(
            "Nobody filled a form here.",
            "Use `workbench simulate forms`, or import what its --files wrote.",
        )
    rows = by_model(runs)
    if arguments.plot:
        draw_forms(rows, Path(arguments.plot))
        narrate(f"Drew {arguments.plot}.")
    told = {"forms": [asdict(row) for row in rows]}
    Result(table_lines(form_model_table(runs)), told).print(arguments.json)
    return DONE
