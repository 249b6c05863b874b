"""The record of a play is a log in the published format, and is imported as one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.simulate.sharded.instruction import TASKS, read_instructions
from engine.simulate.sharded.play import Condition
from tests.engine.simulate.sharded.scripted import ScriptedReplies, attempt, played, scenario
from tests.shared_data import original_files

GOLDEN = Path(__file__).parent / "golden_logs.jsonl"
PUBLISHED = [
    path for path in original_files("lost_in_conversation") if path.name.startswith("logs")
]
INSTRUCTIONS = [
    path
    for path in original_files("lost_in_conversation")
    if path not in PUBLISHED and json.loads(path.read_text("utf-8"))[0]["task"] in TASKS
]
TEXTS = {
    "user": "[[CONVERSATION_SO_FAR]] [[SHARDS_REVEALED]] [[SHARDS_NOT_REVEALED]]",
    "classify": "[[INITIAL_SHARD]] [[SHARDS]] [[ANSWER_DESCRIPTION]] [[CONVERSATION_SO_FAR]]",
    "extract": "[[ANSWER_DESCRIPTION]] [[CONVERSATION_SO_FAR]]",
    "recap": "All of it: [[SAMPLE_TEXT]]",
    "snowball": "Again:\n[[EARLIER]]\n\n[[NEW]]\n",
}
"""Prompts of the golden file: an edit of the real ones changes every `conv_id`."""

REPLIES: dict[str, list[Any]] = {
    "assistant": ["Which Bo?", "It is 3.", "It is 8.", "Still 8."],
    "classify": [attempt("clarification"), attempt(), attempt(), attempt()],
    "extract": [{"answer": "3"}, {"answer": "8"}, {"answer": "8"}],
    "user": [
        {"response": "bo has 4", "shard_id": 2},
        {"response": "twice that", "shard_id": 3},
    ],
}
ALONE: dict[str, list[Any]] = {"assistant": ["It is 8."], "extract": [{"answer": "8"}]}
EACH: dict[Condition, Mapping[str, list[Any]]] = {
    "full": ALONE,
    "concat": ALONE,
    "shuffle-concat": ALONE,
    "sharded": REPLIES,
    "recap": REPLIES,
    "snowball": REPLIES,
}


def made(condition: Condition) -> dict[str, Any]:
    """The record of a play under a condition, always with the same replies."""
    speakers = ScriptedReplies(
        {module: list(replies) for module, replies in EACH[condition].items()}
    )
    ending = played(scenario(condition, texts=TEXTS), speakers)
    assert ending.record is not None
    return dict(ending.record)


def shape(record: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """Types and fields: of the record, then of each item of its trace."""
    yield f"record of {record['conv_type']}", frozenset(record)
    for item in record["trace"]:
        content = item["content"]
        note = isinstance(content, dict)
        named = content["type"] if note else item["role"]
        turns = "one turn" if record["user_model"] == "NA" else "turns"
        yield f"{named} in {turns}", frozenset(item)
        if note:
            yield f"content of {named}", frozenset(content)


def test_golden() -> None:
    """The records are, field by field and in order, those of the golden file."""
    lines = [json.dumps(made(condition), ensure_ascii=False) for condition in EACH]
    assert "\n".join(lines) + "\n" == GOLDEN.read_text("utf-8")


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_fields_are_the_published_ones(path: Path) -> None:
    """Records, messages and notes have exactly the fields of the published logs' format, without costs."""
    published: dict[str, frozenset[str]] = {}
    for line in path.read_text("utf-8").splitlines():
        published.update({name: fields - {"cost_usd"} for name, fields in shape(json.loads(line))})
    ours: dict[str, frozenset[str]] = {}
    for condition in EACH:
        ours.update(shape(made(condition)))
    assert {name: ours[name] for name in published} == published


@pytest.mark.parametrize("path", INSTRUCTIONS, ids=lambda path: path.name)
def test_published_instructions_are_read(path: Path) -> None:
    """The published instructions are read, and written unchanged."""
    text = path.read_text("utf-8")
    assert [one.record() for one in read_instructions(text)] == json.loads(text)
