"""Untrusted text becomes safe for a terminal."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from engine.base.text import (
    as_json,
    display_safe,
    end_of_path,
    one_line,
    whole_words,
    without_markup,
)
from tests.terminal.output import cells

ANY_TEXT = st.text(st.characters(codec=None), max_size=200) | st.text(
    st.sampled_from("a\u0301\u0301\u200d\ufe0f\x1b\x9b\u202e\u2066\U0001f469\U0001f680\r\n\t\ud800")
)


@given(ANY_TEXT)
def test_no_control_character_survives(text: str) -> None:
    """Of the control, format and surrogate characters only tab and newline remain, whatever came in."""
    for character in display_safe(text):
        if character not in "\t\n":
            assert unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
            assert unicodedata.bidirectional(character) not in (
                "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "BN",
            )  # fmt: skip


@given(ANY_TEXT)
def test_safe_text_stays_as_it_is(text: str) -> None:
    """What has been made safe once is not changed again."""
    once = display_safe(text)
    assert display_safe(once) == once


def test_escape_sequence_becomes_visible() -> None:
    """An escape sequence is shown as its picture and its letters instead of acting on the terminal."""
    assert display_safe("\x1b[2J\x9b31m\x07") == "\u241b[2J\ufffd31m\u2407"


def test_bidirectional_override_becomes_visible() -> None:
    """Bidirectional controls are replaced by a visible character."""
    assert display_safe("abc\u202edef") == "abc\ufffddef"


def test_emoji_stay() -> None:
    """Emoji remain; joined ones are split into their parts, since terminals disagree about the width."""
    assert display_safe("done \U0001f680") == "done \U0001f680"
    assert display_safe("\U0001f469\u200d\U0001f680") == "\U0001f469\U0001f680"
    assert display_safe("\u2764\ufe0f") == "\u2764"


@pytest.mark.parametrize(
    "marks",
    [
        "\u0301",
        "\u0489\u0301",
        "\u0e31",
        "\u05b0\u0591",
        "\u20dd",
        "\u1161",
        "\u093e",
        "\U0001e944",
    ],
    ids=["accents", "mixed", "Thai", "Hebrew", "enclosing", "Korean vowels", "spacing", "Adlam"],
)
def test_flood_of_combining_marks_is_cut(marks: str) -> None:
    """A letter keeps eight of its combining marks, in any script, with a sign that it had more."""
    kept = (marks * 8)[:8]
    assert display_safe("a" + marks * 5_000 + "b") == f"a{kept}\ufffdb"
    assert display_safe(f"a{kept}b") == f"a{kept}b"


def test_what_terminals_draw_in_different_widths_is_made_plain() -> None:
    """Flags become letters, skin tones and variation selectors are dropped, so that every terminal agrees on
    the width.
    """
    assert display_safe("to \U0001f1e9\U0001f1ea!") == "to DE!"
    assert display_safe("\U0001f44d\U0001f3fd") == "\U0001f44d"
    assert display_safe("1\ufe0f\u20e3") == "1\u20e3"


@pytest.mark.parametrize(
    "unit", ["word ", "\u65e5\u672c", "\u0301", "\x1b[31m", "\U0001f469\u200d"]
)
def test_width_after_making_safe_is_the_sum_of_its_parts(unit: str) -> None:
    """Textual's width of a safe text is the sum of the widths of its characters."""
    safe = display_safe(f"a{unit * 300}z")
    assert cell_len(safe) == sum(map(cells, safe))


@given(ANY_TEXT, st.integers(1, 40))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    """A preview has no line break and never more characters than asked for."""
    line = one_line(text, limit)
    assert len(line) <= limit
    assert not {"\n", "\t", "\r"} & set(line)


def test_cut_paths_of_different_folders_differ() -> None:
    """A path that is too long keeps its end, from a folder on if that fits; of a long file name also its folder."""
    assert end_of_path("/logs/a.jsonl", 24) == "/logs/a.jsonl"
    assert end_of_path("/home/me/logs/april/a.jsonl", 18) == "…/april/a.jsonl"
    name = "conversations-of-the-support-desk.jsonl"
    assert end_of_path(f"/logs/april/{name}", 24) == "april/…upport-desk.jsonl"
    assert end_of_path(name, 12) == "…-desk.jsonl"


@given(ANY_TEXT, st.integers(8, 40))
def test_end_of_path_is_one_short_line(text: str, limit: int) -> None:
    """The end of a path has no line break and never more characters than asked for."""
    line = end_of_path(text, limit)
    assert len(line) <= limit
    assert not {"\n", "\t", "\r"} & set(line)


def test_one_line_marks_what_it_cuts() -> None:
    """A cut preview ends in an ellipsis; a short text is whole, with runs of white space made one space."""
    assert one_line("abcdef", 4) == "abc\u2026"
    assert one_line("  a \n b ", 10) == "a b"


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("my debit card", 20, "my debit card"),
        ("my debit card", 12, "my debit …"),
        ("my debit", 8, "my debit"),
        ("transferring", 8, "transfe…"),
    ],
)
def test_whole_words_are_not_cut(text: str, limit: int, cut: str) -> None:
    """A text is cut between words; only a first word that is too long is cut itself."""
    assert whole_words(text, limit) == cut


@given(st.recursive(ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
def test_json_says_the_same_without_anything_that_acts(value: object) -> None:
    """JSON for a terminal is parsed back to the same value and can be written in every encoding of Unicode."""
    written = as_json(value)
    assert json.loads(written) == value
    assert not _acts(written.encode("utf-8").decode())


def _acts(text: str) -> bool:
    return any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text if c != "\n")


def test_markup_is_taken_off_html_only() -> None:
    """A text that is HTML as a whole becomes its lines; one that only has some HTML in it stays as it is."""
    body = '<div style="x"><style>p {}</style><p>I want to <b>cancel</b> &amp; leave</p>\n<br><p>Bye</p></div>'
    assert without_markup(body) == "I want to cancel & leave\nBye"
    for text in ("How do I close a <div>?", "<div> does not close", "<br>", "a < b and c > d>"):
        assert without_markup(text) == text
