"""Guesses where records of an unknown format have their messages, roles, texts, ids and times.

A list of objects holds messages if one field of them has few different short values and another has long texts; rows
are messages if, besides, a field of theirs repeats. What is found is the content of a mapping file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.formats.messages.normalise import role_named
from engine.formats.paths import as_word, decoded, read_path

_DEEPEST = 6
_MOST_VALUES = 2_000
"""Values of a field that are looked at."""

_MOST_ROLES = 12
_LONGEST_ROLE = 40
_LEAST_PRESENT = 0.7
"""Share of the messages that have a role; events without one stand between them in some logs."""

_PLAIN_KEY = re.compile(r"[^\s.|\"\[\]{}=!^]+(?:\s+[^\s.|\"\[\]{}=!^]+)*\Z")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")
_TEXT_NAMES = re.compile(
    r"(?:^|[._])(?:text|content|body|message|value|utterance|say|parts\[\])(?:\[\])?$", re.I
)
_ROLE_NAMES = re.compile(
    r"(?:^|[.])(?:role|from|speaker|sender|author|who|turn|party|participant|agent|is_?user|is_?bot|direction)"
    r"(?:[_.]?(?:name|role|id|username|type))?\Z",
    re.I,
)
_GROUP_NAMES = re.compile(
    r"(?:conversation|conv|session|thread|chat|dialog(?:ue)?|ticket|case|call|room|channel|contact)",
    re.I,
)
_ID_NAMES = re.compile(
    r"(?:^|[._])(?:id|uuid|key|name|nr|no|number|ref|reference|ticket|case|.*_id|.*Id|.*ID)\Z"
)
_TIME_NAMES = re.compile(r"time|date|created|_at$|At$|^ts$|\.ts$", re.I)
_ASKED = re.compile(
    r"^(?:prompt|question|input|query|instruction|user|request|human|customer).*$", re.I
)
_ANSWERED = re.compile(
    r"^(?:response|answer|output|completion|reply|assistant|bot|generated|model_).*$", re.I
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the items of a list: where it is in them, its values as texts, and the share of items that have it."""

    path: str
    values: tuple[str, ...]
    present: float

    @property
    def characters(self) -> int:
        """Length of all values together."""
        return sum(map(len, self.values))

    @property
    def example(self) -> str:
        """The longest of the first values."""
        return max(self.values[:20], key=len, default="")


@dataclass(frozen=True, slots=True)
class Guess:
    """What may be a mapping of the records: the content of a mapping file, without a name.

    Attributes:
        where: Path of the messages in a record as it is in the file; `.` if each record is a message or a pair.
        text: The field that has the text.
    """

    table: dict[str, Any]
    where: str
    text: Field


def guesses(values: Sequence[Any]) -> list[Guess]:
    """Returns what may be mappings of the records, the best first; [] if nothing in them looks like messages.

    Args:
        values: Some records, in the order of the file.
    """
    found = [*_in_lists(values), *_in_rows(values)]
    found.sort(key=lambda entry: -entry[0])
    return [guessed for score, guessed in found if score > 0]


def quoted(key: str) -> str:
    """A key as a path has it."""
    return key if _PLAIN_KEY.match(key) else f'"{key}"'


def fields_of(items: Sequence[Any]) -> tuple[Field, ...]:
    """The fields of items that hold texts, numbers or truth values, those with most text first."""
    values: dict[str, list[str]] = {}
    holders: Counter[str] = Counter()
    for item in items[:_MOST_VALUES]:
        seen: set[str] = set()
        for path, value in _leaves(item, "", 0):
            values.setdefault(path, []).append(as_word(value))
            seen.add(path)
        holders.update(seen)
    count = min(len(items), _MOST_VALUES) or 1
    fields = [Field(path, tuple(here), holders[path] / count) for path, here in values.items()]
    return tuple(sorted(fields, key=lambda field: -field.characters))


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, entry in value.items():
            yield from _leaves(entry, f"{path}.{quoted(key)}" if path else quoted(key), depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for entry in value:
            yield from _leaves(entry, f"{path}[]", depth + 1)
    elif value is not None and not isinstance(value, dict | list):
        yield path or ".", value


def _in_lists(values: Sequence[Any]) -> Iterator[tuple[float, Guess]]:
    """Guesses for lists of messages within the records."""
    for path, items in _lists_in(values).items():
        *outer, name = _at_each(path)
        split = "".join(outer)
        each = name.removeprefix(".") or "."
        table: dict[str, Any] = {}
        if split:
            table["split"] = split
        texts = [item for item in items if isinstance(item, str)]
        objects = [item for item in items if isinstance(item, dict)]
        if len(texts) > len(objects):
            if len(texts) >= 2 * max(1, len(values)):
                table["messages"] = [{"each": each, "role": "=user, assistant", "text": "."}]
                field = fields_of(texts)[0]
                yield 0.2 * field.characters, Guess(table, path, field)
            continue
        fields = fields_of(objects)
        text = text_field(fields)
        role = role_field([field for field in fields if field is not text])
        if text is None:
            continue
        message: dict[str, Any] = {"each": each}
        if role is not None:
            message["role"] = role.path
            table["roles"] = roles_of(role)
        else:
            message["role"] = "=user, assistant"
        message["text"] = text.path
        if time := time_field(fields):
            message["time"] = time.path
        table["messages"] = [message]
        outside = _records_at(values, split)
        if record_id := id_field([_outside(record, each) for record in outside]):
            table["id"] = record_id
        yield text.characters * (1.0 if role else 0.25), Guess(table, path, text)


def _lists_in(values: Sequence[Any]) -> dict[str, list[Any]]:
    """The elements of all lists within records, and the values of objects of like objects, by their paths."""
    lists: dict[str, list[Any]] = {}
    for value in values:
        _collect(value, "", 0, lists)
    return lists


def _at_each(path: str) -> list[str]:
    """Divides a path after each `[]` and `{}`."""
    return re.findall(r".*?(?:\[\]|\{\})", path)


def _collect(value: Any, path: str, depth: int, lists: dict[str, list[Any]]) -> None:
    """Puts the elements of all lists within a value, and the values of objects of objects, under their paths."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        opened = decoded(value)
        if opened is value:
            return
        value = opened
    if isinstance(value, dict):
        entries = list(value.values())
        if len(entries) > 1 and all(isinstance(entry, dict) and entry for entry in entries):
            same = set(entries[0]) & set(entries[1])
            if same:
                _add(lists, f"{path}{{}}", entries)
                for entry in entries[:_MOST_VALUES]:
                    _collect(entry, f"{path}{{}}", depth + 1, lists)
                return
        for key, entry in value.items():
            _collect(entry, f"{path}.{quoted(key)}" if path else quoted(key), depth + 1, lists)
    elif isinstance(value, list):
        _add(lists, f"{path}[]", value)
        for entry in value[:_MOST_VALUES]:
            _collect(entry, f"{path}[]", depth + 1, lists)


def _add(lists: dict[str, list[Any]], path: str, entries: list[Any]) -> None:
    here = lists.setdefault(path, [])
    here += entries[: _MOST_VALUES - len(here)]


def _records_at(values: Sequence[Any], split: str) -> list[Any]:
    if not split:
        return list(values)
    path = read_path(split)
    return [found.value for value in values for found in path.find(value)]


def _outside(record: Any, each: str) -> Any:
    """A record without the list of its messages."""
    key = each.split(".")[0].split("[")[0].split("{")[0].strip('"')
    return {k: v for k, v in record.items() if k != key} if isinstance(record, dict) else None


def _in_rows(values: Sequence[Any]) -> Iterator[tuple[float, Guess]]:
    """Guesses for records that are a message each, and for records with a question and an answer."""
    rows = [value for value in values if isinstance(value, dict)]
    if not rows:
        return
    fields = fields_of(rows)
    text = text_field(fields)
    role = role_field([field for field in fields if field is not text])
    if len(rows) > 1 and role is not None and text is not None:
        group = group_field(fields, role)
        message: dict[str, Any] = {"each": "records[]", "role": role.path, "text": text.path}
        table: dict[str, Any] = {"group": {"by": group.path if group else "file"}}
        if time := time_field(fields):
            message["time"] = table["group"]["order"] = time.path
        table |= {"roles": roles_of(role), "messages": [message]}
        yield text.characters * (1.0 if group else 0.2), Guess(table, ".", text)
    asked = text_field([field for field in fields if _ASKED.match(field.path)])
    answered = text_field([field for field in fields if _ANSWERED.match(field.path)])
    if asked is not None and answered is not None:
        turns = [
            {"role": "=user", "text": asked.path},
            {"role": "=assistant", "text": answered.path},
        ]
        table = {"messages": turns}
        if record_id := id_field(rows):
            table["id"] = record_id
        yield 0.9 * (asked.characters + answered.characters), Guess(table, ".", answered)


def text_field(fields: Sequence[Field]) -> Field | None:
    """The field that most likely is the text of a message; None if no field has texts."""

    def weight(field: Field) -> float:
        different = len(set(field.values)) / len(field.values)
        words = sum(" " in value for value in field.values) / len(field.values)
        named = 4.0 if _TEXT_NAMES.search(field.path) else 1.0
        direct = 0.5 ** field.path.count("[]")
        return field.characters * different * (0.05 + words) * named * direct * field.present

    likely = [field for field in fields if not _TIME_NAMES.search(field.path)]
    best = max(likely, key=weight, default=None)
    return best if best is not None and best.characters else None


def role_field(fields: Sequence[Field]) -> Field | None:
    """The field that most likely says who speaks; None if none has few short values."""

    def weight(field: Field) -> float:
        different = set(field.values)
        if not 1 < len(different) <= _MOST_ROLES or field.present < _LEAST_PRESENT:
            return 0.0
        if len(different) == len(field.values) > 2:  # an id
            return 0.0
        if max(map(len, different)) > _LONGEST_ROLE or "[]" in field.path:
            return 0.0
        known = sum(role_named(value) is not None for value in different) / len(different)
        named = 1.0 if _ROLE_NAMES.search(field.path) else 0.0
        changes = sum(a != b for a, b in zip(field.values, field.values[1:], strict=False))
        short = 1 - sum(map(len, different)) / len(different) / _LONGEST_ROLE
        return (0.05 + known + named + changes / len(field.values)) * field.present * short

    best = max(fields, key=weight, default=None)
    return best if best is not None and weight(best) > 0.5 else None


def time_field(fields: Sequence[Field]) -> Field | None:
    """The field that most likely is the time of a message; None if none looks like times."""
    for field in fields:
        if "[]" in field.path or field.present < _LEAST_PRESENT:
            continue
        if not _TIME_NAMES.search(field.path):
            continue
        if all(_ISO.match(value) or value.replace(".", "", 1).isdigit() for value in field.values):
            return field
    return None


def group_field(fields: Sequence[Field], role: Field) -> Field | None:
    """The field by which rows belong to a conversation: its values repeat; None if there is none."""

    def weight(field: Field) -> float:
        different = len(set(field.values))
        if field is role or field.present < 1 or different == len(field.values):
            return 0.0
        named = 2.0 if _GROUP_NAMES.search(field.path) else 0.0
        is_id = 1.0 if _ID_NAMES.search(field.path) else 0.0
        return named + is_id + (0.4 if different > 1 else 0.0)

    best = max(fields, key=weight, default=None)
    return best if best is not None and weight(best) > 0.9 else None


def id_field(records: Sequence[Any]) -> str | None:
    """Path of a field whose values differ in all records and whose name is that of an id; None if there is none."""
    for field in sorted(
        fields_of(records), key=lambda field: (field.path.count("."), len(field.path))
    ):
        if field.present < 1 or not _ID_NAMES.search(field.path) or "[]" in field.path:
            continue
        if len(set(field.values)) == len(records):
            return field.path
    return None


def roles_of(role: Field) -> dict[str, str]:
    """What the values of a role field most likely stand for, as the table `[roles]` of a mapping file."""
    roles: dict[str, str] = {}
    for value in dict.fromkeys(role.values):
        other = "user" if "user" not in roles.values() else "assistant"
        roles[value] = role_named(value) or _by_word(value, role.path) or other
    if role.present < 1:
        roles[""] = "metadata"
    return roles


def _by_word(value: str, path: str) -> str | None:
    word = value.lower()
    if value in ("true", "false"):
        about_user = re.search(r"user|customer|human|inbound|incoming", path, re.I) is not None
        return "user" if about_user == (value == "true") else "assistant"
    for pattern, role in (
        (r"tool|function|api\b|observation|result|action|event", "tool"),
        (r"system|developer|instruction", "system"),
        (
            r"user|customer|client|human|visitor|caller|driver|guest|patient|inbound|incoming|end.?user",
            "user",
        ),
        (
            r"agent|bot|assistant|ai\b|advisor|wizard|operator|rep\b|support|model|outbound|outgoing",
            "assistant",
        ),
    ):
        if re.search(pattern, word):
            return role
    return None
