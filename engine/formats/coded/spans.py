"""Makes conversations of the spans of traces: one for each session or thread, and one for each sub-agent.

A *trace* is the log of one run of an application, a *span* one step of it, and a *session* holds the traces of one
conversation. A *sub-agent* is a model that the application calls several times for a task of its own.

A trace has the calls of models, each with messages as input and an answer as output. Calls whose messages continue
those of an earlier one are one *history*, as those with the messages `a`, `a b c` and `a b c d e`; the longest state
of it is the conversation. A call in a later trace that
continues none, as of an application that sends no history, is the next turn. In the same trace it is a history of its
own: with several calls, as sub-agents have, it becomes a conversation; a single call (a router, a title) stays as
metadata.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from engine.base.conversation import Conversation, Message, ToolCall
from engine.formats.accounting import MessageTexts
from engine.formats.json_values import (
    FAULTS,
    BadRecord,
    as_list,
    json_text,
    list_or_empty,
    object_or_empty,
    reason_of_fault,
)
from engine.formats.messages.call_messages import (
    input_messages,
    input_text,
    output_messages,
    output_text,
)
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.normalize import UNREAD, messages_of
from engine.formats.messages.times import as_time
from engine.formats.opening.framing import Frame
from engine.formats.paths import json_within
from engine.formats.records import ParsedRecord

# Spans

SpanKind = Literal["model", "tool", "other"]
"""What a step does: it calls a model, it runs a tool, or it does something else, such as an agent that calls both."""


@dataclass(slots=True)
class Span:
    """One step of a trace.

    Attributes:
        trace: Id of its trace.
        key: Its own id.
        parent: Id of the span within which it ran; "" for none.
        session: The session, thread or conversation that it names, if any.
        kind: What it does.
        name: Name of the function or tool.
        start: ISO 8601, or a text that sorts like it.
        input: What a model or a tool got, as the log has it.
        output: What it answered, as the log has it.
        facts: Model, usage and time, for the message that it answered.
        call_id: Id of the call that a tool was run for; "" if the span does not say.
    """

    trace: str
    key: str
    parent: str
    session: str
    kind: SpanKind
    name: str
    start: str
    input: Any
    output: Any
    facts: dict[str, Any]
    call_id: str = ""


SpanReader = Callable[[Any], Span | None]
"""Reads a record as a span; None if the record is no span."""


class SpansOfRecord(NamedTuple):
    """What a record, such as an export, has of traces.

    Attributes:
        spans: Records that are a span each, or what stands in place of one.
        statements: Objects in which the record says something of the traces of these spans.
    """

    spans: list[Any]
    statements: Sequence[Any] = ()


SpanFinder = Callable[[Any], SpansOfRecord]
"""Returns the spans within a record, and what else the record says of their traces."""

SESSION_KEYS = ("thread_id", "session_id", "conversation_id", "threadId", "sessionId")
"""Names under which tools keep the id of a session."""

MAX_DIGITS = 19
"""Most digits of a text that is read as a whole number: of thousands `int` raises ValueError."""


def time_text(value: Any) -> str:
    """Returns the time of a span as a text that sorts: ISO 8601, also of nanoseconds in a text; "" if there is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= MAX_DIGITS:
        value = int(value)
    return as_time(value) or ""


def as_text(value: Any) -> str:
    """Returns a value as a text; null as an empty one."""
    return "" if value is None else str(value)


def fingerprint(record: Any) -> str:
    """Returns an id for a record that has none."""
    return hashlib.sha1(json_text(record).encode(), usedforsecurity=False).hexdigest()[:16]


def facts_of(start: Any, model: Any, usage: Any) -> dict[str, Any]:
    """Returns the facts of a call that are known: its time, its model and the tokens it used."""
    facts = {"time": start, "model": model, "usage": usage}
    return {key: value for key, value in facts.items() if value not in (None, "", {}, [])}


# Sessions: which spans are one conversation

SPANS_KEY, STATEMENTS_KEY = "spans", "about"
"""Keys of the record of a session: its spans, and the statements on their traces."""


class _SpanRecord(NamedTuple):
    """A record that is a span, the span, and the frame in which it came."""

    record: Any
    span: Span
    frame: Frame


def arrange_spans(
    read_span: SpanReader, find_spans: SpanFinder, frames: Iterable[Frame]
) -> Iterator[Frame]:
    """Yields a frame for each session, or trace without one, and for each sub-agent in it; broken frames come first.

    All spans are in memory at once, since those of a session may lie anywhere. What stands among spans and is none goes
    with the first span of its record.
    """
    records: list[_SpanRecord] = []
    # What stands beside spans: its key in the frame of a session, itself, the first trace of its record.
    beside_spans: list[tuple[str, Any, str]] = []
    for frame in frames:
        if frame.reason is not None:
            yield frame
            continue
        span_records: list[_SpanRecord] = []
        unread: list[Any] = []
        try:
            spans, statements = find_spans(frame.value)
            for record in spans:
                if (span := read_span(record)) is not None:
                    span_records.append(_SpanRecord(record, span, frame))
                else:
                    unread.append(record)
        except FAULTS as fault:
            yield frame._replace(reason=reason_of_fault(fault))
            continue
        if not span_records:
            yield frame._replace(reason="it holds no span of a trace")
            continue
        records += span_records
        first_trace = span_records[0].span.trace
        beside_spans += [(STATEMENTS_KEY, statement, first_trace) for statement in statements]
        beside_spans += [(UNREAD, entry, first_trace) for entry in unread]
    groups = _group_by_session(records)
    sessions = {member.span.trace: key for key, members in groups.items() for member in members}
    others: dict[str, dict[str, list[Any]]] = {key: {} for key in groups}
    for name, entry, first_trace in beside_spans:
        session = sessions[_trace_of(entry, sessions.keys(), first_trace)]
        others[session].setdefault(name, []).append(entry)
    for key, members in groups.items():
        yield from _session_frames(key, members, others[key])


def _session_frames(
    key: str, members: list[_SpanRecord], others: dict[str, list[Any]]
) -> Iterator[Frame]:
    """Yields the frame of a session with what its traces have beside spans, and one for each sub-agent in it."""
    sub_agents = _sub_agents([member.span for member in members])
    sub_agent_positions = {position for history in sub_agents for position in history.spans}
    own_members = [
        member for position, member in enumerate(members) if position not in sub_agent_positions
    ]
    yield _group_frame(key, own_members, others)
    for number, history in enumerate(sub_agents, 1):
        sub_agent_members = [members[position] for position in history.spans]
        yield _group_frame(f"{key}/{number}", sub_agent_members, {})


def _group_by_session(records: list[_SpanRecord]) -> dict[str, list[_SpanRecord]]:
    """Returns the records by the session of their trace, or by the trace if none of its spans names a session."""
    sessions: dict[str, str] = {}
    for record in records:
        if record.span.session:
            sessions.setdefault(record.span.trace, record.span.session)
    groups: dict[str, list[_SpanRecord]] = {}
    for record in records:
        trace = record.span.trace
        groups.setdefault(sessions.get(trace, trace), []).append(record)
    return groups


def _trace_of(statement: Any, traces: Collection[str], default: str) -> str:
    """Returns which of some traces a statement is about; the default if it names none of them."""
    names = [object_or_empty(statement).get(key) for key in ("id", "traceId", "trace_id")]
    return next((name for name in names if isinstance(name, str) and name in traces), default)


def _group_frame(key: str, members: list[_SpanRecord], others: dict[str, list[Any]]) -> Frame:
    """Returns the frame of a group of spans with what their traces have beside spans; its bytes are those of its lines,
    if these are the spans themselves."""
    spans = [member.record for member in members]
    value: dict[str, Any] = {"id": key, SPANS_KEY: spans, **others}
    frames = list({id(member.frame): member.frame for member in members}.values())
    has_own_bytes = all(member.frame.value is member.record for member in members)
    raw = b"\n".join(frame.raw for frame in frames) if has_own_bytes else json_text(value).encode()
    return Frame(frames[0].number, raw, value, name=key)


# The conversation of the spans of a session

_TRUTH_KEYS = ("scores", "feedback_stats", "assessments", "corrections")
"""Keys under which a trace has what people or other models said of it."""


def draft_of_spans(read_span: SpanReader, record: Any, fallback_id: str) -> ParsedRecord:
    """Returns the conversation of a group of spans.

    Raises:
        BadRecord: No span has messages or a text.
    """
    records = record.get(SPANS_KEY) if isinstance(record, dict) else None
    if not isinstance(records, list):
        raise BadRecord("there are no spans")
    spans = [span for record_of_span in records if (span := read_span(record_of_span)) is not None]
    statements = record.get(STATEMENTS_KEY) or []
    histories = _call_histories(spans)
    chat_messages: list[ChatMessage] = []
    facts: dict[int, dict[str, Any]] = {}
    if histories:
        main = _fuller_step(_main_history(histories), spans)
        chat_messages, facts = _with_tool_answers(main, spans)
        if main.transcript.keys[-1][0] in ("user", "tool"):
            chat_messages += _answer_of_outer_step(main, spans)
    else:
        chat_messages = _messages_of_texts(spans)
    if not chat_messages:
        raise BadRecord("no span has messages")
    messages: list[Message] = []
    for position, chat_message in enumerate(chat_messages):
        messages += messages_of(chat_message, len(messages) + 1, facts=facts.get(position))
    start_time = min((span.start for span in spans if span.start), default=None)
    truth = _statements_of_truth([*statements, *records])
    texts = MessageTexts(messages, frozenset(_TRUTH_KEYS))
    unread = list_or_empty(record.get(UNREAD))
    fields = {SPANS_KEY: texts.without(records), STATEMENTS_KEY: texts.without(statements)}
    fields = {key: value for key, value in {**fields, UNREAD: unread}.items() if value}
    name = record.get("id") or fallback_id
    return ParsedRecord(
        Conversation(str(name), tuple(messages), created_at=start_time),
        {**fields, **truth},
        frozenset(truth),
        unknown=tuple(unread),
    )


def _fuller_step(main: _History, spans: list[Span]) -> _History:
    """Returns the history of a step around the calls of a history if it has all messages of that and more, else the
    history itself.

    The span of an agent may have instructions and answers of tools that its calls of models leave out.
    """
    keys = main.transcript.keys
    steps = [
        step
        for position, span in enumerate(spans)
        if span.kind == "other" and span.trace in main.traces
        for step in _link_histories(spans, [position])
    ]
    fuller = [
        step
        for step in steps
        if len(step.transcript) > len(keys)
        and set(keys) <= set(step.transcript.keys)
        and step.transcript.keys[-1] == keys[-1]
    ]
    return min(fuller, key=lambda step: len(step.transcript), default=main)


def _answer_of_outer_step(history: _History, spans: list[Span]) -> list[ChatMessage]:
    """Returns the answer of the first step around the calls of a history as a message; [] if no step has one.

    It takes the place of the answer of a call that has none, as where answers are streamed.
    """
    for span in sorted(spans, key=lambda span: span.start):
        is_around = span.kind == "other" and span.trace in history.traces
        if is_around and (text := output_text(span.output)):
            return [{"role": "assistant", "content": text}]
    return []


def _with_tool_answers(
    history: _History, spans: list[Span]
) -> tuple[list[ChatMessage], dict[int, dict[str, Any]]]:
    """Returns the messages of a history, and the facts of each by its position.

    Answers of tools that only the spans of tools have are added. If the history is of an agent and names no calls, the
    calls come before its last message, with their answers.
    """
    tools = [
        span
        for span in sorted(spans, key=lambda span: span.start)
        if span.kind == "tool" and span.trace in history.traces
    ]
    has_answers = any(role == "tool" for role, _ in history.transcript.keys)
    messages: list[ChatMessage] = []
    facts: dict[int, dict[str, Any]] = {}
    has_calls = False
    last = len(history.transcript) - 1
    for position, message in enumerate(history.transcript.messages):
        calls = _calls_of(message)
        has_calls = has_calls or bool(calls) or message.get("role") == "tool"
        if position == last and not has_calls and spans[history.spans[0]].kind == "other":
            for tool in tools:
                messages += _tool_call(tool)
        if position in history.facts:
            facts[len(messages)] = history.facts[position]
        messages.append(message)
        for call in () if has_answers else calls:
            by_id = [tool for tool in tools if tool.call_id and tool.call_id == call.call_id]
            by_name = [tool for tool in tools if tool.name == call.name and not tool.call_id]
            for tool in [*by_id, *by_name][:1]:
                tools.remove(tool)
                _, answer = _tool_call(tool)
                messages.append({**answer, "tool_call_id": call.call_id})
    return messages, facts


def _calls_of(message: ChatMessage) -> tuple[ToolCall, ...]:
    """Returns the calls that a message makes; none if it cannot be read."""
    try:
        return messages_of({**message}, 1)[0].tool_calls
    except BadRecord:
        return ()


def _tool_call(span: Span) -> list[ChatMessage]:
    """Returns the call of a tool and its answer as messages."""
    call_id = span.call_id or span.key
    call = {"name": span.name, "arguments": span.input, "id": call_id}
    answer = json_within(span.output)
    messages = output_messages(answer)
    if messages and messages[0].get("role") == "tool":
        answer = messages[0]["content"]
    text = answer if isinstance(answer, str) else json_text(answer)
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": text, "tool_call_id": call_id, "name": span.name},
    ]


def _messages_of_texts(spans: list[Span]) -> list[ChatMessage]:
    """Returns the texts of the outermost steps as messages, input and output, with the calls of tools between.

    It is for traces without messages.
    """
    messages: list[ChatMessage] = []
    in_order = sorted(spans, key=lambda step: step.start)
    for trace in dict.fromkeys(span.trace for span in in_order):
        steps = [step for step in in_order if step.trace == trace]
        with_text = [
            step
            for step in steps
            if step.kind != "tool" and (input_text(step.input) or output_text(step.output))
        ]
        parents = {step.key: step.parent for step in steps}
        keys_with_text = {step.key for step in with_text}
        roots = [step for step in with_text if not keys_with_text & _ancestors(step.key, parents)]
        other_roots = [step for step in roots if step.kind != "model"]
        for span in other_roots[:1] or roots:
            if question := input_text(span.input):
                messages.append({"role": "user", "content": question})
            for tool in steps:
                if tool.kind == "tool" and span.kind != "model":
                    messages += _tool_call(tool)
            if answer := output_text(span.output):
                messages.append({"role": "assistant", "content": answer, **span.facts})
    return messages


def _statements_of_truth(records: list[Any]) -> dict[str, Any]:
    """Returns what people or other models said of the traces, by key; a list of all entries where several records have
    a key."""
    truth: dict[str, Any] = {}
    for record in records:
        for key in _TRUTH_KEYS:
            value = object_or_empty(record).get(key)
            if value and key not in truth:
                truth[key] = value
            elif value and (isinstance(value, list) or value not in as_list(truth[key])):
                truth[key] = [*as_list(truth[key]), *as_list(value)]
    return truth


# Histories: which calls continue others

_INSTRUCTION_ROLES = ("system", "developer")
"""Roles of instructions, which stand before what is spoken."""

_MessageKey = tuple[str, str]
"""The key by which messages are compared (`_comparison_key`): the role, and the text with the names of the calls."""


class _MessageList:
    """Messages with the keys by which they are compared."""

    def __init__(self, messages: list[ChatMessage], keys: list[_MessageKey] | None = None) -> None:
        """Computes the keys unless they are known already."""
        self.messages = messages
        self.keys = [_comparison_key(message) for message in messages] if keys is None else keys

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, part: slice) -> _MessageList:
        """Returns a part of the messages."""
        return _MessageList(self.messages[part], self.keys[part])

    def extended_by(self, others: _MessageList) -> _MessageList:
        """Returns these messages and others after them."""
        return _MessageList([*self.messages, *others.messages], [*self.keys, *others.keys])

    def without_instructions(self) -> _MessageList:
        """Returns the messages that are no instructions."""
        keyed = zip(self.messages, self.keys, strict=True)
        spoken = [(message, key) for message, key in keyed if key[0] not in _INSTRUCTION_ROLES]
        return _MessageList([message for message, _ in spoken], [key for _, key in spoken])

    def instructions(self) -> str:
        """Returns the text of the first instructions; "" without any."""
        return next((text for role, text in self.keys if role in _INSTRUCTION_ROLES), "")


def _comparison_key(message: ChatMessage) -> _MessageKey:
    """Returns the key of a message: its role, and its text, a line break and the names of its calls; of a message that
    cannot be read its JSON."""
    try:
        (first, *_) = messages_of({**message}, 1)
    except BadRecord:
        return str(message.get("role")), json_text(message)
    calls = ",".join(call.name for call in first.tool_calls)
    return first.role, f"{first.content.strip()}\n{calls}"


@dataclass(slots=True)
class _History:
    """Calls of a model of which each continues the one before.

    Attributes:
        depth: Number of spans within which the first call lies.
        transcript: All messages so far, those of the last answer included.
        answer_size: Number of messages of the last answer.
        request_keys: Keys of the messages in the input of the last call, without instructions.
        facts: Facts of answers, by the position of the answer among the messages.
        spans: Positions of the calls among the spans.
        traces: Ids of the traces of the calls.
    """

    depth: int
    transcript: _MessageList
    answer_size: int = 0
    request_keys: list[_MessageKey] = field(default_factory=list)
    facts: dict[int, dict[str, Any]] = field(default_factory=dict)
    spans: list[int] = field(default_factory=list)
    traces: set[str] = field(default_factory=set)


def _call_histories(spans: list[Span]) -> list[_History]:
    """Returns the histories of the calls of models; of all steps with messages if no call of a model has any."""
    calls = [position for position, span in enumerate(spans) if span.kind == "model"]
    steps = [position for position, span in enumerate(spans) if span.kind == "other"]
    return _link_histories(spans, calls) or _link_histories(spans, steps)


def _main_history(histories: list[_History]) -> _History:
    """Returns the history of the conversation itself: of those with several calls, or of all if none has, the one that
    lies least deep; of equals the longest, and then the last."""
    several = [history for history in histories if len(history.spans) > 1]
    return min(
        reversed(several or histories),
        key=lambda history: (history.depth, -len(history.transcript)),
    )


def _sub_agents(spans: list[Span]) -> list[_History]:
    """Returns the histories of sub-agents: those of several calls that are not the main one, and do not repeat another,
    as the spans of a library within those of an agent do."""
    histories = _call_histories(spans)
    if len(histories) < 2:
        return []
    main = _main_history(histories)
    keys = {spans[position].key for history in histories for position in history.spans}
    return [
        history
        for history in histories
        if history is not main
        and len(history.spans) > 1
        and not _repeats_another(history, keys, spans)
    ]


def _repeats_another(history: _History, keys: set[str], spans: list[Span]) -> bool:
    """Returns whether each call of a history ran within a call of its own, as the inner spans of a library do.

    Args:
        keys: The keys of all calls.
    """
    parents = {spans[position].parent for position in history.spans}
    return parents <= keys and len(parents) == len(history.spans)


def _link_histories(spans: list[Span], positions: list[int]) -> list[_History]:
    """Returns the histories of the spans at some positions, in the order in which they began."""
    parents = {span.key: span.parent for span in sorted(spans, key=lambda span: span.parent)}
    histories: list[_History] = []
    for position in sorted(positions, key=lambda index: spans[index].start):
        span = spans[position]
        request = input_messages(span.input)
        output = output_messages(span.output)
        text = input_text(span.input) if not request else None
        if text is not None and (output if span.kind == "other" else not span.parent):
            request = [{"role": "user", "content": text}]
        if not request:
            continue
        if not output and (text := output_text(span.output)):
            output = [{"role": "assistant", "content": text}]
        question = _MessageList(request)
        answer = _MessageList(output)
        if len(output) > len(request) and _begins_with(question.keys, answer.keys):
            answer = answer[len(request) :]  # an agent's state has its input too
        history = _history_for(histories, span, question, answer)
        if history is None:
            history = _History(len(_ancestors(span.key, parents)), question)
            histories.append(history)
        history.facts[len(history.transcript)] = span.facts
        history.transcript = history.transcript.extended_by(answer)
        history.answer_size = len(answer)
        history.request_keys = question.without_instructions().keys
        history.spans.append(position)
        history.traces.add(span.trace)
    return histories


def _ancestors(key: str, parents: dict[str, str]) -> set[str]:
    """Returns the keys of the spans within which a span lies; loops of parents end."""
    ancestors: set[str] = set()
    ancestor = parents.get(key, "")
    while ancestor in parents and ancestor not in ancestors:
        ancestors.add(ancestor)
        ancestor = parents[ancestor]
    return ancestors - {key}


def _history_for(
    histories: list[_History], span: Span, request: _MessageList, answer: _MessageList
) -> _History | None:
    """Returns the history that a call continues, brought to the input of the call; None if the call begins one.

    The newest history that the call repeats comes first. A call that repeats none continues the newest history of its
    trace if it has answers of tools only, because the server has the rest, or that of another trace with the same
    instructions.
    """
    spoken = request.without_instructions()
    for history in reversed(histories):
        if (
            _is_next_step(history, span, spoken, answer)
            or _continue_whole(history, request, spoken)
            or _continue_window(history, span, request, spoken)
        ):
            return history
    only_answers = {role for role, _ in spoken.keys} == {"tool"}
    for history in reversed(histories):
        if span.trace in history.traces:
            is_continued = only_answers
        else:
            is_continued = history.transcript.instructions() == request.instructions()
        if is_continued:
            history.transcript = history.transcript.extended_by(spoken)
            return history
    return None


def _is_next_step(
    history: _History, span: Span, spoken: _MessageList, answer: _MessageList
) -> bool:
    """Returns whether a call is the next step of an agent after a call with the same input in the same trace.

    After an answer that calls tools it is, since a trace may leave out what the tools answered; but not if the answer
    is the same too. After an answer in words it is a second try.
    """
    last_answer = history.transcript.keys[len(history.transcript) - history.answer_size :]
    is_same_request = span.trace in history.traces and history.request_keys == spoken.keys
    return is_same_request and _calls_tools(last_answer) and last_answer != answer.keys


def _calls_tools(answer: list[_MessageKey]) -> bool:
    """Returns whether an answer ends with calls of tools, whose names stand after a line break in a message's key."""
    return bool(answer) and not answer[-1][1].endswith("\n")


def _continue_whole(history: _History, request: _MessageList, spoken: _MessageList) -> bool:
    """Brings a history to a request that repeats all of the history, maybe after other instructions; returns whether
    the request repeats it."""
    before = history.transcript.without_instructions()
    if not before.keys or not _begins_with(before.keys, spoken.keys):
        return False
    instructions_now = len(request) - len(spoken)
    instructions_before = len(history.transcript) - len(before)
    shift = instructions_now - instructions_before  # of all answers
    history.facts = {position + shift: facts for position, facts in history.facts.items()}
    history.transcript = request
    return True


def _continue_window(
    history: _History, span: Span, request: _MessageList, spoken: _MessageList
) -> bool:
    """Brings a history to a request that repeats the end of the history; returns whether the request repeats it.

    An application may send the last answer again or leave it out, and drop the oldest messages. So the end of the
    history is looked for with and without that answer, and from each message on.
    """
    transcript = history.transcript
    for message_count in (len(transcript), len(transcript) - history.answer_size):
        keys = transcript.keys[:message_count]
        for start in range(max(1, len(keys) - 1)):
            body = request if start == 0 else spoken
            is_asked_again = message_count < len(transcript) and len(body) == len(keys) - start
            if is_asked_again and span.trace not in history.traces:
                continue  # the same question in another trace begins a conversation of its own
            if _begins_with(keys[start:], body.keys):
                history.transcript = transcript[:start].extended_by(body)
                return True
    return False


def _begins_with(keys: list[_MessageKey], longer: list[_MessageKey]) -> bool:
    """Returns whether the messages of a longer list begin with these."""
    return longer[: len(keys)] == keys
