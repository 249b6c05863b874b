"""Remaining tasks in the same reading as the scores.

A tuned model goes on with the bare log: the answer that means that something remains begins at the last boundary, where
scoring has just read it. So logs whose score is below the threshold are not dropped from the cache but written on,
a few at a time: every decode attends over all tokens that are held, its own or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.completeness.scoring import BoundaryLogProbs
from engine.model.generation import LIVE_CELLS, GenerativeModel, Reply, Task, write
from engine.model.interface import Sampling
from engine.model.prompt_files import Prompt


@dataclass(frozen=True, slots=True)
class RemainingRequest:
    """What is to be written after which logs.

    Attributes:
        prompt: What stands around the log.
        below: Logs with a normalised `p_end` at the last boundary under this.
    """

    prompt: Prompt
    below: float


@dataclass(slots=True)
class InlineWriter:
    """Holds logs that are read and below the threshold, and writes on after them; a `scoring.Keeper`."""

    model: GenerativeModel
    request: RemainingRequest
    tail: list[int]
    replies: dict[int, Reply] = field(default_factory=dict)
    _offered: dict[int, list[int]] = field(default_factory=dict)
    _held: dict[int, Task] = field(default_factory=dict)

    def offer(self, segment: int, log: list[int]) -> None:
        """Names a segment that begins a log which fits the context, and gives that log with what stands before it."""
        prompt = [*log, *self.tail]
        if len(prompt) + self.request.prompt.max_tokens <= self.model.capacity.context:
            self._offered[segment] = prompt

    def growth(self, segment: int, decoded: int) -> int:
        """What is left of the log, what stands after it, and the longest reply."""
        prompt = self._offered.get(segment)
        return 0 if prompt is None else len(prompt) - decoded + self.request.prompt.max_tokens

    def keeps(self, segment: int, last: BoundaryLogProbs, tokens: list[int], sequence: int) -> bool:
        """Takes over a sequence that holds exactly these tokens, if its log is to be written on."""
        prompt = self._offered.get(segment)
        decoded = len(tokens)
        if prompt is None or decoded >= len(prompt) or prompt[:decoded] != tokens:
            return False
        end, other = math.exp(last.log_end), math.exp(last.log_continue)
        if end / (end + other) >= self.request.below:
            return False
        asked = self.request.prompt
        self._held[segment] = Task(
            prompt,
            Sampling(),
            asked.max_tokens,
            asked.stop,
            sequence=sequence,
            decoded=decoded,
        )
        return True

    @property
    def full(self) -> bool:
        """Whether holding more costs more than writing a few side by side gains."""
        cells = sum(task.need for task in self._held.values())
        return cells >= LIVE_CELLS or len(self._held) >= self.model.capacity.sequences // 4

    def write(self, progress: Callable[[int], None] | None) -> list[int]:
        """Writes on after every log that is held; returns their sequences, empty again.

        Raises:
            Cancelled: The request was cancelled.
        """
        tasks = list(self._held.values())

        def tell(_: int) -> None:
            if progress:
                progress(0)

        replies = write(self.model, tasks, (), tell) if tasks else []
        self.replies.update(zip(self._held, replies, strict=True))
        self._held = {}
        return [task.sequence for task in tasks if task.sequence is not None]
