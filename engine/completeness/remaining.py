"""Turns a generated reply into a list of remaining tasks."""

from __future__ import annotations

from engine.base.conversation import STEP_OPENING
from engine.model.prompt_files import Prompt

MOST_TASKS = 8


def remaining_tasks(prompt: Prompt, reply: str, *, cut: bool) -> tuple[str, str | None]:
    """The remaining tasks in a generated reply.

    Args:
        reply: Text that the model wrote after `prompt.reply`.
        cut: Whether the reply reached the length limit, so that its last line may be unfinished.

    Returns:
        The tasks, one per line, and None; or an empty text and the reason why there are none.
    """
    if not _has_words(reply):
        return "", "the model named no remaining task"
    # An adapter that learned only whether a conversation continues writes the header of the next step and no content.
    if prompt.reply.endswith(STEP_OPENING) and not _has_words(reply.partition(":")[2]):
        return "", "the model expects another step and names no task"
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
    return "\n".join(lines[:MOST_TASKS]), None


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))
