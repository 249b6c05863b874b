"""Words as numbers: what a message gives depends on its text and its speaker alone."""

from __future__ import annotations

import re
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.arrays import Ints
from engine.base.conversation import Kind, LogPiece, Role, ToolCall, step_header, with_calls
from engine.completeness.words import (
    COLUMNS,
    DISTANCES,
    END_LENGTH,
    BoundaryWords,
    MessageWords,
    split_words,
    text_to_read,
)

TEXTS = st.text(st.characters(exclude_categories=()), max_size=40)
"""Any text, unpaired surrogates and NUL among it."""

MESSAGES = st.lists(st.tuples(TEXTS, st.sampled_from(get_args(Role))), max_size=12)


def piece(text: str, role: Role = "user", kind: Kind = "chat") -> LogPiece:
    """A message as a model reads it."""
    return LogPiece(0, role, 1, 1, kind, step_header(1, 1, role, kind), text)


def columns(found: MessageWords, message: int = 0) -> set[int]:
    """The columns of one of these messages."""
    begin, end = found.starts[message : message + 2]
    return set(found.columns[begin:end].tolist())


def of(text: str, role: Role = "user") -> set[int]:
    """The columns of a message alone."""
    return columns(MessageWords.from_pieces([piece(text, role)]))


def spoken(text: str) -> list[str]:
    """The words of a text."""
    found = split_words([text])
    return [
        found.text[first : last + 1].decode()
        for first, last in zip(found.first_byte.tolist(), found.last_byte.tolist(), strict=True)
        if first >= 0
    ]


class TestWords:
    @given(st.lists(st.text(st.characters(max_codepoint=126), max_size=30), min_size=1))
    def test_words_are_found_where_they_stand(self, texts: list[str]) -> None:
        """Runs of letters, digits and `_` are words, and so is each other sign; blanks and control characters are
        none. Equal words, and no others, have equal hashes, wherever they stand."""
        found = split_words(texts)
        hash_by_word: dict[str, int] = {}
        for number, text in enumerate(texts):
            own = (found.message == number) & (found.first_byte >= 0)
            said = [
                found.text[first : last + 1].decode()
                for first, last in zip(found.first_byte[own], found.last_byte[own], strict=True)
            ]
            assert said == re.findall(r"\w+|[!-~]", text, re.ASCII)
            for word, value in zip(said, found.hashes[own].tolist(), strict=True):
                assert hash_by_word.setdefault(word, value) == value
        assert len(set(hash_by_word.values())) == len(hash_by_word)

    def test_scripts_without_blanks_are_read_by_characters(self) -> None:
        """Each character of Chinese, Japanese, Korean and Thai is a word, with or without blanks, so that texts share
        the pairs of two characters that both have."""
        for text in ("退款成功", "ありがとう", "감사합니다", "ขอบคุณ"):
            assert spoken(text_to_read(piece(text))) == list(text)
            assert of(text) == of(" ".join(text))
        assert len(of("我的退款") & of("退款成功")) > len(of("我的款退") & of("退款成功"))
        assert spoken(text_to_read(piece("the 退款 of today"))) == [
            "the",
            "退",
            "款",
            "of",
            "today",
        ]


class TestEnds:
    @given(TEXTS, TEXTS)
    def test_of_a_long_message_both_ends_count_alone(self, middle: str, other: str) -> None:
        """What stands between the ends changes nothing; a message no longer than both is read whole."""
        begin, end = "begin " * (END_LENGTH // 6), " end" * (END_LENGTH // 4)
        assert of(begin + "x" + middle + end) == of(begin + "y" + other + end)
        exact = "x" * 2 * END_LENGTH
        assert spoken(text_to_read(piece(exact))) == [exact]

    def test_tools_are_named_wherever_they_are_called(self) -> None:
        """The names of called tools are read first, also where the calls stand in what is left out; a text that only
        looks like a call names none."""
        calls = tuple(
            ToolCall(name, '{"text": "' + "x" * 2 * END_LENGTH + '"}')
            for name in ("search", "book")
        )
        text = with_calls("I look.", calls)
        read = text_to_read(piece(text, "assistant", "action"))
        assert spoken(read)[:6] == ['"', "search", '"', '"', "book", '"']
        assert not text_to_read(piece(text, "user")).startswith('"search"')


class TestMessages:
    @given(MESSAGES, st.integers(1, 60))
    @settings(deadline=None)
    def test_neither_neighbors_nor_passes_change_words(
        self, messages: list[tuple[str, Role]], size: int
    ) -> None:
        """A message has the columns and the runs that it has alone, whatever is read before and after it, and
        however much is read at once."""
        pieces = [piece(text, role) for text, role in messages]
        whole = MessageWords.from_pieces(pieces)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("engine.completeness.words.MAX_CHARACTERS_PER_PASS", size)
            in_passes = MessageWords.from_pieces(pieces)
        for name in ("columns", "starts", "runs", "run_starts"):
            assert getattr(whole, name).tolist() == getattr(in_passes, name).tolist()
        assert len(whole) == len(pieces)
        for number, one in enumerate(pieces):
            alone = MessageWords.from_pieces([one])
            begin, end = whole.starts[number : number + 2]
            assert whole.columns[begin:end].tolist() == alone.columns.tolist()
            assert (np.diff(alone.columns.astype(int)) > 0).all()
            begin, end = whole.run_starts[number : number + 2]
            assert whole.runs[begin:end].tolist() == alone.runs.tolist()

    def test_runs_of_three_words(self) -> None:
        """Messages share the runs of three words that both have, whoever speaks, and whatever signs stand between; two
        words are no run, and none reaches into the next message."""
        said = [piece("I want a refund now"), piece("so I want, a refund!", "assistant")]
        found = MessageWords.from_pieces([*said, piece("a refund"), piece("now please")])
        assert np.diff(found.run_starts).tolist() == [3, 3, 0, 0]
        first, second = found.runs[:3].tolist(), found.runs[3:].tolist()
        assert len(set(first) & set(second)) == 2


@st.composite
def boundary_words(draw: st.DrawFn) -> BoundaryWords:
    """Words at boundaries, some of them with fewer messages than are read."""
    found = MessageWords.from_pieces([piece(text, role) for text, role in draw(MESSAGES)])
    message = st.integers(-1, len(found) - 1)
    rows = draw(st.lists(st.lists(message, min_size=DISTANCES, max_size=DISTANCES), max_size=6))
    return BoundaryWords(found, np.array(rows, dtype=np.int64).reshape(-1, DISTANCES))


class TestBoundaries:
    @settings(deadline=None)  # the first call imports scipy
    @given(boundary_words(), st.integers(0, 100))
    def test_sums_are_those_of_the_matrix(self, found: BoundaryWords, seed: int) -> None:
        """The weights of the words at a boundary add up to the product with the row of the matrix, and messages that
        are not there add their part."""
        random = np.random.default_rng(seed)
        weights, absent = random.normal(size=DISTANCES * COLUMNS), random.normal(size=DISTANCES)
        expected = found.matrix() @ weights + (found.messages < 0) @ absent
        assert found.sums(weights, absent) == pytest.approx(expected, abs=1e-9)

    def test_each_distance_has_columns_of_its_own(self) -> None:
        """A message gives the same columns at each distance, in another block for each; none where there is none."""
        found = MessageWords.from_pieces([piece("Thanks, that was all.")])
        messages: Ints = np.full((DISTANCES + 1, DISTANCES), -1)
        np.fill_diagonal(messages, 0)
        matrix = BoundaryWords(found, messages).matrix()
        for distance in range(DISTANCES):
            row = set(matrix[[distance]].nonzero()[1].tolist())
            assert row == {distance * COLUMNS + column for column in columns(found)}
        assert matrix[[DISTANCES]].nnz == 0
        assert matrix.max() == 1
