"""The stage that puts goals under themes, which are named by their goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.goals.clusters.themes import group_by_theme, theme_label
from engine.goals.records import GoalDecision
from engine.goals.stages.clustering import ClusterStage, OnClustering
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.project import runs
from engine.project.project import Project


class ThemeStage(OnClustering, CpuStage):
    """Puts the current goals under themes, as one act of decisions; goals that a person placed stay there."""

    name = "theme"
    title = "Putting goals under themes"
    unit = "goals"

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
        self._cache, self._cluster = queue_cache, cluster
        self.themes = 0

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {"clustering": self._stored.config_hash}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Finds the themes and stores a decision for each goal whose theme changes.

        Raises:
            UsageError: Nothing was clustered yet, or somebody changed the groups meanwhile.
            Cancelled: `interrupt` was called.
        """
        self._check()
        results: list[list[GoalDecision]] = []
        for done, note in self._run_on_thread(self._find_themes, results.append):
            yield Progress(done, None, note)
        self._check()
        (decisions,) = results
        self._cache.decision_log.decide(self._stored.id, lambda _: decisions)
        count = len(decisions)
        self._project.write(lambda conn: runs.count(conn, run_id, count, count))
        yield Progress(count, count)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return f"Put goals under {counted(self.themes, 'theme')}."

    def _find_themes(self, report: OnProgress) -> list[GoalDecision]:
        """Returns the decisions that give each goal the theme that it does not have yet."""
        report(0, "looking for themes")
        view = self._cache.view(self._stored.id)
        state, keys = view.state, list(view.sizes)
        centres = view.centres(keys, self._cache.space(view.stored)).astype(np.float64)
        themes = group_by_theme(centres @ centres.T)
        self.themes = len(themes)
        label_of = {}
        for theme in themes:
            goals = sorted((keys[row] for row in theme), key=lambda key: -view.sizes[key])
            label = theme_label([state.groups[key].label for key in goals])
            label_of.update(dict.fromkeys(goals, label))
        decisions = []
        for key in keys:
            group, label = state.groups[key], label_of.get(key, "")
            if group.theme != label and not group.themed_by_person:
                decisions.append(GoalDecision("theme", (key,), ((label, ""),), author="auto"))
        return decisions
