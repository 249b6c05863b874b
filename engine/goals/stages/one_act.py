"""The base of the stages that decide about the groups of a clustering by themselves, in one act that can be undone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from engine.goals.stages.clustering import ClusterStage, OnClustering
from engine.goals.views.decision_log import Plan
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.project import runs
from engine.project.project import Project


class OneActStage(OnClustering, CpuStage):
    """Decides about the groups of a clustering and stores the decisions as one act."""

    def __init__(
        self,
        project: Project,
        queue_cache: MergeQueueCache,
        *,
        cluster: ClusterStage | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            cluster: The stage before that makes the clustering; None takes the one that is open.
        """
        super().__init__(project)
        self._queue_cache, self._cluster = queue_cache, cluster

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {"clustering": self._stored.config_hash}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Finds all decisions together, and stores them.

        Raises:
            UsageError: Nothing was clustered yet, or somebody changed the groups meanwhile.
            Cancelled: `interrupt` was called.
        """
        self._raise_if_cancelled()
        plan = yield from self._run_on_thread(
            self._find_decisions, lambda done, note: Progress(done, None, note)
        )
        self._raise_if_cancelled()
        count = len(self._queue_cache.decision_log.decide(self._stored.id, plan))
        self._project.write(lambda conn: runs.count(conn, run_id, count, count))
        yield Progress(count, count)

    @abstractmethod
    def _find_decisions(self, report: OnProgress) -> Plan:
        """Returns the plan of the act."""
