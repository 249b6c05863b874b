"""Records of every format in which anything was replaced or taken away are read or rejected; nothing is raised."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.formats.reading import read
from tests.engine.formats.test_golden import INPUTS
from tests.engine.formats.test_hostile import JSON, check, places

JSON_INPUTS = [path for path in INPUTS if path.suffix in (".json", ".jsonl")]


def records(path: Path) -> list[Any]:
    """The JSON values of a golden input."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return [json.loads(text)]
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("path", JSON_INPUTS, ids=lambda path: path.name)
@settings(max_examples=25)
@given(data=st.data())
def test_mutated_golden_records(path: Path, data: st.DataObject) -> None:
    """A golden input with one to four values replaced or taken away gives conversations or rejected records."""
    values = copy.deepcopy(records(path))
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.sampled_from(sorted(places(values), key=str) or [()]))
        if not where:
            break
        parent = values
        for key in where[:-1]:
            parent = parent[key]
        if data.draw(st.booleans()):
            parent[where[-1]] = data.draw(JSON)
        else:
            del parent[where[-1]]
    rows = b"\n".join(json.dumps(value).encode() for value in values)
    for record in read(rows, path.name.split(".")[0]):
        check(record)
