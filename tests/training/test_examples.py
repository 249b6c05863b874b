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
from engine.training.run_directory import RunDirectory
from tests.training.tiny_runs import item
from training.base import HubTokenizer
from training.examples import WORDS_WEIGHT, Example, make_example, read_datasets, read_logs

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
    @given(st.integers(1, 12))
    def test_boundary(self, turns: int) -> None:
        """Recipe `boundary`: the targets at each boundary are the opening of the next step and, lightly, the words
        after it; at the end the end token, which weighs as much as all openings together."""
        item = log(turns)
        made = make_example(CharacterTokenizer(), item, "boundary", 9000)
        opening = len("\n\nTURN")
        turn = zip(item.texts[2::2], item.texts[3::2], strict=True)
        said = [(asked + answered)[: opening + FIRST_WORDS_TOKENS] for asked, answered in turn]
        assert taught(made) == "".join(said) + "■"
        assert sum(made.weights) == pytest.approx(len(made.targets))
        *others, end = made.weights
        unit = end / max(1, turns - 1)
        expected = [
            weight
            for text in said
            for weight in [*opening * [1.0], *(len(text) - opening) * [WORDS_WEIGHT]]
        ]
        assert [weight / unit for weight in others] == pytest.approx(expected)

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
        assert taught(one).endswith("■")
        assert taught(one).count("■") == 1


class TestChecks:
    def test_a_text_with_a_separator_of_lines_of_unicode(self, tmp_path: Path) -> None:
        """A line of a data file ends at a line feed only, not at separators inside a text."""
        path = tmp_path / "train.jsonl"
        line = item(1, 2) | {"id": "a\u2028b\x85c"}
        path.write_text(json.dumps(line, ensure_ascii=False) + "\n", "utf-8")

        assert [log.id for log in read_logs(path)] == [line["id"]]

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
