"""Texts for reading: JSON laid out, styles, finding, and the sentence under a curve. All pure."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.completeness.records import CurvePoint
from screens.widgets.curve import Reach, format_reach, reach
from screens.widgets.finding import MAX_HITS, Hit, Hits, find, plain_pattern, words_pattern
from screens.widgets.messages import (
    CODE,
    HEADING,
    KEY,
    KEYWORD,
    MAX_JSON_CHARACTERS,
    MAX_JSON_DEPTH,
    MAX_LINE_CHARACTERS,
    NUMBER,
    STRING,
    STRONG,
    Form,
    pretty_json,
    styles,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
VALUES = st.lists(st.floats(0, 1), max_size=12)


class TestPrettyJson:
    @given(st.lists(JSON, max_size=4) | st.dictionaries(st.text(), JSON, max_size=4), st.booleans())
    def test_means_the_same(self, value: object, ascii_only: bool) -> None:
        """What is laid out is the same JSON, whether letters stood as escapes or not."""
        laid_out = pretty_json(json.dumps(value, ensure_ascii=ascii_only))

        assert laid_out is not None
        assert json.loads(laid_out) == value

    def test_short_things_stay_on_one_line(self) -> None:
        """A short object stays on its line, a longer one is broken at its members and indented."""
        items = [{"id": 7, "price": 12.5}, {"id": 8, "price": 9.99}]

        assert pretty_json('{"id":7}') == '{"id": 7}'
        assert pretty_json(json.dumps({"order": "#W6390527", "items": items})) == (
            '{\n  "order": "#W6390527",\n'
            '  "items": [{"id": 7, "price": 12.5}, {"id": 8, "price": 9.99}]\n}'
        )
        assert all(
            len(line) <= MAX_LINE_CHARACTERS + 20
            for line in (pretty_json(json.dumps(items)) or "").split("\n")
        )

    def test_written_forms_are_kept(self) -> None:
        """Numbers keep their digits, keys their order and repetitions; escaped letters become letters."""
        text = r'{"b": 1.50, "a": 1e400, "a": 12345678901234567890, "é": "\u00e9\n\u001b"}'

        assert pretty_json(text) == (
            '{\n  "b": 1.50,\n  "a": 1e400,\n  "a": 12345678901234567890,\n  "é": "é\\n\\u001b"\n}'
        )

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "plain",
            "[1, 2",
            '{"a": }',
            '"text"',
            "[" * 5_000,
            "[" * (MAX_JSON_DEPTH + 2) + "]" * (MAX_JSON_DEPTH + 2),
        ],
        ids=["empty", "words", "open", "broken", "string", "endless", "deep"],
    )
    def test_what_is_no_json_stays(self, text: str) -> None:
        """What is not a JSON list or object, or goes too deep, is left alone."""
        assert pretty_json(text) is None

    def test_what_is_long_stays(self) -> None:
        """A megabyte of JSON is not parsed on the way to the screen."""
        assert pretty_json(json.dumps(["x" * MAX_JSON_CHARACTERS])) is None


class TestStyles:
    @given(
        st.text(alphabet='ab*_`#>-1. \n{}":~é'),
        st.sampled_from(["plain", "markdown", "json", "call"]),
    )
    def test_spans_are_in_order(self, text: str, form: Form) -> None:
        """Whatever the text, spans lie within it, in order and apart from each other."""
        end = 0
        for start, stop, _ in styles(text, form):
            assert end <= start < stop <= len(text)
            end = stop

    def named(self, text: str, form: Form) -> list[tuple[str, str]]:
        """The styled stretches of a text with their styles."""
        return [(text[start:end], style) for start, end, style in styles(text, form)]

    def test_markdown(self) -> None:
        """Headings, bold and code are styled; a lone asterisk and a name with underscores are not."""
        found = self.named("# Title\nThe **last** `id` of my_own_list is 2 * 3 * 4", "markdown")

        assert found == [("# Title", HEADING), ("**last**", STRONG), ("`id`", CODE)]

    def test_fenced_code(self) -> None:
        """Code between fences is styled by its language, and nothing in it is taken for markdown."""
        found = self.named(
            "Look:\n```python\ndef run(a):\n    return '**a**'\n```\n**b**", "markdown"
        )

        assert ("def", KEYWORD) in found
        assert ("run", KEY) in found
        assert ("**b**", STRONG) in found
        assert all(style != STRONG for text, style in found if "a" in text)

    def test_unknown_language(self) -> None:
        """Code in a language nobody knows is code all the same."""
        assert ("x := 1\n", CODE) in self.named("```klingon\nx := 1\n```", "markdown")

    def test_json(self) -> None:
        """Keys, texts, numbers and constants differ, in tool calls too."""
        assert self.named('→ f {"a": [1, true, "b"]}', "call") == [
            ('"a"', KEY),
            ("1", NUMBER),
            ("true", KEYWORD),
            ('"b"', STRING),
        ]


class TestFinding:
    @given(
        st.lists(st.text(alphabet="aAb \n"), max_size=5),
        st.text(alphabet="ab", min_size=1, max_size=3),
    )
    def test_finds_what_is_there(self, texts: list[str], sought: str) -> None:
        """Every place is found once, in order, in whatever case it is written."""
        pattern = plain_pattern(sought)
        assert pattern is not None
        hits = find(len(texts), lambda at: [texts[at]], pattern)

        expected = []
        for item, text in enumerate(texts):
            at = text.lower().find(sought)
            while at >= 0:
                expected.append(Hit(item, 0, at, at + len(sought)))
                at = text.lower().find(sought, at + len(sought))
        assert list(hits.places) == expected
        assert not hits.more

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 30)), unique=True),
        st.integers(0, 3),
        st.integers(0, 1),
        st.integers(0, 30),
        st.integers(0, 10),
    )
    def test_hits_of_a_line(
        self, starts: list[tuple[int, int, int]], item: int, part: int, start: int, length: int
    ) -> None:
        """The hits that touch a line are those that a look at every hit gives."""
        places = [Hit(i, p, 3 * at, 3 * at + 3) for i, p, at in sorted(starts)]
        end = start + length
        expected = [
            (number, hit)
            for number, hit in enumerate(places)
            if (hit.item, hit.part) == (item, part) and hit.start < end and hit.end > start
        ]

        assert Hits(places).within(item, part, start, end) == expected

    def test_white_space(self) -> None:
        """A text is found across the end of a line; blanks alone find nothing."""
        pattern = plain_pattern("two  words")
        assert pattern is not None
        assert pattern.search("Two\n   words")
        assert plain_pattern("  ") is None
        assert words_pattern([]) is None

    def test_nothing_is_an_expression(self) -> None:
        """What is typed is text: a dot is a dot."""
        pattern = plain_pattern("a.c(")
        assert pattern is not None
        assert [found.start() for found in pattern.finditer("abc( a.c(")] == [5]

    def test_signs_are_words(self) -> None:
        """In a script without spaces a word is found inside a run, and another word right after a sign."""
        pattern = words_pattern(["音乐", "phone"])
        assert pattern is not None
        assert [m.group() for m in pattern.finditer("学音乐，用Phone和iPhone")] == ["音乐", "Phone"]

    def test_words_of_a_filter(self) -> None:
        """Words of a filter are found at the beginning of words, as the list's search finds them."""
        pattern = words_pattern(["fund", "refund please"])
        assert pattern is not None
        text = "Refund please, the funds; a refund."
        assert [found.group() for found in pattern.finditer(text)] == ["Refund please", "fund"]

    def test_signs_of_a_filter(self) -> None:
        """Signs of a filter are found after a letter too, as the list's search finds them."""
        pattern = words_pattern(["?", "c++"])
        assert pattern is not None
        assert [found.group() for found in pattern.finditer("Is it C++? abc++")] == ["C++", "?"]

    def test_counting_stops(self) -> None:
        """Ten thousand hits are enough, and the count says that there are more."""
        pattern = re.compile("a")
        hits = find(1, lambda _: ["a" * (MAX_HITS + 1)], pattern)

        assert hits.count_text(2) == "3 of 10,000+"

    def test_walking(self) -> None:
        """From a place one goes to the hit after or before it, and around the ends."""
        hits = Hits([Hit(1, 0, 0, 2), Hit(3, 0, 0, 2), Hit(5, 0, 0, 2)])
        here = Hit(3, 0, 0, 0)

        assert (hits.step(None, 1, here), hits.step(None, -1, here)) == (1, 0)
        assert (hits.step(2, 1, here), hits.step(0, -1, here)) == (0, 2)
        assert hits.step(None, 1, Hit(9, 0, 0, 0)) == 0
        assert [hits.count_text(None), hits.count_text(0), Hits().count_text(None)] == [
            "3 hits",
            "1 of 3",
            "nothing found",
        ]


def points(*values: float) -> list[CurvePoint]:
    """Boundaries at turns 1, 2, … with these normalized scores."""
    return [CurvePoint(3 * at, 3 * at, at, p, 1 - p) for at, p in enumerate(values, 1)]


class TestReach:
    @given(VALUES, st.floats(0.05, 0.95))
    def test_last_stretch(self, values: list[float], threshold: float) -> None:
        """From `reached` to `fell` the curve holds the threshold, just before it does not, after it never again."""
        found = reach(values, threshold)

        if found is None:
            assert all(value < threshold for value in values)
            return
        end = len(values) if found.fell is None else found.fell
        assert all(value >= threshold for value in values[found.reached : end])
        assert all(value < threshold for value in values[end:])
        assert found.reached == 0 or values[found.reached - 1] < threshold
        changes = re.findall("1+", "".join("01"[value >= threshold] for value in values))
        assert found.before == len(changes) - 1

    @pytest.mark.parametrize(
        ("values", "last_turn", "said"),
        [
            ((0.1, 0.2, 0.7, 0.9), 6, "reached at turn 3, 3 turns after it"),
            ((0.1, 0.2, 0.7), 4, "reached at turn 3, 1 turn after it"),
            ((0.1, 0.2, 0.7), 3, "reached at turn 3, the last"),
            ((0.1, 0.5, 0.4, 0.4), 4, "reached at turn 2, fell again at turn 3 (reopened)"),
            ((0.6, 0.1, 0.8), 3, "reached at turn 3 (and once before), the last"),
            (
                (0.6, 0.1, 0.8, 0.1, 0.9, 0.2),
                6,
                "reached at turn 5 (and 2 times before), fell again at turn 6 (reopened)",
            ),
            ((0.1, 0.31, 0.2), 3, "never reached, highest .31 at turn 2"),
            ((), 3, ""),
        ],
    )
    def test_words(self, values: tuple[float, ...], last_turn: int, said: str) -> None:
        """The sentence says where the threshold was reached, what came after, and whether it was lost again."""
        assert format_reach(points(*values), 0.5, last_turn) == said

    def test_the_threshold_counts_as_reached(self) -> None:
        """A value at the threshold has reached it."""
        assert reach([0.2, 0.5], 0.5) == Reach(1, None, 0)
