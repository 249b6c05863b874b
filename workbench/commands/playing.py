"""Runs simulations for the commands."""

from __future__ import annotations

from engine.base.number_format import duration
from engine.opener.open_project import OpenProject
from engine.simulate.records import PlayEstimate, PlayRow
from engine.simulate.service.simulations import Simulation
from workbench.narration import narrate, run_stages
from workbench.result import DONE, WITH_GAPS


def played(workspace: OpenProject, simulation: Simulation) -> list[PlayRow]:
    """Plays the scenarios that were not played yet, with narration; returns all their plays, in the order of the
    scenarios. Plays that broke off are named on standard error.

    Raises:
        WorkbenchError: A stage failed.
        Cancelled: A stage was cancelled from the keyboard.
    """
    # A model that is tuned first may change its name.
    if not simulation.before:
        narrate(estimate_text(simulation.play.estimate()))
    run_stages(workspace, simulation.stages)
    rows = {row.key: row for row in workspace.simulation_runs.rows(simulation.play.config_hash)}
    plays = [rows[one.key] for one in simulation.play.scenarios if one.key in rows]
    for row in plays:
        if row.reason is not None:
            narrate(f"{row.key} broke off: {row.reason}")
    return plays


def estimate_text(estimate: PlayEstimate) -> str:
    """An estimate in words."""
    if not estimate.plays:
        return "Nothing is left to play."
    text = f"{estimate.plays:,} to play with {', '.join(estimate.models)}"
    if estimate.replies is None or estimate.seconds is None:
        return f"{text}; how long that takes is known once the first is over."
    return (
        f"{text}: about {estimate.replies:,} replies, {duration(estimate.seconds)}, as last time."
    )


def exit_code(rows: list[PlayRow]) -> int:
    """The exit code: 3 where a play broke off, because the table then covers only the others."""
    return WITH_GAPS if any(row.reason is not None for row in rows) else DONE
