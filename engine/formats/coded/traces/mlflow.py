"""Traces of MLflow."""

from __future__ import annotations

from typing import Any

from engine.formats.coded.traces.fields import as_text, facts_of, first, object_in
from engine.formats.coded.traces.spans import Span, time_text
from engine.formats.json_values import objects_in
from engine.formats.paths import json_within


def span_of(record: Any) -> Span | None:
    """A span of a trace that `spans_of` gave; None for other records."""
    if not isinstance(record, dict) or "mlflow.trace" not in record:
        return None
    info = object_in(record["mlflow.trace"])
    attributes = {
        key: json_within(value) for key, value in object_in(record.get("attributes")).items()
    }
    context = object_in(record.get("context"))
    kind = as_text(attributes.get("mlflow.spanType"))
    given = record.get("inputs") or attributes.get("mlflow.spanInputs")
    start = time_text(first(record, "start_time_unix_nano", "start_time_ns", "start_time"))
    usage = attributes.get("mlflow.chat.tokenUsage")
    return Span(
        as_text(first(info, "trace_id", "request_id")),
        as_text(first(record, "span_id") or context.get("span_id")),
        as_text(first(record, "parent_span_id", "parent_id")),
        as_text(info.get("session")),
        "model" if kind in ("CHAT_MODEL", "LLM") else "tool" if kind == "TOOL" else "other",
        as_text(record.get("name")),
        start,
        given,
        record.get("outputs") or attributes.get("mlflow.spanOutputs"),
        facts_of(start, attributes.get("mlflow.llm.model"), usage),
    )


def spans_of(record: Any) -> tuple[list[Any], list[Any]]:
    """The spans of a trace; each is told the trace and the session, which it does not name itself."""
    data = object_in(object_in(record).get("data"))
    info = object_in(object_in(record).get("info"))
    flat = object_in(record)
    if isinstance(flat.get("spans"), list) and first(flat, "trace_id", "request_id"):  # a table
        data, info = flat, {key: flat[key] for key in flat if key != "spans"}
        if not any(
            "mlflow.spanType" in object_in(one.get("attributes"))
            for one in objects_in(flat["spans"])
        ):
            return [record], []
    if not info or not isinstance(data.get("spans"), list):
        return [record], []
    metadata = object_in(first(info, "trace_metadata", "request_metadata"))
    own = {
        "trace_id": first(info, "trace_id", "request_id"),
        "session": first(metadata, "mlflow.trace.session"),
    }
    spans = [{**span, "mlflow.trace": own} for span in data["spans"] if isinstance(span, dict)]
    return spans, [{**info, "id": own["trace_id"]}]
