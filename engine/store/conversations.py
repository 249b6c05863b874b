"""Reads conversations and their messages; `imports` writes them."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from engine.check_counts import CheckCounts
from engine.conversation import Conversation, Message, opens_turn, without_surrogates
from engine.errors import ProjectError
from engine.filters import Filter, ListQuery
from engine.records.conversations import (
    ConversationRow,
    Counts,
    EarlierState,
    LeakRow,
    MessageRow,
    QuarantineRow,
)
from engine.records.goals import GoalOfConversation
from engine.records.scores import DecisionRule, Histogram, RemainingRow, ScoreRow
from engine.records.triage import Verdict
from engine.shared_text import SharedText
from engine.store import checks, earlier_states, quarantine, settings, shared_text, sources
from engine.store.completeness import divergences, example_probes, remaining, scores
from engine.store.goals import groups as goal_groups
from engine.store.messages import COLUMNS, message_of, messages_of
from engine.store.project import Project
from engine.store.search import completing, counting, field_values, listing
from engine.store.search.query import matching, ordered
from engine.store.sql import chunks, id_pages, message_ids, placeholders, snapshot
from engine.store.verdicts import verdict_sql

_EXPORTED_AT_ONCE = 200

_LETTERS = str.maketrans("0123456789", "ghijklmnop")
_DIGITS = str.maketrans("ghijklmnop", "0123456789")


def ids(conn: sqlite3.Connection, query: ListQuery) -> array[int]:
    """Ids of the conversations that match a query, in its order; those without a value of the sort key come last.

    Raises:
        WorkbenchError: The search text has too many words.
    """
    with snapshot(conn):
        found = matching(conn, query.filter)
        result = ordered(conn, query.sort, query.descending, found)
        if len(result) < len(found):
            result += (found - found.of(result)).ascending()
        return result


def with_external_ids(
    conn: sqlite3.Connection, wanted: array[int], names: Collection[str]
) -> array[int]:
    """Those of the ids, in their order, whose conversations have one of these ids in their source."""
    found = {
        key
        for key, name in conn.execute("SELECT id, external_id FROM conversation")
        if name in names
    }
    return array("q", (key for key in wanted if key in found))


def rows(conn: sqlite3.Connection, wanted: Sequence[int]) -> list[ConversationRow]:
    """Rows for these ids in the order asked; ids that do not exist are left out."""
    found: dict[int, ConversationRow] = {}
    with snapshot(conn):
        rule = settings.rule(conn)
        config = settings.score_config(conn)
        tags = listing.tags_of(conn, wanted)
        success = example_probes.success_of(conn, wanted)
        kl = divergences.means(conn, wanted)
        for keys in chunks(wanted):
            for row in conn.execute(
                "SELECT c.id, c.external_id, source.label, c.opening, c.messages, c.turns, c.chars,"
                " c.created_at, s.p_end, s.p_end_normalised, s.reason,"
                f" {verdict_sql('c.id')},"
                " (SELECT e.messages FROM earlier_state AS e WHERE e.conversation_id = c.id"
                " ORDER BY e.id DESC LIMIT 1)"
                " FROM conversation AS c JOIN source ON source.id = c.source_id"
                " LEFT JOIN score AS s ON s.conversation_id = c.id AND s.config_hash = ?"
                f" WHERE c.id IN ({placeholders(keys)})",
                (config, *keys),
            ):
                found[row[0]] = _conversation_row(
                    row, rule, tags.get(row[0], ()), success.get(row[0]), kl.get(row[0])
                )
    return [found[key] for key in wanted if key in found]


def chars(conn: sqlite3.Connection, wanted: Sequence[int]) -> array[int]:
    """Characters of these conversations, in the order asked; ids that do not exist are left out."""
    found: dict[int, int] = {}
    for keys in chunks(wanted):
        query = f"SELECT id, chars FROM conversation WHERE id IN ({placeholders(keys)})"
        found.update(conn.execute(query, (*keys,)).fetchall())
    return array("q", (found[key] for key in wanted if key in found))


def messages(conn: sqlite3.Connection, conversation_id: int) -> list[MessageRow]:
    """All messages of one conversation in order."""
    result: list[MessageRow] = []
    turn = 0
    for row in conn.execute(
        f"SELECT {COLUMNS} FROM message WHERE id BETWEEN ? AND ? ORDER BY id",
        message_ids(conversation_id),
    ):
        message = message_of(row)
        if not result or opens_turn(message.role):
            turn += 1
        result.append(
            MessageRow(
                index=row[1],
                turn=turn,
                role=message.role,
                name=message.name,
                content=message.content,
                tool_calls=message.tool_calls,
                tool_call_id=message.tool_call_id,
                model_view=message.model_view,
                hidden=message.hidden,
                reasoning=message.reasoning,
                facts=message.facts,
            )
        )
    return result


def conversations_for(
    conn: sqlite3.Connection, wanted: Sequence[int]
) -> list[tuple[int, tuple[Message, ...]]]:
    """The messages of many conversations, in id order; ids that do not exist are left out."""
    found = ((key, messages_of(conn, key)) for key in sorted(set(wanted)))
    return [(key, texts) for key, texts in found if texts]


def original(conn: sqlite3.Connection, conversation_id: int) -> bytes:
    """The record as imported, byte for byte.

    Raises:
        ProjectError: There is no such conversation.
    """
    row = conn.execute(
        "SELECT raw FROM original WHERE conversation_id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        raise ProjectError(f"There is no conversation {conversation_id}.")
    return bytes(row[0])


def text_keys(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """For each conversation sixteen letters that stand for the text of its messages: no other has the same ones.

    They are letters only, so that nothing takes them for a phone number.
    """
    return {
        row[0]: row[1].hex()[:16].translate(_LETTERS)
        for row in conn.execute(
            f"SELECT id, hash FROM conversation WHERE id IN ({placeholders(ids)})", tuple(ids)
        )
    }


def by_text_key(conn: sqlite3.Connection, key: str) -> int | None:
    """The conversation whose text a key of `text_keys` stands for; None if there is none (now)."""
    digits = key.translate(_DIGITS)
    if len(digits) != 16 or set(digits) - set("0123456789abcdef"):
        return None
    row = conn.execute(
        "SELECT id FROM conversation WHERE hash >= ? AND hash < ?",
        (bytes.fromhex(digits), bytes.fromhex(digits) + b"\xff" * 32),
    ).fetchone()
    return None if row is None else row[0]


def by_name(conn: sqlite3.Connection, external_id: str, source: str | None = None) -> list[int]:
    """The conversations that were imported with this id, of a source with this label or of any."""
    rows = conn.execute(
        "SELECT c.id FROM conversation AS c JOIN source ON source.id = c.source_id"
        " WHERE external_id = ?1 AND (?2 IS NULL OR source.label = ?2)"
        " UNION SELECT a.conversation_id FROM alias AS a JOIN source ON source.id = a.source_id"
        " WHERE external_id = ?1 AND (?2 IS NULL OR source.label = ?2)",
        (without_surrogates(external_id), source and without_surrogates(source)),
    )
    return [row[0] for row in rows]


def leaks(conn: sqlite3.Connection, conversation_id: int) -> list[LeakRow]:
    """What the leak guard kept from the model in one conversation."""
    return [
        LeakRow(*row)
        for row in conn.execute(
            "SELECT conversation_id, message, rule, found FROM leak WHERE conversation_id = ?"
            " ORDER BY id",
            (conversation_id,),
        )
    ]


def export_conversations(
    conn: sqlite3.Connection, wanted: Sequence[int] | None = None
) -> Iterator[tuple[int, str, Conversation]]:
    """Yields (id, source, conversation with meta and truth) for the ids `wanted` in their order; None takes all."""
    with snapshot(conn):
        for page in id_pages(conn, wanted, _EXPORTED_AT_ONCE):
            heads = {
                row[0]: row
                for row in conn.execute(
                    "SELECT c.id, source.label, c.external_id, c.meta, truth.truth, c.created_at"
                    " FROM conversation AS c JOIN source ON source.id = c.source_id"
                    " LEFT JOIN truth ON truth.conversation_id = c.id"
                    f" WHERE c.id IN ({placeholders(page)})",
                    tuple(page),
                )
            }
            texts = dict(conversations_for(conn, page))
            for key, label, external_id, meta, truth, created_at in (
                heads[wanted_id] for wanted_id in page if wanted_id in heads
            ):
                yield (
                    key,
                    label,
                    Conversation(
                        external_id=external_id,
                        messages=texts.get(key, ()),
                        meta=json.loads(meta),
                        truth=None if truth is None else json.loads(truth),
                        created_at=created_at,
                    ),
                )


def _conversation_row(
    row: tuple[Any, ...],
    rule: DecisionRule,
    tags: tuple[str, ...],
    success: float | None,
    kl: float | None,
) -> ConversationRow:
    return ConversationRow(
        id=row[0],
        external_id=row[1],
        source=row[2],
        opening=row[3],
        messages=row[4],
        turns=row[5],
        chars=row[6],
        created_at=row[7],
        p_end=row[8],
        p_end_normalised=row[9],
        state=rule.state(row[9]),
        reason=row[10],
        verdict=None if row[11] is None else Verdict(row[11]),
        tags=tags,
        success=success,
        messages_before=row[12],
        kl=kl,
    )


class ConversationStore:
    """Reads the conversations of one open project, from any thread.

    `rows`, `leaks`, `goals`, `score`, `remaining`, `rule`, `dates` and `hits` read by key and are quick enough for the
    thread that draws; the other methods may take seconds on a million conversations.
    """

    def __init__(self, project: Project) -> None:
        self._project = project

    def ids(self, query: ListQuery) -> array[int]:
        """Ids of the conversations that match, in order."""
        with self._project.reading() as conn:
            return ids(conn, query)

    def named(self, external_id: str) -> list[int]:
        """Ids of the conversations that were imported with this id, of any source."""
        with self._project.reading() as conn:
            return by_name(conn, external_id)

    def rows(self, ids: Sequence[int]) -> list[ConversationRow]:
        """Rows for these ids in the order asked."""
        with self._project.reading() as conn:
            return rows(conn, ids)

    def messages(self, conversation_id: int) -> list[MessageRow]:
        """All messages in order."""
        with self._project.reading() as conn:
            return messages(conn, conversation_id)

    def original(self, conversation_id: int) -> bytes:
        """The record as imported, byte for byte."""
        with self._project.reading() as conn:
            return original(conn, conversation_id)

    def earlier_states(self, conversation_id: int) -> list[EarlierState]:
        """What the conversation was before imports replaced its text, the newest first."""
        with self._project.reading() as conn:
            return earlier_states.of_conversation(conn, conversation_id)

    def leaks(self, conversation_id: int) -> list[LeakRow]:
        """What the leak guard kept from the model."""
        with self._project.reading() as conn:
            return leaks(conn, conversation_id)

    def goals(self, conversation_id: int) -> list[GoalOfConversation]:
        """Its goals in the clustering that is shown, without second ones that a person removed."""
        with self._project.reading() as conn:
            return goal_groups.of_conversation(conn, conversation_id)

    def score(self, conversation_id: int) -> ScoreRow | None:
        """The current score."""
        with self._project.reading() as conn:
            return scores.score(conn, conversation_id)

    def remaining(self, conversation_id: int) -> RemainingRow | None:
        """The remaining tasks that belong to the current score."""
        with self._project.reading() as conn:
            return remaining.current(conn, conversation_id)

    def counts(self, query: ListQuery | None = None) -> Counts:
        """Counts of the project, or of what matches a query."""
        with self._project.reading() as conn:
            return counting.counts(conn, query)

    def reports(self) -> list[str]:
        """What was read from each source that was read to its end, as JSON, in the order of the first imports."""
        with self._project.reading() as conn:
            return sources.reports(conn)

    def checks(self) -> CheckCounts | None:
        """Languages, personal data and near duplicates that were found; None if nothing was looked at."""
        with self._project.reading() as conn:
            return checks.found(conn)

    def quarantined(self, limit: int) -> list[QuarantineRow]:
        """The first records that could not be imported, in the order of import."""
        with self._project.reading() as conn:
            return quarantine.rows(conn, limit=limit)

    def by_value(self, field: str) -> Mapping[str, array[int]]:
        """Ids of the conversations by their value of a field that can be compared by; those without one are left out.

        Raises:
            UsageError: There is no such field.
        """
        with self._project.reading() as conn:
            return field_values.conversations_by_value(conn, field)

    def values(self, field: str, rest: Filter) -> Sequence[tuple[str, int | None]]:
        """Values of a field of filters with the number of conversations that also match the rest of the filter.

        The most frequent come first, months in their order. For `meta` and `truth` they are the keys, whose number
        is None if there are too many conversations to count them.

        Raises:
            WorkbenchError: The rest of the filter cannot be answered.
        """
        with self._project.reading() as conn:
            return completing.values(conn, field, rest)

    def sources(self) -> list[str]:
        """Labels of the sources, in order of import."""
        with self._project.reading() as conn:
            return sources.labels(conn)

    def shared_text(self) -> SharedText:
        """The text that many conversations share, as the last import found it."""
        with self._project.reading() as conn:
            return shared_text.stored(conn)

    def rule(self) -> DecisionRule:
        """The current decision rule."""
        with self._project.reading() as conn:
            return settings.rule(conn)

    def tags(self) -> list[tuple[str, int]]:
        """Tags in force in alphabetical order, each with its number of conversations."""
        with self._project.reading() as conn:
            return listing.tags(conn)

    def histogram(self, query: ListQuery | None, bins: int) -> Histogram:
        """Histogram of the normalised scores of the project, or of what matches a query."""
        with self._project.reading() as conn:
            return counting.histogram(conn, query, bins)

    def dates(self) -> tuple[str, str] | None:
        """When the first and the last conversation took place; None where no date is known."""
        with self._project.reading() as conn:
            return listing.dates(conn)

    def hits(self, conversation_id: int, filter: Filter) -> list[int]:
        """Indices of the messages in which a word or phrase of the filter occurs, in order."""
        with self._project.reading() as conn:
            return listing.hits(conn, conversation_id, filter)
