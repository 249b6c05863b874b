"""The stage that puts goals under themes, which are named by their goals."""

from __future__ import annotations

import numpy as np

from engine.base.number_format import counted
from engine.goals.clusters.themes import group_by_theme, theme_label
from engine.goals.records import GoalDecision
from engine.goals.stages.clustering import ClusterStage
from engine.goals.stages.deciding import OneActStage
from engine.goals.views.decision_log import Plan
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import OnProgress
from engine.project.project import Project


class ThemeStage(OneActStage):
    """Puts the current goals under themes, as one act of decisions; goals that a person placed stay there."""

    name = "theme"
    title = "Putting goals under themes"
    unit = "goals"
    themes = 0
    """Number of themes."""

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
        super().__init__(project, queue_cache.decision_log, cluster=cluster)
        self._cache = queue_cache

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return f"Put goals under {counted(self.themes, 'theme')}."

    def _find_decisions(self, report: OnProgress) -> Plan:
        """Returns the plan of the decisions that give each goal the theme that it does not have yet."""
        report(0, "looking for themes")
        view = self._cache.view(self._stored.id)
        state = view.state
        keys = [key for key in view.sizes if not state.groups[key].is_rest]
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
        return lambda _: decisions
