"""The filter language: parsing, errors, completion."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.conversation import State
from engine.base.errors import FilterError, WorkbenchError
from engine.base.sign import Sign
from engine.conversations.filter_completion import completions
from engine.conversations.filter_fields import FIELDS, WORD_FIELD
from engine.conversations.filters import Filter, Term, parse_filter

PIECES = (
    *("meta.", "truth.", "goal", "since", "max_logprob", "p", "a", "é b", "2026-10", "1.5"),
    *(":", "<", ">=", "=", ",", "..", "-", '"', " ", "any", "*"),
)


def read(text: str) -> Filter | FilterError:
    try:
        return parse_filter(text)
    except FilterError as error:
        return error


class TestReading:
    def test_a_line_of_terms(self) -> None:
        """Fields, comparisons, negation, alternatives, ranges and words can be combined."""
        found = parse_filter('state:incomplete,borderline turns>5 -tag:spam p:.2...4 "card gone" r')

        assert found.terms == (
            Term("state", ":", ("incomplete", "borderline")),
            Term("turns", ">", ("5",)),
            Term("tag", ":", ("spam",), negated=True),
            Term("p", ":", (".2", ".4"), span=True),
            Term(WORD_FIELD, ":", ("card gone",), whole=True),
            Term(WORD_FIELD, ":", ("r",)),
        )

    def test_nothing_matches_everything(self) -> None:
        """An empty line is a filter without terms, whose truth value is false."""
        assert parse_filter("  ") == Filter()
        assert not parse_filter("")

    @pytest.mark.parametrize("state", State)
    def test_a_state_is_read_by_its_word_and_its_value(self, state: State) -> None:
        """`state:broken-off`, `state:"broken off"` and `state:incomplete` are one filter, written with the word."""
        found = parse_filter(f"state:{state.value}")

        assert found.terms == (Term("state", ":", (state,)),)
        assert parse_filter(f'state:"{state.word}"') == found == parse_filter(str(found))
        assert str(found) == f"state:{state.word.replace(' ', '-')}"

    def test_a_sign_is_read_by_its_words(self) -> None:
        """`sign:"refusal or apology"`, as lists show it, is `sign:refused`; a refusal names all signs."""
        for sign in Sign:
            assert str(parse_filter(f'sign:"{sign.words}"')) == f"sign:{sign}"
        assert str(getattr(read("sign:sad"), "hint", "")).startswith("One of refused, ")

    def test_the_page_has_every_field(self) -> None:
        """docs/filters.md has each field in its table, and no other."""
        page = Path(__file__).parents[3] / "docs" / "filters.md"
        section = page.read_text(encoding="utf-8").partition("## Fields")[2].partition("\n## ")[0]
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        told = {name.partition(".")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
        assert told == set(FIELDS)

    @given(st.text(max_size=40))
    def test_any_text_is_read_or_refused_with_a_place(self, text: str) -> None:
        """Any text is parsed, and then written back to the same filter, or refused with a position."""
        found = read(text)

        if isinstance(found, FilterError):
            assert 0 <= found.at <= len(text)
            assert found.hint
        else:
            assert parse_filter(str(found)) == found

    @given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
    def test_pieces_of_the_language_are_read_or_refused_with_a_place(self, text: str) -> None:
        """The same for lines made of fields, keys, signs, quotation marks and values, and completing them is safe."""
        found = read(text)

        if isinstance(found, FilterError):
            assert 0 <= found.at <= len(text)
        else:
            assert parse_filter(str(found)) == found
        for cursor in range(len(text) + 1):
            for one in completions(text, cursor, {"meta": [("a b", 1)], "goal": [("pay, now", 2)]}):
                assert 0 <= one.start <= cursor

    def test_fields_of_metadata_and_truth(self) -> None:
        """Keys keep their case and may be quoted; numbers and dates have ranges, quoted values have none."""
        found = parse_filter('meta."User plan":pro truth.reward:0..1 meta.v:"1..2" meta.v<"a b"')

        assert found.terms == (
            Term("meta.User plan", ":", ("pro",)),
            Term("truth.reward", ":", ("0", "1"), span=True),
            Term("meta.v", ":", ("1..2",)),
            Term("meta.v", "<", ("a b",)),
        )
        assert parse_filter(str(found)) == found

    def test_short_forms(self) -> None:
        """`since` and `until` are read as the terms that they are short for."""
        assert str(parse_filter("since:2026-10 until:2026")) == ("date>=2026-10 date<=2026")


class TestRefusing:
    @pytest.mark.parametrize(
        ("text", "at", "told"),
        [
            ("turs:red", 0, "no field"),
            ("turns>5 state:done", 14, "no value"),
            ("turns:many", 6, "no value"),
            ("state>complete", 5, "compared"),
            ("p>", 2, "needs a value"),
            ("state:complete,", 6, "needs a value"),
            ('a "b', 2, "not closed"),
            ("date>tomorrow", 5, "no value"),
            ("date:2026-W54", 5, "no value"),
            ("date:2026-02-30", 5, "no value"),
            ("since:2026-13", 6, "no value"),
            ("turns>-1", 6, "no value"),
            ("p:nan", 2, "no value"),
            ("-draw:.1", 6, "never just that"),
            ("meta:web", 0, "name of a field"),
            ("since:2026..2027", 6, "no value"),
            ("tool<x", 4, "compared"),
            ('rude@"Ana B":no', 5, "who answered"),
            ("leaves>-1", 7, "no value"),
            ("like:any", 5, "no value"),
            ("like:none", 5, "no value"),
            ('""', 0, "Nothing"),
            ('a -"  "', 3, "Nothing"),
            ("a - tag:b", 2, "without a space"),
            ('-""', 0, "without a space"),
            ("--force", 0, "without a space"),
        ],
    )
    def test_an_error_says_where(self, text: str, at: int, told: str) -> None:
        """Each kind of error has its position and the right form."""
        with pytest.raises(FilterError) as caught:
            parse_filter(text)

        assert caught.value.at == at
        assert told in caught.value.message
        assert isinstance(caught.value, WorkbenchError)

    def test_a_field_that_is_not_there_names_near_ones(self) -> None:
        """A slip of the pen is answered with the fields that it may have been."""
        with pytest.raises(FilterError) as caught:
            parse_filter("goals:pay")

        assert "goal" in caught.value.hint.split("?")[0]


class TestCompleting:
    def test_values_of_the_field_at_the_cursor(self) -> None:
        """After a comma the next alternative is offered, replacing what was typed of it."""
        text = "turns>2 state:ended,bro"

        assert [(c.start, c.text) for c in completions(text, len(text), {})] == [(20, "broken-off")]

    def test_values_with_their_counts(self) -> None:
        """A value is offered with its count, also by a word inside it and while its quotation mark is open."""
        known = {"goal": [("book a flight", 5), ("pay", 2)]}

        for text in ("goal:flight", 'state:complete goal:"book a'):
            (found,) = completions(text, len(text), known)
            assert (found.text, found.count) == ('"book a flight"', 5)
            assert text[found.start - 5 : found.start] == "goal:"

    def test_keys_of_the_metadata(self) -> None:
        """After the dot the keys are offered, and go on with a value."""
        found = completions("-meta.pl", 8, {"meta": [("plan", 7), ("channel", 1)]})

        assert [(c.start, c.text, c.is_partial) for c in found] == [(1, "meta.plan:", True)]
