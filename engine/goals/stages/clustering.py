"""The stages that cluster vectors, transferring the decisions of people from the clustering that was shown before, and
that let a model label the clusters."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.goals.clusters.cluster_count import propose_k
from engine.goals.clusters.clustering import MIN_MEMBERS, OUTLIER_DEVIATIONS, Clusters, cluster
from engine.goals.labels.distinctive_words import distinctive_words
from engine.goals.labels.member_texts import LEAST_SUPPORT
from engine.goals.labels.phrase_labels import MAX_TEXTS_PER_CLUSTER, phrase_labels, support_of
from engine.goals.questions import (
    EXAMPLES,
    LABEL_EXAMPLES,
    LABEL_PROMPT,
    GoalLabel,
    Named,
    choose,
    clean_label,
    lists,
    numbered_lists,
    read_description,
)
from engine.goals.records import DEFAULT_TEXT, Clustering, Ids
from engine.goals.stages.embedding import EmbedStage
from engine.goals.tables import clusterings, vectors
from engine.goals.tables.clusterings import (
    PHRASES,
    Cluster,
    LabelEntry,
    Member,
    source_of,
    stored_clustering,
)
from engine.goals.tables.texts import LazyTexts, TextSource
from engine.goals.tables.vectors import digest_of, read_vectors
from engine.goals.views.decision_log import DecisionLog
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.model.catalog import LoadableModel
from engine.model.embedders.vectors import Vectors, blocks
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.stages import BlockStage
from engine.model.structured_replies import ask
from engine.project import runs
from engine.project.project import Project
from engine.project.records import StageCost

WORDS_PER_CLUSTER = 8
"""Most distinctive words that are stored with a cluster."""

OUTSIDE_EXAMPLES = 10
"""Number of texts outside a cluster in a label question."""

LABEL_LIKE_OTHERS = "Book a flight"
"""Stands for the label of another group in estimates."""

CLUSTERS_PER_BLOCK = 8
"""Clusters in one request to the model."""


@dataclass(frozen=True, slots=True)
class _NewClustering:
    """A clustering that is not stored yet.

    Attributes:
        ids: Ids of its conversations, in the order of the rows of `clusters`.
        k: Number of clusters asked for or proposed.
        clusters: The partition.
        cluster_rows, labels: The rows of the clusters and of their labels to store.
    """

    ids: Ids
    k: int
    clusters: Clusters
    cluster_rows: list[Cluster]
    labels: list[LabelEntry]


class ClusterStage(CpuStage):
    """Clusters vectors, stores the result in one transaction and makes it the clustering that is shown."""

    name = "cluster"
    title = "Clustering goals"

    def __init__(
        self,
        project: Project,
        decision_log: DecisionLog,
        embed: EmbedStage,
        *,
        k: int | None = None,
        seed: int = 0,
        paper: bool = False,
    ) -> None:
        """Reads nothing yet.

        Args:
            embed: The stage before, whose vectors are clustered.
            k: Number of clusters, an overestimate; None proposes one from the data.
            paper: Whether every conversation is placed, as in the paper.
        """
        super().__init__(project)
        self._decision_log, self._embed = decision_log, embed
        self._k, self._seed, self._paper = k, seed, paper
        self.clustering_id: int | None = None
        self._summary = "Nothing was clustered."

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {
            "vectors": self._embed.vector_key,
            "among": digest_of(self._embed.ids),
            "k": self._k,
            "seed": self._seed,
            "paper": self._paper,
            "labels": PHRASES,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Clusters and stores the result; if there is a clustering with the same parameters, shows it instead.

        Raises:
            UsageError: No conversation has a vector, or more clusters are asked for than the conversations fill.
            Cancelled: `interrupt` was called.
        """
        self._raise_if_cancelled()
        if self.is_stored():
            assert self.clustering_id is not None
            self._decision_log.return_to(self.clustering_id)
            self._summary = "This was clustered before; it is shown again."
            return
        new = yield from self._run_on_thread(
            self._cluster_vectors, lambda done, note: Progress(done, None, note)
        )
        self._raise_if_cancelled()
        self._store(new, run_id)
        count = len(new.ids)
        self._project.write(lambda conn: runs.count(conn, run_id, count, count))
        yield Progress(count, count)

    def is_stored(self) -> bool:
        """Returns whether there is a clustering with the same parameters; `clustering_id` is then that one."""
        with self._project.reading() as conn:
            self.clustering_id = clusterings.newest_id(conn, self.config_hash)
        return self.clustering_id is not None

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return self._summary

    def _cluster_vectors(self, report: OnProgress) -> _NewClustering:
        """Returns the clusters with words and labels; runs on a thread of its own."""
        with self._project.reading() as conn:
            ids, rows = read_vectors(conn, self._embed.vector_key, self._embed.ids)
            report(0, f"{len(ids):,} vectors read")
            k, least = self._k, 1 if self._paper else MIN_MEMBERS
            if k is not None and k * least > max(len(ids), least):
                raise UsageError(
                    f"{counted(len(ids), 'conversation')} cannot fill {k:,} clusters of {least} or more.",
                    f"Ask for {max(1, len(ids) // least):,} at most, or leave --k1 out.",
                )
            if k is None:
                k = min(propose_k(rows, self._seed), max(1, len(ids)))
                report(0, f"{k} clusters proposed")
            clusters = cluster(
                rows,
                k,
                self._seed,
                cut=None if self._paper else OUTLIER_DEVIATIONS,
                least=least,
                note=lambda step, steps: report(0, f"{k} clusters, step {step} of {steps}"),
            )
            report(0, "looking for distinctive words")
            texts = LazyTexts(conn, self._source(conn).shown, ids)
            words = distinctive_words(
                texts, clusters.labels, count=WORDS_PER_CLUSTER, seed=self._seed
            )
            report(0, "looking for labels")
            kind = self._source(conn).kind
            names = phrase_labels(texts, clusters.labels, clusters.distances, self._seed, kind)
        labels = [
            LabelEntry(key, name.label, name.description, support=name.support)
            for key, name in names.items()
        ]
        return _NewClustering(ids, k, clusters, _cluster_rows(rows, clusters, words), labels)

    def _source(self, conn: sqlite3.Connection) -> TextSource:
        """Returns the source of the texts that were embedded."""
        config = vectors.config(conn, self._embed.vector_key)
        return TextSource(DEFAULT_TEXT) if config is None else TextSource(config.text, config.goal_config)  # fmt: skip

    def _store(self, new: _NewClustering, run_id: int) -> None:
        """Stores the clustering, shows it and takes over the decisions of people."""
        self.clustering_id = self._decision_log.add_clustering(
            config_hash=self.config_hash,
            run_id=run_id,
            vector_config=self._embed.vector_key,
            k=new.k,
            seed=self._seed,
            clusters=new.cluster_rows,
            members=_members(new.ids, new.clusters),
            labels=new.labels,
            paper=self._paper,
        )
        outliers = int((new.clusters.labels < 0).sum())
        conversations = counted(len(new.ids), "conversation")
        self._summary = (
            f"Clustered {conversations} into {new.clusters.k}, {counted(outliers, 'outlier')}."
        )
        transferred = len(self._decision_log.history(self.clustering_id))
        unplaced = len(self._decision_log.unplaced(self.clustering_id))
        if transferred or unplaced:
            self._summary += (
                f" Decisions taken over: {transferred:,}; without a place: {unplaced:,}."
            )


def _cluster_rows(
    rows: Vectors, clusters: Clusters, words: Mapping[int, tuple[str, ...]]
) -> list[Cluster]:
    """Returns the rows of the clusters to store, by number.

    Args:
        rows: Vectors of the conversations, shape (conversations, d).
        words: Distinctive words of each cluster, by number.
    """
    _, dimensions = rows.shape
    sums = np.zeros((clusters.k, dimensions), dtype=np.float64)
    for block in blocks(len(rows)):
        labels = clusters.labels[block]
        np.add.at(sums, labels[labels >= 0], rows[block][labels >= 0])
    return [
        Cluster(
            number=number,
            size=size,
            words=words.get(number, ()),
            center=(sums[number] / size).astype("<f4").tobytes(),
        )
        for number, size in enumerate(clusters.sizes.tolist())
    ]


def _members(ids: Ids, clusters: Clusters) -> Iterator[Member]:
    """Yields the membership of each conversation."""
    for row, conversation_id in enumerate(ids.tolist()):
        label = int(clusters.labels[row])
        yield Member(
            conversation_id=conversation_id,
            cluster=label if label >= 0 else None,
            distance=float(clusters.distances[row]),
        )


class OnClustering:
    """Mixin of stages that work on one clustering: the one that the stage before makes, or the one that is open."""

    _project: Project
    _cluster: ClusterStage | None = None

    @cached_property
    def _stored(self) -> Clustering:
        """The clustering; read when it is first needed, because the stage before must have made it."""
        with self._project.reading() as conn:
            key = self._cluster.clustering_id if self._cluster else clusterings.open_id(conn)
            return stored_clustering(conn, key)


@dataclass(frozen=True, slots=True)
class GroupForecast:
    """What is known of the groups of a clustering that is still to be made, for estimates.

    Attributes:
        least, most: Fewest and most groups.
        conversations: Number of conversations in all groups.
        texts: Some texts, as many as a question shows if there are so many.
    """

    least: int
    most: int
    conversations: int
    texts: Sequence[str]

    @property
    def middling(self) -> int:
        """A number of groups between the fewest and the most, the geometric mean."""
        return math.isqrt(self.least * self.most)

    def texts_of(self, groups: int, limit: int) -> Sequence[str]:
        """Returns as many texts as some groups of mean size have where there is a middling number of them, at most
        `limit`."""
        return self.texts[: min(-(-self.conversations * groups // self.middling), limit)]


class LabelStage(OnClustering, BlockStage[int, LabelEntry]):
    """Labels the clusters that have no label under this configuration yet, the largest first.

    As in the paper it shows the model ten random members and ten random others, and the free reply is the label.

    Attributes:
        written: Number of clusters that the model labeled.
        without: Number of clusters that it gave no label.
    """

    name = "label"
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

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"Labeling clusters with {self._work.model.label}"

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
        with self._project.reading() as conn:
            ids, numbers = clusterings.membership(conn, self._stored.id)
        return np.asarray(ids), np.asarray(numbers)

    @cached_property
    def _vectors(self) -> Vectors:
        """Vectors in the order of `_members`, shape (conversations, d)."""
        ids, _ = self._members
        with self._project.reading() as conn:
            _, rows = read_vectors(conn, self._stored.vector_config, ids)
        return rows

    def _key_of(self, entry: LabelEntry) -> int:
        """Returns the number of the cluster of an entry."""
        return entry.number

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[LabelEntry]) -> None:
        """Stores the labels of a block."""
        clusterings.add_labels(conn, self._stored.id, self.config_hash, run_id, entries)

    def _tally(self, entries: Sequence[LabelEntry]) -> None:
        """Counts the labels of a block after they were stored."""
        self.without += sum(1 for entry in entries if entry.reason)
        self.written += sum(1 for entry in entries if not entry.reason)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[LabelEntry]:
        """Returns the label of each cluster of a block, or the reason why the model gave none."""
        names = self._work.each(
            block,
            partial(self._ask, report=report),
            lambda reason: Named("", reason=reason),
        )
        return [self._entry(number, name) for number, name in zip(block, names, strict=True)]

    def _entry(self, number: int, name: Named) -> LabelEntry:
        """Returns the entry of a cluster; where the model gave no label, a phrase of its members is its label."""
        entry = LabelEntry(number, name.label, name.description, name.reason or None, name.support)
        if name.reason and (phrase := self._phrases.get(number)):
            return replace(phrase, reason=name.reason)
        return entry

    @cached_property
    def _phrases(self) -> dict[int, LabelEntry]:
        """The label of each cluster by phrases of its members, by number."""
        with self._project.reading() as conn:
            return clusterings.phrase_labels(conn, self._stored.id)

    def _ask(self, block: Sequence[int], report: OnProgress) -> list[Named]:
        """Returns the model's name for each cluster of a block, or why it gave none."""
        names = self._replies([self._body(number) for number in block], report)
        if self._is_paper:
            return names
        return [
            name if name.reason else self._supported(number, name)
            for number, name in zip(block, names, strict=True)
        ]

    def _replies(self, bodies: Sequence[str], report: OnProgress) -> list[Named]:
        """Returns the name that the model gives each group by the lists of its question, or why it gave none."""
        if self._is_paper:
            texts = map(read_description, self._work.free_replies(bodies, self._prompt, report))
            return [Named(text, reason="" if text else "the model wrote nothing") for text in texts]
        names = []
        for reply in ask(self._work.process, self._prompt, GoalLabel, bodies, report):
            name = reply.fields
            label = "" if name is None else clean_label(name.label)
            reason = "" if label else reply.failure or "the model gave no label"
            description = "" if name is None else name.description.strip()
            names.append(Named(label, description, reason))
        return names

    def _supported(self, number: int, name: Named) -> Named:
        """Returns a name with its support; with a reason against it where too few members say what it says."""
        ids, numbers = self._members
        members = choose(ids[numbers == number].tolist(), MAX_TEXTS_PER_CLUSTER, self._stored.seed)
        with self._project.reading() as conn:
            entries = source_of(self._stored).shown.read(conn, members)
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
            choose(ids[inside].tolist(), self._most_members, self._stored.seed),
            self._outside(number, inside),
        )
        with self._project.reading() as conn:
            source = source_of(self._stored).shown
            members, others = (
                [entry.text for entry in source.read(conn, sample)] for sample in samples
            )
        labels = [entry.label for other, entry in self._phrases.items() if other != number]
        return self._lists(members, others, labels)

    def _lists(
        self, members: Sequence[str], others: Sequence[str], other_labels: Sequence[str]
    ) -> str:
        """Returns the lists of the label question, as much of each as there is room for; as in the paper without
        labels."""
        if self._is_paper:
            return lists(("GROUP", members), ("NOT IN GROUP", others))
        return numbered_lists(
            self._work.room(self._prompt),
            other_labels=other_labels[:LABEL_EXAMPLES],
            not_in_group=others,
            group=members,
        )

    @property
    def _is_paper(self) -> bool:
        """Whether groups are described in the words of the paper."""
        return self._prompt.name == LABEL_PROMPT

    @property
    def _most_members(self) -> int:
        """The most members of a group that its question shows."""
        return EXAMPLES if self._is_paper else LABEL_EXAMPLES

    def _outside(self, number: int, inside: np.ndarray[Any, np.dtype[np.bool_]]) -> list[int]:
        """Returns ids of conversations outside a cluster: those nearest to its center, which gives more specific
        labels, or random ones as in the paper. All vectors are compared, which is faster than an index for one query
        per cluster.

        Args:
            inside: Whether each conversation is in the cluster, in the order of `_members`, shape (conversations,).
        """
        ids, _ = self._members
        if self._is_paper:
            return choose(ids[~inside].tolist(), OUTSIDE_EXAMPLES, self._stored.seed)
        center = np.frombuffer(self._clusters[number].center, dtype="<f4")
        cosines = self._vectors @ center
        cosines[inside] = -np.inf
        count = min(OUTSIDE_EXAMPLES, len(ids))
        # The nearest in any order, without sorting all; then these are sorted, equal ones by their ids.
        nearest = np.argpartition(-cosines, count - 1)[:count]
        ordered = nearest[np.lexsort((nearest, -cosines[nearest]))]
        return [int(ids[row]) for row in ordered if not inside[row]]
