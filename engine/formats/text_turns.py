"""Conversations written as text: `User:` and `Assistant:`, ChatML, WebVTT, chats of WhatsApp, histories in Markdown and
of Aider. Each becomes a record with a list of messages, each with speaker and content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from engine.formats.framing import MAX_RECORD, Frame
from engine.formats.source import Source

_WORDS = (
    r"user|human|customer|client|caller|visitor|guest|patient|student|me|you|q|question|prompt|"
    r"assistant|agent|bot|chatbot|ai|gpt(?:-?\d[\w.]*)?|chatgpt|claude|gemini|copilot|llama|model|"
    r"operator|support|representative|advisor|a|answer|response|"
    r"system|developer|tool|function|observation"
)
_TIME = (
    r"(?:[\[(]?(?:\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?Z?[\])]?[ \t]*[-:]?[ \t]*)?"
)
_PLAIN = re.compile(
    rf"^(?P<time>{_TIME})(?:\*\*|__|>+[ ]?)?(?P<speaker>{_WORDS})(?:\*\*|__)?[ \t]*"
    r"(?:\((?P<about>[^)\n]{1,80})\))?[ \t]*:(?:\*\*|__)?[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_MARKDOWN = re.compile(
    rf"^(?:_\*\*|\*\*_?|#{{1,6}}[ ]+(?:\*\*)?)(?P<speaker>{_WORDS})(?:[ \t]*\((?P<about>[^)\n]{{1,120}})\))?"
    r"[:]?(?:_?\*\*_?)?[ \t]*:?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_CHATML = re.compile(r"<\|im_start\|>(?P<speaker>[^\n|<]{1,40})\n")
_HEADERS = re.compile(r"<\|start_header_id\|>(?P<speaker>[^\n|<]{1,40})<\|end_header_id\|>\n*")
_CHAT_ENDS = re.compile(r"<\|(?:im_end|eot_id|end_of_text|begin_of_text)\|>\s*")
_DATE = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"
_CLOCK = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:[\s\u202f]?[AaPp]\.?\s?[Mm]\.?)?"
_WHATSAPP = re.compile(
    rf"^[\u200e\u200f]?\[?(?P<time>{_DATE},?[ ]{_CLOCK})\]?(?:[ ]-)?[ ]"
    r"(?:(?P<speaker>[^:\n]{1,80}): )?",
    re.MULTILINE,
)
_RULE = re.compile(r"^[ \t]*(?:-{3,}|={3,}|\*{3,})[ \t]*$", re.MULTILINE)
_AIDER = re.compile(r"^# aider chat started at (?P<time>.+)$", re.MULTILINE)
_CUE = re.compile(r"^(?P<time>(?:\d+:)?\d\d:\d\d[.,]\d{3}) --> [^\n]*\n", re.MULTILINE)
_VOICE = re.compile(r"<v(?:\.[^ >]*)? (?P<speaker>[^>]+)>")
_SAID_BY = re.compile(r"\A(?P<speaker>[A-Z][^:\n]{0,39}):\s+")


class _Style(NamedTuple):
    """A way of writing conversations: its name, whether a text is written so, and its records."""

    name: str
    fits: Callable[[str], bool]
    read: Callable[[str], list[dict[str, Any]]]


def style_of(head: bytes) -> str | None:
    """The name of the style in which the beginning of a text is written; None if it has no turns."""
    text = head.decode("utf-8", "replace").replace("\r\n", "\n")
    return next((style.name for style in _STYLES if style.fits(text)), None)


def text_records(source: Source) -> Iterator[Frame]:
    """Yields the conversations of a text; the bytes of the whole text belong to the first."""
    pieces: list[bytes] = []
    size = 0
    while chunk := source.read():
        pieces.append(chunk)
        size += len(chunk)
        if size > MAX_RECORD:
            yield Frame(None, pieces[0], None, f"the text is larger than {MAX_RECORD >> 20} MiB")
            return
    raw = b"".join(pieces)
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    style = next((style for style in _STYLES if style.fits(text)), None)
    records = style.read(text) if style else []
    for number, record in enumerate(records, 1):
        line = number if len(records) > 1 else None
        yield Frame(
            line, raw if number == 1 else b"", {"transcript": style and style.name, **record}
        )
    if not records or source.error:
        yield Frame(len(records) + 1, raw, None, source.error or "the text has no turns")


def _divided(pattern: re.Pattern[str], text: str) -> dict[str, Any]:
    """A text divided at the beginnings of its turns."""
    starts = list(pattern.finditer(text))
    messages: list[dict[str, Any]] = []
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        end = following.start() if following else len(text)
        groups = start.groupdict()
        message = {"speaker": (groups["speaker"] or "").strip()}
        message["content"] = text[start.end() : end].strip()
        message |= {key: groups[key].strip() for key in ("time", "about") if groups.get(key)}
        messages.append(message)
    before = text[: starts[0].start()].strip() if starts else ""
    return {"messages": messages, **({"preamble": before} if before else {})}


def _turns(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    """Returns what says whether a text has turns of at least two speakers."""

    def fits(text: str) -> bool:
        speakers = [match["speaker"].lower() for match in pattern.finditer(text)]
        return len(speakers) > 1 and len(set(speakers)) > 1

    return fits


def _plain(text: str) -> list[dict[str, Any]]:
    """One conversation, or several that are divided by lines of dashes."""
    parts = [part for part in _RULE.split(text) if part.strip()]
    if len(parts) < 2 or not all(_PLAIN.match(part.strip()) for part in parts):
        parts = [text]
    return [_divided(_PLAIN, part) for part in parts]


def _markdown(text: str) -> list[dict[str, Any]]:
    record = _divided(_MARKDOWN, text)
    for message in record["messages"]:
        message["content"] = re.sub(r"\n+-{3,}\s*\Z", "", message["content"])
    return [record]


def _chatml(text: str) -> list[dict[str, Any]]:
    record = _divided(_CHATML if "<|im_start|>" in text else _HEADERS, text)
    for message in record["messages"]:
        message["content"] = _CHAT_ENDS.sub("", message["content"])
    if before := _CHAT_ENDS.sub("", record.pop("preamble", "")):
        record["preamble"] = before
    return [record]


def _whatsapp(text: str) -> list[dict[str, Any]]:
    record = _divided(_WHATSAPP, text)
    for message in record["messages"]:
        message["speaker"] = message["speaker"] or "WhatsApp"
    return [record]


def _fits_whatsapp(text: str) -> bool:
    found = list(_WHATSAPP.finditer(text))
    return sum(match["speaker"] is not None for match in found) > 1


def _aider(text: str) -> list[dict[str, Any]]:
    """Sessions of Aider: a line after `####` is the user's, one after `>` Aider's own, the rest is the assistant's."""
    starts = list(_AIDER.finditer(text))
    records: list[dict[str, Any]] = []
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        session = text[start.end() : following.start() if following else len(text)]
        messages: list[dict[str, Any]] = []
        for line in session.split("\n"):
            user, tool = line.startswith("#### "), line.startswith("> ")
            speaker = "user" if user else "aider" if tool else "assistant"
            said = line[5:] if user else line[2:] if tool else line
            if messages and (messages[-1]["speaker"] == speaker or not line.strip()):
                messages[-1]["content"] += "\n" + said
            elif said.strip():
                messages.append({"speaker": speaker, "content": said})
        for message in messages:
            message["content"] = message["content"].strip()
        if any(message["speaker"] == "user" for message in messages):
            records.append({"started_at": start["time"].strip(), "messages": messages})
    return records


def _webvtt(text: str) -> list[dict[str, Any]]:
    """Cues of WebVTT; consecutive cues of one speaker are one message."""
    record = _divided_cues(text)
    return [record] if record["messages"] else []


def _divided_cues(text: str) -> dict[str, Any]:
    cues = list(_CUE.finditer(text))
    messages: list[dict[str, Any]] = []
    for cue, following in zip(cues, [*cues[1:], None], strict=True):
        body = text[cue.end() : following.start() if following else len(text)].strip()
        body = body.split("\n\n")[0].replace("</v>", "")
        voice = _VOICE.search(body) or _SAID_BY.search(body)
        speaker = voice["speaker"].strip() if voice else ""
        said = (body[: voice.start()] + body[voice.end() :]).strip() if voice else body
        if messages and messages[-1]["speaker"] == speaker:
            messages[-1]["content"] += "\n" + said
        else:
            messages.append({"speaker": speaker, "content": said, "time": cue["time"]})
    return {"messages": messages}


_STYLES: tuple[_Style, ...] = (
    _Style("WebVTT", lambda text: text.startswith("WEBVTT"), _webvtt),
    _Style("Aider", lambda text: _AIDER.search(text) is not None, _aider),
    _Style("ChatML", _turns(_CHATML), _chatml),
    _Style("Llama", _turns(_HEADERS), _chatml),
    _Style("Markdown", _turns(_MARKDOWN), _markdown),
    _Style("WhatsApp", _fits_whatsapp, _whatsapp),
    _Style("text", _turns(_PLAIN), _plain),
)
