"""The targets that a run learns from a log, by recipe."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import DataError
from engine.completeness.scoring import LogItem
from engine.training.config import FIRST_WORDS_TOKENS, Recipe, TrainConfig
from engine.training.events import RunDirectory
from tests.training.tiny_runs import item
from training.base import HubTokenizer
from training.examples import Example, make_example, read_datasets, read_logs

END = 2


class CharacterTokenizer:
    """A tokenizer with one token a character; the end token is no character of a text."""

    end_token = END
    stop_tokens = frozenset([END])

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """Code points, with numbers other than the end token's."""
        return [ord(letter) + 10 for letter in text]

    def token_bytes(self, token: int) -> bytes:
        """The letter."""
        return chr(token - 10).encode()

    def render_chat(self, messages: object) -> str:
        """Raises: there is no chat here."""
        raise NotImplementedError


def log(turns: int) -> LogItem:
    """A log of two-step turns."""
    made = item(1, turns)
    return LogItem(tuple(made["texts"]), tuple(made["boundaries"]), made["kept"])


def taught(one: Example) -> str:
    """The targets as text, the end token as ■."""
    return "".join("■" if one.tokens[at] == END else chr(one.tokens[at] - 10) for at in one.targets)


class TestRecipes:
    def test_boundary(self) -> None:
        """Recipe `boundary`: the target at each boundary is the opening of the next step, at the end the end token."""
        assert (
            taught(make_example(CharacterTokenizer(), log(3), "boundary", 4000))
            == 2 * "\n\nTURN" + "■"
        )

    def test_paper(self) -> None:
        """Recipe `paper`: the targets are the last answer and the end token."""
        made = log(2)

        assert (
            taught(make_example(CharacterTokenizer(), made, "paper", 4000)) == made.texts[-1] + "■"
        )

    def test_no_end_tag(self) -> None:
        """Recipe `no-end-tag`: the target is the last answer."""
        made = log(2)

        assert (
            taught(make_example(CharacterTokenizer(), made, "no-end-tag", 4000)) == made.texts[-1]
        )

    @given(st.integers(1, 12))
    def test_balanced(self, turns: int) -> None:
        """The end weighs as much as one token of all headers together."""
        made = make_example(CharacterTokenizer(), log(turns), "boundary", 9000)
        *headers, end = made.weights
        opening = len("\n\nTURN")
        assert sum(made.weights) == pytest.approx(len(made.targets))
        assert end == pytest.approx(sum(headers) / opening if headers else 1)
        assert len(set(headers)) <= 1

    @given(st.integers(1, 12), st.floats(0.01, 1))
    def test_words(self, turns: int, words: float) -> None:
        """With a weight for words, the words after each opening are targets of that weight; nothing else changes."""
        item = log(turns)
        made = make_example(CharacterTokenizer(), item, "boundary", 9000, words=words)
        bare = make_example(CharacterTokenizer(), item, "boundary", 9000)
        most = len("\n\nTURN") + FIRST_WORDS_TOKENS
        turn = zip(item.texts[2::2], item.texts[3::2], strict=True)
        said = [(asked + answered)[:most] for asked, answered in turn]
        assert taught(made) == "".join(said) + "■"
        assert made.tokens == bare.tokens
        assert sum(made.weights) == pytest.approx(len(made.targets))
        weight = dict(zip(made.targets, made.weights, strict=True))
        kept = [weight.pop(at) for at in bare.targets]
        assert [one / kept[0] for one in kept] == pytest.approx(
            [one / bare.weights[0] for one in bare.weights]
        )
        if weight:
            opening = kept[0]
            assert [one / opening for one in weight.values()] == pytest.approx(
                len(weight) * [words]
            )

    def test_what_follows_the_last_boundary_is_not_read(self) -> None:
        """A last user message is no answer, so the log ends before it."""
        made = log(2)
        longer = LogItem((*made.texts, "\n\nTURN 3, STEP 5, user chat:\nbye"), made.boundaries, 0)
        recipes: tuple[Recipe, ...] = ("boundary", "paper", "no-end-tag")

        for recipe in recipes:
            assert make_example(CharacterTokenizer(), longer, recipe, 4000) == make_example(
                CharacterTokenizer(), made, recipe, 4000
            )

    @given(st.integers(2, 30), st.integers(150, 900))
    def test_a_long_log_keeps_its_end(self, turns: int, limit: int) -> None:
        """A log over the limit keeps its last words and the end, and otherwise as much as fits up to a boundary."""
        made = log(turns)
        one = make_example(CharacterTokenizer(), made, "boundary", limit)
        text = "".join("■" if token == END else chr(token - 10) for token in one.tokens)

        assert len(one.tokens) <= limit + 1
        assert text.endswith(made.texts[-1][-10:] + "■")
        assert taught(one).replace("\n\nTURN", "") == "■"


class TestChecks:
    @pytest.mark.parametrize(
        "line",
        [
            "{",
            "[]",
            '{"id": "a"}',
            '{"id": "a", "texts": ["x"], "boundaries": [], "kept": 0}',
            '{"id": "a", "texts": ["x"], "boundaries": [1], "kept": 0}',
        ],
    )
    def test_a_line_that_is_no_conversation_is_named(self, tmp_path: Path, line: str) -> None:
        """The error names file and line of an invalid conversation."""
        path = tmp_path / "train.jsonl"
        path.write_text(json.dumps(item(1, 2)) + "\n" + line + "\n")

        with pytest.raises(DataError, match=r"Line 2 of train\.jsonl"):
            read_logs(path)

    def test_a_conversation_on_both_sides(self, tmp_path: Path) -> None:
        """A conversation in both training and validation data is an error."""
        run = RunDirectory(tmp_path)
        for path in (run.train, run.valid):
            path.write_text(json.dumps(item(1, 2)) + "\n")

        with pytest.raises(DataError, match=r"are in train\.jsonl and in valid\.jsonl"):
            read_datasets(
                run, TrainConfig(base="b"), HubTokenizer(SimpleNamespace(eos_token_id=END))
            )
