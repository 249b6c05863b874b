"""The stages that change groups without a person: merging, settling after it, and naming the groups that it made.

Groups are merged by the merge probability, or by the model's answer alone as in Algorithm 1 of Soroka et al.,
"Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions". The decisions are stored with those of people,
each with its author, and can be undone like them. Pairs that a person refused are not merged.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.goals.clusters.neighbors import (
    SETTLE_NEIGHBORS,
    Neighbors,
    fragments,
    loose_groups,
    mixing,
    settle,
)
from engine.goals.labels.phrase_labels import phrase_labels
from engine.goals.merges.merge_state import Group, MergeState
from engine.goals.questions import Named
from engine.goals.records import (
    DECIDE_THRESHOLD,
    Author,
    Evidence,
    GoalDecision,
    Ids,
    Pair,
    model_says_yes,
)
from engine.goals.stages.clustering import ClusterStage, GroupForecast, OnClustering
from engine.goals.stages.proposing import PAIRS_PER_BLOCK, ProposeStage
from engine.goals.tables.clusterings import source_of
from engine.goals.tables.texts import LazyTexts
from engine.goals.views.clustering_view import ClusteringView
from engine.goals.views.decision_log import Plan
from engine.goals.views.merge_queue import MergeQueueCache, QueueSnapshot
from engine.jobs.contract import CpuStage, Lane, OnProgress, Progress, ThreadedWork
from engine.model.embedders.embedder import Embedder
from engine.model.embedders.vectors import Mask, Vectors
from engine.project import runs
from engine.project.project import Project
from engine.project.records import StageCost

ASKING_MARGIN = 0.2
"""Distance of the merge probability from the threshold within which the model is asked, because its answer may move the
probability across the threshold. Farther away that is rare, and a small model on a CPU takes half a minute to
answer."""


def settle_moves(
    view: ClusteringView,
    queue_cache: MergeQueueCache,
    decided: Sequence[GoalDecision],
    author: Author,
    note: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[GoalDecision]:
    """Returns one move decision for each group that gains conversations, largest group first.

    Conversations that a person moved are not moved, nor are members of pinned groups and of groups that a person made
    by a split.

    Args:
        decided: The active decisions on the clustering.
        author: Author of the decisions.
        note: Called with (`indexed` or `looked at`, conversations done, conversations in all); may raise to stop.
    """
    keys = list(view.sizes)
    ids, labels = view.state.group_indices(keys)
    space = queue_cache.space(view.stored)
    with_vector = np.isin(ids, space.ids, assume_unique=True)
    ids, labels = ids[with_vector], labels[with_vector]
    if len(ids) < 2 or not keys:
        return []
    neighbors = Neighbors(space.rows_of(ids), partial(note, "indexed"))
    count = min(SETTLE_NEIGHBORS, len(ids) - 1)
    near = neighbors.of_rows(np.arange(len(ids)), count, note=partial(note, "looked at"))
    settled = settle(near, labels, _placed_by_person(view, ids, decided))
    moves = []
    for number, key in enumerate(keys):
        gained = ids[(settled == number) & (labels != number)]
        if len(gained):
            part = array("q", gained.tolist())
            moves.append(GoalDecision("move", (key,), parts=(part,), author=author))
    return moves


def _placed_by_person(view: ClusteringView, ids: Ids, decided: Sequence[GoalDecision]) -> Mask:
    """Returns which of `ids` a person placed where they are, shape (ids,)."""
    placed = [np.asarray(d.parts[0]) for d in decided if d.kind == "move" and d.author == "human"]
    groups = [view.state.groups[key] for key in view.state.current]
    placed += [view.state.members(group.id) for group in groups if group.settled_by_person]
    if not placed:
        return np.zeros(len(ids), dtype=np.bool_)
    return np.isin(ids, np.concatenate(placed))


Rule = Literal["auto", "llm"]
"""What decides on pairs: the merge probability, or the model's answer."""


class DecideStage(OnClustering, CpuStage):
    """Decides one pair after another and reads the merge queue again after each.

    `auto` merges the most probable pair as long as its probability reaches the threshold, of the pairs whose members
    mix: groups that lie apart from each other are not joined by their words alone. It refuses no pair, so unclear pairs
    are left to a person; at the end it settles conversations (`engine.goals.clusters.neighbors`). `llm` merges or
    refuses the most similar pair as the model answers, until every pair was refused or is below the least similarity;
    without an answer it refuses.

    Attributes:
        merged, refused: Number of pairs merged and refused.
        unanswered: Number of those refused because the model said neither yes nor no.
        moved: Number of conversations moved by settling.
        asking: The stage that asks the model about pairs; None if none is asked.
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
        embedder: Embedder | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            cluster: The stage before that makes the clustering; None takes the one that is open.
            asking: The stage that asks the model about pairs; None decides without a model.
            threshold: Merge probability from which `auto` merges.
            embedder: Makes the vectors of descriptions in this run, where it is behind an endpoint.

        Raises:
            UsageError: The rule is `llm` and no model is asked.
        """
        if rule == "llm" and asking is None:
            raise UsageError(
                "The model's answers cannot decide when no model is asked.",
                "Leave out --no-labels.",
            )
        super().__init__(project)
        self._queue_cache = queue_cache
        self._decision_log = queue_cache.decision_log
        self._rule, self._cluster = rule, cluster
        self.asking, self._threshold, self._embedder = asking, threshold, embedder
        self.lane: Lane = "cpu" if asking is None else "model"
        self.merged = self.refused = self.unanswered = self.moved = 0

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
            "clustering": self._stored.id,
            "rule": self._rule,
            "threshold": self._threshold,
            "asking": None if self.asking is None else self.asking.config_hash,
        }

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """The fingerprints of the model; empty without one."""
        return {} if self.asking is None else self.asking.fingerprints

    @property
    def asks_endpoints(self) -> bool:
        """Whether the model that is asked is behind endpoints."""
        return self.asking is not None and self.asking.asks_endpoints

    def estimate_waiting(self) -> StageCost:
        """Returns what asking endpoints costs; sends nothing. For `auto` these are the pairs that mix and are not far
        below the threshold, at least those near it; for `llm` all, at least as many as merge all groups into one."""
        assert self.asking is not None
        snapshot = self._queue_cache.snapshot(self._stored.id)
        if self._rule == "llm":
            return self.asking.estimate(snapshot.unasked(), len(snapshot.table.sizes) - 1)
        pairs = snapshot.mixing(snapshot.unasked())
        if not pairs:
            return self.asking.estimate([], 0)
        p = snapshot.probabilities(pairs)
        candidates = [
            pair
            for pair, is_near in zip(pairs, p >= self._threshold - ASKING_MARGIN, strict=True)
            if is_near
        ]
        near = np.abs(p - self._threshold) <= ASKING_MARGIN
        return self.asking.estimate(candidates, int(near.sum()))

    def estimate_ahead(self, groups: GroupForecast) -> StageCost:
        """Returns what asking endpoints costs before there are groups; sends nothing. For `auto` it is from no pair to
        one for each group: a group mixes with one or two others."""
        assert self.asking is not None
        if self._rule == "auto":
            return self.asking.estimate_pairs_ahead(groups, 0, groups.most - 1)
        pairs = groups.most * (groups.most - 1) // 2
        return self.asking.estimate_pairs_ahead(groups, groups.least - 1, pairs)

    def interrupt(self) -> None:
        """Ends the request in flight; the decisions so far stay."""
        super().interrupt()
        if self.asking is not None:
            self.asking.interrupt()

    def run(self, run_id: int) -> Iterator[Progress]:
        """Decides pairs one by one, each in a transaction of its own.

        Raises:
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        if self.asking is not None:
            self.asking.show_answers()
        if self._embedder is not None:
            self._queue_cache.embed_labels(self._stored, self._embedder)
        while True:
            self._check()
            snapshot = self._queue_cache.snapshot(self._stored.id)
            pairs = (
                snapshot.mixing(snapshot.ordered_pairs("probability"))
                if self._rule == "auto"
                else snapshot.ordered_pairs("similarity")
            )
            if not pairs:
                break
            if unasked := self._pairs_to_ask(snapshot, pairs):
                yield from self._ask(run_id, unasked)
                continue
            (evidence,) = snapshot.evidence(pairs[:1])
            if self._rule == "auto" and evidence.probability < self._threshold:
                break
            self._decide(snapshot, pairs[0], evidence)
            done = self.merged + self.refused
            self._project.write(partial(runs.count, run_id=run_id, done=done, total=None))
            yield Progress(done, None, f"{len(pairs) - 1:,} pairs left")
        if self._rule == "auto":
            running = ThreadedWork(self._settle)
            for _, note in running.reports():
                yield Progress(self.merged, None, note)
            running.result()

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Merged {counted(self.merged, 'pair')}"
        if self.refused:
            text += f", refused {self.refused:,}"
        if self.unanswered:
            text += f", {self.unanswered:,} of them because the model said neither yes nor no"
        if self.asking is not None:
            text += f", asked about {self.asking.asked:,}"
        if self.moved:
            text += f", moved {counted(self.moved, 'conversation')} to their neighbors' groups"
        return text + "." + (self.asking.spent() if self.asking else "")

    def _settle(self, report: Callable[[int, str], None]) -> None:
        """Settles conversations, as one act."""
        text = "settling conversations by their neighbors"
        report(self.merged, text)

        def note(what: str, done: int, total: int) -> None:
            """Reports how far it is; raises Cancelled if the run was interrupted."""
            self._check()
            report(self.merged, f"{text}: {done:,} of {total:,} {what}")

        view = self._queue_cache.view(self._stored.id)
        decided = self._decision_log.active(self._stored.id)
        moves = settle_moves(view, self._queue_cache, decided, self._rule, note)
        try:
            self._decision_log.decide(self._stored.id, lambda state: moves)
        except UsageError:
            if self._decision_log.state(self._stored.id) is view.state:
                raise
            return  # a person decided meanwhile
        self.moved = sum(len(move.parts[0]) for move in moves)

    def _pairs_to_ask(self, snapshot: QueueSnapshot, pairs: list[Pair]) -> list[Pair]:
        """Returns the pairs to ask the model about before the first pair is decided; none if the first one is far from
        the threshold. The next pairs are asked about with it, in one block of questions."""
        if self.asking is None:
            return []
        first_pairs = pairs[: 4 * PAIRS_PER_BLOCK]
        if self._rule == "auto":
            if snapshot.probabilities(pairs[:1])[0] >= self._threshold + ASKING_MARGIN:
                return []
            lowest = self._threshold - ASKING_MARGIN
            probabilities = snapshot.probabilities(first_pairs)
            first_pairs = [
                pair for pair, p in zip(first_pairs, probabilities, strict=True) if p >= lowest
            ]
        elif snapshot.asked(pairs[0]):
            return []
        elif self._stored.paper:
            return pairs[:1]  # the next pair depends on the description that comes with a yes
        return [pair for pair in first_pairs if not snapshot.asked(pair)][:PAIRS_PER_BLOCK]

    def _ask(self, run_id: int, pairs: list[Pair]) -> Iterator[Progress]:
        """Asks the model about pairs and stores its answers."""
        asking, done = self.asking, self.merged + self.refused
        if asking is None:
            return
        yield Progress(done, None, f"asking about {len(pairs)} pairs")
        if not asking.asked:  # once, for that begins the account of requests
            asking.load()
        for _ in asking.ask(run_id, pairs, None):
            yield Progress(done, None, f"asking about {len(pairs)} pairs")

    def _decide(self, snapshot: QueueSnapshot, pair: Pair, evidence: Evidence) -> None:
        """Stores the decision on a pair and counts it; neither if a person decided on the groups meanwhile."""
        answer = evidence.answer
        merging = self._rule == "auto" or model_says_yes(answer.yes, answer.yes_reversed) is True
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
        self.unanswered += self._rule == "llm" and answer.yes is None


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
        self._check()
        results: list[Plan] = []
        for done, note in self._run_on_thread(self._find_decisions, results.append):
            yield Progress(done, None, note)
        self._check()
        (plan,) = results
        count = len(self._queue_cache.decision_log.decide(self._stored.id, plan))
        self._project.write(lambda conn: runs.count(conn, run_id, count, count))
        yield Progress(count, count)

    @abstractmethod
    def _find_decisions(self, report: OnProgress) -> Plan:
        """Returns the plan of the act."""


class NameStage(OneActStage):
    """Renames, as one act, the current groups that no person named, by phrases of their members. Groups without a
    request in common are joined before: the fragments of a goal, which few words tell from one another, and the rest.
    """

    name = "name"
    title = "Naming groups"
    unit = "groups"
    renamed = joined = 0
    """Number of groups that got another name, and of those without a common request that were joined."""

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Named {counted(self.renamed, 'group')} by phrases of their members"
        if self.joined:
            text += f"; joined {self.joined:,} without a common request"
        return text + "."

    def _find_decisions(self, report: OnProgress) -> Plan:
        """Returns the plan that joins groups without a common request and gives groups their names; all are named
        together, so that no two get the same."""
        view = self._queue_cache.view(self._stored.id)
        state = view.state
        groups = {group.id: group for group in _open_groups(state)}
        if not any(group.made_of or group.support is None for group in groups.values()):
            return lambda _: []  # no group is more than its cluster, which has its label
        report(0, "looking for labels")
        refused = {key for pair in (*state.refused, *state.forbidden) for key in pair}
        keys = list(state.current)
        members = _Members(self._queue_cache, view)
        open_numbers = {
            number for number, key in enumerate(keys) if key in groups and key not in refused
        }
        sets_to_join: list[list[int]] = []
        with self._project.reading() as conn:
            texts = LazyTexts(conn, source_of(self._stored).shown, members.ids)
            names = members.names(texts)
            for find_sets in (fragments, fragments, loose_groups):
                unnamed = [number for number in names if names[number].support is None]
                sets = find_sets(members.mixing(), sorted(open_numbers.intersection(unnamed)))
                if sets:
                    members.join(sets)
                    sets_to_join += sets
                    names = members.names(texts, names)
        self.joined = len({number for numbers in sets_to_join for number in numbers})

        def plan(current: MergeState) -> Iterator[GoalDecision]:
            """Yields the merges, each of the group that the one before made, and the new names."""
            renamable = set(groups)
            for first, *others in sets_to_join:
                name = names[members.number_of(first)]
                for number in others:
                    yield GoalDecision(
                        "merge",
                        (keys[first], keys[number]),
                        ((name.label, name.description),),
                        author="auto",
                        evidence={"rest": True} if name.support is None else None,
                    )
                    keys[first] = next(reversed(current.current))
                    renamable.add(keys[first])
            for number, name in names.items():
                group = current.groups[keys[number]]
                if group.id in renamable and (name.label, name.support) != (
                    group.label,
                    group.support,
                ):
                    self.renamed += 1
                    yield GoalDecision(
                        "rename",
                        (group.id,),
                        ((name.label, name.description),),
                        author="auto",
                        evidence={"support": name.support},
                    )

        return plan


class _Members:
    """The conversations of the current groups with their vectors, while groups are joined.

    Attributes:
        ids: Ids of the conversations that have a vector, ascending.
        numbers: Index of the group of each in `MergeState.current`, that of the first where groups were joined.
    """

    def __init__(self, queue_cache: MergeQueueCache, view: ClusteringView) -> None:
        space, state = queue_cache.space(view.stored), view.state
        ids, group_indices = state.group_indices(list(state.current))
        has_vector = np.isin(ids, space.ids, assume_unique=True)
        self.ids, self.numbers = ids[has_vector], group_indices[has_vector]
        self._stored, self._rows = view.stored, space.rows_of(self.ids)
        self._first_of = list(range(len(state.current)))
        sampled_ids, self._cosines = queue_cache.sampled_cosines(view)
        self._sampled_rows = np.searchsorted(self.ids, sampled_ids)

    def number_of(self, number: int) -> int:
        """Returns the index under which the members of a group are counted."""
        while (first := self._first_of[number]) != number:
            number = first
        return number

    def mixing(self) -> Vectors:
        """Returns how groups mix, shape (groups, groups); see `engine.goals.clusters.neighbors.mixing`."""
        return mixing(self._cosines, self.numbers[self._sampled_rows], len(self._first_of))

    def join(self, sets: Sequence[Sequence[int]]) -> None:
        """Counts the members of each set of groups as those of its first one."""
        for first, *others in sets:
            self.numbers[np.isin(self.numbers, others)] = first
            for number in others:
                self._first_of[number] = first

    def names(
        self, texts: LazyTexts, before: Mapping[int, Named] | None = None
    ) -> dict[int, Named]:
        """Returns the names of all groups by their indices; a group that had a supported name before others were joined
        does not lose it."""
        distances = np.zeros(len(self.ids), dtype=np.float32)
        for number in np.unique(self.numbers):
            is_member = self.numbers == number
            rows = self._rows[is_member]
            distances[is_member] = 1 - rows @ rows.mean(axis=0)
        seed, text = self._stored.seed, self._stored.text
        names = phrase_labels(texts, self.numbers, distances, seed, text)
        labels = {name.label for name in names.values()}
        for number, name in names.items():
            old = before.get(number) if before else None
            if name.support is None and old and old.support and old.label not in labels:
                names[number] = old
        return names


def _open_groups(state: MergeState) -> list[Group]:
    """Returns the current groups whose name is not a person's."""
    groups = [state.groups[key] for key in state.current]
    return [
        group
        for group in groups
        if not group.pinned
        and not any(by and by.author == "human" for by in (group.made_by, group.named_by))
    ]
