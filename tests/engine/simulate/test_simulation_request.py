"""The declaration of a simulation request: its form as dialog texts, flags and JSON, and invalid requests."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.simulate.simulation_request import (
    COMMON,
    FIELDS,
    KINDS,
    OPTIONS,
    Kind,
    SimulationRequest,
    as_request,
    read_request,
    request_as_json,
)
from workbench import arguments
from workbench.cli import build_parser

POSITIONALS: dict[Kind, list[str]] = {"sharded": ["math"]}
TEXTS: dict[str, tuple[str, Any]] = {
    "model": ("m", "m"), "user_model": ("u", "u"), "judge_model": ("j", "j"), "context": ("512", 512),
    "runs": ("3", 3), "seed": ("-7", -7), "temperature": ("0.5", 0.5), "parallel": ("2", 2), "limit": ("9", 9),
    "instructions": ("samples", "samples"), "conditions": ("FULL, recap,full", ("full", "recap")),
    "merge_shards": ("2, 4", (2, 4)),
    "user_temperature": ("0", 0.0), "max_tokens": ("40", 40), "databases": ("d", "d"),
    "forms": ("med", ("med",)), "variants": ("baseline", ("baseline",)), "profile": ("run", "run"),
    "profiles": ("p.json", "p.json"), "dummies": ("all", ("all",)),
    "tasks": ("recipe planning", ("recipe planning",)), "language": ("zh", "zh"), "turns": ("4", 4),
}  # fmt: skip
"""Text and value of each field that is no switch."""
FLAGS = {"forms": "form", "variants": "variant", "tasks": "task"}
"""Flags that are not named like their field."""
SWITCHES = ("free_replies",)


def flags(kind: Kind, *words: str) -> SimulationRequest:
    """The request of a command line."""
    words = ("simulate", kind, "p.wb", *POSITIONALS.get(kind, ()), *words)
    return arguments.read_request(SimulationRequest, build_parser().parse_args(words), kind=kind)


def test_every_field_belongs_to_a_kind() -> None:
    """Each field is declared, and used by at least one kind of simulation."""
    declared = {one.name for one in fields(SimulationRequest)} - {"kind"}
    assert declared == set(OPTIONS) == {*COMMON, *(name for one in FIELDS.values() for name in one)}
    assert declared == {*TEXTS, *SWITCHES}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_said_is_the_default(kind: Kind) -> None:
    """No texts, empty texts and no flags give the same default request."""
    assert read_request(kind, dict.fromkeys(TEXTS, " ")) == SimulationRequest(kind)
    assert flags(kind) == SimulationRequest(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_flags_and_texts_agree(kind: Kind) -> None:
    """A value gives the same request as a flag and as a text of the dialog."""
    words: list[str] = []
    texts: dict[str, str] = {}
    for name in (*COMMON, *FIELDS[kind]):
        if name in TEXTS and name != "instructions":
            flag = FLAGS.get(name, name.replace("_", "-"))
            texts[name] = TEXTS[name][0]
            words += [f"--{flag}={texts[name]}"]
    read = read_request(kind, texts)
    assert {name: getattr(read, name) for name in texts} == {name: TEXTS[name][1] for name in texts}
    assert flags(kind, *words) == read_request(kind, texts)


@pytest.mark.parametrize(
    ("name", "text"),
    [("runs", "0"), ("limit", "some"), ("temperature", "nan"), ("user_temperature", "-1"),
     ("conditions", "full, none"), ("tasks", "flying"), ("variants", "all"), ("profile", "turn"), ("language", "de"),
     ("seed", "0.5"), ("context", "0")],
)  # fmt: skip
def test_what_cannot_be_names_the_field(name: str, text: str) -> None:
    """The error names the field, its text, and what it must be."""
    with pytest.raises(UsageError) as caught:
        read_request("sharded", {name: text})
    assert caught.value.message == (
        f"{name.replace('_', ' ')} is {text!r}; it must be {OPTIONS[name].must}."
    )


class TestJson:
    def test_round_trip(self) -> None:
        """A request is the same after it was stored."""
        request = SimulationRequest(
            "sharded", model="m", runs=3, conditions=("full", "recap"), temperature=0.5
        )
        assert as_request(json.loads(json.dumps(request_as_json(request)))) == request

    @pytest.mark.parametrize(
        "changed",
        [{"of_another_version": 1}, {"kind": "poems"}, {"runs": 0}, {"runs": "3"}, {"conditions": ["none"]}],
    )  # fmt: skip
    def test_refused(self, changed: dict[str, Any]) -> None:
        """An object that is no request of this version is refused."""
        with pytest.raises(UsageError, match="stored request"):
            as_request({**request_as_json(SimulationRequest("recsim")), **changed})
