"""Bounds on the probability that a response has a property, such as containing a text.

The response is drawn with the tree's sampler. The lower bound is the mass of the nodes whose responses certainly have
the property, the upper bound one minus the mass of those that certainly do not. An ended leaf is one response, so it
decides. A cut or long leaf and a node not read yet decide only where every continuation of their text agrees. Pruned
children decide only what their parent's text decides.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.errors import UsageError
from engine.trees.tree import Kind, Tree

Predicate = Callable[[str, bool], bool | None]
"""Takes the beginning of a response and whether it ended there; returns whether every response that begins so has the
property (True), none has it (False), or it depends on the rest (None)."""

MIN_USELESS_WIDTH = 0.99
"""Width of bounds from which on they say nothing."""

TOO_WIDE = (
    "The bounds are too wide to be useful: no complete answer decides the property."
    " Try a lower --alpha."
)
"""Said of bounds that prove nothing (`MIN_USELESS_WIDTH`)."""


@dataclass(frozen=True, slots=True)
class ProbabilityBounds:
    """Bounds on a probability: responses of mass `low` certainly have the property, and responses of mass 1 - `high`
    certainly do not have it."""

    low: float
    high: float


def guarantee(tree: Tree, predicate: Predicate) -> ProbabilityBounds:
    """Returns bounds on the probability that a response has a property.

    Args:
        predicate: Decides the property; its answer for a beginning must hold for every response that begins so.
    """
    holds: list[float] = []
    fails: list[float] = []
    stops = [stop.encode() for stop in tree.options.stop if stop]

    for node_id, node in enumerate(tree.nodes):
        data = tree.text(node_id)
        ended = node.kind is Kind.ENDED
        text = (
            data.decode("utf-8", "replace") if ended else _closed_text(_without_stop(data, stops))
        )
        outcome = predicate(text, ended)
        mass = node.mass
        if node.kind is Kind.INNER:  # a fork: its pruned children go on from this text
            mass = node.pruned
            outcome_if_ended = predicate(text, True)  # one of them may be the end token
            outcome = outcome if outcome == outcome_if_ended else None
        if outcome is True:
            holds.append(mass)
        elif outcome is False:
            fails.append(mass)
    return ProbabilityBounds(min(1.0, math.fsum(holds)), max(0.0, 1.0 - math.fsum(fails)))


def contains(part: str) -> Predicate:
    """Returns the predicate: the response contains `part`, ignoring case."""
    folded_part = part.casefold()

    def settle(text: str, ended: bool) -> bool | None:
        """Returns True as soon as the text contains the part."""
        if folded_part in text.casefold():
            return True
        return False if ended else None

    return settle


def equals(answer: str) -> Predicate:
    """Returns the predicate: the response equals `answer`, ignoring white space at both ends."""
    stripped = answer.strip()

    def settle(text: str, ended: bool) -> bool | None:
        """Decides an ended response; of another one only that it can no longer be equal."""
        if ended:
            return text.strip() == stripped
        return None if stripped.startswith(text.lstrip()) or text.strip() == stripped else False

    return settle


def matches(pattern: str) -> Predicate:
    """Returns the predicate: the regular expression matches somewhere in the response. Only a response that ended
    decides, because what follows may undo a match (`$`, look-ahead).

    Raises:
        UsageError: The pattern is no regular expression.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{pattern!r} is no regular expression: {error}.") from error

    def settle(text: str, ended: bool) -> bool | None:
        """Decides an ended response."""
        return compiled.search(text) is not None if ended else None

    return settle


def json_has(path: str, value: str | None = None) -> Predicate:
    """Returns the predicate: the response is JSON with a value at a path like `order.items.0.id`, or this value
    there."""
    steps = path.split(".")

    def settle(text: str, ended: bool) -> bool | None:
        """Decides an ended response by the value at the path."""
        if not ended:
            return None
        try:
            current: Any = json.loads(text)
        except (ValueError, RecursionError):
            return False
        for step in steps:
            if isinstance(current, dict) and step in current:
                current = current[step]
            elif isinstance(current, list) and step.isdigit() and int(step) < len(current):
                current = current[int(step)]
            else:
                return False
        return (
            value is None or (current if isinstance(current, str) else json.dumps(current)) == value
        )

    return settle


def parse_predicate(text: str) -> Predicate:
    """Returns the predicate that a text describes, such as `contains two years`, `equals yes`, `regex ^\\d+$`,
    `json order.id` or `json order.id=7`.

    Raises:
        UsageError: The text is no such property.
    """
    kind, _, rest = text.partition(" ")
    if rest:
        if kind == "contains":
            return contains(rest)
        if kind == "equals":
            return equals(rest)
        if kind == "regex":
            return matches(rest)
        if kind == "json":
            path, has_value, value = rest.partition("=")
            return json_has(path, value if has_value else None)
    raise UsageError(
        f"{text!r} is no property of a response.",
        "Write `contains TEXT`, `equals TEXT`, `regex PATTERN` or `json PATH[=VALUE]`.",
    )


def _without_stop(data: bytes, stops: Sequence[bytes]) -> bytes:
    """Returns bytes without a possible beginning of a stop text at their end, which would be no part of the
    response."""
    begun_bytes = max(
        (
            size
            for stop in stops
            for size in range(1, min(len(stop), len(data) + 1))
            if data.endswith(stop[:size])
        ),
        default=0,
    )
    return data[: len(data) - begun_bytes]


def _closed_text(data: bytes) -> str:
    """Returns the text of bytes without an incomplete UTF-8 character at their end; other broken bytes are replaced."""
    # A character has at most four bytes, so at most three of an incomplete one are at the end.
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode("utf-8")
        except UnicodeDecodeError as error:
            if error.end < len(data) - cut:
                break
    return data.decode("utf-8", "replace")
