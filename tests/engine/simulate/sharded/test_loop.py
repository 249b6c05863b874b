"""The SHARDED loop and the other conditions, with scripted replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.model.chat import Ending
from engine.simulate.sharded.play import Condition
from tests.engine.simulate.sharded.scripted import (
    PlainTask,
    ScriptedReplies,
    attempt,
    played,
    scenario,
)


def trace_of(ending: Ending) -> list[tuple[str, Any]]:
    """Role and content (a note: its type and value) of each item."""
    assert ending.record is not None
    return [(item["role"], _short(item["content"])) for item in ending.record["trace"]]


def _short(content: Any) -> Any:
    if isinstance(content, str):
        return content
    kind = content["type"]
    if kind == "shard_revealed":
        return kind, content["shard_id"]
    if kind == "system-verification":
        return kind, content["response"]["response_type"]
    if kind == "answer-evaluation":
        return kind, content["exact_answer"], content["score"]
    return kind


def user(text: str, shard_id: int) -> dict[str, Any]:
    """A reply of the simulated user."""
    return {"response": text, "shard_id": shard_id}


class TestSharded:
    def test_reveals_until_the_answer_is_right(self) -> None:
        """A wrong attempt does not end the conversation, the next shard follows; a right one ends it."""
        speakers = ScriptedReplies(
            {
                "assistant": ["Is it 3?", "She has 8."],
                "classify": [attempt(), attempt()],
                "extract": [{"answer": "3"}, {"answer": "8"}],
                "user": [user("twice what bo has", 3)],
            }
        )
        ending = played(scenario("sharded"), speakers)
        assert trace_of(ending) == [
            ("system", "Solve it."),
            ("user", "How many plums has Ada?"),
            ("log", ("shard_revealed", 1)),
            ("assistant", "Is it 3?"),
            ("log", ("system-verification", "answer_attempt")),
            ("log", ("answer-evaluation", "3", 0.0)),
            ("user", "twice what bo has"),
            ("log", ("shard_revealed", 3)),
            ("assistant", "She has 8."),
            ("log", ("system-verification", "answer_attempt")),
            ("log", ("answer-evaluation", "8", 1.0)),
            ("log", "conversation-completed"),
        ]
        assert ending.record is not None
        assert (ending.record["score"], ending.record["is_correct"]) == (1.0, True)
        assert ending.result["revealed"] == 2

    def test_turn_may_reveal_nothing_but_not_for_ever(self) -> None:
        """After two turns in a row without a shard, the user model can no longer choose to reveal none."""
        speakers = ScriptedReplies(
            {
                "assistant": ["?"] * 5,
                "classify": [attempt("discussion")] * 5,
                "user": [user("dunno", -1), user("hm", -1), user("bo: 4", 2), user("twice", 3)],
            }
        )
        ending = played(scenario("sharded"), speakers)
        assert ending.result["turns"] == 5
        offered = [
            json.loads(call.sampling.json_schema or "")["properties"]["shard_id"]["enum"]
            for call in speakers.of("user")
        ]
        assert offered == [[2, 3, -1], [2, 3, -1], [2, 3], [3, -1]]

    def test_useless_user_says_the_next_shard_as_it_is(self) -> None:
        """Two invalid replies of the user model are replaced by the next shard, word for word, and counted."""
        speakers = ScriptedReplies(
            {
                "assistant": ["?"] * 3,
                "classify": [attempt("discussion")] * 3,
                "user": ["{cut off", user("again", 1), user("x", 99), user(" ", 3)],
            }
        )
        ending = played(scenario("sharded"), speakers)
        assert [content for role, content in trace_of(ending) if role == "user"] == [
            "How many plums has Ada?",
            "Bo has 4 plums.",
            "Ada has twice as many as Bo.",
        ]
        assert ending.result["stand_ins"] == 2


class TestOtherConditions:
    @pytest.mark.parametrize(
        ("condition", "text"),
        [
            ("full", "Q: Bo has 4 plums, Ada twice as many. How many has Ada?"),
            (
                "concat",
                "Q: - How many plums has Ada?\n- Bo has 4 plums.\n- Ada has twice as many as Bo.\n",
            ),
        ],
    )
    def test_one_turn_says_everything(self, condition: Condition, text: str) -> None:
        """FULL and CONCAT are one user turn; the reply is scored, whatever it is."""
        speakers = ScriptedReplies(
            {"assistant": ["I do not know"], "extract": [{"answer": "x"}] * 3}
        )
        ending = played(scenario(condition), speakers)
        assert trace_of(ending) == [
            ("system", "Solve it."),
            ("user", text),
            ("assistant", "I do not know"),
            ("log", ("answer-evaluation", "", 0.0)),
        ]
        assert ending.record is not None
        assert ending.record["is_correct"] is False
        assert (ending.record["system_model"], ending.record["user_model"]) == ("NA", "NA")

    def test_shuffled_orders_differ_by_run_and_repeat(self) -> None:
        """SHUFFLE-CONCAT has the same shards in an order that the run determines."""

        def said(run: int) -> str:
            speakers = ScriptedReplies({"assistant": ["8"], "extract": [{"answer": "8"}]})
            return str(trace_of(played(scenario("shuffle-concat", run=run), speakers))[1][1])

        orders = [said(run) for run in range(12)]
        assert orders == [said(run) for run in range(12)]
        assert len(set(orders)) > 1
        assert {"".join(sorted(text)) for text in orders} == {"".join(sorted(orders[0]))}

    def test_recap_begins_as_sharded_does(self) -> None:
        """RECAP makes the calls of SHARDED, then repeats everything in one more turn and is scored by its reply."""

        def speakers() -> ScriptedReplies:
            return ScriptedReplies(
                {
                    "assistant": ["?", "?", "?", "It is 8"],
                    "classify": [attempt("discussion")] * 3 + [attempt()],
                    "extract": [{"answer": "8"}],
                    "user": [user("bo has 4", 2), user("twice", 3)],
                }
            )

        of_sharded, of_recap = speakers(), speakers()
        source = played(scenario("sharded"), of_sharded)
        ending = played(scenario("recap"), of_recap)
        assert of_recap.asked[: len(of_sharded.asked)] == of_sharded.asked
        assert trace_of(ending)[-4:] == [
            (
                "user",
                "Just to recapitulate, the entire task is:\n\nQ: - How many plums has Ada?\n- Bo has 4 plums.\n"
                "- Ada has twice as many as Bo.\n\n\n"
                "Now please complete the task correctly taking all the information into account.",
            ),
            ("assistant", "It is 8"),
            ("log", ("system-verification", "answer_attempt")),
            ("log", ("answer-evaluation", "8", 1.0)),
        ]
        assert ending.record is not None
        assert source.record is not None
        assert ending.record["source_conv_id"] == source.record["conv_id"]
        assert ending.record["source_is_correct"] is None
        assert ending.record["conv_id"] != source.record["conv_id"]

    def test_snowball_repeats_what_was_said(self) -> None:
        """From the second turn on the user repeats every earlier turn before the new one."""
        speakers = ScriptedReplies(
            {
                "assistant": ["?"] * 3,
                "classify": [attempt("discussion")] * 3,
                "user": [user("bo has 4", 2), user("twice", 3)],
            }
        )
        ending = played(scenario("snowball"), speakers)
        assert [content for role, content in trace_of(ending) if role == "user"] == [
            "How many plums has Ada?",
            "Just to reiterate,\n- How many plums has Ada?\n\nAlso,\n\nbo has 4\n",
            "Just to reiterate,\n- How many plums has Ada?\n- bo has 4\n\nAlso,\n\ntwice\n",
        ]
        assert [note for role, note in trace_of(ending) if note[0] == "shard_revealed"] == [
            ("shard_revealed", 1),
            ("shard_revealed", 2),
            ("shard_revealed", 3),
        ]


class TestAnswers:
    def test_a_whole_reply_is_the_answer(self) -> None:
        """Where the task says so, nobody is asked to copy an answer out."""
        speakers = ScriptedReplies({"assistant": ["8"]})
        assert played(scenario("full", PlainTask(whole=True)), speakers).result["score"] == 1

    def test_three_tries_with_rising_temperature(self) -> None:
        """An answer that does not occur in the reply is asked for up to twice more, with another seed and a higher
        temperature.
        """
        speakers = ScriptedReplies(
            {"assistant": ["She has 8."], "extract": [{"answer": "9"}, "cut {", {"answer": "8"}]}
        )
        ending = played(scenario("full"), speakers)
        assert ending.result["score"] == 1
        calls = speakers.of("extract")
        assert [call.sampling.temperature for call in calls] == [0.0, 0.5, 1.0]
        assert len({call.seed for call in calls}) == 3


class TestNames:
    @pytest.mark.parametrize(
        ("condition", "changes", "name"),
        [
            ("full", {"assistant_temperature": 0.5}, "full-t0.5"),
            (
                "sharded",
                {"assistant_temperature": 0.5, "user_temperature": 0.0},
                "sharded-at0.5-ut0.0",
            ),
        ],
    )
    def test_temperatures_are_named_unless_one(
        self, condition: Condition, changes: dict[str, Any], name: str
    ) -> None:
        """Temperatures other than 1 are part of `conv_type`."""
        assert scenario(condition, **changes).conv_type == name
