"""Reads the text by which a conversation is clustered, and stores summaries.

A *goal text* is what the user wrote, what both sides wrote, or a summary by a model. The text of a *reason* shows why
something went wrong: an explanation of an answer, the remaining tasks, or the last exchange.
"""

from __future__ import annotations

import json
import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from engine.base.conversation import SUCCEEDED, Role
from engine.base.sign import Sign
from engine.base.text import without_markup
from engine.completeness.tables import score_sets
from engine.conversations.shared_text import SharedText
from engine.conversations.tables import shared_text
from engine.goals.records import EXPLANATION, GoalText, Ids, subject_of_reasons
from engine.project.sql import message_ids, read_ids, rows_in
from engine.questions.question import NO, YES
from engine.questions.tables import questions
from engine.questions.tables.answers import CURRENT_ANSWERS, CURRENT_NOTES

NOTHING_WRITTEN = "the user wrote nothing"
"""Reason why a conversation has no goal text of what was written."""
NO_SUMMARY = "no run has summarized it"
"""Reason why a conversation has no summary."""
NOT_EXPLAINED = "nothing explains it"
"""Reason why a conversation has no text of a reason."""

_SEPARATOR = "\n"
"""What stands between the messages of a goal text."""

MAX_CITED, MAX_CITED_CHARACTERS = 3, 400
"""Most places of an answer whose sentences explain it, and most characters of each."""

FAILURE_SIGNS, MIN_FAILED = (Sign.REFUSED, Sign.REPEATS), 1 / 3
"""Signs of messages of the assistant that say how it failed, not at what; and the share of its messages with one of
these signs from which these messages, and what the user replies to them, are left out of the text of both sides."""

_SENTENCE_END = re.compile(r"[.!?。！？]\s|\n")

MAX_TEXTS_IN_MEMORY = 1_000


@dataclass(frozen=True, slots=True)
class GoalEntry:
    """The goal text of one conversation. Where there is none, `text` is empty and `reason` says why."""

    conversation_id: int
    text: str
    reason: str | None = None


def register(conn: sqlite3.Connection, config_hash: str, model: str) -> None:
    """Stores a configuration of summaries, before its first ones."""
    conn.execute(
        "INSERT INTO goal_config (config_hash, model) VALUES (?, ?)"
        " ON CONFLICT (config_hash) DO NOTHING",
        (config_hash, model),
    )


def ids_without_summary(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Returns the ids of the conversations that have neither a summary nor a reason for none under a configuration; in
    id order."""
    return read_ids(
        conn,
        "SELECT id FROM conversation WHERE NOT EXISTS (SELECT 1 FROM goal_text"
        " WHERE config_hash = ? AND conversation_id = id) ORDER BY id",
        (config_hash,),
    )


def forget_failures(conn: sqlite3.Connection, config_hash: str) -> None:
    """Deletes the reasons why there is no summary, and why there is no vector of it, under a configuration."""
    conn.execute(
        "DELETE FROM no_vector WHERE config_id IN (SELECT id FROM vector_config WHERE goal_config = ?1)"
        " AND conversation_id IN (SELECT conversation_id FROM goal_text WHERE config_hash = ?1"
        " AND reason IS NOT NULL)",
        (config_hash,),
    )
    conn.execute(
        "DELETE FROM goal_text WHERE config_hash = ? AND reason IS NOT NULL", (config_hash,)
    )


def add(
    conn: sqlite3.Connection, config_hash: str, run_id: int, entries: Sequence[GoalEntry]
) -> None:
    """Stores summaries of a registered configuration, none of which is stored yet."""
    conn.executemany(
        "INSERT INTO goal_text (config_hash, conversation_id, run_id, text, reason)"
        " VALUES (?, ?, ?, ?, ?)",
        [
            (config_hash, entry.conversation_id, run_id, entry.text, entry.reason)
            for entry in entries
        ],
    )


@dataclass(frozen=True, slots=True)
class TextSource:
    """Where goal texts come from.

    Attributes:
        kind: The kind of the texts.
        goal_config: Config hash of the summaries; None for other kinds.
    """

    kind: GoalText
    goal_config: str | None = None

    @property
    def shown(self) -> TextSource:
        """The source of the texts that people and models read: if the texts of both sides are clustered, those of the
        user only."""
        return replace(self, kind="all-user") if self.kind == "all" else self

    def read(
        self, conn: sqlite3.Connection, ids: Sequence[int], left_out: SharedText | None = None
    ) -> list[GoalEntry]:
        """Returns the text of each conversation, or the reason why there is none, in the order of the ids.

        Args:
            left_out: Shared text that is left out of what was written, unless the user of a conversation wrote nothing
                else; None is the project's.
        """
        if left_out is None:
            left_out = shared_text.stored(conn)
        if self.kind == "summary":
            entries = _read_summaries(conn, ids, self.goal_config)
        elif subject_of_reasons(self.kind):
            entries = _read_reasons(conn, ids, self.kind)
        else:
            return [_read_written_text(conn, key, self.kind, left_out) for key in ids]
        return [entries[key] for key in ids]

    def each(
        self, conn: sqlite3.Connection, ids: Sequence[int], left_out: SharedText | None = None
    ) -> Iterator[GoalEntry]:
        """Yields the same entries with at most `MAX_TEXTS_IN_MEMORY` texts in memory."""
        for start in range(0, len(ids), MAX_TEXTS_IN_MEMORY):
            page = [int(key) for key in ids[start : start + MAX_TEXTS_IN_MEMORY]]
            yield from self.read(conn, page, left_out)


class LazyTexts(Sequence[str]):
    """Texts of conversations, in the order of their ids; each is read when it is accessed."""

    def __init__(
        self, conn: sqlite3.Connection, source: TextSource, ids: Sequence[int] | Ids
    ) -> None:
        """Reads nothing yet."""
        self._conn, self._source, self._ids = conn, source, ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # no slices are taken
        (entry,) = self._source.read(self._conn, [int(self._ids[index])])
        return "" if entry.reason else entry.text


def _read_summaries(
    conn: sqlite3.Connection, ids: Sequence[int], config_hash: str | None
) -> dict[int, GoalEntry]:
    """Returns the summary of each of these conversations by id, or the reason why there is none."""
    entries = {key: GoalEntry(key, "", NO_SUMMARY) for key in ids}
    query = (
        "SELECT conversation_id, text, reason FROM goal_text WHERE config_hash = ?"
        " AND conversation_id IN"
    )
    entries |= {row[0]: GoalEntry(*row) for row in rows_in(conn, query, ids, (config_hash,))}
    return entries


def _read_reasons(
    conn: sqlite3.Connection, ids: Sequence[int], kind: GoalText
) -> dict[int, GoalEntry]:
    """Returns the text of a reason of each of these conversations by id, or the reason why there is none."""
    if kind.startswith(EXPLANATION):
        texts = _read_explanations(conn, ids, kind.removeprefix(EXPLANATION))
    elif kind == "remaining":
        texts = _read_remaining_tasks(conn, ids)
    else:
        texts = _read_last_exchanges(conn, ids)
    return {
        key: GoalEntry(key, texts[key]) if texts.get(key) else GoalEntry(key, "", NOT_EXPLAINED)
        for key in ids
    }


def _read_explanations(conn: sqlite3.Connection, ids: Sequence[int], name: str) -> dict[int, str]:
    """Returns why a question was answered as it was, by conversation: the note of the person who answered, else the
    explanation of the machine that answered last, else the sentences that it cites.

    Of a yes-no question only the answers yes are explained, of `SUCCEEDED` only no: they say that something went wrong.
    """
    sign_of_trouble = NO if name == SUCCEEDED else YES
    explained = sign_of_trouble if questions.get(conn, name).kind == "yes-no" else None
    people = (
        f"SELECT conversation_id, value FROM ({CURRENT_ANSWERS}) WHERE question = ?"
        " AND conversation_id IN"
    )
    values: dict[int, str] = dict(rows_in(conn, people, ids, (name,)))
    notes = rows_in(
        conn, f"SELECT conversation_id, note FROM ({CURRENT_NOTES}) WHERE conversation_id IN", ids
    )
    reasons: dict[int, str] = {
        key: note for key, note in notes if key in values and explained in (None, values[key])
    }
    machines = (
        "SELECT m.conversation_id, m.value, m.explanation, m.cites FROM answerer AS a"
        " JOIN machine_answer AS m USING (config_hash)"
        " WHERE a.question = ? AND m.value IS NOT NULL AND m.conversation_id IN"
    )
    for key, value, explanation, cites in rows_in(
        conn, machines, ids, (name,), "ORDER BY a.rowid DESC"
    ):
        # Where no person answered, that of the machine that answered last is in force.
        in_force = values.setdefault(key, value)
        if key not in reasons and value == in_force and explained in (None, value):
            reasons[key] = explanation or _cited_sentences(conn, key, json.loads(cites))
    return reasons


def _cited_sentences(
    conn: sqlite3.Connection, key: int, cites: Sequence[tuple[int, int, int]]
) -> str:
    """Returns the sentences in which the first cited places lie; the beginning of a message that is cited whole."""
    start, _ = message_ids(key)
    sentences: list[str] = []
    for index, first, end in cites[:MAX_CITED]:
        (text,) = conn.execute(
            "SELECT content FROM message WHERE id = ?", (start + index,)
        ).fetchone()
        if end:
            before = max((hit.end() for hit in _SENTENCE_END.finditer(text, 0, first)), default=0)
            after = _SENTENCE_END.search(text, end)
            text = text[before : after.end() if after else len(text)]
        sentences.append(" ".join(text.split())[:MAX_CITED_CHARACTERS])
    return _SEPARATOR.join(dict.fromkeys(sentences))


def _read_remaining_tasks(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """Returns the remaining tasks that were written for the scores in force, by conversation."""
    query = (
        "SELECT conversation_id, text FROM remaining WHERE text <> '' AND score_config_hash = ?"
        " AND conversation_id IN"
    )
    return dict(rows_in(conn, query, ids, (score_sets.hash_in_force(conn),)))


def _read_last_exchanges(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """Returns the last message of the user and what the assistant wrote after it, of those with a sign of trouble."""
    exchanges: dict[int, str] = {}
    query = "SELECT DISTINCT conversation_id FROM sign WHERE score > 0 AND conversation_id IN"
    for (key,) in rows_in(conn, query, ids):
        parts: list[str] = []
        for role, content in conn.execute(
            "SELECT role, coalesce(model_view, content) FROM message WHERE id BETWEEN ? AND ?"
            " AND role IN ('user', 'assistant') AND NOT hidden ORDER BY id DESC",
            message_ids(key),
        ):
            parts.insert(0, without_markup(content).strip())
            if role == "user":
                break
        exchanges[key] = _SEPARATOR.join(filter(None, parts))
    return exchanges


def failed_messages(messages_by_sign: Mapping[str, Sequence[int]]) -> frozenset[int]:
    """Returns the positions of the messages that are left out: all that are listed, but for a single repeat without a
    refusal, which is no loop.

    Args:
        messages_by_sign: Positions of the messages with each of `FAILURE_SIGNS` whose value is at least `MIN_FAILED`.
    """
    failed = frozenset[int]().union(*messages_by_sign.values())
    return failed if Sign.REFUSED in messages_by_sign or len(failed) > 1 else frozenset()


def without_failures(
    messages: Iterable[tuple[int, Role, str]], failed: Set[int]
) -> Iterator[tuple[Role, str]]:
    """Yields roles and texts without failed messages, by position, and without what the user replies to them."""
    follows_failure = has_request = False
    for index, role, text in messages:
        is_reply = follows_failure and has_request and role == "user"
        follows_failure = index in failed
        if not follows_failure and not is_reply:
            has_request = has_request or role == "user"
            yield role, text


def _read_written_text(
    conn: sqlite3.Connection, conversation_id: int, kind: GoalText, shared: SharedText
) -> GoalEntry:
    """Returns the first message of the user with any text, all of them, or the messages of both sides, as a model reads
    them, without what is shared.

    Of both sides that is left out how the assistant failed (`MIN_FAILED`), which would make failures a goal.
    """
    all_parts: list[str] = []
    unshared_parts: list[str] = []
    has_user_text = has_unshared_text = False
    query = "SELECT sign, messages FROM sign WHERE conversation_id = ? AND value >= ? AND sign IN"
    signs = FAILURE_SIGNS if kind == "all" else ()
    listed = rows_in(conn, query, signs, (conversation_id, MIN_FAILED))
    failed = failed_messages({sign: json.loads(messages) for sign, messages in listed})
    rows: Iterator[tuple[int, Role, str]] = conn.execute(
        "SELECT idx, role, coalesce(model_view, content) FROM message WHERE id BETWEEN ? AND ?"
        " AND (role = 'user' OR ? AND role = 'assistant') AND NOT hidden ORDER BY id",
        (*message_ids(conversation_id), kind == "all"),
    )
    for role, content in without_failures(rows, failed):
        if not (part := without_markup(content).strip()):
            continue
        all_parts.append(part)
        has_user_text = has_user_text or role == "user"
        if unshared := shared.without(role, part):
            unshared_parts.append(unshared)
            has_unshared_text = has_unshared_text or role == "user"
            if kind == "first-user":
                break
    if not has_user_text:
        return GoalEntry(conversation_id, "", NOTHING_WRITTEN)
    if not has_unshared_text:  # the user wrote only what is shared: then it is what was wanted
        unshared_parts = all_parts[:1] if kind == "first-user" else all_parts
    return GoalEntry(conversation_id, _SEPARATOR.join(unshared_parts))
