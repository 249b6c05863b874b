"""The stage that names the current groups by phrases of their members.

A name is *supported* if enough members say what it says. Groups without a supported name have no request in common;
they are joined where they are fragments of one goal, and the remaining ones become one group, the *rest*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from engine.base.number_format import counted
from engine.goals.clusters.neighbors import find_fragments, find_loose_groups, measure_mixing
from engine.goals.labels.phrase_labels import phrase_labels
from engine.goals.merges.merge_state import Group, MergeState
from engine.goals.questions import Named
from engine.goals.records import GoalDecision
from engine.goals.stages.clustering import OneActStage
from engine.goals.tables.clusterings import source_of
from engine.goals.tables.texts import LazyTexts
from engine.goals.views.clustering_view import ClusteringView
from engine.goals.views.decision_log import Plan
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import OnProgress


class NameStage(OneActStage):
    """Renames, as one act, the current groups that no person named, by phrases of their members. Groups without a
    request in common are joined before: the fragments of a goal, which few words tell from one another, and the rest.
    """

    name = "name"
    title = "Naming groups"
    unit = "groups"
    renamed = joined = 0
    """Number of groups that got another name, and of those without a common request that were joined."""

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Named {counted(self.renamed, 'group')} by phrases of their members"
        if self.joined:
            text += f"; joined {self.joined:,} without a common request"
        return text + "."

    def _find_decisions(self, report: OnProgress) -> Plan:
        """Returns the plan that joins groups without a common request and gives groups their names; all are named
        together, so that no two get the same."""
        view = self._queue_cache.view(self._stored.id)
        state = view.state
        groups = {group.id: group for group in _groups_to_name(state)}
        if not any(group.made_of or group.support is None for group in groups.values()):
            return lambda _: []  # no group is more than its cluster, which has its label
        report(0, "looking for labels")
        refused = {key for pair in (*state.refused, *state.forbidden) for key in pair}
        keys = list(state.current)
        joinable = {
            number for number, key in enumerate(keys) if key in groups and key not in refused
        }
        members = _Members(self._queue_cache, view)
        with self._project.reading() as conn:
            texts = LazyTexts(conn, source_of(self._stored).shown, members.ids)
            joined_sets, names = members.join_unsupported(texts, joinable)
        self.joined = len({number for numbers in joined_sets for number in numbers})
        return partial(self._plan, keys, set(groups), joined_sets, names)

    def _plan(
        self,
        keys: Sequence[str],
        renamable: Collection[str],
        joined_sets: Sequence[Sequence[int]],
        names: Mapping[int, Named],
        state: MergeState,
    ) -> Iterator[GoalDecision]:
        """Yields the merges, each of the group that the one before made, and then the new names.

        Args:
            keys: Ids of the groups, by their indices.
            renamable: Ids of the groups that may get another name, besides those that are made here.
            joined_sets: Indices of the groups of each set that becomes one, whose index is its first one.
            names: Names of the groups by their indices, after all joins.
            state: The groups, to which each decision is applied before the next is asked for.
        """
        current_keys, renamable_keys = list(keys), set(renamable)
        first_of = {number: first for first, *others in joined_sets for number in others}
        for first, *others in joined_sets:
            final = first
            while final in first_of:
                final = first_of[final]
            name = names[final]
            for number in others:
                yield GoalDecision(
                    "merge",
                    (current_keys[first], current_keys[number]),
                    ((name.label, name.description),),
                    author="auto",
                    evidence={"rest": True} if name.support is None else None,
                )
                current_keys[first] = next(reversed(state.current))
                renamable_keys.add(current_keys[first])
        for number, name in names.items():
            group = state.groups[current_keys[number]]
            is_named_so = (name.label, name.support) == (group.label, group.support)
            if group.id in renamable_keys and not is_named_so:
                self.renamed += 1
                yield GoalDecision(
                    "rename",
                    (group.id,),
                    ((name.label, name.description),),
                    author="auto",
                    evidence={"support": name.support},
                )


class _Members:
    """The conversations of the current groups with their vectors, while groups are joined.

    Attributes:
        ids: Ids of the conversations that have a vector, ascending.
        numbers: Index of the group of each in `MergeState.current`, that of the first where groups were joined.
    """

    def __init__(self, queue_cache: MergeQueueCache, view: ClusteringView) -> None:
        """Reads the members of the current groups of a view."""
        space, state = queue_cache.space(view.stored), view.state
        ids, group_indices = state.group_indices(list(state.current))
        has_vector = np.isin(ids, space.ids, assume_unique=True)
        self.ids, self.numbers = ids[has_vector], group_indices[has_vector]
        self._stored, self._rows = view.stored, space.rows_of(self.ids)
        self._group_count = len(state.current)
        sampled_ids, self._cosines = queue_cache.sampled_cosines(view)
        self._sampled_rows = np.searchsorted(self.ids, sampled_ids)

    def join_unsupported(
        self, texts: LazyTexts, joinable: Collection[int]
    ) -> tuple[list[list[int]], dict[int, Named]]:
        """Joins groups without a supported name: twice the fragments of goals, and then the rest.

        Args:
            texts: Texts of the conversations, in the order of `ids`.
            joinable: Indices of the groups that may be joined.

        Returns:
            The indices of each set that was joined, under the first of which its members are counted from then on; and
            the names of all groups after that, by their indices.
        """
        joined_sets: list[list[int]] = []
        names = self._names(texts, {})
        for find_sets in (find_fragments, find_fragments, find_loose_groups):
            unsupported = {number for number, name in names.items() if name.support is None}
            sampled_numbers = self.numbers[self._sampled_rows]
            shares = measure_mixing(self._cosines, sampled_numbers, self._group_count)
            sets = find_sets(shares, sorted(unsupported.intersection(joinable)))
            for first, *others in sets:
                self.numbers[np.isin(self.numbers, others)] = first
            if sets:
                joined_sets += sets
                names = self._names(texts, names)
        return joined_sets, names

    def _names(self, texts: LazyTexts, before: Mapping[int, Named]) -> dict[int, Named]:
        """Returns the names of all groups by their indices; a group that had a supported name before others were joined
        keeps it, unless another group has it now."""
        distances = np.zeros(len(self.ids), dtype=np.float32)
        for number in np.unique(self.numbers):
            is_member = self.numbers == number
            rows = self._rows[is_member]
            distances[is_member] = 1 - rows @ rows.mean(axis=0)
        seed, text = self._stored.seed, self._stored.text
        names = phrase_labels(texts, self.numbers, distances, seed, text)
        labels = {name.label for name in names.values()}
        for number, name in names.items():
            old = before.get(number)
            if name.support is None and old and old.support and old.label not in labels:
                names[number] = old
        return names


def _groups_to_name(state: MergeState) -> list[Group]:
    """Returns the current groups that no person pinned, made or named."""
    groups = [state.groups[key] for key in state.current]
    return [
        group
        for group in groups
        if not group.pinned
        and not any(by and by.author == "human" for by in (group.made_by, group.named_by))
    ]
