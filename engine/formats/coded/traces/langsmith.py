"""Runs of LangSmith."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.formats.coded.traces.fields import SESSION_KEYS, as_text, facts_of, first, object_in
from engine.formats.coded.traces.spans import Span, time_text
from engine.formats.json_values import list_or_empty, objects_in


def span_of(run: Any) -> Span | None:
    """A run as a span; None if the record is none."""
    if not isinstance(run, dict) or not isinstance(run.get("run_type"), str) or "id" not in run:
        return None
    kind = run["run_type"]
    metadata = object_in(object_in(run.get("extra")).get("metadata"))
    start = time_text(run.get("start_time"))
    usage = first(object_in(run.get("outputs")), "usage_metadata")
    return Span(
        as_text(first(run, "trace_id", "id")),
        as_text(run["id"]),
        as_text(run.get("parent_run_id")),
        as_text(first(run, "thread_id") or first(metadata, *SESSION_KEYS)),
        "model" if kind in ("llm", "chat_model") else "tool" if kind == "tool" else "other",
        as_text(run.get("name")),
        start,
        run.get("inputs"),
        run.get("outputs"),
        facts_of(start, first(metadata, "ls_model_name"), usage),
    )


def spans_of(record: Any) -> tuple[list[Any], list[Any]]:
    """Runs as the API takes them, created and then updated, or as they are stored."""
    if not isinstance(record, dict) or not isinstance(record.get("post"), list):
        return list(_with_children(record, None)), []
    runs: dict[str, dict[str, Any]] = {}
    patch = record.get("patch")
    for run in [*record["post"], *list_or_empty(patch)]:
        if isinstance(run, dict):
            known = runs.setdefault(as_text(run.get("id")), {})
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
    for child in objects_in(children):
        yield from _with_children(
            {"parent_run_id": run.get("id"), "child_runs": [], **child}, trace
        )
