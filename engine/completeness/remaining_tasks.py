"""Remaining tasks: written in the same pass as the scores, and read from a generated reply."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from engine.base.conversation import STEP_OPENING
from engine.completeness.boundaries import BoundaryReading
from engine.completeness.records import NO_OPEN_REQUEST, NO_TASK, NO_TASK_BUT_A_STEP
from engine.model.generation import LIVE_CELLS, GenerativeModel, Reply, Task, write
from engine.model.interface import Sampling
from engine.model.prompt_files import Prompt

MAX_TASKS_PER_CONVERSATION = 8
"""Largest number of remaining tasks that are taken from one reply."""


@dataclass(frozen=True, slots=True)
class RemainingRequest:
    """Remaining tasks to write after logs below a threshold.

    Attributes:
        prompt: Text around each log.
        below: Threshold on the normalized `p_end` at the last boundary.
    """

    prompt: Prompt
    below: float


@dataclass(slots=True)
class InlineWriter:
    """Retains the sequences of logs below the threshold, which would be dropped once decoded, and continues them.

    Attributes:
        model: The scorer's model.
        request: The remaining tasks to write.
        tail: Tokens after each log, before the reply.
        replies: Segment -> what was written after it.
    """

    model: GenerativeModel
    request: RemainingRequest
    tail: list[int]
    replies: dict[int, Reply] = field(default_factory=dict)
    _prompts: dict[int, list[int]] = field(default_factory=dict)
    _tasks: dict[int, Task] = field(default_factory=dict)

    def offer(self, segment: int, log: list[int]) -> None:
        """Registers a segment whose log fits the context, with the tokens of the log and of what precedes it."""
        prompt = [*log, *self.tail]
        if len(prompt) + self.request.prompt.max_tokens <= self.model.capacity.context:
            self._prompts[segment] = prompt

    def cells_to_continue(self, segment: int, decoded: int) -> int:
        """Returns the number of cells for the rest of the log, the text after it, and the longest reply.

        It is 0 for a segment that was not offered.
        """
        prompt = self._prompts.get(segment)
        return 0 if prompt is None else len(prompt) - decoded + self.request.prompt.max_tokens

    def retain(self, segment: int, last: BoundaryReading, tokens: list[int], sequence: int) -> bool:
        """Retains a sequence that holds exactly these tokens if its score is below the threshold; returns whether it
        did."""
        prompt = self._prompts.get(segment)
        decoded = len(tokens)
        if prompt is None or decoded >= len(prompt) or prompt[:decoded] != tokens:
            return False
        end, other = math.exp(last.log_end), math.exp(last.log_continue)
        if end / (end + other) >= self.request.below:
            return False
        reply_prompt = self.request.prompt
        self._tasks[segment] = Task(
            prompt,
            Sampling(),
            reply_prompt.max_tokens,
            reply_prompt.stop,
            sequence=sequence,
            decoded=decoded,
        )
        return True

    @property
    def is_full(self) -> bool:
        """Whether retaining more sequences would slow decoding down more than a larger batch gains."""
        cells = sum(task.reserved_cells for task in self._tasks.values())
        return cells >= LIVE_CELLS or len(self._tasks) >= self.model.capacity.sequences // 4

    def continue_sequences(self, progress: Callable[[int], None] | None) -> list[int]:
        """Continues every retained log, and returns the numbers of their sequences, which are empty again.

        Raises:
            Cancelled: The request was cancelled.
        """
        tasks = list(self._tasks.values())

        def report(_: int) -> None:
            if progress:
                progress(0)

        replies = write(self.model, tasks, (), report) if tasks else []
        self.replies.update(zip(self._tasks, replies, strict=True))
        self._tasks = {}
        return [task.sequence for task in tasks if task.sequence is not None]


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
    """What a model that follows instructions says is left to do."""

    open: Annotated[
        list[OpenRequest],
        msgspec.Meta(
            max_length=MAX_TASKS_PER_CONVERSATION,
            description="the open requests, an empty list if none is open",
        ),
    ]


def open_requests(reply: OpenRequests) -> tuple[str, str | None]:
    """Returns the open requests, one a line with its step, and None; or an empty text and the reason why there are
    none."""
    if not reply.open:
        return "", NO_OPEN_REQUEST
    lines = (f"{' '.join(request.request.split())} (step {request.step})" for request in reply.open)
    return "\n".join(dict.fromkeys(lines)), None


def remaining_tasks(prompt: Prompt, reply: str, *, cut: bool) -> tuple[str, str | None]:
    """Returns the remaining tasks in a generated reply, or the reason why there are none.

    Args:
        reply: Text that the model wrote after `prompt.reply`.
        cut: Whether the reply reached the length limit, so that its last line may be unfinished.

    Returns:
        The tasks, one per line, and None; or an empty text and the reason why there are none.
    """
    if not _has_words(reply):
        return "", NO_TASK
    # An adapter that learned only whether a conversation continues writes the header of the next step and no content.
    if prompt.reply.endswith(STEP_OPENING) and not _has_words(reply.partition(":")[2]):
        return "", NO_TASK_BUT_A_STEP
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
    return "\n".join(lines[:MAX_TASKS_PER_CONVERSATION]), None


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))
