"""Maths tasks: the number in an answer is compared with the number after ####."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import last_number
from tests.engine.simulate.sharded.bound import bound, score


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("16", "16"),
        ("-3", "-3"),
        ("first 4, then 16 apples", "16"),
        ("The total is $1,234,567.", "1234567"),
        ("That is $18.00", "18"),
        ("It costs 18.00", "18.00"),
        ("16.", "16"),
        ("it is 16...", "16.."),
        ("16 ... done", ".."),
        ("no digits at all", None),
    ],
)
def test_the_last_number_is_found_by_the_published_pattern(text: str, number: str | None) -> None:
    """Pattern and stripping of `,`, `$` and one final dot are those of the source, quirks included."""
    assert last_number(text) == number


@given(
    st.integers(-(10**12), 10**12), st.sampled_from(["{}", "{:,}", "is {}.", "= **{:,}** in all"])
)
def test_a_whole_number_is_right_however_it_is_written(number: int, form: str) -> None:
    """With or without separators of thousands, a final dot or emphasis, the gold number scores 1."""
    task = bound("math", question="q", answer=f"because #### {number:,}")
    assert score(task, form.format(number)) == 1.0


def test_an_answer_without_the_mark_is_refused_when_the_file_is_read() -> None:
    """An instruction whose answer has no #### cannot be scored and says so."""
    with pytest.raises(BadInstruction, match="####"):
        bound("math", question="q", answer="16")
