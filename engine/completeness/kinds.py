"""Kinds of log: sources whose conversations end in like ways, so that one probe can tell their ends.

Chats and runs of an agent end differently. A probe that is fitted to all of them at once calls the ends of the smaller
kind broken off (docs/lab/words.md). A *part* is a source with enough conversations for a probe, or all smaller sources
of one format. Two parts are of one kind if their most common roles are the same and they use similar words, directly or
through other parts. What a single conversation looks like is no part of this: that it uses no tool, or that a tool
speaks last, may be because it broke off.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.base.arrays import Ints
from engine.base.conversation import LogPiece
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE
from engine.completeness.words import BoundaryWords
from engine.conversations.records import Origin

MIN_COSINE = 0.5
"""Least cosine of the words of two parts that are of one kind."""

MAX_COMPARED_CONVERSATIONS = 50
"""Most conversations of each part whose words are compared; the cosine grows with their number."""


class Roles(NamedTuple):
    """Who speaks in a conversation: whether a tool is used, and whether the user speaks once at most."""

    uses_tools: bool
    is_one_request: bool

    @classmethod
    def from_pieces(cls, pieces: Iterable[LogPiece]) -> Roles:
        """Returns the roles of a log."""
        uses_tools, requests = False, 0
        for piece in pieces:
            uses_tools = uses_tools or piece.role == "tool" or piece.kind == "action"
            requests += piece.role == "user"
        return cls(uses_tools, requests <= 1)

    def __str__(self) -> str:
        if self.is_one_request:
            return "runs of an agent" if self.uses_tools else "single requests"
        return "chats with tools" if self.uses_tools else "chats"


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of log of a project.

    Attributes:
        names: Name of each kind that has enough conversations for a probe.
        kind_of_part: Index in `names` of the kind of each part, by the name of the part, which is that of a source or
            of a format; -1 for parts of no kind.
    """

    names: tuple[str, ...]
    kind_of_part: Mapping[str, int]

    def index_of(self, origin: Origin) -> int:
        """Returns the index of the kind of a conversation; -1 if it is of none."""
        return self.kind_of_part.get(origin.source, self.kind_of_part.get(origin.format, -1))

    def reindexed(self, indices: Sequence[int]) -> Kinds:
        """Returns the same kinds with a new index for each; -1 takes a kind away, so that its parts are of none."""
        return Kinds(
            tuple(name for name, index in zip(self.names, indices, strict=True) if index >= 0),
            {part: -1 if kind < 0 else indices[kind] for part, kind in self.kind_of_part.items()},
        )


def find_kinds(
    origins: Sequence[Origin], roles: Sequence[Roles], boundary_counts: Ints, words: BoundaryWords
) -> Kinds:
    """Returns the kinds of log of some conversations, the kind with the most conversations first.

    Args:
        origins: Where each conversation is from.
        roles: Who speaks in each conversation.
        boundary_counts: Number of boundaries of each conversation, shape (conversations,).
        words: The words at all boundaries, conversation by conversation.
    """
    if not origins:
        return Kinds((), {})
    members = _members_of_parts(origins)
    usual_roles = {
        part: Counter(roles[index] for index in indices).most_common(1)[0][0]
        for part, indices in members.items()
    }
    kinds = [
        parts
        for parts in _group_parts(members, usual_roles, boundary_counts, words)
        # Only conversations that can be cut teach what an end is not.
        if sum(int(boundary_counts[index] > 1) for part in parts for index in members[part])
        >= MIN_CONVERSATIONS_FOR_PROBE
    ]
    kinds.sort(key=lambda parts: -sum(len(members[part]) for part in parts))
    kind_of_part = dict.fromkeys(members, -1)
    kind_of_part |= {part: index for index, parts in enumerate(kinds) for part in parts}
    return Kinds(_kind_names(kinds, usual_roles), kind_of_part)


def _members_of_parts(origins: Sequence[Origin]) -> dict[str, list[int]]:
    """Returns the indices of the conversations of each part; see the module docstring."""
    sizes = Counter(origin.source for origin in origins)
    members: dict[str, list[int]] = defaultdict(list)
    for index, (source, format) in enumerate(origins):
        is_large = sizes[source] >= MIN_CONVERSATIONS_FOR_PROBE
        members[source if is_large else format].append(index)
    return members


def _kind_names(
    kinds: Sequence[Sequence[str]], usual_roles: Mapping[str, Roles]
) -> tuple[str, ...]:
    """Returns a name for each kind, given by its parts: its roles in words, and its first part if these are not
    unique: `chats`, `chats with tools like support`."""
    names = [str(usual_roles[parts[0]]) for parts in kinds]
    return tuple(
        name if names.count(name) == 1 else f"{name} like {parts[0].rpartition('/')[2]}"
        for name, parts in zip(names, kinds, strict=True)
    )


def _group_parts(
    members: Mapping[str, Sequence[int]],
    usual_roles: Mapping[str, Roles],
    boundary_counts: Ints,
    words: BoundaryWords,
) -> list[list[str]]:
    """Returns the parts in groups with the same roles and similar words, directly or through other parts.

    Two parts are similar if the cosine of their vectors is `MIN_COSINE` or more. The vector of a part has, for each
    column of the words, the square root of the share of its boundaries that have it.

    Args:
        members: Indices of the conversations of each part.
        usual_roles: The most common roles in each part.
        boundary_counts, words: As `find_kinds` takes them.
    """
    from scipy.sparse import csr_array, vstack
    from scipy.sparse.csgraph import connected_components

    first_rows = np.cumsum(boundary_counts) - boundary_counts
    vectors = []
    for indices in members.values():
        step = max(1, len(indices) // MAX_COMPARED_CONVERSATIONS)
        compared = indices[::step][:MAX_COMPARED_CONVERSATIONS]
        rows = [
            np.arange(first_rows[index], first_rows[index] + boundary_counts[index])
            for index in compared
        ]
        matrix = words[np.concatenate(rows)].matrix()
        vector = np.sqrt(np.asarray(matrix.sum(axis=0)) / max(1, matrix.shape[0]))
        vectors.append(csr_array((vector / (np.linalg.norm(vector) or 1.0))[None, :]))
    table = vstack(vectors).tocsr()
    cosines = (table @ table.T).toarray()
    same_roles = np.array(
        [[usual_roles[row] == usual_roles[column] for column in members] for row in members]
    )
    _, group_of_part = connected_components(same_roles & (cosines >= MIN_COSINE), directed=False)
    groups: dict[int, list[str]] = defaultdict(list)
    for part, group in zip(members, group_of_part.tolist(), strict=True):
        groups[group].append(part)
    return list(groups.values())
