"""The demo's conversations, generated once for all tests of this folder."""

from __future__ import annotations

from functools import cache

from engine.base.conversation import Conversation
from engine.simulate.demo.samples import sample_conversations


@cache
def corpus() -> tuple[Conversation, ...]:
    """What the demo imports: 120 conversations of the default seed."""
    return tuple(sample_conversations())


def truth(conversation: Conversation, key: str) -> object:
    """One entry of a conversation's truth."""
    assert conversation.truth is not None
    return conversation.truth[key]


def in_domain(domain: str) -> list[Conversation]:
    """The conversations of one domain."""
    return [c for c in corpus() if truth(c, "domain") == domain]


def with_outcome(outcome: str) -> list[Conversation]:
    """The conversations with this outcome."""
    return [c for c in corpus() if truth(c, "outcome") == outcome]
