"""Answers of batches are read with their requests, which lie in another file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UnknownFormat
from engine.conversations.stages import digest_of
from engine.formats.inputs import open_inputs
from engine.formats.records import Input, Parsed, Rejected

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2?"}]
OPENAI_REQUEST = {"custom_id": "r1", "url": "/v1/chat", "body": {"model": "m", "messages": ASKED}}
OPENAI_ANSWER = {
    "id": "batch_1",
    "custom_id": "r1",
    "response": {"body": {"choices": [{"message": {"role": "assistant", "content": "It is 4."}}]}},
}
ANTHROPIC_REQUEST = {"custom_id": "r1", "params": {"system": "Be brief.", "messages": ASKED[1:]}}
ANTHROPIC_ANSWER = {
    "custom_id": "r1",
    "result": {
        "type": "succeeded",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "It is 4."}]},
    },
}
RESPONSES_REQUEST = {
    "custom_id": "r1",
    "method": "POST",
    "url": "/v1/responses",
    "body": {"model": "m", "instructions": "Be brief.", "input": "What is 2+2?"},
}
SAID = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "It is 4."}],
}
RESPONSES_ANSWER = {
    "id": "batch_req_1",
    "custom_id": "r1",
    "response": {"status_code": 200, "body": {"object": "response", "output": [SAID]}},
    "error": None,
}
PAIRS = [
    (OPENAI_REQUEST, OPENAI_ANSWER),
    (RESPONSES_REQUEST, RESPONSES_ANSWER),
    (ANTHROPIC_REQUEST, ANTHROPIC_ANSWER),
]


def write(path: Path, *records: Any, as_list: bool = False) -> str:
    """Writes records as JSON Lines or as a list; returns the path."""
    path.parent.mkdir(exist_ok=True)
    lines = "\n".join(map(json.dumps, records))
    path.write_text(json.dumps(records) if as_list else lines + "\n", encoding="utf-8")
    return str(path)


def said(source: Input) -> list[list[tuple[str, str]]]:
    """Roles and texts of the conversations of an input, of which no record may be rejected."""
    found = list(source.records())
    assert all(isinstance(record, Parsed) for record in found)
    return [
        [(message.role, message.content) for message in record.conversation.messages]
        for record in found
        if isinstance(record, Parsed)
    ]


@pytest.mark.parametrize(("request_", "answer"), PAIRS, ids=["openai", "responses", "anthropic"])
def test_answers_of_a_batch_have_their_requests(tmp_path: Path, request_: Any, answer: Any) -> None:
    """An answer is one conversation with its request, found by `custom_id` in the import; a request without an answer
    stays one of its own, and the bytes of both are kept."""
    alone = {**request_, "custom_id": "r2"}
    write(tmp_path / "in.jsonl", alone, request_)
    write(tmp_path / "out.jsonl", answer)
    asked = [("system", "Be brief."), ("user", "What is 2+2?")]
    first, second = open_inputs([str(tmp_path)])
    assert said(first) == [asked]
    assert said(second) == [[*asked, ("assistant", "It is 4.")]]
    (record,) = second.records()
    assert record.raw.split(b"\n")[0] == json.dumps(request_).encode()
    assert "joined with the requests in" in second.detection.why


def test_batches_that_number_their_requests_alike_are_not_mixed(tmp_path: Path) -> None:
    """Of two batches with equal ids each has its own answers where each has a folder of its own; in one folder, where
    nobody knows which answer is whose, requests and answers stay apart, and none is lost."""
    other_request = json.loads(json.dumps(OPENAI_REQUEST).replace("What is 2+2?", "Who?"))
    other_answer = json.loads(json.dumps(OPENAI_ANSWER).replace("It is 4.", "Ada."))
    for folder, request_, answer in (
        ("a", OPENAI_REQUEST, OPENAI_ANSWER),
        ("b", other_request, other_answer),
    ):
        write(tmp_path / folder / "in.jsonl", request_)
        write(tmp_path / folder / "out.jsonl", answer)
        write(tmp_path / "one" / f"{folder}-in.jsonl", request_)
        write(tmp_path / "one" / f"{folder}-out.jsonl", answer)
    write(tmp_path / "b" / "in.jsonl", other_request, other_request | {"custom_id": "r2"})
    write(tmp_path / "a" / "more.jsonl", OPENAI_ANSWER | {"custom_id": "r2"})
    inputs = open_inputs([str(tmp_path / "a"), str(tmp_path / "b")])
    texts = [[text for _, text in turns] for source in inputs for turns in said(source)]
    assert sorted(texts) == [
        ["Be brief.", "What is 2+2?", "It is 4."],
        ["Be brief.", "Who?", "Ada."],
        ["Be brief.", "Who?", "It is 4."],
    ]
    mixed = list(open_inputs([str(tmp_path / "one")]))
    assert sum(len(said(source)) for source in mixed) == 4
    assert {len(turns) for source in mixed for turns in said(source)} == {1, 2}


def test_failed_answer_of_a_responses_batch_leaves_its_request(tmp_path: Path) -> None:
    """A request that failed is a conversation without an answer, its error is metadata, and a file of errors takes no
    request away; requests for embeddings are no
    conversations."""
    failed = {"status_code": 400, "body": {"error": {"message": "The input is too long."}}}
    write(tmp_path / "in.jsonl", RESPONSES_REQUEST, RESPONSES_REQUEST | {"custom_id": "r2"})
    write(tmp_path / "out.jsonl", RESPONSES_ANSWER, {"custom_id": "r2", "response": failed})
    _, answers = open_inputs([str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl")])
    _, record = answers.records()
    assert isinstance(record, Parsed)
    assert said(answers)[1] == [("system", "Be brief."), ("user", "What is 2+2?")]
    assert "The input is too long." in json.dumps(record.conversation.meta)
    write(tmp_path / "b" / "in.jsonl", RESPONSES_REQUEST)
    write(tmp_path / "b" / "errors.jsonl", {"custom_id": "r1", "response": failed})
    errors, requests = open_inputs([str(tmp_path / "b")])
    assert [type(one) for one in errors.records()] == [Rejected]
    assert said(requests) == said(answers)[1:]
    write(tmp_path / "vectors.jsonl", RESPONSES_REQUEST | {"url": "/v1/embeddings"})
    with pytest.raises(UnknownFormat):
        list(open_inputs([str(tmp_path / "vectors.jsonl")]))


def test_files_of_a_batch_in_several_folders_are_joined_if_both_are_given(tmp_path: Path) -> None:
    """The requests may lie elsewhere if their file is imported too; without them the reason says what is missing, and
    the source is read again once they are there."""
    asked = write(tmp_path / "a" / "in.jsonl", OPENAI_REQUEST)
    answered = write(tmp_path / "b" / "out.jsonl", OPENAI_ANSWER)
    (alone,) = open_inputs([answered])
    assert "the requests are missing" in alone.detection.why
    assert said(alone) == [[("assistant", "It is 4.")]]
    (joined,) = open_inputs([answered], together=[asked, answered])
    assert len(said(joined)[0]) == 3
    (requests,) = open_inputs([asked], together=[asked, answered])
    assert said(requests) == []
    assert digest_of(answered, "", alone.companion_files) != digest_of(
        answered, "", joined.companion_files
    )
