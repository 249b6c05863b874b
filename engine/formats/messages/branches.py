"""Takes the current branch of messages that name the one before them; answers that were made anew, and prompts that
were written anew, are on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.formats.json_values import list_or_empty, objects_in
from engine.formats.messages.roles import role_of_speaker
from engine.formats.paths import read_path

_IDS = ("uuid", "id", "message_id", "messageId", "_id")
"""Keys of the id of an item."""
_PARENTS = (
    "parentUuid", "parent_uuid", "parent_message_uuid", "parentMessageId", "parent_message_id", "parentId",
    "parent_id", "parent",
)  # fmt: skip
"""Keys under which an item names the one before it."""
_CHILDREN = ("children", "childrenIds")
"""Keys under which an item names those that follow it."""
_LINKS = frozenset((*_PARENTS, *_CHILDREN))
_LEAF = read_path(
    "current_leaf_message_uuid | current_node | currentNode | currentId | current_message_id | currentMessageId"
    " | leafUuid | leaf_id"
)
"""Where a record names the last item of its current branch."""
_ROLE = read_path("role | message.role | sender | speaker | author.role | author | from | type")
"""Where an item says who speaks."""

OTHER_BRANCHES = "other branches"
"""Name under which a conversation, or the object around it, has the items of its other branches."""


def parent_of(item: Any) -> str:
    """Returns the id of the item before one; "" if it names none."""
    return _first_word(item, _PARENTS)


def id_of(item: Any) -> str:
    """Returns the id of an item; "" without one."""
    return _first_word(item, _IDS)


def _parents(items: Sequence[Any]) -> list[str]:
    """Returns the id of the item before each; "" where none is known."""
    parents = [parent_of(item) for item in items]
    if any(parents):
        return parents
    children = {
        str(child): id_of(item)
        for item in objects_in(items)
        for key in _CHILDREN
        for child in list_or_empty(item.get(key))
    }
    return [children.get(id_of(item), "") for item in items]


def _first_word(item: Any, keys: tuple[str, ...]) -> str:
    """Returns the text or the number under the first of some keys; "" without one."""
    if not isinstance(item, dict):
        return ""
    return next((str(item[key]) for key in keys if isinstance(item.get(key), str | int)), "")


def other_branches(items: Sequence[Any], record: Mapping[str, Any] | None = None) -> set[int]:
    """Returns the positions of the items that are not on the current branch.

    Of several items of one role, a user's or the assistant's, that follow the same item, the one is followed that leads
    to the leaf that the record names; else the last. Several answers of tools after one item are no branches.

    Args:
        record: The object that has the items, and may name the current leaf.
    """
    if all(item.__class__ is not dict or _LINKS.isdisjoint(item) for item in items):
        return set()  # the usual case, told quickly
    parents = _parents(items)
    named = list(filter(None, parents))
    if len(set(named)) == len(named):
        return set()  # no two follow the same one
    position_by_id = {id_of(item): position for position, item in enumerate(items)}
    current: set[int] = set()
    leaf = position_by_id.get(str(_LEAF.first(record))) if record is not None else None
    while leaf is not None and leaf not in current:
        current.add(leaf)
        leaf = position_by_id.get(parents[leaf]) if parents[leaf] else None
    siblings: dict[tuple[str, Any], list[int]] = {}
    for position, item in enumerate(items):
        word = _ROLE.first(item) if isinstance(item, dict) else None
        role = role_of_speaker(word) if isinstance(word, str) else None
        if parents[position] and role in ("user", "assistant"):
            siblings.setdefault((parents[position], role), []).append(position)
    left: set[int] = set()
    for positions in siblings.values():
        followed = next((position for position in positions if position in current), positions[-1])
        left.update(position for position in positions if position != followed)
    before: set[int] = set()
    while left != before:  # what follows an item of another branch is on it too
        before = set(left)
        ids = {id_of(items[position]) for position in left} - {""}
        left |= {
            position
            for position, parent in enumerate(parents)
            if parent in ids and position not in current
        }
    return left
