"""Gateways: a record is one request with its answer."""

from __future__ import annotations

from typing import Any

from engine.formats.coded.traces.fields import SESSION_KEYS, as_text, facts_of, first, object_in
from engine.formats.coded.traces.spans import Span, time_text
from engine.formats.paths import json_within


def helicone(record: Any) -> Span | None:
    """A request of Helicone as a span; None if the record is none."""
    flat = isinstance(record, dict) and "request_body" in record and "response_body" in record
    if not flat and not (
        isinstance(record, dict) and {"request", "response", "provider"} <= record.keys()
    ):
        return None
    key = as_text(first(record, "request_id", "id", "helicone_request_id"))
    given = json_within(
        first(record, "request_body") or object_in(record.get("request")).get("body")
    )
    answered = json_within(
        first(record, "response_body") or object_in(record.get("response")).get("body")
    )
    if not isinstance(given, dict) or not (flat or key):
        return None
    said = object_in(first(record, "request_properties", "properties"))
    start = time_text(first(record, "request_created_at", "created_at"))
    model = first(record, "request_model", "response_model", "model") or given.get("model")
    session = first(said, "Helicone-Session-Id", "helicone-session-id", *SESSION_KEYS)
    return Span(
        key,
        key,
        "",
        as_text(session),
        "model",
        "",
        start,
        given,
        answered,
        facts_of(start, model, None),
    )


def openpipe(record: Any) -> Span | None:
    """A request of OpenPipe as a span; None if the record is none."""
    if not isinstance(record, dict):
        return None
    given = json_within(first(record, "reqPayload", "req_payload"))
    if not isinstance(given, dict):
        return None
    key = as_text(first(record, "id")) or as_text(object_in(record.get("respPayload")).get("id"))
    start = time_text(first(record, "requestedAt", "requested_at", "startTime"))
    said = object_in(first(record, "metadata", "tags"))
    session = as_text(first(said, *SESSION_KEYS))
    answered = first(record, "respPayload", "resp_payload")
    facts = facts_of(start, given.get("model"), None)
    return Span(key or start, key, "", session, "model", "", start, given, answered, facts)
