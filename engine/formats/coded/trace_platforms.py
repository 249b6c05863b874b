"""Readers of traces: how a record of each platform is read as spans. OpenTelemetry has a module of its own.

For each platform, `_NAME_span` reads one record as a span. Where records hold several, `_NAME_spans` takes the spans
out and returns what else the record says of their traces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.formats.coded import opentelemetry
from engine.formats.coded.spans import (
    SESSION_KEYS,
    Span,
    SpanFinder,
    SpanKind,
    SpanReader,
    SpansOfRecord,
    arrange_spans,
    as_text,
    draft_of_spans,
    facts_of,
    time_text,
)
from engine.formats.json_values import first_filled, list_or_empty, objects_in, without_keys
from engine.formats.paths import json_within, object_in
from engine.formats.records import Reader

_OBSERVATION_TYPES = frozenset((
    "GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL",
))  # fmt: skip
"""Types of observations of Langfuse."""

_LANGSMITH_KINDS: dict[str, SpanKind] = {"llm": "model", "chat_model": "model", "tool": "tool"}
"""Type of a run of LangSmith -> what the span does; any other type is `other`."""
_LANGFUSE_KINDS: dict[str, SpanKind] = {"GENERATION": "model", "TOOL": "tool"}
"""Type of an observation of Langfuse -> what the span does; any other type is `other`."""
_MLFLOW_KINDS: dict[str, SpanKind] = {"CHAT_MODEL": "model", "LLM": "model", "TOOL": "tool"}
"""Type of a span of MLflow -> what the span does; any other type is `other`."""

_MODEL_CALLS = (
    *("chat.completions", "completions.create", "messages.create", "messages.stream", "chat"),
    *("generate_content", "responses.create", "litellm.completion", "converse"),
)
"""Ends of the names of functions that call a model."""

_SPANS_LOOKED_AT = 5
"""Number of spans of a record by which it is recognized."""


def _langsmith_span(run: Any) -> Span | None:
    """Returns a run as a span; None if the record is no run of LangSmith."""
    if not isinstance(run, dict) or not isinstance(run.get("run_type"), str) or "id" not in run:
        return None
    metadata = object_in(object_in(run.get("extra")).get("metadata"))
    start = time_text(run.get("start_time"))
    usage = first_filled(object_in(run.get("outputs")), "usage_metadata")
    return Span(
        trace=as_text(first_filled(run, "trace_id", "id")),
        key=as_text(run["id"]),
        parent=as_text(run.get("parent_run_id")),
        session=as_text(first_filled(run, "thread_id") or first_filled(metadata, *SESSION_KEYS)),
        kind=_LANGSMITH_KINDS.get(run["run_type"], "other"),
        name=as_text(run.get("name")),
        start=start,
        input=run.get("inputs"),
        output=run.get("outputs"),
        facts=facts_of(start, first_filled(metadata, "ls_model_name"), usage),
    )


def _langsmith_spans(record: Any) -> SpansOfRecord:
    """Returns the runs of a record: as the API takes them (created in `post`, updated in `patch`), or stored ones."""
    if not isinstance(record, dict) or not isinstance(record.get("post"), list):
        return SpansOfRecord(list(_with_children(record, None)))
    runs: dict[str, dict[str, Any]] = {}
    patch = record.get("patch")
    others: list[Any] = []
    for run in [*record["post"], *list_or_empty(patch)]:
        if isinstance(run, dict):
            stored_run = runs.setdefault(as_text(run.get("id")), {})
            stored_run.update({key: run[key] for key in run if run[key] not in (None, "", {}, [])})
        else:
            others.append(run)
    about = without_keys(record, "post", "patch")
    return SpansOfRecord([*runs.values(), *others], [about] if about else [])


def _with_children(run: Any, trace: Any) -> Iterator[Any]:
    """Yields a run and those within it, as the tree of a trace is exported, each with the id of the trace."""
    children = run.get("child_runs") if isinstance(run, dict) else None
    if not isinstance(run, dict) or not isinstance(children, list) or not (children or trace):
        yield run
        return
    trace = run.get("trace_id") or trace or run.get("id")
    yield {**without_keys(run, "child_runs"), "trace_id": trace}
    for child in children:
        if isinstance(child, dict):
            child = {"parent_run_id": run.get("id"), "child_runs": [], **child}
        yield from _with_children(child, trace)


def _langfuse_span(record: Any) -> Span | None:
    """Returns an observation or a trace as a span; None if the record is neither."""
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        return None
    kind = as_text(record.get("type"))
    trace = first_filled(record, "traceId", "trace_id")
    if (kind not in _OBSERVATION_TYPES or trace is None) and not _is_trace(record):
        return None
    start = time_text(first_filled(record, "startTime", "start_time", "timestamp"))
    model = first_filled(record, "model", "providedModelName", "provided_model_name")
    usage = first_filled(record, "usageDetails", "usage_details", "usage")
    metadata = object_in(record.get("metadata"))
    attributes = object_in(metadata.get("attributes"))  # of OpenTelemetry
    operation = attributes.get("gen_ai.operation.name")
    if operation in opentelemetry.AGENT_OPERATIONS:
        kind = "AGENT"
    elif operation == "execute_tool" or (kind == "SPAN" and opentelemetry.tool_name(attributes)):
        kind = "TOOL"
    session = first_filled(record, "sessionId", "session_id")
    session = session or first_filled(metadata, *SESSION_KEYS)
    return Span(
        trace=as_text(trace or record["id"]),
        key=record["id"] if trace else f"trace {record['id']}",
        parent=as_text(first_filled(record, "parentObservationId", "parent_observation_id")),
        session=as_text(session),
        kind=_LANGFUSE_KINDS.get(kind, "other"),
        name=as_text(opentelemetry.tool_name(attributes) or record.get("name")),
        start=start,
        input=record.get("input"),
        output=record.get("output"),
        facts=facts_of(start, model, usage) if kind == "GENERATION" else {},
        call_id=as_text(first_filled(attributes, *opentelemetry.CALL_IDS)),
    )


def _is_trace(record: dict[str, Any]) -> bool:
    """Returns whether a record is a trace of Langfuse itself, and not one of its steps."""
    return record.keys() >= {"id", "timestamp", "input", "output"} and bool(
        record.keys() & {"bookmarked", "sessionId", "session_id", "projectId", "project_id", "tags"}
    )


def _langfuse_spans(record: Any) -> SpansOfRecord:
    """Returns the observations of a trace, or of the traces of a session, and what else the record says. Any other
    record is taken as an observation itself."""
    if isinstance(record, dict) and isinstance(record.get("traces"), list):
        return _langfuse_session(record)
    if isinstance(record, dict) and isinstance(record.get("observations"), list):
        return _langfuse_trace(record)
    return SpansOfRecord([record])


def _langfuse_session(record: dict[str, Any]) -> SpansOfRecord:
    """Returns the observations of the traces of a session, and what else they and the session say."""
    all_spans: list[Any] = []
    all_statements: list[Any] = []
    for trace in record["traces"]:
        if isinstance(trace, dict):
            trace = {"sessionId": record.get("id"), **trace}
        spans, statements = _langfuse_spans(trace)
        all_spans += spans
        all_statements += statements
    return SpansOfRecord(all_spans, [*all_statements, without_keys(record, "traces")])


def _langfuse_trace(record: dict[str, Any]) -> SpansOfRecord:
    """Returns the observations of a trace, and what else the record says.

    A trace with `timestamp` is the outermost observation; of it only scores and corrections are returned beside them.
    """
    trace, others = record.get("trace"), without_keys(record, "observations", "trace")
    if not isinstance(trace, dict):
        trace, others = without_keys(record, "observations"), {}
    beside = [others] if others else []
    trace_id = trace.get("id")
    spans = [
        {**observation, "traceId": trace_id}
        if isinstance(observation, dict) and not first_filled(observation, "traceId", "trace_id")
        else observation
        for observation in record["observations"]
    ]
    keys = ("scores", "corrections")
    judgments = {key: trace[key] for key in keys if trace.get(key)}
    root = without_keys(trace, *keys, "observations")
    if "timestamp" in root:
        root = {"input": None, "output": None, "tags": [], **root}  # as `_is_trace` asks for
        judged = [{"id": trace_id, **judgments}] if judgments else []
        return SpansOfRecord([root, *spans], [*judged, *beside])
    return SpansOfRecord(spans, [{**root, **judgments}, *beside])


def _mlflow_span(record: Any) -> Span | None:
    """Returns a record of `_mlflow_spans` as a span; None for other records."""
    if not isinstance(record, dict) or "mlflow.trace" not in record:
        return None
    info = object_in(record["mlflow.trace"])
    attributes = {
        key: json_within(value) for key, value in object_in(record.get("attributes")).items()
    }
    context = object_in(record.get("context"))
    kind = as_text(attributes.get("mlflow.spanType"))
    start = time_text(first_filled(record, "start_time_unix_nano", "start_time_ns", "start_time"))
    usage = attributes.get("mlflow.chat.tokenUsage")
    return Span(
        trace=as_text(first_filled(info, "trace_id", "request_id")),
        key=as_text(first_filled(record, "span_id") or context.get("span_id")),
        parent=as_text(first_filled(record, "parent_span_id", "parent_id")),
        session=as_text(info.get("session")),
        kind=_MLFLOW_KINDS.get(kind, "other"),
        name=as_text(record.get("name")),
        start=start,
        input=record.get("inputs") or attributes.get("mlflow.spanInputs"),
        output=record.get("outputs") or attributes.get("mlflow.spanOutputs"),
        facts=facts_of(start, attributes.get("mlflow.llm.model"), usage),
    )


def _mlflow_spans(record: Any) -> SpansOfRecord:
    """Returns the spans of a trace, each with the ids of trace and session, which it does not have itself, and what the
    record says of the trace; the record itself for any other."""
    row = object_in(record)
    data, info = object_in(row.get("data")), object_in(row.get("info"))
    others = [without_keys(row, "data", "info"), without_keys(data, "spans")]
    has_own_spans = isinstance(row.get("spans"), list)
    if has_own_spans and first_filled(row, "trace_id", "request_id"):
        data, info, others = row, without_keys(row, "spans"), []
        all_attributes = [object_in(span.get("attributes")) for span in objects_in(row["spans"])]
        if not any("mlflow.spanType" in attributes for attributes in all_attributes):
            return SpansOfRecord([record])
    if not info or not isinstance(data.get("spans"), list):
        return SpansOfRecord([record])
    metadata = object_in(first_filled(info, "trace_metadata", "request_metadata"))
    trace_names = {
        "trace_id": first_filled(info, "trace_id", "request_id"),
        "session": first_filled(metadata, "mlflow.trace.session"),
    }
    spans = [
        {**span, "mlflow.trace": trace_names} if isinstance(span, dict) else span
        for span in data["spans"]
    ]
    about = {**info, "id": trace_names["trace_id"]}
    return SpansOfRecord(spans, [about, *filter(None, others)])


def _weave_span(call: Any) -> Span | None:
    """Returns a call as a span; None if the record is no call of Weave."""
    if not isinstance(call, dict) or not isinstance(call.get("op_name"), str):
        return None
    if "trace_id" not in call or "inputs" not in call:
        return None
    name = call["op_name"].rpartition("/")[2].partition(":")[0]
    attributes = object_in(call.get("attributes"))
    start = time_text(call.get("started_at"))
    inputs = object_in(call["inputs"])
    is_tool = "tool" in name.lower() or attributes.get("kind") == "tool"
    is_model = name.endswith(_MODEL_CALLS) or "messages" in inputs
    return Span(
        trace=as_text(call["trace_id"]),
        key=as_text(call.get("id")),
        parent=as_text(call.get("parent_id")),
        session=as_text(first_filled(call, "thread_id") or first_filled(attributes, *SESSION_KEYS)),
        kind="model" if is_model else "tool" if is_tool else "other",
        name=name,
        start=start,
        input=inputs,
        output=call.get("output"),
        facts=facts_of(start, inputs.get("model"), object_in(call.get("summary")).get("usage")),
    )


def _helicone_span(record: Any) -> Span | None:
    """Returns a request of Helicone as a span; None if the record is no such request."""
    if not isinstance(record, dict):
        return None
    is_flat = record.keys() >= {"request_body", "response_body"}
    if not is_flat and not record.keys() >= {"request", "response", "provider"}:
        return None
    key = as_text(first_filled(record, "request_id", "id", "helicone_request_id"))
    request = json_within(
        first_filled(record, "request_body") or object_in(record.get("request")).get("body")
    )
    response = json_within(
        first_filled(record, "response_body") or object_in(record.get("response")).get("body")
    )
    if not isinstance(request, dict) or not (is_flat or key):
        return None
    properties = object_in(first_filled(record, "request_properties", "properties"))
    start = time_text(first_filled(record, "request_created_at", "created_at"))
    model = first_filled(record, "request_model", "response_model", "model") or request.get("model")
    session = first_filled(properties, "Helicone-Session-Id", "helicone-session-id", *SESSION_KEYS)
    return Span(
        trace=key,
        key=key,
        parent="",
        session=as_text(session),
        kind="model",
        name="",
        start=start,
        input=request,
        output=response,
        facts=facts_of(start, model, None),
    )


def _only_span(record: Any) -> SpansOfRecord:
    """Returns a record as its only span."""
    return SpansOfRecord([record])


def _reader(
    name: str,
    title: str,
    sample: str,
    read_span: SpanReader,
    find_spans: SpanFinder = _only_span,
    conditions: int = 4,
) -> Reader:
    """Returns the reader of a platform.

    Args:
        name, title, sample: See `Reader`.
        read_span: Reads one span.
        find_spans: Returns the spans within a record.
        conditions: See `Reader`; OpenTelemetry, whose spans platforms extend, asks less, so that these win.
    """

    def recognize(record: Any) -> str | None:
        """Returns in words why a record looks like this format; None if it does not."""
        if not isinstance(record, dict):
            return None
        spans, _ = find_spans(record)
        if any(read_span(span) is not None for span in spans[:_SPANS_LOOKED_AT]):
            return f"the records are {title}"
        return None

    return Reader(
        name,
        recognize,
        lambda record, fallback_id, _outer: draft_of_spans(read_span, record, fallback_id),
        arrange=lambda frames: arrange_spans(
            read_span, find_spans, opentelemetry.with_logs_together(frames)
        ),
        conditions=conditions,
        title=title,
        sample=sample,
    )


TRACES: tuple[Reader, ...] = (
    _reader(
        "langsmith",
        "runs of LangSmith",
        "made/langsmith_runs.jsonl",
        _langsmith_span,
        _langsmith_spans,
    ),
    _reader(
        "langfuse",
        "traces or observations of Langfuse",
        "langfuse/openai-agents-2025-09-30.trace.json",
        _langfuse_span,
        _langfuse_spans,
    ),
    _reader("mlflow", "traces of MLflow", "made/mlflow_trace.json", _mlflow_span, _mlflow_spans),
    _reader("weave", "calls of Weights & Biases Weave", "", _weave_span),
    _reader("helicone", "requests of Helicone", "", _helicone_span),
    _reader(
        "opentelemetry",
        "spans of OpenTelemetry (GenAI, OpenInference, OpenLLMetry)",
        "phoenix/pxi_turn_trace.json",
        opentelemetry.span_of,
        opentelemetry.spans_of,
        conditions=3,
    ),
)
"""The readers of traces."""
