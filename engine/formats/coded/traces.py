"""Readers of traces: where each tool that records calls of models has its spans, their times, sessions and messages.

What is the same for all of them, making conversations of spans, is in `engine.formats.coded.spans`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from engine.formats.coded.spans import (
    Exploder,
    Span,
    SpanReader,
    arrange_spans,
    draft_of_spans,
    time_text,
)
from engine.formats.json_values import json_text
from engine.formats.messages.call_messages import json_within
from engine.formats.opening.framing import Frame
from engine.formats.reader import Reader

_SESSION_KEYS = ("thread_id", "session_id", "conversation_id", "threadId", "sessionId")


def _first(record: Any, *keys: str) -> Any:
    """The first value under one of the keys that is neither null nor empty."""
    if not isinstance(record, dict):
        return None
    return next((record[key] for key in keys if record.get(key) not in (None, "", {}, [])), None)


def _object(value: Any) -> dict[str, Any]:
    value = json_within(value)
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _fingerprint(record: Any) -> str:
    """An id of a record that names none."""
    return hashlib.sha1(json_text(record).encode(), usedforsecurity=False).hexdigest()[:16]


def _facts(start: Any, model: Any, usage: Any) -> dict[str, Any]:
    found = {"time": start, "model": model, "usage": usage}
    return {key: value for key, value in found.items() if value not in (None, "", {}, [])}


def _alone(record: Any) -> tuple[list[Any], list[Any]]:
    return [record], []


# LangSmith


def _langsmith(run: Any) -> Span | None:
    if not isinstance(run, dict) or not isinstance(run.get("run_type"), str) or "id" not in run:
        return None
    kind = run["run_type"]
    metadata = _object(_object(run.get("extra")).get("metadata"))
    start = time_text(run.get("start_time"))
    usage = _first(_object(run.get("outputs")), "usage_metadata")
    return Span(
        _text(_first(run, "trace_id", "id")),
        _text(run["id"]),
        _text(run.get("parent_run_id")),
        _text(_first(run, "thread_id") or _first(metadata, *_SESSION_KEYS)),
        "model" if kind in ("llm", "chat_model") else "tool" if kind == "tool" else "other",
        _text(run.get("name")),
        start,
        run.get("inputs"),
        run.get("outputs"),
        _facts(start, _first(metadata, "ls_model_name"), usage),
    )


def _langsmith_runs(record: Any) -> tuple[list[Any], list[Any]]:
    """Runs as the API takes them, created and then updated, or as they are stored."""
    if not isinstance(record, dict) or not isinstance(record.get("post"), list):
        return list(_with_children(record, None)), []
    runs: dict[str, dict[str, Any]] = {}
    patch = record.get("patch")
    for run in [*record["post"], *(patch if isinstance(patch, list) else [])]:
        if isinstance(run, dict):
            known = runs.setdefault(_text(run.get("id")), {})
            known.update({key: run[key] for key in run if run[key] not in (None, "", {}, [])})
    return list(runs.values()), []


def _with_children(run: Any, trace: Any) -> Iterator[Any]:
    """A run and those within it, as the tree of a trace is exported; each is told its trace."""
    children = run.get("child_runs") if isinstance(run, dict) else None
    if not isinstance(run, dict) or not isinstance(children, list) or not (children or trace):
        yield run
        return
    trace = run.get("trace_id") or trace or run.get("id")
    yield {**{key: run[key] for key in run if key != "child_runs"}, "trace_id": trace}
    for child in _objects(children):
        yield from _with_children(
            {"parent_run_id": run.get("id"), "child_runs": [], **child}, trace
        )


# Langfuse

_LANGFUSE_TYPES = frozenset(
    (
        *("GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR"),
        *("EMBEDDING", "GUARDRAIL"),
    )
)


def _langfuse(record: Any) -> Span | None:
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        return None
    kind = _text(record.get("type"))
    trace = _first(record, "traceId", "trace_id")
    if (kind not in _LANGFUSE_TYPES or trace is None) and not _is_langfuse_trace(record):
        return None
    start = time_text(_first(record, "startTime", "start_time", "timestamp"))
    model = _first(record, "model", "providedModelName", "provided_model_name")
    usage = _first(record, "usageDetails", "usage_details", "usage")
    return Span(
        _text(trace or record["id"]),
        record["id"] if trace else f"trace {record['id']}",
        _text(_first(record, "parentObservationId", "parent_observation_id")),
        _text(_first(record, "sessionId", "session_id")),
        "model" if kind == "GENERATION" else "tool" if kind == "TOOL" else "other",
        _text(record.get("name")),
        start,
        record.get("input"),
        record.get("output"),
        _facts(start, model, usage) if kind == "GENERATION" else {},
    )


def _is_langfuse_trace(record: dict[str, Any]) -> bool:
    return record.keys() >= {"id", "timestamp", "input", "output"} and bool(
        record.keys() & {"bookmarked", "sessionId", "session_id", "projectId", "project_id", "tags"}
    )


def _langfuse_spans(record: Any) -> tuple[list[Any], list[Any]]:
    """Observations of a trace or of the traces of a session, and the traces without them."""
    if not isinstance(record, dict):
        return [], []
    if isinstance(record.get("traces"), list):
        found: tuple[list[Any], list[Any]] = ([], [])
        rest = {key: value for key, value in record.items() if key != "traces"}
        for trace in record["traces"]:
            session = {"sessionId": record.get("id")} if isinstance(trace, dict) else {}
            spans, said = _langfuse_spans({**session, **trace} if session else trace)
            found = ([*found[0], *spans], [*found[1], *said])
        return found[0], [*found[1], rest]
    if not isinstance(record.get("observations"), list):
        return [record], []
    trace = record.get("trace")
    if not isinstance(trace, dict):
        trace = {key: value for key, value in record.items() if key != "observations"}
    spans = [one for one in record["observations"] if isinstance(one, dict)]
    own = trace.get("id")
    spans = [
        one if _first(one, "traceId", "trace_id") else {**one, "traceId": own} for one in spans
    ]
    keys = ("scores", "corrections")
    judged = {key: trace[key] for key in keys if trace.get(key)}
    root = {key: value for key, value in trace.items() if key not in (*keys, "observations")}
    if "timestamp" in root:  # the trace itself is its outermost step
        root = {"input": None, "output": None, "tags": [], **root}
        return [root, *spans], [{"id": own, **judged}] if judged else []
    return spans, [{**root, **judged}]


# OpenTelemetry, with the conventions of GenAI, OpenInference, OpenLLMetry or the Vercel AI SDK


def _nested(value: Any) -> Any:
    """Attributes whose keys have dots as objects within objects; keys that are all numbers as a list."""
    if isinstance(value, list):
        return [_nested(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    root: dict[str, Any] = {}
    for key, entry in sorted(value.items(), key=lambda item: str(item[0])):
        *path, last = str(key).split(".")
        at = root
        for step in path:
            if not isinstance(at.get(step), dict):
                at[step] = {"": at[step]} if step in at else {}
            at = at[step]
        inner = _nested(entry)
        known = at.get(last)
        at[last] = (
            {**known, **inner} if isinstance(known, dict) and isinstance(inner, dict) else inner
        )
    return _with_lists(root)


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    found = {key: _with_lists(entry) for key, entry in value.items()}
    numbers = [key for key in found if key.isdigit()]
    if numbers and all(key.isdigit() or key == "" for key in found):
        return [found[key] for key in sorted(numbers, key=int)]
    return found


def _plain(value: Any) -> Any:
    """A value of OTLP, in which each has its type as key."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [_plain(one) for one in _object(inner).get("values", [])]
    if kind == "kvlistValue":
        return _pairs(_object(inner).get("values"))
    return inner if kind.endswith("Value") else value


def _pairs(listed: Any) -> dict[str, Any]:
    if isinstance(listed, dict):
        return listed
    return {
        _text(one.get("key")): _plain(one.get("value"))
        for one in (listed if isinstance(listed, list) else ())
        if isinstance(one, dict)
    }


def _attributes(record: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a span, of any of its forms."""
    found = record.get("attributes", record.get("tags"))
    if isinstance(found, list):
        return _pairs(found)
    found = json_within(found)
    if isinstance(found, dict):
        return found
    columns = {key[11:]: value for key, value in record.items() if key.startswith("attributes.")}
    return columns or record


_OTEL_SIGNS = ("gen_ai.", "llm.", "openinference.", "ai.prompt", "ai.response", "traceloop.")


def _otel(record: Any) -> Span | None:
    if not isinstance(record, dict):
        return None
    attributes = _attributes(record)
    context = _object(record.get("context"))
    key = _first(record, "spanId", "span_id", "spanID", "context.span_id") or context.get("span_id")
    own = attributes is not record and key is not None
    if not own and not any(name.startswith(_OTEL_SIGNS) for name in attributes):
        return None
    trace = _first(record, "traceId", "trace_id", "traceID", "context.trace_id")
    nested = _nested(attributes)
    given, answered = _otel_messages(nested, record)
    parent = _first(record, "parentSpanId", "parent_id", "parentId", "parent_span_id")
    start = time_text(
        _first(record, "startTimeUnixNano", "start_time", "startTime", "start_time_unix_nano")
    )
    response = _object(_object(nested.get("gen_ai")).get("response"))
    request = _object(_object(nested.get("gen_ai")).get("request"))
    model = response.get("model") or request.get("model")
    model = model or _object(nested.get("llm")).get("model_name")
    usage = _object(nested.get("gen_ai")).get("usage") or _object(nested.get("llm")).get(
        "token_count"
    )
    session = _first(
        attributes,
        *("gen_ai.conversation.id", "session.id", "langfuse.session.id"),
        *(f"traceloop.association.properties.{one}" for one in _SESSION_KEYS),
    )
    metadata = _object(attributes.get("metadata") or nested.get("metadata"))
    session = session or _first(_object(nested.get("session")), "id")
    return Span(
        _text(trace or context.get("trace_id") or session or key or _fingerprint(record)),
        _text(key),
        _text(parent),
        _text(session or _first(metadata, *_SESSION_KEYS)),
        _otel_kind(record, attributes, nested),
        _text(
            _first(_object(nested.get("tool")), "name") or _first(record, "name", "operationName")
        ),
        start,
        given,
        answered,
        _facts(start, model, usage),
    )


def _otel_kind(record: dict[str, Any], attributes: dict[str, Any], nested: dict[str, Any]) -> Any:
    kind = _text(_first(attributes, "openinference.span.kind", "traceloop.span.kind", "span_kind"))
    kind = kind or _text(_object(_object(nested.get("openinference")).get("span")).get("kind"))
    kind = (kind or _text(record.get("span_kind"))).upper()
    operation = _text(_object(_object(nested.get("gen_ai")).get("operation")).get("name"))
    if kind in ("LLM", "TOOL"):
        return "model" if kind == "LLM" else "tool"
    if operation:
        agent = operation in ("invoke_agent", "create_agent", "invoke_workflow")
        return "tool" if operation == "execute_tool" else "other" if agent else "model"
    told = {"gen_ai", "llm"} & nested.keys() and kind in ("", "CLIENT", "INTERNAL")
    vercel = _text(attributes.get("ai.operationId")).endswith((".doGenerate", ".doStream"))
    return "model" if told or vercel else "other"


def _otel_messages(nested: dict[str, Any], record: dict[str, Any]) -> tuple[Any, Any]:
    """What a span was given and answered."""
    gen = _object(nested.get("gen_ai"))
    llm = _object(nested.get("llm"))
    vercel = _object(nested.get("ai"))
    given = json_within(_first(_object(gen.get("input")), "messages"))
    answered = _first(_object(gen.get("output")), "messages")
    if given is not None:
        given = {"messages": given, "system": json_within(gen.get("system_instructions"))}
    given = given or gen.get("prompt") or _messages(llm.get("input_messages"))
    answered = answered or gen.get("completion") or llm.get("output_messages")
    if given is None and "prompt" in vercel:
        given = _first(_object(vercel["prompt"]), "messages", "") or vercel["prompt"]
        answered = _object(vercel.get("response"))
        answered = {
            "text": answered.get("text"),
            "tool_calls": json_within(answered.get("toolCalls")),
        }
    events, choices = _of_events(record.get("events") or record.get("logs"))
    given, answered = given or events, answered or choices
    tool = _object(_object(gen.get("tool")).get("call"))
    given = given or tool.get("arguments") or _first(_object(nested.get("input")), "value")
    answered = answered or tool.get("result") or _first(_object(nested.get("output")), "value")
    if isinstance(nested.get("input"), str) and given is None:
        given, answered = nested["input"], answered or nested.get("output")
    return given, answered


def _messages(listed: Any) -> Any:
    listed = json_within(listed)
    return {"messages": listed} if isinstance(listed, list) else None


def _of_events(events: Any) -> tuple[Any, Any]:
    """The messages in the events of a span, as the conventions had them until version 1.36."""
    given: list[Any] = []
    answered: list[Any] = []
    for event in json_within(events) if isinstance(json_within(events), list) else ():
        if not isinstance(event, dict):
            continue
        name = _text(event.get("name"))
        said = _pairs(event.get("attributes"))
        inner = _object(_nested(said).get("gen_ai"))
        if name in ("gen_ai.content.prompt", "gen_ai.content.completion"):
            listed = json_within(inner.get(name.rpartition(".")[2]))
            (given if name.endswith("prompt") else answered).extend(
                listed if isinstance(listed, list) else [listed]
            )
        elif name == "gen_ai.client.inference.operation.details":
            given += json_within(_first(_object(inner.get("input")), "messages")) or []
            answered += json_within(_first(_object(inner.get("output")), "messages")) or []
        elif name == "gen_ai.choice":
            message = json_within(said.get("message")) or {}
            content = said.get("content", "") if isinstance(message, dict) else message
            message = message if isinstance(message, dict) else {}
            answered.append({"role": "assistant", "content": content, **message})
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            message = {
                key: json_within(value) for key, value in said.items() if "gen_ai" not in key
            }
            given.append({"role": name.split(".")[1], "content": "", **message})
            if "id" in message and given[-1]["role"] == "tool":
                given[-1]["tool_call_id"] = message["id"]
    return given or None, answered or None


def _otel_spans(record: Any) -> tuple[list[Any], list[Any]]:
    """The spans of an export: OTLP, Jaeger, or an object of lists of spans."""
    if not isinstance(record, dict):
        return [], []
    if isinstance(record.get("resourceLogs"), list):
        return _spans_of_logs(record["resourceLogs"])
    spans: list[Any] = []
    said: list[Any] = []
    outer = record.get("resourceSpans", record.get("batches"))
    for resource in _objects(outer):
        scopes = _first(resource, "scopeSpans", "instrumentationLibrarySpans", "scope_spans")
        for scope in _objects(scopes):
            spans += _objects(scope.get("spans"))
        about = {key: resource[key] for key in resource if key == "resource"}
        said += [about] if about else []
    if outer is not None:
        return spans, said
    if isinstance(record.get("spans"), list) and ("traceID" in record or "trace_id" in record):
        return record["spans"], [{key: record[key] for key in record if key != "spans"}]
    if record and all(_is_spans(value) for value in record.values()):
        return [span for value in record.values() for span in value], []
    return [record], []


def _spans_of_logs(resources: list[Any]) -> tuple[list[Any], list[Any]]:
    """The log records of OTLP that are events of GenAI, as events of the spans that they name."""
    spans: dict[tuple[str, str], dict[str, Any]] = {}
    others: list[Any] = []
    for resource in _objects(resources):
        others += [{"resource": resource["resource"]}] if "resource" in resource else []
        for scope in _objects(resource.get("scopeLogs")):
            for log in _objects(scope.get("logRecords")):
                said = _pairs(log.get("attributes"))
                name = _text(log.get("eventName") or said.get("event.name"))
                if not name.startswith("gen_ai."):
                    others.append(log)
                    continue
                body = json_within(_plain(log.get("body")))
                body = body if isinstance(body, dict) else {"content": body} if body else {}
                trace, key = _text(log.get("traceId")), _text(log.get("spanId"))
                start = _first(log, "timeUnixNano", "observedTimeUnixNano")
                span = spans.setdefault(
                    (trace, key or (trace and "log") or _fingerprint(log)),
                    {"spanId": key or "log", "traceId": trace, "startTimeUnixNano": start},
                )
                span["attributes"] = {"gen_ai.operation.name": "chat", **span.get("attributes", {})}
                span["attributes"] |= {one: said[one] for one in said if one.startswith("gen_ai.")}
                span.setdefault("events", []).append({"name": name, "attributes": {**said, **body}})
    return list(spans.values()), others


def _with_logs_together(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields records with log records of OTLP as one, since a collector writes the events of a span in several."""
    logs: list[Frame] = []
    for frame in frames:
        value = frame.value
        if isinstance(value, dict) and isinstance(value.get("resourceLogs"), list):
            logs.append(frame)
        else:
            yield frame
    if len(logs) > 1:
        together = {"resourceLogs": [one for frame in logs for one in frame.value["resourceLogs"]]}
        yield logs[0]._replace(raw=b"\n".join(frame.raw for frame in logs), value=together)
    else:
        yield from logs


def _is_spans(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and "attributes" in value[0]
        and _otel(value[0]) is not None
    )


# MLflow


def _mlflow(record: Any) -> Span | None:
    if not isinstance(record, dict) or "mlflow.trace" not in record:
        return None
    info = _object(record["mlflow.trace"])
    attributes = {
        key: json_within(value) for key, value in _object(record.get("attributes")).items()
    }
    context = _object(record.get("context"))
    kind = _text(attributes.get("mlflow.spanType"))
    given = record.get("inputs") or attributes.get("mlflow.spanInputs")
    start = time_text(_first(record, "start_time_unix_nano", "start_time_ns", "start_time"))
    usage = attributes.get("mlflow.chat.tokenUsage")
    return Span(
        _text(_first(info, "trace_id", "request_id")),
        _text(_first(record, "span_id") or context.get("span_id")),
        _text(_first(record, "parent_span_id", "parent_id")),
        _text(info.get("session")),
        "model" if kind in ("CHAT_MODEL", "LLM") else "tool" if kind == "TOOL" else "other",
        _text(record.get("name")),
        start,
        given,
        record.get("outputs") or attributes.get("mlflow.spanOutputs"),
        _facts(start, attributes.get("mlflow.llm.model"), usage),
    )


def _mlflow_spans(record: Any) -> tuple[list[Any], list[Any]]:
    """The spans of a trace; each is told the trace and the session, which it does not name itself."""
    data = _object(_object(record).get("data"))
    info = _object(_object(record).get("info"))
    flat = _object(record)
    if isinstance(flat.get("spans"), list) and _first(flat, "trace_id", "request_id"):  # a table
        data, info = flat, {key: flat[key] for key in flat if key != "spans"}
        if not any(
            "mlflow.spanType" in _object(one.get("attributes")) for one in _objects(flat["spans"])
        ):
            return [record], []
    if not info or not isinstance(data.get("spans"), list):
        return [record], []
    metadata = _object(_first(info, "trace_metadata", "request_metadata"))
    own = {
        "trace_id": _first(info, "trace_id", "request_id"),
        "session": _first(metadata, "mlflow.trace.session"),
    }
    spans = [{**span, "mlflow.trace": own} for span in data["spans"] if isinstance(span, dict)]
    return spans, [{**info, "id": own["trace_id"]}]


# Weights & Biases Weave


_MODEL_CALLS = (
    *("chat.completions", "completions.create", "messages.create", "messages.stream", "chat"),
    *("generate_content", "responses.create", "litellm.completion", "converse"),
)


def _weave(call: Any) -> Span | None:
    if not isinstance(call, dict) or not isinstance(call.get("op_name"), str):
        return None
    if "trace_id" not in call or "inputs" not in call:
        return None
    name = call["op_name"].rpartition("/")[2].partition(":")[0]
    attributes = _object(call.get("attributes"))
    start = time_text(call.get("started_at"))
    inputs = _object(call["inputs"])
    tool = "tool" in name.lower() or attributes.get("kind") == "tool"
    model = name.endswith(_MODEL_CALLS) or "messages" in inputs
    return Span(
        _text(call["trace_id"]),
        _text(call.get("id")),
        _text(call.get("parent_id")),
        _text(_first(call, "thread_id") or _first(attributes, *_SESSION_KEYS)),
        "model" if model else "tool" if tool else "other",
        name,
        start,
        inputs,
        call.get("output"),
        _facts(start, inputs.get("model"), _object(call.get("summary")).get("usage")),
    )


# Gateways: a record is one request with its answer


def _helicone(record: Any) -> Span | None:
    flat = isinstance(record, dict) and "request_body" in record and "response_body" in record
    if not flat and not (
        isinstance(record, dict) and {"request", "response", "provider"} <= record.keys()
    ):
        return None
    key = _text(_first(record, "request_id", "id", "helicone_request_id"))
    given = json_within(
        _first(record, "request_body") or _object(record.get("request")).get("body")
    )
    answered = json_within(
        _first(record, "response_body") or _object(record.get("response")).get("body")
    )
    if not isinstance(given, dict) or not (flat or key):
        return None
    said = _object(_first(record, "request_properties", "properties"))
    start = time_text(_first(record, "request_created_at", "created_at"))
    model = _first(record, "request_model", "response_model", "model") or given.get("model")
    session = _first(said, "Helicone-Session-Id", "helicone-session-id", *_SESSION_KEYS)
    return Span(
        key,
        key,
        "",
        _text(session),
        "model",
        "",
        start,
        given,
        answered,
        _facts(start, model, None),
    )


def _openpipe(record: Any) -> Span | None:
    if not isinstance(record, dict):
        return None
    given = json_within(_first(record, "reqPayload", "req_payload"))
    if not isinstance(given, dict):
        return None
    key = _text(_first(record, "id")) or _text(_object(record.get("respPayload")).get("id"))
    start = time_text(_first(record, "requestedAt", "requested_at", "startTime"))
    said = _object(_first(record, "metadata", "tags"))
    session = _text(_first(said, *_SESSION_KEYS))
    answered = _first(record, "respPayload", "resp_payload")
    facts = _facts(start, given.get("model"), None)
    return Span(key or start, key, "", session, "model", "", start, given, answered, facts)


def _reader(
    name: str,
    title: str,
    sample: str,
    read: SpanReader,
    explode: Exploder = _alone,
    conditions: int = 4,
) -> Reader:
    def recognise(record: Any) -> str | None:
        if not isinstance(record, dict):
            return None
        spans, _ = explode(record)
        if any(read(span) is not None for span in spans[:_LOOKED_AT]):
            return f"the records are {title}"
        return None

    return Reader(
        name,
        recognise,
        lambda record, fallback_id, _: draft_of_spans(read, record, fallback_id),
        arrange=lambda frames, _: arrange_spans(read, explode, _with_logs_together(frames)),
        conditions=conditions,
        title=title,
        sample=sample,
    )


_LOOKED_AT = 5
"""Spans of an object that are looked at to recognise it."""

TRACES: tuple[Reader, ...] = (
    _reader(
        "langsmith", "runs of LangSmith", "made/langsmith_runs.jsonl", _langsmith, _langsmith_runs
    ),
    _reader(
        "langfuse",
        "traces or observations of Langfuse",
        "langfuse/openai-agents-2025-09-30.trace.json",
        _langfuse,
        _langfuse_spans,
    ),
    _reader("mlflow", "traces of MLflow", "made/mlflow_trace.json", _mlflow, _mlflow_spans),
    _reader("weave", "calls of Weights & Biases Weave", "", _weave),
    _reader("helicone", "requests of Helicone", "", _helicone),
    _reader("openpipe", "requests of OpenPipe", "", _openpipe),
    _reader(
        "opentelemetry",
        "spans of OpenTelemetry (GenAI, OpenInference, OpenLLMetry)",
        "phoenix/pxi_turn_trace.json",
        _otel,
        _otel_spans,
        conditions=3,
    ),
)
