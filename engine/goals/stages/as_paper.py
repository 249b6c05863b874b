"""The stage that finds goals as Soroka et al. do, and measures what they print of it: Table 4 (hold-out), Figure 4
(stability), both of the whole algorithm, and the LLM-only baseline of appendix C.1.

The clustering of the first seed is stored and shown; the measurements are the result of the run. All replies are greedy
and all samples seeded, so the same run gives the same result. Replies are kept: a run that was stopped resumes after
the last one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from engine.base.conversation import render_log, without_surrogates
from engine.base.number_format import counted
from engine.conversations.tables import conversations
from engine.goals.clusters.validation import held_out
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
from engine.goals.tables.clusterings import LabelEntry, Member, NewCluster
from engine.goals.tables.texts import TextSource
from engine.goals.tables.vectors import digest_of, read_vectors
from engine.goals.views.decision_log import DecisionLog
from engine.jobs.contract import OnProgress, Progress
from engine.model.embedders.embedder import Embedder
from engine.model.embedders.vectors import Numbers, Vectors, has_vector, unit_rows
from engine.model.model_work import ModelWork, RunModel
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.stages import ModelStage
from engine.project import replies as model_replies
from engine.project import runs
from engine.project.project import Project
from engine.project.replies import Reply
from engine.project.sql import to_json

WORDS = 8


@dataclass(frozen=True, slots=True)
class PaperMeasurements:
    """What is measured beside the clustering.

    Attributes:
        seeds, bootstraps: More runs of the whole algorithm, with other seeds and on rows drawn with replacement.
        share: Share of the conversations that is held out; None holds out none.
        orders: Shuffled orders in which the LLM-only baseline labels the conversations.
    """

    seeds: int = 0
    bootstraps: int = 0
    share: float | None = None
    orders: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PaperResult:
    """What was found. Arrays of labels are in the order of `ids`, negative where a run does not have a conversation.

    Attributes:
        ids: Conversations with a summary and a vector, ascending.
        full: The clustering that is stored, and the distances of its members.
        seeds, bootstraps: Further runs.
        ari_seeds: Adjusted Rand index of each pair of runs with different seeds, the first included.
        ari_bootstraps: Of each bootstrap with the first run. None where two runs have hardly a row in common.
        train: The clustering without the held-out conversations, with distances of both; None if none were held out.
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


class PaperStage(ModelStage):
    """Clusters the summaries of the stages before as the paper does, and measures what is wanted.

    Attributes:
        result: What was found; None before the run.
    """

    name = "paper-goals"
    unit = "replies"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: RunModel,
        decision_log: DecisionLog,
        embed: EmbedStage,
        source: Callable[[], TextSource],
        make: Callable[[], Embedder],
        prompts: Mapping[str, Prompt],
        *,
        k: int,
        seed: int = 0,
        wanted: PaperMeasurements | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            embed: The stage before that embeds the summaries.
            source: Returns the source of the summaries.
            make: Returns a new embedder like that of `embed`.
            prompts: The prompts `paper-label`, `paper-merge`, `paper-first-category` and `paper-categories`.
            k: Number of clusters to begin with, an overestimate.
        """
        super().__init__(project, process, model)
        self._decision_log, self._embed = decision_log, embed
        self._get_source, self._make = source, make
        self._prompts, self._k, self._seed = prompts, k, seed
        self._wanted = wanted or PaperMeasurements()
        self._replies = _ReplyCache(project, self._work)
        self.result: PaperResult | None = None

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
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
        """Clusters, stores, and measures.

        Raises:
            UsageError: No conversation has a summary with a vector.
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        yield Progress(0, None, "loading the model")
        self._work.load()
        found: list[PaperResult] = []
        for _, note in self._work.live(lambda report: self._measure(run_id, report), found.append):
            yield Progress(self._replies.count, None, note)
        self.result = found[0]
        count = self._replies.count
        self._project.write(lambda conn: runs.count(conn, run_id, count, count))
        yield Progress(count, count)

    def summary(self) -> str:
        """The result in one sentence with counts."""
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
        with self._project.reading() as conn:
            every, rows = read_vectors(conn, self._embed.vector_key, self._embed.ids)
            live = has_vector(rows)
            ids = every[live]
            texts = [entry.text for entry in self._get_source().each(conn, ids.tolist())]
        embedder = self._make()
        embedder.fit(texts)
        rows = embedder.embed(texts)

        def run_on(
            name: str, some: Numbers | None, seed: int, embedder: Embedder, own: Vectors
        ) -> PaperClusters:
            """One run on some of the rows; its labels cover all rows."""
            chosen = texts if some is None else [texts[row] for row in some]
            made = paper_clusters(
                lambda prompt, body: self._replies.reply(prompt, [body], 0)[0],
                self._pair, chosen, own, embedder.embed, self._k, seed,
                lambda what: self._note(report, f"{name}: {what}"),
            )  # fmt: skip
            if some is None:
                return made
            labels, first = (np.full(len(texts), -1, dtype=np.int32) for _ in range(2))
            labels[some], first[some] = made.labels, made.first
            questions = tuple(
                replace(one, shown=tuple(tuple(some[[*part]].tolist()) for part in one.shown))
                for one in made.questions
            )
            return replace(made, labels=labels, first=first, questions=questions)

        full = run_on("the clustering", None, self._seed, embedder, rows)
        self._store(run_id, ids.tolist(), texts, rows, full)
        result = PaperResult(ids.tolist(), full, own_distances(rows, full.labels))
        for number in range(self._wanted.seeds):
            seed = self._seed + 1 + number
            result.seeds.append(run_on(f"seed {seed}", None, seed, embedder, rows))
        result.ari_seeds.extend(pairwise_ari([one.labels for one in (full, *result.seeds)]))
        for number in range(self._wanted.bootstraps):
            rng = np.random.default_rng([self._seed, number, 0xB0])
            some = np.unique(rng.integers(len(texts), size=len(texts))).astype(np.int32)
            made = run_on(f"bootstrap {number + 1}", some, self._seed, embedder, rows[some])
            result.bootstraps.append(made)
            result.ari_bootstraps.extend(pairwise_ari([full.labels, made.labels]))
        if self._wanted.share is not None:
            test = held_out(len(texts), self._wanted.share, self._seed)
            some = np.flatnonzero(~test).astype(np.int32)
            own = self._make()
            own.fit([texts[row] for row in some])
            near = own.embed([texts[row] for row in some])
            far = own.embed([texts[row] for row in np.flatnonzero(test)])
            train = run_on("the training part", some, self._seed, own, near)
            result = replace(
                result,
                train=train,
                train_distances=own_distances(near, train.labels[some]),
                test_distances=assigned_distances(near, train.labels[some], far),
            )
        for number in range(self._wanted.orders):
            labelled, shortened = self._baseline(ids.tolist(), number, report)
            result.categories.append(labelled)
            result = replace(result, shortened=result.shortened + shortened)
        return result

    @property
    def _pair(self) -> Prompts:
        return Prompts(self._prompts["paper-label"], self._prompts["paper-merge"])

    def _note(self, report: OnProgress, what: str) -> None:
        self._work.check()
        report(self._replies.count, what)

    def _baseline(
        self, ids: Sequence[int], number: int, report: OnProgress
    ) -> tuple[list[tuple[str, ...]], int]:
        """The categories of each conversation in one shuffled order, and how many logs were shortened."""
        order = np.random.default_rng([self._seed, number, 0xC1]).permutation(len(ids))
        with self._project.reading() as conn:
            pieces = {
                key: [piece.text for piece in render_log(messages)]
                for key, messages in conversations.conversations_for(conn, ids)
            }
        shortened = 0

        def ask(name: str, log: Sequence[str]) -> str:
            nonlocal shortened
            done = f"{self._replies.count:,} replies"
            self._note(report, f"one after another, order {number + 1}: {done}")
            text, _, note = self._replies.reply(self._prompts[name], log, 1)
            shortened += note is not None
            return text

        found: list[tuple[str, ...]] = [()] * len(ids)
        labelled = categorise(ask, [pieces[ids[at]] for at in order])
        for at, categories in zip(order, labelled, strict=True):
            found[at] = categories
        return found, shortened

    def _store(
        self,
        run_id: int,
        ids: Sequence[int],
        texts: Sequence[str],
        rows: Vectors,
        found: PaperClusters,
    ) -> None:
        """Stores the clusters after merging with their descriptions, and shows them."""
        key = self.config_hash
        with self._project.reading() as conn:
            before = clusterings.find(conn, key)
        if before is not None:
            self._decision_log.return_to(before)
            return
        count = len(found.descriptions)
        means = np.stack([rows[found.labels == number].mean(axis=0) for number in range(count)])
        far = 1 - rows @ unit_rows(means).T
        words = distinctive_words(texts, found.labels, count=WORDS, seed=self._seed)
        clusters = []
        for number in range(count):
            own = far[found.labels == number, number]
            clusters.append(
                NewCluster(
                    number, len(own), float(own.mean()), float(own.max()),
                    words.get(number, ()), means[number].astype("<f4").tobytes(),
                )
            )  # fmt: skip
        made = self._decision_log.add_clustering(
            config_hash=key,
            run_id=run_id,
            vector_config=self._embed.vector_key,
            k=self._k,
            seed=self._seed,
            clusters=clusters,
            members=[
                Member(ids[at], None if label < 0 else label, float(far[at, label]))
                for at, label in enumerate(found.labels.tolist())
            ],
            names=[LabelEntry(n, " · ".join(words.get(n, ())[:3]), "") for n in range(count)],
        )
        entries = [
            LabelEntry(number, described, "", None if described else "the model wrote nothing")
            for number, described in enumerate(found.descriptions)
        ]

        def labels(conn: Any) -> None:
            clusterings.register_labels(conn, made, key)
            clusterings.add_labels(conn, made, key, run_id, entries)

        self._project.write(labels)


class _ReplyCache:
    """The model's replies. They are kept in the project, so a run that is resumed does not ask for them again: all are
    greedy and would be the same.

    Attributes:
        count: Number of replies so far, kept ones included.
    """

    def __init__(self, project: Project, work: ModelWork) -> None:
        self._project, self._work = project, work
        self.count = 0

    def reply(self, prompt: Prompt, pieces: Sequence[str], kept: int) -> Reply:
        """The reply to a text inside the prompt.

        Args:
            pieces: The text in pieces; the middle ones are left out where the context has no room for all.
            kept: Number of pieces at the beginning that are never left out.

        Raises:
            ModelError: The model cannot answer, after the tries of `ModelWork.each`.
            Cancelled: The work was interrupted.
        """
        self._work.check()
        asked = [
            "paper-goals", prompt.as_params(), list(pieces), kept,
            dict(self._work.model.fingerprints), self._work.model.options.context,
        ]  # fmt: skip
        key = hashlib.sha256(to_json(asked).encode("ascii")).hexdigest()
        with self._project.reading() as conn:
            known = model_replies.replies(conn, [key])
        if key not in known:
            [written] = self._work.each(
                [(pieces, kept)],
                lambda items: self._work.replies(items, prompt, lambda count, what: None),
                lambda reason: None,
            )
            assert written is not None  # of a single item, `each` raises what failed
            known[key] = without_surrogates(written.text), written.stopped, written.note
            self._project.write(lambda conn: model_replies.add_replies(conn, known.items()))
        self.count += 1
        return known[key]
