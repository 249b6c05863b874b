"""The stage that names groups anew after automatic merging: the label of its largest cluster says too little about a
merged group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.goals.merges.merge_state import Group, MergeState
from engine.goals.questions.phrase_labels import phrase_labels
from engine.goals.questions.questions import Named
from engine.goals.records import GoalDecision
from engine.goals.stages.clustering import ClusterStage
from engine.goals.tables.clusterings import NONE, StoredClustering
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.goal_inputs import LazyTexts, read_vectors, source_of, stored_clustering
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.project import runs
from engine.project.project import Project


class NameStage(CpuStage):
    """Renames, as one act, the current groups that no person named, by phrases of their members."""

    name = "name"
    unit = "groups"

    def __init__(
        self, project: Project, decision_log: DecisionLog, *, cluster: ClusterStage | None = None
    ) -> None:
        """Reads nothing yet.

        Args:
            cluster: The stage before that makes the clustering; None takes the one that is shown.
        """
        super().__init__(project)
        self._decision_log, self._cluster = decision_log, cluster
        self.renamed = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Naming groups"

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {"clustering": self._stored.config_hash}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Names all groups together, so that no two get the same name.

        Raises:
            UsageError: Nothing was clustered yet, or somebody changed the groups meanwhile.
            Cancelled: `interrupt` was called.
        """
        self._check()
        state = self._decision_log.state(self._stored.id)
        if not any(group.made_of for group in _open_groups(state)):
            return  # no group is more than its cluster, which has its label
        found: list[dict[int, Named]] = []
        for done, note in self._live(lambda report: self._named(state, report), found.append):
            yield Progress(done, None, note)
        self._check()
        place = {key: at for at, key in enumerate(state.current)}
        decisions = []
        for group in _open_groups(state):
            one = found[0][place[group.id]]
            if one.label != group.label:
                name = (one.label, one.description)
                decisions.append(GoalDecision("rename", (group.id,), (name,), author="auto"))
        self._decision_log.decide(self._stored.id, lambda _: decisions)
        self.renamed = len(decisions)
        self._project.write(lambda conn: runs.count(conn, run_id, self.renamed, self.renamed))
        yield Progress(self.renamed, self.renamed)

    def summary(self) -> str:
        """The result in one sentence with counts."""
        return f"Named {counted(self.renamed, 'group')} by phrases of their members."

    @cached_property
    def _stored(self) -> StoredClustering:
        with self._project.reading() as conn:
            return stored_clustering(conn, self._cluster.clustering_id if self._cluster else None)

    def _named(self, state: MergeState, report: OnProgress) -> dict[int, Named]:
        """The name of each current group, by its place."""
        report(0, "looking for labels")
        members, numbers = state.numbers(list(state.current))
        with self._project.reading() as conn:
            ids, rows = read_vectors(conn, self._stored.vector_config, members)
            labels = np.full(len(ids), NONE, dtype=np.int32)
            labels[np.searchsorted(ids, members)] = numbers
            distances = np.zeros(len(ids), dtype=np.float32)
            for number in range(len(state.current)):
                own = labels == number
                distances[own] = 1 - rows[own] @ rows[own].mean(axis=0)
            texts = LazyTexts(conn, source_of(self._stored).shown, ids)
            return phrase_labels(texts, labels, distances, self._stored.seed)


def _open_groups(state: MergeState) -> list[Group]:
    """The current groups whose name is not a person's."""
    groups = [state.groups[key] for key in state.current]
    return [
        group
        for group in groups
        if not group.pinned
        and not any(by and by.author == "human" for by in (group.made_by, group.named_by))
    ]
