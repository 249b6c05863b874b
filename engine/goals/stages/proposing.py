"""The stages that ask a model about pairs of groups, in the order of the merge queue, and about the parts of groups
that seem to hold several goals."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.goals.merges.merge_state import MergeState
from engine.goals.questions import (
    EXAMPLES,
    REASON_GRAMMAR,
    Asker,
    LogProb,
    MergeQuestion,
    ask_merges,
    choose,
    likelihood_ratios,
    merge_body,
    read_mixed,
    read_reason,
)
from engine.goals.records import Pair, PairAnswer
from engine.goals.stages.clustering import ClusterStage, OnClustering, ProcessAsker
from engine.goals.tables import decisions
from engine.goals.tables.clusterings import source_of
from engine.goals.tables.decisions import AnswerEntry
from engine.goals.tables.texts import TextSource
from engine.goals.views.merge_queue import MergeQueueCache
from engine.goals.views.splitting import as_if_split, split_candidates
from engine.jobs.contract import OnProgress, Progress
from engine.model.catalog import LoadableModel
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.stages import ModelStage
from engine.project import runs
from engine.project.project import Project

REQUESTS_PER_PAIR = 3
"""Requests for each pair: yes or no, likelihood ratio, reason."""


class PairQuestions:
    """Asks about pairs of groups of one clustering.

    Each block of pairs has requests of its own, and so have the texts that are read once for each group. So no answer
    depends on the questions before it.
    """

    def __init__(
        self,
        project: Project,
        source: TextSource,
        merge: Prompt,
        reason: Prompt,
        *,
        seed: int,
        model: str,
    ) -> None:
        """Sends nothing yet.

        Args:
            merge, reason: Prompts `merge` and `merge-reason`.
            seed: Seed of the sample of texts that the model reads.
            model: Name of the model.
        """
        self._project, self._source = project, source
        self._merge, self._reason = merge, reason
        self._seed, self._model = seed, model
        self._mixed: dict[tuple[int, ...], list[LogProb]] = {}

    def params(self) -> dict[str, Any]:
        """Returns the parameters that determine the answers, besides the model and the members."""
        return {
            "text": self._source.kind,
            "goals": self._source.goal_config,
            "merge": self._merge.as_params(),
            "reason": self._reason.as_params(),
            "seed": self._seed,
        }

    def ask(self, asker: Asker, state: MergeState, pairs: Sequence[Pair]) -> list[AnswerEntry]:
        """Returns an answer on each of a block of pairs of current groups, in order."""
        start_time = time.monotonic()
        sides = sorted({key for pair in pairs for key in pair})
        samples = {key: self._sample(state.members(key).tolist()) for key in sides}
        outside = {key: self._outside(state, (key,)) for key in sides}
        outsiders_of_pairs = [self._outside(state, pair) for pair in pairs]
        texts = self._texts([*samples.values(), *outside.values(), *outsiders_of_pairs])

        def texts_of(ids: Sequence[int]) -> list[str]:
            """Returns the texts of conversations, in the order of the ids."""
            return [texts[key] for key in ids]

        questions = [
            MergeQuestion(
                tuple(texts_of(samples[a])), tuple(texts_of(samples[b])), tuple(texts_of(outsiders))
            )
            for (a, b), outsiders in zip(pairs, outsiders_of_pairs, strict=True)
        ]
        yes = ask_merges(asker, self._merge, questions)
        sample_texts = {key: texts_of(ids) for key, ids in samples.items()}
        mixed = {
            key: self._after_mixed(
                asker, key, samples[key], sample_texts[key], texts_of(outside[key])
            )
            for key in sides
        }
        ratios = likelihood_ratios(asker, pairs, sample_texts, mixed)
        replies = asker.generate(
            self._reason,
            [merge_body(q.first, q.second, q.others) for q in questions],
            grammar=REASON_GRAMMAR,
        )
        seconds_per_pair = (time.monotonic() - start_time) / len(pairs)
        answers = []
        for pair, yes_both_orders, ratio, reply in zip(pairs, yes, ratios, replies, strict=True):
            reason_reply = read_reason(self._reason, reply)
            answers.append(
                AnswerEntry(
                    state.sides_key(*pair),
                    PairAnswer(
                        ratio,
                        *yes_both_orders,
                        reason_reply.reason,
                        reason_reply.label,
                        reason_reply.description,
                        self._model,
                    ),
                    REQUESTS_PER_PAIR,
                    seconds_per_pair,
                )
            )
        return answers

    def given_up(self, state: MergeState, pair: Pair, reason: str) -> AnswerEntry:
        """Returns the answer that is stored for a pair that the model could not be asked about."""
        key = state.sides_key(*pair)
        return AnswerEntry(key, PairAnswer(reason=reason, model=self._model), 0, 0.0)

    def _after_mixed(
        self,
        asker: Asker,
        key: str,
        members: Sequence[int],
        member_texts: Sequence[str],
        outside_texts: Sequence[str],
    ) -> list[LogProb]:
        """Returns the log-probabilities of the texts of a group after a mixed list, which are read once for each
        group."""
        log_probs = self._mixed.get(tuple(members))
        if log_probs is None:
            log_probs = read_mixed(asker, {key: outside_texts}, {key: member_texts})[key]
            self._mixed[tuple(members)] = log_probs
        return log_probs

    def _sample(self, ids: Sequence[int]) -> list[int]:
        """Returns a random sample of these conversations, the same for the same ids."""
        return choose(ids, EXAMPLES, self._seed)

    def _outside(self, state: MergeState, but: Sequence[str]) -> list[int]:
        """Returns a sample of the conversations that are in none of the groups `but`."""
        members = np.concatenate([state.members(key) for key in but])
        return self._sample(
            np.setdiff1d(state.conversation_ids, members, assume_unique=True).tolist()
        )

    def _texts(self, samples: Sequence[Sequence[int]]) -> Mapping[int, str]:
        """Returns the texts of all conversations of some samples, by id."""
        ids = sorted({key for sample in samples for key in sample})
        with self._project.reading() as conn:
            return {entry.conversation_id: entry.text for entry in self._source.read(conn, ids)}


PAIRS_PER_BLOCK = 4
"""Pairs in one block of questions."""


class ProposeStage(OnClustering, ModelStage):
    """Asks about the undecided pairs that were not asked about yet, in the order of the merge queue.

    The queue is read again before each block, so it follows decisions that a person makes meanwhile. Answers are stored
    under a hash of the members of both groups, so they are found again when a decision is undone.
    """

    name = "propose"
    unit = "pairs"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        queue_cache: MergeQueueCache,
        merge: Prompt,
        reason: Prompt,
        *,
        limit: int | None = None,
        cluster: ClusterStage | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            queue_cache: Reads the merge queue.
            merge, reason: Prompts `merge` and `merge-reason`.
            limit: Most pairs to ask about; None asks about all.
            cluster: The stage before that makes the clustering; None takes the one that is shown.
        """
        super().__init__(project, process, model)
        self._queue_cache, self._merge, self._reason = queue_cache, merge, reason
        self._limit, self._cluster = limit, cluster
        self.asked = 0

    @property
    def title(self) -> str:
        """The title of the run, for screens and logs."""
        return f"Asking {self._work.model.label} about merges"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the answers, besides the model and the members of the groups."""
        return {**self._questions.params(), "context": self._work.model.options.context}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Asks block by block, each in a transaction of its own with the counter of the run; yields the pairs asked
        about.

        Raises:
            UsageError: Nothing was clustered yet.
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        self.show_answers()
        if self._asks_again:
            key = self.config_hash
            self._project.write(lambda conn: decisions.forget_failures(conn, key))
        waiting = self.waiting()
        if not waiting:
            return
        yield Progress(0, self._total(waiting), "loading the model")
        self.load()
        while waiting and (self._limit is None or self.asked < self._limit):
            self._work.check()
            room = max(PAIRS_PER_BLOCK, self._work.process.parallel)
            if self._limit is not None:
                room = min(room, self._limit - self.asked)
            yield from self.ask(run_id, waiting[:room], self._total(waiting))
            waiting = self.waiting()

    def show_answers(self) -> None:
        """Makes the answers of this configuration those that the merge queue shows."""
        key, clustering_id = self.config_hash, self._stored.id
        self._project.write(lambda conn: decisions.show_answers(conn, clustering_id, key))

    def load(self) -> None:
        """Loads the model unless it is loaded already."""
        self._work.load()

    def waiting(self) -> list[Pair]:
        """Returns the undecided pairs that were not asked about, the next first."""
        return self._queue_cache.snapshot(self._stored.id).unasked()

    def ask(self, run_id: int, block: Sequence[Pair], total: int | None) -> Iterator[Progress]:
        """Asks about a block of pairs and stores the answers; the model must be loaded.

        Args:
            total: Number of pairs of the run; None leaves the counter of the run as it is.
        """
        state = self._state()
        entries: list[AnswerEntry] = []
        for _ in self._work.live(partial(self._answer, state, block), entries.extend):
            yield Progress(self.asked, total)
        self.asked += len(block)
        self._project.write(partial(self._commit, run_id=run_id, entries=entries, total=total))
        yield Progress(self.asked, total)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Asked {self._work.model.label} about {counted(self.asked, 'pair')} of groups."
        return text + self._work.spent()

    def _state(self) -> MergeState:
        """Returns the groups that are asked about."""
        return self._queue_cache.decision_log.state(self._stored.id)

    @cached_property
    def _questions(self) -> PairQuestions:
        """The questions about the clustering; made when it is first needed, because the stage before must have made
        it."""
        return PairQuestions(
            self._project,
            source_of(self._stored).shown,
            self._merge,
            self._reason,
            seed=self._stored.seed,
            model=self._work.model.label,
        )

    def _answer(
        self, state: MergeState, block: Sequence[Pair], report: OnProgress
    ) -> list[AnswerEntry]:
        """Returns an entry for each pair: the model's answer, or the reason why there is none. Endpoints are asked
        about all pairs side by side."""
        if self._work.model.endpoints:
            with ThreadPoolExecutor(len(block), "asking") as threads:
                entries = threads.map(lambda pair: self._answer_block(state, [pair], report), block)
                return [entry for [entry] in entries]
        return self._answer_block(state, block, report)

    def _answer_block(
        self, state: MergeState, block: Sequence[Pair], report: OnProgress
    ) -> list[AnswerEntry]:
        """Returns an entry for each pair of a block that is asked about together."""
        asker = ProcessAsker(self._work.process, report)
        reasons: list[str] = []

        def given_up(reason: str) -> AnswerEntry | None:
            """Notes why the model could not be asked about a pair, in the order of the pairs."""
            reasons.append(reason)
            return None

        entries = self._work.each(
            block, lambda pairs: self._questions.ask(asker, state, pairs), given_up
        )
        remaining_reasons = iter(reasons)
        if not self._work.model.writes_labels:
            entries = [
                entry and replace(entry, answer=replace(entry.answer, label="", description=""))
                for entry in entries
            ]
        return [
            answered or self._questions.given_up(state, pair, next(remaining_reasons))
            for pair, answered in zip(block, entries, strict=True)
        ]

    def _commit(
        self,
        conn: sqlite3.Connection,
        *,
        run_id: int,
        entries: Sequence[AnswerEntry],
        total: int | None,
    ) -> None:
        """Stores the answers of a block, and the counter of the run unless `total` is None."""
        decisions.add_answers(conn, self.config_hash, run_id, entries)
        if total is not None:
            runs.count(conn, run_id, self.asked, total)

    def _total(self, waiting: Sequence[Pair]) -> int:
        """Returns the number of pairs that this run will have asked about, if nobody decides any."""
        total = self.asked + len(waiting)
        return total if self._limit is None else min(self._limit, total)


class SplitQuestionsStage(ProposeStage):
    """Asks about the two parts of each candidate as about a pair of groups, the parts that lie farthest apart first.

    The question, its configuration and the place of the answers are those of merges, so an answer still counts for the
    pair once the split is made.
    """

    @property
    def title(self) -> str:
        """The title of the run, for screens and logs."""
        return f"Asking {self._work.model.label} about splits"

    def waiting(self) -> list[Pair]:
        """Returns the pairs of parts that were not asked about, the next first."""
        state, pairs = self._supposed
        keys = [state.sides_key(*pair) for pair in pairs]
        with self._project.reading() as conn:
            answered_keys = decisions.answers(conn, self.config_hash)
        return [pair for pair, key in zip(pairs, keys, strict=True) if key not in answered_keys]

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Asked {self._work.model.label} about the parts of {counted(self.asked, 'group')}."
        return text + self._work.spent()

    def _state(self) -> MergeState:
        """Returns the groups as if all candidates were split."""
        state, _ = self._supposed
        return state

    @cached_property
    def _supposed(self) -> tuple[MergeState, Sequence[Pair]]:
        """The groups as if all candidates were split, and the pairs of their parts."""
        view = self._queue_cache.view(self._stored.id)
        candidates = split_candidates(view, self._queue_cache.space(self._stored))
        return as_if_split(view.state, candidates)
