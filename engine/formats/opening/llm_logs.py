"""The database of simonw/llm (`logs.db`), in which a conversation lies in several tables.

Since version 0.32 messages are a tree and a thread names its last one; before, a response has prompt and answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.formats.opening.databases import Database, ValueTooLarge
from engine.formats.opening.framing import MAX_RECORD
from engine.formats.paths import object_in

THREADS = frozenset(("threads", "messages", "parts", "turns"))
"""Tables of a log since version 0.32."""
RESPONSES = frozenset(("conversations", "responses"))
"""Tables of an older log."""
_FACTS = ("model", "datetime_utc", "input_tokens", "output_tokens", "duration_ms", "token_details")
"""Columns that are facts of a message."""

_Rows = list[dict[str, Any]]
"""Rows of a table, each with its cells by the names of the columns."""

_SPOKEN = frozenset(("prompt", "response", "system", "reasoning", "prompt_json", "response_json"))
"""Columns of a response that are read as messages."""

_LONGEST = 100_000
"""Most messages that are followed from the last one of a thread."""


def llm_conversations(database: Database) -> Iterator[dict[str, Any] | None]:
    """Yields the conversations of a log, each with `thread`, `messages` and `turns`; None for one that is larger than a
    record may be."""
    log = _Log(database)
    yield from log.threads()
    yield from log.conversations()


class _Log:
    """What the tables hold, one conversation in memory at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._size = 0
        query = "select name from sqlite_master where type = 'table'"
        self._tables = {name for (name,) in database.rows(query)}
        self._columns: dict[str, list[str]] = {}

    def _columns_of(self, table: str) -> list[str]:
        """Returns the names of the columns of a table."""
        if table not in self._columns:
            self._columns[table] = self._database.columns(f'select * from "{table}" limit 0')
        return self._columns[table]

    def _rows(self, table: str, where: str = "1", *values: Any) -> Iterator[dict[str, Any]]:
        """Yields rows without their empty cells.

        Raises:
            ValueTooLarge: They are too large together with what was read of the conversation before.
        """
        if table not in self._tables:
            return
        columns = self._columns_of(table)
        for row in self._database.rows(f'select * from "{table}" where {where}', values):
            self._count(*row)
            yield {name: cell for name, cell in zip(columns, row, strict=True) if cell is not None}

    def _count(self, *cells: Any) -> None:
        """Adds the size of cells to that of the conversation; raises ValueTooLarge beyond the limit."""
        self._size += sum(len(cell) for cell in cells if isinstance(cell, str | bytes))
        if self._size > MAX_RECORD:
            raise ValueTooLarge

    def threads(self) -> Iterator[dict[str, Any] | None]:
        """Yields the threads of the newer tables; None for one that is larger than a record may be."""
        for thread in self._rows("threads"):
            try:
                yield self._thread(thread)
            except ValueTooLarge:
                yield None
            self._size = 0

    def _thread(self, thread: dict[str, Any]) -> dict[str, Any]:
        """Returns a thread with its messages, from its last one back to the first."""
        turns = list(self._rows("turns", "thread_id = ? order by datetime_utc", thread["id"]))
        ends = {turn.get("tip_message_hash"): turn for turn in turns}
        path: _Rows = []
        message_hash = thread.get("tip_message_hash")
        while message_hash is not None and len(path) <= _LONGEST:
            rows = list(self._rows("messages", "hash = ?", message_hash))
            path += rows
            message_hash = rows[0].get("parent_hash") if rows else None
        messages = []
        for row in reversed(path):
            turn = ends.get(row["hash"], {})
            facts = {key: turn[key] for key in _FACTS if key in turn}
            parts = self._rows("parts", "message_hash = ? order by position", row["hash"])
            content = [self._part(part) for part in parts]
            messages.append({"role": row.get("role"), "content": content, **facts})
        return {"thread": thread, "messages": messages, "turns": turns}

    def _part(self, part: dict[str, Any]) -> dict[str, Any]:
        """Returns a part of a message in the form of a chat API."""
        payload = object_in(part.get("payload"))
        if pieces := payload.pop("text_ref", None):
            part["text"] = "".join(map(self._piece, pieces))
        chat_part = {"type": part.get("type"), **payload}
        if part.get("text"):
            chat_part["text"] = part["text"]
        if chat_part["type"] == "attachment":
            chat_part |= {
                "type": "file",
                **self._attachment(object_in(payload.get("attachment")).get("id")),
            }
        return chat_part

    def _first(self, table: str, where: str, *values: Any) -> dict[str, Any]:
        """Returns the first row that meets a condition; an empty one if there is none."""
        return next(self._rows(table, where, *values), {})

    def _piece(self, piece: dict[str, Any]) -> str:
        """Returns the text of a piece of a part: a literal, or a fragment that is stored once."""
        if "literal" in piece:
            return str(piece["literal"])
        row = self._first("fragments", "id = ?", piece.get("fragment"))
        return str(row.get("content", ""))

    def _attachment(self, key: Any) -> dict[str, Any]:
        """Returns what is known of an attachment."""
        row = self._first("attachments", "id = ?", key)
        return {"mime_type": row.get("type"), "url": row.get("url"), "path": row.get("path")}

    def conversations(self) -> Iterator[dict[str, Any] | None]:
        """Yields the conversations of the older tables; None for one that is larger than a record may be."""
        if "responses" not in self._tables:
            return
        named = "conversation_id" in self._columns_of("responses")
        name = "coalesce(nullif(conversation_id, ''), id)" if named else "id"
        query = f"select id, {name} from responses order by datetime_utc, id"
        groups: dict[Any, list[Any]] = {}
        for response_id, conversation_id in self._database.rows(query):
            self._count(response_id, conversation_id)
            groups.setdefault(conversation_id, []).append(response_id)
        for conversation_id, response_ids in groups.items():
            self._size = 0
            try:
                yield self._conversation(conversation_id, response_ids)
            except ValueTooLarge:
                yield None

    def _conversation(self, name: Any, response_ids: list[Any]) -> dict[str, Any]:
        """Returns a conversation of the older tables with its messages."""
        thread = self._first("conversations", "id = ?", name) or {"id": name}
        messages: list[dict[str, Any]] = []
        turns: _Rows = []
        system = None
        for response_id in response_ids:
            response = self._first("responses", "id = ?", response_id)
            if response.get("system") and response["system"] != system:
                system = response["system"]
                messages.append({"role": "system", "content": system})
            messages += self._exchange(response)
            turns.append({column: response[column] for column in response if column not in _SPOKEN})
        return {"thread": thread, "messages": messages, "turns": turns}

    def _exchange(self, response: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the answers of tools and the prompt that were sent, and what the model answered."""
        key = response["id"]
        for result in self._rows("tool_results", "response_id = ? order by id", key):
            content = result.get("output") or result.get("exception") or ""
            tool_message = {"role": "tool", "name": result.get("name"), "content": content}
            yield {**tool_message, "tool_call_id": result.get("tool_call_id")}
        fragments = (
            self._rows(
                "fragments",
                'id in (select fragment_id from prompt_fragments where response_id = ? order by "order")',
                key,
            )
            if "prompt_fragments" in self._tables
            else []
        )
        pieces = [str(row.get("content", "")) for row in fragments]
        if prompt := "\n".join(filter(None, [*pieces, response.get("prompt", "")])):
            yield {"role": "user", "content": prompt, "datetime_utc": response.get("datetime_utc")}
        calls = [
            {
                "name": row.get("name"),
                "arguments": row.get("arguments"),
                "id": row.get("tool_call_id"),
            }
            for row in self._rows("tool_calls", "response_id = ? order by id", key)
        ]
        message = {"role": "assistant", "content": response.get("response", "")}
        message |= {"tool_calls": calls} if calls else {}
        if response.get("reasoning"):
            message["reasoning_content"] = response["reasoning"]
        yield {**message, **{column: response[column] for column in _FACTS if column in response}}
