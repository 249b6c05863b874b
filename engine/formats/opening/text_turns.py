"""Conversations written as text: `User:` and `Assistant:`, templates of chat models, subtitles, chats of WhatsApp,
histories in Markdown and of Aider. Each becomes a record with a list of messages, each with speaker and content.

Terms: a *style* is a way of writing conversations (`_STYLES`), a *turn* what somebody says without a break, a *cue*
a piece of subtitles with its times, and a *family* a set of words for speakers that are used together (`_Speakers`). A
*template* (ChatML, Llama, Gemma, Mistral, Alpaca and others) is known by its own marks, of which each begins a turn.

Nothing that was said is lost: what comes before the first turn is in the `preamble` of the record.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from engine.formats.messages.chat_message import UNKNOWN_ROLE
from engine.formats.messages.roles import ASSISTANTS, USERS, role_named
from engine.formats.messages.times import date_of, day_comes_first
from engine.formats.opening.framing import MAX_RECORD, Frame, too_large
from engine.formats.opening.source import Source

# Texts and their styles


class _Style(NamedTuple):
    """A way of writing conversations.

    Attributes:
        name: What it is called in records.
        fits: Returns whether a text is written so.
        read: Returns the record of one conversation.
        parts: Divides a text into its conversations.
    """

    name: str
    fits: Callable[[str], bool]
    read: Callable[[str], dict[str, Any]]
    parts: Callable[[str], list[str]] = lambda text: [text]


def style_of(head: bytes) -> str | None:
    """Returns the name of the style in which the beginning of a text is written; None if it has no turns."""
    style = _find_style(head.decode("utf-8", "replace").replace("\r\n", "\n"))
    return style and style.name


def turns_of(text: str) -> dict[str, Any] | None:
    """Returns the messages of a text, each with speaker and content, and the `preamble` before; None if it has no
    turns."""
    text = text.replace("\r\n", "\n")
    style = _find_style(text)
    return None if style is None else style.read(text)


def text_records(source: Source) -> Iterator[Frame]:
    """Yields the conversations of a text, each with its part of the bytes."""
    pieces: list[bytes] = []
    size = 0
    while chunk := source.read():
        pieces.append(chunk)
        size += len(chunk)
        if size > MAX_RECORD:
            yield Frame(None, pieces[0], None, too_large())
            return
    raw = b"".join(pieces)
    try:
        text = raw.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        yield Frame(None, raw, None, f"broken UTF-8 at byte {error.start}")
        return
    style = _find_style(text)
    if style is None:
        yield Frame(None, raw, None, source.error or "the text has no turns")
        return
    parts = style.parts(text)
    for number, part in enumerate(parts, 1):
        record = {"transcript": style.name, **style.read(part)}
        if len(parts) == 1:
            yield Frame(None, raw, record)
        else:
            yield Frame(number, part.encode(), record)
    if source.error:
        yield Frame(len(parts) + 1, b"", None, source.error)


def _find_style(text: str) -> _Style | None:
    """Returns the first style that fits a text; None if none does."""
    return next((style for style in _STYLES if style.fits(text)), None)


def _divide_turns(starts: list[re.Match[str]], text: str) -> dict[str, Any]:
    """Returns a text divided at the beginnings of its turns."""
    messages: list[dict[str, Any]] = []
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        end = following.start() if following else len(text)
        groups = start.groupdict()
        message = {"speaker": (groups["speaker"] or "").strip()}
        message["content"] = text[start.end() : end].strip()
        message |= {key: groups[key].strip() for key in ("time", "about") if groups.get(key)}
        messages.append(message)
    return _make_record(messages, text[: starts[0].start()] if starts else text)


def _make_record(messages: list[dict[str, Any]], before: str) -> dict[str, Any]:
    """Returns a record of messages, with the text before them as its preamble."""
    return {"messages": messages, **({"preamble": before.strip()} if before.strip() else {})}


# Templates of chat models

_EDGE_TOKEN = (
    r"(?:<s>|</s>|<bos>|<eos>|<end_of_turn>|\[gMASK\]|<sop>|<｜(?:begin|end)▁of▁sentence｜>"
    r"|<\|(?:im_end|eot_id|eom_id|end_of_text|begin_of_text|end|endoftext|end_of_turn|return|call)\|>"
    r"|<BOS_TOKEN>|<\|END_OF_TURN_TOKEN\|>)"
)
"""Matches a token that begins or ends a text or a turn, such as `</s>` or `<|im_end|>`; it says nothing."""

_EDGE_TOKENS = re.compile(rf"\A(?:\s*{_EDGE_TOKEN})+|(?:{_EDGE_TOKEN}\s*)+\Z")
"""Matches all tokens like `_EDGE_TOKEN` at the beginning and at the end of a turn."""

_SIDES = {"instruction": "user", "input": "user", "response": "assistant", "output": "assistant"}
"""Words of prompts of Alpaca -> who speaks after them."""


class _Template(NamedTuple):
    """The template of a chat model.

    Attributes:
        name: What it is called in records.
        head: Matches the head of a turn; the group `speaker` is its word for who speaks, `about` may say more.
        speakers: The words that are not understood by themselves, in small letters, and the usual ones for them.
    """

    name: str
    head: re.Pattern[str]
    speakers: Mapping[str, str] = {}

    def _speaker(self, head: re.Match[str]) -> str:
        """Returns the usual word for who speaks after a head."""
        word = head["speaker"].strip()
        return self.speakers.get(word.lower(), word)

    def fits(self, text: str) -> bool:
        """Returns whether at least two speak in a text."""
        return len({self._speaker(head) for head in self.head.finditer(text)}) > 1

    def read(self, text: str) -> dict[str, Any]:
        """Returns the record of a text: its messages, each with speaker and content, and its preamble.

        A head that goes on with the same speaker under another word, as `Input` after `Instruction`, begins no message;
        nor does one of a usual speaker without text, as it stands at the end for the answer of a model.
        """
        heads = list(self.head.finditer(text))
        ends = [*(head.start() for head in heads[1:]), len(text)]
        messages: list[dict[str, Any]] = []
        last_word = ""
        for head, end in zip(heads, ends, strict=True):
            content = _EDGE_TOKENS.sub("", text[head.end() : end].strip()).strip()
            speaker = self._speaker(head)
            if not content and (speaker in self.speakers.values() or role_named(speaker)):
                continue
            if messages and messages[-1]["speaker"] == speaker and last_word != head["speaker"]:
                messages[-1]["content"] += "\n" + content
            else:
                head_facts = {"about": word} if (word := head.groupdict().get("about")) else {}
                messages.append({"speaker": speaker, "content": content, **head_facts})
            last_word = head["speaker"]
        return _make_record(messages, _EDGE_TOKENS.sub("", text[: heads[0].start()].strip()))


_TEMPLATES = (
    _Template("ChatML", re.compile(r"<\|im_start\|>(?P<speaker>[^\n|<]{1,40})(?:\n|<\|im_sep\|>)")),
    _Template(
        "Llama 3",
        re.compile(r"<\|start_header_id\|>(?P<speaker>[^\n|<]{1,40})<\|end_header_id\|>\n*"),
    ),
    _Template("Gemma", re.compile(r"<start_of_turn>(?P<speaker>[^\n<]{1,40})\n")),
    _Template(
        "Granite", re.compile(r"<\|start_of_role\|>(?P<speaker>[^\n|<]{1,40})<\|end_of_role\|>")
    ),
    _Template(
        "Harmony",
        re.compile(
            r"<\|start\|>(?P<speaker>[^\n|<]{1,40})(?:<\|channel\|>(?P<about>[^<]{1,80}))?"
            r"(?:<\|constrain\|>\w+)?<\|message\|>"
        ),
    ),
    _Template(
        "Command",
        re.compile(
            r"<\|START_OF_TURN_TOKEN\|><\|(?P<speaker>USER|CHATBOT|SYSTEM)_TOKEN\|>(?:<\|START_RESPONSE\|>)?"
        ),
    ),
    _Template("DeepSeek", re.compile(r"<｜(?P<speaker>User|Assistant)｜>")),
    _Template(
        "Mistral",
        re.compile(r"(?P<speaker>\[/?INST\]|\[/?SYSTEM_PROMPT\]|<</?SYS>>|\[/?TOOL_RESULTS\])"),
        {
            "[inst]": "user",
            "[/inst]": "assistant",
            "<<sys>>": "system",
            "<</sys>>": "user",
            "[system_prompt]": "system",
            "[/system_prompt]": "user",
            "[tool_results]": "tool",
            "[/tool_results]": "assistant",
        },
    ),
    _Template(
        "Zephyr",
        re.compile(
            r"<\|(?P<speaker>system|user|assistant|tool|observation|prompter|prompt|answer)\|>\n?"
        ),
        {"prompt": "user", "answer": "assistant"},
    ),
    _Template(
        "Alpaca",
        re.compile(r"^###[ ]*(?P<speaker>Instruction|Input|Response|Output):[ \t]*\n?", re.M),
        _SIDES,
    ),
    _Template(
        "Guanaco", re.compile(r"###[ ]*(?P<speaker>Human|User|Assistant|System):[ \t]*", re.I)
    ),
    _Template("OpenChat", re.compile(r"GPT4 Correct (?P<speaker>User|Assistant):[ \t]*")),
    _Template(
        "Vicuna", re.compile(r"(?:\A|(?<=\s)|(?<=</s>))(?P<speaker>USER|ASSISTANT):(?=\s|\Z)")
    ),
)
"""The chat templates that are known, in the order in which they are tried."""


# Words for speakers

_ASKER = "|".join(("user", "human", *USERS))
"""Matches a word for the side that asks."""

_ANSWERER = "|".join(
    ("assistant", "bot", "ai", "chatgpt", "model", *ASSISTANTS, r"gpt(?:-?\d[\w.]*)?")
)
"""Matches a word for the side that answers."""

_OTHER_WORD = "system|developer|tool|function|observation"
"""Matches a word for a speaker who is neither of the two sides."""

_TIME = (
    r"(?:[\[(]?(?:\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?Z?[\])]?[ \t]*[-:]?[ \t]*)?"
)
"""Matches a time before a speaker, such as `[2024-05-01 12:30:01] ` or `12:30 - `; also nothing."""


class _Speakers(NamedTuple):
    """Words for speakers that belong together; a text is a conversation if one of them asks and one answers.

    Attributes:
        asks: Regex of the words for the side that asks.
        answers: Regex of those for the side that answers.
        plain: Matches the head of a turn in plain text: `User (edited): `.
        markdown: Matches a line of Markdown that is the head of a turn: `**User:**`.
    """

    asks: str
    answers: str
    plain: re.Pattern[str]
    markdown: re.Pattern[str]

    def turns(self, pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
        """Returns the beginnings of the turns; [] if nobody asks or nobody answers. The words are all written like the
        first, since `model:` within a text of `User:` and `Model:` is no turn."""
        turns = list(pattern.finditer(text))
        turns = [
            turn
            for turn in turns
            if turn["speaker"][0].isupper() == turns[0]["speaker"][0].isupper()
        ]
        words = {turn["speaker"].lower() for turn in turns}
        some_ask = any(re.fullmatch(self.asks, word) for word in words)
        some_answer = any(re.fullmatch(self.answers, word) for word in words)
        return turns if some_ask and some_answer else []


def _family(asks: str, answers: str, beside: str = "") -> _Speakers:
    """Returns a family of words for speakers.

    Args:
        asks: Regex of the words for the side that asks.
        answers: Regex of those for the side that answers.
        beside: Regex of those for others; empty for none.
    """
    words = "|".join(filter(None, (asks, answers, beside)))
    return _Speakers(
        asks,
        answers,
        re.compile(
            rf"^(?P<time>{_TIME})(?:\*\*|__|>+[ ]?)?(?P<speaker>{words})(?:[ ]said)?(?:\*\*|__)?[ \t]*"
            r"(?:\((?P<about>[^)\n]{1,80})\))?[ \t]*:(?:\*\*|__)?[ \t]*",
            re.IGNORECASE | re.MULTILINE,
        ),
        re.compile(
            rf"^(?:_\*\*|\*\*_?|#{{1,6}}[ ]+(?:\*\*)?)(?P<speaker>{words})(?:[ ]said)?"
            r"(?:[ \t]*\((?P<about>[^)\n]{1,120})\))?:?(?:_?\*\*_?)?[ \t]*:?[ \t]*$",
            re.IGNORECASE | re.MULTILINE,
        ),
    )


_FAMILIES = (
    _family(_ASKER, _ANSWERER, _OTHER_WORD),
    _family("q", "a"),
    _family("question", "answer"),
    _family("prompt", "response|completion"),
)
"""The families of words for speakers, in the order in which they are tried."""

_SPELLED_OUT = {"q": "question", "a": "answer"}
"""Words of which the letters are short; elsewhere A and B are names of people."""


def _spell_out_speakers(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the record, with the speakers `Q` and `A` spelled out."""
    for message in record["messages"]:
        message["speaker"] = _SPELLED_OUT.get(message["speaker"].lower(), message["speaker"])
    return record


# Plain text: `User: ...`

_NAMED = re.compile(
    rf"^(?P<time>{_TIME})(?:\*\*|__)?(?P<speaker>[A-Z][\w.'-]*(?:[ ][A-Z\d#][\w.'-]*){{0,2}})(?:\*\*|__)?"
    r"[ \t]*:(?:\*\*|__)?[ \t]+(?=\S)",
    re.MULTILINE,
)
"""Matches a line that may be a turn of somebody in no list: one to three words with capitals, and a colon,
as `Maria Lopez: `."""

_MIN_TURNS = 2
"""Least number of turns that each side needs in a text in which only one side has a known word."""

_MIN_WORDS = 3
"""Least number of words of a turn in which somebody speaks; the value of a setting (`name: value`) has fewer."""

_RULE = re.compile(r"^[ \t]*(?:-{3,}|={3,}|\*{3,})[ \t]*$", re.MULTILINE)
"""Matches a line of dashes, equals signs or stars."""


def _plain_turns(text: str) -> list[re.Match[str]]:
    """Returns the beginnings of turns such as `User: ...`; [] if there are none."""
    known_turns = next(filter(None, (family.turns(family.plain, text) for family in _FAMILIES)), [])
    return _add_other_speakers(known_turns, text) if known_turns else _turns_of_one_known_side(text)


def _turns_of_one_known_side(text: str) -> list[re.Match[str]]:
    """Returns the turns of a text in which one side has a word in the lists and the other a name: `Customer:` and
    `Maria:`.

    Settings look alike (`User: root`, `Host: here`). So every line, or every turn by its time, begins with a speaker,
    both sides speak at least twice, and half of the turns or more are phrases. Else [].
    """
    named_turns = list(_NAMED.finditer(text))
    if not named_turns:
        return []
    timed = [turn for turn in named_turns if turn["time"]]
    named_turns = timed or named_turns
    filled_lines = sum(bool(line.strip()) for line in text.splitlines())
    if not timed and filled_lines > len(named_turns):
        return []
    asking = [turn for turn in named_turns if re.fullmatch(_ASKER, turn["speaker"], re.IGNORECASE)]
    answering = [
        turn for turn in named_turns if re.fullmatch(_ANSWERER, turn["speaker"], re.IGNORECASE)
    ]
    known_count = len(asking) + len(answering)
    if (
        bool(asking) == bool(answering)
        or min(known_count, len(named_turns) - known_count) < _MIN_TURNS
    ):
        return []
    ends = [*(turn.start() for turn in named_turns[1:]), len(text)]
    contents = [text[turn.end() : end] for turn, end in zip(named_turns, ends, strict=True)]
    phrases = sum(len(words.split()) >= _MIN_WORDS for words in contents)
    return named_turns if 2 * phrases >= len(named_turns) else []


def _add_other_speakers(known_turns: list[re.Match[str]], text: str) -> list[re.Match[str]]:
    """Returns the turns of a text with those of speakers in no list: names before a colon, if that is how every line
    begins, or if they have a time as all other turns have. Elsewhere such a line may be part of a turn, as `Note:
    ...`."""
    starts = {turn.start() for turn in known_turns}
    named_turns = _NAMED.finditer(text, known_turns[0].start())
    others = [turn for turn in named_turns if turn.start() not in starts]
    if all(turn["time"] for turn in known_turns):
        others = [turn for turn in others if turn["time"]]
    else:
        lines = text[known_turns[0].start() :].splitlines()
        introduced = any(text[: turn.start()].rstrip().endswith(":") for turn in others)  # a list
        filled_lines = sum(bool(line.strip()) for line in lines)
        if introduced or filled_lines > len(known_turns) + len(others):  # not every line is a turn
            return known_turns
    return sorted([*known_turns, *others], key=lambda turn: turn.start())


def _mark_doubts(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the record; a message in which somebody in no list may speak is marked, if several messages have that
    name."""
    messages = record["messages"]
    names_within = [
        {turn["speaker"] for turn in _NAMED.finditer(message["content"])} for message in messages
    ]
    counts = Counter(name for names in names_within for name in names)
    for message, names in zip(messages, names_within, strict=True):
        if repeated_names := sorted(name for name in names if counts[name] > 1):
            message[UNKNOWN_ROLE] = ", ".join(repeated_names)
    return record


def _plain_parts(text: str) -> list[str]:
    """Returns the conversations of a text that are divided by lines of dashes; the text itself if what stands between
    such lines is no conversation."""
    parts = [part for part in _RULE.split(text) if part.strip()]
    are_conversations = len(parts) > 1 and all(
        (turns := _plain_turns(part)) and not part[: turns[0].start()].strip() for part in parts
    )
    return parts if are_conversations else [text]


# Markdown: `**User:**`


def _markdown_turns(text: str) -> list[re.Match[str]]:
    """Returns the beginnings of turns such as `**User:**` or `## User`; [] if there are none."""
    return next(filter(None, (family.turns(family.markdown, text) for family in _FAMILIES)), [])


def _read_markdown(text: str) -> dict[str, Any]:
    """Returns the record of a text with turns of Markdown, without the rules between them."""
    record = _divide_turns(_markdown_turns(text), text)
    for message in record["messages"]:
        message["content"] = re.sub(r"(?:\A|\n+)-{3,}\s*\Z", "", message["content"])
    return _spell_out_speakers(record)


# Chats of WhatsApp

_DATE = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"
"""Matches a date in digits, in any order: `31.12.24`, `2024-12-31`."""

_CLOCK = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:[\s\u202f]?[AaPp]\.?\s?[Mm]\.?)?"
"""Matches a time of day: `9:05`, `21.05.33`, `9:05 p.m.`."""

_WHATSAPP = re.compile(
    rf"^[\u200e\u200f]?\[?(?P<time>{_DATE},?[ ]{_CLOCK})(?:\]|[ ][-–])[ ]"
    r"(?:(?P<speaker>[^:\n]{1,80}): )?",
    re.MULTILINE,
)
"""Matches the head of a message of WhatsApp: `[31.12.24, 21:05:33] Ana: ` or `12/31/24, 9:05 PM - Ana: `. Notes of the
app itself have no speaker."""

_SHORT_YEAR = re.compile(r"^(\d{1,2}[./-]\d{1,2}[./-])(\d\d)(?!\d)")
"""Matches a date whose year has two digits, which are of this century."""

_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)$")
"""Matches the end of a name that is the level of an entry in the log of a program: `INFO`."""


def _fits_whatsapp(text: str) -> bool:
    """Returns whether there are several messages; lines of the log of a program look alike, but their speakers are
    levels."""
    speakers = [match["speaker"] for match in _WHATSAPP.finditer(text) if match["speaker"]]
    return sum(_LEVEL.search(speaker) is None for speaker in speakers) > max(1, len(speakers) // 2)


def _read_whatsapp(text: str) -> dict[str, Any]:
    """Returns the record of a chat of WhatsApp; its notes are said by `WhatsApp`."""
    record = _divide_turns(list(_WHATSAPP.finditer(text)), text)
    times = _iso_times([message["time"] for message in record["messages"]])
    for message, time in zip(record["messages"], times, strict=True):
        message["speaker"] = message["speaker"] or "WhatsApp"
        message["time"] = time
    if "T" in times[0]:
        record["started_at"] = times[0]
    return record


def _iso_times(written: list[str]) -> list[str]:
    """Returns the times of a chat in ISO 8601; as they are written, if days and months cannot be told apart."""
    plain = [_SHORT_YEAR.sub(r"\g<1>20\2", time.replace(",", "")) for time in written]
    orders = set(map(day_comes_first, plain)) - {None}
    day_first = orders.pop() if len(orders) == 1 else None
    times = [date_of(time, day_first) for time in plain]
    return [time.replace(" ", "T") for time in times if time] if all(times) else written


# Histories of Aider

_AIDER = re.compile(r"^# aider chat started at (?P<time>.+)$", re.MULTILINE)
"""Matches the first line of a session of Aider: `# aider chat started at 2024-05-01 12:30:01`."""

_AIDER_USER = re.compile(r"^####", re.MULTILINE)
"""Matches the beginning of a line of the user in Aider's history."""


def _aider_parts(text: str) -> list[str]:
    """Returns the sessions of Aider; one in which nobody said anything belongs to the next, and the last to the one
    before."""
    starts = [heading.start() for heading in _AIDER.finditer(text)]
    parts: list[str] = []
    begin = 0
    for end in [*starts[1:], len(text)]:
        if _AIDER_USER.search(text, max(begin, starts[0]), end):
            parts.append(text[begin:end])
            begin = end
    parts[-1] += text[begin:]
    return parts


def _read_aider(text: str) -> dict[str, Any]:
    """Returns a session of Aider: a line after `####` is the user's, one after `>` Aider's own, the rest is the
    assistant's."""
    starts = list(_AIDER.finditer(text))
    first_question = _AIDER_USER.search(text, starts[0].end())
    assert first_question is not None
    start = [mark for mark in starts if mark.start() < first_question.start()][-1]
    following = _AIDER.search(text, first_question.start())
    end = following.start() if following else len(text)
    messages: list[dict[str, Any]] = []
    for line in text[start.end() : end].split("\n"):
        if line.startswith("####"):
            speaker, line_text = "user", line[5:]
        elif line.startswith("> "):
            speaker, line_text = "aider", line[2:]
        else:
            speaker, line_text = "assistant", line
        if messages and (messages[-1]["speaker"] == speaker or not line.strip()):
            messages[-1]["content"] += "\n" + line_text
        elif line_text.strip():
            messages.append({"speaker": speaker, "content": line_text})
    for message in messages:
        message["content"] = message["content"].strip()
    after = {"after": text[end:].strip()} if following else {}
    record = _make_record(messages, text[: start.start()])
    return {"started_at": start["time"].strip(), **record, **after}


# Subtitles

_NAME_WORDS = 3
"""Most words of a name that speaks once; a longer text before a single colon is the beginning of a sentence."""

_CUE = re.compile(
    r"^(?P<time>(?:\d+:)?\d\d:\d\d[.,]\d{3}) --> (?P<end>(?:\d+:)?\d\d:\d\d[.,]\d{3})(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
"""Matches the line of times of a cue: `00:01.000 --> 00:04.000 align:start`."""

_CUE_ID = re.compile(r"\A\s*(?:\d+|[\da-fA-F-]{36}(?:/\d+-\d+)?)?\s*\Z")
"""Matches what stands before the times of a cue: its number or id, or nothing."""

_SETTINGS = re.compile(r"\A(?:\s+(?:vertical|line|position|size|align|region):\S+)*\s*\Z")
"""Matches the settings after the times of a cue, which say where it stands on the screen."""

_VOICE = re.compile(r"<v(?:\.[^ >]*)? ([^>]+)>")
"""Matches the tag of WebVTT that names the speaker: `<v Ana>`."""

_SPEAKER = re.compile(r"\A(?P<speaker>[A-Z][^:\n]{0,39}):\s+")
"""Matches a name and a colon at the beginning of a cue: `Ana: `."""


def _read_cues(text: str) -> dict[str, Any]:
    """Returns the record of subtitles (WebVTT or SubRip): consecutive cues of a speaker are one message, and what is no
    cue is the preamble.

    Numbers of cues and where they stand on the screen are only in the bytes of the text.
    """
    messages: list[dict[str, Any]] = []
    others: list[str] = []
    names = _speaker_names(text)
    for block in re.split(r"\n(?:[ \t]*\n)+", text):
        cue = _CUE.search(block)
        if cue is None:
            others.append(block)
            continue
        others += filter(
            None, (_CUE_ID.sub("", block[: cue.start()]), _SETTINGS.sub("", cue["rest"]))
        )
        for named, cue_text in _speakers_of_cue(block[cue.end() :].strip(), names):
            # a cue without a name goes on with what the speaker before it says
            speaker = named or (messages[-1]["speaker"] if messages else "")
            if messages and messages[-1]["speaker"] == speaker:
                messages[-1]["content"] += "\n" + cue_text
                messages[-1]["end"] = cue["end"]
            else:
                times = {"time": cue["time"], "end": cue["end"]}
                messages.append({"speaker": speaker, "content": cue_text, **times})
    return _make_record(messages, "\n\n".join(others))


def _speaker_names(text: str) -> set[str]:
    """Returns the names before a colon at the beginnings of cues that are speakers: short ones, and what is there
    twice."""
    bodies = (text[cue.end() :].lstrip("\n") for cue in _CUE.finditer(text))
    name_counts = Counter(named["speaker"] for body in bodies if (named := _SPEAKER.match(body)))
    return {
        name for name, count in name_counts.items() if count > 1 or len(name.split()) <= _NAME_WORDS
    }


def _speakers_of_cue(body: str, names: Collection[str]) -> list[tuple[str, str]]:
    """Returns the speakers of a cue, each with a text: those in `<v Name>`, or one of the names before a colon; the
    speaker is "" where the cue does not name one."""
    before, *voices = _VOICE.split(body.replace("</v>", ""))
    named = _SPEAKER.match(before) if not voices else None
    if named is not None and named["speaker"] in names:
        return [(named["speaker"], before[named.end() :].strip())]
    parts = list(zip(voices[::2], voices[1::2], strict=True))  # names and texts take turns
    if before.strip():
        parts.insert(0, ("", before))
    return [(speaker.strip(), words.strip()) for speaker, words in parts]


# All styles

_STYLES: tuple[_Style, ...] = (
    _Style(
        "WebVTT", lambda text: text.startswith("WEBVTT") and bool(_CUE.search(text)), _read_cues
    ),
    _Style(
        "SubRip", lambda text: re.match(r"\s*\d+\n[\d:]+,\d+ --> ", text) is not None, _read_cues
    ),
    _Style(
        "Aider",
        lambda text: bool((start := _AIDER.search(text)) and _AIDER_USER.search(text, start.end())),
        _read_aider,
        _aider_parts,
    ),
    *(_Style(template.name, template.fits, template.read) for template in _TEMPLATES),
    _Style("Markdown", lambda text: bool(_markdown_turns(text)), _read_markdown),
    _Style("WhatsApp", _fits_whatsapp, _read_whatsapp),
    _Style(
        "text",
        lambda text: bool(_plain_turns(text)),
        lambda text: _mark_doubts(_spell_out_speakers(_divide_turns(_plain_turns(text), text))),
        _plain_parts,
    ),
)
"""The styles of transcripts, in the order in which they are tried: styles with marks of their own first."""
