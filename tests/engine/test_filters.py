"""The filter language: parsing, errors, completion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import WorkbenchError
from engine.filters import FIELDS, TEXT, Filter, FilterError, Term, completions, parse_filter


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
            Term(TEXT, ":", ("card gone",), whole=True),
            Term(TEXT, ":", ("r",)),
        )

    def test_nothing_matches_everything(self) -> None:
        """An empty line is a filter without terms, whose truth value is false."""
        assert parse_filter("  ") == Filter()
        assert not parse_filter("")

    def test_equals_is_colon_and_case_of_choices_does_not_matter(self) -> None:
        """`State=Complete` is `state:complete`."""
        assert parse_filter("State=Complete") == parse_filter("state:complete")

    def test_what_is_quoted_is_text(self) -> None:
        """A field name inside quotation marks is a word to search for."""
        assert parse_filter('"state:x"').terms == (Term(TEXT, ":", ("state:x",), whole=True),)

    def test_a_quoted_value_may_hold_commas_and_spaces(self) -> None:
        """Quotation marks keep a value in one piece."""
        assert parse_filter('source:"a, b",c').terms == (Term("source", ":", ("a, b", "c")),)

    @given(st.text(max_size=40))
    def test_any_text_is_read_or_refused_with_a_place(self, text: str) -> None:
        """Any text is parsed, and then written back to the same filter, or refused with a position."""
        found = read(text)

        if isinstance(found, FilterError):
            assert 0 <= found.at <= len(text)
            assert found.hint
        else:
            assert parse_filter(str(found)) == found


class TestRefusing:
    @pytest.mark.parametrize(
        ("text", "at", "told"),
        [
            ("colour:red", 0, "no field"),
            ("turns>5 state:done", 14, "no value"),
            ("turns:many", 6, "no value"),
            ("state>complete", 5, "compared"),
            ("p>", 2, "needs a value"),
            ("state:complete,", 6, "needs a value"),
            ('a "b', 2, "not closed"),
            ("date>tomorrow", 5, "no value"),
            ("turns>-1", 6, "no value"),
            ("p:nan", 2, "no value"),
            ("-draw:.1", 6, "never just that"),
            ('""', 0, "Nothing"),
        ],
    )
    def test_an_error_says_where(self, text: str, at: int, told: str) -> None:
        """Each kind of error has its position and the right form."""
        with pytest.raises(FilterError) as caught:
            parse_filter(text)

        assert caught.value.at == at
        assert told in caught.value.message
        assert isinstance(caught.value, WorkbenchError)


class TestCompleting:
    def test_an_empty_line_offers_all_fields(self) -> None:
        """For an empty line every field is offered with its meaning."""
        assert len(completions("", 0, {})) == len(FIELDS)

    def test_values_of_the_field_at_the_cursor(self) -> None:
        """After a comma the next alternative is offered, replacing what was typed of it."""
        text = "turns>2 state:complete,inc"

        assert [(c.start, c.text) for c in completions(text, len(text), {})] == [(23, "incomplete")]

    def test_values_that_occur_in_the_project(self) -> None:
        """Sources with spaces are offered quoted."""
        found = completions("-source:", 8, {"source": [("a b.json", 3), ("web", 2)]})

        assert [c.text for c in found] == ['"a b.json"', "web"]

    def test_nothing_inside_quotation_marks(self) -> None:
        """Text that is searched for is not completed."""
        assert completions('"sta', 4, {}) == []
