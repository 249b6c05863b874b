"""Sample conversations with truth in six domains, for the demo, tests and benchmarks; determined by a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from random import Random
from typing import Any

from engine.base.conversation import Conversation, Message
from engine.simulate.demo import forms, shopping, sql, terminal, travel, underwriting
from engine.simulate.demo.script import Outcome, Script, Size, break_off

_DOMAINS: dict[str, tuple[str, Callable[[Script], str]]] = {
    "shopping": ("shop", shopping.converse),
    "underwriting": ("uw", underwriting.converse),
    "terminal": ("term", terminal.converse),
    "sql": ("sql", sql.converse),
    "forms": ("form", forms.converse),
    "travel": ("trip", travel.converse),
}
"""The domains by name, each with the prefix of its ids and the function that writes a conversation and returns its
goal."""

_BASIS_BY_OUTCOME = {
    "complete": "everything the opening asks for was done",
    "broken_off": "the conversation stops before everything asked for was done",
    "failed": "something asked for could not be done and the user gave up",
}
"""Why a conversation counts as complete or not, in words."""

_BROKEN_OFF_SHARE, _FAILED_SHARE = 0.25, 0.15
"""Shares of the conversations that are broken off and that fail; the others are complete."""

_LONG_INTERVAL = 40
"""One conversation in so many is long."""

_MIN_CANDIDATES_FOR_HUGE = 6
"""Least number of complete conversations of a domain of which one is huge: a few samples are to be short."""

_FIRST_DAY = datetime(2026, 3, 1, tzinfo=UTC)
"""Conversations begin on this day or later."""

_SPAN_SECONDS = 30 * 24 * 3600
"""Time within which all conversations begin."""


def sample_conversations(count: int = 120, seed: int = 7) -> list[Conversation]:
    """Returns `count` conversations: the domains in turn, 60% complete, 25% broken off, 15% failed, no opening twice.

    The same `count` and `seed` give the same conversations. `truth` has `goal` ("domain/goal"), `complete`,
    `complete_basis` (the reason, in words), `outcome` (complete, broken_off, failed) and `domain`.
    """
    rng = Random(f"samples {seed} {count}")
    outcomes = _outcomes(rng, count)
    sizes = _sizes(rng, outcomes)
    starts = sorted(rng.randrange(_SPAN_SECONDS) for _ in range(count))
    openings: set[str] = set()
    made: list[Conversation] = []
    names = list(_DOMAINS)
    for number in range(count):
        domain = names[number % len(names)]
        prefix, converse = _DOMAINS[domain]
        attempt = 0
        # Tries again with another seed while another conversation has the same opening.
        while True:
            script = Script(
                Random(f"{seed} {count} {number} {attempt}"), outcomes[number], sizes[number]
            )
            goal = converse(script)
            if script.outcome == "broken_off":
                break_off(script)
            opening = next(message.content for message in script.messages if message.role == "user")
            if opening not in openings:
                break
            attempt += 1
        openings.add(opening)
        created = _FIRST_DAY + timedelta(seconds=starts[number])
        conversation = Conversation(
            external_id=f"{prefix}-{number + 1:04d}",
            messages=tuple(script.messages),
            truth={
                "goal": f"{domain}/{goal}",
                "complete": script.outcome == "complete",
                "complete_basis": _BASIS_BY_OUTCOME[script.outcome],
                "outcome": script.outcome,
                "domain": domain,
            },
            created_at=created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        made.append(conversation)
    return made


def write_jsonl(conversations: Iterable[Conversation], path: str | PathLike[str]) -> None:
    """Writes the conversations in the uniform form, one JSON object a line, UTF-8."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for conversation in conversations:
            file.write(json.dumps(_record(conversation), ensure_ascii=False) + "\n")


def _outcomes(rng: Random, count: int) -> list[Outcome]:
    """Returns the outcome of each conversation."""
    broken, failed = round(count * _BROKEN_OFF_SHARE), round(count * _FAILED_SHARE)
    outcomes: list[Outcome] = ["complete"] * (count - broken - failed)
    outcomes += ["broken_off"] * broken
    outcomes += ["failed"] * failed
    # Shuffled within each domain, so that every domain has its share of each outcome.
    domains = len(_DOMAINS)
    for index in range(domains):
        dealt = outcomes[index::domains]
        rng.shuffle(dealt)
        outcomes[index::domains] = dealt
    return outcomes


def _sizes(rng: Random, outcomes: Sequence[Outcome]) -> list[Size]:
    """Returns the size of each conversation: one in 40 is long, and one each in `terminal` and `sql`, whose tools can
    print much, is huge and complete."""
    names = list(_DOMAINS)
    long_indices = rng.sample(range(len(outcomes)), len(outcomes) // _LONG_INTERVAL)
    sizes: list[Size] = [
        "long" if index in long_indices else "usual" for index in range(len(outcomes))
    ]
    for domain in ("terminal", "sql"):
        candidates = [
            index
            for index, outcome in enumerate(outcomes)
            if names[index % len(names)] == domain and outcome == "complete"
        ]
        if len(candidates) >= _MIN_CANDIDATES_FOR_HUGE:
            sizes[rng.choice(candidates)] = "huge"
    return sizes


def _record(conversation: Conversation) -> dict[str, Any]:
    """Returns a conversation in the uniform form."""
    return {
        "id": conversation.external_id,
        "dataset": "demo",
        "messages": [_message(message) for message in conversation.messages],
        "truth": conversation.truth,
        "created_at": conversation.created_at,
    }


def _message(message: Message) -> dict[str, Any]:
    """Returns a message in the uniform form; keys without a value are left out."""
    record: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        record["name"] = message.name
    if message.tool_calls:
        record["tool_calls"] = [
            {"id": call.call_id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        record["tool_call_id"] = message.tool_call_id
    return record
