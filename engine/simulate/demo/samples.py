"""Sample conversations with truth for the demo, tests and benchmarks; determined by a seed.

Two months of a support desk (`engine.simulate.demo.desk`), with one change between them: from the second month on the
system of one carrier times out. Everything else is the same in both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from random import Random
from typing import Any, Literal

from engine.base.conversation import Conversation, Message
from engine.simulate.demo.desk import TEXTS, Failure, Talk

Outcome = Literal["complete", "broken_off", "failed"]
"""The ways in which a conversation ends: the customer gets it; it stops before; it goes wrong."""

MONTHS = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
"""Beginnings of the two months."""

_DAYS = 28
"""Number of days of each month on which conversations begin."""

_BROKEN_OFF = 0.1
"""Share of the conversations that stop before their end."""

_FAILED: dict[Failure, dict[str, float]] = {
    "wrong_item": {"return": 0.16, "exchange": 0.26},
    "refused": {"return": 0.12, "damaged": 0.25},
    "loop": {"cancel": 0.16, "address": 0.14, "invoice": 0.14},
    "gave_up": {"voucher": 0.24, "login": 0.24, "damaged": 0.1},
}
"""Share of the conversations of a goal that fail so, in both months."""

CHANGED_GOAL = "Track a parcel"
"""The goal of which more fails in the second month."""

CAUSES = {
    "timeout": frozenset(("timed", "timeout", "error", "errors")),
    "refused": frozenset(("days", "policy", "exception")),
    "loop": frozenset(("repeats", "again", "same")),
}
"""Causes of failure, each with words that tell of it."""

_TIMEOUTS = 0.55
"""Share of the conversations of that goal that fail by a timeout in the second month; none does in the first."""

_ATTEMPTS = 20
"""Most times that a conversation is written until no other begins alike."""

FAILING_CARRIER = "Northway"
"""The carrier whose system times out."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan of one conversation."""

    goal: str
    month: int
    outcome: Outcome
    failure: Failure | None = None


def sample_conversations(count: int = 120, seed: int = 7) -> list[Conversation]:
    """Returns `count` conversations of nine goals in uneven shares, by time, few openings twice.

    The same `count` and `seed` give the same conversations. `truth` has `goal`, `complete`, `outcome` (complete,
    broken_off, failed), `success` where it did not break off, and `failure` where it failed.
    """
    rng = Random(f"desk {seed} {count}")
    plans = _plans(count)
    rng.shuffle(plans)
    plans.sort(key=lambda plan: plan.month)
    per_month = Counter(plan.month for plan in plans)
    times = [
        MONTHS[month] + timedelta(seconds=second)
        for month in (0, 1)
        for second in sorted(rng.randrange(_DAYS * 86_400) for _ in range(per_month[month]))
    ]
    openings: set[str] = set()
    return [
        _conversation(number, plan, time, Random(f"{seed} {count} {number}"), openings)
        for number, (plan, time) in enumerate(zip(plans, times, strict=True), 1)
    ]


def _conversation(
    number: int, plan: _Plan, time: datetime, rng: Random, openings: set[str]
) -> Conversation:
    """Returns one conversation, and notes its opening; it is written anew if another has the same."""
    for _ in range(_ATTEMPTS):
        carrier = FAILING_CARRIER if plan.failure == "timeout" else ""
        talk = Talk(rng, plan.goal, time, failure=plan.failure, carrier=carrier)
        talk.write()
        if plan.outcome == "broken_off":
            talk.break_off()
        opening = talk.messages[1].content
        if opening not in openings:
            break
    openings.add(opening)
    truth: dict[str, Any] = {
        "goal": TEXTS.goals[plan.goal].name,
        "complete": plan.outcome == "complete",
        "outcome": plan.outcome,
    }
    if plan.outcome != "broken_off":
        truth["success"] = plan.outcome == "complete"
    if plan.failure is not None:
        truth["failure"] = plan.failure
    return Conversation(
        external_id=f"desk-{number:04d}",
        messages=tuple(talk.messages),
        truth=truth,
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


class _Shares:
    """Divides conversations by shares; what is left of a share is carried on, so that any count has nearly all."""

    def __init__(self) -> None:
        self._left: dict[str, float] = {}

    def take(self, kind: str, share: float, most: int) -> int:
        """Returns how many of `most` conversations get a kind, given how many it should be."""
        due = self._left.get(kind, 0.0) + share
        count = max(0, min(most, int(due + 0.5)))
        self._left[kind] = due - count
        return count


def _plans(count: int) -> list[_Plan]:
    """Returns what the conversations are to be: goals in their shares, half of each goal in each month."""
    total = sum(goal.share for goal in TEXTS.goals.values())
    shares, plans = _Shares(), list[_Plan]()
    for name, goal in TEXTS.goals.items():
        size = shares.take("goal", count * goal.share / total, count - len(plans))
        first = shares.take("month", size / 2, size)
        plans += _group(name, 0, first, shares)
        plans += _group(name, 1, size - first, shares)
    return plans


def _group(name: str, month: int, size: int, shares: _Shares) -> Iterator[_Plan]:
    """Yields what the conversations of one goal in one month are to be."""
    free = size
    share_by_failure = {failure: of_goal.get(name, 0.0) for failure, of_goal in _FAILED.items()}
    share_by_failure["timeout"] = (
        _TIMEOUTS if (TEXTS.goals[name].name, month) == (CHANGED_GOAL, 1) else 0.0
    )
    for failure, share in share_by_failure.items():
        count = shares.take(failure, share * size, free) if share else 0
        free -= count
        for _ in range(count):
            yield _Plan(name, month, "failed", failure)
    broken_off = shares.take("broken_off", _BROKEN_OFF * size, free)
    for index in range(free):
        yield _Plan(name, month, "broken_off" if index < broken_off else "complete")


def write_jsonl(conversations: Iterable[Conversation], path: str | PathLike[str]) -> None:
    """Writes the conversations in the uniform form, one JSON object a line, UTF-8."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for conversation in conversations:
            file.write(json.dumps(_record(conversation), ensure_ascii=False) + "\n")


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
