"""Proposes pairs of groups that may be one goal, and stores what a person decides on groups.

A decision is stored with the evidence that the person was shown. The decisions of one call are an *act*: they are made
together and undone together.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from engine.base.errors import NotYet, UsageError
from engine.base.number_format import counted
from engine.goals.clusters.kmeans import split
from engine.goals.labels.distinctive_words import distinctive_words
from engine.goals.labels.phrase_labels import phrase_labels
from engine.goals.merges.merge_state import MergeState
from engine.goals.records import (
    Evidence,
    GoalDecision,
    Ids,
    Pair,
    Proposal,
    ReviewProgress,
    SplitPart,
    model_says_yes,
)
from engine.goals.service.groups import GoalService
from engine.goals.service.runs import GoalStages
from engine.goals.stages.proposing import ProposeStage
from engine.goals.tables import decisions
from engine.goals.tables.clusterings import source_of
from engine.goals.tables.texts import LazyTexts
from engine.goals.views.decision_log import Plan
from engine.goals.views.merge_queue import QueueSnapshot
from engine.jobs.runner import JobRunner
from engine.model.embedders.vectors import Numbers
from engine.project.project import Project
from engine.questions.calibration import measure_agreement
from engine.questions.records import Agreement

EXPECTED_CALLS_PER_PAIR = 4
"""Model calls that a pair is expected to take before any was asked about."""
MAX_PREVIEW_MEMBERS = 10
"""Most members of a part in the preview of a split."""


class MergeReviewService:
    """Proposes merges and stores decisions on groups. Every method may be called from any thread, is about the
    clustering that is open, and raises NotYet before anything was clustered unless it says otherwise.

    Methods that decide store one act before they return. They raise ProjectReadOnly where the project cannot be
    written, and UsageError for a group that does not exist any more.

    Attributes:
        goals: The groups that it decides on.
    """

    def __init__(
        self,
        project: Project,
        goals: GoalService,
        stages: GoalStages,
        runner: JobRunner,
        changed: Callable[[], None],
    ) -> None:
        """Opens no file and reads nothing.

        Args:
            stages: Makes the stages that ask the model.
            runner: Runs them in the background.
            changed: Called when something was decided.
        """
        self._project, self.goals, self._stages = project, goals, stages
        self._cache = stages.queue_cache
        self._log = stages.queue_cache.decision_log
        self._runner, self._changed = runner, changed

    # Proposals

    def proposal(self, skipped: Sequence[Pair] = ()) -> Proposal | None:
        """Returns the next pair to decide on that is not skipped, or where there is none the next decision of a model
        to review; None when none is left, or before anything was clustered. It does not wait for the model: the
        evidence has None for what was not asked yet."""
        if self.goals.shown() is None:
            return None
        queue = self._queue()
        skipped_pairs = {frozenset(pair) for pair in skipped}
        why = (
            "the most similar descriptions left"
            if queue.order == "similarity"
            else "its answer says most about the other pairs"
        )
        for pair in queue.ordered_pairs():
            if frozenset(pair) not in skipped_pairs:
                return self._proposals(queue, [pair], why)[0]
        for decision in self.to_review():
            if frozenset(decision.sides) not in skipped_pairs:
                return self._review_of(decision)
        return None

    def pair(self, a: str, b: str) -> Proposal:
        """Returns a proposal for any two groups, or the review of a model's decision on them."""
        for decision in self.to_review():
            if {*decision.sides} == {a, b}:
                return self._review_of(decision)
        queue = self._queue()
        for key in (a, b):
            queue.table.view.state.group(key)
        return self._proposals(queue, [queue.table.ordered(a, b)], "chosen by hand")[0]

    def to_review(self) -> list[GoalDecision]:
        """Returns the decisions of a model on pairs that no person reviewed: first the merges in the order in which
        they were made, then the refusals whose groups are still current."""
        view = self.goals.view()
        unreviewed = [
            decision
            for decision in self._log.active(view.stored.id)
            if decision.decided_by == "llm" and decision.evidence is not None
        ]
        merges = [decision for decision in unreviewed if decision.kind == "merge"]
        refusals = [decision for decision in unreviewed if decision.kind == "apart"]
        return merges + [d for d in refusals if view.state.current.keys() >= {*d.sides}]

    def _review_of(self, decision: GoalDecision) -> Proposal:
        """Returns a decision of a model as a proposal to review, with the groups and the evidence of then."""
        groups = [group for key in decision.sides if (group := self.goals.group(key))]
        a, b = sorted(groups, key=lambda group: -group.size)
        merged = decision.kind == "merge"
        return Proposal(
            a=a,
            b=b,
            evidence=Evidence.of_decision(decision),
            after=a.states + b.states,
            why="the model merged these; n takes them apart"
            if merged
            else "the model kept these apart; y merges them",
            reviewed_decision=decision,
        )

    def above(self, probability: float) -> list[Proposal]:
        """Returns the undecided pairs with at least this merge probability, most probable first."""
        if self.goals.shown() is None:
            return []
        queue = self._queue()
        undecided = queue.ordered_pairs("probability")
        probabilities = queue.probabilities(undecided).tolist()
        pairs = [pair for pair, p in zip(undecided, probabilities, strict=True) if p >= probability]
        return self._proposals(queue, pairs, f"at least {probability:g}")

    def progress(self) -> ReviewProgress:
        """Returns how far the review of pairs is, also before anything was clustered."""
        if self.goals.shown() is None:
            return ReviewProgress(agreement=measure_agreement([]))
        queue = self._queue()
        stored, pairs = queue.table.view.stored, queue.ordered_pairs()
        likely = queue.likely_pairs(pairs)
        # The paper asks about every pair, however alike the members are.
        unasked = sum(not queue.was_asked(pair) for pair in (pairs if stored.paper else likely))
        active = self._log.active(stored.id)
        decided = Counter((decision.kind, decision.decided_by) for decision in active)
        to_review = len(self.to_review())
        cost = self._project.read(decisions.answer_cost, stored.pair_config)
        return ReviewProgress(
            merged=decided["merge", "human"],
            refused=decided["apart", "human"] + decided["never", "human"],
            merged_by_rule=decided["merge", "auto"],
            refused_by_rule=decided["apart", "auto"],
            merged_by_model=decided["merge", "llm"],
            refused_by_model=decided["apart", "llm"],
            to_review=to_review,
            left=len(pairs),
            to_merge=float(queue.probabilities(pairs).sum()),
            likely=len(likely),
            unasked=unasked,
            can_ask=stored.paper or self._stages.follows_instructions(),
            calls=round(unasked * (cost[0] if cost else EXPECTED_CALLS_PER_PAIR)),
            seconds=unasked * cost[1] if cost else None,
            agreement=measure_agreement(model_and_person(active)),
            learned_from=queue.model.decisions,
            finished=not pairs and not to_review,
            asking=any(job.stage == ProposeStage.name for job in self._runner.active()),
        )

    def agreements(self) -> dict[tuple[str, str], Agreement]:
        """Returns how often the answers on pairs agree with what a person decided, by the name of the model and the
        version of the prompt, "" where it is not known."""
        by_question: dict[tuple[str, str], list[GoalDecision]] = {}
        for decision in self._log.active(self.goals.view().stored.id):
            prompt = (decision.evidence or {}).get("prompt", "")
            by_question.setdefault((decision.model, prompt), []).append(decision)
        rows = {key: measure_agreement(model_and_person(each)) for key, each in by_question.items()}
        return {key: row for key, row in rows.items() if row.n}

    def start_asking(self) -> int | None:
        """Starts to ask the model about undecided pairs in the background and returns the job id; None when there is
        nothing to ask."""
        if not self.progress().unasked:
            return None
        return self._runner.start(self._stages.ask_stages())

    def _queue(self) -> QueueSnapshot:
        """Returns the merge queue of the clustering that is open."""
        return self._cache.snapshot(self.goals.view().stored.id)

    def _proposals(self, queue: QueueSnapshot, pairs: Sequence[Pair], why: str) -> list[Proposal]:
        """Returns a proposal for each pair; `why` says in words why it is proposed."""
        if not pairs:
            return []
        # Groups of the queue's own view: one of them may have been merged away since it was read.
        groups = self.goals.groups_without_outcomes(queue.table.view)
        return queue.proposals(pairs, groups, why)

    # Decisions on pairs

    def merge(self, shown: Proposal, label: str | None = None) -> GoalDecision:
        """Merges the two groups of a proposal and stores the proposal as the person saw it; returns the decision. Where
        a model merged them, the person agrees.

        Args:
            label: Of the merged group; None takes the proposed one unless a group is pinned, or else that of the larger
                group.
        """
        decided = shown.reviewed_decision
        if decided is None:
            return self._decide(_merge_decision(shown, label))

        def plan(state: MergeState) -> Iterator[GoalDecision]:
            """Yields the review, and a rename where the person wrote another label."""
            if decided.kind == "merge":
                yield _agreement_with(decided)
                (name, description), (made,) = decided.names[0], decided.made_groups
                if label and label != name and made in state.current:
                    yield GoalDecision("rename", (made,), ((label, description),))
            else:
                yield replace(_merge_decision(shown, label), reviewed=decided.id)

        return self._act(plan)[0]

    def apart(self, shown: Proposal, *, never: bool = False) -> GoalDecision:
        """Refuses a pair and stores the proposal as the person saw it; `never` refuses it in later clusterings too.
        Where a model merged the two, that merge and all that was decided on the merged group are no longer in force;
        where it refused, the person agrees."""
        decided = shown.reviewed_decision
        if decided is not None and decided.kind == "apart" and not never:
            return self._decide(_agreement_with(decided))
        refusal = GoalDecision(
            "never" if never else "apart",
            shown.pair,
            reviewed=None if decided is None else decided.id,
        )
        return self._decide(_with_evidence(refusal, shown))

    def merge_all(self, shown: Sequence[Proposal], probability: float) -> int:
        """Merges the pairs of a list, which `above` gave for this probability, as one act, and returns how many. Where
        the list has both A with B and B with C, all three become one; pairs decided meanwhile are left out."""

        def plan(state: MergeState) -> Iterator[GoalDecision]:
            """Yields the decisions on the pairs that are still open. They have no features: nobody looked at the pair
            itself, so the merge probability would learn from itself."""
            for proposal in shown:
                decision = _merge_decision(proposal, None)
                evidence = dict(decision.evidence or {}, at_once=probability)
                evidence.pop("features")
                first, second = (state.current_of(key) for key in decision.sides)
                if first and second and first != second and not state.is_kept_apart(first, second):
                    yield replace(decision, sides=(first, second), evidence=evidence)

        return len(self._act(plan))

    # Decisions on one group or on conversations

    def rename(self, group_id: str, label: str) -> GoalDecision:
        """Gives a group another label; returns the decision.

        Raises:
            UsageError: Another group has that label.
        """
        name = " ".join(label.split())

        def plan(state: MergeState) -> list[GoalDecision]:
            """Returns the decision, with the description that the group has now."""
            group = state.group(group_id)
            if name != group.label and state.label_counts[name]:
                raise UsageError(
                    f"Another group is named “{name}”.", "Merge the two, or write another name."
                )
            names = ((name, group.description),)
            return [GoalDecision("rename", (group_id,), names)]

        return self._act(plan)[0]

    def pin(self, group_id: str, *, on: bool) -> GoalDecision:
        """Pins or unpins a group. A pinned group is not proposed for a merge and keeps its label."""
        return self._decide(GoalDecision("pin" if on else "unpin", (group_id,)))

    def place(self, group_ids: Sequence[str], theme: str) -> GoalDecision:
        """Puts goals under a theme, as one act; an empty name takes them out of theirs. Returns the first decision."""
        name = " ".join(theme.split())
        return self._act(
            lambda _: [GoalDecision("theme", (key,), ((name, ""),)) for key in group_ids]
        )[0]

    def move(self, conversation_ids: Sequence[int], group_id: str | None) -> GoalDecision:
        """Moves conversations to a group; None takes them out of all groups. Returns the decision.

        Raises:
            NotYet: The clustering does not have one of the conversations.
        """
        view = self.goals.view()
        in_clustering = {assigned.conversation_id for assigned in view.assigned}.union(
            view.state.conversation_ids.tolist()
        )
        if not in_clustering.issuperset(conversation_ids):
            raise NotYet(
                "This clustering does not know all of these conversations.",
                "Assign what came after it first.",
            )
        part = array("q", sorted(set(conversation_ids)))
        sides = () if group_id is None else (group_id,)
        return self._decide(GoalDecision("move", sides, parts=(part,)))

    # Splits

    def split_preview(self, group_id: str, parts: int = 2) -> list[SplitPart]:
        """Returns the parts into which k-means would split a group.

        Raises:
            UsageError: The group has fewer members than parts.
        """
        view = self.goals.view()
        view.state.group(group_id)
        space, members = self._cache.space(view.stored), view.members(group_id)
        if parts > max(2, len(members)):
            raise UsageError(
                f"{counted(len(members), 'conversation')} cannot be split into {parts:,} parts.",
                "Ask for fewer parts.",
            )
        part_rows = split(space.rows_of(members), parts)
        numbers = _part_numbers(members, [members[rows] for rows in part_rows])
        with self._project.reading() as conn:
            texts = LazyTexts(conn, source_of(view.stored).shown, members.tolist())
            words = distinctive_words(texts, numbers)
        rows_by_id = {row.conversation_id: row for row in self.goals.members(group_id)}
        preview = []
        for number, rows in enumerate(part_rows):
            ids = members[rows]
            vectors = space.rows_of(ids)
            order = np.argsort(-(vectors @ vectors.mean(axis=0)), kind="stable")
            central = tuple(rows_by_id[int(key)] for key in ids[order[:MAX_PREVIEW_MEMBERS]])
            preview.append(SplitPart(words[number], len(ids), central, tuple(ids.tolist())))
        return preview

    def split(self, group_id: str, parts: Sequence[Sequence[int]]) -> GoalDecision:
        """Splits a group by conversation ids; members in none of the parts make one more part. Parts are labeled with
        phrases of their members. Returns the decision.

        Raises:
            UsageError: A part has a conversation that is not in the group.
        """
        view = self.goals.view()
        view.state.group(group_id)
        members = view.members(group_id)
        sorted_parts = [array("q", sorted(set(part))) for part in parts]
        if {key for part in sorted_parts for key in part}.difference(members.tolist()):
            raise UsageError(
                "A part has a conversation that is not in the group.", "Look at its members again."
            )
        with self._project.reading() as conn:
            texts = LazyTexts(conn, source_of(view.stored).shown, members.tolist())
            parts_of_members = _part_numbers(members, sorted_parts)
            labels = phrase_labels(texts, parts_of_members, kind=view.stored.text)
        names = tuple((labels[n].label, labels[n].description) for n in sorted(labels))
        return self._decide(GoalDecision("split", (group_id,), names, tuple(sorted_parts)))

    # History

    def undo(self, act: int | None = None) -> GoalDecision | None:
        """Undoes an act, without `act` the newest in force that a person made, and returns its first decision; None if
        there is none.

        Raises:
            UsageError: A later decision cannot stand without it.
        """
        undone = self._log.undo(self.goals.view().stored.id, act)
        if undone is not None:
            self._changed()
        return undone

    def history(self) -> list[GoalDecision]:
        """Returns all decisions, newest first, those that were undone too; none before anything was clustered."""
        return [] if self.goals.shown() is None else self._log.history(self.goals.view().stored.id)

    def _decide(self, decision: GoalDecision) -> GoalDecision:
        """Stores one decision as an act and returns it as it is stored."""
        return self._act(lambda state: [decision])[0]

    def _act(self, plan: Plan) -> list[GoalDecision]:
        """Stores the decisions of a plan as one act and returns them."""
        act = self._log.decide(self.goals.view().stored.id, plan)
        self._changed()
        return act


def model_and_person(decisions: Sequence[GoalDecision]) -> list[tuple[bool, bool]]:
    """Returns (model says yes, person merged) for each pair that the model answered on and a person decided; pairs that
    were decided as a list are left out, because nobody looked at them."""
    answers = []
    for decision in decisions:
        evidence = decision.evidence or {}
        answer = model_says_yes(evidence.get("yes"), evidence.get("yes_reversed"))
        by_person = decision.decided_by == "human" and decision.kind in ("merge", "apart", "never")
        if answer is not None and by_person and "at_once" not in evidence:
            answers.append((answer, decision.kind == "merge"))
    return answers


def _agreement_with(decided: GoalDecision) -> GoalDecision:
    """Returns a person's agreement with a decision of a model."""
    return GoalDecision(
        "agree", decided.sides, decided.names, model=decided.model, reviewed=decided.id
    )


def _merge_decision(shown: Proposal, label: str | None) -> GoalDecision:
    """Returns the decision to merge a pair; without a label it takes the proposed one, unless a side is pinned."""
    pinned = shown.a.pinned or shown.b.pinned
    name = " ".join((label or ("" if pinned else shown.evidence.answer.label)).split())
    description = shown.evidence.answer.description or shown.a.description
    names = ((name, description),) if name else ()
    return _with_evidence(GoalDecision("merge", shown.pair, names), shown)


def _with_evidence(decision: GoalDecision, shown: Proposal) -> GoalDecision:
    """Returns the decision with the model, the probability and the evidence of the proposal."""
    evidence = shown.evidence
    return replace(
        decision,
        model=evidence.answer.model,
        probability=evidence.probability,
        evidence=evidence.as_json(),
    )


def _part_numbers(members: Ids, parts: Sequence[Ids | Sequence[int]]) -> Numbers:
    """Returns the index of the part of each member, shape (members,); one more than the last for one in none."""
    numbers = np.full(len(members), len(parts), dtype=np.int32)
    for number, part in enumerate(parts):
        numbers[np.isin(members, part)] = number
    return numbers
