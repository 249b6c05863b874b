"""Extracted answers occur in the reply word for word."""

from __future__ import annotations

import pytest

from engine.simulate.sharded.play import find_quoted_part
from tests.engine.simulate.sharded.scripted import ScriptedReplies, played, scenario

SQL = "Try this:\n```sql\nSELECT name FROM town\nWHERE size > 4;\n```\nDone."


class TestLocated:
    @pytest.mark.parametrize(
        ("answer", "found"),
        [
            ("SELECT name FROM town\nWHERE size > 4;", "SELECT name FROM town\nWHERE size > 4;"),
            ("  WHERE size > 4;\n", "WHERE size > 4;"),
            ("SELECT name FROM [...] size > 4;", "SELECT name FROM town\nWHERE size > 4;"),
            ("SELECT name ... > 4;", "SELECT name FROM town\nWHERE size > 4;"),
            ("SELECT name … 4;", "SELECT name FROM town\nWHERE size > 4;"),
            ("SELECT [...] town [...] 4;", "SELECT name FROM town\nWHERE size > 4;"),
            ("SELECT Name FROM town", None),
            ("4; [...] SELECT", None),
            ("[...] 4;", None),
            ("SELECT [...]", None),
            ("", None),
        ],
    )
    def test_spans(self, answer: str, found: str | None) -> None:
        """An answer of start and end is all text between them; both must occur, in that order."""
        assert find_quoted_part(answer, SQL, allow_ellipsis=True) == found

    def test_ellipsis_counts_only_where_spans_do(self) -> None:
        """An ellipsis in a copied answer is refused where the task does not allow start and end."""
        assert find_quoted_part("SELECT [...] 4;", SQL, allow_ellipsis=False) is None


class TestTries:
    def test_three_tries_with_rising_temperature(self) -> None:
        """An answer that does not occur in the reply is asked for up to twice more, with another seed and a higher
        temperature.
        """
        speakers = ScriptedReplies(
            {"assistant": ["She has 8."], "extract": [{"answer": "9"}, "cut {", {"answer": "8"}]}
        )
        ending = played(scenario("full"), speakers)
        assert ending.result["score"] == 1
        calls = speakers.of("extract")
        assert [call.sampling.temperature for call in calls] == [0.0, 0.5, 1.0]
        assert len({call.seed for call in calls}) == 3
