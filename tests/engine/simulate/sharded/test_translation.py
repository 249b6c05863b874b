"""Translation and table description: BLEU, and a user who sends chunk after chunk."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import BadInstruction, UsageError
from engine.simulate.sharded import tasks as task_module
from engine.simulate.sharded.instruction import Shard
from engine.simulate.sharded.task import Task
from engine.simulate.sharded.tasks import bleu
from tests.engine.simulate.sharded.bound import bound

SHARDS = [Shard(1, "Guten Tag."), Shard(2, "Es regnet seit Montag.")]
ENGLISH = "Good day. It has been raining since Monday."


def translation() -> Task:
    """A document of two chunks."""
    return bound("translation", document_de="Guten Tag. Es regnet.", document_en=ENGLISH)


def described(**changes: Any) -> Task:
    """A table to describe."""
    keys: dict[str, Any] = {
        "table_highlighted_html": "<table><td>42</td></table>",
        "fewshot_descriptions": "Example: a cat.",
        "metadata": {"page": "Rivers", "section": "Europe"},
        "references": ["The Elbe is long and wide .", "Long and wide is the river Elbe ."],
    }
    return bound("data2text", **{**keys, **changes})


class TestBleu:
    def test_it_is_the_mean_of_four_precisions(self) -> None:
        """BLEU worked out by hand from the precisions 4/5, 3/4, 2/3 and 1/2 of one to four words."""
        expected = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
        assert bleu("a b c d f", ["a b c d e"]) == pytest.approx(expected, abs=1e-9)

    @given(
        st.lists(st.sampled_from("abcdefg"), min_size=4, max_size=20).map(" ".join),
        st.text(max_size=40),
    )
    def test_a_text_equal_to_a_reference_scores_exactly_1(self, text: str, other: str) -> None:
        """A text equal to a reference scores exactly 1, which ends a conversation, whatever the other references."""
        assert bleu(f" {text}\n", [text, other]) == 1.0

    def test_without_its_library_the_task_says_how_to_install_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without the library the task is refused before a run, with the command that installs it."""
        found = importlib.util.find_spec
        monkeypatch.setattr(
            task_module, "find_spec", lambda name: None if name == "sacrebleu" else found(name)
        )
        with pytest.raises(UsageError, match=r"conversation-workbench\[simulate\]"):
            translation()
        with pytest.raises(UsageError, match="sacrebleu"):
            described()


class TestTranslation:
    def test_chunks_are_sent_one_by_one(self) -> None:
        """The user is a template: the first turn explains, every turn has one chunk with its number."""
        task = translation()
        first, second = (task.user_turn(SHARDS, at) for at in (0, 1))
        assert first is not None
        assert second is not None
        assert "Chunk 1:\n\nGuten Tag." in first
        assert "Chunk 2:\n\nEs regnet seit Montag." in second
        assert "Montag" not in first
        assert "Guten" not in second


class TestDataToText:
    def test_full_shows_the_table_and_concat_the_hints(self) -> None:
        """In CONCAT the table is among the hints, so the prompt's own placeholders stay empty."""
        task = described()
        full, concat = task.full_prompt(), task.concat_prompt(SHARDS)
        assert "<td>42</td>" in full
        assert "section: Europe" in full
        assert "Example: a cat." in full
        assert "Hint 1:\nGuten Tag." in concat
        assert "<td>42</td>" not in concat
        assert task.user_turn(SHARDS, 1) == "Es regnet seit Montag."

    @pytest.mark.parametrize(
        "change", [{"references": []}, {"references": [1]}, {"metadata": "none"}]
    )
    def test_bad_keys_are_refused(self, change: dict[str, Any]) -> None:
        """An instruction without references, or with metadata that are no object, is refused."""
        with pytest.raises(BadInstruction):
            described(**change)
