"""Remaining tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.conversation import Message, render_log
from engine.base.errors import Cancelled
from engine.completeness.packing import PREFIX_SEQUENCE
from engine.completeness.remaining_tasks import RemainingRequest, remaining_tasks
from engine.completeness.scoring import (
    BoundaryScorer,
    ItemScore,
    LogItem,
    Question,
    WrittenOn,
    score_block,
)
from engine.model.batched_replies import generate
from engine.model.generation import uniform_tasks
from engine.model.interface import Capacity, Sampling
from engine.model.prompt_files import Prompt, parse_prompt, prompt_text
from tests.engine.model.toy import START, ToyModel

GO_ON = parse_prompt("remaining-tuned", prompt_text("remaining-tuned"))
BARE = Question(None)
ALWAYS = RemainingRequest(GO_ON, 1.1)


def item(system: str, turns: list[str], *, unanswered: bool) -> LogItem:
    """A log of exchanges after a system message; with `unanswered` its last message is the user's, after the last
    boundary.
    """
    messages = [Message("system", system)]
    for text in turns:
        messages += [Message("user", text), Message("assistant", text[::-1])]
    ends = tuple(range(2, len(messages), 2))
    messages += [Message("user", "Hello?")] * unanswered
    return LogItem(tuple(piece.text for piece in render_log(messages)), ends, 1)


def alone(one: LogItem, prompt: Prompt = GO_ON) -> WrittenOn:
    """What the model writes after this log when it is asked for nothing else."""
    model = ToyModel()
    tokens = [START, *model.tokenize("".join(one.texts) + prompt.question + prompt.reply)]
    limit, stop = prompt.max_tokens, prompt.stop
    (reply,) = generate(
        model, uniform_tasks([tokens], sampling=Sampling(), max_tokens=limit, stop=stop)
    )
    return WrittenOn(reply.text, reply.stopped)


def score(
    model: ToyModel, items: list[LogItem], remaining: RemainingRequest | None
) -> list[ItemScore]:
    """Scores on a fresh scorer and asserts that it leaves nothing behind."""
    found = score_block(BoundaryScorer(model), items, BARE, writer=model, remaining=remaining)
    model.check_empty(but=frozenset({PREFIX_SEQUENCE}))
    assert model.open_choosers == 0
    return found


logs = st.lists(
    st.builds(
        item,
        st.sampled_from(["Sell.", "Sell shoes to people. " * 20]),
        st.lists(st.text("abc ", min_size=1, max_size=60), min_size=1, max_size=4),
        unanswered=st.booleans(),
    ),
    min_size=1,
    max_size=9,
)
capacities = st.builds(
    lambda batch, sequences, spare: Capacity(
        context=1200, cells=1200 + 4 * batch + spare, batch=batch, rows=batch, sequences=sequences,
        forkable=True,
    ),
    st.integers(20, 600),
    st.integers(6, 64),
    st.integers(0, 2000),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(items=logs, capacity=capacities, below=st.sampled_from([0.0, 0.5, 1.1]))
def test_one_reading_gives_both(items: list[LogItem], capacity: Capacity, below: float) -> None:
    """Scores equal those of a run without replies; exactly the logs below the threshold get a reply, each the same as
    when generated alone, with any batch size.
    """
    plain = score(ToyModel(capacity), items, None)
    both = score(ToyModel(capacity), items, RemainingRequest(GO_ON, below))
    assert [replace(one, written=None) for one in both] == plain
    for one, found in zip(items, both, strict=True):
        last = found.curve[-1]
        is_below = last.p_end / (last.p_end + last.p_continue) < below
        assert found.written == (alone(one) if is_below else None)


class TestWhatIsLeftToAReadingOfItsOwn:
    @pytest.mark.parametrize("unanswered", [False, True])
    def test_another_question(self, unanswered: bool) -> None:
        """Where the log ends at its last boundary, the decode is inside the next step's header, so a reply prompt after
        the log needs a decode of its own; where the user has the last word the decode is shared.
        """
        asked = replace(GO_ON, question="\n\nWhat is left?", reply=" To")
        one = item("Sell.", ["a b"], unanswered=unanswered)
        (found,) = score(ToyModel(), [one], RemainingRequest(asked, 1.1))
        assert found.written == (alone(one, asked) if unanswered else None)


@pytest.mark.parametrize("number", [1, 3, 9])
def test_cancelled(number: int) -> None:
    """A cancel during scoring or generation leaves neither samplers nor tokens behind."""
    model = ToyModel()
    model.cancel_after = number
    items = [item("Sell.", ["some words"], unanswered=False)] * 3
    with pytest.raises(Cancelled):
        score(model, items, ALWAYS)
    model.check_empty()
    assert model.open_choosers == 0


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
