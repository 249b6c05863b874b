"""A mapping is guessed from records of any shape, edited as text, and saved as a file that reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import FormatError
from engine.formats.inputs import open_inputs
from engine.formats.mapping_draft import MappingDraft, refusal_of
from engine.formats.opening.framing import Frame
from engine.formats.records import Parsed
from engine.formats.registry import mapping_folder

TALK = [
    {"party": "caller", "heard": {"words": "Where is the next garage?"}, "date": "2025-01-01T10:00:00"},
    {"party": "desk", "heard": {"words": "On Ross Road, two miles away."}, "date": "2025-01-01T10:00:05"},
]  # fmt: skip
SAID = [("user", "Where is the next garage?"), ("assistant", "On Ross Road, two miles away.")]

PAIRS = [["caller", SAID[0][1]], ["desk", SAID[1][1]]]
PARTS = [{"by": who, "content": [{"type": "text", "text": text}]} for who, text in SAID]
BY_BOT = [{"isBot": who == "assistant", "text": text} for who, text in SAID]

SHAPES: dict[str, list[Any]] = {
    "a list of messages in a record": [{"nr": n, "phone": {"turns": TALK}} for n in range(3)],
    "conversations in one object": [{"exported": "x", "talks": [{"nr": n, "turns": TALK} for n in range(3)]}],
    "messages by their ids": [{"nr": n, "turns": {"m1": TALK[0], "m2": TALK[1]}} for n in range(3)],
    "a row for each message": [{"call_ref": n, **turn} for n in range(3) for turn in TALK],
    "texts that take turns": [{"nr": n, "lines": [text for _, text in SAID]} for n in range(3)],
    "JSON in a text": [{"nr": n, "turns": json.dumps(TALK)} for n in range(3)],
    "lists of a speaker and a text": [{"nr": n, "said": PAIRS} for n in range(3)],
    "a truth value for who speaks": [{"nr": n, "turns": BY_BOT} for n in range(3)],
    "one number that is in all talks": [
        {"Vorgang": n, "source_nr": f"+{n}" if who == "user" else "+9", "say": text}
        for n in range(3) for who, text in SAID
    ],
    "content in parts": [{"nr": n, "turns": PARTS} for n in range(3)],
}  # fmt: skip


def draft_of(records: list[Any]) -> MappingDraft:
    """A draft for records of JSON Lines."""
    frames = [Frame(n, json.dumps(one).encode(), one) for n, one in enumerate(records, 1)]
    return MappingDraft(frames, "calls.jsonl")


def named(draft: MappingDraft, name: str) -> str:
    """The first guess under another name."""
    first, rest = draft.texts[0].split('name = "', 1)
    return f'{first}name = "{name}"{rest[rest.index(chr(34)) + 1 :]}'


@pytest.mark.parametrize("records", SHAPES.values(), ids=SHAPES)
def test_shapes(records: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guess reads all conversations with roles and texts, and so does the file that it is saved as."""
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "config"))
    draft = draft_of(records)
    trial = draft.try_out(draft.texts[0])
    assert (trial.conversations, trial.messages, trial.rejected) == (3, 6, 0)
    for conversation in trial.shown:
        assert [(message.role, message.content) for message in conversation.messages] == SAID
    assert draft.save(named(draft, "mine").replace("by_name = true\n", "")) == "mine"
    log = tmp_path / "calls.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    (found,) = open_inputs([log])
    assert found.detection.format == "mine"
    read = [record.conversation for record in found.records() if isinstance(record, Parsed)]
    assert [[(one.role, one.content) for one in each.messages] for each in read] == [SAID] * 3


@pytest.mark.parametrize(
    ("dates", "began", "is_asked"),
    [
        (("03/04/2026", "05/06/2026", "07/08/2026"), "2026-04-03", True),
        (("03/04/2026", "25/06/2026", "07/08/2026"), "2026-04-03", False),
        (("03/04/2026", "06/25/2026", "07/08/2026"), "2026-03-04", False),
    ],
)
def test_a_date_that_could_be_two_is_read_as_the_others_say(
    dates: tuple[str, ...], began: str, is_asked: bool
) -> None:
    """The order of day and month is that of the dates of which it is certain; without one it is asked. Numbers in a row
    are ids, whatever they are called."""
    draft = draft_of(
        [{"nummer": n, "day": day, "turns": TALK} for n, day in enumerate(dates, 1000)]
    )
    assert ("Is the day before the month in 03/04/2026?" in draft.texts[0]) == is_asked
    conversation, *_ = draft.try_out(draft.texts[0]).shown
    assert (conversation.external_id, conversation.created_at) == ("1000", began)


def test_saving_overwrites_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is taken is an error, and the file stays as it is."""
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path))
    draft = draft_of(SHAPES["a row for each message"])
    text = named(draft, "mine")
    draft.save(text)
    file = mapping_folder() / "mine.toml"
    before = file.read_text()
    with pytest.raises(FormatError, match="There is a mapping file"):
        draft.save(text + "# more")
    assert file.read_text() == before


def test_nothing_like_messages() -> None:
    """Records without texts are refused."""
    with pytest.raises(FormatError, match="looks like messages"):
        draft_of([{"a": 1}, {"a": 2}])


def test_refusal(tmp_path: Path) -> None:
    """A file of no known format is refused with its fields; one that can be imported is not."""
    odd, good = tmp_path / "odd.jsonl", tmp_path / "good.jsonl"
    odd.write_text('{"colour": "blue"}\n')
    good.write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    assert "`colour`" in str(refusal_of(str(odd)))
    assert refusal_of(str(good)) is None


def test_calls_with_names_of_their_own() -> None:
    """Tool calls are found by a name and arguments under any key, and their answers by the id of the call."""
    call = {"tool": "find_garage", "params": {"near": "Ross Road"}, "id": "c1"}
    turns = [
        {"who": "caller", "words": "Where is the next garage?"},
        {"who": "desk", "words": "I look it up.", "todo": [call]},
        {"who": "lookup_tool", "words": "two miles away", "call_id": "c1"},
        {"who": "desk", "words": "On Ross Road, two miles away."},
    ]
    draft = draft_of([{"nr": n, "turns": turns} for n in range(3)])
    said = draft.try_out(draft.texts[0]).shown[0].messages
    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"]
    assert [(one.name, json.loads(one.arguments)) for one in said[1].tool_calls] == [
        ("find_garage", {"near": "Ross Road"})
    ]
    assert said[2].tool_call_id == said[1].tool_calls[0].call_id == "c1"
    assert draft.texts[0].count("[[messages]]") == 1


def test_speakers_with_names() -> None:
    """Where speakers have a name in each conversation, the first is the user, and all others answer."""
    talks = [[(f"Ann {n}", SAID[0][1]), (f"Bo {n}", SAID[1][1])] * 2 for n in range(14)]
    records = [{"turns": [{"sender": who, "msg": text} for who, text in talk]} for talk in talks]
    draft = draft_of(records)
    assert 'first = "user"\n"*" = "assistant"' in draft.texts[0]
    trial = draft.try_out(draft.texts[0])
    assert (trial.conversations, trial.roles) == (14, {"user": 28, "assistant": 28})


def test_rows_are_ordered_by_their_number() -> None:
    """Rows without a time are put in the order of a number of the turn."""
    rows = [{"call_ref": n, "turn": turn, "party": who, "words": text}
            for n in range(3) for turn, (who, text) in ((2, SAID[1]), (1, SAID[0]))]  # fmt: skip
    draft = draft_of(rows)
    assert 'order = "turn"' in draft.texts[0]
    assert [
        (one.role, one.content) for one in draft.try_out(draft.texts[0]).shown[0].messages
    ] == SAID


def test_turns_without_text_are_counted() -> None:
    """A turn that says nothing where the guess looks is kept as metadata, and the trial says so."""
    silent = {"who": "desk", "words": None, "lookup": "garages near Ross Road"}
    turns = [{"who": who, "words": text} for who, text in SAID]
    draft = draft_of([{"nr": n, "turns": [*turns, silent]} for n in range(3)])
    assert draft.try_out(draft.texts[0]).doubts == ["3 items not understood, in metadata only."]


def test_the_system_that_answers_is_the_assistant() -> None:
    """In dialogues of USER and SYSTEM the system is who answers."""
    turns = [
        {"speaker": who, "utterance": text}
        for who, text in (("USER", "Any garage?"), ("SYSTEM", "One, yes."))
    ]
    draft = draft_of([{"nr": n, "turns": turns} for n in range(3)])
    assert 'SYSTEM = "assistant"' in draft.texts[0]


def test_a_mapping_by_name_takes_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file that has a built-in format, the mapping saved for one import is used where it is named and nowhere
    else."""
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "config"))
    log = tmp_path / "chats.jsonl"
    log.write_text(
        '{"messages": [{"role": "user", "content": "hi there"}, {"role": "assistant", "content": "oh hello"}]}\n'
    )
    draft = MappingDraft.of_file(str(log))
    assert draft.known_as == "openai"
    text = named(draft, "mine")
    draft.save(text)
    assert [one.detection.format for one in open_inputs([log])] == ["openai"]
    assert [one.detection.format for one in open_inputs([log], format="mine")] == ["mine"]
    draft.save(named(draft, "always").replace("by_name = true\n", ""))
    assert [one.detection.format for one in open_inputs([log])] == ["always"]


@pytest.mark.parametrize("name", ["openai", "messages"])
def test_suggested_name_is_free(name: str, tmp_path: Path) -> None:
    """The name that is suggested for a format is not that of one of the program."""
    rows = "".join(
        f"{case},{who},{said} for case {case}\n"
        for case in range(3)
        for who, said in (("caller", "The thing does not work"), ("desk", "Please restart it"))
    )
    file = tmp_path / f"{name}.csv"
    file.write_text("case_ref,who_spoke,what_was_said\n" + rows, encoding="utf-8")
    draft = MappingDraft.of_file(str(file))
    assert f'name = "{name}_2"' in draft.texts[0]


def test_what_is_edited_is_tried_out() -> None:
    """The text as it stands is used at once; what is wrong with it is a doubt, and it cannot be saved."""
    draft = draft_of(SHAPES["a list of messages in a record"])
    left_out = draft.texts[0].replace('desk = "assistant"', 'desk = "left out"')
    trial = draft.try_out(left_out)
    assert trial.messages == 3
    assert trial.account.chars["left out"] > 0
    for wrong, reason in (
        ('text = "heard["', "heard"),
        ('text = ""', "path"),
        ("text = heard.words", "line"),
    ):
        text = draft.texts[0].replace('text = "heard.words"', wrong)
        trial = draft.try_out(text)
        assert (trial.messages, trial.rejected) == (0, 3)
        assert reason in trial.doubts[0]
        with pytest.raises(FormatError, match=reason):
            draft.save(text)
    with pytest.raises(FormatError, match="such as my_desk"):
        draft.save(named(draft, "My Desk"))


def test_fields_and_other_guesses() -> None:
    """The text of a guess lists the fields beside each message with an example; there is more than one guess."""
    draft = draft_of([{"phone": {"turns": TALK}, "drafts": TALK}])
    assert f"#   heard.words          {SAID[1][1]}" in draft.texts[0]
    assert len(draft.texts) > 1
    assert draft.texts[1] != draft.texts[0]


def test_no_control_character_reaches_the_text() -> None:
    """A key with a control character is written with an escape, and read as it is."""
    turns = [{"wh\x9bo": turn["party"], "said": turn["heard"]["words"]} for turn in TALK]  # type: ignore[index]
    draft = draft_of([{"nr": n, "turns": turns} for n in range(3)])
    assert "\x9b" not in draft.texts[0]
    assert draft.try_out(draft.texts[0]).messages == 6


def test_what_is_not_sure_is_a_question() -> None:
    """The sender is guessed before the receiver, and what is not sure is asked, with the values that speak for it."""
    records = [
        {
            "sentTo": {"id": ["b1", "u1"][number % 2]},
            "sentFrom": {"id": ["u1", "b1"][number % 2]},
            "words": f"Please tell me where parcel number {number} is",
        }
        for number in range(6)
    ]
    text = draft_of(records).texts[0]
    assert 'role = "sentFrom.id"' in text
    assert "# Please check: Who speaks: `sentFrom.id` (u1, b1), or `sentTo.id` (b1, u1)?" in text
    assert "# Please check: Is `u1` the user?" in text
    assert "the file is one conversation: is that right?" in text
    sure = [{"chat_id": number // 2, "role": role, "text": f"This is text {number} of us"}
            for number, role in enumerate(["user", "assistant"] * 3)]  # fmt: skip
    assert "Please check" not in draft_of(sure).texts[0]


def odd_record(number: int, tool: str, answer: str) -> dict[str, Any]:
    """A conversation under names of nobody else's, in which a tool speaks between the user and the assistant."""
    said = [
        ("patron", "Is it in at Hill Street?"),
        ("robot", "I look it up."),
        (tool, answer),
        ("robot", "Yes it is."),
    ]
    return {
        "ticketRef": f"LIB/2026-{number:04}",
        "opened_on": f"{number + 1:02}.08.2026 11:21",
        "closed_on": f"{number + 1:02}.08.2026 11:40",
        "bot_release": "r8",
        "call": {"desk": "north", "talk": [{"sprecher": who, "was": text} for who, text in said]},
    }  # fmt: skip


def test_fields_of_the_record() -> None:
    """Beside the messages a field of unique, short values is the id and one of dates the time, both asked about; the
    rest is listed."""
    draft = draft_of([odd_record(number, "lookup", '{"status": 503}') for number in range(4)])
    text = draft.texts[0]
    assert 'id = "ticketRef"\ncreated_at = "opened_on"\n' in text
    assert "# Please check: Is `ticketRef` the id (LIB/2026-0000, LIB/2026-0001," in text
    assert "# Please check: Did a conversation begin at `opened_on` (01.08.2026 11:21," in text
    assert "#   bot_release          r8\n" in text
    assert "#   call.desk            north\n" in text
    read = draft.try_out(text).shown[0]
    assert (read.external_id, read.created_at) == ("LIB/2026-0000", "2026-08-01T11:21:00")


def test_values_that_are_no_ids_or_dates() -> None:
    """A number, a name with blanks and a date of the future are neither the id nor the time of a conversation."""
    records = [
        {"latency": 1.25 + n, "desk": f"desk {n}", "due": f"2027-01-0{n + 1}", "turns": TALK}
        for n in range(4)
    ]
    text = draft_of(records).texts[0]
    assert "\nid = " not in text
    assert "created_at" not in text


@pytest.mark.parametrize("tool", ["lookup", "SYSTEM"])
def test_a_tool_among_the_speakers(tool: str) -> None:
    """Who writes JSON is a tool, which is asked about with what speaks for it."""
    draft = draft_of([odd_record(number, tool, '{"status": 503}') for number in range(4)])
    assert f"# Please check: Is `{tool}` the tool? Most of its texts are JSON." in draft.texts[0]
    assert draft.try_out(draft.texts[0]).roles == {"user": 4, "assistant": 8, "tool": 4}


def test_an_assistant_that_writes_json() -> None:
    """Of two speakers the one who writes JSON answers, and is no tool."""
    turns = [{"who": "patron", "words": "Is it in?"}, {"who": "robot", "words": '{"say": "Yes."}'}]
    draft = draft_of([{"nr": n, "turns": turns} for n in range(3)])
    assert draft.try_out(draft.texts[0]).roles == {"user": 3, "assistant": 3}
