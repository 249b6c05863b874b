"""Splits of a group: the parts that k-means proposes, and the decision for parts that a person chose."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain

import numpy as np

from engine.base.errors import UsageError
from engine.goals.clusters import clustering
from engine.goals.merges.merge_state import Ids
from engine.goals.questions.phrase_labels import distinctive_words, phrase_labels
from engine.goals.records import GoalDecision, SplitPart, SplitProposal
from engine.goals.tables import answers as goal_answers
from engine.goals.views.clustering_view import ClusteringView, Space
from engine.goals.views.goal_inputs import LazyTexts, source_of
from engine.goals.views.group_members import group_members
from engine.goals.views.split_candidates import as_if_split, split_candidates
from engine.model.embedders.vectors import Numbers
from engine.project.project import Project

SHOWN = 10
"""Members of a part in a preview."""
SEED = 0
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
        answers = goal_answers.answers(conn, view.stored.pair_config, keys)
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
    labelled with phrases of their members.

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
