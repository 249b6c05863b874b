"""Which conversations of a project to read first, and why: the least likely to have ended, of many goals."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from engine.base.conversation import State
from engine.base.number_format import probability
from engine.completeness.records import ScoreRow
from engine.conversations.filters import ListQuery
from engine.opener.conversations import ConversationRow
from engine.opener.open_project import OpenProject

MAX_TO_READ = 10
"""Most conversations that are named to be read first."""

MAX_TO_READ_PER_GROUP = 3
"""Most conversations of one group among those to read first, as long as other groups have some."""

LOWEST_CONSIDERED = 200
"""How many of the conversations with the lowest scores those to read first are chosen from."""

MIN_CURVE_FALL = 0.3
"""Least fall of the curve for which it is said that a conversation seemed done earlier."""

ENDINGS = {
    "user": "the user has the last word",
    "tool": "stops at a tool's answer, without a word to the user",
    "assistant": "the last answer does not look like an end",
}
"""How a conversation ends, by the role of its last message."""


class FirstReading(NamedTuple):
    """A conversation to read first, and the reason in words."""

    row: ConversationRow
    reason: str


def conversations_to_read(project: OpenProject) -> list[FirstReading]:
    """Returns the conversations to read first, the lowest score first; none where all that is scored looks ended."""
    conversations = project.conversations
    ids = conversations.ids(ListQuery(sort="p"))[:LOWEST_CONSIDERED]
    rows = [
        row for row in conversations.rows(ids) if row.state in (State.INCOMPLETE, State.BORDERLINE)
    ]
    labels = goal_labels(project)
    first: list[ConversationRow] = []
    more: list[ConversationRow] = []
    count_by_label: Counter[str] = Counter()
    for row in rows:
        label = labels.get(row.id, "")
        count_by_label[label] += 1
        (first if count_by_label[label] <= MAX_TO_READ_PER_GROUP else more).append(row)
    readings = []
    # Those of large groups fill up what is left; then all are in the order of the scores again.
    for row in sorted((first + more)[:MAX_TO_READ], key=rows.index):
        score = conversations.score(row.id)
        assert score is not None
        last_role = conversations.messages(row.id)[-1].role
        readings.append(FirstReading(row, reason(score, last_role, labels.get(row.id))))
    return readings


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


def reason(score: ScoreRow, last_role: str, label: str | None) -> str:
    """Returns why a conversation is among those to read first, in words: how it ends, what its curve did before, its
    goal.
    """
    parts = [ENDINGS.get(last_role, f"ends with a {last_role} message")]
    if score.p_end_normalised is not None and score.curve:
        peak = max(score.curve, key=lambda point: point.p_end_normalised)
        if peak.p_end_normalised - score.p_end_normalised >= MIN_CURVE_FALL:
            height = probability(peak.p_end_normalised)
            # A log of one turn can end after each step, so its turn says nothing.
            one_turn = score.curve[-1].turn == 1
            place = f"step {peak.step}" if one_turn else f"turn {peak.turn}"
            parts.append(f"seemed done after {place} ({height}) and went on")
        elif len(score.curve) > 1:
            parts.append(
                f"never above {probability(peak.p_end_normalised)} at its {len(score.curve)} places"
                " where it could end"
            )
    if score.reason:
        parts.append(score.reason)
    if label:
        parts.append(f"wanted: {label}")
    return " · ".join(parts)
