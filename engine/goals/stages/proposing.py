"""The stage that asks a model about undecided pairs of groups, in the order of the merge queue."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from engine.base.number_format import counted
from engine.goals.merges.merge_state import MergeState
from engine.goals.model_asker import ProcessAsker
from engine.goals.records import Pair
from engine.goals.stages.clustering import ClusterStage
from engine.goals.stages.pair_questions import PairQuestions
from engine.goals.tables import answers as goal_answers
from engine.goals.tables.answers import PairAnswer
from engine.goals.tables.clusterings import StoredClustering
from engine.goals.views.goal_inputs import source_of, stored_clustering
from engine.goals.views.merge_queue_cache import MergeQueueCache
from engine.jobs.contract import OnProgress, Progress
from engine.model.model_work import RunModel
from engine.model.process.process import (
    ModelProcess,
)
from engine.model.prompt_files import Prompt
from engine.model.stages import (
    ModelStage,
)
from engine.project import runs
from engine.project.project import Project

BLOCK = 4
"""Pairs in one block of questions."""


class ProposeStage(ModelStage):
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
        model: RunModel,
        queue_cache: MergeQueueCache,
        merge: Prompt,
        reason: Prompt,
        *,
        most: int | None = None,
        cluster: ClusterStage | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            queue_cache: Reads the merge queue.
            merge, reason: Prompts `merge` and `merge-reason`.
            most: Most pairs to ask about; None asks about all.
            cluster: The stage before that makes the clustering; None takes the one that is shown.
        """
        super().__init__(project, process, model)
        self._queue_cache, self._merge, self._reason = queue_cache, merge, reason
        self._most, self._cluster = most, cluster
        self.asked = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"Asking {self._work.model.label} about merges"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the answers, besides the model and the members of the groups."""
        return {**self._questions.params(), "context": self._work.model.options.context}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Asks block by block, each in a transaction of its own with the counter of the run.

        Raises:
            UsageError: Nothing was clustered yet.
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        self.show_answers()
        waiting = self.waiting()
        if not waiting:
            return
        yield Progress(0, self._total(waiting), "loading the model")
        self.load()
        while waiting and (self._most is None or self.asked < self._most):
            self._work.check()
            room = BLOCK if self._most is None else min(BLOCK, self._most - self.asked)
            yield from self.ask(run_id, waiting[:room], self._total(waiting))
            waiting = self.waiting()

    def show_answers(self) -> None:
        """Makes the answers of this configuration those that the merge queue shows."""
        key, clustering_id = self.config_hash, self._stored.id
        self._project.write(lambda conn: goal_answers.register(conn, clustering_id, key))

    def load(self) -> None:
        """Loads the model unless it is loaded already."""
        self._work.load()

    def waiting(self) -> list[Pair]:
        """The undecided pairs that were not asked about, the next first."""
        return self._queue_cache.snapshot(self._stored.id).unasked()

    def ask(self, run_id: int, block: Sequence[Pair], total: int | None) -> Iterator[Progress]:
        """Asks about a block of pairs and stores the answers; the model must be loaded.

        Args:
            total: Number of pairs of the run; None leaves the counter of the run as it is.
        """
        state = self._state()
        found: list[PairAnswer] = []
        for _ in self._work.live(partial(self._answer, state, block), found.extend):
            yield Progress(self.asked, total)
        self.asked += len(block)
        self._project.write(partial(self._commit, run_id=run_id, found=found, total=total))
        yield Progress(self.asked, total)

    def summary(self) -> str:
        """The result in one sentence with counts."""
        text = f"Asked {self._work.model.label} about {counted(self.asked, 'pair')} of groups."
        return text + self._work.spent()

    def _state(self) -> MergeState:
        """The groups that are asked about."""
        return self._queue_cache.decision_log.state(self._stored.id)

    @cached_property
    def _stored(self) -> StoredClustering:
        with self._project.reading() as conn:
            return stored_clustering(conn, self._cluster.clustering_id if self._cluster else None)

    @cached_property
    def _questions(self) -> PairQuestions:
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
    ) -> list[PairAnswer]:
        asker = ProcessAsker(self._work.process, report)
        reasons: list[str] = []

        def given_up(reason: str) -> PairAnswer | None:
            reasons.append(reason)
            return None

        found = self._work.each(
            block, lambda pairs: self._questions.ask(asker, state, pairs), given_up
        )
        left = iter(reasons)
        if not self._work.writes_labels:
            found = [one and replace(one, label="", description="") for one in found]
        return [
            one or self._questions.given_up(state, pair, next(left))
            for pair, one in zip(block, found, strict=True)
        ]

    def _commit(
        self,
        conn: sqlite3.Connection,
        *,
        run_id: int,
        found: Sequence[PairAnswer],
        total: int | None,
    ) -> None:
        goal_answers.add(conn, self.config_hash, run_id, found)
        if total is not None:
            runs.count(conn, run_id, self.asked, total)

    def _total(self, waiting: Sequence[Pair]) -> int:
        """Number of pairs that this run will have asked about, if nobody decides any."""
        total = self.asked + len(waiting)
        return total if self._most is None else min(self._most, total)
