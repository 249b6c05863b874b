"""Whatever the people of a log say, in any format, it is read: text in, text out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.formats.inputs import open_inputs
from engine.formats.records import Parsed
from tests.engine.formats.test_golden import INPUTS

JSON_INPUTS = [path for path in INPUTS if path.suffix in (".json", ".jsonl")]
WORDS = st.text(st.characters(categories=("L", "N", "S", "Z")), min_size=1, max_size=40).map(
    lambda text: " ".join(["said", *text.split(), "so"])
)


def leaves(value: Any, holder: Any = None, key: Any = None) -> Iterator[tuple[Any, Any, str]]:
    """Each text within a value, with what holds it and its key there."""
    if isinstance(value, str):
        yield holder, key, value
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from leaves(entry, value, name)
    elif isinstance(value, list):
        for position, entry in enumerate(value):
            yield from leaves(entry, value, position)


def conversations(path: Path) -> list[Parsed]:
    """The conversations of a file, in the format that the test's file has."""
    (opened,) = open_inputs([path], format=path.name.split(".")[0])
    return [record for record in opened.records() if isinstance(record, Parsed)]


@cache
def golden(path: Path) -> tuple[list[Any], list[Parsed]]:
    """The JSON values of a golden file, and its conversations."""
    raw = path.read_text(encoding="utf-8")
    lines = raw.splitlines() if path.suffix == ".jsonl" else [raw]
    return [json.loads(line) for line in lines], conversations(path)


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=WORDS)
def test_other_words(tmp_path: Path, words: str) -> None:
    """If the messages of a golden file say something else, that is what is read, and nothing goes nowhere."""
    for path in JSON_INPUTS:
        lines, before = golden(path)
        said = {message.content for record in before for message in record.conversation.messages}
        mine = copy.deepcopy(lines)
        new_words: dict[str, str] = {}
        for line in mine:
            for holder, key, text in list(leaves(line)):
                if text in said and len(text) > 8:
                    holder[key] = new_words.setdefault(text, f"{words} {len(new_words)}")
        changed = tmp_path / path.name
        changed.write_text("\n".join(map(json.dumps, mine)), encoding="utf-8")
        after = conversations(changed)
        messages = [message for record in after for message in record.conversation.messages]
        read = {text for message in messages for text in (message.content, message.reasoning)}
        assert read.issuperset(new_words.values()), path.name
        lost = sum(record.account.chars.get("nowhere", 0) for record in before)
        assert sum(record.account.chars.get("nowhere", 0) for record in after) <= lost, path.name
