"""The simulator of users with profiles, with scripted replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.formats.coded.task_dialogues import RECLLMSIM
from engine.model.chat import Call, Completion, Ending, Scenario
from engine.model.prompt_files import prompt_texts
from engine.simulate.recsim import (
    TASKS,
    RecSimScenario,
    Setting,
    profiles,
    recsim_scenarios,
    says_goodbye,
    situations,
)
from tests.engine.simulate.playing import play_all

SETTING = Setting(prompt_texts("recsim"))
Answer = Callable[[Call], str]


def meeting(setting: Setting = SETTING, task: str = "preparing gifts") -> RecSimScenario:
    situation = next(one for one in situations() if one.task == task)
    return RecSimScenario(setting, profiles()[3], situation)


def played(scenario: Scenario, answer: Answer) -> tuple[Ending, list[Call]]:
    """The end of a play and its calls."""

    asked: list[Call] = []

    def say(calls: Sequence[Call]) -> list[Completion]:
        asked.extend(calls)
        return [Completion(answer(call), "end") for call in calls]

    (one,) = play_all([scenario], say, parallel=1)
    return one.ending, asked


def leaves_after(turns: int) -> Answer:
    """A user who says goodbye after this many answers, and an assistant who numbers its answers."""

    def answer(call: Call) -> str:
        said = sum(message.speaker == "assistant" for message in call.messages)
        if call.role == "assistant":
            return f"answer {said + 1}"
        return "Thank you, GOODBYE!" if said == turns else f"wish {said + 1}"

    return answer


class TestTurns:
    def test_the_farewell_ends_it_and_is_cut_off(self) -> None:
        """The user's farewell ends the play and is left out: the history begins with the user, alternates, and ends
        with the last answer.
        """
        ending, _ = played(meeting(), leaves_after(2))
        assert ending.record is not None
        assert [one["content"] for one in ending.record["history"]] == [
            "wish 1", "answer 1", "wish 2", "answer 2"
        ]  # fmt: skip
        assert (ending.result["ended"], ending.result["turns"]) == ("goodbye", 2)
        assert ending.record["complete"] is True

    @pytest.mark.parametrize(
        ("reply", "ends"),
        [
            ("Great! Thank you so much. GoodBye.", True),
            ("Thank you.", False),
        ],
    )
    def test_farewells(self, reply: str, ends: bool) -> None:
        """A farewell has thanks and goodbye together, in any case."""
        assert says_goodbye(reply) is ends


class TestWhatIsSeen:
    def test_the_closing_line_is_for_the_user_only(self) -> None:
        """The closing line follows every answer that the user model sees; the assistant sees neither it nor the
        profile.
        """
        _, calls = played(meeting(), leaves_after(3))
        for call in calls:
            text = "\n".join(message.content for message in call.messages)
            if call.role == "user":
                answers = [one for one in call.messages if one.content.startswith("answer")]
                assert all("[System]: If you wish to conclude" in one.content for one in answers)
                assert "Founder of a delivery firm" in text
            else:
                assert "[System]" not in text
                assert "Founder" not in text
                assert call.messages[0].speaker == "user"


class TestBadReplies:
    def test_silence(self) -> None:
        """An empty reply is asked for again at a higher temperature; after that a fixed text stands in for it."""
        ending, calls = played(
            meeting(replace(SETTING, max_turns=1)),
            lambda call: "" if call.role == "assistant" else "hi",
        )
        assert ending.record is not None
        assert ending.record["history"][1]["content"] == "I am sorry, I have no answer to that."
        assert ending.result["stand_ins"] == 1
        first, second = (call for call in calls if call.role == "assistant")
        assert first.messages == second.messages
        assert (first.seed, first.sampling) != (second.seed, second.sampling)

    @pytest.mark.parametrize("reply", [" want tea.", "I want tea."], ids=["goes on", "anew"])
    def test_the_first_wish_is_begun(self, reply: str) -> None:
        """The user's first word is given, so that no model returns the greeting; a reply that starts anew is
        accepted.
        """
        ending, calls = played(
            meeting(), lambda call: reply if call.opening else "Thank you, goodbye."
        )
        assert ending.record is not None
        assert ending.record["history"][0]["content"] == "I want tea."
        assert [call.opening for call in calls] == ["I", "", ""]


class TestRecord:
    def test_the_reader_takes_it(self) -> None:
        """The import reads a play as a conversation of the data set, with its annotations as truth."""
        ending, _ = played(meeting(SETTING), leaves_after(2))
        assert ending.record is not None
        assert RECLLMSIM.recognize(ending.record) is not None
        conversation = RECLLMSIM.read(ending.record, "x", None).conversation
        assert conversation.external_id.startswith("recsim/preparing-gifts/profile-3/")
        assert [message.content for message in conversation.messages] == [
            "wish 1", "answer 1", "wish 2", "answer 2"
        ]  # fmt: skip
        assert conversation.meta == {}
        truth = conversation.truth
        assert truth is not None
        assert (truth["goal"], truth["preference_id"]) == ("preparing gifts", 3)
        assert truth["language"] == "en"

    def test_a_rating_is_from_1_to_5(self) -> None:
        """Anything else is none."""
        stated = (5, "4", True, 0, "77", -3)
        history = [{"role": "assistant", "content": "a", "satisfaction": each} for each in stated]
        truth = RECLLMSIM.read({"history": history}, "x", None).conversation.truth
        assert truth is not None
        assert truth["satisfaction"] == [5, 4, None, None, None, None]


class TestMeetings:
    def test_every_pair_before_any_again(self) -> None:
        """A plan has as many plays as asked for, each with its own key; a pair of profile and situation is repeated
        only after all pairs.
        """
        pairs = len(profiles()) * 2
        found = recsim_scenarios(SETTING, TASKS[:2], pairs + 3, profiles(), situations())
        assert len({one.key for one in found}) == len(found) == 2 * (pairs + 3)
        first = found[:pairs]
        assert {one.run for one in first} == {0}
        assert len({(one.profile.id, one.situation.id) for one in first}) == pairs
        assert [one.run for one in found[pairs : pairs + 3]] == [1, 1, 1]


def test_profiles() -> None:
    """There are twelve profiles, each with nine numbered lines."""
    assert [one.id for one in profiles()] == list(range(12))
    for one in profiles():
        numbers = [line.split(". ", 1)[0] for line in one.text.split("\n")]
        assert numbers == [str(number) for number in range(1, 10)]
