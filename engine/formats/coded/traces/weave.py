"""Calls of Weights & Biases Weave."""

from __future__ import annotations

from typing import Any

from engine.formats.coded.traces.fields import SESSION_KEYS, as_text, facts_of, first, object_in
from engine.formats.coded.traces.spans import Span, time_text

_MODEL_CALLS = (
    *("chat.completions", "completions.create", "messages.create", "messages.stream", "chat"),
    *("generate_content", "responses.create", "litellm.completion", "converse"),
)


def span_of(call: Any) -> Span | None:
    """A call as a span; None if the record is none."""
    if not isinstance(call, dict) or not isinstance(call.get("op_name"), str):
        return None
    if "trace_id" not in call or "inputs" not in call:
        return None
    name = call["op_name"].rpartition("/")[2].partition(":")[0]
    attributes = object_in(call.get("attributes"))
    start = time_text(call.get("started_at"))
    inputs = object_in(call["inputs"])
    tool = "tool" in name.lower() or attributes.get("kind") == "tool"
    model = name.endswith(_MODEL_CALLS) or "messages" in inputs
    return Span(
        as_text(call["trace_id"]),
        as_text(call.get("id")),
        as_text(call.get("parent_id")),
        as_text(first(call, "thread_id") or first(attributes, *SESSION_KEYS)),
        "model" if model else "tool" if tool else "other",
        name,
        start,
        inputs,
        call.get("output"),
        facts_of(start, inputs.get("model"), object_in(call.get("summary")).get("usage")),
    )
