"""The stage that asks a model whether the parts of groups that seem to hold several goals are one goal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from engine.base.number_format import counted
from engine.goals.merges.merge_state import MergeState
from engine.goals.records import Pair
from engine.goals.stages.proposing import ProposeStage
from engine.goals.tables import answers as goal_answers
from engine.goals.views.split_candidates import as_if_split, split_candidates


class SplitQuestionsStage(ProposeStage):
    """Asks about the two parts of each candidate as about a pair of groups, the parts that lie farthest apart first.

    The question, its configuration and the place of the answers are those of merges, so an answer still counts for the
    pair once the split is made.
    """

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"Asking {self._work.model.label} about splits"

    def waiting(self) -> list[Pair]:
        """The pairs of parts that were not asked about, the next first."""
        state, pairs = self._supposed
        keys = [state.sides_key(*pair) for pair in pairs]
        with self._project.reading() as conn:
            known = goal_answers.answers(conn, self.config_hash, keys)
        return [pair for pair, key in zip(pairs, keys, strict=True) if key not in known]

    def summary(self) -> str:
        """The result in one sentence with counts."""
        text = f"Asked {self._work.model.label} about the parts of {counted(self.asked, 'group')}."
        return text + self._work.spent()

    def _state(self) -> MergeState:
        return self._supposed[0]

    @cached_property
    def _supposed(self) -> tuple[MergeState, Sequence[Pair]]:
        view = self._queue_cache.view(self._stored.id)
        candidates = split_candidates(view, self._queue_cache.space(self._stored))
        return as_if_split(view.state, candidates)
