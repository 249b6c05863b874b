"""The stage that assigns each request of conversations with several to a goal of the clustering that is shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from engine.errors import UsageError
from engine.goals.clusters.membership import Membership, assign
from engine.goals.embedders.embedder import Embedder, embedder_from_state
from engine.goals.embedders.vectors import same_space
from engine.jobs.contract import Progress
from engine.number_format import counted
from engine.stages.cpu_stage import CpuStage
from engine.stages.goals.assigning import membership_of_groups
from engine.stages.goals.embedding import QUICK_BATCH, SLOW_BATCH, Vectoriser
from engine.stages.selection import ALL, Selection
from engine.store import runs, shared_text
from engine.store.completeness import requests
from engine.store.completeness.requests import RequestGoal
from engine.store.goals import decisions as goal_decisions
from engine.store.goals import texts, vectors
from engine.store.goals.clusterings import StoredClustering
from engine.store.project import Project
from engine.store.sql import id_pages
from engine.views.decision_log import DecisionLog
from engine.views.goal_inputs import stored_clustering
from engine.views.requests import requests_of
from engine.worker.client import OnProgress

_PAGE = 200
Place = tuple[int, int, int]
"""A request: the id of its conversation, and the indices of its first and last message."""


class AssignRequestsStage(CpuStage):
    """Assigns the requests that are not assigned, with the kind of goal text and the embedder of the clustering."""

    name = "assign-requests"
    unit = "requests"

    def __init__(
        self,
        project: Project,
        vectoriser: Vectoriser,
        decision_log: DecisionLog,
        selection: Selection = ALL,
    ) -> None:
        """Reads nothing yet.

        Args:
            vectoriser: With the embedder of the clustering.
            selection: The conversations whose requests are assigned.
        """
        super().__init__(project)
        self._vectoriser, self._decision_log = vectoriser, decision_log
        self._selection = selection
        self.lane = vectoriser.lane
        self.assigned = self.novel = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Assigning requests to goals"

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The clustering and the newest decision on it, which determine the groups."""
        with self._project.reading() as conn:
            newest = goal_decisions.newest(conn, self._stored.id)
        return {"clustering": self._stored.config_hash, "after": newest}

    @cached_property
    def _stored(self) -> StoredClustering:
        with self._project.reading() as conn:
            return stored_clustering(conn, None)

    def interrupt(self) -> None:
        """Abandons the batch that is being embedded."""
        super().interrupt()
        self._vectoriser.cancel()

    def run(self, run_id: int) -> Iterator[Progress]:
        """Learns what the groups are like, then assigns batch by batch; each in one transaction with the counter of
        the run.

        Raises:
            NotYet: Nothing was clustered yet.
            UsageError: Summaries were clustered, or the embedder is not that of the clustering.
            Cancelled: `interrupt` was called.
        """
        self._check()
        if self._stored.text == "summary":
            raise UsageError(
                "This clustering is of summaries, and single requests have none.",
                "`workbench run cluster PROJECT --text all` clusters what was said.",
            )
        missing = self._missing()
        done, total = 0, len(missing)
        if not total:
            return
        learned: list[tuple[list[str], Membership]] = []
        learn = partial(membership_of_groups, self._project, self._decision_log, self._stored)
        for _, note in self._live(learn, learned.append):
            yield Progress(0, total, note)
        embedder = self._embedder()
        size = QUICK_BATCH if embedder.kind == "tfidf" else SLOW_BATCH
        for start in range(0, total, size):
            self._check()
            found: list[list[RequestGoal]] = []
            work = partial(self._assign, missing[start : start + size], embedder, *learned[0])
            for _ in self._live(work, found.append):
                yield Progress(done, total)
            done += len(found[0])
            self._project.write(
                partial(self._commit, run_id=run_id, found=found[0], done=done, total=total)
            )
            novel = sum(1 for one in found[0] if one.group is None)
            self.novel += novel
            self.assigned += len(found[0]) - novel
            yield Progress(done, total)

    def summary(self) -> str:
        """The result in one sentence with counts."""
        some = counted(self.assigned, "request")
        return f"Assigned {some} to goals; {self.novel:,} like no goal."

    def _missing(self) -> list[Place]:
        found: list[Place] = []
        with self._project.reading() as conn:
            for page in id_pages(conn, self._selection.ids(conn), _PAGE):
                several = list(requests.starts(conn, page))
                known = requests.goals(conn, self._stored.id, several)
                for key, parts in requests_of(conn, several):
                    places = ((key, one.first, one.last) for one in parts)
                    found += [place for place in places if place not in known]
        return found

    def _embedder(self) -> Embedder:
        with self._project.reading() as conn:
            config = vectors.config(conn, self._stored.vector_config)
        assert config is not None
        embedder = self._vectoriser.embedder
        if config.state is not None:
            embedder = embedder_from_state(config.embedder, config.state)
        same_space(config.fingerprint, embedder.fingerprint)
        return embedder

    def _assign(
        self,
        places: Sequence[Place],
        embedder: Embedder,
        groups: Sequence[str],
        membership: Membership,
        _report: OnProgress,
    ) -> list[RequestGoal]:
        with self._project.reading() as conn:
            left_out = shared_text.of_vectors(conn, self._stored.vector_config)
            said = [texts.of_part(conn, *place, self._stored.text, left_out) for place in places]
        found = assign(embedder.embed(said), membership)
        return [
            RequestGoal(*place, groups[label] if label >= 0 else None, float(score))
            for place, label, score in zip(places, found.labels, found.scores, strict=True)
        ]

    def _commit(
        self,
        conn: sqlite3.Connection,
        *,
        run_id: int,
        found: Sequence[RequestGoal],
        done: int,
        total: int,
    ) -> None:
        requests.put_goals(conn, self._stored.id, run_id, found)
        runs.count(conn, run_id, done, total)
