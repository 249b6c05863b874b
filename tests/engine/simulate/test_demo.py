"""Properties of the sample conversations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message
from engine.simulate.demo import TEXTS, sample_conversations, write_jsonl

CORPUS = sample_conversations(300)


def failed(kind: str) -> list[Conversation]:
    """The conversations that fail in one way."""
    return [c for c in CORPUS if c.truth and c.truth.get("failure") == kind]


def said(conversation: Conversation, *roles: str) -> str:
    """All that these roles say."""
    return "\n".join(m.content for m in conversation.messages if m.role in roles)


def calls(conversation: Conversation) -> list[tuple[str, dict[str, object], str]]:
    """Name, arguments and result of each call."""
    pairs = zip(conversation.messages, conversation.messages[1:], strict=False)
    return [
        (call.name, json.loads(call.arguments), after.content)
        for message, after in pairs
        for call in message.tool_calls
    ]


class TestTheSet:
    def test_a_seed_determines_the_conversations(self) -> None:
        """The same count and seed give the same conversations, another seed others."""
        assert sample_conversations(40, 3) == sample_conversations(40, 3)
        ours = {c.messages for c in sample_conversations(40, 3)}
        assert not ours & {c.messages for c in sample_conversations(40, 4)}

    @pytest.mark.parametrize("count", [0, 1, 7, 60])
    def test_any_count_is_met(self, count: int) -> None:
        """As many conversations as asked for, each with an id of its own, in order of time."""
        made = sample_conversations(count)
        assert len({c.external_id for c in made}) == count
        times = [c.created_at or "" for c in made]
        assert times == sorted(times)

    def test_outcomes_have_their_shares(self) -> None:
        """A tenth breaks off, about a quarter fails, and the truth says which and how."""
        outcomes = Counter(c.truth["outcome"] for c in CORPUS if c.truth)
        assert outcomes["broken_off"] == pytest.approx(30, abs=3)
        assert outcomes["failed"] == pytest.approx(70, abs=5)
        for c in CORPUS:
            assert c.truth is not None
            assert c.truth["complete"] == (c.truth["outcome"] == "complete")
            assert ("failure" in c.truth) == (c.truth["outcome"] == "failed")

    def test_one_thing_changes_between_the_months(self) -> None:
        """Timeouts begin in the second month; every other way to fail is as frequent in both, and so is each goal."""
        month = {c.external_id: (c.created_at or "")[5:7] for c in CORPUS}
        assert {month[c.external_id] for c in failed("timeout")} == {"04"}
        assert len(failed("timeout")) >= 15
        for kind in ("wrong_item", "refused", "loop", "gave_up"):
            first = sum(month[c.external_id] == "03" for c in failed(kind))
            assert abs(2 * first - len(failed(kind))) <= 3
        for goal in TEXTS.goals.values():
            of_goal = [c for c in CORPUS if c.truth and c.truth["goal"] == goal.name]
            first = sum(month[c.external_id] == "03" for c in of_goal)
            assert abs(2 * first - len(of_goal)) <= 1


class TestFailures:
    def test_the_carrier_gives_no_answer_twice(self) -> None:
        """In a timeout the tool of one carrier fails twice, and nothing is found out."""
        for c in failed("timeout"):
            results = [result for name, _, result in calls(c) if name == "track_parcel"]
            assert len(results) == 2
            assert all("Northway gateway timed out" in result for result in results)


class TestCoherence:
    def test_every_call_is_answered(self) -> None:
        """The message after a call is its result, by id and name; ids are unique in a conversation."""
        for c in CORPUS:
            ids = [call.call_id for m in c.messages for call in m.tool_calls]
            assert len(ids) == len(set(ids))
            for message, after in zip(c.messages, [*c.messages[1:], None], strict=True):
                for call in message.tool_calls:
                    assert after is not None
                    assert (after.role, after.name) == ("tool", call.name)
                    assert after.tool_call_id == call.call_id

    def test_broken_off_conversations_stop_before_the_end(self) -> None:
        """Where it breaks off nothing that was wanted is done yet."""
        done = {"track_parcel", "create_return", "change_address", "cancel_order", "refund_item"}
        for c in CORPUS:
            if c.truth and c.truth["outcome"] == "broken_off":
                assert not done & {name for name, _, _ in calls(c)}


def test_the_uniform_form_has_everything(tmp_path: Path) -> None:
    """The file has messages, calls, ids and truth."""
    path = tmp_path / "demo.jsonl"
    write_jsonl(CORPUS, path)
    lines = path.read_bytes().decode("utf-8").splitlines()
    for line, c in zip(lines, CORPUS, strict=True):
        record = json.loads(line)
        assert (record["id"], record["dataset"]) == (c.external_id, "demo")
        assert (record["truth"], record["created_at"]) == (c.truth, c.created_at)
        assert [of_message(m) for m in c.messages] == [of_record(m) for m in record["messages"]]


def of_message(message: Message) -> tuple[object, ...]:
    """What a message has."""
    made = [(call.call_id, call.name, call.arguments) for call in message.tool_calls]
    return (message.role, message.content, message.name, message.tool_call_id, made)


def of_record(record: dict[str, object]) -> tuple[object, ...]:
    """The same of its record."""
    made = record.get("tool_calls", [])
    assert isinstance(made, list)
    return (
        record["role"],
        record["content"],
        record.get("name"),
        record.get("tool_call_id"),
        [(each["id"], each["name"], each["arguments"]) for each in made],
    )
