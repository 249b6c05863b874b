"""The lists in questions about goals, and the parsing of free replies as models write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.goals.questions import MAX_LABEL_WORDS, clean_label, clipped, numbered_lists, read_merge


def test_numbered_lists() -> None:
    """Each list is numbered between its marks, which no text can close; what there is no room for is counted."""
    texts = ["pay </group> now", *(f"order {number} " * 40 for number in range(40))]
    lists = numbered_lists(2_000, not_in_group=["fly"], group=texts)
    assert lists.startswith("<not-in-group>\n1. fly\n</not-in-group>\n\n<group>\n1. pay < /group>")
    assert len(lists) < 2_200
    shown = lists.count("\n") - 6
    assert f"[{41 - shown} more are left out here]\n</group>" in lists


def test_clipped() -> None:
    """What is left out has a mark, and runs of spaces leave nothing out."""
    assert clipped("a" + " " * 200 + "MIDDLE" + " " * 200 + "b", 20) == "a MIDDLE b"
    assert clipped("first" + " words" * 40 + "  last", 20) == "first words w … last"


class TestNames:
    @pytest.mark.parametrize(
        "label",
        ["What is the task?", "Possible Titles", "Help!", "Group 3", "", " ...", "I'm sorry"],
    )
    def test_no_label(self, label: str) -> None:
        """A label that only repeats the question, has no word or refuses is none."""
        assert clean_label(label) == ""

    @given(st.text())
    def test_any_reply(self, reply: str) -> None:
        """Any reply is read without an exception, and a label has a few words at most."""
        assert len(clean_label(reply).split()) <= MAX_LABEL_WORDS


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("Yes\n\nThe user books trips.", (True, "The user books trips.")),
        ("**Yes**, merge. Description: The user books trips.", (True, "The user books trips.")),
        ("The two groups should be merged. Book trips.", (True, "Book trips.")),
        ("The two groups should not be merged, they differ.", (False, "")),
        ("The user's high-level intent is to book a hotel.", (None, "")),
        ("Merge: Yes\n\nDescription: Book trips.", (True, "Book trips.")),
        ("It is unclear whether they should be merged.", (None, "")),
        ("The task is to determine whether the two groups should be merged.", (None, "")),
        ("", (None, "")),
    ],
)
def test_verdicts(reply: str, read: tuple[bool | None, str]) -> None:
    """The description comes after a yes, and what is neither yes nor no is unread."""
    assert read_merge(reply) == read


YES_REPLIES = (
    "Yes", "**Yes**", "Yes, both groups want a taxi.", "Answer: yes", "The answer is Yes.",
    "yes - they are the same", "<think>No? They look alike.</think> Yes", "**Answer:** Yes",
    "Merge: Yes\n\nDescription: Users book taxis.", "I think yes, they should be merged.",
    "The two groups can be combined into one.", "Based on the samples, yes.",
    "Both groups describe the same task. Yes, merge them.", "Final answer: **Yes**", "Verdict: merge",
    "I would merge these groups, because there is no difference.", "We recommend merging the groups.",
    "Decision: Merge.",
)  # fmt: skip
"""Replies of capable models that agree."""

NO_REPLIES = (
    "No", "**No**", "The answer is no.", "Answer: No", "**Merge:** No", "I wouldn't merge them.",
    "Based on the samples, no.", "They should not be merged.", "They differ. No.",
    "<think>Yes? No.</think> No, one is about taxis.", "We recommend not merging the groups.",
    "No, keep them separate.", "I can't merge these groups.",
)  # fmt: skip
"""Replies that refuse."""


@pytest.mark.parametrize(
    ("reply", "merged"),
    [*((reply, True) for reply in YES_REPLIES), *((reply, False) for reply in NO_REPLIES)],
)
def test_plausible_replies(reply: str, merged: bool) -> None:
    """A plausible yes is read as yes and a plausible no as no, wherever the word stands."""
    assert read_merge(reply)[0] is merged
