"""The goals of an open project: clusterings, their groups, the merge queue, decisions, and runs."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from engine.base.errors import NotFound, NotYet, UsageError
from engine.completeness.tables import score_sets
from engine.completeness.tables.scores import last_values
from engine.conversations.filters import Filter
from engine.conversations.tables.selecting import matching
from engine.goals.merges.merge_state import MergeState
from engine.goals.records import (
    LEAST_SHARE,
    ClusteringRow,
    GoalDecision,
    GoalGroup,
    GroupPeriod,
    LowestGoal,
    MapPoint,
    MemberOrder,
    MemberRow,
    MergeOrder,
    Pair,
    Proposal,
    ReviewProgress,
    SecondGoal,
    SecondGoalJudgement,
    SettleCandidate,
    SplitPart,
    SplitProposal,
    UndoneJudgement,
)
from engine.goals.requests import ClusteringRequest
from engine.goals.service import decisions as new_decisions
from engine.goals.service.runs import GoalStages
from engine.goals.stages.deciding import settle_moves
from engine.goals.tables import clusterings, decisions, measurements, second_goals
from engine.goals.tables.clusterings import stored_clustering
from engine.goals.tables.measurements import Measurements
from engine.goals.views import group_members, splitting
from engine.goals.views.clustering_view import (
    ClusteringView,
    GroupFigures,
    Space,
    filtered_rows,
    group_figures_version,
    group_row,
    group_rows,
)
from engine.goals.views.decision_log import Plan
from engine.goals.views.merge_queue import (
    QueueSnapshot,
    put_least_similarity,
    put_order,
    queue_settings,
)
from engine.jobs.runner import JobRunner
from engine.project.project import Project
from engine.project.records import ClusteringEstimate
from engine.project.sql import snapshot
from engine.questions.calibration import agreement
from engine.questions.tables import verdicts

ASKING = "propose"
"""Name of the stage that asks the model about pairs."""
CALLS = 4
"""Model calls that a pair is expected to take before any was asked about."""

EVERYTHING = Filter()

LEAST_SCORED = 3
"""The rate of complete conversations of a goal with fewer scored ones says nothing."""

WHY: dict[MergeOrder, str] = {
    "similarity": "the most similar descriptions left",
    "probability": "the most probable merge left",
    "informative": "its answer says most about the other pairs",
}


class GoalService:
    """The goals of one project. Every method may be called from any thread. Unless it says otherwise it is about the
    clustering that is shown.

    Methods that decide store one act before they return. They raise ProjectReadOnly where the project cannot be
    written, and UsageError for a group that does not exist any more.
    """

    def __init__(
        self,
        project: Project,
        stages: GoalStages,
        runner: JobRunner,
        changed: Callable[[], None],
    ) -> None:
        """Opens no file and reads nothing.

        Args:
            stages: Makes the stages of runs.
            runner: Runs them in the background.
            changed: Called when something was decided or another clustering is shown.
        """
        self._project, self._stages = project, stages
        self._cache = stages.queue_cache
        self._decisions = stages.queue_cache.decision_log
        self._runner, self._changed = runner, changed
        self._guard = threading.Lock()
        self._figures: tuple[tuple[object, ...], GroupFigures] | None = None

    # Clusterings and groups

    def clusterings(self) -> list[ClusteringRow]:
        """All clusterings, oldest first. Quick."""
        with self._project.reading() as conn, snapshot(conn):
            return [
                ClusteringRow(
                    id=stored.id,
                    config_hash=stored.config_hash,
                    run_id=stored.run_id,
                    created_at=stored.created_at,
                    text=stored.text,
                    embedder=stored.embedder,
                    k=stored.k,
                    seed=stored.seed,
                    conversations=stored.conversations,
                    groups=decisions.group_count(conn, stored.id),
                    outliers=stored.outliers,
                    without=stored.no_text,
                    novel=clusterings.assigned_version(conn, stored.id)[1],
                )
                for stored in clusterings.clusterings(conn)
            ]

    def shown(self) -> ClusteringRow | None:
        """The clustering that is shown; None before any was made. Quick."""
        with self._project.reading() as conn:
            key = clusterings.shown(conn)
        return next((row for row in self.clusterings() if row.id == key), None)

    def show(self, clustering_id: int) -> None:
        """Shows another clustering.

        Raises:
            UsageError: There is no such clustering.
        """
        with self._project.reading() as conn:
            known = clusterings.clustering(conn, clustering_id)
        if known is None:
            raise NotFound(f"There is no clustering {clustering_id}.")
        self._project.write(lambda conn: clusterings.show(conn, clustering_id))
        self._changed()

    def groups(self, wanted: Filter = EVERYTHING) -> list[GoalGroup]:
        """The current groups, largest first; none before a clustering was made.

        Args:
            wanted: Counts only conversations that match, and leaves out groups without any.

        Raises:
            WorkbenchError: The filter cannot be answered.
        """
        if self.shown() is None:
            return []
        view = self.view()
        space = self._cache.space(view.stored) if view.needs_space() else None
        if wanted:
            with self._project.reading() as conn, snapshot(conn):
                return filtered_rows(conn, view, matching(conn, wanted), space)
        return group_rows(view, self._group_figures(view), space)

    def group(self, group_id: str) -> GoalGroup | None:
        """A current or former group; None if there never was one of this id."""
        view = self.view()
        if group_id in view.sizes:
            return next(row for row in self.groups() if row.id == group_id)
        if group_id not in view.state.groups:
            return None
        space = None if view.mean(group_id) is not None else self._cache.space(view.stored)
        return group_row(view, group_id, space)

    def largest_part(self, group_id: str) -> str:
        """Id of the largest part of a group that was split; its own id otherwise."""
        state = self.view().state
        now = state.current_of(group_id)
        made_by = None if now in (None, group_id) else state.group(now).made_by
        return now if now and made_by is not None and made_by.kind == "split" else group_id

    def lowest(self, groups: Sequence[GoalGroup]) -> LowestGoal | None:
        """Of the current groups the one whose rate of complete conversations is surely the lowest: by the upper end of
        its interval. None where no group has `LEAST_SCORED` scored conversations."""
        rated = [
            (rate.high, group.number, group)
            for group in groups
            if (rate := group.states.rate) is not None and rate.of >= LEAST_SCORED
        ]
        if not rated:
            return None
        _, _, group = min(rated, key=lambda one: one[:2])
        members = [member.conversation_id for member in self.members(group.id)]
        with self._project.reading() as conn, snapshot(conn):
            threshold = score_sets.rule(conn).threshold
            values = last_values(conn, score_sets.score_config(conn) or "", members)
            judged = dict(verdicts.in_force(conn))
        low = [key for key in members if key in values and values[key] < threshold]
        return LowestGoal(
            id=group.id,
            label=group.label,
            complete=group.states.above,
            scored=group.states.scored,
            judged=sum(key in judged for key in low),
            waiting=tuple(key for key in low if key not in judged),
        )

    def members(
        self, group_id: str | None, order: MemberOrder = "central", limit: int | None = None
    ) -> list[MemberRow]:
        """The members of a current or former group, or for None the conversations in no group.

        Raises:
            UsageError: There never was such a group.
        """
        view, space = self._view_and_space()
        return group_members.group_members(self._project, view, space, group_id, order, limit)

    def more_like(self, conversation_id: int, limit: int = 50) -> list[MemberRow]:
        """The conversations whose vectors are nearest to that of one, nearest first; `distance` is to that one.

        Raises:
            UsageError: It has no vector.
        """
        view, space = self._view_and_space()
        return group_members.similar_conversations(
            self._project, view, space, conversation_id, limit
        )

    def map(self, most: int = 5000) -> list[MapPoint]:
        """The vectors of at most `most` conversations, drawn with a fixed seed, in two dimensions."""
        return group_members.map_points(*self._view_and_space(), most)

    def periods(self, by: str = "month") -> list[GroupPeriod]:
        """Sizes and shares of the groups by `month` or by `import`, oldest first.

        Raises:
            UsageError: There are no such periods.
        """
        return group_members.group_periods(self._project, self.view(), by)

    def measurements(self) -> Measurements | None:
        """What was measured of the clustering that is shown, its stability above all; None before any was made."""
        with self._project.reading() as conn:
            return measurements.of_shown(conn)

    # Second goals

    def second_goals(self, conversation_id: int, least: float = LEAST_SHARE) -> list[SecondGoal]:
        """Quick. The second goals of a conversation, those that were removed too, the largest share first.

        Args:
            least: Least share. Goals with less than `LEAST_SHARE` are shown nowhere else and cannot be judged.
        """
        with self._project.reading() as conn:
            return second_goals.of_conversation(conn, conversation_id, least)

    def judge_second_goal(
        self,
        conversation_id: int,
        group_id: str,
        judgement: SecondGoalJudgement,
        annotator: str = "",
    ) -> None:
        """Confirms or removes a second goal of a conversation.

        Raises:
            UsageError: It has no such second goal.
        """
        self._project.write(
            lambda conn: second_goals.judge(conn, conversation_id, group_id, judgement, annotator)
        )

    def undo_second_goal(self, annotator: str = "") -> UndoneJudgement | None:
        """Takes back the newest confirmation or removal; None if there is none."""
        return self._project.write(lambda conn: second_goals.undo(conn, annotator))

    # The merge queue

    def proposal(self, passed: Sequence[Pair] = ()) -> Proposal | None:
        """The next pair to decide on, without those in `passed`; None when none is left. Does not wait for the model:
        the evidence has None for what was not asked yet."""
        if self.shown() is None:
            return None
        queue = self._queue()
        skipped = {frozenset(pair) for pair in passed}
        pair = next((pair for pair in queue.left() if frozenset(pair) not in skipped), None)
        return None if pair is None else self._proposals(queue, [pair], WHY[queue.order])[0]

    def pair(self, a: str, b: str) -> Proposal:
        """A proposal for any two groups."""
        queue = self._queue()
        for key in (a, b):
            queue.table.view.state.group(key)
        return self._proposals(queue, [queue.table.ordered(a, b)], "chosen by hand")[0]

    def above(self, probability: float) -> list[Proposal]:
        """Undecided pairs with at least this merge probability, most probable first."""
        return self._between(probability, 2.0, f"at least {probability:g}")

    def below(self, probability: float) -> list[Proposal]:
        """Undecided pairs with a lower merge probability than this, most probable first."""
        return self._between(-1.0, probability, f"under {probability:g}")

    def progress(self) -> ReviewProgress:
        """How far the review of pairs is."""
        if self.shown() is None:
            with self._project.reading() as conn:
                order, least = queue_settings(conn)
            nothing = agreement([])
            return ReviewProgress(
                0, 0, 0, 0.0, (0.0, 0.0), 0, 0, 0, None, nothing, 0, least, order, False, False
            )
        queue = self._queue()
        stored, left = queue.table.view.stored, queue.left()
        likely = queue.likely(left)
        to_merge, to_merge_range = queue.to_merge(left)
        unasked = sum(not queue.asked(pair) for pair in likely)
        decided = self._decisions.active(stored.id)
        with self._project.reading() as conn:
            cost = decisions.answer_cost(conn, stored.pair_config)
        return ReviewProgress(
            merged=sum(1 for d in decided if d.kind == "merge"),
            refused=sum(1 for d in decided if d.kind in ("apart", "never")),
            left=len(left),
            to_merge=to_merge,
            to_merge_range=to_merge_range,
            likely=len(likely),
            unasked=unasked,
            calls=round(unasked * (cost[0] if cost else CALLS)),
            seconds=unasked * cost[1] if cost else None,
            agreement=agreement(new_decisions.model_and_person(decided)),
            learned_from=queue.model.decisions,
            least_similarity=queue.least_similarity,
            order=queue.order,
            finished=not left,
            asking=any(job.stage == ASKING for job in self._runner.active()),
        )

    def set_order(self, order: MergeOrder) -> None:
        """Chooses which proposal comes first."""
        self._project.write(lambda conn: put_order(conn, order))
        self._changed()

    def set_least_similarity(self, similarity: float) -> None:
        """Sets the similarity of descriptions below which no pair is proposed.

        Raises:
            UsageError: It is not between -1 and 1.
        """
        if not -1 <= similarity <= 1:
            raise UsageError("A similarity lies between -1 and 1.", "Choose such a number.")
        self._project.write(lambda conn: put_least_similarity(conn, similarity))
        self._changed()

    # Decisions

    def merge(self, shown: Proposal, label: str | None = None) -> GoalDecision:
        """Merges the two groups of a proposal and stores the proposal as the person saw it.

        Args:
            label: Of the merged group; None takes the proposed one, or that of the larger group.
        """
        return self._decide(new_decisions.merge(shown, label))

    def apart(self, shown: Proposal, *, never: bool = False) -> GoalDecision:
        """Refuses a pair and stores the proposal as the person saw it; `never` refuses it in later clusterings too."""
        return self._decide(new_decisions.refusal(shown, never=never))

    def merge_all(self, shown: Sequence[Proposal], probability: float) -> int:
        """Merges the pairs of a list, which `above` gave for this probability, as one act, and returns how many. Where
        the list has both A with B and B with C, all three become one; pairs decided meanwhile are left out."""
        return len(self._act(new_decisions.merge_all(shown, probability)))

    def refuse_all(self, shown: Sequence[Proposal], probability: float) -> int:
        """Refuses the pairs of a list, which `below` gave for this probability, as one act, and returns how many. Pairs
        decided meanwhile are left out."""
        return len(self._act(new_decisions.refuse_all(shown, probability)))

    def decide_all(self, plan: Plan) -> int:
        """Makes the decisions of a plan as one act, and returns how many."""
        return len(self._act(plan))

    def settle_preview(self) -> list[SettleCandidate]:
        """The groups that `settle` would move conversations to, the one with most of them first. Not quick."""
        if self.shown() is None:
            return []
        state = self.view().state
        found = []
        for move in self._settle_moves():
            group, ids = state.groups[move.sides[0]], np.asarray(move.parts[0])
            outliers = int(np.isin(ids, state.outliers).sum())
            found.append(SettleCandidate(group.label, group.size, len(ids), outliers))
        return sorted(found, key=lambda one: -one.count)

    def settle(self) -> int:
        """Moves each conversation to the group of most of its nearest neighbors, as one act, and returns how many
        moved."""
        moves = self._settle_moves()
        self._act(lambda state: moves)
        return sum(len(move.parts[0]) for move in moves)

    def split_preview(self, group_id: str, parts: int = 2) -> list[SplitPart]:
        """The parts into which k-means would split a group."""
        return splitting.preview(self._project, *self._view_and_space(), group_id, parts)

    def split_proposals(self) -> list[SplitProposal]:
        """The groups that seem to hold several goals. Not quick.

        Raises:
            UsageError: Nothing was clustered yet.
        """
        return splitting.proposals(self._project, *self._view_and_space())

    def split(self, group_id: str, parts: Sequence[Sequence[int]]) -> GoalDecision:
        """Splits a group by conversation ids; members in none of the parts make one more part. Parts are labeled with
        phrases of their members."""
        return self._decide(splitting.decision(self._project, self.view(), group_id, parts))

    def move(self, conversation_ids: Sequence[int], group_id: str | None) -> GoalDecision:
        """Moves conversations to a group; None takes them out of all groups.

        Raises:
            UsageError: The clustering does not have one of the conversations.
        """
        view = self.view()
        known = {one.conversation_id for one in view.assigned}.union(
            view.state.conversation_ids.tolist()
        )
        if not known.issuperset(conversation_ids):
            raise NotYet(
                "This clustering does not know all of these conversations.",
                "Assign what came after it first.",
            )
        part = array("q", sorted(set(conversation_ids)))
        sides = () if group_id is None else (group_id,)
        return self._decide(GoalDecision("move", sides, parts=(part,)))

    def rename(self, group_id: str, label: str) -> GoalDecision:
        """Gives a group another label."""
        name = " ".join(label.split())

        def plan(state: MergeState) -> list[GoalDecision]:
            names = ((name, state.group(group_id).description),)
            return [GoalDecision("rename", (group_id,), names)]

        return self._act(plan)[0]

    def pin(self, group_id: str, *, on: bool) -> GoalDecision:
        """Pins or unpins a group. A pinned group is not proposed for a merge and keeps its label."""
        return self._decide(GoalDecision("pin" if on else "unpin", (group_id,)))

    def undo(self) -> GoalDecision | None:
        """Undoes the newest act in force and returns its first decision; None if there is none."""
        return self._tell(self._decisions.undo(self.view().stored.id))

    def redo(self) -> GoalDecision | None:
        """Redoes what the newest undo took back and returns its first decision; None when nothing was undone since the
        last act."""
        return self._tell(self._decisions.redo(self.view().stored.id))

    def history(self) -> list[GoalDecision]:
        """All decisions, newest first, those that were undone too."""
        return [] if self.shown() is None else self._decisions.history(self.view().stored.id)

    # Runs

    def estimate(self, request: ClusteringRequest) -> ClusteringEstimate:
        """Returns the work and the expected time of a run, as `GoalStages.estimate` does."""
        return self._stages.estimate(request)

    def start(self, request: ClusteringRequest) -> int:
        """Starts a clustering in the background, from texts to labels and proposals; returns the job id.

        Raises:
            UsageError: There is no such embedder.
        """
        return self._runner.start(self._stages.cluster(request))

    def start_asking(self) -> int | None:
        """Starts to ask the model about undecided pairs in the background and returns the job id; None when there is
        nothing to ask."""
        if self.shown() is None or not self.progress().unasked:
            return None
        return self._runner.start(self._stages.ask())

    def start_assign(self) -> int:
        """Starts to assign conversations that came after the clustering to its groups; returns the job id."""
        return self._runner.start(self._stages.assign())

    def start_stability(self) -> int:
        """Starts to measure how stable the clusters are; returns the job id."""
        return self._runner.start([self._stages.stability()])

    # Internals

    def view(self) -> ClusteringView:
        """The clustering that is shown with its current groups.

        Raises:
            UsageError: Nothing was clustered yet.
        """
        with self._project.reading() as conn:
            stored = stored_clustering(conn, None)
        return self._cache.view(stored.id)

    def _view_and_space(self) -> tuple[ClusteringView, Space]:
        view = self.view()
        return view, self._cache.space(view.stored)

    def _group_figures(self, view: ClusteringView) -> GroupFigures:
        with self._project.reading() as conn, snapshot(conn):
            version = (view, *group_figures_version(conn))
            with self._guard:
                cached = self._figures
            if cached is not None and cached[0] == version:
                return cached[1]
            found = GroupFigures.read(conn, view)
        with self._guard:
            self._figures = version, found
        return found

    def _queue(self) -> QueueSnapshot:
        return self._cache.snapshot(self.view().stored.id)

    def _proposals(self, queue: QueueSnapshot, pairs: Sequence[Pair], why: str) -> list[Proposal]:
        return queue.proposals(pairs, self.groups(), why) if pairs else []

    def _between(self, least: float, most: float, why: str) -> list[Proposal]:
        """Undecided pairs whose merge probability is at least `least` and less than `most`."""
        if self.shown() is None:
            return []
        queue = self._queue()
        left = queue.left("probability")
        chances = queue.probabilities(left).tolist()
        pairs = [pair for pair, p in zip(left, chances, strict=True) if least <= p < most]
        return self._proposals(queue, pairs, why)

    def _settle_moves(self) -> list[GoalDecision]:
        # The author is the rule also where a person starts it: nobody looked at each conversation, so a later run may
        # move them again.
        view = self.view()
        decided = self._decisions.active(view.stored.id)
        return settle_moves(view, self._cache, decided, "auto")

    def _decide(self, decision: GoalDecision) -> GoalDecision:
        return self._act(lambda state: [decision])[0]

    def _act(self, plan: Plan) -> list[GoalDecision]:
        done = self._decisions.decide(self.view().stored.id, plan)
        self._changed()
        return done

    def _tell(self, decision: GoalDecision | None) -> GoalDecision | None:
        if decision is not None:
            self._changed()
        return decision
