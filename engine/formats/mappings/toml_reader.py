"""Reads records as conversations by a mapping file, which says where a record has its messages, roles and texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

from engine.base.conversation import Conversation, Message, Role
from engine.formats.json_values import (
    BadRecord,
    as_list,
    json_text,
    kind_of,
    object_or_empty,
    without_keys,
)
from engine.formats.mappings.arranging import arrange_records
from engine.formats.mappings.mapping import (
    FIRST_SPEAKER,
    ITSELF,
    OTHER_SPEAKERS,
    CallMapping,
    Destination,
    Mapping,
    MessageList,
    MessageRule,
    SpeakerRole,
)
from engine.formats.messages.call_messages import messages_of_pieces
from engine.formats.messages.inserted import with_context_apart, with_details_as_parts
from engine.formats.messages.normalize import (
    OTHER_BRANCHES,
    is_conversation,
    messages_of,
    other_branches,
)
from engine.formats.messages.parts import texts_of
from engine.formats.messages.roles import role_named, role_of_speaker
from engine.formats.messages.times import TIMES, as_time, created_at, date_of, oldest_first
from engine.formats.paths import Path, Target, Trail, as_word, decoded, read_path, without
from engine.formats.records import ParsedRecord, Reader

_DEFAULT_ROLE = SpeakerRole(read_path("role | from"), ())
"""Where a message says who speaks if the mapping does not."""

_OWN_KEY = "@key"
"""Path of the name of a tool call that is the key under which the call stands."""

_RECORD_FIELD = "record"
"""Field for what of the record has a name that the mapping gives to something else."""

SHARED_FIELD = "shared"
"""Field for the rest of the object from which records were split."""

_MAX_SHARED_CHARACTERS = 2_000
"""Most characters of JSON of the rest of an object that is kept with every record that was split from it."""


def reader_of(mapping: Mapping) -> Reader:
    """Returns the reader of a mapping."""
    first_keys = [condition.path.first_keys for condition in mapping.when if not condition.absent]
    changes = (mapping.split, mapping.attachments, mapping.transcript, mapping.group, mapping.tree)
    return Reader(
        mapping.name,
        partial(_recognize, mapping, tuple(filter(None, first_keys))),
        lambda value, fallback_id, outer: _RecordReader(mapping, value, outer).read(fallback_id),
        arrange=partial(arrange_records, mapping) if any(changes) else None,
        conditions=len(mapping.when),
        title=mapping.title,
        sample=mapping.sample,
        seen=mapping.seen,
    )


def _recognize(mapping: Mapping, first_keys: tuple[frozenset[str], ...], record: Any) -> str | None:
    """Returns in words why a record looks like the format; None if it does not.

    Args:
        first_keys: Keys of an object that fits, one of each set; they are looked at first, for speed.
    """
    if isinstance(record, dict) and any(keys.isdisjoint(record) for keys in first_keys):
        return None
    if mapping.by_name or not all(condition.holds(record, record) for condition in mapping.when):
        return None
    required_paths = " and ".join(
        f"`{condition.path.text}`" for condition in mapping.when if not condition.absent
    )
    return f"the records have {required_paths}, as {mapping.title}"


class _RecordReader:
    """Reads one record, and collects what of it was used.

    A *trail* is the way from the record to a value: the keys and indexes on it. An *item* is an element of a list of
    messages, and a *part* a value within an item that is a message. A *draft* is a message in the form of a chat API.
    """

    def __init__(self, mapping: Mapping, record: Any, outer: Any) -> None:
        """Begins to read a record.

        Args:
            outer: The object from which the record was split; None if it was not.
        """
        self._mapping = mapping
        self._record = record
        self._outer = outer
        self._used: list[Trail] = []  # to all that was read
        # of truth, metadata and what is left out, by the trail to each value around it: the trail within that value
        self._used_inside: dict[Trail, list[Trail]] = {}
        self._messages: list[Message] = []
        self._events: list[Any] = []  # what is no message and becomes metadata
        self._unknown: list[Any] = []  # those events that no rule fits, or that cannot be read
        self._pieces: set[str] = set()  # texts of which messages were put together
        self._other_branches: list[Any] = []
        self._errors: list[BadRecord] = []
        self._left_out: dict[Trail, tuple[int, str | int]] = {}  # as in `ParsedRecord.left_out`
        self._speakers: dict[str, Role] = {}  # those whose role their names do not say
        self._user_is_named = False  # whether a word for the user is among the speakers of the list

    def read(self, fallback_id: str) -> ParsedRecord:
        """Returns the conversation.

        Raises:
            BadRecord: An item is no message, or there is none.
        """
        mapping = self._mapping
        truth = self._values_by_name(mapping.truth.items())
        meta = self._values_by_name(mapping.metadata.items())
        for path in mapping.left_out:
            for match in path.find(self._record, self._record):
                self._leave_out(match.trail, match.value)
        for trail in self._used:  # messages do not have these as facts
            for end in range(1, len(trail)):
                self._used_inside.setdefault(trail[:end], []).append(trail[end:])
        for items in mapping.items:
            self._read_items(items)
        errors = self._errors
        if errors and mapping.group is None and not is_conversation(self._messages, len(errors)):
            raise errors[0]
        if not self._messages:
            raise BadRecord("no messages")
        messages = tuple(_join_thoughts(self._messages))
        words = [as_word(path.first(self._record, None, self._outer)) for path in mapping.id]
        if len(mapping.split) > 1:
            truth["side"] = side = fallback_id.rpartition("/")[2]
            words = [*words, side] if any(words) else [fallback_id]
        external_id = "/".join(filter(None, words)) or fallback_id
        return ParsedRecord(
            Conversation(external_id, messages, meta, created_at=self._start_time()),
            {**self._other_fields(meta.keys() | truth.keys()), **self._shared_fields(), **truth},
            frozenset(truth),
            left_out=frozenset(self._left_out.values()),
            unknown=tuple(self._unknown),
            pieces=frozenset(self._pieces),
        )

    def _other_fields(self, mapped_names: Set[str]) -> dict[str, Any]:
        """Returns what of the record nothing has used, with the events and the items of other branches.

        Args:
            mapped_names: The names of the metadata and the truth; fields with these names are put into one field.
        """
        remaining = without(self._record, self._used)
        fields = _as_fields(remaining)
        if doubles := {key: fields[key] for key in fields if key in mapped_names}:
            fields = without_keys(fields, *doubles) | {_RECORD_FIELD: doubles}
        if self._events:
            fields = {**fields, "events": self._events}
        if self._other_branches:
            fields = {**fields, OTHER_BRANCHES: self._other_branches}
        return fields

    def _start_time(self) -> str | None:
        """Returns when the conversation began, in ISO 8601; None if that is not known."""
        path = self._mapping.created_at
        time = as_time(path.first(self._record, None, self._outer)) if path else None
        if time is not None and self._mapping.day_first is not None:
            time = date_of(time, self._mapping.day_first) or time
        record = self._record
        return time or (created_at(record) if isinstance(record, dict) else None)

    def _shared_fields(self) -> dict[str, Any]:
        """Returns the rest of the object from which records were split, without what the mapping names, if small."""
        outer = self._outer
        if not isinstance(outer, dict):
            return {}
        paths = (*self._mapping.truth.values(), *self._mapping.metadata.values())
        trails = [trail for path in paths for trail in path.outside(outer, self._record)]
        remaining = without(without_keys(outer, OTHER_BRANCHES), trails)
        is_small = remaining is not None and len(json_text(remaining)) <= _MAX_SHARED_CHARACTERS
        return {SHARED_FIELD: remaining} if remaining and is_small else {}

    def _mark_used(self, matches: Iterable[Target]) -> None:
        """Notes values as used, if they are within the record."""
        self._used += [match.trail for match in matches if match.trail]

    def _values_by_name(self, paths: Iterable[tuple[str, Path]]) -> dict[str, Any]:
        """Returns the values that paths find, by their names, and notes them as used; several of one path as a list."""
        values_by_name: dict[str, Any] = {}
        for name, path in paths:
            matches = path.find(self._record, self._record, self._outer)
            self._mark_used(matches)
            if values := [match.value for match in matches]:
                values_by_name[name] = values[0] if len(values) == 1 else values
        return values_by_name

    def _leave_out(self, trail: Trail | None, value: Any) -> None:
        """Leaves a value in the original record only; within JSON in a text it becomes metadata, since the text is no
        list or object that could be named."""
        if not trail:
            return
        parent = self._record
        for step in trail[:-1]:
            parent = None if isinstance(parent, str) else parent[step]
            if parent is None:
                break
        self._used.append(trail)
        if isinstance(parent, dict | list):
            self._left_out[trail] = (id(parent), trail[-1])
        else:
            self._events.append(value)

    def _read_items(self, items: MessageList) -> None:
        """Reads the messages of a list of items, in the order of their times."""
        matches = (items.each or ITSELF).find(self._record, self._record, self._outer)
        values = [match.value for match in matches]
        if not items.turns and (joined := messages_of_pieces(values)):
            self._mark_used(matches)
            for message in joined:
                self._messages += messages_of(message, len(self._messages) + 1)
            return
        first_rule = items.rules[0]
        role = first_rule.role or _DEFAULT_ROLE
        if FIRST_SPEAKER in self._mapping.roles and role.path:
            words = (as_word(role.path.first(value)) for value in values)
            self._user_is_named = any(self._known_role(word) == "user" for word in words)
        if self._mapping.tree is None:
            matches = self._current_branch(matches)
        time_of = first_rule.time.first if first_rule.time else _usual_time
        times = [time_of(match.value) for match in matches]
        message_count = len(self._messages)
        # among the items that are messages: where two take turns, a note is nobody's turn
        position = 0
        for match in oldest_first(matches, times):
            try:
                position += self._read_item(items.rules, match, position)
            except BadRecord as bad:
                self._errors.append(bad)
                self._mark_used([match])
                self._add_unknown(match.value)  # the other items are a conversation without it
        if items.merge is not None:
            new_messages = self._messages[message_count:]
            self._pieces.update(message.content for message in new_messages)
            self._messages[message_count:] = _merge_messages(new_messages, items.merge)

    def _current_branch(self, items: list[Target]) -> list[Target]:
        """Returns the items of the current branch, and notes those of other branches."""
        record = self._record if isinstance(self._record, dict) else None
        positions = other_branches([item.value for item in items], record)
        others = [items[position] for position in sorted(positions)]
        self._mark_used(others)
        self._other_branches += [item.value for item in others]
        return [item for position, item in enumerate(items) if position not in positions]

    def _add_unknown(self, value: Any) -> None:
        """Makes what is not understood metadata, and notes that it is not understood."""
        self._events.append(value)
        self._unknown.append(value)

    def _read_item(self, rules: Sequence[MessageRule], item: Target, position: int) -> bool:
        """Reads an item; returns whether it meets the conditions of a message.

        What is not read of an item is a fact of its first message, or an event if it has none. An item may be the
        record itself, whose other fields are metadata of the conversation in any case.

        Args:
            rules: Where an item has messages.
            position: Number of the items before it that are messages.

        Raises:
            BadRecord: It has a message that cannot be read.
        """
        is_record = item.trail == ()
        used: list[Trail] = list(self._used_inside.get(item.trail or (), ()))
        drafts = self._draft_messages(rules, Target(item.value, ()), item, position, used)
        trail = item.trail
        if is_record:
            self._used += used
        elif trail is not None:
            self._used.append(trail)
        if drafts is None:
            if not is_record:
                self._add_unknown(item.value)
            return False
        remaining = None if is_record else without(decoded(item.value), used)
        if not drafts and remaining is not None and trail:
            if trail not in self._left_out:
                self._add_unknown(remaining)
            return True
        facts = _as_fields(remaining)
        for draft in drafts:
            context: list[dict[str, Any]] = []
            if self._mapping.context_apart:
                self._pieces.update(texts_of(draft.get("content")))
                *context, draft = with_context_apart(with_details_as_parts(draft))
            for block in context:
                self._messages += messages_of(block, len(self._messages) + 1)
            self._messages += messages_of(draft, len(self._messages) + 1, facts=facts)
            facts = {}
        return True

    def _draft_messages(
        self,
        rules: Sequence[MessageRule],
        part: Target,
        item: Target,
        position: int,
        used: list[Trail],
    ) -> list[dict[str, Any]] | None:
        """Returns the messages of a part of an item in the form of a chat API; None if it meets the conditions of no
        rule.

        Args:
            part: The part, with its trail within the item.
            position: As in `_read_item`.
            used: Gets the trails within the item that were read.
        """
        drafts: list[dict[str, Any]] | None = None
        for rule in rules:
            if not all(
                condition.holds(part.value, self._record, self._outer) for condition in rule.when
            ):
                continue
            drafts = drafts or []
            for inner in _parts_at(rule.each, part, self._record):
                if not rule.turns:
                    drafts += self._draft_message(rule, inner, item, position, used)
                    continue
                inner_drafts = self._draft_messages(rule.turns, inner, item, position, used)
                if inner_drafts is None:
                    self._add_unknown(inner.value)
                    used.append(inner.trail or ())
                drafts += inner_drafts or []
        return drafts

    def _draft_message(
        self, rule: MessageRule, part: Target, item: Target, position: int, used: list[Trail]
    ) -> list[dict[str, Any]]:
        """Returns the message of a part of an item in the form of a chat API; [] if it has none.

        What the mapping leaves out or makes metadata by its role is no message. With a rule that names neither text,
        calls nor reasoning, the part is a message of a chat API itself.

        Args:
            rule: The rule of the mapping for such parts.
            part: The part.
            item: The item that it is a part of.
            position: Number of the items before it that are messages, for roles that take turns.
            used: Gets the trails of what is read.

        Raises:
            BadRecord: Nothing says who speaks, or a part that should be a message itself is no object.
        """
        value, within = part.value, part.trail or ()

        def read(path: Path | None) -> list[Any]:
            """Returns the values that a path finds in the part, and notes them as used."""
            matches = path.find(value, self._record, self._outer) if path else []
            used.extend((*within, *match.trail) for match in matches if match.trail is not None)
            return [match.value for match in matches]

        role, speaker = self._role_and_speaker(rule, value, position)
        if role == "left out":
            if item.trail:
                self._leave_out((*item.trail, *within), value)
            return []
        if role == "metadata":
            self._events.append(value)
            used.append(within)
            return []
        if not rule.text and rule.calls is None and rule.reasoning is None:
            if not isinstance(value, dict):
                raise BadRecord(f"message {len(self._messages) + 1} is {kind_of(value)}")
            used.append(within)
            trail = None if item.trail is None else (*item.trail, *within)
            return [self._as_whole_message(value, trail, role, speaker)]
        texts = [text for path in rule.text for text in read(path) if text != ""]
        if rule.join is not None and texts:
            texts = [rule.join.join(_words_in(texts))]
        calls = self._draft_calls(rule.calls, Target(value, within), used) if rule.calls else []
        reasoning = read(rule.reasoning)
        if not texts and not calls and not reasoning:
            return []
        message: dict[str, Any] = {"role": role, "content": _as_content(texts)}
        if calls:
            message["tool_calls"] = calls
        if reasoning:
            message["reasoning"] = "\n".join(map(as_word, reasoning))
        if answers := read(rule.answers):
            message["tool_call_id"] = as_word(answers[0])
        names = read(rule.name)
        if names or speaker:
            message["name"] = as_word(names[0]) if names else speaker
        if times := read(rule.time):
            message["time"] = times[0]
        return [message]

    def _as_whole_message(
        self, value: dict[str, Any], trail: Trail | None, role: Any, speaker: str | None
    ) -> dict[str, Any]:
        """Returns a part that is a message in the form of a chat API already, without what other rules have used of
        it."""
        used_inside = self._used_inside.get(trail) if trail is not None else None
        fields = (without(value, used_inside) or {}) if used_inside else value
        name = {"name": speaker} if speaker and "name" not in value else {}
        return {**fields, "role": role, **name}

    def _draft_calls(self, calls: CallMapping, part: Target, used: list[Trail]) -> list[Any]:
        """Returns the tool calls of a part of an item in the form of a chat API."""
        drafts: list[Any] = []
        for call_match in calls.each.find(part.value, self._record):
            inside = (*(part.trail or ()), *(call_match.trail or ()))
            if calls.name is None:  # in the form of a chat API
                used.append(inside)
                drafts.append(call_match.value)
                continue
            places = {"name": calls.name, "arguments": calls.arguments, "id": calls.id}
            call: dict[str, Any] = {}
            if calls.name.text == _OWN_KEY:
                call["name"] = str(call_match.trail[-1]) if call_match.trail else ""
                del places["name"]
            for key, path in places.items():
                for match in path.find(call_match.value, self._record)[:1] if path else ():
                    call[key] = match.value
                    used.append((*inside, *(match.trail or ())))
            if "name" in call:
                drafts.append(call)
        return drafts

    def _known_role(self, word: str) -> Destination | None:
        """Returns the role that the mapping or the word alone gives a speaker; where speakers may be anybody, also
        `customer` or `agent`. None if neither does."""
        if (role := self._mapped_role(word)) is not None:
            return role
        of_people = FIRST_SPEAKER in self._mapping.roles
        return role_of_speaker(word) if of_people else role_named(word)

    def _mapped_role(self, word: str) -> Destination | None:
        """Returns the role that the mapping gives a word."""
        roles = self._mapping.roles
        return roles.get(word) or roles.get(word.lower())

    def _role_and_speaker(
        self, rule: MessageRule, value: Any, position: int
    ) -> tuple[Destination, str | None]:
        """Returns the role of an item, and the name of its speaker; None for a name that tells the role itself.

        The role is told by the first that applies: the turn, the `roles` of the mapping, its `user`, the word itself,
        what the same speaker was before, or whether the speaker is the first.

        Raises:
            BadRecord: Nothing says who speaks.
        """
        speaker_role = rule.role or _DEFAULT_ROLE
        if speaker_role.path is None:
            return speaker_role.in_turn[position % len(speaker_role.in_turn)], None
        role_value = speaker_role.path.first(value, self._record, self._outer)
        word = as_word(role_value)
        mapped_role = self._mapped_role(word)
        if mapped_role is not None:
            return mapped_role, None
        user = self._mapping.user
        if user is not None and word:
            user_word = as_word(user.first(self._record, self._record, self._outer))
            if user_word:
                return ("user" if word == user_word else "assistant"), word
        if word and (role := self._known_role(word)) is not None:
            return role, None
        if word in self._speakers:
            return self._speakers[word], word
        roles = self._mapping.roles
        first, other = roles.get(FIRST_SPEAKER), roles.get(OTHER_SPEAKERS)
        is_first = not self._speakers and not self._user_is_named
        chosen = first if first is not None and is_first else other
        if chosen is None:
            number = len(self._messages) + 1
            has = f"role {word[:60]!r}" if role_value is not None else "no role"
            raise BadRecord(f"message {number} has {has}")
        if chosen == "metadata" or chosen == "left out":
            return chosen, None
        self._speakers[word] = chosen
        return chosen, word


def _as_fields(remaining: Any) -> dict[str, Any]:
    """Returns what was not read of a record or an item, as fields: under `rest` if it is no object, {} if it is
    null."""
    if remaining is None:
        return {}
    return remaining if isinstance(remaining, dict) else {"rest": remaining}


def _join_thoughts(messages: list[Message]) -> Iterator[Message]:
    """Yields the messages; one that has nothing but reasoning is put before that of the assistant's next message."""
    thoughts: list[Message] = []
    for message in messages:
        if message.role != "assistant":
            yield from thoughts
            thoughts = []
        elif message.reasoning and not message.content and not message.tool_calls:
            thoughts.append(message)
            continue
        elif thoughts:
            reasoning = [thought.reasoning for thought in (*thoughts, message) if thought.reasoning]
            facts = json.loads(message.facts or "{}")
            facts["thoughts"] = [json.loads(thought.facts) for thought in thoughts if thought.facts]
            message = replace(message, reasoning="\n".join(reasoning), facts=json_text(facts))
            thoughts = []
        yield message
    yield from thoughts


def _usual_time(item: Any) -> Any:
    """Returns what an item has under the first usual key of a time; None if it has none."""
    fields = object_or_empty(item)
    return next((fields[key] for key in TIMES if key in fields), None)


def _parts_at(each: Path | None, part: Target, record: Any) -> list[Target]:
    """Returns what a path finds in a part of an item, with trails within the item; the part itself without a path."""
    if each is None:
        return [part]
    return [
        Target(match.value, (*(part.trail or ()), *(match.trail or ())))
        for match in each.find(part.value, record)
    ]


def _merge_messages(messages: Iterable[Message], between: str) -> Iterator[Message]:
    """Yields messages, of which those of a speaker that follow each other are one; what is said after a call is not.

    Args:
        between: What stands between their texts.
    """
    last: Message | None = None
    for message in messages:
        if last is None or not _continues(last, message):
            if last is not None:
                yield last
            last = message
            continue
        facts = json.loads(last.facts or "{}")
        if message.facts:
            facts["merged"] = [*as_list(facts.get("merged", [])), json.loads(message.facts)]
        last = replace(
            last,
            content=between.join(filter(None, (last.content, message.content))),
            tool_calls=(*last.tool_calls, *message.tool_calls),
            reasoning="\n".join(filter(None, (last.reasoning, message.reasoning))) or None,
            facts=json_text(facts) if facts else None,
        )
    if last is not None:
        yield last


def _continues(last: Message, message: Message) -> bool:
    """Returns whether a message goes on with the last one."""
    same = (last.role, last.name) == (message.role, message.name) and message.role != "tool"
    return same and not (last.tool_calls and (message.content or message.reasoning))


def _words_in(texts: Iterable[Any]) -> Iterator[str]:
    """Yields the words of texts, of lists of texts, and of objects with a text."""
    for text in texts:
        if isinstance(text, list):
            yield from _words_in(text)
        else:
            yield as_word(text["text"] if isinstance(text, dict) and "text" in text else text)


def _as_content(texts: list[Any]) -> str | list[Any]:
    """Returns texts as the content of a message: one text, or a list of parts."""
    if len(texts) == 1 and isinstance(texts[0], str):
        return texts[0]
    parts: list[Any] = []
    for text in texts:
        parts += text if isinstance(text, list) else [text]
    return [part if isinstance(part, str | dict) else as_word(part) for part in parts]
