"""Asking a model for a reply with a structure, again if need be, and never failing for what it wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from engine.model.chat import Call, Completion
from engine.model.interface import Sampling

T = TypeVar("T")

TRIES = (0.0, 0.5, 1.0)
"""Temperatures of the tries at something exact: the same question at 0 would only give the same reply."""


def seed_from(*names: object) -> int:
    """A seed of 31 bits that these names determine."""
    named = json.dumps([str(name) for name in names])
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:4], "big") >> 1


def ask_json(
    call: Call,
    schema: Mapping[str, Any],
    accept: Callable[[Mapping[str, Any]], T | None],
    temperatures: Sequence[float],
) -> Generator[Call, Completion, T | None]:
    """What `accept` makes of the first reply that it accepts, None if it accepts none.

    Args:
        call: The question; its sampling is set here.
        schema: Of the reply, an object.
        accept: Takes the reply; None refuses it.
        temperatures: One for each try.
    """
    text = json.dumps(schema)
    for number, temperature in enumerate(temperatures):
        said = yield replace(
            call,
            sampling=Sampling(temperature=temperature, json_schema=text),
            seed=call.seed if not number else seed_from(call.seed, number),
        )
        reply = parsed(said.text)
        if reply is not None and (accepted := accept(reply)) is not None:
            return accepted
    return None


def parsed(text: str) -> Mapping[str, Any] | None:
    """The JSON object of a reply; None if it is none, as one that was cut off."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with exactly these properties, in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
