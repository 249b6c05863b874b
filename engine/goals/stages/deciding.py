"""The stages that decide about groups without a person. One merges groups, each pair in an act of its own, and then
*settles* conversations: it moves them, all in one act, to the group of most of their nearest neighbors. The other one
puts goals under themes, all in one act.

Groups are merged by the merge probability, or by the model's answer alone as in Algorithm 1 of Soroka et al.,
"Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions". The decisions are stored with those of people,
each with its author, and can be undone like them. Pairs that a person refused are not merged.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.goals.clusters.granularity import group_by_theme
from engine.goals.clusters.neighbors import SETTLE_NEIGHBORS, Neighbors, settle
from engine.goals.records import (
    DECIDE_THRESHOLD,
    Author,
    Evidence,
    GoalDecision,
    Ids,
    Pair,
    model_says_yes,
)
from engine.goals.stages.clustering import ClusterStage, GroupForecast, OnClustering, OneActStage
from engine.goals.stages.proposing import MIN_PAIRS_PER_BLOCK, ProposeStage
from engine.goals.views.clustering_view import ClusteringView
from engine.goals.views.decision_log import Plan
from engine.goals.views.merge_queue import MergeQueueCache, QueueSnapshot
from engine.jobs.contract import CpuStage, Lane, OnProgress, Progress
from engine.model.embedders.vectors import Mask
from engine.project import runs
from engine.project.project import Project
from engine.project.records import StageCost

_DISTINCTION = re.compile(r"(?: · .*| \(\d+\))$")
"""What tells goals of one name apart, at the end of a label: values, or a number."""
PAIRS_LOOKED_AT = 4 * MIN_PAIRS_PER_BLOCK
"""Number of the next pairs among which those of a block are looked for: four times as many as a block has, because
some of them were asked about already."""


class DecideStage(OnClustering, CpuStage):
    """Decides one pair after another and reads the merge queue again after each.

    By the merge probability (`auto`) it merges the most probable pair as long as its probability reaches the threshold,
    of the pairs whose members mix: groups that lie apart from each other are not joined by their words alone. It
    refuses no pair, so unclear pairs are left to a person; at the end it settles conversations
    (`engine.goals.clusters.neighbors`). By the answers of a model (`llm`) it merges or refuses the most similar pair,
    until every pair was refused; without an answer it refuses.

    Attributes:
        merged, refused: Number of pairs merged and refused.
        unanswered: Number of those refused because the model said neither yes nor no.
        moved: Number of conversations moved by settling.
    """

    name = "decide"
    unit = "decisions"

    def __init__(
        self,
        project: Project,
        queue_cache: MergeQueueCache,
        *,
        cluster: ClusterStage | None = None,
        asking: ProposeStage | None = None,
        threshold: float = DECIDE_THRESHOLD,
    ) -> None:
        """Reads nothing yet.

        Args:
            cluster: The stage before that makes the clustering; None takes the one that is open.
            asking: The stage that asks the model whose answers decide; None decides by the merge probability.
            threshold: Merge probability from which `auto` merges.
        """
        super().__init__(project)
        self._queue_cache = queue_cache
        self._decision_log = queue_cache.decision_log
        self._cluster, self._asking, self._threshold = cluster, asking, threshold
        self._rule: Author = "auto" if asking is None else "llm"
        self.lane: Lane = "cpu" if asking is None else "model"
        self.merged = self.refused = self.unanswered = self.moved = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Merging clusters" + (" by the model's answers" if self._asking else "")

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {
            "clustering": self._stored.id,
            "rule": self._rule,
            "threshold": self._threshold,
            "asking": None if self._asking is None else self._asking.config_hash,
        }

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """The fingerprints of the model; empty without one."""
        return {} if self._asking is None else self._asking.fingerprints

    @property
    def asks_endpoints(self) -> bool:
        """Whether the model that is asked is behind endpoints."""
        return self._asking is not None and self._asking.asks_endpoints

    def estimate_waiting(self) -> StageCost:
        """Returns what asking endpoints costs; sends nothing. The pairs are at least as many as merge all groups into
        one."""
        assert self._asking is not None
        snapshot = self._queue_cache.snapshot(self._stored.id)
        return self._asking.estimate(snapshot.unasked_pairs(), len(snapshot.table.sizes) - 1)

    def estimate_ahead(self, groups: GroupForecast) -> StageCost:
        """Returns what asking endpoints costs before there are groups; sends nothing."""
        assert self._asking is not None
        pairs = groups.most * (groups.most - 1) // 2
        return self._asking.estimate_pairs_ahead(groups, groups.least - 1, pairs)

    def interrupt(self) -> None:
        """Ends the request in flight; the decisions so far stay."""
        super().interrupt()
        if self._asking is not None:
            self._asking.interrupt()

    def run(self, run_id: int) -> Iterator[Progress]:
        """Decides pairs one by one, each in a transaction of its own.

        Raises:
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        if self._asking is None:
            if self._was_decided():
                return  # groups that settled have other pairs, so that the rule would merge on
            yield from self._merge_by_probability(run_id)
            yield from self._settle()
        else:
            self._asking.show_answers()
            yield from self._decide_by_answers(self._asking, run_id)

    def _was_decided(self) -> bool:
        """Returns whether a run with these parameters was done, and decisions of it are in force."""
        was_done = any(
            (run.stage, run.config_hash, run.state) == (self.name, self.config_hash, "done")
            for run in self._project.read(runs.all_runs)
        )
        decisions = self._decision_log.active(self._stored.id)
        return was_done and any(decision.author == self._rule for decision in decisions)

    def _merge_by_probability(self, run_id: int) -> Iterator[Progress]:
        """Merges the most probable pair of groups that mix, again and again, while it reaches the threshold."""
        while True:
            self._raise_if_cancelled()
            snapshot = self._queue_cache.snapshot(self._stored.id)
            pairs = snapshot.mixing_pairs(snapshot.ordered_pairs("probability"))
            if not pairs:
                return
            (evidence,) = snapshot.evidence(pairs[:1])
            if evidence.probability < self._threshold:
                return
            self._decide(snapshot, pairs[0], evidence)
            yield self._count(run_id, len(pairs) - 1)

    def _decide_by_answers(self, asking: ProposeStage, run_id: int) -> Iterator[Progress]:
        """Merges or refuses the most similar pair by the model's answer, asked for first, until no pair is left."""
        while True:
            self._raise_if_cancelled()
            snapshot = self._queue_cache.snapshot(self._stored.id)
            pairs = snapshot.ordered_pairs("similarity")
            if not pairs:
                return
            if not snapshot.was_asked(pairs[0]):
                yield from self._ask(asking, run_id, self._block(snapshot, pairs))
                continue
            (evidence,) = snapshot.evidence(pairs[:1])
            self._decide(snapshot, pairs[0], evidence)
            yield self._count(run_id, len(pairs) - 1)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Merged {counted(self.merged, 'pair')}"
        if self.refused:
            text += f", refused {self.refused:,}"
        if self.unanswered:
            text += f", {self.unanswered:,} of them because the model said neither yes nor no"
        if self._asking is not None:
            text += f", asked about {self._asking.asked:,}"
        if self.moved:
            text += f", moved {counted(self.moved, 'conversation')} to their neighbors' groups"
        return text + "." + (self._asking.spent() if self._asking else "")

    def _settle(self) -> Iterator[Progress]:
        """Moves conversations to the groups of their neighbors, as one act."""
        view = self._queue_cache.view(self._stored.id)
        moves = yield from self._run_on_thread(
            partial(self._find_moves, view), lambda _count, note: Progress(self.merged, None, note)
        )
        try:
            self._decision_log.decide(self._stored.id, lambda state: moves)
        except UsageError:
            if self._decision_log.state(self._stored.id) is view.state:
                raise
            return  # a person decided meanwhile
        self.moved = sum(len(move.parts[0]) for move in moves)

    def _find_moves(self, view: ClusteringView, report: OnProgress) -> list[GoalDecision]:
        """Returns one move for each group that gains conversations when those of a view settle, the largest group
        first; what a person placed stays."""
        text = "settling conversations by their neighbors"
        report(self.merged, text)

        def note(step: str, done: int, total: int) -> None:
            """Reports how many conversations a step has done."""
            report(self.merged, f"{text}: {done:,} of {total:,} {step}")

        keys = list(view.sizes)
        ids, labels = view.state.group_indices(keys)
        space = self._queue_cache.space(view.stored)
        with_vector = np.isin(ids, space.ids, assume_unique=True)
        ids, labels = ids[with_vector], labels[with_vector]
        if len(ids) < 2:
            return []
        neighbors = Neighbors(space.rows_of(ids), partial(note, "indexed"))
        count = min(SETTLE_NEIGHBORS, len(ids) - 1)
        near = neighbors.of_rows(np.arange(len(ids)), count, note=partial(note, "looked at"))
        decisions = self._decision_log.active(self._stored.id)
        settled = settle(near, labels, _placed_by_person(view, ids, decisions))
        moves = []
        for number, key in enumerate(keys):
            gained = ids[(settled == number) & (labels != number)]
            if len(gained):
                part = array("q", gained.tolist())
                moves.append(GoalDecision("move", (key,), parts=(part,), author=self._rule))
        return moves

    def _block(self, snapshot: QueueSnapshot, pairs: list[Pair]) -> list[Pair]:
        """Returns the pairs of one block of questions. One pair as in the paper, where the next depends on the
        description that comes with a yes; else the first pair and those of the next that were not asked about."""
        if self._stored.paper:
            return pairs[:1]
        unasked = [pair for pair in pairs[:PAIRS_LOOKED_AT] if not snapshot.was_asked(pair)]
        return unasked[:MIN_PAIRS_PER_BLOCK]

    def _ask(self, asking: ProposeStage, run_id: int, pairs: list[Pair]) -> Iterator[Progress]:
        """Asks the model about pairs and stores its answers."""
        done = self.merged + self.refused
        yield Progress(done, None, f"asking about {counted(len(pairs), 'pair')}")
        if not asking.asked:  # once, for that begins the account of requests
            asking.load()
        for _ in asking.ask_block(run_id, pairs, None):
            yield Progress(done, None, f"asking about {counted(len(pairs), 'pair')}")

    def _count(self, run_id: int, left: int) -> Progress:
        """Stores how many pairs were decided, and returns the progress with the number of those that are left."""
        done = self.merged + self.refused
        self._project.write(partial(runs.count, run_id=run_id, done=done, total=None))
        return Progress(done, None, f"{counted(left, 'pair')} left")

    def _decide(self, snapshot: QueueSnapshot, pair: Pair, evidence: Evidence) -> None:
        """Stores the decision on a pair and counts it; neither if a person decided on the groups meanwhile."""
        answer = evidence.answer
        merging = self._asking is None or model_says_yes(answer.yes, answer.yes_reversed) is True
        decision = GoalDecision(
            "merge" if merging else "apart",
            pair,
            ((answer.label, answer.description),) if merging and answer.label else (),
            author=self._rule,
            model=answer.model,
            probability=evidence.probability,
            evidence=evidence.as_json(),
        )
        try:
            self._decision_log.decide(self._stored.id, lambda state: [decision])
        except UsageError:
            if self._decision_log.state(self._stored.id) is snapshot.table.view.state:
                raise
            return  # a person decided meanwhile; the queue is read again
        self.merged += merging
        self.refused += not merging
        self.unanswered += self._asking is not None and answer.yes is None


def _placed_by_person(view: ClusteringView, ids: Ids, decisions: Sequence[GoalDecision]) -> Mask:
    """Returns which of `ids` a person placed where they are, by a move, or because their group is pinned or was made by
    a split; shape (ids,).

    Args:
        decisions: The decisions on the clustering that are in force.
    """
    placed = [np.empty(0, dtype=np.int64)]
    placed += [
        np.asarray(d.parts[0]) for d in decisions if d.kind == "move" and d.author == "human"
    ]
    groups = [view.state.groups[key] for key in view.state.current]
    placed += [view.state.members(group.id) for group in groups if group.settled_by_person]
    return np.isin(ids, np.concatenate(placed))


class ThemeStage(OneActStage):
    """Puts the current goals under themes, as one act of decisions; goals that a person placed stay there."""

    name = "theme"
    title = "Putting goals under themes"
    unit = "goals"
    themes = 0
    """Number of themes."""

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return f"Made {counted(self.themes, 'theme')} of goals."

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


def theme_label(labels: Sequence[str]) -> str:
    """Returns the name of a theme, which lists its goals: "Return something, get a refund, exchange a size".

    Goals that only a value or a number tells apart ("Find a restaurant · Lebanese") are listed once. Of more than
    three, the first two are listed, and the number of the others.

    Args:
        labels: Of its goals, the largest first.
    """
    names = list(dict.fromkeys(_DISTINCTION.sub("", label) for label in labels))
    names[1:] = [name[0].lower() + name[1:] if name[1:2].islower() else name for name in names[1:]]
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} and {len(names) - 2} more"
