"""Converts messages from files into `engine.base.conversation.Message`: roles, contents, tool calls.

All formats share one vocabulary of roles, because exports mix them; a format only defines where its messages are. An
*item* is an entry of a list of messages, which may be none. Where items name the one before them, they are a tree with
a *branch* for each answer that was made anew and each prompt that was written anew; the current branch is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from engine.base.conversation import Message, ToolCall
from engine.formats.json_values import BadRecord, json_text, kind_of, list_or_empty, objects_in
from engine.formats.messages.parts import (
    MessageParts,
    calls_in_text,
    optional_text,
    read_call,
    reasoning_text,
)
from engine.formats.messages.roles import plain_role, role_of_speaker
from engine.formats.messages.times import TIMES, oldest_first
from engine.formats.paths import read_path

# Messages

RENDERED_CALLS = "TOOL CALLS: ["
"""Start of the text with which the uniform format repeats the tool calls of a message at the end of its content."""

UNREAD = "not read"
"""Key under which the metadata of a conversation has the items of it that are no messages."""

_CONTENT_KEYS = frozenset(
    ("content", "value", "tool_calls", "function_call", "parts", "contentParts", "toolInvocations")
)
"""Keys of what a message says or calls."""

_CALL_ROLES = frozenset(("function_call", "tool_call", "tool_use", "tool_call_invocation"))

_PLAIN_KEYS = frozenset(("role", "content", "name", "tool_call_id", "tool_calls"))
"""Keys of a message whose content, if it is text, is all of its text."""

_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
"""Keys of what a model thought."""

READ_KEYS = _CONTENT_KEYS.union(_REASONING_KEYS, ("name", "tool_call_id", "refusal", "object"))
"""Keys of a message that are read; the others are its facts."""


def looks_like_message(value: Any) -> bool:
    """Returns whether a JSON value has the keys of one message."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("role"), str):
        return not value.keys().isdisjoint(_CONTENT_KEYS)
    return isinstance(value.get("from"), str) and "value" in value


def looks_like_messages(value: Any) -> bool:
    """Returns whether a JSON value is a list that begins with messages, but for one item that is none."""
    if not isinstance(value, list) or not value:
        return False
    return looks_like_message(value[0]) or (
        len(value) > 2 and all(map(looks_like_message, value[1:3]))
    )


class ReadMessages(NamedTuple):
    """The messages of a list, and what of it is in none.

    Attributes:
        messages: The messages, in order.
        unread: Items that are no messages.
        others: Items of other branches than the current one.
    """

    messages: tuple[Message, ...]
    unread: list[Any]
    others: list[Any]

    @property
    def fields(self) -> dict[str, Any]:
        """The metadata that the conversation has of the items that are in no message."""
        items_by_name = {UNREAD: self.unread, OTHER_BRANCHES: self.others}
        return {name: items for name, items in items_by_name.items() if items}


def read_messages(
    items: Any, *, rendered_calls: bool = False, record: Mapping[str, Any] | None = None
) -> ReadMessages:
    """Returns the messages of a list in the form of any chat API, and what of the list is no message.

    Args:
        rendered_calls: Whether contents may end with a copy of the tool calls as text, which is removed.
        record: The object that has the list, and may name the last message of the current branch.

    Raises:
        BadRecord: There are no messages, or one cannot be read and the others are not what both sides said.
    """
    if not isinstance(items, list):
        raise BadRecord(f"the messages are {kind_of(items)}, not a list")
    if not items:
        raise BadRecord("no messages")
    first = items[0] if isinstance(items[0], dict) else {}
    if key := next((key for key in TIMES if key in first), None):
        times = [item.get(key) if isinstance(item, dict) else None for item in items]
        items = oldest_first(items, times)
    other_positions = other_branches(items, record)
    messages: list[Message] = []
    unread: list[Any] = []
    reason: BadRecord | None = None
    for number, item in enumerate(items, 1):
        if number - 1 in other_positions:
            continue
        try:
            messages.extend(messages_of(item, number, rendered_calls))
        except BadRecord as bad:
            reason = reason or bad
            unread.append(item)
    if reason is not None and not is_conversation(messages, len(unread)):
        raise reason
    others = [items[position] for position in sorted(other_positions)]
    return ReadMessages(tuple(messages), unread, others)


def is_conversation(messages: Sequence[Message], unread: int) -> bool:
    """Returns whether messages are what both sides said although some items of their list could not be read."""
    roles = {message.role for message in messages}
    return unread <= len(messages) and {"user", "assistant"} <= roles


def read_in_turn(items: Iterable[Any]) -> list[Message]:
    """Returns the messages of items in the form of a chat API, in their order.

    Raises:
        BadRecord: One is not a message, or there are none.
    """
    messages: list[Message] = []
    for item in items:
        messages += messages_of(item, len(messages) + 1)
    if not messages:
        raise BadRecord("no messages")
    return messages


def messages_of(
    item: Any,
    number: int,
    rendered_calls: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> list[Message]:
    """Reads one message of a file, which is several here if the answers of tools are among its parts.

    Args:
        number: Number of the message, from 1, for the reason of a BadRecord.
        rendered_calls: Whether the content may end with a copy of the tool calls as text, which is removed.
        facts: What the log says of the message beside it.

    Raises:
        BadRecord: It is not a message.
    """
    if not isinstance(item, dict):
        raise BadRecord(f"message {number} is {kind_of(item)}, not an object")
    role_key = "role" if "role" in item else "from"
    spoken_by = item.get(role_key)
    role = role_of_speaker(spoken_by) if isinstance(spoken_by, str) else None
    if role is None:
        raise BadRecord(_role_problem(spoken_by, number))
    content = item["content"] if "content" in item else item.get("value")
    makes_call = role == "assistant" and plain_role(str(spoken_by)) in _CALL_ROLES
    # most messages are one of the two plain kinds, which are read here for speed
    if len(item) == 2 and isinstance(content, str) and not makes_call and not facts:
        return [Message(role, content)]
    name = optional_text(item, "name", number)
    call_id = optional_text(item, "tool_call_id", number)
    calls = _calls_beside_content(item, number)
    if isinstance(content, str) and item.keys() <= _PLAIN_KEYS and not makes_call and not facts:
        text = _without_rendering(content) if rendered_calls and calls else content
        return [Message(role, text, name, tuple(calls), call_id)]
    parts = MessageParts(role, number, name, call_id)
    remaining = {key: item[key] for key in item if key not in READ_KEYS and key != role_key}
    remaining.update(facts or {})
    parts.facts = json_text(remaining) if remaining else None
    parts.reasoning += [text for key in _REASONING_KEYS if (text := reasoning_text(item.get(key)))]
    if makes_call and isinstance(content, str):
        parts.calls += calls_in_text(content)
        content = "" if parts.calls else content
    elif makes_call and content is None and name is not None:  # the call is the message
        parts.calls.append(read_call({**item, "id": call_id}, number))
        parts.name = parts.tool_call_id = None
        content = ""
    _add_content(parts, item, content, has_rendering=rendered_calls and bool(calls))
    parts.calls += calls
    return parts.finish()


def _add_content(
    parts: MessageParts, item: Mapping[str, Any], content: Any, *, has_rendering: bool
) -> None:
    """Adds what a message says.

    Args:
        item: The message, which may have parts of the Vercel AI SDK beside its content.
        has_rendering: Whether the content may end with a copy of the tool calls as text, which is removed.

    Raises:
        BadRecord: It has no content, or one that is neither text nor a list.
    """
    listed = item.get("parts") or item.get("contentParts")  # the latter of Chatbox
    if isinstance(listed, list):
        content = listed
    elif isinstance(item.get("toolInvocations"), list):
        for entry in item["toolInvocations"]:  # Vercel AI SDK 4; the text was written after them
            parts.add({"type": "tool-invocation", "toolInvocation": entry})
    if isinstance(content, list):
        for part in content:
            parts.add(part)
    elif isinstance(content, dict):
        parts.add(content)
    elif isinstance(content, str):
        parts.texts.append(_without_rendering(content) if has_rendering else content)
    elif content is not None:
        raise BadRecord(f"message {parts.number} has content that is {kind_of(content)}")
    elif item.keys().isdisjoint(_CONTENT_KEYS) and _text_without_content(item) is None:
        raise BadRecord(f"message {parts.number} has no content")
    if not content and (spoken := _text_without_content(item)) is not None:
        parts.texts = [spoken]


def _text_without_content(item: Mapping[str, Any]) -> str | None:
    """Returns what a message without content says: a refusal, or what was spoken (OpenAI); None for neither."""
    audio = item.get("audio")
    spoken = audio.get("transcript") if isinstance(audio, dict) else None
    text = item.get("refusal") or spoken
    return text if isinstance(text, str) else None


def _role_problem(spoken_by: Any, number: int) -> str:
    """Returns why the role of a message cannot be read."""
    if spoken_by is None:
        return f"message {number} has no role"
    if isinstance(spoken_by, str):
        return f"message {number} has role {spoken_by[:60]!r}"
    return f"message {number} has a role that is {kind_of(spoken_by)}"


def _calls_beside_content(item: Mapping[str, Any], number: int) -> list[ToolCall]:
    """Returns the calls that a message has beside its content.

    Raises:
        BadRecord: `tool_calls` is no list, or a call in it cannot be read.
    """
    listed = item.get("tool_calls")
    if listed is not None and not isinstance(listed, list):
        raise BadRecord(f"message {number} has tool_calls that are {kind_of(listed)}")
    calls = [read_call(entry, number) for entry in listed or ()]
    old = item.get("function_call")
    return calls if old is None else [*calls, read_call(old, number)]


def _without_rendering(text: str) -> str:
    """Returns a content without the copy of its tool calls at the end."""
    if text.startswith(RENDERED_CALLS):
        return ""
    cut = text.rfind("\n" + RENDERED_CALLS)
    return text[:cut] if cut >= 0 and text.endswith("]") else text


def record_id(record: Mapping[str, Any], keys: tuple[str, ...], fallback: str) -> str:
    """Returns the first usable id among `keys`, else `fallback`; raises BadRecord if an id is a list or an object."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, dict) and isinstance(value.get("$oid"), str):  # as MongoDB exports ids
            value = value["$oid"]
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, list | dict):
            raise BadRecord(f"`{key}` is {kind_of(value)}, not text")
    return fallback


# Branches

_ID_KEYS = ("uuid", "id", "message_id", "messageId", "_id")

_PARENT_KEYS = (
    "parentUuid", "parent_uuid", "parent_message_uuid", "parentMessageId", "parent_message_id", "parentId",
    "parent_id", "parent",
)  # fmt: skip
"""Keys under which an item names the one before it."""

_CHILD_KEYS = ("children", "childrenIds")
"""Keys under which an item names the items that follow it."""

_LINK_KEYS = frozenset((*_PARENT_KEYS, *_CHILD_KEYS))
"""Keys under which an item names the items before and after it."""

_CURRENT_LEAF = read_path(
    "current_leaf_message_uuid | current_node | currentNode | currentId | current_message_id | currentMessageId"
    " | leafUuid | leaf_id"
)
"""Where a record names the last item of its current branch."""

_SPEAKER = read_path("role | message.role | sender | speaker | author.role | author | from | type")
"""Where an item says who speaks."""

OTHER_BRANCHES = "other branches"
"""Name under which a conversation, or the object around it, has the items of its other branches."""


def other_branches(items: Sequence[Any], record: Mapping[str, Any] | None = None) -> set[int]:
    """Returns the positions of the items that are not on the current branch.

    Where several items of one role, the user's or the assistant's, follow the same item, the branch goes on with the
    one that leads to the leaf that the record names, else with the last. Several answers of tools after one item are no
    branches.

    Args:
        record: The object that has the items, and may name the current leaf.
    """
    if all(item.__class__ is not dict or _LINK_KEYS.isdisjoint(item) for item in items):
        return set()  # the usual case, which is quick to see
    parents = _parent_ids(items)
    known_parents = list(filter(None, parents))
    if len(set(known_parents)) == len(known_parents):
        return set()  # no two follow the same one
    on_branch = _positions_to_leaf(items, parents, record)
    siblings: dict[tuple[str, Any], list[int]] = {}  # by the item before them, and their role
    for position, item in enumerate(items):
        word = _SPEAKER.first(item) if isinstance(item, dict) else None
        role = role_of_speaker(word) if isinstance(word, str) else None
        if parents[position] and role in ("user", "assistant"):
            siblings.setdefault((parents[position], role), []).append(position)
    others: set[int] = set()
    for positions in siblings.values():
        followed = next((place for place in positions if place in on_branch), positions[-1])
        others.update(position for position in positions if position != followed)
    size_before = -1
    while len(others) != size_before:  # what follows an item of another branch is on it too
        size_before = len(others)
        ids = {id_of(items[position]) for position in others} - {""}
        followers = {position for position, parent in enumerate(parents) if parent in ids}
        others |= followers - on_branch
    return others


def _positions_to_leaf(
    items: Sequence[Any], parents: list[str], record: Mapping[str, Any] | None
) -> set[int]:
    """Returns the positions of the current leaf that a record names and of all items before it; empty if it names none.

    Args:
        parents: The id of the item before each; "" where none is known.
    """
    position_by_id = {id_of(item): position for position, item in enumerate(items)}
    positions: set[int] = set()
    leaf = position_by_id.get(str(_CURRENT_LEAF.first(record))) if record is not None else None
    while leaf is not None and leaf not in positions:
        positions.add(leaf)
        leaf = position_by_id.get(parents[leaf]) if parents[leaf] else None
    return positions


def parent_of(item: Any) -> str:
    """Returns the id of the item before one; "" if it names none."""
    return _first_word(item, _PARENT_KEYS)


def id_of(item: Any) -> str:
    """Returns the id of an item; "" without one."""
    return _first_word(item, _ID_KEYS)


def _parent_ids(items: Sequence[Any]) -> list[str]:
    """Returns the id of the item before each; "" where none is known."""
    parents = [parent_of(item) for item in items]
    if any(parents):
        return parents
    children = {
        str(child): id_of(item)
        for item in objects_in(items)
        for key in _CHILD_KEYS
        for child in list_or_empty(item.get(key))
    }
    return [children.get(id_of(item), "") for item in items]


def _first_word(item: Any, keys: tuple[str, ...]) -> str:
    """Returns the text or the number under the first of some keys; "" without one."""
    if not isinstance(item, dict):
        return ""
    return next((str(item[key]) for key in keys if isinstance(item.get(key), str | int)), "")
