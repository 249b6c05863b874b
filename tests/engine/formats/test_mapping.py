"""Mapping files: what they say is read, what they do not say is kept, and what is wrong in them is told."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Conversation
from engine.base.errors import FormatError
from engine.formats.inputs import open_inputs
from engine.formats.mappings.arranging import arrange_records
from engine.formats.mappings.mapping import load_mapping, read_mapping
from engine.formats.mappings.toml_reader import reader_of
from engine.formats.opening.framing import Frame
from engine.formats.records import Parsed, Rejected
from engine.formats.registry import mapping_folder, parse_record

DESK = """
name = "desk"
when = ["ticket", "entries[].author"]
id = ["ticket"]
created_at = "opened"
left_out = ["log"]
[roles]
customer = "user"
bot = "assistant"
note = "metadata"
[truth]
rating = "survey.stars"
[[messages]]
each = "entries[]"
role = "author"
text = "body"
time = "at"
calls = { each = "actions[]", name = "do", arguments = "with", id = "no" }
"""
UNBLOCK = {"do": "unblock", "with": {"card": 4}, "no": "c1", "ms": 5}
TICKET = {
    "ticket": 7,
    "opened": "2025-01-01T10:00:00Z",
    "survey": {"stars": 2, "language": "de"},
    "log": "a long log of the system",
    "entries": [
        {"author": "customer", "body": "My card is blocked", "at": "10:00", "channel": "mail"},
        {"author": "note", "body": "called twice"},
        {"author": "bot", "body": "One moment", "actions": [UNBLOCK]},
    ],
}  # fmt: skip


def read_with(mapping: str, *records: Any) -> list[Parsed | Rejected]:
    """What a mapping makes of records."""
    made = read_mapping(tomllib.loads(mapping))
    reader = reader_of(made)
    frames = [Frame(n, json.dumps(one).encode(), one) for n, one in enumerate(records, 1)]
    return [
        Rejected(frame.number, frame.raw, frame.reason)
        if frame.reason
        else parse_record(reader, frame, str(frame.number))
        for frame in arrange_records(made, frames)
    ]


def conversations(mapping: str, *records: Any) -> list[Conversation]:
    """The conversations that a mapping makes of records, of which none may be rejected."""
    found = read_with(mapping, *records)
    assert [one.reason for one in found if isinstance(one, Rejected)] == []
    return [one.conversation for one in found if isinstance(one, Parsed)]


def said(conversation: Conversation) -> list[tuple[str, str]]:
    """Roles and texts."""
    return [(message.role, message.content) for message in conversation.messages]


class TestReading:
    """One record, one conversation."""

    def test_desk(self) -> None:
        """Messages, roles, calls, times, id, truth and metadata come from where the mapping says."""
        (read,) = conversations(DESK, TICKET)
        assert said(read) == [("user", "My card is blocked"), ("assistant", "One moment")]
        (call,) = read.messages[1].tool_calls
        assert (call.name, call.arguments, call.call_id) == ("unblock", '{"card": 4}', "c1")
        assert (read.external_id, read.created_at) == ("7", "2025-01-01T10:00:00Z")
        assert read.truth == {"rating": 2}

    def test_nothing_is_lost(self) -> None:
        """What the mapping does not name is kept: beside its message, as metadata, or left out as it says."""
        (found,) = read_with(DESK, TICKET)
        assert isinstance(found, Parsed)
        assert found.conversation.messages[0].facts is not None
        assert json.loads(found.conversation.messages[0].facts) == {
            "time": "10:00", "author": "customer", "channel": "mail",
        }  # fmt: skip
        assert "5" in str(found.conversation.messages[1].facts)
        meta = json.dumps(found.conversation.meta)
        assert "called twice" in meta
        assert '"language": "de"' in meta
        assert found.account.chars.get("nowhere", 0) == 0
        assert found.account.chars["left out"] == len("a long log of the system")

    def test_what_stands_beside_a_value_in_json_text_is_kept(self) -> None:
        """Of JSON in a text, what the mapping does not name is kept beside the message or as metadata."""
        mapping = """
        name = "x"
        when = ["rows"]
        [roles]
        client = "user"
        note = "left out"
        [truth]
        rating = "payload.rating"
        [[messages]]
        each = "rows[]"
        role = "who | line.who"
        text = "line.text"
        """
        line = json.dumps({"text": "I am angry about this", "mood": "angry"})
        hidden = json.dumps([{"who": "note", "line": "not for everybody"}])
        record = {
            "rows": [{"who": "client", "line": line}],
            "payload": json.dumps({"rating": 2, "note": "called back twice"}),
        }
        (found,) = read_with(mapping, record)
        assert isinstance(found, Parsed)
        assert json.loads(found.conversation.messages[0].facts or "")["line"] == {"mood": "angry"}
        assert found.conversation.truth == {"rating": 2}
        assert found.conversation.meta == {"payload": {"note": "called back twice"}}
        assert found.account.chars.get("nowhere", 0) == 0
        within = {"rows": json.dumps([*record["rows"], *json.loads(hidden)])}
        (found,) = read_with(mapping, within)
        assert isinstance(found, Parsed)
        assert found.conversation.messages[0].content == "I am angry about this"
        assert "not for everybody" in json.dumps(found.conversation.meta)
        assert found.account.chars.get("nowhere", 0) == 0

    def test_unknown_item_is_counted(self) -> None:
        """An item that meets no condition is kept as metadata, and its kind is counted."""
        mapping = """
        name = "x"
        when = ["log"]
        [[messages]]
        each = "log[]"
        turns = [{ when = "type=say", role = "=user", text = "text" }]
        """
        record = {"log": [{"type": "say", "text": "hi"}, {"type": "beep", "sound": "loud"}]}
        (found,) = read_with(mapping, record)
        assert isinstance(found, Parsed)
        assert list(found.account.unknown) == ["beep"]
        assert "loud" in json.dumps(found.conversation.meta)

    def test_speakers(self) -> None:
        """Where roles are names, the first speaker or the one that is named is the user; names are kept."""
        head = 'name = "x"\nwhen = ["chat"]\n'
        tail = '[[messages]]\neach = "chat[]"\nrole = "who"\ntext = "said"\n'
        chat = {"boss": "Bo", "chat": [{"who": "Al", "said": "hi"}, {"who": "Bo", "said": "yes?"}]}
        by_order = head + '[roles]\nfirst = "user"\n"*" = "assistant"\n' + tail
        assert said(conversations(by_order, chat)[0]) == [("user", "hi"), ("assistant", "yes?")]
        by_name = conversations(head + 'user = "boss"\n' + tail, chat)[0]
        assert said(by_name) == [("assistant", "hi"), ("user", "yes?")]
        assert [message.name for message in by_name.messages] == ["Al", "Bo"]

    def test_unknown_role_is_rejected(self) -> None:
        """A record with a role that nothing explains is rejected, and the reason names the role."""
        (found,) = read_with(DESK, {"ticket": 1, "entries": [{"author": "ghost", "body": "boo"}]})
        assert isinstance(found, Rejected)
        assert "'ghost'" in found.reason

    def test_turns_of_an_item(self) -> None:
        """An item may hold several messages, and roles may alternate."""
        pairs = """
        name = "x"
        when = ["log"]
        [[messages]]
        each = "log[]"
        turns = [{ role = "=user", text = "[0]" }, { role = "=assistant", text = "[1]" }]
        """
        assert said(conversations(pairs, {"log": [["q", "a"], ["r", "b"]]})[0]) == [
            ("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b"),
        ]  # fmt: skip
        list_of_texts = """
        name = "x"
        when = ["data"]
        [[messages]]
        each = "data[]"
        role = "=user, assistant"
        text = "."
        """
        assert said(conversations(list_of_texts, {"data": ["q", "a", "r"]})[0]) == [
            ("user", "q"), ("assistant", "a"), ("user", "r"),
        ]  # fmt: skip


class TestArranging:
    """Records that are several conversations, and conversations of several records."""

    SPLIT = """
    name = "x"
    when = ["runs[].log"]
    split = "runs[]"
    [metadata]
    model = "^.model"
    task = "^.tasks[id=@task].name"
    [[messages]]
    each = "log[]"
    """

    def test_transcript(self) -> None:
        """A text is divided where its marks stand, also at its beginning, and only there."""
        mapping = """
        name = "x"
        when = ["log"]
        [transcript]
        at = "log"
        marks = ["\\n\\nHuman:", "\\n\\nAI:"]
        [[messages]]
        each = "log[]"
        when = ["role"]
        """
        (found,) = conversations(mapping, {"log": "Human: Hi\nHuman: is a word\n\nAI: Yes"})
        assert said(found) == [("user", "Hi\nHuman: is a word"), ("assistant", "Yes")]

    def test_group_of_what_names_none(self) -> None:
        """With `others`, records that name no conversation are one, and not broken."""
        mapping = """
        name = "x"
        when = ["text"]
        [group]
        by = "thread"
        others = "file"
        [[messages]]
        each = "records[]"
        role = "=user"
        text = "text"
        """
        rows = [{"thread": "a", "text": "1"}, {"text": "2"}, {"text": "3"}]
        found = conversations(mapping, *rows)
        assert [[text for _, text in said(one)] for one in found] == [["1"], ["2", "3"]]

    def test_group(self) -> None:
        """Rows of one conversation are put together in the order of their times, wherever they lie."""
        mapping = """
        name = "x"
        when = ["chat", "text"]
        [group]
        by = "chat"
        order = "at"
        [[messages]]
        each = "records[]"
        role = "role"
        text = "text"
        """
        rows = [
            {"chat": "a", "at": 2, "role": "assistant", "text": "yes?"},
            {"chat": "b", "at": 1, "role": "user", "text": "hello"},
            {"chat": "a", "at": 1, "role": "user", "text": "hi"},
            {"at": 1, "role": "user", "text": "whose?"},
        ]
        found = read_with(mapping, *rows)
        read = [one.conversation for one in found if isinstance(one, Parsed)]
        assert [one.external_id for one in read] == ["a", "b"]
        assert said(read[0]) == [("user", "hi"), ("assistant", "yes?")]
        assert [one.reason for one in found if isinstance(one, Rejected)] == [
            "it names no conversation at `chat`"
        ]

    TREE = """
    name = "x"
    when = ["mapping"]
    [tree]
    nodes = "mapping{}"
    id = "id"
    parent = "parent"
    leaf = "current"
    [[messages]]
    each = "branch[]"
    """

    def test_tree(self) -> None:
        """The current branch is the conversation."""
        nodes = {
            name: {"id": name, "parent": parent, "role": role, "content": name}
            for name, parent, role in [
                ("a", None, "user"), ("b", "a", "assistant"), ("c", "a", "assistant"), ("d", "b", "user"),
            ]
        }  # fmt: skip
        record = {"mapping": nodes, "current": "d"}
        texts = [[text for _, text in said(one)] for one in conversations(self.TREE, record)]
        assert texts == [["a", "b", "d"]]


class TestFiles:
    """Mapping files of the program and of a person."""

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("name = 3", "is not text"),
            ('name = "x"\nwhen = ["a"]', "no [[messages]]"),
            ('name = "x"\n[[messages]]\neach = "a[]"', "no `when`"),
            ('name = "x"\nwhen = ["a"]\ncolour = "red"\n[[messages]]\neach = "a[]"', "`colour`"),
            ('name = "x"\nwhen = ["a"]\n[roles]\nx = "king"\n[[messages]]\neach = "a[]"', "'king'"),
            ('name = "x"\nwhen = ["a["]\n[[messages]]\neach = "a[]"', "cannot be read"),
            ('name = "x', "Unterminated"),
        ],
    )
    def test_what_is_wrong_is_told(self, text: str, words: str, tmp_path: Path) -> None:
        """A file that cannot be used is an error that names the file and what is wrong."""
        file = tmp_path / "bad.toml"
        file.write_text(text)
        with pytest.raises(FormatError) as error:
            load_mapping(file)
        assert str(file) in error.value.message
        assert words in error.value.message

    def test_own_file_is_preferred(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file of the person's is found in the configuration folder and is preferred to those of the program."""
        monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "config"))
        mapping_folder().mkdir(parents=True)
        (mapping_folder() / "mine.toml").write_text(
            'name = "mine"\nwhen = ["messages[].role"]\n[roles]\nuser = "assistant"\n'
            '[[messages]]\neach = "messages[]"\n'
        )
        log = tmp_path / "a.jsonl"
        log.write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
        (found,) = open_inputs([log])
        assert found.detection.format == "mine"
        (record,) = found.records()
        assert isinstance(record, Parsed)
        assert record.conversation.messages[0].role == "assistant"


def test_text_of_pieces_and_calls_under_their_names() -> None:
    """Pieces of a text are joined as the mapping says; a call takes the key under which it stands as its name."""
    mapping = """
    name = "x"
    when = ["log"]
    [[messages]]
    each = "log[]"
    role = "=assistant"
    text = "text"
    join = ""
    calls = { each = "api{}", name = "@key", arguments = "." }
    """
    log = [
        {"text": ["See ", {"type": "link", "text": "e.org"}]},
        {"api": {"find": {"town": "Bonn"}}},
    ]
    (found,) = conversations(mapping, {"log": log})
    assert said(found) == [("assistant", "See e.org"), ("assistant", "")]
    (call,) = found.messages[1].tool_calls
    assert (call.name, call.arguments) == ("find", '{"town": "Bonn"}')


def test_truth_and_what_is_left_out_of_messages_are_no_facts() -> None:
    """What a mapping takes from messages as truth, or leaves out, does not stand beside them as well."""
    mapping = """
    name = "x"
    when = ["log"]
    left_out = ["log[].raw"]
    [truth]
    ends = "log[].end"
    [[messages]]
    each = "log[]"
    """
    log = [{"role": "user", "content": "hi", "end": False, "raw": {"a": 1}, "at": 3}]
    (found,) = conversations(mapping, {"log": log})
    assert found.messages[0].facts == '{"at": 3}'
    assert found.truth == {"ends": False}


def test_turns_within_turns_come_in_their_order_and_are_merged() -> None:
    """The parts of an answer are read in turn; texts that follow each other are one, a text after a call is another,
    and a part that no rule knows is told as not understood."""
    mapping = """
    name = "x"
    when = ["asked[].answer"]
    [[messages]]
    each = "asked[]"
    merge = ""
    turns = [
      { role = "=user", text = "question" },
      { each = "answer[]", turns = [
        { when = "kind=text|link", role = "=assistant", text = "value" },
        { when = "kind=call", role = "=assistant", calls = { name = "value" } },
      ] },
    ]
    """
    kinds = (
        ("text", "See "),
        ("link", "e.org"),
        ("call", "find"),
        ("text", "Found."),
        ("odd", "?"),
    )
    answer = [{"kind": kind, "value": value} for kind, value in kinds]
    (record,) = read_with(mapping, {"asked": [{"question": "Where?", "answer": answer}]})
    assert isinstance(record, Parsed)
    conversation = record.conversation
    assert said(conversation) == [
        ("user", "Where?"),
        ("assistant", "See e.org"),
        ("assistant", "Found."),
    ]
    assert [call.name for call in conversation.messages[1].tool_calls] == ["find"]
    assert list(record.account.unknown) == ["with kind, value"]
    assert not record.account.lost


def test_conversations_named_by_several_fields_share_what_has_no_name() -> None:
    """Records are grouped by all the paths of `by`; those without any of them are known of all conversations."""
    mapping = """
    name = "x"
    when = ["text | seed"]
    group = { by = ["room", "thread"], others = "shared" }
    id = ["id"]
    [metadata]
    seed = "^.records[].seed"
    [[messages]]
    each = "records[]"
    role = "=user"
    text = "text"
    """
    rows = ((1, None), (1, 2), (2, None))
    records = [{"room": room, "thread": thread, "text": "hi"} for room, thread in rows]
    made = conversations(mapping, {"seed": 7}, *records)
    assert [one.external_id for one in made] == ["1", "1/2", "2"]
    assert [one.meta["seed"] for one in made] == [7, 7, 7]
