"""Remaining tasks parsed from a model's reply, and the part of a log that the reply prompt contains."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import ModelError
from engine.completeness.remaining import MOST_TASKS, remaining_tasks
from engine.model.log_windows import (
    SMALLEST_ROOM,
    log_tokens,
)
from engine.model.prompt_files import Prompt, parse_prompt, prompt_text
from tests.engine.model.toy import ToyModel

SPOKEN = parse_prompt("remaining", prompt_text("remaining"))
LISTED = replace(SPOKEN, reply="Remaining:\n-")
LOGGED = parse_prompt("remaining-tuned", prompt_text("remaining-tuned"))


class TestTidying:
    @pytest.mark.parametrize(
        ("prompt", "reply", "cut", "expected"),
        [
            (LISTED, " book the flight\n- pay", False, "- book the flight\n- pay"),
            (LISTED, " book the flight\n- pay\n", False, "- book the flight\n- pay"),
            (LISTED, " book\n\n- book\n- book\n- pay", False, "- book\n- pay"),
            (LISTED, " book the flight\n- pay with the", True, "- book the flight"),
            (
                LISTED,
                " book the flight and then pay wi",
                True,
                "- book the flight and then pay wi …",
            ),
            (SPOKEN, " pay.", False, f"{SPOKEN.reply} pay."),
            (SPOKEN, " book and", True, f"{SPOKEN.reply} book and …"),
            (LOGGED, " 4, STEP 7, user chat:\nAnd?", False, "TURN 4, STEP 7, user chat:\nAnd?"),
        ],
    )
    def test_tasks(self, prompt: Prompt, reply: str, cut: bool, expected: str) -> None:
        """Each line is one task; duplicates are dropped, and so is an unfinished last line unless it is the
        only one.
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

    def test_endless_lists(self) -> None:
        """Of a reply that does not stop only the first tasks are kept."""
        reply = "".join(f" task {number}\n-" for number in range(50))
        text, _ = remaining_tasks(LISTED, reply, cut=True)
        assert text.splitlines() == [f"- task {number}" for number in range(MOST_TASKS)]

    @given(st.text(max_size=60), st.booleans())
    def test_any_reply(self, reply: str, cut: bool) -> None:
        """Any reply gives either text or a reason."""
        text, reason = remaining_tasks(LISTED, reply, cut=cut)
        assert bool(text) != bool(reason)


class TestLogs:
    def test_a_log_that_fits(self) -> None:
        """A log that fits is read whole and without a note."""
        texts = ["one", "\n\ntwo", "\n\nthree"]
        assert log_tokens(ToyModel(), texts, 1, 100) == (list("".join(texts).encode()), None)

    def test_a_log_that_does_not(self) -> None:
        """Of a log that does not fit the system message and the last steps stay; the note counts what was left out."""
        texts = ["system", *(f"\n\nstep {n} " + "x" * 20 for n in range(10))]
        tokens, note = log_tokens(ToyModel(), texts, 1, 100)
        assert bytes(tokens).decode() == "".join([texts[0], *texts[-3:]])
        assert note == "7 of 11 steps left out, 0 shortened"

    @given(
        st.lists(st.text("ab", min_size=1, max_size=200), min_size=1, max_size=12),
        st.integers(SMALLEST_ROOM, 400),
    )
    def test_never_over_the_limit(self, texts: list[str], limit: int) -> None:
        """Whatever the lengths of the steps, the prompt keeps the limit and contains the last step."""
        tokens, note = log_tokens(ToyModel(), texts, 1, limit)
        assert len(tokens) <= limit
        assert bytes(tokens).decode()[-1] == texts[-1][-1]
        assert (note is None) == (bytes(tokens).decode() == "".join(texts))

    @pytest.mark.parametrize("limit", [-50, 0, 3, SMALLEST_ROOM - 1])
    def test_no_room(self, limit: int) -> None:
        """Where prompt and reply leave no room for a log, an error is raised at once."""
        with pytest.raises(ModelError, match="no room for a log"):
            log_tokens(ToyModel(), ["a long step " * 20, "b"], 1, limit)
