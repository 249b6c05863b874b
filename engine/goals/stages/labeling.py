"""The stages that label groups: a model labels the clusters of a clustering, and phrases of their members name the
current groups.

A label is *supported* if enough members say what it says. Where the model gives a cluster no such label, a phrase of
the members stays its label. Groups without a request in common are joined where they are fragments of one goal, which
have one together. One whose words do not tell it from others either is *rest*: in no theme and no proposal.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.goals.clusters.neighbors import find_fragments, measure_mixing
from engine.goals.labels.member_texts import LEAST_SUPPORT
from engine.goals.labels.phrase_labels import MAX_TEXTS_PER_CLUSTER, phrase_labels, support_of
from engine.goals.merges.merge_state import Group, MergeState, free_labels
from engine.goals.questions import (
    LABEL_EXAMPLES,
    LABEL_PROMPT,
    PAPER_EXAMPLES,
    GoalLabel,
    clean_label,
    draw_sample,
    numbered_lists,
    paper_lists,
    read_description,
)
from engine.goals.records import ClusterName, GoalDecision, Ids
from engine.goals.stages.clustering import ClusterStage, GroupForecast, OnClustering, OneActStage
from engine.goals.tables import clusterings
from engine.goals.tables import groups as goal_groups
from engine.goals.tables.clusterings import Cluster, source_of
from engine.goals.tables.texts import LazyTexts
from engine.goals.tables.vectors import read_vectors
from engine.goals.views.clustering_view import ClusteringView
from engine.goals.views.decision_log import Plan
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import OnProgress, Progress
from engine.model.catalog import LoadableModel
from engine.model.embedders.vectors import Mask, Numbers, Vectors
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.stages import BlockStage
from engine.model.structured_replies import ask
from engine.project.project import Project
from engine.project.records import StageCost

OUTSIDE_EXAMPLES = 10
"""Number of texts outside a cluster in a label question."""

LABEL_LIKE_OTHERS = "Book a flight"
"""Stands for the label of another group in estimates."""

CLUSTERS_PER_BLOCK = 8
"""Clusters in one request to the model."""

NumberedName = tuple[int, ClusterName]


class LabelStage(OnClustering, BlockStage[int, NumberedName]):
    """Labels the clusters that have no label under this configuration yet, the largest first.

    As in the paper it shows the model ten random members and ten random others, and the free reply is the label.

    Attributes:
        written: Number of clusters that the model labeled.
        without: Number of clusters that it gave no label.
    """

    name = "label"
    work_title = "Labeling clusters"
    unit = "clusters"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        prompt: Prompt,
        *,
        cluster: ClusterStage | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            prompt: The prompt `paper-label` for a clustering as in the paper, else `label-json`.
            cluster: The stage before that makes the clustering; None takes the one that is open.
        """
        super().__init__(project, process, model)
        self._prompt, self._cluster = prompt, cluster
        self.written = self.without = 0

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {
            "clustering": self._stored.config_hash,
            "prompt": self._prompt.as_params(),
            "paper": self._stored.paper,
            "seed": self._stored.seed,
            "context": self._work.model.options.context,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Labels block by block; each in one transaction with the counter of the run.

        Raises:
            UsageError: Nothing was clustered yet.
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        key, clustering_id = self.config_hash, self._stored.id
        self._project.write(lambda conn: clusterings.show_labels(conn, clustering_id, key))
        if self._asks_again:
            self._project.write(lambda conn: clusterings.forget_failures(conn, clustering_id, key))
        missing = set(self.waiting())
        numbers = sorted(self._clusters)
        planned = [
            numbers[start : start + CLUSTERS_PER_BLOCK]
            for start in range(0, len(numbers), CLUSTERS_PER_BLOCK)
        ]
        yield from self._load_and_answer(run_id, planned, missing)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Labeled {counted(self.written, 'cluster')} with {self._work.model.label}"
        if self.without:
            text += f"; {self.without:,} are named by phrases of their members"
        return f"{text}.{self._work.spent()}"

    def estimate_ahead(self, groups: GroupForecast) -> StageCost:
        """Returns what asking endpoints costs before there are groups; sends nothing."""
        body = self._lists(
            groups.texts_of(1, self._most_members),
            groups.texts_of(groups.middling - 1, OUTSIDE_EXAMPLES),
            [LABEL_LIKE_OTHERS] * (groups.middling - 1),
        )
        asking = partial(self._replies, [body], lambda _count, _note: None)
        return self._cost([asking], groups.most, groups.least / groups.most)

    def waiting(self) -> list[int]:
        """Returns the numbers of the clusters that a run would label now, rising."""
        with self._project.reading() as conn:
            return sorted(
                clusterings.clusters_without_label(conn, self._stored.id, self.config_hash)
            )

    @cached_property
    def _clusters(self) -> dict[int, Cluster]:
        """The clusters by number."""
        with self._project.reading() as conn:
            return {c.number: c for c in clusterings.clusters(conn, self._stored.id)}

    @cached_property
    def _members(self) -> tuple[Ids, Ids]:
        """Conversation ids, ascending, and the cluster of each, both of shape (conversations,)."""
        ids, numbers = self._project.read(clusterings.membership, self._stored.id)
        return np.asarray(ids), np.asarray(numbers)

    @cached_property
    def _vectors(self) -> Vectors:
        """Vectors in the order of `_members`, shape (conversations, d)."""
        ids, _ = self._members
        _, rows = self._project.read(read_vectors, self._stored.vector_config, ids)
        return rows

    def _key_of(self, entry: NumberedName) -> int:
        """Returns the number of the cluster of an entry."""
        number, _ = entry
        return number

    def _store(
        self, conn: sqlite3.Connection, run_id: int, entries: Sequence[NumberedName]
    ) -> None:
        """Stores the labels of a block, with numbers where other groups have them; as in the paper without."""
        names = dict(entries)
        if not self._is_paper:
            label_counts = Counter(goal_groups.labels_by_group(conn, self._stored.id).values())
            free = free_labels([name.label for name in names.values()], label_counts)
            for (number, name), label in zip(entries, free, strict=True):
                names[number] = replace(name, label=label)
        clusterings.add_labels(conn, self._stored.id, self.config_hash, run_id, names)

    def _tally(self, entries: Sequence[NumberedName]) -> None:
        """Counts the labels of a block after they were stored."""
        self.without += sum(1 for _, name in entries if name.reason)
        self.written += sum(1 for _, name in entries if not name.reason)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[NumberedName]:
        """Returns the name of each cluster of a block; where the model gave none, its phrase, with the reason."""
        names = self._work.each(
            block,
            partial(self._ask, report=report),
            lambda reason: ClusterName("", reason=reason),
        )
        return [
            (number, replace(self._phrases.get(number, name), reason=name.reason))
            if name.reason
            else (number, name)
            for number, name in zip(block, names, strict=True)
        ]

    @cached_property
    def _phrases(self) -> dict[int, ClusterName]:
        """The name of each cluster by phrases of its members, by number."""
        return self._project.read(clusterings.phrase_labels, self._stored.id)

    def _ask(self, block: Sequence[int], report: OnProgress) -> list[ClusterName]:
        """Returns the model's name for each cluster of a block, or why it gave none."""
        names = self._replies([self._body(number) for number in block], report)
        if self._is_paper:
            return names
        return [
            name if name.reason else self._supported(number, name)
            for number, name in zip(block, names, strict=True)
        ]

    def _replies(self, bodies: Sequence[str], report: OnProgress) -> list[ClusterName]:
        """Returns the name that the model gives each group by the lists of its question, or why it gave none."""
        if self._is_paper:
            texts = map(read_description, self._work.free_replies(bodies, self._prompt, report))
            return [
                ClusterName(text, reason="" if text else "the model wrote nothing")
                for text in texts
            ]
        names = []
        for reply in ask(self._work.process, self._prompt, GoalLabel, bodies, report):
            name = reply.fields
            label = "" if name is None else clean_label(name.label)
            reason = "" if label else reply.failure or "the model gave no label"
            description = "" if name is None else name.description.strip()
            names.append(ClusterName(label, description, reason))
        return names

    def _supported(self, number: int, name: ClusterName) -> ClusterName:
        """Returns a name with its support; with a reason against it where too few members say what it says."""
        ids, numbers = self._members
        members = self._draw(ids[numbers == number], MAX_TEXTS_PER_CLUSTER)
        entries = self._project.read(source_of(self._stored).shown.read, members)
        support = support_of(name.label, [entry.text for entry in entries])
        few = f"its words are in {support.members:,} of {support.read:,} members"
        return replace(name, reason=few if support.share < LEAST_SUPPORT else "", support=support)

    def bodies(self, count: int) -> dict[str, str]:
        """Returns the lists of the label questions on the first clusters, by the labels that these have."""
        self._work.load()
        return {
            f"{number + 1}. {self._clusters[number].label}": self._body(number)
            for number in sorted(self._clusters)[:count]
        }

    def _body(self, number: int) -> str:
        """Returns the lists of the label question: members, other conversations, and labels of other clusters."""
        ids, numbers = self._members
        inside = numbers == number
        samples = (
            self._draw(ids[inside], self._most_members),
            self._outside(number, inside),
        )
        with self._project.reading() as conn:
            source = source_of(self._stored).shown
            members, others = (
                [entry.text for entry in source.read(conn, sample)] for sample in samples
            )
        labels = [name.label for other, name in self._phrases.items() if other != number]
        return self._lists(members, others, labels)

    def _lists(
        self, members: Sequence[str], others: Sequence[str], other_labels: Sequence[str]
    ) -> str:
        """Returns the lists of the label question, as much of each as there is room for; as in the paper without
        labels."""
        if self._is_paper:
            return paper_lists(("GROUP", members), ("NOT IN GROUP", others))
        return numbered_lists(
            self._work.room(self._prompt),
            other_labels=other_labels[:LABEL_EXAMPLES],
            not_in_group=others,
            group=members,
        )

    def _draw(self, ids: Ids, count: int) -> list[int]:
        """Returns up to `count` of some conversations, the same for the same ids."""
        return draw_sample(ids.tolist(), count, self._stored.seed)

    @property
    def _is_paper(self) -> bool:
        """Whether groups are described in the words of the paper."""
        return self._prompt.name == LABEL_PROMPT

    @property
    def _most_members(self) -> int:
        """The most members of a group that its question shows."""
        return PAPER_EXAMPLES if self._is_paper else LABEL_EXAMPLES

    def _outside(self, number: int, inside: Mask) -> list[int]:
        """Returns ids of conversations outside a cluster: those nearest to its center, which gives more specific
        labels, or random ones as in the paper. All vectors are compared, which is faster than an index for one query
        per cluster.

        Args:
            inside: Whether each conversation is in the cluster, in the order of `_members`, shape (conversations,).
        """
        ids, _ = self._members
        if self._is_paper:
            return self._draw(ids[~inside], OUTSIDE_EXAMPLES)
        center = np.frombuffer(self._clusters[number].center, dtype="<f4")
        cosines = self._vectors @ center
        cosines[inside] = -np.inf
        count = min(OUTSIDE_EXAMPLES, len(ids))
        # The nearest in any order, without sorting all; then these are sorted, equal ones by their ids.
        nearest = np.argpartition(-cosines, count - 1)[:count]
        ordered = nearest[np.lexsort((nearest, -cosines[nearest]))]
        return [int(ids[row]) for row in ordered if not inside[row]]


class NameStage(OneActStage):
    """Renames, as one act, the current groups that no person named, by phrases of their members. Groups without a
    request in common are joined before where they are fragments of a goal, which few words tell from one another.
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
        if not groups:
            return lambda _: []
        report(0, "looking for labels")
        refused = {key for pair in (*state.refused, *state.forbidden) for key in pair}
        keys = list(state.current)
        joinable = {
            number for number, key in enumerate(keys) if key in groups and key not in refused
        }
        members = _Members(self._queue_cache, view)
        with self._project.reading() as conn:
            texts = LazyTexts(conn, source_of(self._stored).shown, members.ids)
            joined_sets, names = members.join_fragments(texts, joinable)
        self.joined = len({number for numbers in joined_sets for number in numbers})
        return partial(self._plan, keys, set(groups), joined_sets, names)

    def _plan(
        self,
        keys: Sequence[str],
        renamable: Collection[str],
        joined_sets: Sequence[Sequence[int]],
        names: Mapping[int, ClusterName],
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
                )
                current_keys[first] = next(reversed(state.current))
                renamable_keys.add(current_keys[first])
        for number, name in names.items():
            group = state.groups[current_keys[number]]
            is_rest = name.support is None
            named_before = group.label, group.support, group.is_rest
            if group.id in renamable_keys and (name.label, name.support, is_rest) != named_before:
                self.renamed += 1
                yield GoalDecision(
                    "rename",
                    (group.id,),
                    ((name.label, name.description),),
                    author="auto",
                    evidence={"support": name.support, "rest": is_rest},
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

    def join_fragments(
        self, texts: LazyTexts, joinable: Collection[int]
    ) -> tuple[list[list[int]], dict[int, ClusterName]]:
        """Joins groups without a common request that are fragments of a goal: together they have one.

        Args:
            texts: Texts of the conversations, in the order of `ids`.
            joinable: Indices of the groups that may be joined.

        Returns:
            The indices of each set that was joined, under the first of which its members are counted from then on; and
            the names of all groups after that, by their indices.
        """
        joined_sets: list[list[int]] = []
        names = self._names(texts, self.numbers, {})
        # many fragments mix with few of the others; where such sets are of several goals, stricter ones may be of one
        for mutual in (False, True):
            lacking = [n for n in sorted(names) if n in joinable and not _has_request(names[n])]
            sampled_numbers = self.numbers[self._sampled_rows]
            shares = measure_mixing(self._cosines, sampled_numbers, self._group_count)
            is_in_group = sampled_numbers >= 0
            sizes = np.bincount(sampled_numbers[is_in_group], minlength=self._group_count)
            for fragments in find_fragments(shares, sizes, lacking, mutual=mutual):
                joined = np.where(np.isin(self.numbers, fragments), fragments[0], self.numbers)
                joined_names = self._names(texts, joined, names)
                if _has_request(joined_names[fragments[0]]):
                    self.numbers, names = joined, joined_names
                    joined_sets.append(fragments)
        return joined_sets, names

    def _names(
        self, texts: LazyTexts, numbers: Numbers, before: Mapping[int, ClusterName]
    ) -> dict[int, ClusterName]:
        """Returns the names of all groups by their indices; a group that had a common request before others were joined
        keeps the name, unless another group has it now.

        Args:
            numbers: Index of the group of each conversation.
        """
        distances = np.zeros(len(self.ids), dtype=np.float32)
        for number in np.unique(numbers):
            is_member = numbers == number
            rows = self._rows[is_member]
            distances[is_member] = 1 - rows @ rows.mean(axis=0)
        seed, text = self._stored.seed, self._stored.text
        names = phrase_labels(texts, numbers, distances, seed, text)
        labels = {name.label for name in names.values()}
        for number, name in names.items():
            old = before.get(number)
            if _has_request(name) or old is None or not _has_request(old):
                continue
            if old.label not in labels:
                names[number] = old
        return names


def _has_request(name: ClusterName) -> bool:
    """Returns whether the name of a group is a request that its members have in common."""
    return name.support is not None and not name.by_words


def _groups_to_name(state: MergeState) -> list[Group]:
    """Returns the current groups that no person pinned, made or named."""
    groups = [state.groups[key] for key in state.current]
    return [
        group
        for group in groups
        if not group.pinned
        and not any(by and by.author == "human" for by in (group.made_by, group.named_by))
    ]
