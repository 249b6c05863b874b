"""The declaration of a simulation request: its form as dialog texts, flags and JSON, and invalid requests."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest

from engine.simulate.simulation_request import COMMON, FIELDS, OPTIONS, Kind, SimulationRequest
from workbench import arguments
from workbench.cli import build_parser, main

POSITIONALS: dict[Kind, list[str]] = {"sharded": ["math"]}
VALUES: dict[str, tuple[str, Any]] = {
    "model": ("m", "m"), "user_model": ("u", "u"), "judge_model": ("j", "j"), "context": ("512", 512),
    "runs": ("3", 3), "seed": ("-7", -7), "temperature": ("0.5", 0.5), "parallel": ("2", 2), "limit": ("9", 9),
    "instructions": ("math", "math"), "conditions": ("FULL, recap,full", ("full", "recap")),
    "user_temperature": ("0", 0.0), "max_tokens": ("40", 40),
    "forms": ("med", ("med",)), "variants": ("baseline", ("baseline",)), "profile": ("run", "run"),
    "tasks": ("recipe planning", ("recipe planning",)), "turns": ("4", 4),
}  # fmt: skip
"""Text and value of each field."""
FLAGS = {"forms": "form", "variants": "variant", "tasks": "task"}
"""Flags that are not named like their field."""


def flags(kind: Kind, *words: str) -> SimulationRequest:
    """The request of a command line."""
    words = ("simulate", kind, "p.wb", *POSITIONALS.get(kind, ()), *words)
    return arguments.read_request(SimulationRequest, build_parser().parse_args(words), kind=kind)


def test_every_field_belongs_to_a_kind() -> None:
    """Each field is declared, and used by at least one kind of simulation."""
    declared = {one.name for one in fields(SimulationRequest)} - {"kind"}
    assert declared == set(OPTIONS) == {*COMMON, *(name for one in FIELDS.values() for name in one)}
    assert declared == VALUES.keys()


@pytest.mark.parametrize("kind", get_args(Kind))
def test_flags_give_their_values(kind: Kind) -> None:
    """No flags give the default request, and each flag the value of its field."""
    assert flags(kind) == SimulationRequest(kind)
    names = [name for name in (*COMMON, *FIELDS[kind]) if name != "instructions"]
    words = [f"--{FLAGS.get(name, name.replace('_', '-'))}={VALUES[name][0]}" for name in names]
    assert flags(kind, *words) == SimulationRequest(
        kind, **{name: VALUES[name][1] for name in names}
    )


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [("sharded", "runs", "0"), ("sharded", "limit", "some"), ("sharded", "temperature", "nan"),
     ("sharded", "user_temperature", "-1"), ("sharded", "conditions", "full, none"), ("recsim", "tasks", "flying"),
     ("forms", "variants", "all"), ("forms", "profile", "turn"), ("forms", "seed", "0.5"), ("recsim", "context", "0")],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    kind: Kind, name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says what the value must be."""
    flag = FLAGS.get(name, name.replace("_", "-"))
    words = ["simulate", kind, "p.wb", *POSITIONALS.get(kind, ()), f"--{flag}={text}"]
    assert main(words) == 2
    assert flag.replace("-", " ") in capsys.readouterr().err.replace("-", " ")
