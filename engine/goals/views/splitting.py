"""Splits of groups: the groups that seem to hold several goals, the parts that k-means proposes, and the decision for
parts that a person chose.

A group seems to hold several goals where its two halves lie about as far apart as groups do.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from engine.base.errors import UsageError
from engine.goals.clusters import clustering
from engine.goals.clusters.clustering import split
from engine.goals.labels.phrase_labels import distinctive_words, phrase_labels
from engine.goals.merges.merge_state import MergeState, pair_of
from engine.goals.records import GoalDecision, Ids, Pair, SplitPart, SplitProposal
from engine.goals.tables import decisions
from engine.goals.tables.clusterings import source_of
from engine.goals.tables.texts import LazyTexts
from engine.goals.views.clustering_view import ClusteringView, Space
from engine.goals.views.group_members import group_members
from engine.model.embedders.vectors import Indices, Numbers, Vectors, mean_direction
from engine.project.project import Project

LEAST_MEMBERS = 8
"""Fewest members of a group that is looked at."""

MOST_MEMBERS = 2_000
"""Of a larger group so many members, drawn at random, are looked at."""

LEAST_APART = 0.75
"""From here on a group is proposed for splitting; docs/goals.md has how often that was right."""


def gap_between_parts(vectors: Vectors, members: Indices, seed: int = 0) -> float:
    """Returns the cosine distance between the centers of the two parts into which k-means splits a group; 0 where all
    members are equal.

    Args:
        vectors: Shape (n, d), rows of length 1.
        members: Rows of the group.
    """
    rows = np.sort(np.asarray(members, dtype=np.int64))
    if len(rows) > MOST_MEMBERS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_MEMBERS, replace=False))
    parts = split(vectors, rows, 2, seed)
    if len(parts) < 2:
        return 0.0
    first, second = (mean_direction(vectors, part) for part in parts)
    return float(1 - first @ second)


def usual_gap(centres: Vectors) -> float:
    """Returns the median distance from a group to the nearest other one; 1 where there is one group only.

    Args:
        centres: Mean vectors of the groups, shape (groups, d), rows of length 1.
    """
    if len(centres) < 2:
        return 1.0
    nearest = []
    for number, centre in enumerate(centres):
        near = centres @ centre
        near[number] = -np.inf
        nearest.append(1 - float(near.max()))
    return float(np.median(nearest))


SEED = 0


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """A group that may hold several goals.

    Attributes:
        apart: Distance between the centers of its two parts, as a share of the usual distance between groups.
        parts: Conversation ids of each part, the larger one first.
    """

    group_id: str
    apart: float
    parts: tuple[tuple[int, ...], ...]


def split_candidates(view: ClusteringView, space: Space) -> list[SplitCandidate]:
    """Returns the candidates, the one whose parts lie farthest apart first. Pinned groups and parts of a split that a
    person made are left out: they were looked at."""
    state = view.state
    usual = usual_gap(view.centres([*state.current], space))
    found = []
    for key in state.current:
        group = state.groups[key]
        members = np.intersect1d(view.members(key), space.ids, assume_unique=True)
        by = group.made_by
        looked_at = group.pinned or (by is not None and by.kind == "split" and by.author == "human")
        if looked_at or len(members) < LEAST_MEMBERS or not usual:
            continue
        rows = space.of(members)
        apart = gap_between_parts(rows, np.arange(len(rows)), SEED) / usual
        if apart >= LEAST_APART:
            halves = split(rows, np.arange(len(rows)), 2, SEED)
            parts = tuple(tuple(members[half].tolist()) for half in halves)
            if len(parts) > 1:
                found.append(SplitCandidate(key, apart, parts))
    return sorted(found, key=lambda one: -one.apart)


def as_if_split(
    state: MergeState, candidates: Sequence[SplitCandidate]
) -> tuple[MergeState, list[Pair]]:
    """Returns a state in which the candidates are split, which is stored nowhere, and the pair of parts of each."""
    supposed = state.copy()
    pairs = []
    for number, one in enumerate(candidates, 1):
        parts = tuple(array("q", part) for part in one.parts)
        decision = GoalDecision("split", (one.group_id,), parts=parts)
        decision = replace(supposed.complete(decision), id=-number)
        supposed.apply(decision)
        first, second = decision.made[:2]
        pairs.append(pair_of(first, second))
    return supposed, pairs


SHOWN = 10
"""Members of a part in a preview."""
_EVEN = 0.5
"""Below, a model takes two parts for two goals."""


def preview(
    project: Project, view: ClusteringView, space: Space, group_id: str, parts: int
) -> list[SplitPart]:
    """The parts into which k-means would split a group.

    Raises:
        UsageError: There is no such group any more.
    """
    view.state.group(group_id)
    members = view.members(group_id)
    rows = clustering.split(space.of(members), np.arange(len(members)), parts, SEED)
    labels = np.zeros(len(members), dtype=np.int32)
    for number, own in enumerate(rows):
        labels[own] = number
    words = _words(project, view, members, labels)
    listed = group_members(project, view, space, group_id, "central", None)
    by_id = {row.conversation_id: row for row in listed}
    found = []
    for number, own in enumerate(rows):
        ids = members[own]
        mean = space.of(ids).mean(axis=0)
        order = np.argsort(-(space.of(ids) @ mean), kind="stable")[:SHOWN]
        central = tuple(by_id[int(key)] for key in ids[order])
        found.append(SplitPart(words[number], len(ids), central, tuple(ids.tolist())))
    return found


def proposals(project: Project, view: ClusteringView, space: Space) -> list[SplitProposal]:
    """The groups that seem to hold several goals, with the model's word where it was asked. Groups whose parts it takes
    for two goals come first, then by the distance of their parts."""
    candidates = split_candidates(view, space)
    supposed, pairs = as_if_split(view.state, candidates)
    keys = [supposed.sides_key(*pair) for pair in pairs]
    with project.reading() as conn:
        answers = decisions.answers(conn, view.stored.pair_config)
    found = []
    for one, key in zip(candidates, keys, strict=True):
        answer = answers.get(key)
        told = [] if answer is None else [answer.yes, answer.yes_reversed]
        both = [p for p in told if p is not None]
        ids = np.array(sorted(chain.from_iterable(one.parts)), dtype=np.int64)
        labels = np.zeros(len(ids), dtype=np.int32)
        for number, part in enumerate(one.parts):
            labels[np.isin(ids, part)] = number
        words = _words(project, view, ids, labels)
        found.append(
            SplitProposal(
                one.group_id,
                view.state.groups[one.group_id].label,
                len(view.members(one.group_id)),
                one.apart,
                sum(both) / len(both) if both else None,
                answer.model if answer is not None and both else "",
                tuple(words[number] for number in range(len(one.parts))),
                one.parts,
            )
        )
    return sorted(found, key=lambda one: one.same is None or one.same >= _EVEN)


def decision(
    project: Project, view: ClusteringView, group_id: str, parts: Sequence[Sequence[int]]
) -> GoalDecision:
    """The decision to split a group by conversation ids; members in none of the parts make one more part. Parts are
    labeled with phrases of their members.

    Raises:
        UsageError: There is no such group any more, or a part has a conversation that is not in it.
    """
    view.state.group(group_id)
    members = view.members(group_id)
    wanted = [array("q", sorted(set(part))) for part in parts]
    if {key for part in wanted for key in part}.difference(members.tolist()):
        raise UsageError(
            "A part has a conversation that is not in the group.", "Look at its members again."
        )
    labels = np.full(len(members), len(wanted), dtype=np.int32)
    for number, part in enumerate(wanted):
        labels[np.isin(members, part)] = number
    with project.reading() as conn:
        texts = LazyTexts(conn, source_of(view.stored).shown, members.tolist())
        named = phrase_labels(texts, labels)
    names = tuple((named[n].label, named[n].description) for n in sorted(named))
    return GoalDecision("split", (group_id,), names, tuple(wanted))


def _words(
    project: Project, view: ClusteringView, members: Ids, labels: Numbers
) -> dict[int, tuple[str, ...]]:
    with project.reading() as conn:
        texts = LazyTexts(conn, source_of(view.stored).shown, members.tolist())
        return distinctive_words(texts, labels)
