"""Traces and observations of Langfuse."""

from __future__ import annotations

from typing import Any

from engine.formats.coded.traces.fields import as_text, facts_of, first
from engine.formats.coded.traces.spans import Span, time_text

_TYPES = frozenset(
    (
        *("GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR"),
        *("EMBEDDING", "GUARDRAIL"),
    )
)


def span_of(record: Any) -> Span | None:
    """An observation or a trace as a span; None if the record is neither."""
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        return None
    kind = as_text(record.get("type"))
    trace = first(record, "traceId", "trace_id")
    if (kind not in _TYPES or trace is None) and not _is_trace(record):
        return None
    start = time_text(first(record, "startTime", "start_time", "timestamp"))
    model = first(record, "model", "providedModelName", "provided_model_name")
    usage = first(record, "usageDetails", "usage_details", "usage")
    return Span(
        as_text(trace or record["id"]),
        record["id"] if trace else f"trace {record['id']}",
        as_text(first(record, "parentObservationId", "parent_observation_id")),
        as_text(first(record, "sessionId", "session_id")),
        "model" if kind == "GENERATION" else "tool" if kind == "TOOL" else "other",
        as_text(record.get("name")),
        start,
        record.get("input"),
        record.get("output"),
        facts_of(start, model, usage) if kind == "GENERATION" else {},
    )


def _is_trace(record: dict[str, Any]) -> bool:
    return record.keys() >= {"id", "timestamp", "input", "output"} and bool(
        record.keys() & {"bookmarked", "sessionId", "session_id", "projectId", "project_id", "tags"}
    )


def spans_of(record: Any) -> tuple[list[Any], list[Any]]:
    """Observations of a trace or of the traces of a session, and the traces without them."""
    if not isinstance(record, dict):
        return [], []
    if isinstance(record.get("traces"), list):
        found: tuple[list[Any], list[Any]] = ([], [])
        rest = {key: value for key, value in record.items() if key != "traces"}
        for trace in record["traces"]:
            session = {"sessionId": record.get("id")} if isinstance(trace, dict) else {}
            spans, said = spans_of({**session, **trace} if session else trace)
            found = ([*found[0], *spans], [*found[1], *said])
        return found[0], [*found[1], rest]
    if not isinstance(record.get("observations"), list):
        return [record], []
    trace = record.get("trace")
    if not isinstance(trace, dict):
        trace = {key: value for key, value in record.items() if key != "observations"}
    spans = [one for one in record["observations"] if isinstance(one, dict)]
    own = trace.get("id")
    spans = [one if first(one, "traceId", "trace_id") else {**one, "traceId": own} for one in spans]
    keys = ("scores", "corrections")
    judged = {key: trace[key] for key in keys if trace.get(key)}
    root = {key: value for key, value in trace.items() if key not in (*keys, "observations")}
    if "timestamp" in root:  # the trace itself is its outermost step
        root = {"input": None, "output": None, "tags": [], **root}
        return [root, *spans], [{"id": own, **judged}] if judged else []
    return spans, [{**root, **judged}]
