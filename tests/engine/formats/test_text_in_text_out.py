"""Whatever the people of a log say, in any format, it is read: text in, text out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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


@pytest.mark.parametrize("path", JSON_INPUTS, ids=lambda path: path.name)
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_other_words(path: Path, tmp_path: Path, data: st.DataObject) -> None:
    """If a message of a golden file says something else, that is what is read, and nothing goes nowhere."""
    raw = path.read_text(encoding="utf-8")
    lines = (
        [json.loads(line) for line in raw.splitlines()]
        if path.suffix == ".jsonl"
        else [json.loads(raw)]
    )
    before = conversations(path)
    said = {message.content for record in before for message in record.conversation.messages}
    mine = copy.deepcopy(lines)
    places = [
        place for line in mine for place in leaves(line) if place[2] in said and len(place[2]) > 8
    ]
    if not places:
        return
    text = places[data.draw(st.integers(0, len(places) - 1))][2]
    words = data.draw(WORDS)
    for holder, key, here in places:
        if here == text:
            holder[key] = words
    changed = tmp_path / path.name
    written = "\n".join(map(json.dumps, mine)) if path.suffix == ".jsonl" else json.dumps(mine[0])
    changed.write_text(written, encoding="utf-8")
    after = conversations(changed)
    messages = [message for record in after for message in record.conversation.messages]
    assert any(words in (message.content, message.reasoning or "") for message in messages)
    lost = sum(record.account.chars.get("nowhere", 0) for record in before)
    assert sum(record.account.chars.get("nowhere", 0) for record in after) <= lost
