"""Writes conversations, with what the project knows of them, in forms that other programs read.

The forms are those of chat APIs, of logs of Inspect, of tables with a row for each message, and of tasks for an
annotator in Label Studio, who answers questions about conversations. *Companions* are the kinds of knowledge of the
project that can be written beside the messages, such as scores. A form may have no place for a part of a conversation;
the parts that are *left behind* are counted.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TextIO, get_args
from xml.sax.saxutils import quoteattr

from engine.base.conversation import (
    EXPORT_OBJECT,
    SUCCEEDED,
    Conversation,
    Message,
    ToolCall,
    with_calls,
)
from engine.base.errors import UsageError
from engine.base.line_files import ColumnType, write_beside, write_file, write_lines, write_parquet
from engine.base.number_format import counted
from engine.base.text import as_json
from engine.conversations.tables import conversations
from engine.formats.messages.times import TIMES
from engine.opener.table_export import TableColumns, column_type, table_lines
from engine.project.sql import id_pages, utc_now
from engine.questions.question import NOTE, Question, read_built_in

# Conversations, and what is written beside them

ConversationForm = Literal[
    "openai", "anthropic", "sharegpt", "inspect", "csv", "parquet", "label-studio"
]  # fmt: skip
"""The forms besides the uniform one, which alone has a place for everything."""

Companion = Literal["scores", "answers", "goals", "trees"]
"""A kind of knowledge of the project that can be written beside the messages."""

_COLUMNS: dict[Companion, tuple[str, ...]] = {
    "scores": ("state", "p_end", "p", "p_succeeded", "score_set", "remaining"),
    "answers": (SUCCEEDED, "note", "tags"),
    "goals": ("goal",),
    "trees": ("leaves", "max_logprob", "entropy", "perplexity"),
}
"""Columns of the table of conversations (`engine.opener.table_export`) that belong to each companion."""

_CONVERSATIONS_AT_A_TIME = 200
"""Number of conversations whose messages are in memory at the same time."""


@dataclass(frozen=True, slots=True)
class ExportedConversation:
    """A conversation to write.

    Attributes:
        conversation: The conversation, with its truth only if the truth is written.
        source: Label of the source that it came from.
        key: The key of the text of its messages; see `conversations.text_keys`.
        companions: Values of the companions by the names of their columns; empty where none is written.
        has_truth: Whether the project has a truth of the conversation.
        writes_truth: Whether the truth is written.
    """

    conversation: Conversation
    source: str
    key: str
    companions: dict[str, Any]
    has_truth: bool
    writes_truth: bool = False


def companion_columns(companions: Collection[Companion]) -> list[str]:
    """Returns the names of the columns of companions, in the order of the table."""
    return [name for kind in get_args(Companion) if kind in companions for name in _COLUMNS[kind]]


def read_conversations(
    conn: sqlite3.Connection,
    ids: Sequence[int] | None,
    companions: Collection[Companion] = (),
    *,
    truth: bool = False,
) -> Iterator[ExportedConversation]:
    """Yields conversations in the order of `ids`, or with None all of them in the order of import.

    Args:
        companions: The companions that are written.
        truth: Whether the truth is written.
    """
    names = companion_columns(companions)
    for page in id_pages(conn, ids, _CONVERSATIONS_AT_A_TIME):
        rows = list(conversations.export_conversations(conn, page))
        keys = conversations.text_keys(conn, page)
        table = table_lines(conn, page, columns=TableColumns()) if names else None
        for key, source, conversation in rows:
            row = {} if table is None else next(table)
            yield ExportedConversation(
                conversation=conversation if truth else replace(conversation, truth=None),
                source=source,
                key=keys[key],
                companions={name: row[name] for name in names},
                has_truth=conversation.truth is not None,
                writes_truth=truth,
            )


# Parts that several forms have


def metadata_and_time(item: ExportedConversation) -> dict[str, Any]:
    """Returns the fields `metadata`, with truth and companions, and `created_at`; a field without a value is left
    out."""
    conversation = item.conversation
    metadata = dict(conversation.meta)
    if conversation.truth:
        metadata["truth"] = conversation.truth
    if item.companions:
        metadata[EXPORT_OBJECT] = item.companions
    fields: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if conversation.created_at:
        fields["created_at"] = conversation.created_at
    return fields


def message_line(message: Message) -> dict[str, Any]:
    """Returns role, content, name and `tool_call_id` of a message, as OpenAI and the uniform form write them."""
    line: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name:
        line["name"] = message.name
    if message.tool_call_id:
        line["tool_call_id"] = message.tool_call_id
    return line


def call_lines(message: Message) -> list[dict[str, Any]]:
    """Returns the tool calls of a message as JSON values; the arguments stay text."""
    return [
        {"id": call.call_id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]


def parse_arguments(call: ToolCall) -> Any:
    """Returns the arguments of a call as a JSON value; arguments that are no JSON as text."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments


def _count_left_behind(message: Message, left_behind: Counter[str], *fields: str) -> None:
    """Counts those of the fields of a message, which have no place in a form, that are not empty."""
    words = {"reasoning": "reasoning", "facts": "times and other facts", "name": "names"}
    for field in fields:
        left_behind[words[field]] += bool(getattr(message, field))


# Chat APIs


def openai_records(
    items: Iterable[ExportedConversation], left_behind: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yields a record with `messages` for each conversation; reasoning and facts of messages have no place."""
    for item in items:
        messages = []
        for message in item.conversation.messages:
            _count_left_behind(message, left_behind, "reasoning", "facts")
            line = message_line(message)
            if message.tool_calls:
                line["tool_calls"] = [
                    {
                        "id": call.call_id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in message.tool_calls
                ]
            messages.append(line)
        yield {"id": item.conversation.external_id, "messages": messages, **metadata_and_time(item)}


def anthropic_records(
    items: Iterable[ExportedConversation], left_behind: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yields a record for each conversation.

    System messages are a field of their own, results of tools are in messages of the user, and consecutive messages of
    one side are joined. Names and facts of messages have no place.
    """
    for item in items:
        system: list[str] = []
        messages: list[dict[str, Any]] = []
        for message in item.conversation.messages:
            _count_left_behind(message, left_behind, "name", "facts")
            if message.role in ("system", "developer"):
                is_late = bool(messages)
                left_behind["a place after the first message, as a system message"] += is_late
                system.append(message.content)
                continue
            side = "assistant" if message.role == "assistant" else "user"
            if not messages or messages[-1]["role"] != side:
                messages.append({"role": side, "content": []})
            messages[-1]["content"] += _anthropic_blocks(message)
        line: dict[str, Any] = {"id": item.conversation.external_id}
        if system:
            line["system"] = "\n\n".join(system)
        yield {**line, "messages": messages, **metadata_and_time(item)}


def _anthropic_blocks(message: Message) -> Iterator[dict[str, Any]]:
    """Yields the content blocks of a message, as the chat API of Anthropic has them."""
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id}
        yield {**result, "content": message.content}
        return
    if message.reasoning:
        yield {"type": "thinking", "thinking": message.reasoning}
    if message.content or not message.tool_calls:
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        arguments = parse_arguments(call)
        yield {"type": "tool_use", "id": call.call_id, "name": call.name, "input": arguments}


_SHAREGPT_NAMES = {
    "system": "system",
    "developer": "system",
    "user": "human",
    "assistant": "gpt",
    "tool": "observation",
}
"""Name in ShareGPT of the speaker of a message of each role."""


def sharegpt_records(
    items: Iterable[ExportedConversation], left_behind: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yields a record with `conversations` for each conversation; each call is a turn.

    Names, reasoning, facts and the ids of calls have no place.
    """
    for item in items:
        turns: list[dict[str, str]] = []
        for message in item.conversation.messages:
            _count_left_behind(message, left_behind, "reasoning", "facts", "name")
            has_ids = message.tool_call_id or any(call.call_id for call in message.tool_calls)
            left_behind["ids of calls"] += bool(has_ids)
            if message.content or not message.tool_calls:
                turns.append({"from": _SHAREGPT_NAMES[message.role], "value": message.content})
            for call in message.tool_calls:
                value = {"name": call.name, "arguments": parse_arguments(call)}
                turns.append(
                    {"from": "function_call", "value": json.dumps(value, ensure_ascii=False)}
                )
        name = item.conversation.external_id
        yield {"id": name, "conversations": turns, **metadata_and_time(item)}


# Logs of Inspect


def inspect_samples(
    items: Iterable[ExportedConversation], left_behind: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yields a sample of Inspect for each conversation, without output and scores, which this program does not have.

    Inspect identifies a sample by its id and epoch, so the second conversation with an id has epoch 2.
    """
    epochs: Counter[str] = Counter()
    for item in items:
        conversation = item.conversation
        epochs[conversation.external_id] += 1
        fields = metadata_and_time(item)
        user_texts = (
            message.content for message in conversation.messages if message.role == "user"
        )
        started_at = fields.get("created_at")
        yield {
            "id": conversation.external_id,
            "epoch": epochs[conversation.external_id],
            "input": next(user_texts, ""),
            "target": "",
            "messages": _inspect_messages(conversation.messages, left_behind),
            "metadata": fields.get("metadata", {}),
            **({"started_at": started_at} if started_at else {}),
        }


def inspect_frame(task: str) -> tuple[str, str]:
    """Returns the text of a log of Inspect before and after its list of samples.

    Args:
        task: Name of the task, which is also the name of the data set.
    """
    head = {
        "version": 2,
        "status": "success",
        "eval": {
            "created": utc_now(),
            "task": task,
            "dataset": {"name": task},
            "model": "none/none",
            "config": {},
        },
    }
    # the object stays open for one more field, whose list the samples go into
    return as_json(head).removesuffix("}") + ', "samples": [', "]}"


def _inspect_messages(
    messages: Iterable[Message], left_behind: Counter[str]
) -> list[dict[str, Any]]:
    """Returns the messages of a sample of Inspect; names and facts go to the metadata of a message."""
    lines = []
    open_calls: dict[str, str] = {}  # names of tools by the ids of calls that have no result yet
    for number, message in enumerate(messages, 1):
        content: Any = message.content
        metadata: dict[str, Any] = {}
        line: dict[str, Any] = {"role": message.role}
        if message.role == "developer":
            line["role"] = "system"
            metadata["role"] = message.role
        if message.tool_calls and message.role == "assistant":
            line["tool_calls"] = _inspect_calls(message, number, left_behind)
            open_calls |= {call["id"]: call["function"] for call in line["tool_calls"]}
        elif message.tool_calls:
            left_behind["calls of another role than the assistant's, written as text"] += 1
            content = with_calls(content, message.tool_calls)
        if message.reasoning:
            content = [
                {"type": "reasoning", "reasoning": message.reasoning},
                {"type": "text", "text": content},
            ]
        line["content"] = content
        if message.role == "tool":
            # a result that names no call belongs to the first call without a result
            call_id = message.tool_call_id or next(iter(open_calls), None)
            line["tool_call_id"] = call_id
            line["function"] = open_calls.pop(call_id or "", None) or message.name
        elif message.tool_call_id:
            metadata["tool_call_id"] = message.tool_call_id
        if message.name and message.role != "tool":
            metadata["name"] = message.name
        if message.facts:
            metadata["facts"] = json.loads(message.facts)
        if metadata:
            line["metadata"] = metadata
        lines.append(line)
    return lines


def _inspect_calls(
    message: Message, number: int, left_behind: Counter[str]
) -> list[dict[str, Any]]:
    """Returns the calls of a message as Inspect has them: each with an id, and with an object as arguments.

    Args:
        number: Number of the message; it becomes part of the ids of calls that have none.
    """
    calls = []
    for position, call in enumerate(message.tool_calls, 1):
        values = parse_arguments(call)
        if not isinstance(values, dict):
            left_behind["arguments of calls that are no object, written as one"] += 1
            values = {"arguments": values}
        call_id = call.call_id or f"call_{number}_{position}"
        calls.append(
            {"id": call_id, "function": call.name, "arguments": values, "type": "function"}
        )
    return calls


# Tables with a row for each message

_ROW_COLUMNS = (
    *("conversation_id", "source", "position", "role", "name", "content", "time", "model"),
    *("tool_calls", "tool_call_id", "reasoning", "facts"),
)
"""Columns of a table with a row for each message, before those of the companions."""


def message_rows(
    items: Iterable[ExportedConversation], left_behind: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yields a row for each message; the metadata of conversations have no place.

    The columns of companions begin with `workbench_`; they and `truth` have the same value in all rows of a
    conversation. `tool_calls`, `facts` and `truth` are JSON.
    """
    for item in items:
        conversation = item.conversation
        left_behind["metadata"] += bool(conversation.meta)
        shared = {f"{EXPORT_OBJECT}_{name}": value for name, value in item.companions.items()}
        if item.writes_truth:
            truth = conversation.truth
            shared = {"truth": None if truth is None else as_json(truth), **shared}
        for position, message in enumerate(conversation.messages, 1):
            facts = json.loads(message.facts) if message.facts else {}
            time_key = next((key for key in TIMES if facts.get(key) is not None), "")
            calls = call_lines(message)
            yield {
                "conversation_id": conversation.external_id,
                "source": item.source,
                "position": position,
                "role": message.role,
                "name": message.name,
                "content": message.content,
                "time": _as_text(facts.pop(time_key, None)),
                "model": _as_text(facts.pop("model", None)),
                "tool_calls": as_json(calls) if calls else None,
                "tool_call_id": message.tool_call_id,
                "reasoning": message.reasoning,
                "facts": as_json(facts) if facts else None,
                **shared,
            }


def column_types(companions: Collection[Companion], *, truth: bool) -> dict[str, ColumnType]:
    """Returns the types of the columns of `message_rows` by their names."""
    types: dict[str, ColumnType] = dict.fromkeys(_ROW_COLUMNS, "text")
    types["position"] = "integer"
    if truth:
        types["truth"] = "text"
    names = companion_columns(companions)
    return types | {f"{EXPORT_OBJECT}_{name}": column_type(name) for name in names}


def _as_text(value: Any) -> str | None:
    """Returns a text unchanged, another value as JSON, and None for None."""
    return value if value is None or isinstance(value, str) else as_json(value)


# Tasks for Label Studio


def label_studio_tasks(
    items: Iterable[ExportedConversation], left_behind: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yields a task for each conversation, for a project with `labeling_config`."""
    for item in items:
        dialogue = []
        for message in item.conversation.messages:
            _count_left_behind(message, left_behind, "reasoning", "facts")
            speaker = f"{message.role} ({message.name})" if message.name else message.role
            calls = message.tool_calls
            text = with_calls(message.content, calls) if calls else message.content
            dialogue.append({"author": speaker, "text": text})
        left_behind["metadata"] += bool(item.conversation.meta)
        names = {"conversation": item.conversation.external_id, "source": item.source}
        yield {"data": {"key": item.key, **names, "dialogue": dialogue}}


def settings_file(
    form: ConversationForm, path: Path, questions: Sequence[Question] = ()
) -> tuple[Path, str] | None:
    """Returns path and text of the file with the settings of the annotation; None for a form without settings.

    Args:
        path: The exported file, beside which the settings are.
        questions: What the annotator is asked; empty asks for verdicts.

    Raises:
        UsageError: The exported file has the name of the file with the settings.
    """
    if form != "label-studio":
        return None
    if path.suffix == ".xml":
        raise UsageError(
            f"{path} is the name of the settings of Label Studio, not of its tasks.",
            "Choose a name that ends in .json.",
        )
    return path.with_suffix(".xml"), labeling_config(questions or (read_built_in()[SUCCEEDED],))


def labeling_config(questions: Sequence[Question]) -> str:
    """Returns the labeling interface of a project of Label Studio that asks these questions, as XML."""
    controls = []
    for question in questions:
        name = f'name="{question.name}" toName="dialogue"'
        if question.answers:
            choice = "multiple" if question.kind == "several" else "single"
            choices = "".join(f"<Choice value={quoteattr(answer)}/>" for answer in question.answers)
            control = f'<Choices {name} choice="{choice}" showInline="true">{choices}</Choices>'
        else:
            control = f'<TextArea {name} rows="1" maxSubmissions="1"/>'
        controls.append(f"  <Header value={quoteattr(question.text)}/>\n  {control}\n")
    return f"""<View>
  <Text name="guide" value={quoteattr(_annotator_guide(questions))}/>
  <Paragraphs name="dialogue" value="$dialogue" layout="dialogue" nameKey="author" textKey="text"/>
{"".join(controls)}  <TextArea name="{NOTE}" toName="dialogue" rows="2" maxSubmissions="1" placeholder="Note"/>
</View>
"""


def _annotator_guide(questions: Sequence[Question]) -> str:
    """Returns the text that the annotator reads first: each question with the guidance on it and on its answers."""
    parts = []
    for question in questions:
        answers = (f"{value}: {text}" for value, text in question.labels.items())
        parts.append("\n".join(filter(None, (question.text, question.guidance, *answers))))
    return "\n\n".join(parts)


# All forms

ENDINGS: dict[ConversationForm, str] = {
    "openai": "jsonl",
    "anthropic": "jsonl",
    "sharegpt": "jsonl",
    "inspect": "json",
    "csv": "csv",
    "parquet": "parquet",
    "label-studio": "json",
}
"""The usual ending of the name of a file in each form, which is also the kind of the file."""

RECORD_MAKERS: dict[
    ConversationForm,
    Callable[[Iterable[ExportedConversation], Counter[str]], Iterator[dict[str, Any]]],
] = {
    "openai": openai_records,
    "anthropic": anthropic_records,
    "sharegpt": sharegpt_records,
    "inspect": inspect_samples,
    "csv": message_rows,
    "parquet": message_rows,
    "label-studio": label_studio_tasks,
}
"""The function that makes the records, rows or tasks of each form, and counts the parts that it leaves behind."""


def form_lines(
    conn: sqlite3.Connection,
    form: ConversationForm,
    ids: Sequence[int] | None,
    left_behind: Counter[str],
    companions: Collection[Companion] = (),
    *,
    truth: bool = False,
) -> Generator[dict[str, Any], None, None]:
    """Yields the records, rows or tasks of an export of conversations.

    Args:
        ids: Ids of the conversations, in the order of the lines; None for all in the order of import.
        left_behind: Gets, for each part that the form has no place for, the number of messages that have it; for
            `metadata` and `truth` that are not written, the number of conversations.
        companions: The companions that are written.
        truth: Whether the truth is written.

    Raises:
        UsageError: The form is for annotation, and something would be written that gives the answer away.
    """
    if form == "label-studio" and (companions or truth):
        raise UsageError(
            "A person who judges should not see scores, verdicts or the truth.",
            f"Leave --with and --truth out for {form}.",
        )

    def count_truths() -> Iterator[ExportedConversation]:
        """Yields the conversations, and counts each truth that is not written."""
        for item in read_conversations(conn, ids, companions, truth=truth):
            left_behind["truth"] += item.has_truth and not truth
            yield item

    yield from RECORD_MAKERS[form](count_truths(), left_behind)


def write_form(
    lines: Iterable[dict[str, Any]],
    form: ConversationForm,
    path: Path,
    task: str,
    companions: Collection[Companion] = (),
    *,
    truth: bool = False,
    formulas: bool = False,
    questions: Sequence[Question] = (),
) -> int:
    """Writes lines of `form_lines` to a file, with the settings of the annotation beside it; returns how many lines.

    Args:
        task: Name of the project, which is the name of the task in a log of Inspect.
        companions, truth: The values that were given to `form_lines`.
        formulas: See `write_lines`.
        questions: What the annotator is asked; empty asks for verdicts.

    Raises:
        WorkbenchError: pyarrow is needed and not installed.
        ProjectError: A file cannot be written.
    """
    if form == "parquet":
        return write_parquet(lines, column_types(companions, truth=truth), path)
    count = write_file(lines, path, ENDINGS[form], _list_frame(form, task), formulas=formulas)
    settings = settings_file(form, path, questions)
    if settings is not None:
        settings_path, text = settings
        with write_beside(settings_path) as part:
            part.write_text(text, encoding="utf-8")
    return count


def write_form_to_stream(
    lines: Iterable[dict[str, Any]],
    form: ConversationForm,
    out: TextIO,
    task: str,
    *,
    formulas: bool = False,
) -> None:
    """Writes lines of `form_lines` to a stream; see `write_form`.

    Raises:
        UsageError: The form can only be written to a file.
    """
    if form == "parquet" or form == "label-studio":
        raise UsageError(f"The form {form} needs a file.", "Name it with -o FILE.")
    write_lines(lines, out, ENDINGS[form], _list_frame(form, task), formulas=formulas)


def _list_frame(form: ConversationForm, task: str) -> tuple[str, str]:
    """Returns the text before and after the list of records in a JSON file."""
    return inspect_frame(task) if form == "inspect" else ("[", "]")


_COUNTED_BY_CONVERSATION = ("metadata", "truth")
"""Parts that are counted by conversations when they are left behind; all other parts by messages."""


def losses_in_words(form: str, left_behind: Counter[str]) -> list[str]:
    """Returns a sentence for each part that was left behind, the most frequent first."""
    sentences = []
    for part, count in (+left_behind).most_common():  # without counts of 0
        if part == "truth" and form != "label-studio":
            sentences.append(
                f"{counted(count, 'conversation')} with truth, which is left out; `export --truth` adds it."
            )
            continue
        unit = "conversation" if part in _COUNTED_BY_CONVERSATION else "message"
        has_table = part == "metadata" and form in ("csv", "parquet")
        hint = "; the export of the table has them" if has_table else ""
        sentences.append(
            f"{counted(count, unit)} with {part}, which the form {form} has no place for{hint}."
        )
    return sentences
