"""Spans of OpenTelemetry, with the conventions of GenAI, OpenInference, OpenLLMetry or the Vercel AI SDK."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from engine.formats.json_values import object_or_empty, objects_in
from engine.formats.opening.framing import Frame
from engine.formats.paths import json_within, object_in


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


_SIGNS = ("gen_ai.", "llm.", "openinference.", "ai.prompt", "ai.response", "traceloop.")
"""Beginnings of attributes that say that a model was called."""


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
        *("gen_ai.conversation.id", "session.id", "langfuse.session.id"),
        "gcp.vertex.agent.session_id",
        *(f"traceloop.association.properties.{session_key}" for session_key in SESSION_KEYS),
    )
    metadata = object_in(attributes.get("metadata") or nested.get("metadata"))
    session = session or first_filled(object_in(nested.get("session")), "id")
    return Span(
        trace=as_text(trace or context.get("trace_id") or session or key or fingerprint(record)),
        key=as_text(key),
        parent=as_text(parent),
        session=as_text(session or first_filled(metadata, *SESSION_KEYS)),
        kind=_span_kind(record, attributes, nested),
        name=as_text(
            first_filled(object_in(nested.get("tool")), "name")
            or first_filled(record, "name", "operationName")
        ),
        start=start,
        given=given,
        answered=answered,
        facts=facts_of(start, model, usage),
        call_id=as_text(first_filled(attributes, "tool.id", "gen_ai.tool.call.id", "tool_call.id")),
    )


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
        agent = operation in ("invoke_agent", "create_agent", "invoke_workflow")
        return "tool" if operation == "execute_tool" else "other" if agent else "model"
    names_model = {"gen_ai", "llm"} & nested.keys() and kind in ("", "CLIENT", "INTERNAL")
    vercel = as_text(attributes.get("ai.operationId")).endswith((".doGenerate", ".doStream"))
    return "model" if names_model or vercel else "other"


def _messages_of(nested: dict[str, Any], record: dict[str, Any]) -> tuple[Any, Any]:
    """Returns what a span was given and answered."""
    gen = object_in(nested.get("gen_ai"))
    llm = object_in(nested.get("llm"))
    vercel = object_in(nested.get("ai"))
    request = json_within(first_filled(object_in(gen.get("input")), "messages"))
    answered = first_filled(object_in(gen.get("output")), "messages")
    if request is not None:
        request = {"messages": request, "system": json_within(gen.get("system_instructions"))}
    pydantic = object_in(nested.get("pydantic_ai")).get("all_messages")
    request = request or gen.get("prompt") or _as_request(llm.get("input_messages"))
    request = request or _as_request(pydantic or nested.get("all_messages_events"))
    answered = answered or gen.get("completion") or llm.get("output_messages")
    if request is None and "prompt" in vercel:
        request = first_filled(object_in(vercel["prompt"]), "messages", "") or vercel["prompt"]
        answered = object_in(vercel.get("response"))
        answered = {
            "text": answered.get("text"),
            "tool_calls": json_within(answered.get("toolCalls")),
        }
    events, choices = _messages_of_events(record.get("events") or record.get("logs"))
    request, answered = request or events, answered or choices
    adk = object_in(object_in(object_in(nested.get("gcp")).get("vertex")).get("agent"))
    request = request or object_in(adk.get("llm_request")) or json_within(adk.get("tool_call_args"))
    answered = (
        answered or object_in(adk.get("llm_response")) or json_within(adk.get("tool_response"))
    )
    tool = object_in(object_in(gen.get("tool")).get("call"))
    request = (
        request or tool.get("arguments") or first_filled(object_in(nested.get("input")), "value")
    )
    answered = (
        answered or tool.get("result") or first_filled(object_in(nested.get("output")), "value")
    )
    if isinstance(nested.get("input"), str) and request is None:
        request, answered = nested["input"], answered or nested.get("output")
    return request, answered


def _as_request(listed: Any) -> Any:
    """Returns a list of messages, also as JSON in a text, as a request; None if it is none."""
    listed = json_within(listed)
    return {"messages": listed} if isinstance(listed, list) else None


def _messages_of_events(events: Any) -> tuple[Any, Any]:
    """Returns the messages in the events of a span, as the conventions had them until version 1.36."""
    request: list[Any] = []
    answered: list[Any] = []
    for event in json_within(events) if isinstance(json_within(events), list) else ():
        if not isinstance(event, dict):
            continue
        name = as_text(event.get("name"))
        event_attributes = _object_of_pairs(event.get("attributes"))
        inner = object_in(_nest_attributes(event_attributes).get("gen_ai"))
        if name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            listed = json_within(inner.get(name.rpartition(".")[2]))
            (request if name.endswith("prompt") else answered).extend(
                listed if isinstance(listed, list) else [listed]
            )
        elif name == "gen_ai.client.inference.operation.details":
            request += json_within(first_filled(object_in(inner.get("input")), "messages")) or []
            answered += json_within(first_filled(object_in(inner.get("output")), "messages")) or []
        elif name == "gen_ai.choice":
            message = json_within(event_attributes.get("message")) or {}
            content = event_attributes.get("content", "") if isinstance(message, dict) else message
            message = object_or_empty(message)
            answered.append({"role": "assistant", "content": content, **message})
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            message = {
                key: json_within(value)
                for key, value in event_attributes.items()
                if "gen_ai" not in key
            }
            request.append({"role": name.split(".")[1], "content": "", **message})
            if "id" in message and request[-1]["role"] == "tool":
                request[-1]["tool_call_id"] = message["id"]
    return request or None, answered or None


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
                if not name.startswith("gen_ai."):
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
                span["attributes"] = {"gen_ai.operation.name": "chat", **span.get("attributes", {})}
                span["attributes"] |= {
                    name_of: log_attributes[name_of]
                    for name_of in log_attributes
                    if name_of.startswith("gen_ai.")
                }
                span.setdefault("events", []).append(
                    {"name": name, "attributes": {**log_attributes, **body}}
                )
    return list(spans.values()), others


def _event_name(log: dict[str, Any]) -> str:
    """Returns the name of the event that a log record is; "" if it is none."""
    attributes = _object_of_pairs(log.get("attributes"))
    named = first_filled(log, "eventName", "event_name") or attributes.get("event.name")
    return as_text(named)


def with_logs_together(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields records with log records of OTLP as one, since a collector writes the events of a span in several."""
    logs: list[Frame] = []
    for frame in frames:
        value = frame.value
        if isinstance(value, dict) and "body" in value and _event_name(value).startswith("gen_ai."):
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
