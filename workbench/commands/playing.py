"""Runs simulations for the commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.base.errors import UsageError
from engine.base.number_format import duration
from engine.base.request_options import read_value
from engine.opener.open_project import OpenProject
from engine.simulate.records import PlayEstimate, PlayRow
from engine.simulate.request import (
    COMMON,
    DEFAULTS,
    FIELDS,
    OPTIONS,
    Kind,
    SimulationOptions,
    SimulationRequest,
)
from engine.simulate.service.simulations import Simulation
from workbench.commands.narration import narrate, run_stages
from workbench.exits import DONE, WITH_GAPS


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
    """The exit code: 3 where a play broke off, because the table then covers only the others."""
    return WITH_GAPS if any(row.reason is not None for row in rows) else DONE


def add_request(parser: argparse.ArgumentParser, kind: Kind) -> None:
    """Declares the flags of a kind of simulation, made from the declaration of `SimulationRequest`.

    The instructions are no flag: they have to be named.
    """
    for name in (*COMMON, *FIELDS[kind]):
        if name == "instructions":
            continue
        option, default = OPTIONS[name], DEFAULTS[name]
        flag = f"--{_FLAGS.get(name, name.replace('_', '-'))}"
        if default is False:
            parser.add_argument(
                flag, dest=name, action="store_true", default=argparse.SUPPRESS, help=option.help
            )
            continue
        words = option.default or (f"{default:g}" if isinstance(default, float) else str(default))
        how = _SEVERAL.get(name) or {"type": _reader(name)}
        parser.add_argument(
            flag,
            dest=name,
            default=argparse.SUPPRESS,
            metavar=option.metavar or None,
            help=f"{option.help}{_REPEATED if 'action' in how else ''} (default: {words})",
            **how,
        )


def read_request(kind: Kind, arguments: argparse.Namespace) -> SimulationRequest:
    """The request of the flags that `add_request` declares.

    Raises:
        UsageError: A value cannot be used.
    """
    return SimulationRequest(kind, **_given(arguments, (*COMMON, *FIELDS[kind])))


def read_options(arguments: argparse.Namespace) -> SimulationOptions:
    """The options of a command that plays something else than a simulation, as far as it declares them."""
    return SimulationOptions(**_given(arguments, COMMON))


_FLAGS = {
    "forms": "form", "variants": "variant", "tasks": "task", "turns_per_field": "turns", "checks": "check",
}  # fmt: skip
"""Flags that are not called like their field."""

_SEVERAL: Mapping[str, Mapping[str, Any]] = {
    "forms": {"action": "append"},
    "tasks": {"action": "append"},
    "dummies": {"nargs": "+"},
}
"""Flags that take several values one by one; a name of a file may hold a comma."""

_REPEATED = "; may be repeated"


def _given(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The values of the flags, several of one flag as a tuple; those that were not given are left out."""
    found = {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}
    return {
        name: tuple(dict.fromkeys(one)) if isinstance(one, list) else one
        for name, one in found.items()
    }


def _reader(name: str) -> Callable[[str], Any]:
    """What reads the text of a flag for argparse."""

    def read(text: str) -> Any:
        option = OPTIONS[name]
        try:
            value = read_value(name, option, text)
        except UsageError:
            value = None
        if value is None or not option.allowed(value):
            raise argparse.ArgumentTypeError(f"it must be {option.must}")
        return value

    return read
