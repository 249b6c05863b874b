"""The stage that finds goals as Soroka et al. do, and measures what they print of it: Table 4 (hold-out), Figure 4
(stability), both of the whole algorithm, and the LLM-only baseline of appendix C.1.

The clustering of the first seed is stored and shown; the measurements are the result of the run. All replies are greedy
and all samples seeded, so the same run gives the same result. Replies are kept: a run that was stopped resumes after
the last one.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from engine.base.conversation import render_log, without_surrogates
from engine.base.number_format import counted
from engine.base.request_options import check, share, whole_number
from engine.conversations.tables import conversations
from engine.goals.clusters.validation import choose_held_out
from engine.goals.labels.phrase_labels import distinctive_words
from engine.goals.paper import (
    Distances,
    PaperClusters,
    Prompts,
    assigned_distances,
    categorise,
    own_distances,
    pairwise_ari,
    paper_clusters,
)
from engine.goals.stages.embedding import EmbedStage
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import Cluster, LabelEntry, Member
from engine.goals.tables.texts import TextSource
from engine.goals.tables.vectors import digest_of, read_vectors
from engine.goals.views.decision_log import DecisionLog
from engine.jobs.contract import OnProgress, Progress
from engine.model import tables as model_replies
from engine.model.catalog import LoadableModel
from engine.model.embedders.embedder import Embedder
from engine.model.embedders.vectors import Numbers, Vectors, has_vector, unit_rows
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.stages import ModelStage, ModelWork
from engine.model.tables import Reply
from engine.project import runs
from engine.project.project import Project
from engine.project.sql import to_json

WORDS_PER_CLUSTER = 8
"""Most distinctive words that are stored with a cluster."""
_BOOTSTRAP_STREAM, _ORDER_STREAM = 0xB0, 0xC1
"""Numbers of the streams of random numbers of bootstraps, and of the orders of the baseline (appendix C.1), so that the
two do not draw the same ones."""
_WORDS_PER_LABEL = 3
"""Most distinctive words in the label of a cluster that no model labeled."""


@dataclass(frozen=True, slots=True)
class PaperMeasurements:
    """Says what is measured beside the clustering.

    Attributes:
        seeds, bootstraps: More runs of the whole algorithm, with other seeds and on rows drawn with replacement.
        hold_out: Share of the conversations that is held out; None holds out none.
        orders: Shuffled orders in which the LLM-only baseline labels the conversations.
    """

    seeds: int = whole_number(0, "Figure 4: N more runs of the whole algorithm with other seeds")
    bootstraps: int = whole_number(0, "N more runs on conversations drawn with replacement")
    hold_out: float | None = share(
        None,
        "Table 4: cluster, describe and merge without this share, and assign it (the paper: 0.5)",
        metavar="SHARE",
    )
    orders: int = whole_number(
        0,
        "the baseline of appendix C.1: the model labels one whole log after another, in so many shuffled orders",
        flag="llm-only",
        metavar="ORDERS",
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True, eq=False)
class PaperResult:
    """What was found. Arrays of labels are in the order of `ids`, negative where a run does not have a conversation.

    Attributes:
        ids: Conversations with a summary and a vector, ascending.
        full: The clustering that is stored.
        distances: Distances of its members to their centers.
        seeds, bootstraps: Further runs.
        ari_seeds: Adjusted Rand index of each pair of runs with different seeds, the first included.
        ari_bootstraps: Of each bootstrap with the first run. None where two runs have hardly a row in common.
        train: The clustering without the held-out conversations; None if none were held out.
        train_distances, test_distances: Distances of its members, and of the held-out conversations to their nearest
            center; None if none were held out.
        categories: Of the LLM-only baseline, for each order the categories of each conversation.
        shortened: Logs of which the baseline's model read a part, because they do not fit its context.
    """

    ids: Sequence[int]
    full: PaperClusters
    distances: Distances
    seeds: list[PaperClusters] = field(default_factory=list)
    bootstraps: list[PaperClusters] = field(default_factory=list)
    ari_seeds: list[float | None] = field(default_factory=list)
    ari_bootstraps: list[float | None] = field(default_factory=list)
    train: PaperClusters | None = None
    train_distances: Distances | None = None
    test_distances: Distances | None = None
    categories: list[list[tuple[str, ...]]] = field(default_factory=list)
    shortened: int = 0


class _Embedded(NamedTuple):
    """Rows of length 1 or 0 of some summaries, shape (summaries, d), and the embedder that made them."""

    rows: Vectors
    embedder: Embedder


class PaperStage(ModelStage):
    """Clusters the summaries of the stages before as the paper does, and measures what is asked for.

    Attributes:
        result: What was found; None before the run.
    """

    name = "paper-goals"
    unit = "replies"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        decision_log: DecisionLog,
        embed: EmbedStage,
        source: Callable[[], TextSource],
        make_embedder: Callable[[], Embedder],
        prompts: Mapping[str, Prompt],
        *,
        k: int,
        seed: int = 0,
        measurements: PaperMeasurements | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            embed: The stage before that embeds the summaries.
            source: Returns the source of the summaries.
            make_embedder: Returns a new embedder like that of `embed`.
            prompts: The prompts `paper-label`, `paper-merge`, `paper-first-category` and `paper-categories`.
            k: Number of clusters to begin with, an overestimate.
            seed: Seed of k-means and of all samples.
            measurements: What is measured beside the clustering; None measures nothing.
        """
        super().__init__(project, process, model)
        self._decision_log, self._embed = decision_log, embed
        self._get_source, self._make_embedder = source, make_embedder
        self._prompts, self._k, self._seed = prompts, k, seed
        self._measurements = measurements or PaperMeasurements()
        self._replies = _ReplyCache(project, self._work)
        self.result: PaperResult | None = None

    @property
    def title(self) -> str:
        """The title of the run, for screens and logs."""
        return f"Clustering goals as in the paper with {self._work.model.label}"

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the clustering."""
        return {
            "vectors": self._embed.vector_key,
            "among": digest_of(self._embed.ids),
            "k": self._k,
            "seed": self._seed,
            "samples": "of each question",
            "prompts": {name: prompt.as_params() for name, prompt in self._prompts.items()},
            "context": self._work.model.options.context,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Clusters, stores and measures; yields the number of replies so far.

        Raises:
            UsageError: No conversation has a summary with a vector.
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        yield Progress(0, None, "loading the model")
        self._work.load()
        results: list[PaperResult] = []
        for _, note in self._work.live(
            lambda report: self._measure(run_id, report), results.append
        ):
            yield Progress(self._replies.count, None, note)
        self.result = results[0]
        count = self._replies.count
        self._project.write(lambda conn: runs.count(conn, run_id, count, count))
        yield Progress(count, count)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        if self.result is None:
            return "Nothing was clustered."
        full = self.result.full
        text = (
            f"Clustered {counted(len(self.result.ids), 'conversation')} into {int(full.first.max()) + 1}, merged to"
            f" {len(full.descriptions)} by {full.asked} questions"
        )
        if full.unread:
            text += f"; {full.unread} replies said neither yes nor no"
        return f"{text}.{self._work.spent()}"

    def _measure(self, run_id: int, report: OnProgress) -> PaperResult:
        """Returns the result of the clustering and of all further runs that are asked for."""
        with self._project.reading() as conn:
            all_ids, stored_rows = read_vectors(conn, self._embed.vector_key, self._embed.ids)
            ids = all_ids[has_vector(stored_rows)].tolist()
            texts = [entry.text for entry in self._get_source().each(conn, ids)]
        embedder = self._make_embedder()
        embedder.fit(texts)
        embedded = _Embedded(embedder.embed(texts), embedder)
        full = self._cluster("the clustering", texts, embedded, self._seed, report)
        self._store(run_id, ids, texts, embedded.rows, full)
        result = PaperResult(ids, full, own_distances(embedded.rows, full.labels))
        self._repeat_with_seeds(result, texts, embedded, report)
        self._repeat_on_bootstraps(result, texts, embedded, report)
        if self._measurements.hold_out is not None:
            result = self._hold_out(result, texts, self._measurements.hold_out, report)
        for number in range(self._measurements.orders):
            categories, shortened = self._baseline(ids, number, report)
            result.categories.append(categories)
            result = replace(result, shortened=result.shortened + shortened)
        return result

    def _repeat_with_seeds(
        self,
        result: PaperResult,
        texts: Sequence[str],
        embedded: _Embedded,
        report: OnProgress,
    ) -> None:
        """Adds to the result the runs with other seeds, and how far they agree."""
        for seed in range(self._seed + 1, self._seed + 1 + self._measurements.seeds):
            result.seeds.append(self._cluster(f"seed {seed}", texts, embedded, seed, report))
        runs_with_seeds = [run.labels for run in (result.full, *result.seeds)]
        result.ari_seeds.extend(pairwise_ari(runs_with_seeds))

    def _repeat_on_bootstraps(
        self,
        result: PaperResult,
        texts: Sequence[str],
        embedded: _Embedded,
        report: OnProgress,
    ) -> None:
        """Adds to the result the runs on rows drawn with replacement, and how far each agrees with the first run. A row
        that is drawn several times is clustered once."""
        for number in range(self._measurements.bootstraps):
            rng = np.random.default_rng([self._seed, number, _BOOTSTRAP_STREAM])
            sampled = np.unique(rng.integers(len(texts), size=len(texts))).astype(np.int32)
            clusters = self._cluster_sample(
                f"bootstrap {number + 1}",
                texts,
                sampled,
                embedded._replace(rows=embedded.rows[sampled]),
                report,
            )
            result.bootstraps.append(clusters)
            result.ari_bootstraps.extend(pairwise_ari([result.full.labels, clusters.labels]))

    def _hold_out(
        self, result: PaperResult, texts: Sequence[str], held_out_share: float, report: OnProgress
    ) -> PaperResult:
        """Returns the result with the run without a share of the conversations. The embedder is fitted on the others
        alone, so that nothing of the held-out ones reaches the clusters."""
        is_held_out = choose_held_out(len(texts), held_out_share, self._seed)
        sampled = np.flatnonzero(~is_held_out).astype(np.int32)
        train_texts = [texts[row] for row in sampled.tolist()]
        embedder = self._make_embedder()
        embedder.fit(train_texts)
        train_rows = embedder.embed(train_texts)
        test_rows = embedder.embed([texts[row] for row in np.flatnonzero(is_held_out).tolist()])
        train = self._cluster_sample(
            "the training part", texts, sampled, _Embedded(train_rows, embedder), report
        )
        train_labels = train.labels[sampled]
        return replace(
            result,
            train=train,
            train_distances=own_distances(train_rows, train_labels),
            test_distances=assigned_distances(train_rows, train_labels, test_rows),
        )

    def _cluster(
        self,
        name: str,
        texts: Sequence[str],
        embedded: _Embedded,
        seed: int,
        report: OnProgress,
    ) -> PaperClusters:
        """Returns the result of one run of the algorithm on texts and their rows.

        Args:
            name: Name of the run, for notes on progress.
        """

        def ask(prompt: Prompt, body: str) -> str:
            """Returns the model's reply."""
            text, _stopped, _note = self._replies.reply(prompt, [body], pinned_count=0)
            return text

        return paper_clusters(
            ask,
            self._algorithm_prompts,
            texts,
            embedded.rows,
            embed=embedded.embedder.embed,
            k=self._k,
            seed=seed,
            note=lambda what: self._note(report, f"{name}: {what}"),
        )

    def _cluster_sample(
        self,
        name: str,
        texts: Sequence[str],
        sampled: Numbers,
        embedded: _Embedded,
        report: OnProgress,
    ) -> PaperClusters:
        """Returns the result of one run on some of the texts; its labels and questions number all of them.

        Args:
            name: Name of the run, for notes on progress.
            texts: All texts.
            sampled: Indices of the texts to cluster, ascending, shape (sample,).
            embedded: Their rows, in this order.
        """
        sampled_texts = [texts[row] for row in sampled.tolist()]
        clusters = self._cluster(name, sampled_texts, embedded, self._seed, report)
        labels, first = (np.full(len(texts), -1, dtype=np.int32) for _ in range(2))
        labels[sampled], first[sampled] = clusters.labels, clusters.first
        questions = tuple(
            replace(
                question, shown=tuple(tuple(sampled[[*part]].tolist()) for part in question.shown)
            )
            for question in clusters.questions
        )
        return replace(clusters, labels=labels, first=first, questions=questions)

    @property
    def _algorithm_prompts(self) -> Prompts:
        """The prompts of the algorithm."""
        return Prompts(self._prompts["paper-label"], self._prompts["paper-merge"])

    def _note(self, report: OnProgress, what: str) -> None:
        """Reports what is done next; raises Cancelled if the run was interrupted."""
        self._work.check()
        report(self._replies.count, what)

    def _baseline(
        self, ids: Sequence[int], number: int, report: OnProgress
    ) -> tuple[list[tuple[str, ...]], int]:
        """Returns the categories of each conversation that the LLM-only baseline gives in one shuffled order, and how
        many logs were shortened.

        Args:
            ids: Ids of the conversations; the categories come in their order.
            number: Number of the shuffled order, from 0.
        """
        order = np.random.default_rng([self._seed, number, _ORDER_STREAM]).permutation(len(ids))
        with self._project.reading() as conn:
            pieces = {
                key: [piece.text for piece in render_log(messages)]
                for key, messages in conversations.conversations_for(conn, ids)
            }
        shortened = 0

        def ask(name: str, log: Sequence[str]) -> str:
            """Returns the reply to a log, whose first piece (the earlier answers) is never left out."""
            nonlocal shortened
            reply_count = f"{self._replies.count:,} replies"
            self._note(report, f"one after another, order {number + 1}: {reply_count}")
            text, _, note = self._replies.reply(self._prompts[name], log, pinned_count=1)
            shortened += note is not None
            return text

        by_conversation: list[tuple[str, ...]] = [()] * len(ids)
        labelled = categorise(ask, [pieces[ids[index]] for index in order])
        for index, categories in zip(order, labelled, strict=True):
            by_conversation[index] = categories
        return by_conversation, shortened

    def _store(
        self,
        run_id: int,
        ids: Sequence[int],
        texts: Sequence[str],
        rows: Vectors,
        result: PaperClusters,
    ) -> None:
        """Stores the clusters after merging with their descriptions, and shows them; where the same clustering is
        stored already, shows that one.

        Args:
            ids, texts: Of the conversations, in the order of the labels of `result`.
            rows: Vectors of the texts, shape (texts, d).
        """
        key = self.config_hash
        with self._project.reading() as conn:
            existing = clusterings.find(conn, key)
        if existing is not None:
            self._decision_log.return_to(existing)
            return
        count = len(result.descriptions)
        means = np.stack([rows[result.labels == number].mean(axis=0) for number in range(count)])
        distances = 1 - rows @ unit_rows(means).T
        words = distinctive_words(texts, result.labels, count=WORDS_PER_CLUSTER, seed=self._seed)
        clusters = []
        for number in range(count):
            member_distances = distances[result.labels == number, number]
            clusters.append(
                Cluster(
                    number=number,
                    size=len(member_distances),
                    spread=float(member_distances.mean()),
                    reach=float(member_distances.max()),
                    words=words.get(number, ()),
                    centre=means[number].astype("<f4").tobytes(),
                )
            )
        labels_of_words = [
            LabelEntry(number, " · ".join(words.get(number, ())[:_WORDS_PER_LABEL]), "")
            for number in range(count)
        ]
        clustering_id = self._decision_log.add_clustering(
            config_hash=key,
            run_id=run_id,
            vector_config=self._embed.vector_key,
            k=self._k,
            seed=self._seed,
            clusters=clusters,
            members=[
                Member(ids[index], None if label < 0 else label, float(distances[index, label]))
                for index, label in enumerate(result.labels.tolist())
            ],
            names=labels_of_words,
        )
        self._store_descriptions(run_id, clustering_id, result.descriptions)

    def _store_descriptions(
        self, run_id: int, clustering_id: int, descriptions: Sequence[str]
    ) -> None:
        """Stores the model's descriptions as the labels of the clusters."""
        key = self.config_hash
        entries = [
            LabelEntry(number, label, "", None if label else "the model wrote nothing")
            for number, label in enumerate(descriptions)
        ]

        def store_labels(conn: sqlite3.Connection) -> None:
            """Stores the labels in one transaction."""
            clusterings.register_labels(conn, clustering_id, key)
            clusterings.add_labels(conn, clustering_id, key, run_id, entries)

        self._project.write(store_labels)


class _ReplyCache:
    """The model's replies. They are kept in the project, so a run that is resumed does not ask for them again: all are
    greedy and would be the same.

    Attributes:
        count: Number of replies so far, kept ones included.
    """

    def __init__(self, project: Project, work: ModelWork) -> None:
        self._project, self._work = project, work
        self.count = 0

    def reply(self, prompt: Prompt, pieces: Sequence[str], pinned_count: int) -> Reply:
        """Returns the reply to a text inside the prompt.

        Args:
            pieces: The text in pieces; the middle ones are left out where the context has no room for all.
            pinned_count: Number of pieces at the beginning that are never left out.

        Raises:
            ModelError: The model cannot answer, after the tries of `ModelWork.each`.
            Cancelled: The work was interrupted.
        """
        self._work.check()
        identity = [
            "paper-goals", prompt.as_params(), list(pieces), pinned_count,
            dict(self._work.model.fingerprints), self._work.model.options.context,
        ]  # fmt: skip
        key = hashlib.sha256(to_json(identity).encode("ascii")).hexdigest()
        with self._project.reading() as conn:
            replies = model_replies.replies(conn, [key])
        if key not in replies:
            [new_reply] = self._work.each(
                [(pieces, pinned_count)],
                lambda items: self._work.replies(items, prompt, lambda count, what: None),
                lambda reason: None,
            )
            if new_reply is None:
                assert self._work.failure is not None, "it says why"
                raise self._work.failure
            replies[key] = without_surrogates(new_reply.text), new_reply.stopped, new_reply.note
            self._project.write(lambda conn: model_replies.add_replies(conn, replies.items()))
        self.count += 1
        return replies[key]
