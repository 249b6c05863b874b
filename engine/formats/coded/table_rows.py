"""Reads tables of conversations: a row is a message, a question with its answer, or a whole conversation.

A *row* is an object, a *column* one of its keys. Columns are recognized by their usual names, whatever the case and the
signs between their words. An *exchange* is a question with its answer, a *transcript* a conversation as text or as a
list of turns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from engine.base.conversation import Conversation, Message, Role
from engine.formats.json_values import BadRecord, as_object, json_text, objects_in, without_keys
from engine.formats.leaks import states_outcome
from engine.formats.messages.normalize import (
    OTHER_BRANCHES,
    READ_KEYS,
    looks_like_message,
    looks_like_messages,
    messages_of,
    other_branches,
    read_messages,
    record_id,
)
from engine.formats.messages.roles import role_of_speaker, speaker_word
from engine.formats.messages.times import as_time, created_at, order_keys, sort_by
from engine.formats.opening.framing import Frame, group_frames
from engine.formats.opening.text_turns import turns_of
from engine.formats.records import ParsedRecord, Reader

# Columns

ID_COLUMNS = (
    "conversation_id", "session_id", "thread_id", "chat_id", "dialogue_id", "dialog_id", "conv_id",
    "convo_id", "conversation_sid", "chat_session_id", "ticket_id", "case_id", "call_id", "interaction_id", "room_id",
    "channel_id", "topic_id", "contact_id", "conversation", "session", "thread", "chat", "ticket",
)  # fmt: skip
"""Names of columns with the id of a conversation, the surest first."""

_ROLE_COLUMNS = (
    "role", "speaker", "sender", "sender_type", "sender_role", "author_type", "author_role",
    "message_role", "participant", "participant_role", "author", "from", "actor", "who", "direction",
    "speaker_name", "speaker_label", "user", "username", "user_name",
)  # fmt: skip

_TEXT_COLUMNS = (
    "content", "text", "message", "body", "utterance", "message_text", "message_body", "message_content",
    "msg", "value", "sentence",
)  # fmt: skip

_QUESTION_COLUMNS = (
    "prompt", "question", "user_message", "user_input", "user_query", "query", "instruction", "input",
    "request", "user", "human",
)  # fmt: skip

_ANSWER_COLUMNS = (
    "response", "answer", "completion", "output", "reply", "assistant_message", "assistant_response",
    "bot_response", "model_response", "model_output", "assistant", "bot",
)  # fmt: skip


_TOOL_COLUMNS = ("tool", "tool_name", "function_name")
"""Names of columns with the name of the tool that a message calls, or whose answer it is."""

_ARGUMENT_COLUMNS = ("tool_args", "tool_arguments", "tool_input", "arguments", "args")
"""Names of columns with the arguments with which a message calls the tool that another column names."""


class RowColumns(NamedTuple):
    """The names of the columns of a row, or of the fields of a turn.

    Attributes:
        id: The column with the id of the conversation.
        role: The column that says who speaks; None for a question with its answer.
        text: The column with the text of the message, or with the question; that with the name of the tool for a
            message without text, which calls the tool.
        answer: The column with the answer; None for a single message.
    """

    id: str | None
    role: str | None
    text: str
    answer: str | None


def columns_of(row: Any) -> RowColumns | None:
    """Returns the columns of a row that is a message, or a question with its answer; None if it is neither."""
    if not isinstance(row, dict):
        return None
    id_key = named_column(row, ID_COLUMNS, (str, int)) or None
    if looks_like_message(row) and row.keys() & {"content", "value"}:
        role_key = "role" if "role" in row else "from"
        return RowColumns(id_key, role_key, "content" if "content" in row else "value", None)
    role = named_column({key: speaker_word(row[key]) for key in row}, _ROLE_COLUMNS, str)
    others = without_keys(row, id_key, role)
    text = named_column(others, _TEXT_COLUMNS, str)
    if role and (tool := named_column(others, _TOOL_COLUMNS, str)):
        # what a tool returned may be an object
        text = text or named_column(others, _TEXT_COLUMNS, (dict, list)) or tool
    if role and text:
        return RowColumns(id_key, role, text, None)
    question = named_column(row, _QUESTION_COLUMNS, str)
    answer = named_column(row, _ANSWER_COLUMNS, str)
    return RowColumns(id_key, None, question, answer) if question and answer else None


def named_column(
    row: dict[str, Any], names: tuple[str, ...], types: type | tuple[type, ...]
) -> str:
    """Returns the column with the first of some names that has a value of a type; empty if there is none."""
    for column in _columns_named(tuple(row), names):
        value = row[column]
        if isinstance(value, types) and not isinstance(value, bool) and value != "":
            return column
    return ""


@lru_cache(maxsize=1_000)  # the rows of a table have the same columns
def _columns_named(columns: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the columns with one of some names, in the order of the names."""
    return tuple(column for name in names for column in columns if plain_name(column) == name)


@lru_cache(maxsize=10_000)  # the same names in each record
def plain_name(name: str) -> str:
    """Returns a name of a column in one form: `Conversation ID` and `conversationId` are `conversation_id`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", words.lower())


# The messages of a row

_JSON_OBJECT = re.compile(r"\s*\{.*\}\s*", re.DOTALL)
"""Matches the text of a JSON object by its braces."""


def messages_of_row(
    row: dict[str, Any],
    columns: RowColumns,
    facts: dict[str, Any],
    number: int,
    speakers: dict[str, Role],
) -> list[Message]:
    """Returns the message of a row, or two if it has an answer.

    Args:
        facts: What else the row says, which stays with its first message.
        number: Number of that message in the conversation, from 1.
        speakers: The role of each speaker so far; new speakers are added.

    Raises:
        BadRecord: The row names no role that is known.
    """
    if columns.answer is not None:
        question: dict[str, Any] = {"role": "user", "content": row[columns.text]}
        answer = {"role": "assistant", "content": row[columns.answer]}
        return [*messages_of(question, number, facts=facts), *messages_of(answer, number + 1)]
    word = speaker_word(row[columns.role]) if columns.role else None
    role, name = _role_and_name(word, columns.role, speakers, number)
    text = row[columns.text]
    if role == "system" and number > 1 and isinstance(text, str) and _JSON_OBJECT.fullmatch(text):
        role = "tool"  # help desks log what a tool returned under the name of the system
    said_keys = READ_KEYS.difference(facts) if looks_like_message(row) else ()
    message = {key: row[key] for key in row if key in said_keys}
    if isinstance(text, dict | list) and not looks_like_message(row):
        text = json_text(text)
    message |= {"role": role, "content": text, **({"name": name} if name else {})}
    tool_fields = _tool_fields(row, role, text)
    if "tool_calls" in tool_fields:
        facts = without_keys(facts, *_columns_named(tuple(facts), _ARGUMENT_COLUMNS))
    message |= tool_fields
    return messages_of(message, number, facts=facts)


def _tool_fields(row: dict[str, Any], role: Role | None, text: Any) -> dict[str, Any]:
    """Returns what a column with the name of a tool adds to the message of a row, in the form of a chat API.

    An answer of a tool gets its name. The assistant calls the tool where there are arguments or no text, or where the
    text is a JSON object, perhaps behind that name; other words of the assistant stay as they are.
    """
    tool = row.get(named_column(row, _TOOL_COLUMNS, str))
    if not tool or row.get("tool_calls"):
        return {}
    # a text that is only the name of the tool says nothing
    empty_text = {"content": ""} if text == tool else {}
    if role == "tool":
        return {"name": tool, **empty_text}
    arguments = row.get(named_column(row, _ARGUMENT_COLUMNS, (str, dict, list)), empty_text and {})
    if role == "assistant" and (empty_text or arguments):
        return {"tool_calls": [{"name": tool, "arguments": arguments}], **empty_text}
    is_call = rf"\W*?(?:{re.escape(tool)}\W*?)?(\{{.*\}})[\s)]*"
    call = re.fullmatch(is_call, str(text), re.DOTALL) if role == "assistant" else None
    return (
        {"content": "", "tool_calls": [{"name": tool, "arguments": call[1]}]}
        if call
        else empty_text
    )


def _role_and_name(
    word: Any, column: str | None, speakers: dict[str, Role], number: int
) -> tuple[Role, str | None]:
    """Returns the role of a speaker, and the name of a speaker whose word is no known role: of these the first is the
    user, if there was none before, and all others are the assistant.

    Args:
        word: The word for the speaker.
        column: The column that has it.
        speakers: The role of each speaker so far; a new speaker is added.

    Raises:
        BadRecord: There is no word, or the column is one of roles and the word is no role.
    """
    if not word:
        raise BadRecord(f"message {number} has no role")
    known_role = role_of_speaker(word)
    if known_role is not None:
        return speakers.setdefault(word, known_role), None
    if column is not None and plain_name(column).endswith("role"):
        raise BadRecord(f"message {number} has role {word[:60]!r}")
    role = speakers.setdefault(word, "assistant" if "user" in speakers.values() else "user")
    return role, word


# Rows of which several are a conversation

TIME_COLUMNS = (
    "timestamp", "created_at", "time", "sent_at", "datetime", "date_time", "date", "created", "ts", "date_created",
    "sent",
)  # fmt: skip
"""Names of columns with the time of a message."""

_ORDER_COLUMNS = (
    "turn", "turn_id", "turn_index", "turn_number", "message_index", "sequence", "seq", "position", "step",
    *TIME_COLUMNS,
)  # fmt: skip
"""Names of columns by which the rows of a conversation are put in order."""

_ROLE_ONLY_COLUMNS = ("role", "speaker")
"""Columns of a speaker that say nothing but the role. What other columns of a speaker say, such as a name, stays as a
fact of the message."""

_MOST_DIFFERING = 0.05
"""Largest share of conversations in which a column of the conversation may have several values: a few that moved to
another channel do not make the channel one of messages."""

_NEARLY_ALL = 0.9
"""Least share of the conversations of a file in which a speaker is who answers in all of them."""

_FEW = 0.2
"""Largest share of the conversations of a file in which a name is a customer's; a model's may be in more."""

_ASSISTANTS = "names that answer"
"""Key under which a group of rows has what the whole file tells of names: whether they are of the assistant."""

UNREAD = "rows not read"
"""Key under which the metadata of a conversation has the rows of it that are no messages."""


def _recognize_rows(record: Any) -> str | None:
    """Returns in words why a record looks like a row of this format; None if it does not."""
    columns = columns_of(record)
    if columns is None or columns.id is None:
        return None
    what = "message" if columns.answer is None else "question with its answer"
    return f"each record is one {what}, and `{columns.id}` names its conversation"


def _arrange_rows(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each conversation, in the order of their first rows; frames that are no rows come first.

    All rows are in memory at once, since those of one conversation may lie anywhere.
    """
    rows: dict[str, list[Frame]] = {}
    for frame in frames:
        columns = None if frame.reason is not None else columns_of(frame.value)
        if frame.reason is not None:
            yield frame
        elif columns is None or columns.id is None:
            yield frame._replace(reason=_what_is_missing(frame.value))
        else:
            rows.setdefault(str(frame.value[columns.id]), []).append(frame)
    groups = [[frame.value for frame in frames] for frames in rows.values()]
    answers = _names_that_answer(groups)
    shared = _conversation_columns([group for group in groups if len(group) > 1])
    for frame, group in zip(group_frames(rows, "messages"), groups, strict=True):
        cells = {column: _distinct_values(group, column) for column in shared}
        names = {word: answers[word] for word in _speakers_of(group) if word in answers}
        yield frame._replace(value={**cells, _ASSISTANTS: names, **frame.value})


def _speakers_of(rows: list[dict[str, Any]]) -> dict[str, Role | None]:
    """Returns the words for the speakers of some rows, each with its role; None for names and other unknown words."""
    places = ((row, columns_of(row)) for row in rows)
    words = (speaker_word(row[columns.role]) for row, columns in places if columns and columns.role)
    return {word: role_of_speaker(word) for word in words if word}


def _known_roles(rows: list[Any], answers: dict[str, bool]) -> dict[str, Role]:
    """Returns the roles of the speakers of some rows, as their words or `_names_that_answer` tell them."""
    speakers: dict[str, Role | None] = _speakers_of(rows)
    speakers |= {word: "assistant" if answers[word] else "user" for word in answers}
    return {word: role for word, role in speakers.items() if role is not None}


def _names_that_answer(groups: list[list[dict[str, Any]]]) -> dict[str, bool]:
    """Returns of speakers whose words are no roles whether they are the assistant, as all conversations of a file tell
    it; else they are users. Returns {} where that cannot be told.

    Where known words for the user are in nearly all of them (`_NEARLY_ALL`), names are of the assistant. Where no known
    word for the assistant is, and nearly all have a name that is in few (`_FEW`), these are users, and the only name in
    nearly all is the assistant.
    """
    conversations = [_speakers_of(group) for group in groups]
    least = max(2, _NEARLY_ALL * len(groups))
    roles = Counter(role for speakers in conversations for role in {*speakers.values()})
    counts = Counter(word for words in conversations for word in words if words[word] is None)
    if roles["user"] >= least:
        return dict.fromkeys(counts, True)
    frequent = [word for word, count in counts.items() if count >= least]
    few = {word for word, count in counts.items() if count <= max(1, _FEW * len(groups))}
    with_few = sum(not few.isdisjoint(speakers) for speakers in conversations)
    if roles["assistant"] >= least or len(frequent) != 1 or with_few < least:
        return {}
    return {word: word in frequent for word in (*few, *frequent)}


def _what_is_missing(value: Any) -> str:
    """Returns in words what a row lacks to be a message of a named conversation."""
    row = value if isinstance(value, dict) else {}
    needed = {"id of a conversation": ID_COLUMNS, "speaker": _ROLE_COLUMNS, "text": _TEXT_COLUMNS}
    missing = [what for what in needed if not named_column(row, needed[what], (str, int, dict))]
    return f"the row has no {', no '.join(missing or ['text'])}"


def _conversation_columns(groups: list[list[dict[str, Any]]]) -> list[str]:
    """Returns the columns of a file that say something of a conversation: their value is the same in all rows of one,
    but for few (`_MOST_DIFFERING`). None in a file with fewer than two conversations of several rows: it cannot tell.

    Args:
        groups: The rows of each conversation with several.
    """
    if len(groups) < 2:
        return []
    others = {"id", "messages", *(columns_of(groups[0][0]) or ())}
    differing = {key: 0 for group in groups for key in group[0] if key not in others}
    for group in groups:
        first = group[0]
        for key in [*differing]:
            differing[key] += any(row.get(key) != first.get(key) for row in group)
            if differing[key] > _MOST_DIFFERING * len(groups):
                del differing[key]
    return [key for key in differing if not states_outcome(key, "done")]


def _distinct_values(rows: list[dict[str, Any]], column: str) -> list[Any]:
    """Returns the values of a column in some rows, each once; empty cells have none."""
    values = [row[column] for row in rows if row.get(column) not in (None, "")]
    return list({json_text(value): value for value in values}.values())


def _rows_in_order(rows: list[Any]) -> list[Any]:
    """Returns the rows by their turn or time, if each has one that can be compared; else as they are."""
    for name in _ORDER_COLUMNS:
        column = next((key for key in rows[0] if plain_name(key) == name), None) if rows else None
        if column is None:
            continue
        values = [row.get(column) for row in rows]
        if order_keys(values) is not None:
            return sort_by(rows, values)
    return rows


def _read_rows(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation of a group of rows as a draft; rows of an unknown role are kept as metadata.

    The record has the distinct values of each column of the conversation under its name.

    Raises:
        BadRecord: No row is a message.
    """
    shared = without_keys(as_object(record), "id", "messages", _ASSISTANTS)
    rows = _rows_in_order(objects_in(record.get("messages")))
    branch_positions = other_branches(rows)
    branch_rows = [rows[position] for position in sorted(branch_positions)]
    rows = [row for position, row in enumerate(rows) if position not in branch_positions]
    known = _known_roles(rows, record.get(_ASSISTANTS, {}))
    speakers = dict(known)
    messages: list[Message] = []
    outcomes = _outcomes(rows)
    unread: list[Any] = []
    pieces: set[str] = set()
    subjects: dict[str, str] = {}
    reason = "no messages"
    for row in rows:
        columns = columns_of(row)
        if columns is None:
            raise BadRecord(f"message {len(messages) + 1} is no message")
        time = named_column(row, TIME_COLUMNS, (str, int, float))
        read_keys = {columns.text, columns.answer, columns.id, *_ROLE_ONLY_COLUMNS, *outcomes}
        read_keys |= READ_KEYS if looks_like_message(row) else set()
        other_cells = without_keys(row, *read_keys)
        subjects |= {
            key: "conversation" if key in shared else "message"
            for key in other_cells
            if row[key] is not None
        }
        facts = {"time" if key == time else key: value for key, value in other_cells.items()}
        try:
            read = messages_of_row(row, columns, facts, len(messages) + 1, speakers)
        except BadRecord as error:  # the others are a conversation without it
            reason = error.reason
            unread.append(row)
            continue
        if read[0].tool_calls and read[0].tool_calls[0].arguments != row[columns.text]:
            pieces.add(str(row[columns.text]))  # before the arguments stands the tool
        messages += read
    if not messages:
        raise BadRecord(reason)
    column_of_time = named_column(rows[0], TIME_COLUMNS, (str, int, float))
    start_time = as_time(rows[0].get(column_of_time)) or created_at(rows[0])
    guessed = [
        {"speaker": word, "type": "speaker whose role is a guess"}
        for word in speakers.keys() - known.keys()
        if {"user", "assistant"}.isdisjoint(known.values())
    ]
    cells = {name: values if values[1:] else values[0] for name, values in shared.items() if values}
    lists = {UNREAD: unread, OTHER_BRANCHES: branch_rows}
    return ParsedRecord(
        Conversation(
            record_id(record, ("id",), fallback_id), tuple(messages), created_at=start_time
        ),
        {**cells, **outcomes, **{name: entries for name, entries in lists.items() if entries}},
        unknown=(*map(_unread_row, unread), *guessed),
        pieces=frozenset(pieces),
        columns=subjects,
    )


def _outcomes(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns what columns say of how the conversation ended: of those named like an outcome the ones with the same
    value in all rows that have any. What differs from row to row is about a message."""
    outcomes: dict[str, Any] = {}
    for name in {key: None for row in rows for key in row if states_outcome(key, "done")}:
        values = [value for value in _distinct_values(rows, name) if value != "completed"]
        stated = [value for value in values if states_outcome(name, value)]
        if len(stated) == 1:
            outcomes[name] = stated[0]
    return outcomes


def _unread_row(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row that was not read, as the account names it."""
    word = row.get("role", row.get("from"))
    return {"type": f"row of {word}" if isinstance(word, str) else "row", "row": row}


ROWS = Reader(
    "rows",
    _recognize_rows,
    _read_rows,
    arrange=_arrange_rows,
    conditions=2,
    title="rows that are a message, or a question with its answer, of a named conversation",
    sample="doc/messages.csv",
)
"""Reads rows of which several are one conversation."""


# Rows that are a whole conversation

_SYSTEM_PROMPT_COLUMNS = ("system", "system_prompt", "system_message")

_TRANSCRIPT_COLUMNS = (
    "transcript", "conversation", "dialogue", "dialog", "chat", "chat_log", "messages", "log", "text",
    "content",
)  # fmt: skip
"""Names of columns with a whole conversation as text."""

_EXCHANGE_COLUMNS = (
    "conversation", "conversations", "dialogue", "dialog", "chat", "chat_log", "history", "chat_history",
    "turns", "exchanges",
)  # fmt: skip
"""Names of columns with a list of questions and answers."""

_MESSAGE_LIST_COLUMNS = (
    "transcript", "dialogue", "dialog", "chat", "chat_log", "chat_history", "message_history",
    "conversation_history", "conversation_log", "messages", "turns", "utterances", "sentences", "segments",
)  # fmt: skip

_MAX_TURNS_FOR_DETECTION = 20
"""How many entries at the beginning of a list show whether its entries are turns."""


class _ConversationPlace(NamedTuple):
    """Where a record has its conversation: in a list of messages, in a transcript, or in questions with their answers.

    Attributes:
        messages: The column with a list of messages.
        transcript: The column with a transcript, as text or as a list of turns.
        exchanges: The column with a list of questions and their answers.
        pair: The columns of the question and answer that follow these.
    """

    messages: str = ""
    transcript: str = ""
    exchanges: str = ""
    pair: RowColumns | None = None


def _recognize_conversation(record: Any) -> str | None:
    """Returns in words where a record has its conversation; None if it has none."""
    place = _find_conversation(record)
    if place is None:
        return None
    if place.pair is not None:
        return f"the records have `{place.pair.text}` and `{place.pair.answer}`"
    if place.exchanges:
        return (
            f"each record is a conversation, whose questions and answers are in `{place.exchanges}`"
        )
    where = place.messages or place.transcript
    return f"each record is a conversation, which is in `{where}`"


def _arrange_conversations(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields the records with the turns of a transcript in place of its text."""
    for frame in frames:
        place = None if frame.reason is not None else _find_conversation(frame.value)
        if place is not None and place.transcript:
            transcript = frame.value[place.transcript]
            divided = turns_of(transcript) if isinstance(transcript, str) else None
            if divided is not None:
                turns = {place.transcript: divided["messages"]}
                preamble = {"preamble": divided["preamble"]} if "preamble" in divided else {}
                frame = frame._replace(value={**frame.value, **turns, **preamble})
        yield frame


def _read_conversation(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation that is in a column of a record as a draft.

    Raises:
        BadRecord: It has none.
    """
    record = as_object(record)
    place = _find_conversation(record)
    if place is None:
        raise BadRecord("the row has no conversation")
    fields: dict[str, Any] = {}
    unread: list[Any] = []
    other_copies: set[str] = set()
    if place.pair is not None or place.exchanges:
        messages, keys = _read_exchanges(record, place)
    else:
        keys = {place.messages or place.transcript}
        if place.messages:
            message_list = read_messages(record[place.messages], record=record)
            messages, fields = list(message_list.messages), message_list.fields
            unread = message_list.unread
        else:
            messages, unread = _read_turns(record[place.transcript])
            fields = {UNREAD: unread} if unread else {}
        other_copies = {key for key in record if key not in keys and _turn_count(key, record[key])}
    id_key = named_column(record, ("id", *ID_COLUMNS), (str, int))
    external_id = str(record[id_key]) if id_key else fallback_id
    remaining = without_keys(record, id_key, *keys, *other_copies)
    conversation = Conversation(external_id, tuple(messages), created_at=created_at(record))
    left_out = frozenset((id(record), key) for key in other_copies)
    return ParsedRecord(
        conversation, {**remaining, **fields}, left_out=left_out, unknown=tuple(unread)
    )


def _find_conversation(record: Any) -> _ConversationPlace | None:
    """Returns where a record has its conversation; None if it has none.

    The first that fits: the column with the longest list of messages or turns, columns with a question and an answer, a
    column with exchanges, a column with a whole conversation as text.
    """
    if not isinstance(record, dict) or looks_like_message(record):
        return None
    if isinstance(record.get("shards"), list):
        return None  # a task that was cut into instructions; its answer is the gold one, and nobody gave it
    turns = {key: count for key in record if (count := _turn_count(key, record[key]))}
    fullest = max(turns, key=lambda key: (turns[key], isinstance(record[key], list)), default="")
    if any(isinstance(record[key], list) for key in turns):
        if looks_like_messages(record[fullest]):
            return _ConversationPlace(messages=fullest)
        return _ConversationPlace(transcript=fullest)
    columns = columns_of(record)
    exchanges = next(
        (key for name in _EXCHANGE_COLUMNS if (key := _exchanges_column(record, name))), ""
    )
    if columns is not None and columns.answer is not None:
        return _ConversationPlace(exchanges=exchanges, pair=columns)
    if exchanges:
        return _ConversationPlace(exchanges=exchanges)
    return _ConversationPlace(transcript=fullest) if fullest else None


def _turn_count(key: str, value: Any) -> int:
    """Returns the number of messages or turns in a field, a list of them or a transcript as text; 0 for any other."""
    name = plain_name(key)
    if isinstance(value, str) and (name in _TRANSCRIPT_COLUMNS or "transcript" in name):
        divided = turns_of(value)
        return len(divided["messages"]) if divided is not None else 0
    # a name may go on after one of these, as `transcript_with_tool_calls`
    if not isinstance(value, list) or not (
        name.startswith(_MESSAGE_LIST_COLUMNS) or name in _TRANSCRIPT_COLUMNS
    ):
        return 0
    return len(value) if looks_like_messages(value) or _are_turns(value) else 0


def _are_turns(value: list[Any]) -> bool:
    """Returns whether most entries at the beginning of a list are turns, each with its speaker and text."""
    beginning = value[:_MAX_TURNS_FOR_DETECTION]
    return 2 * sum(map(_is_turn, beginning)) > len(beginning)


def _is_turn(turn: Any) -> bool:
    """Returns whether a value has a speaker and a text."""
    columns = columns_of(turn)
    return columns is not None and columns.role is not None


def _read_turns(turns: list[Any]) -> tuple[list[Message], list[Any]]:
    """Returns the messages of the turns of a transcript, and the entries that are no turns."""
    messages: list[Message] = []
    unread: list[Any] = []
    speakers = _known_roles(turns, {})
    for turn in turns:
        columns = columns_of(turn)
        if columns is None or columns.role is None:
            unread.append(turn)
            continue
        facts = without_keys(turn, columns.text, *_ROLE_ONLY_COLUMNS)
        messages += messages_of_row(turn, columns, facts, len(messages) + 1, speakers)
    if not any(message.role == "assistant" for message in messages):
        messages = _with_answering_system(messages)
    return messages, unread


def _with_answering_system(messages: list[Message]) -> list[Message]:
    """Returns messages in which the system is the assistant if it speaks after the user, as in task dialogues."""
    first_user = next((n for n, message in enumerate(messages) if message.role == "user"), None)
    return [
        replace(message, role="assistant")
        if message.role == "system" and first_user is not None and number > first_user
        else message
        for number, message in enumerate(messages)
    ]


def _exchanges_column(record: dict[str, Any], name: str) -> str:
    """Returns the column of this name if it lists questions with their answers: objects, or lists of two texts; else
    empty."""
    key = named_column(record, (name,), list)
    exchanges = record[key] if key else []
    if not exchanges or not all(map(_is_exchange, exchanges)):
        return ""
    first_texts = [exchange[0] for exchange in exchanges if isinstance(exchange, list)]
    # of ["Ann", "Hello"] the first text is who speaks: such texts come more than twice each on average
    are_speakers = len(first_texts) > 2 * len(set(first_texts)) or any(
        map(role_of_speaker, first_texts)
    )
    return "" if are_speakers else key


def _is_exchange(value: Any) -> bool:
    """Returns whether a value is a question with its answer: a list of two texts, or an object with both."""
    if isinstance(value, list):
        return len(value) == 2 and all(isinstance(text, str) for text in value)
    columns = columns_of(value)
    return columns is not None and columns.answer is not None


def _read_exchanges(
    record: dict[str, Any], place: _ConversationPlace
) -> tuple[list[Message], set[str]]:
    """Returns the messages of the exchanges of a record, after its system prompt, and the columns that have them."""
    messages: list[Message] = []
    keys: set[str] = set()
    if system := named_column(record, _SYSTEM_PROMPT_COLUMNS, str):
        keys.add(system)
        messages.append(Message("system", record[system]))
    if place.exchanges:
        keys.add(place.exchanges)
        for exchange in record[place.exchanges]:
            messages += _messages_of_exchange(exchange, len(messages) + 1)
    if place.pair is not None:
        keys |= {place.pair.text, place.pair.answer or ""}
        messages += messages_of_row(record, place.pair, {}, len(messages) + 1, {})
    return messages, keys


def _messages_of_exchange(exchange: Any, number: int) -> list[Message]:
    """Returns the messages of a question with its answer, of which the first has this number."""
    if isinstance(exchange, list):
        question, answer = exchange
        return [Message("user", question), Message("assistant", answer)]
    columns = columns_of(exchange)
    assert columns is not None
    facts = without_keys(exchange, columns.text, columns.answer)
    return messages_of_row(exchange, columns, facts, number, {})


CONVERSATION_ROWS = Reader(
    "conversation_rows",
    _recognize_conversation,
    _read_conversation,
    arrange=_arrange_conversations,
    title="rows that are a conversation: a list of messages, a transcript, or questions with their answers",
)
"""Reads rows that are a whole conversation."""
