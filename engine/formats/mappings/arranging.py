"""Arranges records by a mapping: one that is several conversations is split, several that are one are grouped, and of
a tree of messages one branch is taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from engine.formats.json_values import json_text, object_or_empty
from engine.formats.mappings.mapping import Group, Mapping, Transcript, Tree
from engine.formats.messages.normalize import OTHER_BRANCHES
from engine.formats.messages.times import sort_by
from engine.formats.opening.framing import Envelope, Frame, joined_frame
from engine.formats.paths import Path, Target, Trail, as_word, decoded, without

BRANCH = "branch"
"""Key under which a record has the nodes of its branch."""

RECORDS = "records"
"""Key under which a group has its records."""

_ATTACHMENT = re.compile(r"attachment://(\w+)")
"""Finds a reference to an attachment, such as `attachment://file1`."""


def arrange_records(mapping: Mapping, frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each conversation; of a tree that is the current branch."""
    if mapping.split:
        frames = split_records(mapping.split, frames)
    if mapping.attachments is not None:
        frames = _with_attachments(mapping.attachments, frames)
    if mapping.transcript is not None:
        frames = _divide_texts(mapping.transcript, frames)
    if mapping.group is not None:
        frames = _group_records(mapping.group, frames)
    for frame in frames:
        yield frame if mapping.tree is None else _branch_frame(mapping.tree, frame)


def split_records(paths: tuple[Path, ...], frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each value that the paths find in a record; a record without any is yielded with a reason."""
    for frame in frames:
        matches = (
            [] if frame.reason else [match for path in paths for match in path.find(frame.value)]
        )
        if not matches and frame.reason is None:
            frame = frame._replace(reason=f"there is nothing at `{paths[0].text}`")
        if not matches:
            yield frame
            continue
        remaining = without(frame.value, [match.trail or () for match in matches])
        has_new_fields = frame.outer is not None and frame.outer.first
        for number, match in enumerate(matches, 1):
            # a key is an id if it is that of a side of a conversation (`12/left`), or in an object of records (`{}`);
            # any other is the name of a field, the same in each record
            key = match.trail[-1] if match.trail else None
            if len(paths) > 1:
                key = f"{frame.number or 1}/{key}"
            elif not paths[0].text.endswith("{}"):
                key = None
            is_first = frame.before + number == 1 or (number == 1 and has_new_fields)
            yield Frame(
                frame.number or frame.before + number,
                json_text(match.value).encode(),
                match.value,
                outer=Envelope(remaining, is_first),
                name=key if isinstance(key, str) else None,
            )


def _with_attachments(path: Path, frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields the records with the texts of their attachments in place of the references to them."""
    for frame in frames:
        texts = None if frame.reason else path.first(frame.value)
        yield frame._replace(value=_resolve_attachments(frame.value, texts)) if texts else frame


def _resolve_attachments(value: Any, texts: Any) -> Any:
    """Returns a value with the texts of attachments in place of the references to them.

    Args:
        texts: The texts of the attachments by name, which are a part of the value and stay as they are.
    """
    if isinstance(value, str):
        if "attachment://" not in value or not isinstance(texts, dict):
            return value
        return _ATTACHMENT.sub(
            lambda reference: as_word(texts.get(reference[1], reference[0])), value
        )
    if isinstance(value, dict):
        return {
            key: entry if entry is texts else _resolve_attachments(entry, texts)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_resolve_attachments(entry, texts) for entry in value]
    return value


def _divide_texts(transcript: Transcript, frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields the records with lists of messages in place of the texts that hold turns."""
    marks = "|".join(map(re.escape, transcript.marks))
    for frame in frames:
        value = frame.value
        for match in [] if frame.reason else transcript.at.find(value):
            if isinstance(match.value, str) and match.trail is not None:
                value = _with_entry(value, match.trail, _turns_of_text(marks, match.value))
        yield frame._replace(value=value)


def _turns_of_text(marks: str, text: str) -> list[Any]:
    """Returns the turns of a text as messages; `marks` is the regex of what begins a turn."""
    # a mark may begin with line breaks, so the first turn gets them too; with a group `split` returns the marks as well
    before, *pieces = re.split(f"({marks})", "\n\n" + text)
    turns: list[Any] = [{"preamble": before.strip()}] if before.strip() else []
    for mark, content in zip(pieces[::2], pieces[1::2], strict=True):
        turns.append({"role": mark.strip().rstrip(":"), "content": content.strip()})
    return turns


def _with_entry(value: Any, trail: Trail, entry: Any) -> Any:
    """Returns the value with another entry where the trail leads."""
    if not trail:
        return entry
    copy = decoded(value) if isinstance(value, str) else value.copy()
    step, *steps = trail
    copy[step] = _with_entry(copy[step], tuple(steps), entry)
    return copy


def _group_records(group: Group, frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each group of records, in the order of their first records; those that cannot be read come
    first.

    All records are in memory at once, since those of one conversation may lie anywhere.
    """
    groups: dict[str, list[Frame]] = {}
    shared: list[Any] = []
    for frame in frames:
        key = "" if group.is_file else group.id_of(frame.value)
        if frame.reason is None and not group.is_file and not key and not group.others:
            frame = frame._replace(reason=f"it names no conversation at `{group.by[0].text}`")
        if frame.reason is not None:
            yield frame
        elif group.others == "shared" and not key:
            shared.append(frame.value)
        else:
            groups.setdefault(key, []).append(frame)
    for number_of_group, (key, members) in enumerate(groups.items()):
        if group.order is not None:
            members = sort_by(members, [group.order.first(member.value) for member in members])
        value: dict[str, Any] = {"id": key} if key else {}
        value[RECORDS] = [frame.value for frame in members]
        number = members[0].number if key else None
        whole = joined_frame(members, value, number=number, name=key or None)
        outer = Envelope({RECORDS: shared}, number_of_group == 0) if shared else members[0].outer
        yield whole._replace(outer=outer)


def _branch_frame(tree: Tree, frame: Frame) -> Frame:
    """Returns a record with the nodes of its current branch under `branch`, in place of the tree; those beside it
    are in the outer object. What is no object stays where it is."""
    matches = [] if frame.reason else _objects_at(tree.nodes, frame.value)
    nodes = [match.value for match in matches]
    remaining = without(frame.value, [match.trail or () for match in matches]) or {}
    if not nodes or not isinstance(remaining, dict):
        return frame
    if tree.children:
        branch, others = _branch_down(tree, nodes)
    else:
        branch, others = _branch_up(tree, frame.value, nodes)
    outer = frame.outer
    if others:
        around = object_or_empty(outer.value) if outer else {}
        outer = Envelope({**around, OTHER_BRANCHES: others}, outer is None or outer.first)
    branch = [_without_children(tree, node) for node in branch]
    return frame._replace(value={**remaining, BRANCH: branch}, outer=outer)


def _objects_at(path: Path, value: Any) -> list[Target]:
    """Returns the objects to which a path leads in a value."""
    return [match for match in path.find(value) if isinstance(match.value, dict)]


def _without_children(tree: Tree, node: Any) -> Any:
    """Returns a node without the nodes below it, which come after it in the branch."""
    if tree.children is None:
        return node
    return without(node, [match.trail or () for match in _objects_at(tree.children, node)])


def _branch_down(tree: Tree, roots: list[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the preferred branch from a root to a leaf in nodes that hold their children, and the nodes beside it."""
    assert tree.children is not None
    branch: list[Any] = []
    others: list[Any] = []
    nodes = roots
    while nodes:
        node, *siblings = _by_preference(tree, nodes)
        branch.append(node)
        others += siblings
        nodes = [match.value for match in _objects_at(tree.children, node)]
    return branch, others


def _branch_up(tree: Tree, record: Any, nodes: list[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the branch from a root to the current leaf, in nodes that name their parents, and the nodes beside it."""
    assert tree.id is not None
    assert tree.parent is not None
    by_id: dict[str, Any] = {}
    for node in nodes:
        name = as_word(tree.id.first(node))
        while name in by_id:  # another one of the same id is a leaf of its own, not lost
            name += "'"
        by_id[name] = node
    parents = {name: as_word(tree.parent.first(node)) for name, node in by_id.items()}
    if not any(parents.values()):  # a list
        parents = dict(zip(by_id, ["", *by_id], strict=False))
    node_id = as_word(tree.leaf.first(record)) if tree.leaf else ""
    if node_id not in by_id:
        node_id = _preferred_leaf(tree, by_id, parents)
    branch: dict[str, None] = {}
    while node_id in by_id and node_id not in branch:
        branch[node_id] = None
        node_id = parents[node_id]
    others = [node for name, node in by_id.items() if name not in branch]
    return [by_id[name] for name in reversed(branch)], others


def _preferred_leaf(tree: Tree, by_id: dict[str, Any], parents: dict[str, str]) -> str:
    """Returns the id of the leaf to which the preferred child of each node leads."""
    below: dict[str, list[str]] = {}
    for name, parent in parents.items():
        below.setdefault(parent if parent in by_id else "", []).append(name)
    node_id = ""
    visited: set[str] = set()
    while node_id in below and node_id not in visited:
        visited.add(node_id)
        names = below[node_id]
        preferred, *_ = _by_preference(tree, [by_id[name] for name in names])
        node_id = next(name for name in names if by_id[name] is preferred)
    return node_id


def _by_preference(tree: Tree, nodes: list[Any]) -> list[Any]:
    """Returns sibling nodes by their rank; without ranks the last one first, which is the newest."""
    ranks = [tree.rank.first(node) if tree.rank else None for node in nodes]
    if not any(isinstance(rank, int | float) for rank in ranks):
        return nodes[::-1]
    last = float("inf")
    order = [rank if isinstance(rank, int | float) else last for rank in ranks]
    return [nodes[position] for position in sorted(range(len(nodes)), key=order.__getitem__)]
