"""Extracts the answer from a reply with a model; the answer must occur in the reply word for word."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import Any

from engine.model.chat import Call, ChatMessage, Completion
from engine.model.prompt_texts import filled
from engine.model.asking import TRIES, ask_json, object_schema
from engine.simulate.sharded.task import Task

_ELLIPSIS = re.compile(r"\[\s*(?:\.\.\.|…)\s*\]|\.\.\.|…")
_SCHEMA = object_schema(answer={"type": "string"})
_LONGEST = {"gen": 60, "prefix_suffix": 160}
"""Tokens of a reply that copies an answer of less than ten words, and of one that gives start and end of it."""


def extracted(
    task: Task, reply: str, texts: Mapping[str, str], seed: int
) -> Generator[Call, Completion, str]:
    """Returns the answer in a reply by the task's strategy; "" if three attempts find none."""
    if task.extraction == "full_response":
        return reply
    if task.extraction == "task_specific":
        return task.extract(reply)
    spans = task.extraction == "prefix_suffix"
    prompt = filled(
        texts["extract"],
        {"ANSWER_DESCRIPTION": task.answer_description, "CONVERSATION_SO_FAR": reply},
    )
    call = Call(
        "extract",
        "judge",
        (ChatMessage("user", prompt),),
        max_tokens=_LONGEST[task.extraction],
        seed=seed,
    )

    def accept(found: Mapping[str, Any]) -> str | None:
        answer = found.get("answer")
        return located(answer, reply, spans=spans) if isinstance(answer, str) else None

    answer = yield from ask_json(call, _SCHEMA, accept, TRIES)
    return answer or ""


def located(answer: str, reply: str, *, spans: bool) -> str | None:
    """Returns the part of the reply that an extracted answer quotes; None if the reply does not contain it.

    Args:
        spans: Whether `start [...] end` quotes everything from the start to the last occurrence of the end after it.
    """
    answer = answer.strip()
    if not answer:
        return None
    if answer in reply:
        return answer
    marks = list(_ELLIPSIS.finditer(answer)) if spans else []
    if not marks:
        return None
    start, end = answer[: marks[0].start()].strip(), answer[marks[-1].end() :].strip()
    if not start or not end:
        return None
    first = reply.find(start)
    last = reply.rfind(end)
    if first < 0 or last < first + len(start):
        return None
    return reply[first : last + len(end)]
