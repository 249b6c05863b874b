"""The stages that change groups without a person: merging, settling after it, naming the groups that it made, and
putting them under themes, which are named by their goals.

Groups are merged by the merge probability, or by the model's answer alone as in Algorithm 1 of Soroka et al.,
"Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions". The decisions are stored with those of people,
each with its author, and can be undone like them. Pairs that a person refused are not merged.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

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
from engine.model.embedders.vectors import Mask, Vectors
from engine.project import runs
from engine.project.project import Project
from engine.project.records import StageCost

MIN_QUANTILE = 0.9
"""Quantile of the similarities of all pairs of goals that the mean similarity within a theme reaches
(docs/lab/goals.md)."""


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
        return (
            "Merging clusters"
            if self._asking is None
            else "Merging clusters by the model's answers"
        )

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
        return self._asking.estimate(snapshot.unasked(), len(snapshot.table.sizes) - 1)

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
        if self._asking is not None:
            self._asking.show_answers()
        while True:
            self._raise_if_cancelled()
            snapshot = self._queue_cache.snapshot(self._stored.id)
            pairs = (
                snapshot.mixing(snapshot.ordered_pairs("probability"))
                if self._asking is None
                else snapshot.ordered_pairs("similarity")
            )
            if not pairs:
                break
            if self._asking is not None and not snapshot.asked(pairs[0]):
                yield from self._ask(self._asking, run_id, self._block(snapshot, pairs))
                continue
            (evidence,) = snapshot.evidence(pairs[:1])
            if self._asking is None and evidence.probability < self._threshold:
                break
            self._decide(snapshot, pairs[0], evidence)
            done = self.merged + self.refused
            self._project.write(partial(runs.count, run_id=run_id, done=done, total=None))
            yield Progress(done, None, f"{len(pairs) - 1:,} pairs left")
        if self._asking is None:
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
        if self._asking is not None:
            text += f", asked about {self._asking.asked:,}"
        if self.moved:
            text += f", moved {counted(self.moved, 'conversation')} to their neighbors' groups"
        return text + "." + (self._asking.spent() if self._asking else "")

    def _settle(self, report: Callable[[int, str], None]) -> None:
        """Settles conversations, as one act."""
        text = "settling conversations by their neighbors"
        report(self.merged, text)

        def note(what: str, done: int, total: int) -> None:
            """Reports how far it is; raises Cancelled if the run was interrupted."""
            self._raise_if_cancelled()
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

    def _block(self, snapshot: QueueSnapshot, pairs: list[Pair]) -> list[Pair]:
        """Returns the first pair and those of the next that were not asked about, which share its block of questions.
        As in the paper it is asked about alone: the next pair depends on the description that comes with a yes."""
        if self._stored.paper:
            return pairs[:1]
        unasked = [pair for pair in pairs[: 4 * PAIRS_PER_BLOCK] if not snapshot.asked(pair)]
        return unasked[:PAIRS_PER_BLOCK]

    def _ask(self, asking: ProposeStage, run_id: int, pairs: list[Pair]) -> Iterator[Progress]:
        """Asks the model about pairs and stores its answers."""
        done = self.merged + self.refused
        yield Progress(done, None, f"asking about {len(pairs)} pairs")
        if not asking.asked:  # once, for that begins the account of requests
            asking.load()
        for _ in asking.ask(run_id, pairs, None):
            yield Progress(done, None, f"asking about {len(pairs)} pairs")

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
        results: list[Plan] = []
        for done, note in self._run_on_thread(self._find_decisions, results.append):
            yield Progress(done, None, note)
        self._raise_if_cancelled()
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
        if not keys:  # nobody asks for what others ask for
            return lambda _: []
        centers = view.centers(keys, self._queue_cache.space(view.stored)).astype(np.float64)
        themes = group_by_theme(centers @ centers.T)
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
