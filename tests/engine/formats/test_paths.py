"""The path language of mapping files finds what it says, and takes out exactly that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats.mappings.fields import quote_key
from engine.formats.paths import BadPath, read_condition, read_path, without

RECORD: dict[str, Any] = {
    "content": "hi",
    "author": {"role": "user"},
    "parts": [{"type": "text", "text": "a"}, {"type": "image", "url": "u"}, {"type": "text", "text": "b"}],
    "mapping": {"x": {"id": 1}, "y": {"id": 2}},
    "gen_ai.input": '[{"role": "user"}]',
    "user utterance": "hello",
    "task_id": 2,
    "tasks": [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}],
    "nothing": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("content", ["hi"]),
        ("author.role", ["user"]),
        ("parts[].text", ["a", "b"]),
        ("parts[0].text", ["a"]),
        ("parts[-1].text", ["b"]),
        ("parts[7]", []),
        ("parts[type=text].text", ["a", "b"]),
        ("parts[type!=text].url", ["u"]),
        ("parts[type=i*].url", ["u"]),
        ("mapping{}.id", [1, 2]),
        ('"gen_ai.input"[].role', ["user"]),
        ("user utterance", ["hello"]),
        ("tasks[id=@task_id].name", ["two"]),
        ("absent | nothing | content", ["hi"]),
        ("content.deeper", []),
        (".", [RECORD]),
        ("^.model", ["m"]),
    ],
)
def test_what_a_path_finds(path: str, found: list[Any]) -> None:
    """Each form of path finds the values that the table of the docs says."""
    values = [one.value for one in read_path(path).find(RECORD, RECORD, {"model": "m"})]
    assert values == found


@pytest.mark.parametrize("text", ["", "a b.", "a[", "a]b", "[x=]]", 'a"b', "a{x}"])
def test_what_is_no_path(text: str) -> None:
    """What cannot be read raises an error that says from where on."""
    with pytest.raises(BadPath, match=r"cannot be read|needs a dot|is empty|ends with a dot"):
        read_path(text)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("content", True),
        ("nothing", False),
        ("!nothing", True),
        ("content=h*", True),
        ("content!=h*", False),
        ("parts[].type=image", True),
        ("parts[type=text].text=b", True),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    """A condition asks for presence, absence, or a pattern."""
    assert read_condition(condition).holds(RECORD, RECORD) is holds


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


def leaves(value: Any) -> list[Any]:
    """All values that are no list or object and no null."""
    if isinstance(value, dict):
        return [leaf for entry in value.values() for leaf in leaves(entry)]
    if isinstance(value, list):
        return [leaf for entry in value for leaf in leaves(entry)]
    return [] if value is None else [value]


@given(json_values, st.data())
def test_taking_out_leaves_the_rest(value: Any, data: st.DataObject) -> None:
    """What a path of a key finds, and the rest without it, are together the whole."""
    if not isinstance(value, dict) or not value:
        return
    key = data.draw(st.sampled_from(sorted(value)))
    if '"' in key or not key:
        return
    found = read_path(quote_key(key) if key.strip() == key else f'"{key}"').find(value)
    rest = without(value, [one.trail or () for one in found])
    taken = [leaf for one in found for leaf in leaves(one.value)]
    assert sorted(map(repr, [*taken, *leaves(rest)])) == sorted(map(repr, leaves(value)))
