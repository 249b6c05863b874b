"""Shards are proposed from a full instruction, omit nothing silently, and wait for a person's approval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import BadInstruction
from engine.simulate.draft import (
    Draft,
    as_draft,
    by_sentences,
    lost,
    pieces_of_excerpts,
    says_no_other,
    state_of,
)
from engine.simulate.sharded.instruction import Instruction, as_instruction
from engine.simulate.sharded.shard_drafting import ShardDraftScenario, read_full_text
from tests.engine.simulate.sharded.scripted import PlainTask, ScriptedReplies, played, setting

TEXT = "Mia buys 3 pens for $2 each. The book costs $7. How much does she pay?"
SOURCE: dict[str, Any] = {
    "task_id": "mia",
    "task": "math",
    "question": TEXT,
    "answer": "3 * 2 + 7 = 13 #### 13",
}


def bound(instruction: Instruction) -> PlainTask:
    """The instruction with "13" as the answer that counts."""
    return PlainTask(instruction, gold="13")


def made(replies: Mapping[str, list[Any]], checks: int = 0) -> tuple[Draft, ScriptedReplies]:
    """The draft made from these replies, and the calls."""
    speakers = ScriptedReplies(replies)
    ending = played(ShardDraftScenario(setting(), SOURCE, TEXT, bound, checks), speakers)
    assert ending.record is None
    return as_draft(ending.result), speakers


def good() -> dict[str, list[Any]]:
    """Replies of a model that follows every prompt."""
    return {
        "segment": [
            {
                "segments": [
                    "Mia buys 3 pens",
                    "for $2 each",
                    "The book costs $7",
                    "How much does she pay?",
                ]
            }
        ],
        "order": [{"first": 4, "others": [2, 1, 3]}],
        "rephrase-first": [{"shard": "How much does Mia pay?"}],
        "rephrase": [
            {"shard": "A pen costs $2."},
            {"shard": "Mia buys 3 pens."},
            {"shard": "The book costs $7."},
        ],
        "coverage": [{"coverage": "complete"}],
    }


class TestPieces:
    @given(st.lists(st.sampled_from(TEXT.split()), max_size=6), st.randoms())
    def test_together_they_hold_every_word(self, excerpts: list[str], chance: Any) -> None:
        """Whatever excerpts are given, the pieces are in order, disjoint, and contain every word."""
        pieces = pieces_of_excerpts(excerpts, TEXT)
        if pieces is None:
            return
        assert pieces == sorted(pieces)
        assert " ".join(piece.of(TEXT) for piece in pieces).replace(".", "").split() == (
            TEXT.replace(".", "").split()
        )

    @pytest.mark.parametrize("excerpt", ["Mia buys 4 pens", "mia buys", "pens. The books"])
    def test_changed_words_are_refused(self, excerpt: str) -> None:
        """An excerpt that does not occur in the text letter for letter is refused."""
        assert pieces_of_excerpts([excerpt], TEXT) is None

    def test_white_space_may_differ(self) -> None:
        """Line breaks and spaces in an excerpt are equal."""
        assert pieces_of_excerpts(["Mia\n buys  3 pens"], TEXT) is not None

    def test_same_words_are_different_places(self) -> None:
        """An excerpt that occurs twice may be named twice, not three times."""
        text = "Add two. Add two. Then stop at once, please."
        assert len(pieces_of_excerpts(["Add two.", "Add two."], text) or []) == 3
        assert pieces_of_excerpts(["Add two."] * 3, text) is None

    def test_sentences_else_clauses(self) -> None:
        """A text is split into sentences, a single sentence into clauses; abbreviations and amounts do not end a
        sentence.
        """
        assert [piece.of(TEXT) for piece in by_sentences(TEXT)] == [
            "Mia buys 3 pens for $2 each.",
            "The book costs $7.",
            "How much does she pay?",
        ]
        assert len(by_sentences("List the towns, sort them by size and show 3.5 rows")) == 3

    def test_lost_numbers_and_names(self) -> None:
        """Numbers and names that are in no shard are listed in the order of the text."""
        text = "Mia pays $3.50 to Bo and 1,200 to Eve Marsh."
        assert lost(text, ["She pays $3.50", "bo gets it"]) == ["1,200", "Eve", "Marsh"]
        assert lost(text, [text]) == []

    @pytest.mark.parametrize(
        ("shard", "fine"),
        [
            ("pens: $2", True),
            ("2 dollars a pen, 2!", True),
            ("pens", False),
            ("pens: $2 and $7", False),
            ("pens: $2 }\n\nThe JSON", False),
            ("pens: $2 [each]", False),
        ],
    )
    def test_words_of_other_pieces(self, shard: str, fine: bool) -> None:
        """A shard has the numbers of its piece and of no other, and no formatting of the reply."""
        assert says_no_other(shard, "for $2 each") is fine


class TestProposing:
    def test_all_goes_well(self) -> None:
        """With valid replies pieces, order, wording and coverage are the model's."""
        draft, _ = made(good())
        assert [(one.text, one.piece.of(TEXT), one.by) for one in draft.candidates] == [
            ("How much does Mia pay?", "How much does she pay?", "model"),
            ("A pen costs $2.", "for $2 each", "model"),
            ("Mia buys 3 pens.", "Mia buys 3 pens", "model"),
            ("The book costs $7.", "The book costs $7", "model"),
        ]
        assert (draft.missing, draft.segmented, draft.lost, draft.state) == (
            "",
            True,
            [],
            "proposed",
        )

    def test_useless_replies_leave_the_sentences(self) -> None:
        """With invalid replies only, the shards are the sentences in their own words, the question first."""
        draft, speakers = made(
            {
                "segment": ["{", {"segments": ["not there"]}],
                "order": [{"first": 3, "others": [1, 1]}, {"first": 3, "others": [1]}],
                "rephrase-first": [{"shard": " "}, {"shard": "How much for 99?"}],
                "rephrase": [{"shard": "Mia buys pens."}, {"shard": "4"}, {"shard": ""}, "x"],
                "coverage": ["", {"coverage": ""}],
            }
        )
        assert [(one.text, one.by) for one in draft.candidates] == [
            ("How much does she pay?", "text"),
            ("Mia buys 3 pens for $2 each.", "text"),
            ("The book costs $7.", "text"),
        ]
        assert (draft.missing, draft.segmented) == (None, False)
        assert len(speakers.asked) == 12

    def test_question_opens(self) -> None:
        """An order that does not begin with the question is refused; a rule then puts the question first."""
        orders = [{"first": 1, "others": [2, 3, 4]}, {"first": 2, "others": [1, 3, 4]}]
        wording = [{"shard": text} for text in ("Mia buys 3.", "for $2", "It costs $7.")]
        draft, speakers = made({**good(), "order": orders, "rephrase": wording})
        assert [one.piece.of(TEXT)[:3] for one in draft.candidates] == ["How", "Mia", "for", "The"]
        assert [one.by for one in draft.candidates] == ["model"] * 4
        assert len(speakers.of("order")) == 2

    def test_missing_piece_is_told(self) -> None:
        """What the model finds missing is stored for the person."""
        draft, _ = made({**good(), "coverage": [{"coverage": "the price of the book"}]})
        assert draft.missing == "the price of the book"

    def test_check_compares_full_and_concat(self) -> None:
        """The check plays FULL and CONCAT; a CONCAT far below FULL is a warning about the shards."""
        replies: dict[str, list[Any]] = {
            "assistant": ["13", "13", "7", "13"],
            "extract": [{"answer": text} for text in ("13", "13", "7", "13")],
        }
        draft, _ = made({**good(), **replies}, checks=2)
        assert draft.check == {"full": 1.0, "concat": 0.5}
        assert not draft.holds
        assert replace(draft, check={"full": 0.5, "concat": 0.4}).holds

    @pytest.mark.parametrize(
        ("record", "text"),
        [
            (SOURCE, TEXT),
            ({"task_id": "a", "task": "actions", "question": [[{"content": "Do it"}]]}, "Do it"),
            ({"task_id": "a", "task": "code", "prompt": "def f():"}, "def f():"),
        ],
    )
    def test_full_text(self, record: dict[str, Any], text: str) -> None:
        """The full instruction is found in the field of its task."""
        assert read_full_text(record, "Line 1") == text

    def test_documents_cannot_be_cut_up(self) -> None:
        """Tasks whose shards are documents are refused with the reason."""
        with pytest.raises(BadInstruction, match="parts of their documents"):
            read_full_text({"task_id": "a", "task": "summary"}, "Line 1")


class TestDeciding:
    def test_draft_survives_its_file(self) -> None:
        """A draft is the same after it was written and read, and its record is a valid instruction."""
        draft, _ = made(good())
        assert as_draft(draft.record()) == draft
        assert as_instruction(draft.record()).text("answer") == SOURCE["answer"]

    def test_only_what_a_person_approved_is_approved(self) -> None:
        """Drafts are proposed, approved or rejected; instructions from elsewhere count as approved."""
        draft, _ = made(good())
        assert state_of(draft.instruction()) == "approved"
        states = [
            state_of(as_instruction(one.record()))
            for one in (draft, draft.decided("approved"), draft.decided("rejected"))
        ]
        assert states == ["proposed", "approved", "rejected"]

    def test_change_opens_the_decision_again(self) -> None:
        """An edited draft is proposed again, with the person's wording and unknown coverage."""
        draft = made(good())[0].decided("approved").edited(3, "Mia buys three pens.")
        assert draft.state == "proposed"
        assert draft.missing is None
        assert draft.lost == ["3"]
        assert [one.by for one in draft.candidates] == ["model", "model", "person", "model"]

    def test_moving_and_leaving_out(self) -> None:
        """A shard moves within the list only; shards are numbered by their order in the file."""
        draft, _ = made(good())
        moved = draft.moved(3, -9).without(2)
        assert [one.text for one in moved.instruction().shards] == [
            "Mia buys 3 pens.",
            "How much does Mia pay?",
            "The book costs $7.",
        ]
        assert [one.shard_id for one in moved.instruction().shards] == [1, 2, 3]
        assert moved.lost == ["2"]

    def test_nothing_empty_is_approved(self) -> None:
        """An empty shard, and a draft without shards, cannot be approved."""
        draft, _ = made(good())
        with pytest.raises(BadInstruction, match="empty shard"):
            draft.edited(1, " ").decided("approved")
        with pytest.raises(BadInstruction, match="no shard"):
            draft.without(1).without(2).without(3).without(4).decided("approved")
