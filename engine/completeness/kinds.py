"""Kinds of log: sources whose conversations end in like ways, so that one probe can tell their ends.

Chats and runs of an agent end differently. A probe that is fitted to all of them at once calls the ends of the smaller
kind broken off (docs/lab/words.md). Two sources are of one kind if their most common roles are the same and they use
like words, directly or through others. The small sources of a format count as one. What a single conversation looks
like is no part of this: that it uses no tool, or that a tool speaks last, may be because it broke off.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.base.conversation import LogPiece
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE
from engine.completeness.words import BoundaryWords, Ints
from engine.conversations.records import Origin

MIN_ALIKE = 0.5
"""Least cosine of the words of two sources that are one kind."""

MAX_COMPARED_CONVERSATIONS = 50
"""Number of conversations of each source whose words are compared: the cosine grows with their number."""


class Roles(NamedTuple):
    """Who speaks in a conversation: whether a tool is used, and whether the user asks once only."""

    tools: bool
    one_request: bool

    @classmethod
    def of(cls, pieces: Iterable[LogPiece]) -> Roles:
        """Returns the roles of a log."""
        tools, requests = False, 0
        for piece in pieces:
            tools = tools or piece.role == "tool" or piece.kind == "action"
            requests += piece.role == "user"
        return cls(tools, requests <= 1)

    def __str__(self) -> str:
        if self.one_request:
            return "runs of an agent" if self.tools else "single requests"
        return "chats with tools" if self.tools else "chats"


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of log of a project.

    Attributes:
        names: Name of each kind that has enough conversations for a probe.
        kind_of_part: Index of the kind of each part, which is a source, or a format for all its sources with fewer
            than `MIN_CONVERSATIONS_FOR_PROBE` conversations; -1 for those of no kind.
    """

    names: tuple[str, ...]
    kind_of_part: Mapping[str, int]

    def of(self, origin: Origin) -> int:
        """Returns the kind of a conversation; -1 if it is of none."""
        return self.kind_of_part.get(origin.source, self.kind_of_part.get(origin.format, -1))

    def numbered(self, numbers: Sequence[int]) -> Kinds:
        """Returns the same kinds with other numbers, given for each; -1 makes one of no kind."""
        return Kinds(
            tuple(name for name, number in zip(self.names, numbers, strict=True) if number >= 0),
            {part: -1 if kind < 0 else numbers[kind] for part, kind in self.kind_of_part.items()},
        )


def find_kinds(
    origins: Sequence[Origin], roles: Sequence[Roles], counts: Ints, words: BoundaryWords
) -> Kinds:
    """Returns the kinds of some conversations.

    Args:
        origins, roles: Of each conversation.
        counts: Number of its boundaries, shape (conversations,).
        words: At all boundaries in order.
    """
    if not origins:
        return Kinds((), {})
    sizes = Counter(origin.source for origin in origins)
    parts: dict[str, list[int]] = defaultdict(list)
    for index, (source, format) in enumerate(origins):
        parts[source if sizes[source] >= MIN_CONVERSATIONS_FOR_PROBE else format].append(index)
    usual_roles = {
        part: Counter(roles[index] for index in members).most_common(1)[0][0]
        for part, members in parts.items()
    }
    members_of_group: dict[int, list[str]] = defaultdict(list)
    for part, group in zip(parts, _alike(parts, usual_roles, counts, words), strict=True):
        members_of_group[group].append(part)
    kinds = [
        group
        for group in members_of_group.values()
        # Only conversations that can be cut teach what an end is not.
        if sum(int(counts[index] > 1) for part in group for index in parts[part])
        >= MIN_CONVERSATIONS_FOR_PROBE
    ]
    kinds.sort(key=lambda group: -sum(len(parts[part]) for part in group))
    number = {part: index for index, group in enumerate(kinds) for part in group}
    names = [str(usual_roles[group[0]]) for group in kinds]
    return Kinds(
        tuple(
            name if names.count(name) == 1 else f"{name} like {group[0].rpartition('/')[2]}"
            for name, group in zip(names, kinds, strict=True)
        ),
        {part: number.get(part, -1) for part in parts},
    )


def _alike(
    parts: Mapping[str, Sequence[int]],
    usual_roles: Mapping[str, Roles],
    counts: Ints,
    words: BoundaryWords,
) -> list[int]:
    """Returns the number of a group for each part; those with the same roles and like words, directly or through
    others, share it.

    The words of a part are the shares of its boundaries at which each column is, as square roots.

    Args:
        parts: The conversations of each part.
        usual_roles: The roles that are the most common among them.
    """
    from scipy.sparse import csr_array, vstack
    from scipy.sparse.csgraph import connected_components

    first = np.cumsum(counts) - counts
    shares = []
    for members in parts.values():
        step = max(1, len(members) // MAX_COMPARED_CONVERSATIONS)
        some = members[::step][:MAX_COMPARED_CONVERSATIONS]
        rows = [np.arange(first[index], first[index] + counts[index]) for index in some]
        matrix = words[np.concatenate(rows)].matrix()
        share = np.sqrt(np.asarray(matrix.sum(axis=0)) / max(1, matrix.shape[0]))
        shares.append(csr_array((share / (np.linalg.norm(share) or 1.0))[None, :]))
    table = vstack(shares).tocsr()
    cosine = (table @ table.T).toarray()
    roles = list(usual_roles.values())
    same_roles = np.array([[one == other for other in roles] for one in roles])
    _, group = connected_components(same_roles & (cosine >= MIN_ALIKE), directed=False)
    return [int(each) for each in group]
