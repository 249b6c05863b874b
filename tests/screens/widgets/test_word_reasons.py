"""The words for and against an end: on the screens, and as marks in the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.conversation import ToolCall
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.word_reasons import Reason
from engine.conversations.records import MessageRow
from engine.conversations.stages import ImportStage
from engine.jobs.runner import JobRunner
from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl
from screens.widgets.messages import part_texts
from screens.widgets.transcript import AGAINST, FOR, Transcript
from screens.widgets.word_reasons import WordPanel, mark_spans
from tests.screens.driving import opened, press, settle, text
from tests.screens.project import open_copy, project


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of samples, scored by words."""
    folder = tmp_path_factory.mktemp("words")
    write_jsonl(sample_conversations(40), folder / "logs.jsonl")
    with Project.open(folder / "p.wb", create=True) as made:
        runner = JobRunner(made, lambda event: None)
        runner.run(ImportStage(made, [str(folder / "logs.jsonl")]))
        runner.run(FittingStage(made, "words"))
    return folder / "p.wb"


async def test_panel(scored: Path) -> None:
    """`w` shows the words at the last turn and marks them, follows to the next conversation, and closes again. So it
    does in triage, where a verdict leads to the words of the next one."""
    async with opened(open_copy(scored), size=(80, 24)) as pilot:
        await press(pilot, "2", "enter")
        for size in ((80, 24), (120, 40), (200, 60)):
            await pilot.resize_terminal(*size)
            await press(pilot, "end", "w")
            assert "for an end" in text(pilot), size
            assert "all parts add up to " in text(pilot), size
            transcript = pilot.app.screen.query_one(Transcript)
            marks = transcript.marks
            assert marks, size

            await press(pilot, "right", "end")
            assert transcript.marks not in ({}, marks), size
            await press(pilot, "w")
            assert not pilot.app.screen.query_one(WordPanel).display, size
            assert transcript.marks == {}, size

        await press(pilot, "3", "w")
        transcript = pilot.app.screen.query_one(Transcript)
        for size in ((200, 60), (120, 40), (80, 24)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert "for an end" in text(pilot), size
            marks = transcript.marks
            assert marks, size
            await press(pilot, "c")
            assert transcript.marks not in ({}, marks), size


async def test_no_words() -> None:
    """Where the scores in force are not by words, the panel says so and what to do."""
    async with opened(project()) as pilot:
        await press(pilot, "2", "enter", "w")
        assert "not by words" in text(pilot)


def reason(word: str, *places: tuple[int, int], weight: float = 1.0) -> Reason:
    """A reason in the first message."""
    return Reason(0, 0, "assistant", "words", word, weight, 0.1, places)


class TestMarks:
    def marked(
        self, message: MessageRow, *reasons: Reason, raw: bool = False
    ) -> list[tuple[str, str]]:
        """The marked texts with their styles, in order."""
        texts = part_texts(message, raw=raw)
        marks = mark_spans([message], reasons, raw=raw)
        return [
            (texts[part][start:end], style)
            for (_, part), spans in marks.items()
            for start, end, style in spans
        ]

    def test_in_plain_text(self) -> None:
        """Words are marked where they stand, after tabs and characters that are drawn differently too."""
        message = MessageRow(role="assistant", content="\tA\x1b\u200b Good  bye", index=0, turn=1)
        assert self.marked(message, reason("good bye", (5, 14))) == [("Good  bye", FOR)]
        assert self.marked(message, reason("a", (1, 2), weight=-1.0)) == [("A", AGAINST)]

    def test_in_json_that_is_laid_out(self) -> None:
        """JSON that is drawn on several lines has its marks where the words are."""
        content = '{"state":"' + "x" * 80 + '","end":"done"}'
        message = MessageRow(role="assistant", content=content, index=0, turn=1)
        place = (content.index("done"), content.index("done") + 4)
        assert self.marked(message, reason("done", place)) == [("done", FOR)]
        assert self.marked(message, reason("done", place), raw=True) == [("done", FOR)]

    def test_in_a_call(self) -> None:
        """Words of a call are marked in the call."""
        call = ToolCall("book", '{"to": "Rome"}')
        message = MessageRow(role="assistant", content="Rome", tool_calls=(call,), index=0, turn=1)
        assert self.marked(message, reason("rome")) == [("Rome", FOR)]
