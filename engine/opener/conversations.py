"""Reads the list of conversations: rows with what all subjects know of each, counts, and parts of one conversation."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.conversation import LogPiece, State, Verdict, render_log
from engine.base.sign import SignReading
from engine.completeness.records import DecisionRule, RemainingTasks, ScoreRow, StateCounts
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.fields import state_selection_sql
from engine.conversations.filters import Filter, ListQuery
from engine.conversations.records import CheckCounts, MessageRow, QuarantineRow
from engine.conversations.shared_text import SharedText
from engine.conversations.tables import facets, selecting, shared_text, sources
from engine.conversations.tables.conversations import (
    by_name,
    dates,
    leaks,
    messages,
    messages_of,
    original,
)
from engine.conversations.tables.earlier_states import verdict_sql
from engine.conversations.tables.selecting import matching
from engine.formats.records import Leak
from engine.goals.tables import groups as goal_groups
from engine.project.project import Project
from engine.project.sql import IdSet, rows_in, snapshot
from engine.questions.tables import example_probes
from engine.questions.tables.answers import CURRENT_VERDICTS, tags, tags_of
from engine.signs import tables as sign_tables


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One row of the conversation list.

    Attributes:
        id: Key in the project.
        external_id: Id in the source.
        source: Label of the source.
        opening: The beginning of the first user message that is more than text shared by many conversations.
        messages: Number of messages.
        turns: Number of turns.
        chars: Number of characters of the messages.
        created_at: When it took place, ISO 8601; None where that is not known.
        p_end, p_end_normalised: Probability of an end at the last boundary, and the score that is made of it.
        state: Whether it ended, by the rule in force.
        reason: Why the conversation has no score; None where it has one.
        verdict: The verdict in force; None without one.
        tags: The tags in force.
        success: Probability of success, fitted to verdicts; None before there are enough, and without hidden states.
        trouble: Sum of the standard scores of the signs of trouble; None before the signs were read.
        signs: The signs of trouble that the conversation shows.
    """

    id: int
    external_id: str
    source: str
    opening: str
    messages: int
    turns: int
    chars: int
    created_at: str | None
    p_end: float | None
    p_end_normalised: float | None
    state: State
    reason: str | None
    verdict: Verdict | None
    tags: tuple[str, ...] = ()
    success: float | None = None
    trouble: float | None = None
    signs: tuple[SignReading, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts(StateCounts):
    """Counts of a project, or of the conversations that a query matches, with their states by the scores in force.

    `complete + incomplete + borderline + unscored == conversations`.

    Attributes:
        conversations, messages, turns, sources: Number of each.
        duplicates: Number of records that were not imported because a conversation has the same messages.
        quarantined: Number of records that could not be imported.
        leaks: Number of places that the leak guard keeps from the model.
        verdicts: Number of conversations with a verdict in force.
    """

    conversations: int = 0
    messages: int = 0
    turns: int = 0
    sources: int = 0
    duplicates: int = 0
    quarantined: int = 0
    leaks: int = 0
    verdicts: int = 0


def rows(conn: sqlite3.Connection, ids: Sequence[int]) -> list[ConversationRow]:
    """Returns the rows of conversations in the order of their ids; ids that do not exist are left out."""
    by_id: dict[int, ConversationRow] = {}
    with snapshot(conn):
        rule = score_sets.rule(conn)
        config = score_sets.hash_in_force(conn)
        tags_by_id = tags_of(conn, ids)
        success = example_probes.success_of(conn, ids)
        trouble = sign_tables.trouble_of(conn, ids)
        signs_by_id = sign_tables.of_conversations(conn, ids)
        query = (
            "SELECT c.id, c.external_id, source.label, c.opening, c.messages, c.turns, c.chars,"
            f" c.created_at, s.p_end, s.p_end_normalised, s.reason, {verdict_sql('c.id')}"
            " FROM conversation AS c JOIN source ON source.id = c.source_id"
            " LEFT JOIN score AS s ON s.conversation_id = c.id AND s.config_hash = ? WHERE c.id IN"
        )
        for row in rows_in(conn, query, ids, (config,)):
            key, name, source, opening, message_count, turns, chars, created_at, *judgment = row
            p_end, p_end_normalised, reason, verdict = judgment
            by_id[key] = ConversationRow(
                id=key,
                external_id=name,
                source=source,
                opening=opening,
                messages=message_count,
                turns=turns,
                chars=chars,
                created_at=created_at,
                p_end=p_end,
                p_end_normalised=p_end_normalised,
                state=rule.state(p_end_normalised),
                reason=reason,
                verdict=None if verdict is None else Verdict(verdict),
                tags=tags_by_id.get(key, ()),
                success=success.get(key),
                trouble=trouble.get(key),
                signs=signs_by_id.get(key, ()),
            )
    return [by_id[key] for key in ids if key in by_id]


class ConversationService:
    """Reads the conversations of one open project, from any thread.

    `rows`, `leaks`, `goal`, `score`, `remaining`, `rule` and `dates` read by key and are quick enough for the thread
    that draws; the other methods may take seconds on a million conversations.
    """

    def __init__(self, project: Project) -> None:
        self._project = project

    def ids(self, query: ListQuery) -> array[int]:
        """Returns the ids of the conversations that match, in order."""
        return self._project.read(selecting.ids, query)

    def named(self, external_id: str, source: str | None = None) -> list[int]:
        """Returns the keys of the conversations with an id in their source; of any source where no label is given."""
        return self._project.read(by_name, external_id, source)

    def rows(self, ids: Sequence[int]) -> list[ConversationRow]:
        """Returns the rows of conversations in the order of their ids."""
        return self._project.read(rows, ids)

    def messages(self, conversation_id: int) -> list[MessageRow]:
        """Returns all messages of a conversation in order."""
        return self._project.read(messages, conversation_id)

    def log(self, conversation_id: int) -> list[LogPiece]:
        """Returns the log of a conversation as a model reads it."""
        return render_log(self._project.read(messages_of, conversation_id))

    def original(self, conversation_id: int) -> bytes:
        """Returns the record of a conversation as it was imported, byte for byte."""
        return self._project.read(original, conversation_id)

    def leaks(self, conversation_id: int) -> list[Leak]:
        """Returns the places that the leak guard keeps from models, because they would tell the truth."""
        return self._project.read(leaks, conversation_id)

    def goal(self, conversation_id: int) -> str | None:
        """Returns the label of the goal of a conversation in the clustering that is shown; None without a goal."""
        return self._project.read(goal_groups.goals_of, [conversation_id]).get(conversation_id)

    def score(self, conversation_id: int) -> ScoreRow | None:
        """Returns the score in force of a conversation; None without a score."""
        return self._project.read(scores.current_score, conversation_id)

    def remaining(self, conversation_id: int) -> RemainingTasks | None:
        """Returns the remaining tasks that belong to the score in force of a conversation; None without any."""
        return self._project.read(scores.current_remaining, conversation_id)

    def counts(self, query: ListQuery | None = None) -> Counts:
        """Returns the counts of the project, or of the conversations that a query matches.

        `quarantined` counts records of all sources: they are not conversations, so no query applies to them.
        """
        with self._project.reading() as conn, snapshot(conn):
            matching_ids = matching(conn, (query or ListQuery()).filter)
            condition, flags = matching_ids.condition("id")
            message_count, turn_count, source_count = conn.execute(
                "SELECT coalesce(sum(messages), 0), coalesce(sum(turns), 0), count(DISTINCT source_id)"
                f" FROM conversation WHERE {condition}",
                flags,
            ).fetchone()
            rule, config = score_sets.rule(conn), score_sets.hash_in_force(conn)
            states = {
                state: _count(conn, matching_ids, *state_selection_sql(rule, config, state))
                for state in (State.COMPLETE, State.INCOMPLETE, State.BORDERLINE)
            }
            borderline, values = state_selection_sql(rule, config, State.BORDERLINE)
            borderline_above = f"{borderline} AND p_end_normalised >= ?", (*values, rule.threshold)
            return Counts(
                conversations=len(matching_ids),
                messages=message_count,
                turns=turn_count,
                sources=source_count,
                complete=states[State.COMPLETE],
                incomplete=states[State.INCOMPLETE],
                borderline=states[State.BORDERLINE],
                unscored=len(matching_ids) - sum(states.values()),
                above=states[State.COMPLETE] + _count(conn, matching_ids, *borderline_above),
                duplicates=_count(conn, matching_ids, "SELECT conversation_id FROM alias"),
                leaks=_count(conn, matching_ids, "SELECT conversation_id FROM leak"),
                verdicts=_count(
                    conn, matching_ids, f"SELECT conversation_id FROM ({CURRENT_VERDICTS})"
                ),
                quarantined=sources.count_quarantined(conn),
            )

    def in_trouble(self, filter: Filter) -> tuple[int, int]:
        """Returns how many conversations of a filter were read for signs of trouble, and how many of these show one."""
        with self._project.reading() as conn, snapshot(conn):
            return sign_tables.in_trouble(conn, matching(conn, filter))

    def reports(self) -> list[str]:
        """Returns the account of each source that was read completely, as JSON, in the order of the first imports."""
        return self._project.read(sources.reports)

    def checks(self) -> CheckCounts | None:
        """Returns counts of languages and personal data; None before the first check."""
        return self._project.read(facets.check_counts)

    def quarantined(self, limit: int) -> list[QuarantineRow]:
        """Returns the first records that could not be imported, in the order of import."""
        return self._project.read(sources.quarantine_rows, limit)

    def values(self, field: str, filter: Filter) -> Sequence[tuple[str, int | None]]:
        """Returns values of a field with the number of conversations that also match a filter.

        The most frequent come first, months in their order. For `meta` and `truth` they are the keys, whose number
        is None if there are too many conversations to count them.

        Raises:
            WorkbenchError: The filter cannot be answered.
        """
        return self._project.read(selecting.values, field, filter)

    def sources(self) -> list[str]:
        """Returns the labels of the sources, in the order of import."""
        return self._project.read(sources.labels)

    def shared_text(self) -> SharedText:
        """Returns the text that many conversations share, as the last import determined it."""
        return self._project.read(shared_text.stored)

    def rule(self) -> DecisionRule:
        """Returns the decision rule in force."""
        return self._project.read(score_sets.rule)

    def tags(self) -> list[tuple[str, int]]:
        """Returns the tags in force in alphabetical order, each with its number of conversations."""
        return self._project.read(tags)

    def histogram(self, bins: int) -> tuple[int, ...]:
        """Returns the number of conversations with a score in each of `bins` equal parts of 0 to 1, lowest first; an
        inner edge belongs to the part above it."""
        with self._project.reading() as conn, snapshot(conn):
            counts_by_bin = dict(
                conn.execute(
                    "SELECT min(CAST(p_end_normalised * ? AS INTEGER), ?), count(*) FROM score"
                    " WHERE config_hash = ? AND p_end_normalised IS NOT NULL GROUP BY 1",
                    (bins, bins - 1, score_sets.hash_in_force(conn)),
                ).fetchall()
            )
        return tuple(counts_by_bin.get(index, 0) for index in range(bins))

    def dates(self) -> tuple[str, str] | None:
        """Returns when the first and the last conversation took place; None where no date is known."""
        return self._project.read(dates)


def _count(
    conn: sqlite3.Connection, matching_ids: IdSet, ids: str, values: Sequence[Any] = ()
) -> int:
    """Returns how many rows of a query are of conversations in a set; a conversation with two rows counts twice.

    Args:
        ids: A query for `conversation_id`, with `values` as its parameters.
    """
    condition, flags = matching_ids.condition("conversation_id")
    sql = f"SELECT count(*) FROM ({ids}) WHERE {condition}"
    (count,) = conn.execute(sql, (*values, *flags)).fetchone()
    return int(count)
