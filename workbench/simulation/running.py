"""Simulations as commands run them."""

from __future__ import annotations

from engine.play_rows import PlayRow
from workbench.commands.narration import run_stages, tell
from workbench.exits import DONE, WITH_GAPS
from workbench.services import Workspace
from workbench.simulation.services import Simulation


def played(workspace: Workspace, simulation: Simulation) -> list[PlayRow]:
    """Plays what was not played yet, with narration, and gives the plays that were asked for, in the order of the
    scenarios; those that broke off are told.

    Raises:
        WorkbenchError: A stage failed.
        Cancelled: A stage was cancelled from the keyboard.
    """
    run_stages(workspace, simulation.stages)
    rows = {row.key: row for row in workspace.simulations().rows(simulation.play.config_hash)}
    found = [rows[one.key] for one in simulation.play.scenarios if one.key in rows]
    for row in found:
        if row.reason is not None:
            tell(f"{row.key} broke off: {row.reason}")
    return found


def exit_code(rows: list[PlayRow]) -> int:
    """3 where a play broke off, so that a table over the others is not taken for the whole."""
    return WITH_GAPS if any(row.reason is not None for row in rows) else DONE
