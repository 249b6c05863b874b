"""Which conversations of a project to read first, and why: those with the most signs of trouble, of many goals."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from engine.base.conversation import State, Verdict
from engine.base.number_format import probability
from engine.base.sign import in_words
from engine.conversations.filters import NO_FILTER, Filter, ListQuery
from engine.opener.conversations import ConversationRow
from engine.opener.open_project import OpenProject

MAX_TO_READ = 5
"""Most conversations that are named to be read first."""

MAX_TO_READ_PER_GROUP = 2
"""Most conversations of one group among those to read first, as long as other groups have some."""

MOST_CONSIDERED = 100
"""How many of the conversations with the most trouble those to read first are chosen from."""


class FirstReading(NamedTuple):
    """A conversation to read first, and the reason in words."""

    row: ConversationRow
    reason: str


def conversations_to_read(
    project: OpenProject, filter: Filter = NO_FILTER, *, failures: bool = False
) -> list[FirstReading]:
    """Returns the conversations of a filter without a verdict to read first, the most trouble first; none where none of
    them shows a sign.

    Args:
        failures: Whether those that a person judged failed are among them.
    """
    conversations = project.conversations
    ids = conversations.ids(ListQuery(filter, "trouble", descending=True))[:MOST_CONSIDERED]
    verdicts = (None, Verdict.NO) if failures else (None,)
    rows = [row for row in conversations.rows(ids) if row.signs and row.verdict in verdicts]
    labels = goal_labels(project) if rows else {}
    first: list[ConversationRow] = []
    more: list[ConversationRow] = []
    count_by_label: Counter[str] = Counter()
    for row in rows:
        label = labels.get(row.id, "")
        count_by_label[label] += 1
        (first if count_by_label[label] <= MAX_TO_READ_PER_GROUP else more).append(row)
    # Those of large groups fill up what is left; then all are in the order of trouble again.
    chosen = sorted((first + more)[:MAX_TO_READ], key=rows.index)
    return [FirstReading(row, reason(row, labels.get(row.id))) for row in chosen]


def goal_labels(project: OpenProject) -> dict[int, str]:
    """Returns the label of each conversation's group by the id of the conversation; empty without a clustering."""
    clustering = project.goals.shown()
    if clustering is None:
        return {}
    state = project.merge_queue_cache.decision_log.state(clustering.clustering.id)
    return {
        int(member): state.groups[key].label
        for key in state.current
        for member in state.members(key)
    }


def reason(row: ConversationRow, label: str | None) -> str:
    """Returns why a conversation is among those to read first, in words: its signs, whether it broke off, its goal."""
    parts = ["judged failed"] if row.verdict is Verdict.NO else []
    parts.append(in_words(row.signs))
    if row.state == State.INCOMPLETE:
        parts.append(f"{row.state.word} ({probability(row.p_end_normalised)})")
    if label:
        parts.append(f"wanted: {label}")
    return " · ".join(parts)
