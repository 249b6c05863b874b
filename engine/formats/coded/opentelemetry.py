"""Reads spans and log records of OpenTelemetry as spans of `engine.formats.coded.spans`.

The *attributes* of a span are its properties, by names with dots. Which of them have the messages is said by one of
four conventions: those of GenAI, OpenInference, OpenLLMetry and the Vercel AI SDK. *OTLP* is the form in which
OpenTelemetry exports; *nested* attributes are those with dots in their names as objects within objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from engine.formats.coded.spans import (
    MAX_DIGITS,
    SESSION_KEYS,
    Span,
    SpanKind,
    SpansOfRecord,
    as_text,
    facts_of,
    fingerprint,
    time_text,
)
from engine.formats.json_values import (
    first_filled,
    list_or_empty,
    object_or_empty,
    objects_in,
    without_keys,
)
from engine.formats.messages.call_messages import input_messages, output_messages
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.opening.framing import Frame
from engine.formats.paths import json_within, object_in

# Spans

AGENT_OPERATIONS = ("invoke_agent", "create_agent", "invoke_workflow")
"""Operations of GenAI in which an agent calls models and tools."""

CALL_IDS = ("tool.id", "gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id")
"""Attributes with the id of the call that a tool is run for."""

_TOOL_NAMES = ("tool.name", "gen_ai.tool.name", "ai.toolCall.name")
"""Attributes with the name of a tool that is run."""

_SESSION_ATTRIBUTES = (
    *("gen_ai.conversation.id", "gen_ai.thread.id", "session.id", "langfuse.session.id"),
    *("gcp.vertex.agent.session_id", "ai.telemetry.metadata.sessionId"),
    *(f"traceloop.association.properties.{key}" for key in SESSION_KEYS),
)
"""Attributes with the id of the session, the surest first."""

_MODEL_PREFIXES = ("gen_ai.", "llm.", "openinference.", "ai.prompt", "ai.response", "traceloop.")
"""Beginnings of attributes that say that a model was called."""


def span_of(record: Any) -> Span | None:
    """Returns a record as a span; None if nothing in it says that a model was called."""
    if not isinstance(record, dict):
        return None
    attributes = _attributes(record)
    context = object_in(record.get("context"))
    key = first_filled(record, "spanId", "span_id", "spanID", "context.span_id")
    key = key or context.get("span_id")
    has_attributes = attributes is not record and key is not None
    if not has_attributes and not any(name.startswith(_MODEL_PREFIXES) for name in attributes):
        return None
    trace = first_filled(record, "traceId", "trace_id", "traceID", "context.trace_id")
    parent = first_filled(record, "parentSpanId", "parent_id", "parentId", "parent_span_id")
    start = time_text(
        first_filled(record, "startTimeUnixNano", "start_time", "startTime", "start_time_unix_nano")
    )
    nested = _nest_attributes(attributes)
    session = _session_id(attributes, nested)
    metadata = object_in(attributes.get("metadata") or nested.get("metadata"))
    span_input, span_output = _input_and_output(nested, record)
    tool_messages: Any = next(filter(_is_of_tool, (span_output, span_input)), [{}])
    tool_message: ChatMessage = objects_in(tool_messages)[0]
    name = tool_name(attributes) or tool_message.get("name")
    kind = _span_kind(record, attributes, nested)
    return Span(
        trace=as_text(trace or context.get("trace_id") or session or key or fingerprint(record)),
        key=as_text(key),
        parent=as_text(parent),
        session=as_text(session or first_filled(metadata, *SESSION_KEYS)),
        kind="tool" if kind == "other" and tool_message else kind,
        name=as_text(name or first_filled(record, "name", "operationName")),
        start=start,
        input=span_input,
        output=span_output,
        facts=_facts(start, nested),
        call_id=as_text(first_filled(attributes, *CALL_IDS) or tool_message.get("tool_call_id")),
    )


def _session_id(attributes: dict[str, Any], nested: dict[str, Any]) -> Any:
    """Returns the id of the session that the attributes of a span name; None if they name none.

    Args:
        nested: The same attributes, as objects within objects.
    """
    session = first_filled(attributes, *_SESSION_ATTRIBUTES)
    return session or first_filled(object_in(nested.get("session")), "id")


def _facts(start: str, nested: dict[str, Any]) -> dict[str, Any]:
    """Returns the time, the model and the usage of the call of a model, as far as they are known."""
    model = _entry_at(nested, "gen_ai.response.model") or _entry_at(nested, "gen_ai.request.model")
    usage = _entry_at(nested, "gen_ai.usage") or _entry_at(nested, "llm.token_count")
    return facts_of(start, model or _entry_at(nested, "llm.model_name"), usage)


def _is_of_tool(messages: Any) -> bool:
    """Returns whether messages are the call of a tool or its answer alone."""
    return [message.get("role") for message in objects_in(messages)] == ["tool"]


def tool_name(attributes: dict[str, Any]) -> Any:
    """Returns the name of the tool that a span runs; None if it runs none."""
    is_entity = attributes.get("traceloop.span.kind") == "tool"
    names = (*_TOOL_NAMES, "traceloop.entity.name") if is_entity else _TOOL_NAMES
    return first_filled(attributes, *names)


def _span_kind(
    record: dict[str, Any], attributes: dict[str, Any], nested: dict[str, Any]
) -> SpanKind:
    """Returns whether a span is a call of a model, a call of a tool, or another step."""
    kind = as_text(
        first_filled(attributes, "openinference.span.kind", "traceloop.span.kind", "span_kind")
    )
    kind = kind or as_text(_entry_at(nested, "openinference.span.kind"))
    kind = (kind or as_text(record.get("span_kind"))).upper()
    operation = as_text(_entry_at(nested, "gen_ai.operation.name"))
    if kind in ("LLM", "TOOL"):
        return "model" if kind == "LLM" else "tool"
    if operation:
        is_agent = operation in AGENT_OPERATIONS
        return "tool" if operation == "execute_tool" else "other" if is_agent else "model"
    if tool_name(attributes):
        return "tool"
    names_model = {"gen_ai", "llm"} & nested.keys() and kind in ("", "CLIENT", "INTERNAL")
    is_vercel = as_text(attributes.get("ai.operationId")).endswith((".doGenerate", ".doStream"))
    return "model" if names_model or is_vercel else "other"


# The input and the output of a span

_INPUT_ATTRIBUTES = (
    *("gen_ai.prompt", "llm.input_messages", "pydantic_ai.all_messages", "ai.prompt.messages"),
    *("ai.prompt", "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.llm_request"),
    *("gen_ai.tool.call.arguments", "ai.toolCall.args", "tool_arguments"),
    *("traceloop.entity.input.inputs", "traceloop.entity.input", "haystack.component.input"),
    *("input.value", "input"),
)
"""Attributes with the input of a span, as the conventions name them, the surest first."""

_OUTPUT_ATTRIBUTES = (
    *("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages", "ai.response"),
    *("gcp.vertex.agent.tool_response", "gcp.vertex.agent.llm_response", "gen_ai.tool.call.result"),
    *("ai.toolCall.result", "tool_response", "traceloop.entity.output.outputs"),
    *("traceloop.entity.output.output", "traceloop.entity.output", "haystack.component.output"),
    *("output.value", "output"),
)
"""Attributes with the output of a span, as the conventions name them, the surest first."""


def _input_and_output(nested: dict[str, Any], record: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the input and the output of a span: of each the events of the span, or else what the first of the
    conventions has."""
    places = [record.get(key) for key in ("events", "logs", "span_events")]
    places += [nested.get("events"), nested.get("all_messages_events")]
    request, answer = _messages_of_events(next(filter(None, places), None))
    if messages := json_within(_value_at(nested, "gen_ai.input.messages")):
        system = json_within(_value_at(nested, "gen_ai.system_instructions"))
        request = {"messages": messages, "system": system}
    return (
        request or _first_attribute(nested, _INPUT_ATTRIBUTES),
        _first_attribute(nested, _OUTPUT_ATTRIBUTES) if answer is None else answer,
    )


def _first_attribute(nested: dict[str, Any], paths: Sequence[str]) -> Any:
    """Returns the first value at one of the paths that is neither null nor empty; None if there is none."""
    values = (_value_at(nested, path) for path in paths)
    return next((value for value in values if value not in (None, "", [], {})), None)


# Events of a span, which may have its messages


def _messages_of_events(events: Any) -> tuple[Any, Any]:
    """Returns the messages of input and output in the events of a span, None for each that the events do not have.

    The events are as the conventions had them until version 1.36, as Azure and Semantic Kernel have them (JSON in
    `gen_ai.event.content`), or as AWS collects them (in the body of the event).
    """
    request: list[Any] = []
    answer: list[Any] = []
    for event in objects_in(json_within(events)):
        if body := _collected_body(event):
            request += _messages_in_body(body.get("input"), input_messages)
            answer += _messages_in_body(body.get("output"), output_messages)
        else:
            new_request, new_answer = _messages_of_event(event)
            request += new_request
            answer += new_answer
    return request or None, answer or None


def _messages_of_event(event: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the messages that an event adds to the input and to the output of its span, two lists.

    Both are empty for an event that is none of GenAI: a prompt or a completion, the details of an operation, a choice,
    or a message of a role.
    """
    name = _event_name(event)
    attributes = _object_of_pairs(event.get("attributes") or event)
    gen_ai = object_in(_nest_attributes(attributes).get("gen_ai"))
    if name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
        content = json_within(gen_ai.get(name.rpartition(".")[2]))
        messages = content if isinstance(content, list) else [content]
        return (messages, []) if name.endswith("prompt") else ([], messages)
    if name == "gen_ai.client.inference.operation.details":
        sides = (object_in(gen_ai.get(side)).get("messages") for side in ("input", "output"))
        request, answer = (list_or_empty(json_within(messages)) for messages in sides)
        return request, answer
    if name == "gen_ai.choice":
        message = _fields_of_event(attributes, gen_ai)
        choice = message.pop("message", {})
        choice = choice if isinstance(choice, dict) else {"content": choice}
        return [], [{"role": "assistant", "content": "", **message, **choice}]
    if name.startswith("gen_ai.") and name.endswith(".message"):
        fields = _fields_of_event(attributes, gen_ai)
        message = {"role": name.split(".")[1], "content": "", **fields}
        if "id" in fields and message["role"] == "tool":
            message["tool_call_id"] = fields["id"]
        return [message], []
    return [], []


def _event_name(log: dict[str, Any]) -> str:
    """Returns the name of the event that a log record is; "" if the record is no event."""
    attributes = _object_of_pairs(log.get("attributes"))
    name = first_filled(log, "event.name", "eventName", "event_name")
    return as_text(name or attributes.get("event.name") or log.get("name"))


def _fields_of_event(attributes: dict[str, Any], gen_ai: dict[str, Any]) -> dict[str, Any]:
    """Returns what an event says of a message.

    Args:
        attributes: The attributes of the event.
        gen_ai: Those of them that begin with `gen_ai.`, as objects within objects.
    """
    content = json_within(object_in(gen_ai.get("event")).get("content"))
    fields = {
        key: json_within(value)
        for key, value in attributes.items()
        if not key.startswith(("gen_ai", "event"))
    }
    if isinstance(content, dict):
        return {**fields, **content}
    return {**fields, "content": content} if content else fields


def _collected_body(event: dict[str, Any]) -> dict[str, Any]:
    """Returns the body of an event with the input and the output of a span; empty if it has another body or none."""
    body = object_in(_plain_value(event.get("body")))
    has_messages = any("messages" in object_in(body.get(key)) for key in ("input", "output"))
    return body if has_messages else {}


def _messages_in_body(
    body: Any, reader: Callable[[Any], list[ChatMessage]]
) -> list[dict[str, Any]]:
    """Returns the messages in the input or the output of a body.

    Args:
        reader: Reads the messages in the input or the output of a framework, which may stand in place of a text.
    """
    messages: list[dict[str, Any]] = []
    for message in objects_in(object_in(body).get("messages")):
        content = json_within(message.get("content"))
        if isinstance(content, dict) and (framework_messages := reader(content)):
            messages += framework_messages
            continue
        if isinstance(content, dict):
            content = json_within(first_filled(content, "content", "message"))
        messages.append({**message, "content": "" if content is None else content})
    return messages


# Exports and log records, which have spans


def spans_of(record: Any) -> SpansOfRecord:
    """Returns the spans of an export, and the other objects of it that say something of their traces.

    An export is one of OTLP, one of Jaeger, or an object of lists of spans; any other object is a span itself.
    """
    if not isinstance(record, dict):
        return SpansOfRecord([record])
    if isinstance(record.get("resourceLogs"), list):
        return _spans_of_logs(record)
    for key in ("resourceSpans", "batches"):
        if key in record:
            return _entries_of_export(record, key, _SCOPE_KEYS, "spans")
    if isinstance(record.get("spans"), list) and ("traceID" in record or "trace_id" in record):
        return SpansOfRecord(record["spans"], [without_keys(record, "spans")])
    if record and all(_is_spans(value) for value in record.values()):
        return SpansOfRecord([span for value in record.values() for span in value])
    return SpansOfRecord([record])


_SCOPE_KEYS = ("scopeSpans", "instrumentationLibrarySpans", "scope_spans")
"""Keys under which a resource of an export has the lists of spans of its scopes."""


def _entries_of_export(
    record: dict[str, Any], resources_key: str, scope_keys: Sequence[str], entry_key: str
) -> SpansOfRecord:
    """Returns the spans or the log records of an export of OTLP, and what it says beside them: of itself, of each
    resource and of the scopes in it.

    Args:
        resources_key: Key of the list of resources.
        scope_keys: Keys under one of which a resource has a list of scopes.
        entry_key: Key under which a scope has a list of spans or log records.
    """
    entries: list[Any] = []
    others = without_keys(record, resources_key)
    statements: list[Any] = [others] if any(others.values()) else []
    for resource in list_or_empty(record[resources_key]):
        resource_fields = object_or_empty(resource)
        lists = (key for key in scope_keys if isinstance(resource_fields.get(key), list))
        if (scopes_key := next(lists, None)) is None:
            entries.append(resource)
            continue
        scopes: list[Any] = []
        for scope in resource[scopes_key]:
            if isinstance(listed := object_or_empty(scope).get(entry_key), list):
                entries += listed
                scopes.append(without_keys(scope, entry_key))
            else:
                entries.append(scope)
        about_scopes = {"scopes": list(filter(None, scopes))} if any(scopes) else {}
        statements.append({**without_keys(resource, scopes_key), **about_scopes})
    return SpansOfRecord(entries, statements)


def _is_spans(value: Any) -> bool:
    """Returns whether a value is a list that begins with a span."""
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and "attributes" in value[0]
        and span_of(value[0]) is not None
    )


def _spans_of_logs(record: dict[str, Any]) -> SpansOfRecord:
    """Returns the log records of OTLP that are events of GenAI, as events of the spans that they name, and what else
    the logs say."""
    logs, statements = _entries_of_export(record, "resourceLogs", ("scopeLogs",), "logRecords")
    spans: dict[tuple[str, str], dict[str, Any]] = {}
    other_logs = [log for log in logs if not _add_to_span(spans, log)]
    return SpansOfRecord(list(spans.values()), [*statements, *other_logs])


def _add_to_span(spans: dict[tuple[str, str], dict[str, Any]], log: Any) -> bool:
    """Adds a log record to the span that it names, as an event; returns False if it is no event of GenAI.

    Args:
        spans: The spans so far, by the ids of their trace and of themselves; a new one is added.
    """
    if not isinstance(log, dict):
        return False
    name = _event_name(log)
    collected = _collected_body(log)
    if not name.startswith("gen_ai.") and not collected:
        return False
    attributes = _object_of_pairs(log.get("attributes"))
    body = json_within(_plain_value(log.get("body")))
    if not isinstance(body, dict):
        body = {"content": body} if body else {}
    trace = as_text(first_filled(log, "traceId", "trace_id"))
    key = as_text(first_filled(log, "spanId", "span_id"))
    start = first_filled(log, "timeUnixNano", "observedTimeUnixNano", "timestamp")
    span = spans.setdefault(
        (trace, key or (trace and "log") or fingerprint(log)),
        {"spanId": key or "log", "traceId": trace, "startTimeUnixNano": start},
    )
    operation = {} if collected else {"gen_ai.operation.name": "chat"}
    prefixes = ("gen_ai.", "session.")
    new_attributes = {key: attributes[key] for key in attributes if key.startswith(prefixes)}
    span["attributes"] = {**operation, **span.get("attributes", {}), **new_attributes}
    event = {"name": name, "body": collected, "attributes": {**attributes, **body}}
    span.setdefault("events", []).append(event)
    return True


def with_logs_together(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields records with log records of OTLP as one, since a collector writes the events of a span in several."""
    logs: list[Frame] = []
    for frame in frames:
        value = frame.value
        is_log = isinstance(value, dict) and "body" in value
        if is_log and (_event_name(value).startswith("gen_ai.") or _collected_body(value)):
            value = {"resourceLogs": [{"scopeLogs": [{"logRecords": [value]}]}]}
        if isinstance(value, dict) and isinstance(value.get("resourceLogs"), list):
            logs.append(frame._replace(value=value))
        else:
            yield frame
    if len(logs) > 1:
        rests = [without_keys(frame.value, "resourceLogs") for frame in logs]
        together = {
            "resourceLogs": [
                resource for frame in logs for resource in frame.value["resourceLogs"]
            ],
            "logs": list(filter(None, rests)),
        }
        yield logs[0]._replace(raw=b"\n".join(frame.raw for frame in logs), value=together)
    else:
        yield from logs


# Attributes


def _attributes(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a span, wherever it has them; the record itself if it has them among its fields."""
    attributes = record.get("attributes", record.get("tags"))
    if isinstance(attributes, list):
        return _object_of_pairs(attributes)
    attributes = json_within(attributes)
    if isinstance(attributes, dict):
        return attributes
    prefix = "attributes."
    columns = {
        key.removeprefix(prefix): value for key, value in record.items() if key.startswith(prefix)
    }
    return columns or record


def _object_of_pairs(listed: Any) -> dict[str, Any]:
    """Returns an object that OTLP writes as a list of pairs of `key` and `value`; an object as it is."""
    if isinstance(listed, dict):
        return listed
    return {
        as_text(pair.get("key")): _plain_value(pair.get("value")) for pair in objects_in(listed)
    }


def _plain_value(value: Any) -> Any:
    """Returns the value in a value of OTLP, in which each has its type as key: `{"stringValue": "a"}`."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [_plain_value(entry) for entry in object_in(inner).get("values", [])]
    if kind == "kvlistValue":
        return _object_of_pairs(object_in(inner).get("values"))
    return inner if kind.endswith("Value") else value


def _nest_attributes(value: Any) -> Any:
    """Returns attributes whose keys have dots as objects within objects; an object whose keys are numbers as a list.

    `{"a.b": 1, "c.0.d": 2}` becomes `{"a": {"b": 1}, "c": [{"d": 2}]}`.
    """
    if isinstance(value, list):
        return [_nest_attributes(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    root: dict[str, Any] = {}
    for key, entry in sorted(value.items(), key=lambda item: str(item[0])):
        *path, last = str(key).split(".")
        node = root
        for step in path:
            if not isinstance(node.get(step), dict):
                # a value under a key that others continue (`a` beside `a.b`) goes under ""
                node[step] = {"": node[step]} if step in node else {}
            node = node[step]
        inner = _nest_attributes(entry)
        if isinstance(node.get(last), dict) and isinstance(inner, dict):
            inner = {**node[last], **inner}
        node[last] = inner
    return _with_lists(root)


def _with_lists(value: Any) -> Any:
    """Returns a value in which objects whose keys are all numbers are lists."""
    if not isinstance(value, dict):
        return value
    entries = {key: _with_lists(entry) for key, entry in value.items()}
    numbers = list(filter(_is_position, entries))
    if numbers and all(_is_position(key) or key == "" for key in entries):
        return [entries[key] for key in sorted(numbers, key=int)]
    return entries


def _is_position(key: str) -> bool:
    """Returns whether a key is a number that `int` reads: of "²" and of thousands of digits it raises ValueError."""
    return key.isdecimal() and len(key) <= MAX_DIGITS


def _entry_at(nested: dict[str, Any], path: str) -> Any:
    """Returns what nested attributes, or JSON in their texts, have at a path with dots; None if there is nothing."""
    entry: Any = nested
    for key in path.split("."):
        entry = object_in(entry).get(key)
    return entry


def _value_at(nested: dict[str, Any], path: str) -> Any:
    """Returns the value of the attribute at a path with dots, also where other attributes continue its name; None if
    there is none."""
    entry = _entry_at(nested, path)
    return entry[""] if isinstance(entry, dict) and "" in entry else entry
