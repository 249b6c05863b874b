"""Kinds of fault that real logs have: each is read as a person would, whatever the format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.conversations.service import account_lines
from engine.formats.opening.framing import Frame
from engine.formats.records import Account, Detection, Parsed, SourceReport, Unread
from engine.formats.registry import all_readers, parse_record
from tests.engine.formats.reading import one, parsed, read

Said = list[tuple[str, str]]

ROSES: Said = [("user", "Water the roses"), ("assistant", "Watered.")]
SCHEMA = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}


def lines(*records: Any) -> bytes:
    """Returns the records as JSON Lines."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def said(record: Parsed) -> Said:
    """Returns the role and the text of each message, of a call its name and arguments."""
    return [
        (
            message.role,
            message.content or "".join(f"{c.name}{c.arguments}" for c in message.tool_calls),
        )
        for message in record.conversation.messages
    ]


def message(role: str, content: str, **more: Any) -> dict[str, Any]:
    """Returns a message of a chat API."""
    return {"role": role, "content": content, **more}


MESSAGES = [message(role, content) for role, content in ROSES]


@pytest.mark.parametrize(
    "record",
    [
        {"messages": MESSAGES, "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        {"input_schema": SCHEMA, "conversation": MESSAGES},
        {"prompt": "Water the roses", "response": "Watered.", "schema": SCHEMA},
        {"grouping_size": 1, "form": {}, "model": "m", "messages": MESSAGES},
    ],
)  # fmt: skip
def test_a_schema_does_not_make_a_form_of_a_conversation(record: Any) -> None:
    """A record with messages is a conversation, whatever else it has that forms have."""
    assert said(one(lines(record))) == ROSES


def test_a_reader_that_reads_much_more_is_taken() -> None:
    """Of two readers that know a record, the usual one loses if it makes messages of little and the other of much."""
    turns = [
        {"from": speaker, "value": f"Please water the roses {n} times"}
        for n in range(9)
        for speaker in ("human", "gpt")
    ]
    record = {"messages": [message("user", "Hi")], "conversations": turns}
    assert len(one(lines(record)).conversation.messages) == len(turns)
    few = {"messages": MESSAGES, "conversations": turns[:2]}
    assert said(one(lines(few))) == ROSES


@pytest.mark.parametrize(
    "records",
    [
        MESSAGES,
        [{"type": role, "text": text} for role, text in ROSES],
        [{"ts": n, "payload": {"role": role, "text": text}} for n, (role, text) in enumerate(ROSES)],
        [{"from": "human", "value": "Water the roses"}, {"from": "gpt", "value": "Watered."}],
        [["events", {"type": "user.message", "content": "Water the roses"}],
         ["events", {"type": "agent.message", "content": "Watered."}]],
        [{"source": role, "type": "TextMessage", "content": text} for role, text in ROSES],
        [{"event": "user_message", "payload": {"text": "Water the roses"}, "context": {"session_id": "s"}},
         {"event": "bot_message", "payload": {"text": "Watered."}, "context": {"session_id": "s"}}],
        [{"type": "message", "role": "user", "content": "Water the roses"},
         {"type": "message", "role": "assistant", "content": "Wat", "delta": True},
         {"type": "message", "role": "assistant", "content": "ered.", "delta": True}],
        [{"channel_id": "7", "author": {"name": name, "bot": name == "Ann"}, "content": text}
         for name, (_, text) in zip(("Bob", "Ann"), ROSES, strict=True)],
        [{"conversation_sid": "7", "author": name, "body": text, "index": 1 - n}
         for n, (name, (_, text)) in enumerate(zip(("Ann", "+1555"), ROSES[::-1], strict=True))][::-1],
    ],
)  # fmt: skip
def test_lines_that_are_one_message_each_are_one_conversation(records: list[Any]) -> None:
    """A file of lines with one message each, in whatever wrapper, is one conversation."""
    assert said(one(lines(*records))) == ROSES


def test_lines_are_conversations_by_session_or_by_their_first_message() -> None:
    """Lines that name sessions are a conversation for each; so are lines that lead to different first messages."""
    of_sessions = [{"session": n, "event": item} for n in (1, 2) for item in MESSAGES]
    about = [{"metadata": {"thread_id": n}, "data": item} for n in (1, 2) for item in MESSAGES]
    linked = [
        {**item, "id": f"{n}{position}", "parentId": f"{n}{position - 1}" if position else None}
        for n in (1, 2)
        for position, item in enumerate(MESSAGES)
    ]
    for records in (of_sessions, about, linked):
        assert [said(record) for record in parsed(lines(*records))] == [ROSES, ROSES]


def test_items_of_the_responses_api_may_be_lines() -> None:
    """Items of the Responses API that are a line each, as in older rollouts of Codex, are one conversation."""
    call = {"type": "function_call", "name": "water", "arguments": "{}", "call_id": "c"}
    answer = {"type": "function_call_output", "call_id": "c", "output": "wet"}
    first, last = ({"type": "message", **item} for item in MESSAGES)
    header = {"id": "s", "timestamp": "2025-05-01T10:00:00Z", "instructions": "Be kind."}
    assert said(one(lines(header, first, call, answer, last))) == CALLED


@pytest.mark.parametrize("odd", [None, {"role": "session_meta"}, {"type": "divider", "v": 1}])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_one_odd_item_does_not_refuse_a_conversation(odd: Any, position: int) -> None:
    """An item that is no message is kept as metadata and counted; the others are the conversation."""
    items = [*MESSAGES[:position], odd, *MESSAGES[position:]]
    record = one(json.dumps({"messages": items}).encode())
    assert said(record) == ROSES
    assert record.conversation.meta["not read"] == [odd]
    assert sum(unread.times for unread in record.account.unknown.values()) == 1


def test_one_odd_item_does_not_refuse_a_conversation_of_a_mapping() -> None:
    """Formats that are mapping files pass over an item that is no message, too."""
    contents = [
        {"role": "user", "parts": [{"text": "Water the roses"}]},
        {"role": "divider", "parts": [{"text": "---"}]},
        {"role": "model", "parts": [{"text": "Watered."}]},
    ]
    record = one(lines({"contents": contents}))
    assert said(record) == ROSES
    assert record.conversation.meta["events"] == [contents[1]]


def test_an_odd_first_record_does_not_refuse_the_others() -> None:
    """A list of conversations or messages may begin with something else."""
    assert said(one(json.dumps([{"version": 1}, *MESSAGES]).encode())) == ROSES
    wrapped = {"conversations": [{"messages": []}, {"messages": MESSAGES}]}
    (record,) = [record for record in read_all(wrapped) if isinstance(record, Parsed)]
    assert said(record) == ROSES


def read_all(value: Any) -> list[Any]:
    """Returns the records of a file with one value, broken ones too."""
    return read(json.dumps(value).encode())


def test_a_message_that_cannot_be_read_is_no_odd_item_if_only_one_side_is_left() -> None:
    """A conversation whose user cannot be told is refused, and not imported without the user."""
    items = [message("kunde", "Hallo"), message("assistant", "Ja?"), message("kunde", "Rosen")]
    (record,) = read_all({"messages": items})
    assert "role 'kunde'" in record.reason


BRANCHES = [
    message("user", "Water the roses", id="1", parentMessageId="0"),
    message("assistant", "No, too cold.", id="2", parentMessageId="1"),
    message("assistant", "Watered.", id="3", parentMessageId="1"),
]


@pytest.mark.parametrize(
    ("record", "answer"),
    [
        ({"messages": BRANCHES}, "Watered."),
        ({"messages": BRANCHES, "currentMessageId": "2"}, "No, too cold."),
        (
            {
                "uuid": "k",
                "chat_messages": [
                    {
                        "uuid": item["id"],
                        "parent_message_uuid": item["parentMessageId"],
                        "sender": item["role"].replace("user", "human"),
                        "text": item["content"],
                    }
                    for item in BRANCHES
                ],
                "current_leaf_message_uuid": "3",
            },
            "Watered.",
        ),
    ],
)
def test_the_current_branch_is_the_conversation(record: Any, answer: str) -> None:
    """Where messages name the one before them, an answer that was made anew takes the place of the first, unless the
    record names the first as its current one; the other is kept as metadata."""
    parsed_record = one(json.dumps(record).encode())
    assert said(parsed_record) == [("user", "Water the roses"), ("assistant", answer)]
    assert len(parsed_record.conversation.meta["other branches"]) == 1


def test_rows_follow_the_current_branch() -> None:
    """Rows of a conversation that name the row before them are a tree, too."""
    rows = [
        {**item, "conversation_id": "c", "parent_id": item["parentMessageId"]} for item in BRANCHES
    ]
    assert said(one(lines(*rows))) == ROSES


def test_parallel_answers_of_tools_are_no_branches() -> None:
    """Several answers of tools that follow one message are all part of the conversation."""
    calls = [
        {"id": n, "type": "function", "function": {"name": n, "arguments": "{}"}} for n in "ab"
    ]
    items = [
        message("user", "Go", id="1"),
        message("assistant", "", tool_calls=calls, id="2", parent_id="1"),
        message("tool", "A", tool_call_id="a", id="3", parent_id="2"),
        message("tool", "B", tool_call_id="b", id="4", parent_id="2"),
    ]
    assert len(one(lines({"messages": items})).conversation.messages) == 4


def test_of_several_transcripts_the_one_with_calls_is_read() -> None:
    """Of the transcripts of one talk, that with the calls of tools is read, and the others are left out."""
    record = {
        "call_id": "c1",
        "transcript": "Agent: Hello?\nUser: Water the roses.\nAgent: Done.\n",
        "transcript_with_tool_calls": [
            message("agent", "Hello?"),
            message("user", "Water the roses."),
            {
                "role": "tool_call_invocation",
                "tool_call_id": "t",
                "name": "water",
                "arguments": "{}",
            },
            {"role": "tool_call_result", "tool_call_id": "t", "content": "wet"},
            message("agent", "Done."),
        ],
    }
    parsed_call = one(lines(record))
    assert said(parsed_call)[2:] == [
        ("assistant", "water{}"),
        ("tool", "wet"),
        ("assistant", "Done."),
    ]
    assert parsed_call.conversation.meta == {}


@pytest.mark.parametrize(
    "records",
    [
        [message("user", "Q", conversation_id="c", status="read"),
         message("assistant", "A", conversation_id="c", status="delivered")],
        [message("user", "Q", conversation_id="c", score=0.1),
         message("assistant", "A", conversation_id="c", score=0.9)],
        [{"id": "x", "status": "archived", "messages": [message("user", "Q", status="failed")]}],
    ],
)  # fmt: skip
def test_a_field_of_a_message_is_no_outcome(records: list[Any]) -> None:
    """A status that is no outcome's word, and what differs from row to row, is no truth."""
    assert one(lines(*records)).conversation.truth is None


def test_a_column_with_one_outcome_is_truth() -> None:
    """A column that says the same of all rows states the outcome of the conversation."""
    rows = [message(role, text, ticket_id="t", status="solved") for role, text in ROSES]
    assert one(lines(*rows)).conversation.truth == {"status": "solved"}


def test_nulls_of_a_table_are_no_arguments() -> None:
    """A call has only the arguments that are not null: tables give each call the arguments of all others."""
    call = {"id": "1", "function": {"name": "water", "arguments": {"bed": "roses", "text": None}}}
    record = {"messages": [message("user", "Go"), message("assistant", "", tool_calls=[call])]}
    assert said(one(lines(record)))[1] == ("assistant", 'water{"bed": "roses"}')


def test_fields_of_which_one_is_a_conversation_are_no_conversations() -> None:
    """Of an event with objects as its fields one may hold messages; the others are not broken conversations."""
    event = {
        "id": "e",
        "config": {"a": 1},
        "inputs": {"chat_history": MESSAGES},
        "outputs": {"b": 2},
    }
    records = parsed(json.dumps({"events": [event, event]}).encode())
    assert [said(record) for record in records] == [ROSES, ROSES]


def test_a_time_that_is_no_date_is_counted() -> None:
    """A time that cannot be read is none; the account counts it by its shape, with an example, and says how to tell
    which of day and month is first."""
    account = Account()
    for value in ("03/04/2026 10:00", "05/06/2026 11:00", 45354.67):
        record = one(lines({"created_at": value, "messages": MESSAGES}))
        assert record.conversation.created_at is None
        account.include(record.account)
    assert account.undated == {
        "00/00/0000 00:00": Unread(2, 32, "03/04/2026 10:00"),
        "00000.00": Unread(1, 8, "45354.67"),
    }
    report = SourceReport("a.jsonl", Detection("openai", "it has messages"), account=account)
    assert any("`day_first` in a mapping file" in line for line in account_lines([report], str))


def test_server_sent_events_are_an_answer() -> None:
    """The lines of a streamed answer are read as its events; their names and the end are no records."""
    begin = {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}}
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Watered."},
    }
    data = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in (begin, delta))
    assert said(one(f"{data}data: [DONE]\n".encode())) == [("assistant", "Watered.")]


TURNS = [
    {"speaker": "Caller", "utterance": "Water the roses"},
    {"speaker": "system", "utterance": "Watered."},
]


@pytest.mark.parametrize(
    "record",
    [
        {"turns": TURNS},
        {"text": "### Human: Water the roses### Assistant: Watered."},
        {"messages": [message("user", "Hi")], "turns": TURNS},
        {"transcript": "User: Water the roses", "sentences": [
            {"speaker_name": "Bob", "text": "Water the roses"}, {"speaker_name": "Ann", "text": "Watered."}]},
        {"messages": [message("system", "Hi")], "chat_log": "User: Water the roses\nAssistant: Watered."},
    ],
)  # fmt: skip
def test_turns_of_a_record_are_its_conversation(record: Any) -> None:
    """A list of turns is a conversation under the usual names; of several lists and texts the fullest is read."""
    assert said(one(lines(record))) == ROSES


def test_the_likeliest_of_given_answers_is_the_models() -> None:
    """A sample of lm-evaluation-harness with log-likelihoods has the answer that got the highest one."""
    sample = {
        "doc_id": 1,
        "doc": {},
        "target": 0,
        "arguments": [["Water the roses", " No."], ["Water the roses", " Watered."]],
        "resps": [[[-3.5, False]], [["-0.5", "True"]]],
    }
    assert said(one(lines(sample))) == ROSES


def test_a_conversation_that_sinks_into_metadata_is_a_warning() -> None:
    """An account warns if metadata have far more sentences than the messages; few or technical texts are no reason."""
    sunk = {
        "messages": MESSAGES,
        "log": [f"{n} Please tell me where my parcel is now." for n in range(40)],
    }
    code = {"messages": MESSAGES, "log": ["def f(a, b, c, d, e, f, g): return a"] * 5}
    assert one(lines(sunk)).account.warns
    assert not one(lines(code)).account.warns


def test_records_of_one_object_each_are_unwrapped() -> None:
    """A record that is most of an object, as in a dump of a database, is read."""
    dumped = [
        {"_id": str(n), "_source": {"session_id": str(n), "messages": MESSAGES}} for n in (1, 2)
    ]
    for data in (
        lines(*dumped),
        json.dumps({"took": 3, "hits": {"total": 2, "hits": dumped}}).encode(),
    ):
        assert [said(record) for record in parsed(data)] == [ROSES, ROSES]


SESSION = {"sessionId": "s", "cwd": "/w", "version": "2.1.0"}


def claude_line(
    role: str, content: Any, uuid: str, parent: str | None, **more: Any
) -> dict[str, Any]:
    """Returns a line of Claude Code."""
    inner = {
        "role": role,
        "content": content,
        **({"id": f"m{content}"} if role == "assistant" else {}),
    }
    about = {
        "type": role,
        "uuid": uuid,
        "parentUuid": parent,
        "timestamp": f"2026-01-01T10:00:0{uuid}Z",
    }
    return {**SESSION, **about, "message": inner, **more}


def test_a_prompt_that_was_written_while_the_model_works_is_the_users() -> None:
    """A queued prompt of Claude Code stands in its place; what a task tells is the system's."""
    queued = {"type": "queued_command", "prompt": "And the lilies", "commandMode": "prompt"}
    told = {**queued, "prompt": "<task-notification>done</task-notification>"}
    records = [
        claude_line("user", "Water the roses", "1", None),
        claude_line("assistant", "Starting.", "2", "1"),
        {**SESSION, "type": "attachment", "attachment": queued, "uuid": "3", "parentUuid": "2"},
        {**SESSION, "type": "attachment", "attachment": told, "uuid": "4", "parentUuid": "2"},
        claude_line("assistant", "Both done.", "5", "2"),
    ]
    assert said(one(lines(*records))) == [
        ("user", "Water the roses"),
        ("assistant", "Starting."),
        ("user", "And the lilies"),
        ("system", "<task-notification>done</task-notification>"),
        ("assistant", "Both done."),
    ]


def test_a_history_that_is_written_again_is_there_once() -> None:
    """With streamed input Claude Code writes the history again before each turn, under new ids."""
    turns = [*ROSES, ("user", "And the lilies?"), ("assistant", "Also.")]
    again = [*ROSES, *turns, *turns, ("user", "Thanks"), ("assistant", "Bye.")]
    records = [
        claude_line(role, text, f"{number:02}", f"{number - 1:02}" if number else None)
        for number, (role, text) in enumerate(again)
    ]
    assert said(one(lines(*records))) == [*turns, ("user", "Thanks"), ("assistant", "Bye.")]


def test_what_a_program_writes_into_a_prompt_is_the_systems() -> None:
    """Reminders at the beginning or the end of what the user wrote are a message of the system."""
    reminder = "<system-reminder>\nSee GARDEN.md\n</system-reminder>"
    for content in (
        f"{reminder}\nWater the roses",
        f"Water the roses\n{reminder}",
        [{"type": "text", "text": reminder}, {"type": "text", "text": "Water the roses"}],
    ):
        record = said(one(lines(claude_line("user", content, "1", None))))
        assert [(role, text.strip()) for role, text in record] == [
            ("system", reminder),
            ("user", "Water the roses"),
        ]


def test_all_requests_of_a_user_in_one_prompt_are_the_users() -> None:
    """Of two requests in tags of Antigravity none becomes a message of the system."""
    content = "<USER_REQUEST>Water the roses</USER_REQUEST>\n<USER_REQUEST>Now</USER_REQUEST>"
    record = said(one(lines(claude_line("user", content, "1", None))))
    assert [role for role, _ in record] == ["user"]


@pytest.mark.parametrize(
    "record",
    [
        [message("user", "<task>Hi</task><environment_details></environment_details>"), 7],
        [7, *[{"role": role, "content": text} for role, text in ROSES * 2]],
        {"conversations": [None, *[{"from": "human", "value": "Hi"}] * 3]},
        {"role": "user", "contentParts": []},
        {"prompt": "Hi", "response": {"from": "gpt", "value": "Hello"}},
        {
            "transcript": [
                {"role": "user", "contentParts": []},
                *[{"speaker": "a", "text": "b"}] * 2,
            ]
        },
    ],
)
def test_odd_entries_do_not_end_the_search_for_a_format(record: Any) -> None:
    """Each reader says whether it knows a record, and one that does reads it or says why not."""
    frame = Frame(1, json.dumps(record).encode(), record)
    for reader in all_readers():
        if reader.recognize(record):
            frames = [frame] if reader.arrange is None else reader.arrange([frame])
            assert all(parse_record(reader, arranged, "id") for arranged in frames)


def span(name: str, key: str, parent: str | None, **attributes: Any) -> dict[str, Any]:
    """Returns a span of OpenTelemetry."""
    return {
        "trace_id": "t",
        "span_id": key,
        "parent_span_id": parent,
        "name": name,
        "start_time": 1786569488000000000 + int(key),
        "attributes": {key.replace("__", "."): value for key, value in attributes.items()},
    }


AGENT = {
    "openinference__span__kind": "AGENT",
    "input__value": "Water the roses",
    "output__value": "Watered.",
}
TOOL = span(
    "water", "9", "1", openinference__span__kind="TOOL", input__value="{}", output__value="wet"
)
CALLED = [
    ("user", "Water the roses"),
    ("assistant", "water{}"),
    ("tool", "wet"),
    ("assistant", "Watered."),
]


ANSWERED = "llm__output_messages__{}__message__"
"""Beginning of the attributes of a message that an agent answered."""
WITH_ANSWER = {
    ANSWERED.format(0) + "role": "assistant",
    ANSWERED.format(0) + "content": "Watered.",
}
WITH_CALL = {
    ANSWERED.format(0) + "role": "assistant",
    ANSWERED.format(0) + "tool_calls__0__tool_call__function__name": "water",
    ANSWERED.format(0) + "tool_calls__0__tool_call__function__arguments": "{}",
    ANSWERED.format(1) + "role": "assistant",
    ANSWERED.format(1) + "content": "Watered.",
}
OF_HTTP = span("POST /chat", "0", None, http__request__method="POST")


@pytest.mark.parametrize(
    "spans",
    [
        [OF_HTTP, span("agent", "1", "0", **AGENT), TOOL],
        [span("agent", "1", None, **AGENT, **WITH_ANSWER), TOOL],
        [span("agent", "1", None, **AGENT, **WITH_CALL), TOOL],
    ],
    ids=["within HTTP", "with an answer", "with a call that only the span of the tool answers"],
)
def test_a_trace_is_read_by_what_its_agent_says(spans: list[Any]) -> None:
    """The question, the calls, their answers and the last answer are read, wherever the spans have them."""
    assert said(one(json.dumps(spans).encode())) == CALLED


def test_roles_of_tools_in_a_trace() -> None:
    """Roles such as `tool-response` are those of tools, whatever sign stands between their words."""
    roles = ["user", "tool-call", "tool-response"]
    attributes = {
        "openinference__span__kind": "LLM",
        "llm__output_messages__0__message__role": "assistant",
    }
    attributes["llm__output_messages__0__message__content"] = "Watered."
    for position, role in enumerate(roles):
        attributes[f"llm__input_messages__{position}__message__role"] = role
        attributes[f"llm__input_messages__{position}__message__content"] = f"text {position}"
    record = one(json.dumps([span("llm", "1", None, **attributes)]).encode())
    assert [role for role, _ in said(record)] == ["user", "assistant", "tool", "assistant"]


def test_spans_of_adk() -> None:
    """Requests and responses in the attributes of Google's Agent Development Kit are read."""
    request = {"contents": [{"role": "user", "parts": [{"text": "Water the roses"}]}]}
    response = {"content": {"role": "model", "parts": [{"text": "Watered."}]}}
    attributes = {
        "gen_ai__system": "gcp.vertex.agent",
        "gcp__vertex__agent__session_id": "z",
        "gcp__vertex__agent__llm_request": json.dumps(request),
        "gcp__vertex__agent__llm_response": json.dumps(response),
    }
    call = span("call_llm", "1", None, **attributes)
    record = one(json.dumps([call]).encode())
    assert said(record) == ROSES
    assert record.conversation.external_id == "z"


def generation(key: str, given: Any, answered: Any, parent: str = "") -> dict[str, Any]:
    """Returns a call of a model in Langfuse."""
    about = {"id": key, "traceId": "t", "type": "GENERATION", "parentObservationId": parent}
    return {**about, "startTime": f"2026-01-01T10:00:0{key}Z", "input": given, "output": answered}


def test_a_call_that_is_given_answers_of_tools_only_goes_on() -> None:
    """Where the server has the history, a call is given the new answers of tools only, and continues the one before."""
    call = {"type": "tool_call", "id": "c", "name": "water", "arguments": "{}"}
    answer = {"type": "tool_call_response", "id": "c", "response": "wet"}
    text = [{"role": "user", "parts": [{"type": "text", "content": "Water the roses"}]}]
    last = [{"role": "assistant", "parts": [{"type": "text", "content": "Watered."}]}]
    records = [
        generation("1", text, [{"role": "assistant", "parts": [call]}]),
        generation("2", [{"role": "tool", "parts": [answer]}], last),
    ]
    assert said(one(lines(*records))) == CALLED


def test_messages_as_python_shows_them() -> None:
    """Messages that a framework logged as Python shows its objects are read, with their calls."""
    calls = "[{'id': 'c', 'function': {'name': 'water', 'arguments': '{}'}}]"
    shown = [
        "role='user' content='Water the roses' name=None",
        f"role='assistant' content=None tool_calls={calls} audio=None",
        "role='tool' content='wet' name=None tool_call_id='c'",
    ]
    answer = {"choices": [{"message": {"role": "assistant", "content": "Watered."}}]}
    assert said(one(lines(generation("1", {"messages": shown}, answer)))) == CALLED


@pytest.mark.parametrize(
    ("given", "answered"),
    [
        ({"messages": [{"_role": "user", "_content": [{"text": "Water the roses"}]}]},
         {"replies": [{"_role": "assistant", "_content": [{"text": "Watered."}]}]}),
        ({"messages": [{"content": "Water the roses", "source": "user", "type": "UserMessage"}]},
         {"content": "Watered.", "finish_reason": "stop"}),
        ({"user_input": "Water the roses", "session": "z"}, {"final_output": "Watered.", "usage": {}}),
        ("developer: Be kind\nuser: Water the roses\nassistant: None", "Watered."),
    ],
    ids=["Haystack", "AutoGen", "an agent", "a text"],
)  # fmt: skip
def test_inputs_and_outputs_of_agent_frameworks(given: Any, answered: Any) -> None:
    """What a span was given and answered is read in each framework's own form."""
    assert said(one(lines(generation("1", given, answered))))[-2:] == ROSES


def test_log_records_of_a_span_are_its_messages() -> None:
    """Events of GenAI that were logged as records of their own, a line each, are the messages of their span."""
    about = {"trace_id": "t", "span_id": "s", "timestamp": "2026-01-01T10:00:01Z"}
    records = [
        {
            **about,
            "attributes": {"event.name": "gen_ai.user.message"},
            "body": {"content": "Water the roses"},
        },
        {**about, "attributes": {"event.name": "gen_ai.choice"}, "body": {"message": MESSAGES[1]}},
    ]
    assert said(one(lines(*records))) == ROSES
