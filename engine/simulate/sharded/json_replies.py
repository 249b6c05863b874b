"""Asks a model for JSON replies: with a schema, with retries, and without raising on bad replies."""

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
"""Temperatures of the attempts; a second attempt at 0 would give the same reply."""


def seed_from(*names: object) -> int:
    """Returns a seed of 31 bits that depends on these names alone."""
    named = json.dumps([str(name) for name in names])
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:4], "big") >> 1


def ask_json(
    call: Call,
    schema: Mapping[str, Any],
    accept: Callable[[Mapping[str, Any]], T | None],
    temperatures: Sequence[float],
) -> Generator[Call, Completion, T | None]:
    """Yields the call until `accept` returns a value, and returns that; None if no attempt succeeds.

    Args:
        call: The call; its sampling and schema are set here.
        schema: JSON schema of the reply, an object.
        accept: Converts the parsed reply; returns None to reject it.
        temperatures: Temperature of each attempt.
    """
    text = json.dumps(schema)
    for number, temperature in enumerate(temperatures):
        completion = yield replace(
            call,
            sampling=Sampling(temperature=temperature, json_schema=text),
            seed=call.seed if not number else seed_from(call.seed, number),
        )
        reply = parsed(completion.text)
        if reply is not None and (accepted := accept(reply)) is not None:
            return accepted
    return None


def parsed(text: str) -> Mapping[str, Any] | None:
    """Parses a reply as a JSON object; None if it is not one, for example because it was cut off."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of an object with exactly these properties, in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
