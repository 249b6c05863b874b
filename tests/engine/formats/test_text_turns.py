"""Conversations that were written as text are divided into turns, and nothing that was said is lost."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import FormatError
from engine.formats.opening.framing import Frame
from engine.formats.opening.source import Source
from engine.formats.opening.text_turns import style_of, text_records
from engine.formats.records import Parsed
from tests.engine.formats.reading import opened


def frames_of(text: str) -> list[Frame]:
    """The records of a text."""
    return list(text_records(Source(io.BytesIO(text.encode()))))


def turns_of(text: str) -> list[tuple[str, str]]:
    """Speakers and words of the only conversation of a text."""
    (frame,) = frames_of(text)
    return [(message["speaker"], message["content"]) for message in frame.value["messages"]]


HI = [("User", "Hi there"), ("Assistant", "Hello.\n\nHow are you?")]


@pytest.mark.parametrize(
    ("text", "style", "turns"),
    [
        ("User: Hi there\nAssistant: Hello.\n\nHow are you?\n", "text", HI),
        ("User: Hi there\r\nAssistant: Hello.\r\n\r\nHow are you?", "text", HI),
        ("**User:** Hi there\n\n**Assistant:** Hello.\n\nHow are you?", "text", HI),
        (
            "You said:\nHi\nChatGPT said:\nHo\nQuestion: none\nmodel: x",
            "text",
            [("You", "Hi"), ("ChatGPT", "Ho\nQuestion: none\nmodel: x")],
        ),
        (
            "\n\nHuman: Hi\n\nAssistant: Ho\n\nHuman: Bye",
            "text",
            [("Human", "Hi"), ("Assistant", "Ho"), ("Human", "Bye")],
        ),
        ("[10:02] Agent: Hi\n[10:03] Customer: Ho", "text", [("Agent", "Hi"), ("Customer", "Ho")]),
        ("Q: What is 2+2?\nA: 4", "text", [("question", "What is 2+2?"), ("answer", "4")]),
        (
            "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n",
            "ChatML",
            [("system", "Be kind"), ("user", "Hi")],
        ),
        (
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHo<|eot_id|>",
            "Llama 3",
            [("user", "Hi"), ("assistant", "Ho")],
        ),
        (
            "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHo<end_of_turn>\n",
            "Gemma",
            [("user", "Hi"), ("model", "Ho")],
        ),
        (
            "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Ho<|return|>",
            "Harmony",
            [("user", "Hi"), ("assistant", "Ho")],
        ),
        (
            "<s>[INST] <<SYS>>\nBe kind\n<</SYS>>\n\nHi [/INST] Ho </s><s>[INST] Bye [/INST]",
            "Mistral",
            [("system", "Be kind"), ("user", "Hi"), ("assistant", "Ho"), ("user", "Bye")],
        ),
        (
            "<|system|>\nBe kind</s>\n<|user|>\nHi</s>\n<|assistant|>\nHo</s>\n",
            "Zephyr",
            [("system", "Be kind"), ("user", "Hi"), ("assistant", "Ho")],
        ),
        (
            "Below is a task.\n\n### Instruction:\nAdd\n\n### Input:\n2, 2\n\n### Response:\n4",
            "Alpaca",
            [("user", "Add\n2, 2"), ("assistant", "4")],
        ),
        (
            "### Human: Hi### Assistant: Ho### Human: Bye",
            "Guanaco",
            [("Human", "Hi"), ("Assistant", "Ho"), ("Human", "Bye")],
        ),
        (
            "A chat with an assistant. USER: Hi ASSISTANT: Ho</s>USER: Bye ASSISTANT:",
            "Vicuna",
            [("USER", "Hi"), ("ASSISTANT", "Ho"), ("USER", "Bye")],
        ),
        ("<｜User｜>Hi<｜Assistant｜>Ho", "DeepSeek", [("User", "Hi"), ("Assistant", "Ho")]),
        (
            "_**User**_\n\nFix it\n\n---\n\n_**Agent (gpt-5)**_\n\nDone\n\n---\n",
            "Markdown",
            [("User", "Fix it"), ("Agent", "Done")],
        ),
        (
            "## User\n\nHi\n\n## Assistant\n\nHo\n",
            "Markdown",
            [("User", "Hi"), ("Assistant", "Ho")],
        ),
        ("**User**\n\nHi\n\n**Copilot**\n\nHo\n", "Markdown", [("User", "Hi"), ("Copilot", "Ho")]),
        (
            "# aider chat started at 2024-06-01 10:00:00\n\n> Aider v0.40\n\n#### add a test\n#### please\n\n"
            "Sure.\n\n> Applied edit to a.py\n",
            "Aider",
            [
                ("aider", "Aider v0.40"),
                ("user", "add a test\nplease"),
                ("assistant", "Sure."),
                ("aider", "Applied edit to a.py"),
            ],
        ),
        (
            "WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.000 align:start\n<v Ann>Hi</v>\n\n"
            "00:00:02.000 --> 00:00:03.000\n<v Ann>Who are you?</v>\n<v Bob>Bob\n",
            "WebVTT",
            [("Ann", "Hi\nWho are you?"), ("Bob", "Bob")],
        ),
        (
            "1\n00:00:01,000 --> 00:00:02,000\nAnn: Hi\n\n2\n00:00:02,000 --> 00:00:03,000\nBob: Ho\n",
            "SubRip",
            [("Ann", "Hi"), ("Bob", "Ho")],
        ),
    ],
)
def test_turns_of_each_style(text: str, style: str, turns: list[tuple[str, str]]) -> None:
    """Each way of writing a conversation is recognized and divided into who said what."""
    assert style_of(text.encode()) == style
    assert turns_of(text) == turns


@pytest.mark.parametrize(
    "time",
    [
        "31/12/2023, 21:15 -", "12/31/23, 9:15 PM -", "12/31/23, 9:15\u202fPM -", "31.12.23, 21:15 -",
        "2023-12-31, 21:15 -", "31-12-2023 21:15 -", "[31/12/2023, 21:15:09]", "\u200e[12/31/23, 9:15:09 PM]",
        "[31.12.23, 21:15:09]", "31/12/2023, 9:15 p. m. -", "2023/12/31 21:15 -",
    ],
)  # fmt: skip
def test_dates_of_whatsapp(time: str) -> None:
    """Exports of all countries are read, with lines of a message and what the program itself says."""
    text = f"{time} Messages are encrypted.\n{time} Ann: Hi\nthere\n{time} Bob B.: Time: 10\n"
    assert style_of(text.encode()) == "WhatsApp"
    assert turns_of(text) == [
        ("WhatsApp", "Messages are encrypted."),
        ("Ann", "Hi\nthere"),
        ("Bob B.", "Time: 10"),
    ]


@pytest.mark.parametrize(
    ("times", "iso"),
    [
        (["31/12/2023, 21:15", "01/01/2024, 8:05"], ["2023-12-31T21:15:00", "2024-01-01T08:05:00"]),
        (["12/31/23, 9:15 PM", "1/1/24, 12:05 AM"], ["2023-12-31T21:15:00", "2024-01-01T00:05:00"]),
        (["01.02.24, 21:15", "02.02.24, 21:15"], ["2024-02-01T21:15:00", "2024-02-02T21:15:00"]),
        (["1/2/24, 21:15", "2/3/24, 21:15"], ["1/2/24, 21:15", "2/3/24, 21:15"]),
        (["1/5/24, 21:15", "13/6/24, 21:15"], ["2024-05-01T21:15:00", "2024-06-13T21:15:00"]),
        (["2024-01-02, 21:15:01", "2024-01-03, 21:15:09"], ["2024-01-02T21:15:01", "2024-01-03T21:15:09"]),
        (["5/5/24, 21:15", "99/99/99, 21:15"], ["5/5/24, 21:15", "99/99/99, 21:15"]),
    ],
)  # fmt: skip
def test_times_of_whatsapp(times: list[str], iso: list[str]) -> None:
    """Dates become ISO 8601 where days and months can be told apart, and stay as they are where not."""
    text = "".join(f"{time} - Ann: Hi\n" for time in times)
    (frame,) = frames_of(text)
    assert [message["time"] for message in frame.value["messages"]] == iso
    assert frame.value.get("started_at") == (iso[0] if iso != times else None)


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-01 10:00:00 - INFO: started\n2024-01-01 10:00:01 - ERROR: stopped\n",
        "2024-01-01 10:00:00 main: started\n2024-01-01 10:00:01 main: stopped\n",
        "# Usage\n\n## Model\n\nIt has one.\n\n## Support\n\nAsk us.\n",
        "user: me\nhost: here\n",
        "User: me\nHost: here\nUser: you\nHost: there\n",
        "Model: A long name\nColor: dark blue\nModel: Another long name\nColor: red\nIt is so.\n",
        "Dear Ann,\n\nNote: this is no chat.\n",
        "WEBVTT is a format.\n",
        "# aider chat started at 2024-06-01\n\n> Aider v0.40\n",
    ],
)
def test_other_texts_are_no_conversations(text: str) -> None:
    """Logs of programs, settings and prose have no turns."""
    assert style_of(text.encode()) is None


def test_what_stands_before_the_turns_is_kept() -> None:
    """A heading goes into the preamble, and times and remarks beside a speaker stay with the message."""
    (frame,) = frames_of("Chat of Monday\n10:02 Agent (Ann): Hi\n10:03 Customer: Ho\n")
    assert frame.value == {
        "transcript": "text",
        "preamble": "Chat of Monday",
        "messages": [
            {"speaker": "Agent", "content": "Hi", "time": "10:02", "about": "Ann"},
            {"speaker": "Customer", "content": "Ho", "time": "10:03"},
        ],
    }
    (frame,) = frames_of("WEBVTT Kind: captions\n\nNOTE\nby hand\n\n00:01.000 --> 00:02.000\nHi\n")
    assert frame.value["preamble"] == "WEBVTT Kind: captions\n\nNOTE\nby hand"


def test_several_conversations_of_a_text() -> None:
    """Lines of dashes divide conversations only if each part begins with a turn; each has its own bytes."""
    first, second = frames_of("User: a\nAgent: b\n\n---\n\nUser: c\nAgent: d\n")
    assert (first.number, first.raw) == (1, b"User: a\nAgent: b\n\n")
    assert [message["content"] for message in second.value["messages"]] == ["c", "d"]
    assert turns_of("User: a\nAgent: b\n\n---\n\nand more\nUser: c") == [
        ("User", "a"), ("Agent", "b\n\n---\n\nand more"), ("User", "c"),
    ]  # fmt: skip


def test_sessions_of_aider_in_which_nobody_spoke() -> None:
    """A session without a user belongs to that which follows, and the last to the one before; no text is lost."""
    start = "# aider chat started at 2024-06-0{}\n\n> Aider {}\n\n"
    asked = "#### hi\n\nHo\n\n"
    text = f"older notes\n{start.format(1, 'one')}{start.format(2, 'two')}{asked}{start.format(3, 'three')}"
    (frame,) = frames_of(text)
    assert frame.value["started_at"] == "2024-06-02"
    assert [message["content"] for message in frame.value["messages"]] == ["Aider two", "hi", "Ho"]
    assert "older notes" in frame.value["preamble"]
    assert "Aider one" in frame.value["preamble"]
    assert "Aider three" in frame.value["after"]


words = st.text(st.sampled_from("ab é你:#>-*_<|`\n1"), max_size=40)
LINES: list[Any] = [
    st.sampled_from(
        [
            "User: ", "Assistant: ", "**User**", "## Assistant", "_**Agent (x)**_", "<|im_start|>user", "<|im_end|>",
            "<|im_start|>assistant", "1/1/21, 12:00 - A: ", "[1/1/21, 12:00:00] B: ", "WEBVTT", "---", "#### ", "> ",
            "00:00:01.000 --> 00:00:02.000", "<v Ann>", "Bob: ", "# aider chat started at 2024", "Q: ", "A: ", "",
        ]
    ),
    words,
]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*LINES), min_size=1, max_size=12))
def test_no_word_of_any_text_is_lost(lines: list[tuple[str, str]]) -> None:
    """Whatever the text, each letter outside the marks of its style is in a record, or the text is told to have no
    turns and kept.
    """
    text = "\n".join(mark + said for mark, said in lines)
    frames = frames_of(text)
    if frames[0].reason:
        assert frames[0].raw == text.encode()
        return
    kept = "".join(json.dumps(frame.value, ensure_ascii=False) for frame in frames)
    for letter in "bé你":
        said = sum(part.count(letter) for _, part in lines)
        assert kept.count(letter) >= said


@pytest.mark.parametrize(
    ("text", "turns", "doubts"),
    [
        (
            "Customer: It is late.\nAgent: I cannot help\nAnn Lee: I refund you\nCustomer: Thanks\n",
            [("user", None), ("assistant", None), ("assistant", "Ann Lee"), ("user", None)],
            [],
        ),
        (
            "[10:01] Customer: Hi\nagain\n[10:02] Agent: No\nNote: none\n[10:03] Ann: Yes\n",
            [("user", None), ("assistant", None), ("assistant", "Ann")],
            [],
        ),
        (
            "User: a cake\nBot: Take this:\nFlour: 1 kg\nUser: and bread?\nBot: Ok\nFlour: 2 kg\n",
            [("user", None), ("assistant", None)] * 2,
            ["role Flour"],
        ),
        (
            "Customer: Hi, my parcel is lost.\nMaria: Hello, its number?\nCustomer: 12345.\nMaria: It comes now.\n",
            [("user", None), ("assistant", "Maria")] * 2,
            [],
        ),
        (
            "[10:01] Ann: My box\nis lost.\n[10:02] Agent: Number?\n[10:03] Ann: 12.\n[10:04] Agent: It comes on.\n",
            [("user", "Ann"), ("assistant", None)] * 2,
            [],
        ),
    ],
    ids=[
        "every line has a speaker",
        "turns have times",
        "a list within a turn",
        "who answers has a name",
        "who asks has a name",
    ],
)
def test_speakers_in_no_list(
    text: str, turns: list[tuple[str, str | None]], doubts: list[str]
) -> None:
    """A name before a colon is a speaker where all lines, or all times, say so; elsewhere, if it comes again, the
    account names it."""
    (record,) = opened(text.encode()).records()
    assert isinstance(record, Parsed)
    assert [(message.role, message.name) for message in record.conversation.messages] == turns
    assert list(record.account.unknown) == doubts


def test_text_in_broken_utf8_is_refused() -> None:
    """A text with a broken character is not read with a replacement in its place: the reason names the byte."""
    data = "User: café, naïve?\nBot: bad ".encode() + b"\xff\xfe byte\n"
    with pytest.raises(FormatError, match=f"broken UTF-8 at byte {data.index(0xFF)}"):
        opened(data)
