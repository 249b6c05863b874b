"""The stage that puts goals under themes: goals that are alike by the vectors of their conversations. A theme is named
by its goals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.base.number_format import counted
from engine.goals.records import GoalDecision
from engine.goals.stages.clustering import OneActStage
from engine.goals.views.decision_log import Plan
from engine.jobs.contract import OnProgress

MIN_QUANTILE = 0.9
"""Quantile of the similarities of all pairs of goals that the mean similarity within a theme reaches
(docs/lab/goals.md)."""


class ThemeStage(OneActStage):
    """Puts the current goals under themes, as one act of decisions; goals that a person placed stay there."""

    name = "theme"
    title = "Putting goals under themes"
    unit = "goals"
    themes = 0
    """Number of themes."""

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return f"Put goals under {counted(self.themes, 'theme')}."

    def _find_decisions(self, report: OnProgress) -> Plan:
        """Returns the plan of the decisions that give each goal the theme that it does not have yet."""
        report(0, "looking for themes")
        view = self._queue_cache.view(self._stored.id)
        state = view.state
        keys = [key for key in view.sizes if not state.groups[key].is_rest]
        if not keys:  # no two conversations ask for the same
            return lambda _: []
        centers = view.centers(keys, self._queue_cache.space(view.stored)).astype(np.float64)
        themes = group_by_theme(centers @ centers.T)
        self.themes = len(themes)
        theme_labels = {}
        for theme in themes:
            goals = sorted((keys[row] for row in theme), key=lambda key: -view.sizes[key])
            label = theme_label([state.groups[key].label for key in goals])
            theme_labels.update(dict.fromkeys(goals, label))
        decisions = []
        for key in keys:
            group, label = state.groups[key], theme_labels.get(key, "")
            if group.theme != label and not group.themed_by_person:
                decisions.append(GoalDecision("theme", (key,), ((label, ""),), author="auto"))
        return lambda _: decisions


def group_by_theme(similarity: npt.NDArray[np.float64]) -> list[list[int]]:
    """Returns the goals of each theme, by index, the first goals first; a goal that is like no other is in none.

    Themes are joined as long as the mean similarity of the goals of the two most similar ones is at least
    the `MIN_QUANTILE` of all pairs, so that the number of themes does not depend on how large the cosines of an
    embedder are.

    Args:
        similarity: Cosines of the centers of the goals, shape (goals, goals).
    """
    count, _ = similarity.shape
    if count < 3:  # two goals have one similarity, which says nothing of itself
        return []
    least = float(np.quantile(similarity[np.triu_indices(count, 1)], MIN_QUANTILE))
    themes = [[index] for index in range(count)]
    means = similarity.copy()
    np.fill_diagonal(means, -np.inf)
    while True:
        first, second = sorted(divmod(int(means.argmax()), len(themes)))
        if means[first, second] < least:
            return [theme for theme in themes if len(theme) > 1]
        sizes = len(themes[first]), len(themes[second])
        joined = np.average(means[[first, second]], axis=0, weights=sizes)
        means[first], means[:, first], means[first, first] = joined, joined, -np.inf
        means = np.delete(np.delete(means, second, axis=0), second, axis=1)
        themes[first] = sorted(themes[first] + themes.pop(second))
        if len(themes) == 1:
            return themes


def theme_label(labels: Sequence[str]) -> str:
    """Returns the name of a theme, which lists its goals: "Return something, get a refund, exchange a size".

    Goals that only a value tells apart ("Find a restaurant · Lebanese") are listed once. Of more than three, the first
    two are listed, and the number of the others.

    Args:
        labels: Of its goals, the largest first.
    """
    names = list(dict.fromkeys(label.partition(" · ")[0] for label in labels))
    names[1:] = [name[0].lower() + name[1:] if name[1:2].islower() else name for name in names[1:]]
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} and {len(names) - 2} more"
