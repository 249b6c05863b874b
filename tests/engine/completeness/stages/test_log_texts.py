"""What one pass over the texts of conversations tells of their boundaries."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from engine.base.errors import Cancelled
from engine.completeness.boundaries import NO_BOUNDARY, NO_TEXT
from engine.completeness.stages import training_set
from engine.completeness.stages.scoring import logs_of
from engine.completeness.stages.training_set import LogTexts
from engine.completeness.words import BoundaryWords
from engine.conversations import shingle_overlap
from engine.project.project import Project
from tests.engine.project.support import fill, talk, with_tools

LAST = ("Where is my parcel?", "It comes on Monday.", "Thanks, bye.", "You are welcome.")
BEFORE = ("Hello, are you there?", "I am. How may I help?", "One moment.", "Take your time.")


@pytest.fixture
def project(project: Project) -> Project:
    """Conversations with the same last messages after two or eight others, one with one answer, one with tools, and
    two without a boundary."""
    talks = [
        talk("short", *BEFORE[2:], *LAST),
        talk("long", *BEFORE, *BEFORE, *LAST),
        talk("one answer", *LAST[:2]),
        with_tools("tools"),
        talk("no answer", "Hello?"),
        talk("no text", "", ""),
    ]
    fill(project, talks)
    return project


def rows(words: BoundaryWords) -> list[list[int]]:
    """The columns at each boundary."""
    matrix = words.matrix()
    return [matrix.indices[begin:end].tolist() for begin, end in pairwise(matrix.indptr)]


def test_boundaries_are_those_of_the_logs(project: Project) -> None:
    """Each conversation has the boundaries of its log with their place, or the reason why it has none."""
    texts = LogTexts.read(project, range(1, 7))
    assert texts.ids == [1, 2, 3, 4, 5, 6]
    assert texts.reasons == [None, None, None, None, NO_BOUNDARY, NO_TEXT]
    assert texts.counts.tolist() == [3, 6, 1, 3, 0, 0]
    assert len(texts.words) == texts.counts.sum()
    for log, places, numbers in zip(
        logs_of(project, texts.ids), texts.places, texts.numbers, strict=True
    ):
        pieces = [log.pieces[boundary] for boundary in log.item.boundaries]
        assert [place.message for place in places] == [piece.message for piece in pieces]
        assert [place.step_chars for place in places] == [len(piece.text) for piece in pieces]
        assert numbers == list(range(len(pieces)))


def test_what_the_leak_guard_hides_is_not_read(project: Project, tmp_path: Path) -> None:
    """A hidden message and a hidden end tag are no words: the conversation reads as it does without them."""
    seen = with_tools("seen")
    messages = [message for message in seen.conversation.messages if not message.hidden]
    with Project.open(tmp_path / "q.wb", create=True) as other:
        clean = [
            replace(message, content=message.model_view or message.content, model_view=None)
            for message in messages
        ]
        conversation = replace(seen.conversation, messages=tuple(clean))
        fill(other, [replace(seen, conversation=conversation, leaks=())])
        assert rows(LogTexts.read(other, [1]).words) == rows(LogTexts.read(project, [4]).words)


def test_pages_change_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read two conversations at a time, or in parts that are read on their own, all is as in one go; what is called
    between the pages can cancel."""
    whole = LogTexts.read(project, range(1, 7))
    monkeypatch.setattr(training_set, "CONVERSATIONS_PER_READ", 2)
    pages: list[int] = []
    paged = LogTexts.read(project, range(1, 7), lambda: pages.append(1))
    assert len(pages) == 3
    assert rows(paged.words) == rows(whole.words)
    assert (paged.places, paged.reasons) == (whole.places, whole.reasons)
    assert [runs.tolist() for runs in paged.runs] == [runs.tolist() for runs in whole.runs]
    alone = [LogTexts.read(project, [key]) for key in range(1, 7)]
    assert [row for one in alone for row in rows(one.words)] == rows(whole.words)

    def cancel() -> None:
        raise Cancelled("You stopped it.")

    with pytest.raises(Cancelled):
        LogTexts.read(project, range(1, 7), cancel)


def test_near_copies_share_most_runs(project: Project) -> None:
    """A conversation and its copy with another word, other capitals and other punctuation are of one group; others are
    not, though they share messages."""
    said = [f"Please book a table for {number} people on the terrace" for number in range(2, 9)]
    copy = [*(text.upper().replace(" ", ", ") for text in said[:-1]), said[-1] + "!"]
    other = [f"The invoice of month {number} lists two items twice" for number in range(2, 9)]
    fill(project, [talk("a", *said), talk("b", *other), talk("c", *copy)], "more.jsonl")
    groups = shingle_overlap.groups(LogTexts.read(project, [7, 8, 9]).runs)
    assert groups.tolist() == [0, 1, 0]
