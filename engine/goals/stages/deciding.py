"""The stage that merges groups automatically: by the merge probability, or by the model's answer alone as in Algorithm
1 of Soroka et al., "Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions".

The decisions are stored with those of people, each with its author, and can be undone like them. Pairs that a person
refused are not merged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any, Literal

from engine.base.errors import Cancelled, UsageError
from engine.base.number_format import counted
from engine.goals.records import DECIDE_THRESHOLD, Evidence, GoalDecision, Pair, model_says_yes
from engine.goals.stages.clustering import ClusterStage
from engine.goals.stages.proposing import BLOCK, ProposeStage
from engine.goals.views.goal_inputs import stored_clustering
from engine.goals.views.merge_queue import QueueSnapshot
from engine.goals.views.merge_queue_cache import MergeQueueCache
from engine.goals.views.settle_moves import settle_moves
from engine.jobs.contract import Lane, Progress, config_hash
from engine.jobs.threaded_work import (
    ThreadedWork,
)
from engine.project import runs
from engine.project.project import Project

Rule = Literal["auto", "llm"]
MARGIN = 0.2
"""Distance of the merge probability from the threshold within which the model is asked, because its answer may move the
probability across the threshold. Farther away that is rare, and a small model on a CPU takes half a minute to
answer."""


class DecideStage:
    """Decides one pair after another and reads the merge queue again after each.

    `auto` merges the most probable pair as long as its probability reaches the threshold. It refuses no pair, so
    unclear pairs are left to a person; at the end it settles conversations (`engine.goals.clusters.neighbours`). `llm`
    merges or refuses the most similar pair as the model answers, until every pair was refused or is below the least
    similarity.

    Attributes:
        merged, refused: Number of pairs merged and refused.
        moved: Number of conversations moved by settling.
    """

    name = "decide"
    unit = "decisions"

    def __init__(
        self,
        project: Project,
        queue_cache: MergeQueueCache,
        rule: Rule,
        *,
        cluster: ClusterStage | None = None,
        asking: ProposeStage | None = None,
        threshold: float = DECIDE_THRESHOLD,
    ) -> None:
        """Reads nothing yet.

        Args:
            cluster: The stage before that makes the clustering; None takes the one that is shown.
            asking: The stage that asks the model about pairs; None decides without a model.
            threshold: Merge probability from which `auto` merges.

        Raises:
            UsageError: The rule is `llm` and no model is asked.
        """
        if rule == "llm" and asking is None:
            raise UsageError(
                "The model's answers cannot decide when no model is asked.",
                "Leave out --no-labels.",
            )
        self._project, self._queue_cache = project, queue_cache
        self._decision_log = queue_cache.decision_log
        self._rule, self._cluster = rule, cluster
        self._asking, self._threshold = asking, threshold
        self._interrupted = threading.Event()
        self.lane: Lane = "cpu" if asking is None else "model"
        self.merged = self.refused = self.moved = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return (
            "Merging clusters"
            if self._rule == "auto"
            else "Merging clusters by the model's answers"
        )

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {
            "clustering": self._key,
            "rule": self._rule,
            "threshold": self._threshold,
            "asking": None if self._asking is None else self._asking.config_hash,
        }

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """The fingerprints of the model; empty without one."""
        return {} if self._asking is None else self._asking.fingerprints

    @property
    def config_hash(self) -> str:
        """Hash of the parameters and the model."""
        return config_hash(self.name, self.params, self.fingerprints)

    @cached_property
    def _key(self) -> int:
        with self._project.reading() as conn:
            return stored_clustering(
                conn, self._cluster.clustering_id if self._cluster else None
            ).id

    def interrupt(self) -> None:
        """Ends the request in flight; the decisions so far stay."""
        self._interrupted.set()
        if self._asking is not None:
            self._asking.interrupt()

    def run(self, run_id: int) -> Iterator[Progress]:
        """Decides pairs one by one, each in a transaction of its own.

        Raises:
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        if self._asking is not None:
            self._asking.show_answers()
        while True:
            if self._interrupted.is_set():
                raise Cancelled("The work was cancelled.")
            snapshot = self._queue_cache.snapshot(self._key)
            left = snapshot.left("probability" if self._rule == "auto" else "similarity")
            if not left:
                break
            if unasked := self._pairs_to_ask(snapshot, left):
                yield from self._ask(run_id, unasked)
                continue
            (evidence,) = snapshot.evidence(left[:1])
            if self._rule == "auto" and evidence.probability < self._threshold:
                break
            self._decide(snapshot, left[0], evidence)
            done = self.merged + self.refused
            self._project.write(partial(runs.count, run_id=run_id, done=done, total=None))
            yield Progress(done, None, f"{len(left) - 1:,} pairs left")
        if self._rule == "auto":
            running = ThreadedWork(self._settle)
            for _, note in running.reports():
                yield Progress(self.merged, None, note)
            running.result()

    def summary(self) -> str:
        """The result in one sentence with counts."""
        text = f"Merged {counted(self.merged, 'pair')}"
        if self.refused:
            text += f", refused {self.refused:,}"
        if self._asking is not None:
            text += f", asked about {self._asking.asked:,}"
        if self.moved:
            text += f", moved {counted(self.moved, 'conversation')} to their neighbors' groups"
        return text + "."

    def _settle(self, report: Callable[[int, str], None]) -> None:
        """Settles conversations, as one act."""
        text = "settling conversations by their neighbors"
        report(self.merged, text)

        def note(what: str, done: int, total: int) -> None:
            if self._interrupted.is_set():
                raise Cancelled("The work was cancelled.")
            report(self.merged, f"{text}: {done:,} of {total:,} {what}")

        view = self._queue_cache.view(self._key)
        decided = self._decision_log.active(self._key)
        moves = settle_moves(view, self._queue_cache, decided, self._rule, note)
        try:
            self._decision_log.decide(self._key, lambda state: moves)
        except UsageError:
            if self._decision_log.state(self._key) is view.state:
                raise
            return  # a person decided meanwhile
        self.moved = sum(len(move.parts[0]) for move in moves)

    def _pairs_to_ask(self, snapshot: QueueSnapshot, left: list[Pair]) -> list[Pair]:
        """The pairs to ask the model about before the first pair is decided; empty if the first one is far from the
        threshold."""
        if self._asking is None:
            return []
        near = left[: 4 * BLOCK]
        if self._rule == "auto":
            if snapshot.probabilities(left[:1])[0] >= self._threshold + MARGIN:
                return []
            least = self._threshold - MARGIN
            chances = snapshot.probabilities(near)
            near = [pair for pair, p in zip(near, chances, strict=True) if p >= least]
        else:
            near = near[:1] if snapshot.asked(left[0]) else near
        return [pair for pair in near if not snapshot.asked(pair)][:BLOCK]

    def _ask(self, run_id: int, pairs: list[Pair]) -> Iterator[Progress]:
        asking, done = self._asking, self.merged + self.refused
        if asking is None:
            return
        yield Progress(done, None, f"asking about {len(pairs)} pairs")
        asking.load()
        for _ in asking.ask(run_id, pairs, None):
            yield Progress(done, None, f"asking about {len(pairs)} pairs")

    def _decide(self, snapshot: QueueSnapshot, pair: Pair, evidence: Evidence) -> None:
        merging = (
            self._rule == "auto" or model_says_yes(evidence.yes, evidence.yes_reversed) is True
        )
        decision = GoalDecision(
            "merge" if merging else "apart",
            pair,
            ((evidence.label, evidence.description),) if merging and evidence.label else (),
            author=self._rule,
            model=evidence.model,
            probability=evidence.probability,
            evidence=asdict(evidence),
        )
        try:
            self._decision_log.decide(self._key, lambda state: [decision])
        except UsageError:
            if self._decision_log.state(self._key) is snapshot.table.view.state:
                raise
            return  # a person decided meanwhile; the queue is read again
        self.merged += merging
        self.refused += not merging
