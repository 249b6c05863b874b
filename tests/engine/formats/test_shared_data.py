"""Real conversations are read without loss."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from engine.base.errors import FormatError
from engine.formats.inputs import open_inputs
from engine.formats.messages.normalise import RENDERED_CALLS
from engine.formats.records import Account, Parsed
from tests.shared_data import (
    original_files,
    original_folder,
    shared_file,
    shared_files,
    shared_samples,
)

ORIGINALS = original_files(
    "tau_bench",
    "openai_messages",
    "sharegpt",
    "code_feedback",
    "agent_flan",
    "lost_in_conversation",
    "sgd",
)
NOT_CONVERSATIONS = (
    "MockAirlineDomainEnv-few_shot.jsonl",
    "sharded_gsm8k_v2_first60.json",
    "sharded_translation.json",
)

if shared_files():

    @pytest.mark.parametrize("path", shared_files(), ids=lambda path: path.name)
    def test_uniform_file_is_read_whole(path: Path) -> None:
        """Every record of a uniform file keeps its id, roles, contents and calls; none is rejected."""
        (opened,) = open_inputs([path])
        assert opened.detection.format == "uniform"
        with gzip.open(path) as file:
            lines = file.read().splitlines()
        records = list(opened.records())
        assert len(records) == len(lines)
        assert opened.position() == opened.size
        for record, raw in zip(records, lines, strict=True):
            assert isinstance(record, Parsed)
            expected = json.loads(raw)
            assert record.raw == raw
            assert record.conversation.external_id == expected["id"]
            assert record.conversation.truth == expected["truth"]
            assert len(record.conversation.messages) == len(expected["messages"])
            for message, given in zip(
                record.conversation.messages, expected["messages"], strict=True
            ):
                rendering = message.content + "\n" if message.content else ""
                calls = given.get("tool_calls", [])
                if calls:
                    assert given["content"].startswith(rendering + RENDERED_CALLS)
                else:
                    assert message.content == given["content"]
                assert message.role == given["role"]
                assert message.name == given.get("name")
                assert [call.name for call in message.tool_calls] == [c["name"] for c in calls]


if ORIGINALS:

    @pytest.mark.parametrize(
        "path",
        [p for p in ORIGINALS if p.name not in NOT_CONVERSATIONS],
        ids=lambda path: path.name,
    )
    def test_native_sample_is_read_whole(path: Path) -> None:
        """Every record of a sample in its native format becomes a conversation with an id of its own."""
        (opened,) = open_inputs([path])
        records = list(opened.records())
        assert records
        assert all(isinstance(record, Parsed) for record in records)
        ids = [record.conversation.external_id for record in records if isinstance(record, Parsed)]
        assert len(set(ids)) == len(ids)
        whole = path.read_bytes()
        assert all(record.raw in whole for record in records)


SIMULATED = shared_file("recllmsim_agent")
STUDIES = original_folder("recllmsim")

if SIMULATED is not None and STUDIES is not None:

    def test_studies_of_planning_are_read_with_their_annotations() -> None:
        """All three schemas are recognised in their folders; goals and annotations are those of the uniform file, with
        a hallucination mark for each assistant message.
        """
        assert SIMULATED is not None
        assert STUDIES is not None
        with gzip.open(SIMULATED) as file:
            uniform = {one["id"]: one for one in map(json.loads, file)}
        first = next(iter(uniform.values()))["truth"]
        for opened in open_inputs([STUDIES]):
            assert opened.detection.format == "recllmsim"
            (record,) = opened.records()
            assert isinstance(record, Parsed)
            truth = record.conversation.truth
            assert truth is not None
            assert truth["goal"] in {one["truth"]["goal"] for one in uniform.values()}
            assert len(truth["hallucination"]) == sum(
                message.role == "assistant" for message in record.conversation.messages
            )
            if truth["language"] == "en":
                assert truth.keys() >= first.keys()
                assert truth["rating"].keys() == first["rating"].keys()


SAMPLES = shared_samples()
NO_LOGS = ("README.md", "llm_cassette.yaml")
"""Files among the samples that hold no log: a list of sources, and what a test recorded of HTTP."""

if SAMPLES:

    @pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
    def test_sample_of_a_format_is_read_without_loss(path: Path) -> None:
        """Every sample has conversations, and at most a fiftieth of its text goes nowhere."""
        if path.name in NO_LOGS:
            with pytest.raises(FormatError, match="no conversations"):
                open_inputs([path])
            return
        conversations = 0
        for opened in open_inputs([path]):
            account = Account()
            for record in opened.records():
                if isinstance(record, Parsed):
                    conversations += 1
                    account.include(record.account)
            assert not account.warns, (opened.label, account.lost)
        assert conversations
