"""Accounts for the text of a record: how many characters of it went where, and what was not read.

A *place* is where a text went: into a message, a call, the truth, the metadata and so on, or nowhere
(`engine.formats.records.Place`). A text of the record is looked up among those of the conversation as a whole; if it is
none of them, then what they are pieces of, or it of them, is counted, and the rest has gone nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from engine.base.conversation import Conversation, Message
from engine.formats.json_values import json_text, kind_of, list_or_empty
from engine.formats.messages.chat_message import UNKNOWN_ITEMS, UNKNOWN_ROLE
from engine.formats.messages.normalize import RENDERED_CALLS
from engine.formats.messages.parts import part_kind
from engine.formats.opening.framing import Frame
from engine.formats.paths import json_within
from engine.formats.records import Account, ParsedRecord, Place

_LABEL_KEYS = ("role", "type", "object", "speaker")
"""Keys whose short texts say what a value is. They are not counted, and stay beside what remains of the value."""

_UNREADABLE_PATHS = (
    ".signature", ".thoughtSignature", ".thought_signature", ".encrypted_content", ".bytes", ".file_data",
    "source.data", "inlineData.data", "inline_data.data", "input_audio.data", "parts[].state", "output[].result",
)  # fmt: skip
"""Ends of paths to text that no person reads: signatures, bytes of files, and the state of a part of the Vercel AI
SDK."""

_TYPES_WITH_TEXT = (str, dict, list)
"""Types of JSON values that can hold text."""

_PART_LISTS = frozenset(("content", "parts"))
"""Keys of the lists of parts of which a message is made."""

_MIN_LONG = 20
"""Number of characters below which words are looked for as a whole line or value only: `angry` stands within many texts
that have nothing to do with a label `angry`."""

_BLANKS_OF_SENTENCE = 6
"""Number of blanks from which a text reads like a sentence."""

_CODE_START = re.compile(r"""\s*[({\["'<`/*]|.{0,20}=""")
"""Matches the beginning of code, JSON or markup: `{"a"`, `<div>`, `total = 1`."""

_ONLY_WORDS = re.compile(r"[\w .,'/-]+")
"""Matches a text of words and plain punctuation, in which labels such as `angry` may stand."""

_MIN_PIECE = 20
"""Number of characters from which a text that stands within a message counts as a copy of a piece of it."""


def account_for(frame: Frame, conversation: Conversation, draft: ParsedRecord) -> Account:
    """Returns where the texts of a record went, in characters of its JSON strings.

    Not counted are keys, numbers, and what says only what a value is (`_LABEL_KEYS`).

    Args:
        frame: The record. The texts of the object from which it was split are counted with the first record of it, and
            what the conversation does not have of them is left out.
        conversation: What was read from the record, after the leak guard.
        draft: What the reader returned for it.
    """
    conversation_texts = _ConversationTexts(conversation)
    conversation_texts.places.update(dict.fromkeys(draft.pieces, "messages"))
    result = Account(
        said=_sentence_characters(message.content for message in conversation.messages),
        aside=_sentence_characters(strings(conversation.meta)),
        columns=draft.columns,
    )
    for kind, text in conversation_texts.unknown:
        result.see(kind, text)
    _count_texts(frame.value, conversation_texts, result, draft.left_out)
    _count_texts(frame.beside, conversation_texts, result, frozenset())
    for item in draft.unknown:
        result.see(_kind(item), json_text(item))
    if frame.outer is not None and frame.outer.first:
        for text in strings(frame.outer.value):
            result.add(conversation_texts.places.get(text, "left out"), len(text))
    return result


def _sentence_characters(texts: Iterable[str]) -> int:
    """Returns the number of characters of the texts that read like sentences: of several words, and no code or JSON."""
    return sum(
        len(text)
        for text in texts
        if text.count(" ") >= _BLANKS_OF_SENTENCE and not _CODE_START.match(text)
    )


def _count_texts(
    record: Any,
    conversation_texts: _ConversationTexts,
    result: Account,
    left_out: frozenset[tuple[int, str | int]],
) -> None:
    """Counts the texts within a record.

    Most are whole texts of the conversation, each in a field of an object; these are counted when the object is read,
    for speed. All other values are read in turn.

    Args:
        result: Gets the counts.
        left_out: As in `ParsedRecord`.
    """
    places, chars = conversation_texts.places, result.chars
    uncounted_keys = {*_LABEL_KEYS, "from"}
    # values that are not read yet, each with the path to what it lies in, and its key
    pending: list[tuple[Any, str, str]] = [(record, "", "")]
    for value, path, key in pending:  # grows while it is read
        if isinstance(value, dict):
            inner = f"{path}.{key}" if path and key else path or key
            for name, entry in value.items():
                place = None
                if entry.__class__ is str and not (left_out or name in uncounted_keys):
                    place = places.get(entry)
                if place is not None:
                    chars[place] = chars.get(place, 0) + len(entry)
                elif left_out and (id(value), name) in left_out:
                    result.add("left out", sum(map(len, strings(entry))))
                elif name == "from" and "value" in value and "role" not in value:
                    continue  # the role of a ShareGPT message
                elif isinstance(entry, _TYPES_WITH_TEXT):
                    pending.append((entry, inner, name))
        elif isinstance(value, list):
            entry_key = f"{key}[]"
            for position, entry in enumerate(value):
                if left_out and (id(value), position) in left_out:
                    result.add("left out", sum(map(len, strings(entry))))
                    continue
                if key in _PART_LISTS and _is_unknown_part(entry, conversation_texts):
                    result.see(_kind(entry), json_text(entry))
                if isinstance(entry, _TYPES_WITH_TEXT):
                    pending.append((entry, path, entry_key))
        elif isinstance(value, str) and key not in _LABEL_KEYS:
            within = _count_text(value, f"{path}.{key}", conversation_texts, result)
            if within is not None:
                pending.append((within, path, key))


def _count_text(
    text: str, path: str, conversation_texts: _ConversationTexts, result: Account
) -> Any:
    """Counts a text as a whole or in pieces, and returns None; or returns the JSON value that it holds, to be read
    instead."""
    place = conversation_texts.places.get(text)
    if place is not None:
        result.add(place, len(text))
    elif text:
        within = json_within(text)
        if within is not text and within:
            return within
        _count_divided(text, path, conversation_texts, result)
    return None


def _kind(item: Any) -> str:
    """Returns the type that an item of an unknown kind names, else its first three keys, in words."""
    if not isinstance(item, dict):
        return kind_of(item)
    type_name = item.get("type")
    return type_name if isinstance(type_name, str) else f"with {', '.join(list(item)[:3])}"


def _count_divided(
    text: str, path: str, conversation_texts: _ConversationTexts, result: Account
) -> None:
    """Counts a text that the conversation does not have as a whole: its pieces may have gone to several places."""
    if text.startswith("data:") or path.endswith(_UNREADABLE_PATHS):
        result.add("left out", len(text))
        return
    cut = text.rfind(RENDERED_CALLS)
    if cut >= 0 and text[:cut].removesuffix("\n") in conversation_texts.places:
        result.add("calls", len(text) - cut)
        text = text[:cut]
    for place, count in conversation_texts.shares(text):
        if place == "nowhere":
            result.lose(path.removeprefix("."), text, count)
        else:
            result.add(place, count)


class _ConversationTexts:
    """The texts of a conversation, by where they are.

    Attributes:
        places: The place of each whole text.
        unknown: What messages have of an unknown kind: the words for the kind, and the text.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.places: dict[str, Place] = {}
        self.unknown: list[tuple[str, str]] = []
        for message in conversation.messages:
            self.places[message.content] = "messages"
            for call in message.tool_calls:
                self._put(call.arguments, "calls")
                self._put(call.name, "calls")
                self._put(call.call_id, "calls")
            self._put(message.reasoning, "reasoning")
            self._put(message.name, "messages")
            self._put(message.tool_call_id, "calls")
            if message.facts is not None:
                facts = json.loads(message.facts)
                if isinstance(word := facts.get(UNKNOWN_ROLE), str):
                    self.unknown.append((f"role {word}", message.content))
                for item in list_or_empty(facts.get(UNKNOWN_ITEMS)):
                    self.unknown.append((_kind(item), json_text(item)))
                for text in strings(facts):
                    self._put(text, "metadata")
        self._put(conversation.external_id, "metadata")
        self._put(conversation.created_at, "metadata")
        for text in strings(conversation.truth):
            self._put(text, "truth")
        for text in strings(conversation.meta):
            self._put(text, "metadata")

    @cached_property
    def _joined(self) -> dict[Place, str]:
        """All texts of each place, a line each."""
        texts_by_place: dict[Place, list[str]] = {}
        for text, place in self.places.items():
            texts_by_place.setdefault(place, []).append(text)
        return {place: "\n".join(texts) for place, texts in texts_by_place.items()}

    @cached_property
    def _pieces(self) -> list[str]:
        """The texts of more than one character, the longest first."""
        return sorted((text for text in self.places if len(text) > 1), key=len, reverse=True)

    def _put(self, text: str | None, place: Place) -> None:
        """Notes a text and its place; a text that has a place already keeps it."""
        if text is not None:
            self.places.setdefault(text, place)

    def is_said(self, text: str) -> bool:
        """Returns whether a message has a text in its content."""
        return any(
            text in whole_text for whole_text, place in self.places.items() if place == "messages"
        )

    def shares(self, text: str) -> Iterator[tuple[Place, int]]:
        """Yields where the pieces of a text went, and how many characters of it."""
        stripped = text.strip()
        if not stripped:
            return
        escaped = json_text(stripped)[1:-1]
        is_short = _is_short(stripped)
        for place, joined in self._joined.items():
            if is_short:
                is_within = stripped in joined and _is_whole_value(stripped, joined)
            else:
                is_within = stripped in joined or escaped in joined
            if is_within:
                yield place, len(text)
                return
        unplaced = text
        for piece in self._pieces:
            if piece in unplaced and (not _is_short(piece) or _is_whole_value(piece, unplaced)):
                before = len(unplaced)
                unplaced = unplaced.replace(piece, "")
                yield self.places[piece], before - len(unplaced)
        if unplaced.strip():
            yield "nowhere", len(unplaced)


def _is_short(text: str) -> bool:
    """Returns whether a text is so few words that it counts only as a whole line or value."""
    return len(text) < _MIN_LONG and _ONLY_WORDS.fullmatch(text) is not None


def _is_whole_value(words: str, text: str) -> bool:
    """Returns whether words are a whole line of a text, or a whole value of JSON in the text."""
    edges = r'(?:^|"|\\n)[ \t]*', r'[ \t]*(?:$|\\?"|\\n)'
    return re.search(re.escape(words).join(edges), text, re.MULTILINE) is not None


def _is_unknown_part(part: Any, conversation_texts: _ConversationTexts) -> bool:
    """Returns whether an entry of a list of parts is a part of an unknown kind, so that its JSON is in a message.

    Messages and JSON answers can be in such lists too, but are no parts.
    """
    return (
        isinstance(part, dict)
        and not part.keys() & {"role", "json"}
        and part_kind(part) == "unknown"
        and conversation_texts.is_said(json_text(part))
    )


def strings(value: Any) -> list[str]:
    """Returns the texts within a JSON value, those of an object or a list after those beside it."""
    texts: list[str] = []
    pending = [value]
    for item in pending:  # grows while it is read
        kind = item.__class__
        if kind is str:
            texts.append(item)
        elif kind is dict:
            pending += item.values()
        elif kind is list:
            pending += item
    return texts


class MessageTexts:
    """The texts of messages, which other values may repeat.

    Args:
        left_out: Keys whose values are kept elsewhere.
    """

    def __init__(self, messages: Iterable[Message], left_out: frozenset[str] = frozenset()) -> None:
        texts = []
        for message in messages:
            texts += [message.content, message.reasoning or ""]
            texts += [message.name or "", message.tool_call_id or ""]
            texts += strings(json.loads(message.facts or "{}"))
            for call in message.tool_calls:
                texts += [call.name, call.arguments, call.call_id or ""]
        self._exact = set(texts)
        self._joined = "\n".join(texts)
        self._passed_over = left_out.union(_LABEL_KEYS)

    def without(self, value: Any) -> Any:
        """Returns the value without what the messages have, and without what is then empty; None if nothing is left.

        A text that is JSON is taken as its value. A short text (`_MIN_PIECE`) must be a whole text of the messages, a
        longer one a piece of them. Of an object `_LABEL_KEYS` stay as long as anything else does.
        """
        if isinstance(value, str):
            if not value or value in self._exact:
                return None
            inner = json_within(value)
            if inner is not value:
                return self.without(inner)
            is_piece = value in self._joined or json_text(value)[1:-1] in self._joined
            return None if is_piece and len(value) >= _MIN_PIECE else value
        if isinstance(value, dict):
            entries = {
                key: remainder
                for key, entry in value.items()
                if key not in self._passed_over and (remainder := self.without(entry)) is not None
            }
            labels = {key: value[key] for key in _LABEL_KEYS if isinstance(value.get(key), str)}
            return {**labels, **entries} if entries else None
        if isinstance(value, list):
            return [
                remainder for entry in value if (remainder := self.without(entry)) is not None
            ] or None
        return value
