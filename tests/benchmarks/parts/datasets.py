"""Sample conversations for the bench, as logs to score and as a file to import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.base.conversation import Conversation, Message, render_log
from engine.completeness.boundaries import boundaries
from engine.completeness.scoring import LogItem, log_item
from engine.jobs.contract import blocks
from engine.simulate.demo import sample_conversations, write_jsonl


def scoring_blocks(chars: int) -> list[list[LogItem]]:
    """Whole sample conversations of up to so many characters, in the blocks that a scoring run makes of them."""
    items: list[LogItem] = []
    lengths: list[int] = []
    for conversation in sample_conversations():
        found = log_item(render_log(conversation.messages))
        length = sum(map(len, found.texts))
        if found.boundaries and sum(lengths) + length <= chars:
            items.append(found)
            lengths.append(length)
    return [[items[i] for i in block] for block in blocks(range(len(items)), lengths)]


def long_items(count: int, turns: int = 10) -> list[LogItem]:
    """Conversations with so many boundaries each, made of sample conversations of one world."""
    worlds: dict[str, list[Conversation]] = {}
    for conversation in sample_conversations():
        worlds.setdefault(conversation.external_id.split("-")[0], []).append(conversation)
    found: list[LogItem] = []
    rows = [_joined(world, turns) for world in worlds.values()]
    while len(found) < count:
        found.extend(next(row) for row in rows)
    return found[:count]


def _joined(world: Sequence[Conversation], turns: int) -> Iterator[LogItem]:
    messages: list[Message] = []
    for conversation in world:
        messages += [m for m in conversation.messages if m.role != "system" or not messages]
        pieces = render_log(messages)
        ends = boundaries(pieces)
        if len(ends) >= turns:
            yield log_item(pieces[: ends[turns - 1] + 1])
            messages = []


def write_import_file(path: Path, messages: int) -> None:
    """Writes at least so many messages in the uniform form; sample conversations repeated, each a little different."""
    samples = sample_conversations()
    made: list[Conversation] = []
    held = number = 0
    while held < messages:
        sample = samples[number % len(samples)]
        made.append(_variant(sample, number))
        held += len(sample.messages)
        number += 1
    write_jsonl(made, path)


def _variant(sample: Conversation, number: int) -> Conversation:
    messages = tuple(
        replace(m, content=f"{m.content} (case {number})") if m.role == "user" else m
        for m in sample.messages
    )
    return replace(sample, external_id=f"{sample.external_id}-{number}", messages=messages)
