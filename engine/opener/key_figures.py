"""The key figures of a project, with which the overview and the report begin, and the conversations to read first.

A *clause* is a part of a sentence in words, such as `3 of 10 judged failed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine.base.conversation import SUCCEEDED, State, Verdict
from engine.base.errors import NotFound
from engine.base.number_format import counted, is_few, probability, share_range
from engine.base.sign import in_words
from engine.base.statistics.intervals import Interval
from engine.base.text import whole_words
from engine.conversations.filter_fields import NO_VALUE
from engine.conversations.filters import NO_FILTER, Filter, ListQuery, Term
from engine.opener.conversations import ConversationRow, Counts
from engine.opener.open_project import OpenProject
from engine.questions.records import YES_FROM, ExampleProbe, likely_success

if TYPE_CHECKING:
    from engine.goals.merges.merge_state import Group
    from engine.results.comparison.differences import PeriodChange

MAX_GOALS = 8
"""Most goals that are named."""
MAX_LABEL_CHARACTERS = 40

MAX_TO_READ = 5
"""Most conversations to read first."""
UNLIKELY = "least likely to have succeeded"
"""What the conversations to read first are, in words, where verdicts choose them."""
MAX_TO_READ_PER_GROUP = 2
"""Most conversations of one group among those to read first, as long as other groups have any."""
MOST_CONSIDERED = 100
"""Number of conversations, those that come first, from which those to read first are chosen."""


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """The best known figures of some conversations.

    Attributes:
        counts: Numbers of conversations, of verdicts, and of those that ended, broke off, are open or not scored.
        goals: (label, number of conversations) of each goal, the most frequent first.
        trouble: Number of conversations that were read for signs of trouble, and of those that show one.
        judged: Number of conversations that a person judged failed, and of those with a verdict yes or no.
        failures: Number of failed conversations by imported outcomes, and of those with an outcome; None where too few
            have one.
        succeeded: Share of conversations whose user got what they wanted, by verdicts; None where it is unknown.
        change: The change in the last month, or week; None where fewer than two of them have enough conversations.
        doubt: Why the scores mean little; empty where nothing is doubtful.
        worst_judged: Whether most verdicts are on the conversations with the most signs of trouble.
    """

    counts: Counts
    goals: Sequence[tuple[str, int]] = ()
    trouble: tuple[int, int] = (0, 0)
    judged: tuple[int, int] = (0, 0)
    failures: tuple[int, int] | None = None
    succeeded: Interval | None = None
    change: PeriodChange | None = None
    doubt: str = ""
    worst_judged: bool = False

    def goal_clauses(self) -> list[str]:
        """Returns clauses on the goals: their number, then the most frequent ones with their shares."""
        if not self.goals:
            return ["nothing is clustered yet"]
        shares = [
            f"{whole_words(label, MAX_LABEL_CHARACTERS)} {size / self.counts.conversations:.0%}"
            for label, size in self.goals[:MAX_GOALS]
        ]
        return [counted(len(self.goals), "goal"), *shares]

    def ending_clauses(self) -> list[str]:
        """Returns clauses on endings: the share of ended conversations with its range, and the numbers of the
        others."""
        counts = self.counts
        if not counts.scored:
            return [self.doubt or "nothing is scored yet"]
        clauses = [f"{share_range(counts.above, counts.scored)} ended"]
        if self.doubt:
            clauses.append(self.doubt)
        clauses.append(f"{counts.incomplete:,} broken off")
        if counts.borderline:
            clauses.append(f"{counts.borderline:,} open")
        if counts.unscored:
            clauses.append(f"{counts.unscored:,} not scored")
        return clauses

    def failure_clauses(self) -> list[str]:
        """Returns clauses on failures.

        They say how many conversations people judged failed, which is no share of all because people choose what they
        judge; the share that succeeded by verdicts, else the share that failed by imported outcomes; and how many show
        signs of trouble.
        """
        failed, judged = self.judged
        worst_judged = self.worst_judged and not is_few(judged)  # no share is seen in a few
        why_not_all = " (judged the worst first, so not the share of all)" if worst_judged else ""
        clauses = [f"{failed:,} of {judged:,} judged failed{why_not_all}"] if judged else []
        if self.succeeded is not None:
            share = self.succeeded
            clauses.append(
                f"an estimated {share.value:.0%} ({share.low:.0%} to {share.high:.0%}) got what they wanted"
            )
        elif self.failures is not None:
            clauses.append(f"{share_range(*self.failures)} failed, by imported outcomes")
        read, with_signs = self.trouble
        if read:
            clauses.append(f"{with_signs:,} of {read:,} show signs of trouble")
        if not judged and self.succeeded is None and self.failures is None:
            clauses.append("who failed, only verdicts say")
        return clauses

    def change_clauses(self) -> list[str]:
        """Returns clauses on the last month or week: what differs significantly from the one before, or that nothing
        does."""
        if self.change is None:
            return ["too few conversations in the last months and weeks"]
        from engine.results.comparison.formatting import change_clauses

        clauses = change_clauses(self.change) or ["no real change"]
        return [f"{self.change.last} against {self.change.first}: {clauses[0]}", *clauses[1:]]


def imported_failures(project: OpenProject, filter: Filter) -> tuple[int, int] | None:
    """Returns the number of conversations of a filter that failed by imported outcomes, and of those with an outcome.

    Returns None where too few have an imported outcome, or where verdicts say more.
    """
    try:
        split = project.associations.split()
    except NotFound:
        return None
    if not all(
        term.field.startswith("truth") for term in (*split.first.terms, *split.second.terms)
    ):
        return None
    failed, succeeded = (
        project.conversations.counts(ListQuery(Filter((*filter.terms, *side.terms)))).conversations
        for side in (split.first, split.second)
    )
    return (failed, failed + succeeded) if failed + succeeded else None


def last_change(project: OpenProject, filter: Filter = NO_FILTER) -> PeriodChange | None:
    """Returns how the last month of a filter differs from the month before, or the last week where there are not two
    months; reads all scores.

    Returns None where fewer than two months and two weeks have enough conversations.
    """
    measures = project.comparison.read_measures(filter)
    for field in ("month", "week"):
        try:
            change = project.comparison.breakdown(measures, field, filter).last_change
        except NotFound:  # there are no dates
            return None
        if change is not None:
            return change
    return None


class FirstReading(NamedTuple):
    """A conversation to read first, and the reason in words."""

    row: ConversationRow
    reason: str


def success_probe(project: OpenProject) -> ExampleProbe | None:
    """Returns the probe by which the conversations to read first are chosen; None while it tells no failures and signs
    of trouble choose them."""
    probe = project.example_probes.in_force()
    return probe if probe is not None and probe.tells else None


def conversations_to_read(
    project: OpenProject, filter: Filter = NO_FILTER, *, failures: bool = False
) -> list[FirstReading]:
    """Returns the conversations of a filter to read first: the least likely to have succeeded, where verdicts tell
    that better than chance, else those with a sign of trouble, the most trouble first. They have no verdict.

    Args:
        failures: Whether conversations that a person judged failed are returned too.
    """
    conversations = project.conversations
    values = (NO_VALUE, Verdict.NO) if failures else (NO_VALUE,)
    among = Filter((*filter.terms, Term(SUCCEEDED, ":", values)))
    by_probe = success_probe(project) is not None
    query = ListQuery(among, "success") if by_probe else ListQuery(among, "trouble", True)
    rows = conversations.rows(conversations.ids(query)[:MOST_CONSIDERED])
    rows = [row for row in rows if (row.success is not None if by_probe else row.signs)]
    goals = _goals(project) if rows else {}
    preferred: list[ConversationRow] = []
    others: list[ConversationRow] = []
    counts: Counter[str] = Counter()  # by the id of the goal; several may have one label
    for row in rows:
        goal_id = goals[row.id].id if row.id in goals else ""
        counts[goal_id] += 1
        if counts[goal_id] <= MAX_TO_READ_PER_GROUP and (
            row.success is None or row.success < YES_FROM
        ):
            preferred.append(row)
        else:
            others.append(row)
    # what probably succeeded, and more conversations of large groups, only fill the list up; then all are in their
    # order again
    chosen = sorted((preferred + others)[:MAX_TO_READ], key=rows.index)
    return [FirstReading(row, _reason_text(row, goals.get(row.id))) for row in chosen]


def _goals(project: OpenProject) -> dict[int, Group]:
    """Returns the group of each conversation by the id of the conversation; empty without a clustering."""
    clustering = project.goals.shown()
    if clustering is None:
        return {}
    state = project.merge_queue_cache.decision_log.state(clustering.clustering.id)
    return {
        int(member): state.groups[key] for key in state.current for member in state.members(key)
    }


def _reason_text(row: ConversationRow, goal: Group | None) -> str:
    """Returns why a conversation is to be read first, in words: its verdict or how likely it succeeded, its
    signs, whether it broke off, and its goal."""
    parts = ["judged failed"] if row.verdict is Verdict.NO else []
    parts += [] if parts or row.success is None else [likely_success(row.success)]
    parts += [in_words(row.signs)] if row.signs else []
    if row.state == State.INCOMPLETE:
        parts.append(f"{row.state.word} ({probability(row.p_end_normalised)})")
    if goal is not None and goal.label:
        parts.append(f"wanted: {goal.label}")
    return " · ".join(parts)
