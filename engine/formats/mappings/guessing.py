"""Guesses where records of an unknown format have their messages, roles, texts, ids, times and tool calls.

A list of objects holds messages if one field of them has few different short values and another has long texts; rows
are messages if, besides, a field of theirs repeats. A *guess* is the content of a mapping file, with *questions* about
what is not sure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.formats.mappings import fields as field_guesses
from engine.formats.mappings.fields import DEEPEST, MAX_ITEMS, Field, are_parts, join_key
from engine.formats.mappings.mapping import FIRST_SPEAKER, OTHER_SPEAKERS
from engine.formats.messages.times import day_comes_first, is_ambiguous, is_usual_name
from engine.formats.paths import as_word, decoded, object_in, read_path, without

_MAX_WORDS_ASKED = 12
"""Most words for speakers that are asked about."""

_LIST_NAMES = re.compile(
    r"\w*(?:messages|turns|conversations?|dialog(?:ue)?s?|history|chat|log|utterances|transcript|events|steps)\Z",
    re.I,
)
"""Matches names of lists of messages: `messages`, `chat_history`, `allTurns`."""

# Factors on the score of a guess, by which guesses are ordered

_STEP_FACTOR = 0.8
"""Factor for each step from a record to its messages."""

_LIST_NAME_FACTOR = 2.0
"""Factor for messages under one of `_LIST_NAMES`."""

_BARE_TEXT_FACTOR = 0.2
"""Factor for messages that are bare texts."""

_NO_ROLE_FACTOR = 0.1
"""Factor for messages that do not say who speaks."""

_DOUBT_FACTOR = 0.3
"""Factor for messages with an unlikely role, and for rows without the id of a conversation."""

_SURE_ROLE_WEIGHT = 1.5
"""Weight of a role from which it is certain."""

IN_TURN = "=user, assistant"
"""Role of messages that do not say who speaks. A leading `=` means fixed words, used in turn."""

_RIVAL_SHARE = 0.7
"""Share of the weight of the field that is taken from which another field might be meant as well."""

_MAX_EXAMPLE_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Guess:
    """What may be a mapping of the records: the content of a mapping file, without a name.

    Attributes:
        table: The mapping as a table of TOML.
        where: Path of the messages in a record as it is in the file; `.` if each record is a message.
        questions: What is not sure, as questions to a person.
        metadata: Fields of the records that are beside the messages, without id and time.
    """

    table: dict[str, Any]
    where: str
    questions: tuple[str, ...] = ()
    metadata: tuple[Field, ...] = ()


class _ScoredGuess(NamedTuple):
    """A guess and how good it is, from 0; scores are only compared with each other."""

    score: float
    guess: Guess


class _MessageDraft(NamedTuple):
    """Where items have role, text and more.

    Attributes:
        score: How good the draft is.
        message: The keys of `[[messages]]`.
        roles: A table `roles`; empty if no field says who speaks.
        questions: What is not sure, as questions to a person.
    """

    score: float
    message: dict[str, Any]
    roles: dict[str, Any]
    questions: tuple[str, ...]


class _RecordPlaces(NamedTuple):
    """Where records have their id and time.

    Attributes:
        keys: The keys of a mapping file that say so.
        questions: What is not sure of that, as questions to a person.
        remaining: The other fields beside the messages.
    """

    keys: dict[str, Any]
    questions: tuple[str, ...]
    remaining: tuple[Field, ...]


def guess_mappings(values: Sequence[Any]) -> list[Guess]:
    """Returns what may be mappings of the records, the best first; [] if nothing in them looks like messages.

    Args:
        values: Some records, in the order of the file.
    """
    scored_guesses = [*_guesses_in_lists(values), *_guesses_in_rows(values)]
    scored_guesses.sort(key=lambda scored: -scored.score * _path_factor(scored.guess.where))
    return [scored.guess for scored in scored_guesses if scored.score > 0]


def _path_factor(where: str) -> float:
    """Returns the factor on the score of messages at a path, by its length and its last name."""
    name = where.rpartition(".")[2].rstrip("[]{}")
    steps = len(re.findall(r"\.|\[|\{", where))
    return _STEP_FACTOR**steps * (_LIST_NAME_FACTOR if _LIST_NAMES.match(name) else 1.0)


def _guesses_in_lists(values: Sequence[Any]) -> Iterator[_ScoredGuess]:
    """Yields guesses for records with lists of messages."""
    # of `chats[].turns[]`, all of which is the path, `split` leads to the conversations and `each` to their messages
    for where, items in _lists_in(values).items():
        split, each = split_path(where)
        texts = [item for item in items if isinstance(item, str)]
        objects = [item for item in items if isinstance(item, dict) or _is_pair(item)]
        if len(texts) > len(objects):
            if len(texts) >= 2 * max(1, len(values)):
                yield _guess_bare_texts(where, texts)
            continue
        if not objects:
            continue
        records = values_at(split or ".", values)
        places = _guess_record_places(records, each)
        fields = field_guesses.fields_of(objects)
        draft = _guess_message(objects, fields)
        if draft is None:
            continue
        score, message, roles, questions = draft
        table = _split_key(split) | places.keys | roles
        table["messages"] = [{"each": each, **message}]
        all_questions = (*questions, *places.questions)
        yield _ScoredGuess(score, Guess(table, where, all_questions, places.remaining))


def _guess_bare_texts(where: str, texts: Sequence[str]) -> _ScoredGuess:
    """Returns the guess that the texts at a path are messages."""
    split, each = split_path(where)
    message = {"each": each, "role": IN_TURN, "text": "."}
    score = _BARE_TEXT_FACTOR * field_guesses.text_weight(field_guesses.fields_of(texts)[0])
    return _ScoredGuess(score, Guess(_split_key(split) | {"messages": [message]}, where))


def _split_key(split: str) -> dict[str, Any]:
    """Returns the key of a mapping file for the path of the conversations in a record; {} if the record is one."""
    return {"split": split} if split else {}


def _guess_message(
    items: Sequence[Any], fields: Sequence[Field], of_several: bool = False
) -> _MessageDraft | None:
    """Returns where items have role, text and more; None if they have no text.

    Args:
        of_several: Whether the items may belong to several conversations.
    """
    text = field_guesses.text_field(fields)
    if text is None:
        return None
    others = [field for field in fields if field is not text]
    role = field_guesses.role_field(others) or field_guesses.speaker_field(others)
    message: dict[str, Any] = {"role": role.path if role else IN_TURN, "text": text.path}
    if reasoning := field_guesses.reasoning_field(others):
        message["reasoning"] = reasoning.path
    if calls := field_guesses.call_paths(items, text.path):
        message["calls"] = calls[0]
    if answers := field_guesses.answered_call_field(others):
        message["answers"] = answers.path
    if time := field_guesses.time_field(fields):
        message["time"] = time.path
    role_factor = _NO_ROLE_FACTOR
    if role:
        role_factor = max(
            _DOUBT_FACTOR, min(1.0, field_guesses.role_weight(role) / _SURE_ROLE_WEIGHT)
        )
    score = field_guesses.text_weight(text) * role_factor
    group = field_guesses.group_field(fields, role) if role and of_several else None
    tools = _tool_words(items, role, text) if role else {}
    roles = field_guesses.roles_of(role, group, tools) if role else {}
    questions = tuple(_questions(role, roles, text, others, tools))
    return _MessageDraft(score, message, {"roles": roles} if roles else {}, questions)


def _tool_words(items: Sequence[Any], role: Field, text: Field) -> dict[str, str]:
    """Returns the words of a role that stand for a tool rather than for the assistant, each with what speaks for it."""
    role_path, text_path = read_path(role.path), read_path(text.path)
    words = [as_word(role_path.first(item)) for item in items]
    counts = Counter(words)
    words_with_items = zip(words, items, strict=True)
    json_counts = Counter(
        word for word, item in words_with_items if object_in(text_path.first(item))
    )
    return {
        word: "Most of its texts are JSON."
        for word in counts
        if json_counts[word] > 0.5 * counts[word]
        and field_guesses.role_by_value(word, role.path) in (None, "system")
    }


def _questions(
    role: Field | None,
    roles: dict[str, str],
    text: Field,
    others: Sequence[Field],
    tools: Mapping[str, str],
) -> Iterator[str]:
    """Yields what is not sure of where messages have their roles and texts, with what speaks for it.

    Args:
        tools: Words that may stand for a tool, each with what speaks for it.
    """
    if role is None:
        yield "No field says who speaks, so the two take turns: is that right?"
        return
    least = _RIVAL_SHARE * field_guesses.role_weight(role)
    for rival in others:
        if rival is not role and least and field_guesses.role_weight(rival) >= least:
            yield f"Who speaks: `{role.path}` ({_first_words(role)}), or `{rival.path}` ({_first_words(rival)})?"
    unknown = [
        word
        for word in dict.fromkeys(role.values)
        if field_guesses.role_by_value(word, role.path) is None or word in tools
    ]
    if FIRST_SPEAKER in roles:
        yield f"Is the first of {_first_words(role)} and others the user, and are the others the assistant?"
    for word in unknown[:_MAX_WORDS_ASKED]:
        if OTHER_SPEAKERS not in roles:
            evidence = tools.get(word, "It is no known word for a speaker.")
            yield f"Is `{word}` the {roles[word]}? {evidence}"
        elif word in roles:
            yield f"Is `{word}` the {roles[word]}, and are all others the user? It alone is in all conversations."
    least = _RIVAL_SHARE * field_guesses.text_weight(text)
    for rival in others:
        if field_guesses.text_weight(rival) >= least:
            yield f"What is said: `{text.path}`, or `{rival.path}` ({rival.example[:_MAX_EXAMPLE_CHARACTERS]})?"


def _first_words(field: Field) -> str:
    """Returns the first three different values of a field."""
    return ", ".join(list(dict.fromkeys(field.values))[:3])


def _is_pair(item: Any) -> bool:
    """Returns whether an element of a list is itself a list of a speaker and a text, with at most two more values."""
    return (
        isinstance(item, list)
        and 2 <= len(item) <= 4
        and all(isinstance(text, str) for text in item[:2])
    )


def _lists_in(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Returns the elements of all lists within records, and the objects in objects of like objects, by their paths."""
    lists: dict[str, list[Any]] = {}
    for value in values:
        _collect_lists(value, "", 0, lists)
    return lists


def split_path(where: str) -> tuple[str, str]:
    """Returns the path of the conversations in a record, empty if the record is one, and that of the messages in one:
    `chats[]` and `turns[]` for `chats[].turns[]`."""
    cut = max(where[:-2].rfind("[]"), where[:-2].rfind("{}")) + 2
    return (where[:cut], where[cut:].removeprefix(".") or ".") if cut > 1 else ("", where)


def _collect_lists(value: Any, path: str, depth: int, lists: dict[str, list[Any]]) -> None:
    """Puts the elements of all lists within a value, and the objects in an object of like objects, under their paths.

    `{"a": {"role": "user"}, "b": {"role": "bot"}}` is an object of like objects, with the path `{}`.
    """
    if depth > DEEPEST:
        return
    value = decoded(value)
    if isinstance(value, dict):
        entries = list(value.values())
        alike = len(entries) > 1 and all(isinstance(entry, dict) and entry for entry in entries)
        if alike and set(entries[0]) & set(entries[1]):
            _add_entries(lists, f"{path}{{}}", entries)
            for entry in entries[:MAX_ITEMS]:
                _collect_lists(entry, f"{path}{{}}", depth + 1, lists)
            return
        for key, entry in value.items():
            if '"' not in key:  # a path cannot name such a key
                _collect_lists(entry, join_key(path, key), depth + 1, lists)
    elif isinstance(value, list) and not are_parts(value):
        _add_entries(lists, f"{path}[]", value)
        for entry in value[:MAX_ITEMS]:
            _collect_lists(entry, f"{path}[]", depth + 1, lists)


def _add_entries(lists: dict[str, list[Any]], path: str, entries: list[Any]) -> None:
    """Puts further elements under a path, up to `MAX_ITEMS`."""
    collected = lists.setdefault(path, [])
    collected += entries[: MAX_ITEMS - len(collected)]


def values_at(where: str, records: Sequence[Any]) -> list[Any]:
    """Returns what a path leads to in records; of the path `.` the records themselves, null included."""
    if where == ".":
        return list(records)
    path = read_path(where)
    return [match.value for record in records for match in path.find(record)]


def _guess_record_places(records: Sequence[Any], each: str) -> _RecordPlaces:
    """Returns where records have their id and time.

    Args:
        each: Path of the messages in a record.
    """
    path = read_path(each)
    outside = [
        without(record, [match.trail for match in path.find(record) if match.trail is not None])
        for record in records
    ]
    fields = field_guesses.fields_of(outside)
    keys: dict[str, Any] = {}
    questions: list[str] = []
    if record_id := field_guesses.id_field(fields):
        keys["id"] = record_id.path
        if not field_guesses.ID_PATH.search(record_id.path):
            questions.append(
                f"Is `{record_id.path}` the id ({_first_words(record_id)})? It differs in all records."
            )
    if start := field_guesses.start_field(fields):
        keys["created_at"] = start.path
        if not is_usual_name(start.path):
            questions.append(
                f"Did a conversation begin at `{start.path}` ({_first_words(start)})? All its values are dates."
            )
        if ambiguous := next(filter(is_ambiguous, start.values), None):
            orders = set(map(day_comes_first, start.values))
            keys["day_first"] = False not in orders
            if orders == {None}:
                questions.append(
                    f"Is the day before the month in {ambiguous}? If not: day_first = false."
                )
    remaining = tuple(field for field in fields if field.path not in keys.values())
    return _RecordPlaces(keys, tuple(questions), remaining)


def _guesses_in_rows(values: Sequence[Any]) -> Iterator[_ScoredGuess]:
    """Yields a guess for records that are a message each, if they look like that."""
    rows = [value for value in values if isinstance(value, dict)]
    if not rows:
        return
    fields = field_guesses.fields_of(rows)
    draft = _guess_message(rows, fields, of_several=True)
    if draft is not None and draft.roles:
        score, message, roles, questions = draft
        role = next(field for field in fields if field.path == message["role"])
        group = field_guesses.group_field(fields, role)
        table: dict[str, Any] = {"group": {"by": group.path if group else "file"}}
        if order := field_guesses.time_field(fields) or field_guesses.order_field(fields):
            table["group"]["order"] = order.path
        table |= roles | {"messages": [{"each": "records[]", **message}]}
        if len(rows) > 1 or field_guesses.role_weight(role) > _SURE_ROLE_WEIGHT:
            if group is None:
                questions += ("No id repeats, so the file is one conversation: is that right?",)
            group_factor = 1.0 if group else _DOUBT_FACTOR
            yield _ScoredGuess(score * group_factor, Guess(table, ".", questions))
