"""What is left to do, as a model spelled it out."""

from __future__ import annotations

from engine.conversation import STEP_OPENING
from engine.model.prompt_files import Prompt

MOST_TASKS = 8


def remaining_tasks(prompt: Prompt, reply: str, *, cut: bool) -> tuple[str, str | None]:
    """Tidies a generated reply.

    Args:
        reply: What the model wrote after the prompt's own beginning of the reply.
        cut: The reply ran into the length limit, so its last line may be unfinished.

    Returns:
        The tasks, one a line, and None; or an empty text and the reason why there are none.
    """
    if not _has_words(reply):
        return "", "the model named no remaining task"
    # Nothing but its header is written of a step by an adapter that learned only whether conversations go on.
    if prompt.reply.endswith(STEP_OPENING) and not _has_words(reply.partition(":")[2]):
        return "", "the model goes on with another step, and does not say what is in it"
    # The last line of the prompt's beginning belongs to what the model wrote: a list bullet, words, or a step header.
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
