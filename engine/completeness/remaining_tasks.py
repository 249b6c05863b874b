"""Reads remaining tasks from the reply of a model: from its fields (`open_requests`), or from its lines
(`remaining_tasks`).

A model that follows instructions is asked for open requests in fields; another one goes on with a list after a prompt.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from engine.base.conversation import STEP_OPENING
from engine.completeness.records import NO_OPEN_REQUEST, NO_TASK, NO_TASK_BUT_A_STEP
from engine.model.prompt_files import Prompt

MAX_TASKS_PER_CONVERSATION = 8
"""Largest number of remaining tasks that are taken from one reply."""


class TasksOrReason(NamedTuple):
    """The remaining tasks of one conversation.

    Attributes:
        text: The tasks, one a line; empty where there are none.
        reason: Why there are none; None where there are some.
    """

    text: str
    reason: str | None


class OpenRequest(msgspec.Struct):
    """A request that is still open."""

    request: Annotated[
        str,
        msgspec.Meta(
            max_length=200, description="what is left to do, a verb first, in at most 20 words"
        ),
    ]
    step: Annotated[int, msgspec.Meta(ge=0, description="number of the STEP that asks for it")]


class OpenRequests(msgspec.Struct):
    """The reply of a model that follows instructions: what is left to do."""

    open: Annotated[
        list[OpenRequest],
        msgspec.Meta(
            max_length=MAX_TASKS_PER_CONVERSATION,
            description="the open requests, an empty list if none is open",
        ),
    ]


def open_requests(reply: OpenRequests) -> TasksOrReason:
    """Returns the open requests in a reply, one a line with its step."""
    if not reply.open:
        return TasksOrReason("", NO_OPEN_REQUEST)
    lines = (f"{' '.join(request.request.split())} (step {request.step})" for request in reply.open)
    return TasksOrReason("\n".join(dict.fromkeys(lines)), None)


def remaining_tasks(prompt: Prompt, reply: str, *, cut: bool) -> TasksOrReason:
    """Returns the remaining tasks in a generated reply.

    Args:
        reply: Text that the model wrote after `prompt.reply`.
        cut: Whether the reply reached the length limit, so that its last line may be unfinished.
    """
    if not _has_words(reply):
        return TasksOrReason("", NO_TASK)
    # An adapter that learned only whether a conversation continues writes the header of the next step and no content.
    if prompt.reply.endswith(STEP_OPENING) and not _has_words(reply.partition(":")[2]):
        return TasksOrReason("", NO_TASK_BUT_A_STEP)
    # The last line of `prompt.reply` is part of the first task: a list bullet, words, or a step header.
    opening = prompt.reply.rsplit("\n", 1)[-1]
    lines: list[str] = []
    for line in (opening + reply).splitlines():
        line = line.rstrip()
        if _has_words(line) and line not in lines:
            lines.append(line)
    if cut and len(lines) == 1:
        lines[0] += " …"
    elif cut:
        lines.pop()
    return TasksOrReason("\n".join(lines[:MAX_TASKS_PER_CONVERSATION]), None)


def _has_words(text: str) -> bool:
    """Returns whether a text has a letter or a digit."""
    return any(map(str.isalnum, text))
