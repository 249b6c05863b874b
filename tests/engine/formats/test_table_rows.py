"""Tables with the usual names of columns are read without a mapping: a row a message, a turn, or a conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.base.errors import FormatError, UnknownFormat
from engine.formats.records import Parsed
from tests.engine.formats.reading import opened, parsed, read

CHATS = b"""Session ID,Sender,Message,Sent At,CSAT
s1,Customer,Hello there,2024-01-01T10:00:00,
s1,Agent,"Hi, what is it?",2024-01-01T10:02:00,
s2,Customer,Are you open?,2024-01-01T10:01:30,
s1,Customer,My key is lost,2024-01-01T10:01:00,5
s2,Agent,Until nine.,2024-01-01T10:03:00,
"""


def said(record: Parsed) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in record.conversation.messages]


def test_row_for_each_message() -> None:
    """Rows are put together by their conversation and ordered by time; a rating becomes truth, a time is kept."""
    first, second = parsed(CHATS)
    assert said(first) == [
        ("user", "Hello there"),
        ("user", "My key is lost"),
        ("assistant", "Hi, what is it?"),
    ]
    assert said(second) == [("user", "Are you open?"), ("assistant", "Until nine.")]
    assert first.conversation.external_id == "s1"
    assert first.conversation.created_at == "2024-01-01T10:00:00"
    begun, _ = parsed(CHATS.replace(b"Sent At", b"started_at"))
    assert begun.conversation.created_at == "2024-01-01T10:00:00"
    assert first.conversation.truth == {"CSAT": "5"}
    assert '"time": "2024-01-01T10:00:00"' in (first.conversation.messages[0].facts or "")
    assert first.account.share("nowhere") == 0


def test_row_for_each_question_and_answer_of_a_conversation() -> None:
    """Rows with prompt and response are two messages each, in the order of their turns, of which 10 follows 9."""
    rows = b"chat_id,turn,prompt,response\n1,10,And then?,Home.\n1,9,Hello,Hi.\n"
    (only,) = parsed(rows)
    assert said(only) == [
        ("user", "Hello"),
        ("assistant", "Hi."),
        ("user", "And then?"),
        ("assistant", "Home."),
    ]


def test_row_for_each_question_with_its_answer() -> None:
    """Without the name of a conversation each pair is one, and a score beside it is truth."""
    found = parsed(b"Prompt;Response;score\nWhat is it?;A cat.;1\nWhere?;There.;0\n")
    assert [said(one) for one in found] == [
        [("user", "What is it?"), ("assistant", "A cat.")],
        [("user", "Where?"), ("assistant", "There.")],
    ]
    assert found[0].conversation.truth == {"score": "1"}


@pytest.mark.parametrize(
    "exchanges",
    [
        {"dialog": [{"human": "Hi?", "bot": "Ho."}, {"human": "Bye?", "bot": "Bye."}]},
        {"conversation": [["Hi?", "Ho."], ["Bye?", "Bye."]]},
        {"history": [["Hi?", "Ho."]], "prompt": "Bye?", "response": "Bye."},
    ],
    ids=["objects", "lists of two texts", "a last question beside them"],
)
def test_list_of_questions_with_their_answers(exchanges: dict[str, Any]) -> None:
    """A list of questions with their answers is one conversation, and a question beside it is its end."""
    for count in (1, 2):
        lines = "\n".join(json.dumps({"id": f"c{n}", **exchanges}) for n in range(count))
        records = parsed(lines.encode())
        assert [record.conversation.external_id for record in records] == ["c0", "c1"][:count]
        for record in records:
            assert [(one.role, one.content) for one in record.conversation.messages] == [
                ("user", "Hi?"),
                ("assistant", "Ho."),
                ("user", "Bye?"),
                ("assistant", "Bye."),
            ]


@pytest.mark.parametrize("names", [("user", "assistant"), ("Ann", "Ben")])
def test_speaker_with_a_text_is_no_question_with_its_answer(names: tuple[str, str]) -> None:
    """Lists of two texts of which the first is who speaks are left to be mapped."""
    record = {"id": "a", "conversation": [[name, f"text {n}"] for n in range(3) for name in names]}
    with pytest.raises(UnknownFormat, match="`conversation`"):
        opened(json.dumps(record).encode())


def test_questions_of_several_objects_are_not_taken_apart() -> None:
    """Objects that list questions with their answers under an unknown name are refused, not divided by question."""
    record = {
        "id": "a",
        "rounds": [{"human": "Hi?", "bot": "Ho."}, {"human": "Yes?", "bot": "No."}],
    }
    with pytest.raises(UnknownFormat, match="`rounds`"):
        opened(b"\n".join([json.dumps(record).encode()] * 2))
    assert len(parsed(json.dumps({"data": record["rounds"]}).encode())) == 2


def test_column_of_the_conversation() -> None:
    """A column with one value in the rows of each conversation is its field, of one with a single row too; where few of
    many conversations have several values, they have all. In a file of one conversation nothing tells it."""
    rows = [
        {"session_id": n, "speaker": speaker, "text": f"text {n}", "channel": "web", "mood": mood}
        for n in range(1, 21)
        for speaker, mood in (("customer", "calm"), ("bot", f"{n}"))
    ]
    lines = [json.dumps(row).encode() for row in [*rows, {**rows[0], "session_id": 21}]]
    moved = lines[1].replace(b"web", b"phone")
    first, *others = parsed(b"\n".join([lines[0], moved, *lines[2:]]))
    assert first.conversation.meta == {"channel": ["web", "phone"]}
    assert [record.conversation.meta for record in others] == [{"channel": "web"}] * 20
    assert first.account.columns == {"channel": "conversation", "mood": "message"}
    assert first.account.share("nowhere") == 0
    (alone,) = parsed(b"\n".join(lines[:2]))
    assert alone.conversation.meta == {}


@pytest.mark.parametrize("names", [("role", "content"), ("sender", "text")])
def test_column_of_the_tool(names: tuple[str, str]) -> None:
    """A column with the name of a tool names an answer of the tool and makes JSON of the assistant its call."""
    said = [("user", "Hi"), ("assistant", 'find({"q": 1})'), ("tool", "{}"), ("assistant", "No.")]
    table = [
        {"chat_id": 1, names[0]: role, names[1]: text, "tool": "find" * (role != "user")}
        for role, text in said
    ]
    (only,) = parsed(b"\n".join(json.dumps(row).encode() for row in table))
    _, call, answer, last = only.conversation.messages
    assert [(one.name, one.arguments) for one in call.tool_calls] == [("find", '{"q": 1}')]
    assert (call.content, answer.name, last.name, last.content) == ("", "find", None, "No.")
    assert only.account.share("nowhere") == 0


def test_names_as_speakers() -> None:
    """Where speakers are names, the first is the user and the others are the assistant; the names are kept."""
    rows = b'{"ticket":1,"author":"Ann","body":"It burns"}\n{"ticket":1,"author":"Bo","body":"Run"}'
    (only,) = parsed(rows)
    messages = only.conversation.messages
    assert [(one.role, one.name) for one in messages] == [("user", "Ann"), ("assistant", "Bo")]


@pytest.mark.parametrize("customers", [("customer", "customer"), ("Ann", "Bo")])
def test_names_have_their_roles_from_the_whole_file(customers: tuple[str, str]) -> None:
    """A name in nearly all conversations is the assistant, where it greets first too. Where others are in many as well,
    as models are, the roles are guesses."""
    table = [
        {"chat_id": n, "sender": sender, "text": f"{sender} {n}"}
        for n, customer in enumerate(customers)
        for sender in ("Volta", customer)
    ]
    lines = [json.dumps(row).encode() for row in table]
    for record in parsed(b"\n".join(lines)):
        assert [message.role for message in record.conversation.messages] == ["assistant", "user"]
        assert (record.account.unknown, record.account.share("nowhere")) == ({}, 0)
    of_ann = [{"chat_id": n, "sender": sender, "text": "x"}
              for n in range(6) for sender in ("Ann", f"model {n % 3}")]  # fmt: skip
    for record in parsed(json.dumps(of_ann).encode()):
        assert [*record.account.unknown] == ["speaker whose role is a guess"]


def test_call_and_result_in_columns_of_a_row() -> None:
    """The tool and the arguments in columns are a call without text, and an object in a column of text is its result; a
    row that is neither names what it lacks."""
    rows = b"""[{"chat_id": 1, "sender": "customer", "body": "Hi", "tool_name": null, "tool_args": null},
{"chat_id": 1, "sender": "Volta", "body": null, "tool_name": "find", "tool_args": {"q": "x"}},
{"chat_id": 1, "sender": "tool", "body": {"found": "a"}, "tool_name": "find", "tool_args": null},
{"chat_id": 1, "sender": "customer", "body": null, "tool_name": null, "tool_args": null}]"""
    empty, record = read(rows)
    assert getattr(empty, "reason", "") == "the row has no text"
    assert isinstance(record, Parsed)
    _, call, result = record.conversation.messages
    assert [(one.name, one.arguments) for one in call.tool_calls] == [("find", '{"q": "x"}')]
    assert (call.content, result.role, result.content) == ("", "tool", '{"found": "a"}')


def test_json_of_the_system_is_the_result_of_a_tool() -> None:
    """An object under the name of the system is what a tool returned; a sentence of the system stays its own."""
    rows = b"""Ticket,From,Text
7,Ann,It is stuck.
7,system,"{""code"": 504}"
7,system,Ann was moved to the queue.
7,Bo,Sorry.
"""
    (only,) = parsed(rows)
    assert [message.role for message in only.conversation.messages] == [
        "user",
        "tool",
        "system",
        "assistant",
    ]


def test_unknown_role_is_not_guessed() -> None:
    """A role of an unknown word is rejected with it, since a guess would be silently wrong."""
    (only,) = read(b'{"session_id":1,"role":"sorcerer","text":"x"}\n')
    assert "sorcerer" in getattr(only, "reason", "")


def test_sharded_tasks_are_no_conversations() -> None:
    """Instructions of Laban et al. are no conversations, although they have a question and an answer."""
    task = {
        "task_id": "a/1",
        "question": "Why?",
        "answer": "So.",
        "shards": [{"shard_id": 1, "shard": "Why"}],
    }
    with pytest.raises(FormatError, match="no conversations"):
        opened(json.dumps([task]).encode())


def test_ratings_of_plainly_spoken_rows_are_truth() -> None:
    """A column that states how it ended is truth also where the roles are those of chat APIs."""
    (record,) = parsed(
        b"conversation_id,role,content,csat\n1,user,My order is late,2\n1,assistant,Sorry!,2\n"
    )
    assert record.conversation.truth == {"csat": "2"}
    assert "csat" not in str([message.facts for message in record.conversation.messages])
