"""Instructions in the published format, and the reasons why one is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import read_instructions
from tests.engine.simulate.sharded.bound import instruction_of

ONE: dict[str, Any] = {
    "task_id": "sharded-A/1",
    "task": "math",
    "shards": [{"shard_id": 1, "shard": "how many?"}, {"shard_id": 2, "shard": "two"}],
    "question": "How many are two?",
}


class TestReading:
    @pytest.mark.parametrize("list_", [True, False])
    def test_list_and_lines_are_the_same(self, list_: bool) -> None:
        """A JSON list and JSON Lines give the same instructions."""
        other = {**ONE, "task_id": "B"}
        text = json.dumps([ONE, other]) if list_ else f"{json.dumps(ONE)}\n\n{json.dumps(other)}\n"
        assert [one.record() for one in read_instructions(text)] == [ONE, other]


class TestRefusing:
    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"task_id": ""}, "no `task_id`"),
            ({"task": "code"}, "`task` must be one of math, actions; it is 'code'"),
            ({"shards": []}, "at least one shard"),
            ({"shards": [{"shard_id": "1", "shard": "x"}]}, "shard 1: `shard_id` must be"),
            ({"shards": [{"shard_id": 1}]}, "shard 1: `shard` must be text, it is missing"),
            ({"shards": [{"shard_id": 1, "shard": "a"}] * 2}, "shard_id 1 occurs twice"),
            ({"shards": ["a"]}, "shard 1 is text, not an object"),
        ],
    )
    def test_reason_names_the_place(self, changes: dict[str, Any], reason: str) -> None:
        """The error names the instruction and the shard in which something is wrong."""
        with pytest.raises(BadInstruction) as refused:
            read_instructions(json.dumps([ONE, {**ONE, "task_id": "B", **changes}]))
        assert reason in str(refused.value)
        assert "Instruction 2" in str(refused.value)

    def test_ids_are_different(self) -> None:
        """Two instructions with one id are refused, because their results would overwrite each other."""
        with pytest.raises(BadInstruction, match=r"sharded-A/1"):
            read_instructions(json.dumps([ONE, ONE]))

    def test_missing_key_of_a_task(self) -> None:
        """A missing key of a task is an error that names it."""
        with pytest.raises(BadInstruction, match="`answer` must be text, it is missing"):
            instruction_of(ONE).text("answer")
