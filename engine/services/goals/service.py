"""Goals as the screens see them: the clustering that is shown, the desk, and runs."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import UsageError
from engine.events import JobProgress
from engine.filters import ListQuery
from engine.goals.embedders.embedder import embedder_for
from engine.jobs.contract import Stage
from engine.records.conversations import Estimate, RunRow
from engine.records.goals import GoalRequest
from engine.services.goals.merge_desk import MergeDesk
from engine.services.goals.run_stages import ClusterOptions, GoalStages
from engine.store import clusterings, conversations, runs
from engine.store.project import Project

ASKING = "propose"
"""The stage that asks the model about pairs."""
OF_ITEMS = ("summarise", "embed", "cluster")
"""Stages whose time grows with the conversations; that of the others does with the clusters."""


class GoalService(MergeDesk):
    """The goals of one project; satisfies `engine.services.goals.port.Goals`."""

    def __init__(
        self,
        project: Project,
        stages: GoalStages,
        begin: Callable[[Sequence[Stage]], int],
        active: Callable[[], list[JobProgress]],
        changed: Callable[[], None],
    ) -> None:
        """Puts the parts together.

        Args:
            stages: Makes the stages of runs.
            begin: Starts stages in the background and returns the job id.
            active: Jobs that run or wait.
            changed: Called when something was decided or another clustering is shown.
        """
        super().__init__(
            project,
            stages.desks,
            stages.standing,
            changed,
            lambda: any(job.stage == ASKING for job in active()),
        )
        self._stages, self._begin = stages, begin

    def show(self, clustering_id: int) -> None:
        """See `engine.services.goals.port.Goals`."""
        with self._project.reading() as conn:
            known = clusterings.clustering(conn, clustering_id)
        if known is None:
            raise UsageError(f"There is no clustering {clustering_id}.")
        self._project.write(lambda conn: clusterings.show(conn, clustering_id))
        self._changed()

    def estimate(self, wish: GoalRequest) -> Estimate:
        """See `engine.services.goals.port.Goals`. The time is what the same stages took here before."""
        stages = self._planned(wish)
        with self._project.reading() as conn:
            items = len(conversations.ids(conn, ListQuery()))
            before = runs.all_runs(conn)
        known = [_seconds(stage.name, items, before) for stage in stages]
        total = sum(seconds for seconds in known if seconds is not None)
        asked = any(stage.lane == "model" for stage in stages)
        model = self._stages.resolve(None).model.label if asked else wish.embedder
        return Estimate(items, None, None, None if None in known else total, model)

    def start(self, wish: GoalRequest) -> int:
        """See `engine.services.goals.port.Goals`."""
        return self._begin(self._planned(wish))

    def start_asking(self) -> int | None:
        """See `engine.services.goals.port.Goals`."""
        if self.shown() is None or not self.progress().unasked:
            return None
        return self._begin(self._stages.ask())

    def start_assign(self) -> int:
        """See `engine.services.goals.port.Goals`."""
        return self._begin(self._stages.assign())

    def start_stability(self) -> int:
        """See `engine.services.goals.port.Goals`."""
        return self._begin([self._stages.stability()])

    def _planned(self, wish: GoalRequest) -> list[Stage]:
        """The stages of a run; an embedder that is not there is told about now and not when its turn has come."""
        if not Path(wish.embedder).is_file():
            embedder_for(wish.embedder)
        return self._stages.cluster(_options(wish))


def _options(wish: GoalRequest) -> ClusterOptions:
    return ClusterOptions(
        text=wish.text, embedder=wish.embedder, k=wish.k, seed=wish.seed, decide=wish.decide
    )


def _seconds(stage: str, items: int, before: Sequence[RunRow]) -> float | None:
    """Seconds that a stage takes, by its newest whole run; None before there was one."""
    for run in before:
        if run.stage == stage and run.state == "done" and run.finished_at and run.done:
            begun, ended = map(_time, (run.started_at, run.finished_at))
            took = (ended - begun).total_seconds()
            return took / run.done * items if stage in OF_ITEMS else took
    return None


def _time(stamp: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(stamp)
