"""Remaining tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.completeness.stages.remaining import remaining_tasks
from engine.model.prompt_files import Prompt, parse_prompt, prompt_text

SPOKEN = parse_prompt("remaining", prompt_text("remaining"))
LISTED = replace(SPOKEN, reply="Remaining:\n-")
LOGGED = parse_prompt("remaining-tuned", prompt_text("remaining-tuned"))


class TestTidying:
    @pytest.mark.parametrize(
        ("prompt", "reply", "cut", "expected"),
        [
            (LISTED, " book the flight\n- pay\n", False, "- book the flight\n- pay"),
            (LISTED, " book\n\n- book\n- book\n- pay", False, "- book\n- pay"),
            (LISTED, " book the flight\n- pay with the", True, "- book the flight"),
            (LISTED, " book\n- pay\n- ", True, "- book\n- pay"),
            (LISTED, " book\n- pay\n- pay", True, "- book\n- pay"),
            (LISTED, " book\n- pay\n", True, "- book\n- pay"),
            (replace(SPOKEN, reply="1."), "\n2. pay", False, "2. pay"),
            (SPOKEN, " pay.", False, f"{SPOKEN.reply} pay."),
            (SPOKEN, " book and", True, f"{SPOKEN.reply} book and …"),
            (LOGGED, " 4, STEP 7, user chat:\nAnd?", False, "TURN 4, STEP 7, user chat:\nAnd?"),
        ],
    )
    def test_tasks(self, prompt: Prompt, reply: str, cut: bool, expected: str) -> None:
        """Each line is one task; duplicates and the bare opening are dropped, and so is an unfinished last line unless
        it is the only one; a finished one before it stays.
        """
        assert remaining_tasks(prompt, reply, cut=cut) == (expected, None)

    @pytest.mark.parametrize("prompt", [SPOKEN, LISTED, LOGGED])
    @pytest.mark.parametrize("reply", ["", " ", "\n-\n - \n", "\n•", "\u2028-"])
    def test_nothing_usable(self, prompt: Prompt, reply: str) -> None:
        """A reply without a task gives none, with the reason."""
        assert remaining_tasks(prompt, reply, cut=False) == (
            "",
            "the model named no remaining task",
        )

    @pytest.mark.parametrize(
        "reply", [" 2, STEP 6, assistant chat:", " 2, STEP 6, assistant chat:\n-"]
    )
    def test_nothing_but_a_header(self, reply: str) -> None:
        """A reply of a header without text is no task; where the prompt does not continue the log, such words are taken
        as a task.
        """
        text, reason = remaining_tasks(LOGGED, reply, cut=False)
        assert not text
        assert reason
        assert "names no task" in reason
        assert remaining_tasks(SPOKEN, reply, cut=False)[0]
