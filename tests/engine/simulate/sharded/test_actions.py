"""Function calls in a reply: parsed as text, never executed, compared as the function-calling leaderboard
compares them.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import BadInstruction
from engine.simulate.sharded.actions import NotCalls, ParsedCall, read_calls
from engine.simulate.sharded.instruction import Task
from tests.engine.simulate.sharded.bound import bound, score

BOOK = {
    "name": "hotel.book",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string"},
            "nights": {"type": "integer"},
            "budget": {"type": "float"},
            "extras": {"type": "array", "items": {"type": "string"}},
            "guest": {"type": "dict"},
            "rooms": {"type": "array", "items": {"type": "dict"}},
        },
        "required": ["city"],
    },
}
PING = {"name": "ping", "parameters": {"type": "dict", "properties": {"host": {"type": "string"}}}}


def booking(category: str = "simple", **accepted: Any) -> Task:
    """A task whose reference is one call of `hotel.book`."""
    return bound(
        "actions",
        function=[BOOK] if category == "simple" else [BOOK, PING],
        fully_specified_question=[[{"role": "user", "content": "book it"}]],
        reference_answer=[{"hotel.book": accepted}],
        language="Python",
        test_category=category,
    )


literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class TestReading:
    @given(st.dictionaries(st.sampled_from(["a", "b_1", "city"]), literals, min_size=1))
    def test_python_literals_are_read_as_they_are_written(self, arguments: dict[str, Any]) -> None:
        """Any value that Python's repr writes is parsed to an equal value."""
        text = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        assert read_calls(f"[f.g({text})]") == [ParsedCall("f.g", arguments)]

    @pytest.mark.parametrize(
        "text",
        [
            "[a(x=1), b()]",
            "Sure:\n```\na(x=1)\nb()\n```\nDone.",
            "```\nc()\n```\nor rather\n```\n[a(x=1),b()]\n```",
        ],
    )
    def test_brackets_fences_and_lines_are_no_matter(self, text: str) -> None:
        """The same calls are parsed from a list, in a row, on lines, or in the last of several fences."""
        assert [call.name for call in read_calls(text)] == ["a", "b"]

    @pytest.mark.parametrize("text", ["I cannot help.", "[a(x=1), 3]", "a(x=1"])
    def test_anything_else_is_refused(self, text: str) -> None:
        """Prose, statements and unclosed brackets are refused."""
        with pytest.raises(NotCalls):
            read_calls(text)

    def test_nothing_is_run(self) -> None:
        """A call within a value stays text; only sums and products of numbers are evaluated."""
        [call] = read_calls('f(a=__import__("os").getcwd(), b=60 * 5, c=9**9**9, d=name)')
        assert call.arguments == {
            "a": "__import__('os').getcwd()",
            "b": 300,
            "c": "9 ** 9 ** 9",
            "d": "name",
        }


class TestMatching:
    @pytest.mark.parametrize(
        ("call", "right"),
        [
            ("hotel.book(city='New York')", True),
            ("hotel.book(city='new-york.')", True),
            ("hotel.book(city='NYC')", True),
            ("hotel.book()", False),
            ("hotel.book(city='NYC', nights=2)", True),
            ("hotel.book(city='NYC', nights=3)", False),
            ("hotel.book(city='NYC', nights=2.0)", False),
            ("hotel.book(city='NYC', nights=True)", False),
            ("hotel.book(city='NYC', unknown=2)", False),
            ("hotel.book(city='NYC'), hotel.book(city='NYC')", False),
        ],
    )
    def test_names_values_and_types(self, call: str, right: bool) -> None:
        """Any accepted value matches, texts loosely and numbers by type; optional parameters may be missing, unknown
        ones not be there.
        """
        task = booking(city=["New York", "NYC"], nights=["", 2])
        assert score(task, f"[{call}]") == float(right)

    def test_lists_and_dictionaries(self) -> None:
        """Lists match in order, their texts loosely; dictionaries match by key, each with its accepted values."""
        task = booking(
            city=["Rome"],
            extras=[["late check-in", "parking"]],
            guest=[{"name": ["Ada"], "age": ["", 30]}, {"member": 5}],
            rooms=["", [{"beds": [2]}, {"beds": [1]}]],
        )
        start = "hotel.book(city='Rome', extras=['Late Checkin', 'parking'], "
        assert score(task, start + "guest={'name': 'ada'})") == 1.0
        assert (
            score(
                task, start + "guest={'name': 'ada', 'age': 30}, rooms=[{'beds': 2}, {'beds': 1}])"
            )
            == 1.0
        )
        assert score(task, start + "guest={'member': 5})") == 1.0
        assert score(task, start + "guest={'age': 30})") == 0.0
        assert score(task, start + "guest={'name': 'ada', 'x': 1})") == 0.0
        assert (
            score(task, start + "guest={'name': 'ada'}, rooms=[{'beds': 1}, {'beds': 2}])") == 0.0
        )
        swapped = (
            "hotel.book(city='Rome', extras=['parking', 'late checkin'], guest={'name': 'Ada'})"
        )
        assert score(task, swapped) == 0.0

    @given(st.permutations(range(4)))
    def test_parallel_calls_match_in_any_order(self, order: list[int]) -> None:
        """Calls match in any order, even where one call fits several references."""
        cities = [["Rome", "Oslo"], ["Rome"], ["Bern", "Oslo"], ["Oslo"]]
        said = ["Oslo", "Rome", "Bern", "Oslo"]
        task = bound(
            "actions",
            function=[BOOK, PING],
            fully_specified_question="q",
            reference_answer=[{"hotel.book": {"city": accepted}} for accepted in cities],
            language="Python",
            test_category="parallel",
        )
        calls = [f"hotel.book(city='{said[at]}')" for at in order]
        assert score(task, f"[{', '.join(calls)}]") == 1.0
        assert score(task, f"[{', '.join(calls[:3])}]") == 0.0

    @pytest.mark.parametrize(
        "value",
        ["[" * 3000 + "]" * 3000, "9" * 400 + " / 3.5"],
    )
    def test_monstrous_values_are_wrong_and_nothing_worse(self, value: str) -> None:
        """Extremely deep nesting and extremely long numbers score 0 without an exception."""
        task = booking(city=["Rome"], budget=["", 1.0], rooms=["", []])
        for parameter in ("budget", "rooms"):
            assert score(task, f"hotel.book(city='Rome', {parameter}={value})") == 0.0


class TestTask:
    @pytest.mark.parametrize(
        "change",
        [
            {"language": "Java"},
            {"reference_answer": [{"f": {"a": 1}}]},
            {"function": "["},
            {"function": [{**PING, "parameters": {"properties": {"host": "a text"}}}]},
        ],
    )
    def test_bad_keys_are_refused(self, change: dict[str, Any]) -> None:
        """An unknown language, a reference without lists of values, and no functions are refused when the file
        is read.
        """
        keys: dict[str, Any] = {
            "function": [PING],
            "fully_specified_question": "q",
            "reference_answer": [{"ping": {"host": ["h"]}}],
            "language": "Python",
            "test_category": "simple",
        }
        with pytest.raises(BadInstruction):
            bound("actions", **{**keys, **change})
