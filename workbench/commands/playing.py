"""Simulations as commands run them."""

from __future__ import annotations

import argparse

from engine.services.simulation.options import SimulationOptions

from engine.number_format import duration
from engine.records.simulation import PlayEstimate, PlayRow
from engine.services.simulation.simulations import Simulation
from engine.services.workspace import Workspace
from workbench.commands.narration import narrate, run_stages
from workbench.commands.options import not_negative, positive
from workbench.exits import DONE, WITH_GAPS


def played(workspace: Workspace, simulation: Simulation) -> list[PlayRow]:
    """Plays what was not played yet, with narration, and gives the plays that were asked for, in the order of the
    scenarios; those that broke off are named on standard error.

    Raises:
        WorkbenchError: A stage failed.
        Cancelled: A stage was cancelled from the keyboard.
    """
    # What is tuned first may change what the model is called.
    if not simulation.before:
        narrate(estimate_text(simulation.play.estimate()))
    run_stages(workspace, simulation.stages)
    rows = {row.key: row for row in workspace.simulations().rows(simulation.play.config_hash)}
    found = [rows[one.key] for one in simulation.play.scenarios if one.key in rows]
    for row in found:
        if row.reason is not None:
            narrate(f"{row.key} broke off: {row.reason}")
    return found


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
    """3 where a play broke off, so that a table over the others is not taken for the whole."""
    return WITH_GAPS if any(row.reason is not None for row in rows) else DONE


def add_common(parser: argparse.ArgumentParser, *, runs: int = 1) -> None:
    """Options of all kinds: the project, models, repetitions, and what is random.

    Args:
        runs: How often each scenario is played unless something else is asked for.
    """
    parser.add_argument("project")
    parser.add_argument(
        "--model",
        help="name or path of a model, or endpoints as NAME,NAME2 (default: the built-in one)",
    )
    parser.add_argument("--user-model", metavar="M", help="who plays the user (default: --model)")
    parser.add_argument("--judge-model", metavar="M", help="who judges (default: --model)")
    parser.add_argument(
        "--context", type=positive, metavar="N", help="longest conversation in tokens"
    )
    parser.add_argument(
        "--runs",
        type=positive,
        default=runs,
        metavar="N",
        help=f"how often each is played (default: {runs})",
    )
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default: 0)")
    parser.add_argument(
        "--temperature", type=not_negative, metavar="T", help="of replies in free words"
    )
    parser.add_argument(
        "--parallel", type=positive, default=32, metavar="N", help="plays at once (default: 32)"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="the first so many only")


def read_common(arguments: argparse.Namespace) -> SimulationOptions:
    """Returns the options that `add_common` declares."""
    names = [name for name in SimulationOptions.__slots__ if hasattr(arguments, name)]
    return SimulationOptions(**{name: getattr(arguments, name) for name in names})
