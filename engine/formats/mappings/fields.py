"""The fields of records of an unknown format, and what each most likely is: role, text, time, id, tool calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from engine.formats.mappings.mapping import FIRST_SPEAKER, OTHER_SPEAKERS
from engine.formats.messages.parts import part_kind
from engine.formats.messages.roles import role_meant
from engine.formats.messages.times import as_time, date_of, is_ambiguous, is_usual_name
from engine.formats.paths import as_word, decoded

# What several fields have in common

MAX_ITEMS = 2_000
"""Most items of a list that are looked at."""

_MIN_SHARE_PRESENT = 0.7
"""Least share of the items that have a role, a speaker or a time; in some logs events without one stand between
messages."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\Z")
"""Matches a number: `12`, `-1.5e3`."""

_ROLE_PATH = re.compile(
    r"(?:^|[.])(?:role|from|speaker|sender|author|who|turn|party|participant|agent|source|direction"
    r"|is_?(?:user|bot|human|agent|customer|me)|from_?me|\w*_(?:role|speaker|sender|author))"
    r"(?:[_.]?(?:name|role|id|username|type))?\Z",
    re.I,
)
"""Finds paths whose name says who speaks: `role`, `author.name`, `is_bot`, `message_sender`."""

_ORDER_PATH = re.compile(
    r"(?:^|[._])(?:turn|seq(?:uence)?|index|idx|order|step|position|pos|line|number|nr|no|n)"
    r"(?:_?(?:id|index|idx|number|nr|no))?\Z",
    re.I,
)
"""Finds paths whose name is that of the number of a message: `turn`, `message_index`, `seq_no`."""

_TIME_WORDS = frozenset(
    ("time", "timestamp", "date", "datetime", "created", "ts", "sent", "at", "when", "start")
)


def _words_of(path: str) -> list[str]:
    """Returns the words of the last key of a path, in small letters."""
    key = path.rpartition(".")[2].strip('"')
    return re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", key).lower())


# Fields and their paths

_EXAMPLE_VALUES = 20
"""Number of values by which the example of a field is chosen."""

_BLANK = re.compile(r"\s|[\u2e80-\u9fff\uac00-\ud7af\u0e00-\u0eff]")
"""Finds a blank, or a character of Chinese, Japanese, Korean, Thai or Lao."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the items of a list.

    Attributes:
        path: Where it is in an item.
        values: Its values as texts, in the order of the items.
        share_present: Share of the items that have it, from 0 to 1.
    """

    path: str
    values: tuple[str, ...]
    share_present: float

    @property
    def characters(self) -> int:
        """Length of all values together."""
        return sum(map(len, self.values))

    @property
    def example(self) -> str:
        """The longest of the first values."""
        return max(self.values[:_EXAMPLE_VALUES], key=len, default="")

    @property
    def share_of_phrases(self) -> float:
        """Share of the values that are several words, or in a script in which words are short or have no blanks."""
        return sum(_BLANK.search(value) is not None for value in self.values) / len(self.values)


_PLAIN_KEY = re.compile(r"[^\s.|\"\[\]{}=!^]+(?:\s+[^\s.|\"\[\]{}=!^]+)*\Z")
"""Matches a key that needs no quotation marks in a path: `text`, `user name`."""


def quote_key(key: str) -> str:
    """Returns a key as it is written in a path: in quotation marks if it is empty, has blanks at its ends, or has signs
    that mean something in a path."""
    return key if _PLAIN_KEY.match(key) else f'"{key}"'


def join_key(path: str, key: str) -> str:
    """Returns the path of what is under a key in what is at a path; "" is the path of the value itself."""
    return f"{path}.{quote_key(key)}" if path else quote_key(key)


_MIN_SHARE_OF_KNOWN_PARTS = 0.7
"""Least share of the objects of a list that are parts of a known kind, if they are the content of one message."""


def are_parts(value: Any) -> bool:
    """Returns whether a value is the content of one message in parts (text, tool call, image, ...), as chat APIs have
    it."""
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(part, dict) for part in value)
    ):
        return False
    if any(not {"role", "from", "speaker", "author", "sender"}.isdisjoint(part) for part in value):
        return False
    if all("type" not in part and any(map(_ROLE_PATH.search, part)) for part in value):
        return False  # messages, as {"is_bot": true, "text": ...}
    known_parts = sum(
        part_kind(part) not in ("unknown", "mark", "fact") and ("type" in part or len(part) <= 2)
        for part in value
    )
    return known_parts >= _MIN_SHARE_OF_KNOWN_PARTS * len(value)


def fields_of(items: Sequence[Any]) -> tuple[Field, ...]:
    """Returns the fields of items that hold texts, numbers or truth values, those with most text first."""
    values: dict[str, list[str]] = {}
    holders: Counter[str] = Counter()
    for item in items[:MAX_ITEMS]:
        paths_of_item: set[str] = set()
        for path, value in _leaves(item, "", 0):
            values.setdefault(path, []).append(value)
            paths_of_item.add(path)
        holders.update(paths_of_item)
    count = min(len(items), MAX_ITEMS) or 1
    fields = [
        Field(path, tuple(field_values), holders[path] / count)
        for path, field_values in values.items()
    ]
    return tuple(sorted(fields, key=lambda field: -field.characters))


DEEPEST = 6
"""Deepest level of a record at which fields are looked for."""


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yields the fields within a value that hold no others, each with its path and its value as text."""
    if isinstance(value, dict) and depth < DEEPEST:
        for key, entry in value.items():
            if '"' not in key:  # a path cannot name such a key
                yield from _leaves(entry, join_key(path, key), depth + 1)
    elif are_parts(value):
        texts = [as_word(part["text"]) for part in value if "text" in part]
        yield path or ".", "\n".join(texts) or as_word(value)
    elif isinstance(value, list) and depth < DEEPEST:
        # the item itself may be a list such as [speaker, text]
        for position, entry in enumerate(value):
            inner = f"{path}[]" if path else f"[{position}]"
            yield from _leaves(entry, inner, depth + 1)
    elif value is not None and not isinstance(value, dict | list):
        yield path or ".", as_word(value)


# The text


def text_field(fields: Sequence[Field]) -> Field | None:
    """Returns the field that most likely is the text of a message; None if no field has texts."""
    best = max(fields, key=text_weight, default=None)
    return best if best is not None and text_weight(best) > 0 else None


_WEIGHT_IN_LISTED_OBJECTS = 0.05
"""Factor on the weight of a text in objects of a list, which are rather the messages themselves."""

_WEIGHT_IN_LISTS = 0.3
"""Factor on the weight of a text in a list."""

_VALUES_FOR_JSON = 50
"""Number of first values that are looked at to see whether a field holds JSON."""

_WEIGHT_OF_JSON = 0.2
"""Factor on the weight of a text that is mostly JSON."""

_WEIGHT_OF_HISTORY = 0.1
"""Factor on the weight of a text that says again and again what was said so far."""

_TEXT_PATH = re.compile(
    r"(?:^|[._])(?:text|content|body|message|msg|value|utterance|words|say|said|line|parts)(?:\[\])?$",
    re.I,
)
"""Finds paths whose name is that of a text of messages: `text`, `message.content`, `parts[]`."""

_WEIGHT_OF_TEXT_NAME = 4.0
"""Factor on the weight of a text whose name is that of a text of messages."""

_WEIGHT_WITHOUT_PHRASES = 0.01
"""Weight of a text of single words, of which a text of several words has 1 more."""


def text_weight(field: Field) -> float:
    """Returns how much a field looks like the texts of messages, 0 or more: about the number of characters that were
    written for it."""
    values = field.values
    if not field.characters or all(map(_NUMBER.match, values)):
        return 0.0
    if _is_dated(field) or (set(_words_of(field.path)) & _TIME_WORDS and is_time(field)):
        return 0.0
    factor = len(set(values)) / len(values)  # what is written again and again counts once
    if "[]." in field.path:
        factor *= _WEIGHT_IN_LISTED_OBJECTS
    elif "[]" in field.path:
        factor *= _WEIGHT_IN_LISTS
    first_values = values[:_VALUES_FOR_JSON]
    json_count = sum(decoded(value) is not value for value in first_values)
    if json_count > 0.5 * len(first_values):
        factor *= _WEIGHT_OF_JSON
    longer_count = sum(_goes_on_from(later, earlier) for earlier, later in pairwise(values))
    if longer_count > 0.5 * (len(values) - 1):
        factor *= _WEIGHT_OF_HISTORY
    name_factor = _WEIGHT_OF_TEXT_NAME if _TEXT_PATH.search(field.path) else 1.0
    phrase_factor = _WEIGHT_WITHOUT_PHRASES + field.share_of_phrases
    return field.characters * factor * phrase_factor * name_factor * field.share_present


_MIN_HISTORY_CHARACTERS = 40
"""Length above which a text may begin another that goes on from it."""

_COMPARED_CHARACTERS = 200
"""Number of first characters that a text must share with another to go on from it."""


def _goes_on_from(later: str, earlier: str) -> bool:
    """Returns whether a text begins with an earlier one and goes on."""
    is_longer = len(later) > len(earlier) > _MIN_HISTORY_CHARACTERS
    return is_longer and later.startswith(earlier[:_COMPARED_CHARACTERS])


# Who speaks

_LIKELY_ROLE_WEIGHT = 0.5
"""Weight from which a field is likely the role of messages."""


def role_field(fields: Sequence[Field]) -> Field | None:
    """Returns the field that most likely says who speaks; None if none is likely."""
    best = max(fields, key=role_weight, default=None)
    return best if best is not None and role_weight(best) > _LIKELY_ROLE_WEIGHT else None


_MAX_ROLES = 12
"""Most different values of a field that says who speaks."""

_MAX_ROLE_CHARACTERS = 40

_WEIGHT_OF_SHORT = 0.05
"""Weight of a role of which nothing is known but that it has few short values."""

_RECEIVER_PATH = re.compile(r"(?:^|[._])(?:to|recipient|receiver)(?:[._A-Z]|$)|To(?:[._A-Z]|$)")
"""Finds paths whose name says to whom somebody speaks: `to`, `recipient_name`, `sentTo`."""

_RECEIVER_FACTOR = 0.75
"""Factor on the weight of a field whose name says to whom somebody speaks."""


def role_weight(field: Field) -> float:
    """Returns how much a field looks like the role of messages; more than `_LIKELY_ROLE_WEIGHT` is likely.

    A role has few short values, most of them known words, and changes from message to message. The weight is 0 where
    that is impossible: for too many or too long values, in a list, or if too few items have the field; for numbers
    without a name that says who speaks; for one value, unless both it and the name are known; for three or more that
    all differ, unless all are known.
    """
    different = set(field.values)
    is_named = _ROLE_PATH.search(field.path) is not None
    known_share = sum(role_meant(word) is not None for word in different) / len(different)
    if (
        len(different) > _MAX_ROLES
        or field.share_present < _MIN_SHARE_PRESENT
        or "[]" in field.path
    ):
        return 0.0
    if all(map(_NUMBER.match, different)) and not (
        is_named and all(map(str.isdigit, different)) and not _ORDER_PATH.search(field.path)
    ):
        return 0.0
    if len(different) == 1 and not (is_named and known_share):
        return 0.0
    if len(different) == len(field.values) > 2 and known_share < 1:  # an id
        return 0.0
    if max(map(len, different)) > _MAX_ROLE_CHARACTERS:
        return 0.0
    changes = sum(a != b for a, b in pairwise(field.values))
    shortness = 1 - sum(map(len, different)) / len(different) / _MAX_ROLE_CHARACTERS
    name_factor = _RECEIVER_FACTOR if _RECEIVER_PATH.search(field.path) else 1.0
    weight = _WEIGHT_OF_SHORT + known_share + is_named + changes / len(field.values)
    return weight * field.share_present * shortness * name_factor


_MAX_SPEAKER_CHARACTERS = 80

_MAX_SHARE_OF_SPEAKERS = 0.6
"""Number of different names as a share of the messages, below which the names are of speakers, who speak again."""


def speaker_field(fields: Sequence[Field]) -> Field | None:
    """Returns a field with the names of many speakers, each of whom speaks again; None if there is none."""
    for field in fields:
        different = len(set(field.values))
        speaks_again = _MAX_ROLES < different < _MAX_SHARE_OF_SPEAKERS * len(field.values)
        is_named = _ROLE_PATH.search(field.path) and "[]" not in field.path
        is_short = max(map(len, field.values)) <= _MAX_SPEAKER_CHARACTERS
        if speaks_again and is_named and is_short and field.share_present >= _MIN_SHARE_PRESENT:
            return field
    return None


def roles_of(
    role: Field, group: Field | None = None, tools: Collection[str] = ()
) -> dict[str, str]:
    """Returns what the values of a role field most likely stand for, as the table `[roles]` of a mapping file.

    Args:
        group: The field by which rows belong to a conversation: a speaker who is in every group, if there is just one,
            is the assistant.
        tools: Words that stand for a tool, unless nobody else would answer.
    """
    counts = Counter(role.values)
    if group is not None and (roles := _roles_by_who_is_everywhere(role, group)):
        return roles
    if len(counts) > _MAX_ROLES:
        return {FIRST_SPEAKER: "user", OTHER_SPEAKERS: "assistant"}
    roles = {
        word: known_role
        for word in counts
        if (known_role := role_by_value(word, role.path)) is not None
    } | dict.fromkeys(tools, "tool")
    others = [word for word in counts if word not in roles]
    if others and "user" not in roles.values():
        roles[others.pop(0)] = "user"
    roles |= dict.fromkeys(others, "assistant")
    if tools and not {"user", "assistant"} <= {*roles.values()}:
        return roles_of(role, group)
    _let_system_answer(roles, counts)
    roles = {word: roles[word] for word in counts}
    if role.share_present < 1:
        roles[""] = "metadata"  # items without a role are events between messages
    return roles


def _roles_by_who_is_everywhere(role: Field, group: Field) -> dict[str, str]:
    """Returns the roles where just one speaker is in every group, and no word is known; else {}."""
    if len(group.values) != len(role.values):
        return {}
    pairs = set(zip(group.values, role.values, strict=True))
    group_counts = Counter(word for _, word in pairs)
    common_words = [
        word for word, count in group_counts.items() if count == len(set(group.values)) > 1
    ]
    if len(common_words) != 1 or any(role_by_value(word, role.path) for word in group_counts):
        return {}
    return {common_words[0]: "assistant", OTHER_SPEAKERS: "user"}


def _let_system_answer(roles: dict[str, str], counts: Mapping[str, int]) -> None:
    """Makes a system that speaks about as often as the user the assistant, as in task-oriented dialogues, if there is
    no other."""
    user_count = sum(counts[word] for word, role in roles.items() if role == "user")
    for word, role in roles.items():
        has_assistant = "assistant" in roles.values()
        if role == "system" and not has_assistant and counts[word] > 0.5 * user_count > 1:
            roles[word] = "assistant"


def role_by_value(value: str, path: str) -> str | None:
    """Returns the role that a value of a field stands for; None if that is not clear."""
    if value in ("true", "false"):
        about_user = re.search(r"user|customer|human|inbound|incoming", path, re.I) is not None
        return "user" if about_user == (value == "true") else "assistant"
    return role_meant(value)


# Times and numbers of messages

_MAX_TIME_CHARACTERS = 40

_CLOCK = re.compile(r"\d.*\d:\d\d")
"""Finds a time of day after a digit: `3 May, 14:05`."""


def is_time(field: Field) -> bool:
    """Returns whether all values are times: short texts with a time of day, or numbers since 1970 in seconds or parts
    of them."""
    for value in field.values:
        if _NUMBER.match(value):
            if as_time(float(value)) is None:
                return False
        elif len(value) > _MAX_TIME_CHARACTERS or not _CLOCK.search(value):
            return False
    return True


_DATE_AND_TIME = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}[T ,]+\d\d?:\d\d")
"""Matches a date with a time of day: `2024-05-03T14:05`, `3/5/24, 9:05`."""


def _is_dated(field: Field) -> bool:
    """Returns whether all values begin with a date and a time of day and are short."""
    return all(
        len(value) <= _MAX_TIME_CHARACTERS and _DATE_AND_TIME.match(value) for value in field.values
    )


def _is_named_as_time(path: str) -> bool:
    """Returns whether the last key of a path, or the one before, is called a time."""
    outer, _, _ = path.rpartition(".")
    return not {*_words_of(path), *_words_of(outer)}.isdisjoint(_TIME_WORDS)


_LATER_WORDS = frozenset(
    ("end", "ended", "updated", "edited", "finished", "closed", "expires", "due", "birth")
)
"""Words in names of times that tell of something later than the beginning."""


def time_field(fields: Sequence[Field]) -> Field | None:
    """Returns the field that most likely is the time of a message; None if none looks like times."""
    likely = [
        field
        for field in fields
        if "[]" not in field.path
        and field.share_present >= _MIN_SHARE_PRESENT
        and (_is_dated(field) or (_is_named_as_time(field.path) and is_time(field)))
    ]

    def order(field: Field) -> tuple[bool, bool, int, int]:
        """Returns the rank of a field: no later time, named as a time, outside, with a short name."""
        words = _words_of(field.path)
        later = bool(_LATER_WORDS & set(words))
        return later, not _is_named_as_time(field.path), field.path.count("."), len(words)

    return min(likely, key=order, default=None)


def start_field(fields: Sequence[Field]) -> Field | None:
    """Returns the field of records that most likely is the time at which a conversation began; None if there is none.

    All its values are dates as `date_of` reads them, perhaps with the day and the month in either order, and its name
    is not that of a later time. Of several fields one with a usual name is taken, and of these the earliest.
    """
    likely = [
        field
        for field in fields
        if "[" not in field.path
        and field.share_present >= _MIN_SHARE_PRESENT
        and _LATER_WORDS.isdisjoint(_words_of(field.path))
        and all(date_of(value) or is_ambiguous(value) for value in field.values)
        and (_is_named_as_time(field.path) or not all(map(_NUMBER.match, field.values)))
    ]

    def order(field: Field) -> tuple[bool, str]:
        """Returns the rank of a field: with a usual name, early."""
        dates = [date_of(value, day_first=True) or "" for value in field.values]
        return not is_usual_name(field.path), min(dates)

    return min(likely, key=order, default=None)


def order_field(fields: Sequence[Field]) -> Field | None:
    """Returns the field that most likely is the number of a message within its conversation; None if there is none."""
    for field in sorted(fields, key=lambda field: (field.path.count("."), len(field.path))):
        is_named = _ORDER_PATH.search(field.path) and "[]" not in field.path
        is_counter = all(map(str.isdigit, field.values)) and len(set(field.values)) > 1
        if is_named and is_counter and field.share_present == 1:
            return field
    return None


# Conversations and ids

_GROUP_PATH = re.compile(
    r"(?:conversation|conv|session|thread|chat|dialog(?:ue)?|ticket|case|call|room|channel|contact)",
    re.I,
)
"""Finds paths with the name of what a row belongs to: `session_id`, `chatId`."""

ID_PATH = re.compile(
    r"(?:^|[._])(?:id|uuid|guid|key|nr|no|number|ref|reference|ticket|case|\w*_(?:id|ref|nr)|\w*(?:Id|ID))\Z"
)
"""Finds paths whose name is that of an id: `id`, `ticket`, `record_ref`, `recordId`."""

_OTHER_ID_PATH = re.compile(
    r"user|model|author|sender|parent|guild|last|first|response|request|plan|owner|creator|customer|agent|batch"
    r"|account|(?<![a-z])org|project",
    re.I,
)
"""Finds paths with the name of an id of something other than the conversation: `user_id`, `parent`, `last_response`."""

_LIKELY_GROUP_WEIGHT = 0.9
"""Weight from which a field is likely the id of a conversation."""


def group_field(fields: Sequence[Field], role: Field) -> Field | None:
    """Returns the field by which rows belong to a conversation; None if none is likely.

    All rows have it, its values repeat, and it has the name of a conversation, or that of an id, or several speak in
    the rows of most of its values.
    """
    best = max(fields, key=lambda field: _group_weight(field, role), default=None)
    return best if best and _group_weight(best, role) > _LIKELY_GROUP_WEIGHT else None


def _group_weight(field: Field, role: Field) -> float:
    """Returns how much a field looks like the id of a conversation; more than `_LIKELY_GROUP_WEIGHT` is likely.

    Args:
        role: The field that says who speaks.
    """
    different = len(set(field.values))
    repeats = different < len(field.values)
    if field is role or field.share_present < 1 or not repeats or "[]" in field.path:
        return 0.0
    name_weight = 2.0 if _GROUP_PATH.search(field.path) else 0.0
    id_weight = 1.0 if ID_PATH.search(field.path) else 0.0
    if _OTHER_ID_PATH.search(field.path) and not name_weight:
        return 0.0
    share_with_several_speakers = 0.0
    if len(role.values) == len(field.values):
        speakers: dict[str, set[str]] = {}
        for value, word in zip(field.values, role.values, strict=True):
            speakers.setdefault(value, set()).add(word)
        share_with_several_speakers = sum(len(words) > 1 for words in speakers.values()) / different
    if not share_with_several_speakers and role_weight(field) > _LIKELY_ROLE_WEIGHT:
        return 0.0  # it says to whom the speaker speaks
    return name_weight + id_weight + (share_with_several_speakers if different > 1 else 0.0)


def id_field(fields: Sequence[Field]) -> Field | None:
    """Returns the field with the ids of records: its values differ in all of them, and its name is that of an id, or
    else all values look like ids; None if there is none."""

    def order(field: Field) -> tuple[bool, bool, int, int]:
        """Returns the rank of a field: named as an id, as a conversation, outside, with a short name."""
        path = field.path
        unnamed = not ID_PATH.search(path)
        return unnamed, not _GROUP_PATH.search(path), path.count("."), len(path)

    likely = (
        field
        for field in fields
        if field.share_present == 1
        and len(set(field.values)) == len(field.values)
        and "[" not in field.path
        and not _OTHER_ID_PATH.search(field.path)
        and (ID_PATH.search(field.path) or _looks_like_ids(field.values))
    )
    return min(likely, key=order, default=None)


_MIN_IDS = 3
"""Fewest different values from which a field without the name of an id may be one."""

_MAX_DIGITS = 19
"""Most digits of a number that is an id."""

_MIN_ID_NUMBER = 10_000
"""Least number that may be an id because all values have its length."""

_ID_SHAPE = re.compile(r"(?=.*\d)(?!-?[\d.]+\Z)[\w./:#-]{3,64}\Z")
"""Matches what an id looks like, whatever it is called: no blanks, a digit, and more than a number, as `conv-17`."""


def _looks_like_ids(values: Sequence[str]) -> bool:
    """Returns whether all of several different values have the shape of an id, or are whole numbers in a row or of one
    length, and are no dates."""
    if len(values) < _MIN_IDS or any(date_of(value, day_first=True) for value in values):
        return False
    if all(value.isdecimal() and len(value) <= _MAX_DIGITS for value in values):
        numbers = list(map(int, values))
        is_row = max(numbers) - min(numbers) == len(numbers) - 1
        return is_row or (len(set(map(len, values))) == 1 and min(numbers) >= _MIN_ID_NUMBER)
    return all(map(_ID_SHAPE.match, values))


# Calls of tools and thoughts


def call_paths(items: Sequence[Any], text: str = "") -> list[str]:
    """Returns the paths of what may be tool calls of messages: objects, or lists of them, with a name and arguments;
    the most frequent first.

    Args:
        text: Path of the text of the messages, the parts of which are read as calls anyway.
    """
    counts: Counter[str] = Counter()
    others: set[str] = set()
    for item in items[:MAX_ITEMS]:
        for path, value in _objects(item, "", 0):
            if call_keys(value) is None:
                others.add(path)
            else:
                counts[path] += 1
    inside = {path for path in counts if path == text or path.startswith(f"{text}[")}
    outside = {*counts} - others - inside
    return [path for path, _ in counts.most_common() if path in outside]


_DEEPEST_CALL = 2
"""Deepest level of a message at which tool calls are looked for."""


def _objects(value: Any, path: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the objects within a message, with their paths."""
    if isinstance(value, dict) and depth <= _DEEPEST_CALL:
        if path:
            yield path, value
        for key, entry in value.items():
            yield from _objects(entry, join_key(path, key), depth + 1)
    elif isinstance(value, list) and path and depth <= _DEEPEST_CALL:
        for entry in value:
            if isinstance(entry, dict):
                yield from _objects(entry, f"{path}[]", depth)


_CALL_NAME_KEYS = ("name", "tool", "tool_name", "toolName", "function", "function_name", "action")
"""Keys of the name of a tool call, the surest first."""

_CHAT_NAME_KEYS = ("name", "tool_name", "toolName")
"""Keys of the name of a tool in calls as chat APIs write them."""

_ARGUMENT_KEYS = ("arguments", "args", "input", "parameters", "params", "kwargs", "action_input")
"""Keys of the arguments of a tool call, the surest first."""

_CHAT_ARGUMENT_KEYS = ("arguments", "args", "input", "parameters")
"""Keys of the arguments in calls as chat APIs write them."""

_MAX_TOOL_CHARACTERS = 80


def call_keys(call: Any) -> dict[str, str] | None:
    """Returns the keys under which a tool call has its name, arguments and id, for a mapping file; {} for a call as
    chat APIs write it, which needs no mapping; None for anything else."""
    if not isinstance(call, dict):
        return None
    inner = call.get("function")
    if "description" in (inner if isinstance(inner, dict) else call):  # the declaration of a tool
        return None
    if isinstance(inner, dict) and "name" in inner and not {*inner}.isdisjoint(_ARGUMENT_KEYS):
        return {}
    name_key = next((key for key in _CALL_NAME_KEYS if isinstance(call.get(key), str)), None)
    arguments_key = next((key for key in _ARGUMENT_KEYS if key in call), None)
    if name_key is None or arguments_key is None or len(call[name_key]) > _MAX_TOOL_CHARACTERS:
        return None
    if name_key in _CHAT_NAME_KEYS and arguments_key in _CHAT_ARGUMENT_KEYS:
        return {}
    keys = {"name": quote_key(name_key), "arguments": quote_key(arguments_key)}
    return keys | ({"id": "id"} if isinstance(call.get("id"), str) else {})


_REASONING_PATH = re.compile(
    r"(?:^|[._])(?:reasoning|thinking|thoughts?)(?:_content|_text)?\Z", re.I
)
"""Finds paths whose name is that of what an assistant thought: `thinking`, `message.reasoning_content`."""


def reasoning_field(fields: Sequence[Field]) -> Field | None:
    """Returns the field with what the assistant thought and did not say; None if there is none."""
    likely = (field for field in fields if _REASONING_PATH.search(field.path))
    return next((field for field in likely if field.share_of_phrases), None)


_ANSWERED_CALL_PATH = re.compile(r"(?:^|[._])(?:tool_?call_?id|tool_?use_?id|call_?id)\Z", re.I)
"""Finds paths whose name is that of the id of the call that a tool answers: `tool_call_id`, `toolUseId`."""


def answered_call_field(fields: Sequence[Field]) -> Field | None:
    """Returns the field with the id of the tool call that a message answers; None if there is none."""
    likely = (
        field
        for field in fields
        if _ANSWERED_CALL_PATH.search(field.path) and "[]" not in field.path
    )
    # every message would have an id of its own; only those of tools answer a call
    return next((field for field in likely if field.share_present < 1), None)
