"""The readers of traces, one for each tool."""

from __future__ import annotations

from typing import Any

from engine.formats.coded.traces import gateways, langfuse, langsmith, mlflow, opentelemetry, weave
from engine.formats.coded.traces.spans import Exploder, SpanReader, arrange_spans, draft_of_spans
from engine.formats.reader import Reader

_LOOKED_AT = 5
"""Spans of an object that are looked at to recognise it."""


def _alone(record: Any) -> tuple[list[Any], list[Any]]:
    return [record], []


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
        arrange=lambda frames, _: arrange_spans(
            read, explode, opentelemetry.with_logs_together(frames)
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
        langsmith.span_of,
        langsmith.spans_of,
    ),
    _reader(
        "langfuse",
        "traces or observations of Langfuse",
        "langfuse/openai-agents-2025-09-30.trace.json",
        langfuse.span_of,
        langfuse.spans_of,
    ),
    _reader(
        "mlflow", "traces of MLflow", "made/mlflow_trace.json", mlflow.span_of, mlflow.spans_of
    ),
    _reader("weave", "calls of Weights & Biases Weave", "", weave.span_of),
    _reader("helicone", "requests of Helicone", "", gateways.helicone),
    _reader("openpipe", "requests of OpenPipe", "", gateways.openpipe),
    _reader(
        "opentelemetry",
        "spans of OpenTelemetry (GenAI, OpenInference, OpenLLMetry)",
        "phoenix/pxi_turn_trace.json",
        opentelemetry.span_of,
        opentelemetry.spans_of,
        conditions=3,
    ),
)
