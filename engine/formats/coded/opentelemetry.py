"""Spans of OpenTelemetry, with the conventions of GenAI, OpenInference, OpenLLMetry or the Vercel AI SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from engine.formats.coded.spans import (
    SESSION_KEYS,
    Span,
    as_text,
    facts_of,
    fingerprint,
    first_filled,
    time_text,
)
from engine.formats.json_values import objects_in
from engine.formats.messages.call_messages import messages_answered, messages_given
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.opening.framing import Frame
from engine.formats.paths import json_within, object_in

AGENT_OPERATIONS = ("invoke_agent", "create_agent", "invoke_workflow")
"""Operations of GenAI in which an agent calls models and tools."""

SESSION_ATTRIBUTES = (
    *("gen_ai.conversation.id", "gen_ai.thread.id", "session.id", "langfuse.session.id"),
)
"""Attributes with the id of the session."""

CALL_IDS = ("tool.id", "gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id")
"""Attributes with the id of the call that a tool is run for."""

_TOOL_NAMES = ("tool.name", "gen_ai.tool.name", "ai.toolCall.name")
"""Attributes with the name of a tool that is run."""

_SIGNS = ("gen_ai.", "llm.", "openinference.", "ai.prompt", "ai.response", "traceloop.")
"""Beginnings of attributes that say that a model was called."""

_GIVEN = (
    *("gen_ai.prompt", "llm.input_messages", "pydantic_ai.all_messages", "ai.prompt.messages"),
    *("ai.prompt", "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.llm_request"),
    *("gen_ai.tool.call.arguments", "ai.toolCall.args", "tool_arguments"),
    *("traceloop.entity.input.inputs", "traceloop.entity.input", "haystack.component.input"),
    *("input.value", "input"),
)
"""Attributes with what a span was given, as the conventions name them, the surest first."""

_ANSWERED = (
    *("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages", "ai.response"),
    *("gcp.vertex.agent.tool_response", "gcp.vertex.agent.llm_response", "gen_ai.tool.call.result"),
    *("ai.toolCall.result", "tool_response", "traceloop.entity.output.outputs"),
    *("traceloop.entity.output.output", "traceloop.entity.output", "haystack.component.output"),
    *("output.value", "output"),
)
"""Attributes with what it answered."""


def _nest_attributes(value: Any) -> Any:
    """Returns attributes whose keys have dots as objects within objects; an object whose keys are numbers as a list."""
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
        nested_before = node.get(last)
        node[last] = (
            {**nested_before, **inner}
            if isinstance(nested_before, dict) and isinstance(inner, dict)
            else inner
        )
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
    return key.isdecimal() and len(key) < 20


def _plain_value(value: Any) -> Any:
    """Returns a value of OTLP, in which each has its type as key."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [_plain_value(entry) for entry in object_in(inner).get("values", [])]
    if kind == "kvlistValue":
        return _object_of_pairs(object_in(inner).get("values"))
    return inner if kind.endswith("Value") else value


def _object_of_pairs(listed: Any) -> dict[str, Any]:
    """Returns a list of pairs of `key` and `value`, as OTLP writes objects, as an object."""
    if isinstance(listed, dict):
        return listed
    return {
        as_text(pair.get("key")): _plain_value(pair.get("value"))
        for pair in (listed if isinstance(listed, list) else ())
        if isinstance(pair, dict)
    }


def _attributes(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a span, of any of its forms."""
    attributes = record.get("attributes", record.get("tags"))
    if isinstance(attributes, list):
        return _object_of_pairs(attributes)
    attributes = json_within(attributes)
    if isinstance(attributes, dict):
        return attributes
    columns = {key[11:]: value for key, value in record.items() if key.startswith("attributes.")}
    return columns or record


def span_of(record: Any) -> Span | None:
    """Returns a record as a span; None if nothing in it says that a model was called."""
    if not isinstance(record, dict):
        return None
    attributes = _attributes(record)
    context = object_in(record.get("context"))
    key = first_filled(record, "spanId", "span_id", "spanID", "context.span_id") or context.get(
        "span_id"
    )
    has_attributes = attributes is not record and key is not None
    if not has_attributes and not any(name.startswith(_SIGNS) for name in attributes):
        return None
    trace = first_filled(record, "traceId", "trace_id", "traceID", "context.trace_id")
    nested = _nest_attributes(attributes)
    given, answered = _messages_of(nested, record)
    parent = first_filled(record, "parentSpanId", "parent_id", "parentId", "parent_span_id")
    start = time_text(
        first_filled(record, "startTimeUnixNano", "start_time", "startTime", "start_time_unix_nano")
    )
    response = object_in(object_in(nested.get("gen_ai")).get("response"))
    request = object_in(object_in(nested.get("gen_ai")).get("request"))
    model = response.get("model") or request.get("model")
    model = model or object_in(nested.get("llm")).get("model_name")
    usage = object_in(nested.get("gen_ai")).get("usage") or object_in(nested.get("llm")).get(
        "token_count"
    )
    session = first_filled(
        attributes,
        *SESSION_ATTRIBUTES,
        *("gcp.vertex.agent.session_id", "ai.telemetry.metadata.sessionId"),
        *(f"traceloop.association.properties.{session_key}" for session_key in SESSION_KEYS),
    )
    metadata = object_in(attributes.get("metadata") or nested.get("metadata"))
    session = session or first_filled(object_in(nested.get("session")), "id")
    kind = _span_kind(record, attributes, nested)
    tool_message: ChatMessage = next(filter(_is_of_tool, (answered, given)), [{}])[0]
    if kind == "other" and tool_message:
        kind = "tool"
    return Span(
        trace=as_text(trace or context.get("trace_id") or session or key or fingerprint(record)),
        key=as_text(key),
        parent=as_text(parent),
        session=as_text(session or first_filled(metadata, *SESSION_KEYS)),
        kind=kind,
        name=as_text(
            tool_name(attributes)
            or tool_message.get("name")
            or first_filled(record, "name", "operationName")
        ),
        start=start,
        given=given,
        answered=answered,
        facts=facts_of(start, model, usage),
        call_id=as_text(first_filled(attributes, *CALL_IDS) or tool_message.get("tool_call_id")),
    )


def _is_of_tool(messages: Any) -> bool:
    """Returns whether messages are the call of a tool or its answer alone."""
    return len(objects_in(messages)) == 1 and messages[0].get("role") == "tool"


def tool_name(attributes: dict[str, Any]) -> Any:
    """Returns the name of the tool that a span runs; None if it runs none."""
    is_entity = attributes.get("traceloop.span.kind") == "tool"
    names = (*_TOOL_NAMES, "traceloop.entity.name") if is_entity else _TOOL_NAMES
    return first_filled(attributes, *names)


def _span_kind(record: dict[str, Any], attributes: dict[str, Any], nested: dict[str, Any]) -> Any:
    """Returns whether a span is a call of a model, a call of a tool, or another step."""
    kind = as_text(
        first_filled(attributes, "openinference.span.kind", "traceloop.span.kind", "span_kind")
    )
    kind = kind or as_text(
        object_in(object_in(nested.get("openinference")).get("span")).get("kind")
    )
    kind = (kind or as_text(record.get("span_kind"))).upper()
    operation = as_text(object_in(object_in(nested.get("gen_ai")).get("operation")).get("name"))
    if kind in ("LLM", "TOOL"):
        return "model" if kind == "LLM" else "tool"
    if operation:
        is_agent = operation in AGENT_OPERATIONS
        return "tool" if operation == "execute_tool" else "other" if is_agent else "model"
    if tool_name(attributes):
        return "tool"
    names_model = {"gen_ai", "llm"} & nested.keys() and kind in ("", "CLIENT", "INTERNAL")
    vercel = as_text(attributes.get("ai.operationId")).endswith((".doGenerate", ".doStream"))
    return "model" if names_model or vercel else "other"


def _messages_of(nested: dict[str, Any], record: dict[str, Any]) -> tuple[Any, Any]:
    """Returns what a span was given and answered: of each what the first of the conventions has, or its events."""
    listed = [record.get(key) for key in ("events", "logs", "span_events")]
    listed += [nested.get("events"), nested.get("all_messages_events")]
    event_request, event_answer = _messages_of_events(next(filter(None, listed), None))
    messages = json_within(_value_at(nested, "gen_ai.input.messages"))
    system = json_within(_value_at(nested, "gen_ai.system_instructions"))
    request = {"messages": messages, "system": system} if messages else event_request
    given = (_value_at(nested, path) for path in _GIVEN)
    answered = (_value_at(nested, path) for path in _ANSWERED)
    return (
        request or next(filter(_is_said, given), None),
        next(filter(_is_said, answered), None) if event_answer is None else event_answer,
    )


def _is_said(value: Any) -> bool:
    """Returns whether an attribute has something in it."""
    return value not in (None, "", [], {})


def _value_at(nested: dict[str, Any], path: str) -> Any:
    """Returns what nested attributes, or JSON in their texts, have at a path with dots; None if there is nothing."""
    value: Any = nested
    for key in path.split("."):
        value = object_in(value).get(key)
    return value[""] if isinstance(value, dict) and "" in value else value


def _messages_of_events(events: Any) -> tuple[Any, Any]:
    """Returns the messages in the events of a span: as the conventions had them until version 1.36, as Azure and
    Semantic Kernel have them (JSON in `gen_ai.event.content`), or as AWS collects them (in the body of the event)."""
    request: list[Any] = []
    answered: list[Any] = []
    for event in objects_in(json_within(events)):
        name = _event_name(event)
        event_attributes = _object_of_pairs(event.get("attributes") or event)
        inner = object_in(_nest_attributes(event_attributes).get("gen_ai"))
        if body := _collected(event):
            request += _messages_in_body(body.get("input"), messages_given)
            answered += _messages_in_body(body.get("output"), messages_answered)
        elif name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            listed = json_within(inner.get(name.rpartition(".")[2]))
            (request if name.endswith("prompt") else answered).extend(
                listed if isinstance(listed, list) else [listed]
            )
        elif name == "gen_ai.client.inference.operation.details":
            request += json_within(first_filled(object_in(inner.get("input")), "messages")) or []
            answered += json_within(first_filled(object_in(inner.get("output")), "messages")) or []
        elif name == "gen_ai.choice":
            message = _fields_of_event(event_attributes, inner)
            choice = message.pop("message", {})
            choice = choice if isinstance(choice, dict) else {"content": choice}
            answered.append({"role": "assistant", "content": "", **message, **choice})
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            message = _fields_of_event(event_attributes, inner)
            request.append({"role": name.split(".")[1], "content": "", **message})
            if "id" in message and request[-1]["role"] == "tool":
                request[-1]["tool_call_id"] = message["id"]
    return request or None, answered or None


def _fields_of_event(event_attributes: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Returns what an event says of a message.

    Args:
        inner: The attributes of GenAI, nested.
    """
    content = json_within(object_in(inner.get("event")).get("content"))
    fields = {
        key: json_within(value)
        for key, value in event_attributes.items()
        if not key.startswith(("gen_ai", "event"))
    }
    return {
        **fields,
        **(content if isinstance(content, dict) else {"content": content} if content else {}),
    }


def _collected(event: dict[str, Any]) -> dict[str, Any]:
    """Returns the body of an event with what a span was given and answered; empty if it has another or none."""
    body = object_in(_plain_value(event.get("body")))
    return (
        body if any("messages" in object_in(body.get(key)) for key in ("input", "output")) else {}
    )


def _messages_in_body(body: Any, read: Callable[[Any], list[ChatMessage]]) -> list[dict[str, Any]]:
    """Returns the messages in the input or the output of a body.

    Args:
        read: Reads the messages of what a framework was given or answered, which may stand in place of a text.
    """
    messages: list[dict[str, Any]] = []
    for message in objects_in(object_in(body).get("messages")):
        content = json_within(message.get("content"))
        if isinstance(content, dict) and (framework_messages := read(content)):
            messages += framework_messages
            continue
        if isinstance(content, dict):
            content = json_within(first_filled(content, "content", "message"))
        messages.append({**message, "content": "" if content is None else content})
    return messages


def spans_of(record: Any) -> tuple[list[Any], list[Any]]:
    """Returns the spans of an export: OTLP, Jaeger, or an object of lists of spans."""
    if not isinstance(record, dict):
        return [], []
    if isinstance(record.get("resourceLogs"), list):
        return _spans_of_logs(record["resourceLogs"])
    spans: list[Any] = []
    others: list[Any] = []
    outer = record.get("resourceSpans", record.get("batches"))
    for resource in objects_in(outer):
        scopes = first_filled(resource, "scopeSpans", "instrumentationLibrarySpans", "scope_spans")
        for scope in objects_in(scopes):
            spans += objects_in(scope.get("spans"))
        about = {key: resource[key] for key in resource if key == "resource"}
        others += [about] if about else []
    if outer is not None:
        return spans, others
    if isinstance(record.get("spans"), list) and ("traceID" in record or "trace_id" in record):
        return record["spans"], [{key: record[key] for key in record if key != "spans"}]
    if record and all(_is_spans(value) for value in record.values()):
        return [span for value in record.values() for span in value], []
    return [record], []


def _spans_of_logs(resources: list[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the log records of OTLP that are events of GenAI, as events of the spans that they name."""
    spans: dict[tuple[str, str], dict[str, Any]] = {}
    others: list[Any] = []
    for resource in objects_in(resources):
        others += [{"resource": resource["resource"]}] if "resource" in resource else []
        for scope in objects_in(resource.get("scopeLogs")):
            for log in objects_in(scope.get("logRecords")):
                log_attributes = _object_of_pairs(log.get("attributes"))
                name = _event_name(log)
                collected = _collected(log)
                if not name.startswith("gen_ai.") and not collected:
                    others.append(log)
                    continue
                body = json_within(_plain_value(log.get("body")))
                body = body if isinstance(body, dict) else {"content": body} if body else {}
                trace = as_text(first_filled(log, "traceId", "trace_id"))
                key = as_text(first_filled(log, "spanId", "span_id"))
                start = first_filled(log, "timeUnixNano", "observedTimeUnixNano", "timestamp")
                span = spans.setdefault(
                    (trace, key or (trace and "log") or fingerprint(log)),
                    {"spanId": key or "log", "traceId": trace, "startTimeUnixNano": start},
                )
                operation = {} if collected else {"gen_ai.operation.name": "chat"}
                span["attributes"] = {**operation, **span.get("attributes", {})}
                span["attributes"] |= {
                    name_of: log_attributes[name_of]
                    for name_of in log_attributes
                    if name_of.startswith(("gen_ai.", "session."))
                }
                span.setdefault("events", []).append(
                    {"name": name, "body": collected, "attributes": {**log_attributes, **body}}
                )
    return list(spans.values()), others


def _event_name(log: dict[str, Any]) -> str:
    """Returns the name of the event that a log record is; "" if it is none."""
    attributes = _object_of_pairs(log.get("attributes"))
    named = first_filled(log, "event.name", "eventName", "event_name")
    return as_text(named or attributes.get("event.name") or log.get("name"))


def with_logs_together(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields records with log records of OTLP as one, since a collector writes the events of a span in several."""
    logs: list[Frame] = []
    for frame in frames:
        value = frame.value
        is_log = isinstance(value, dict) and "body" in value
        if is_log and (_event_name(value).startswith("gen_ai.") or _collected(value)):
            value = {"resourceLogs": [{"scopeLogs": [{"logRecords": [value]}]}]}
        if isinstance(value, dict) and isinstance(value.get("resourceLogs"), list):
            logs.append(frame._replace(value=value))
        else:
            yield frame
    if len(logs) > 1:
        together = {
            "resourceLogs": [resource for frame in logs for resource in frame.value["resourceLogs"]]
        }
        yield logs[0]._replace(raw=b"\n".join(frame.raw for frame in logs), value=together)
    else:
        yield from logs


def _is_spans(value: Any) -> bool:
    """Returns whether a value is a list that begins with a span."""
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and "attributes" in value[0]
        and span_of(value[0]) is not None
    )
