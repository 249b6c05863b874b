"""Writes remaining tasks in the same pass as the scores.

A tuned model continues the log itself: the answer that means that something remains begins at the last boundary, which
scoring has just decoded. So logs whose score is below the threshold stay in the cache and are continued, a few at a
time, because every decode attends to all tokens in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.completeness.readings import BoundaryLogProbs
from engine.model.generation import LIVE_CELLS, GenerativeModel, Reply, Task, write
from engine.model.interface import Sampling
from engine.model.prompt_files import Prompt


@dataclass(frozen=True, slots=True)
class RemainingRequest:
    """Remaining tasks to write after logs below a threshold.

    Attributes:
        prompt: Text around each log.
        below: Threshold on the normalised `p_end` at the last boundary.
    """

    prompt: Prompt
    below: float


@dataclass(slots=True)
class InlineWriter:
    """Keeps the sequences of logs below the threshold and continues them; a `scoring.SequenceRetainer`."""

    model: GenerativeModel
    request: RemainingRequest
    tail: list[int]
    replies: dict[int, Reply] = field(default_factory=dict)
    _offered: dict[int, list[int]] = field(default_factory=dict)
    _held: dict[int, Task] = field(default_factory=dict)

    def offer(self, segment: int, log: list[int]) -> None:
        """Registers a segment whose log fits the context, with the tokens of the log and of what precedes it."""
        prompt = [*log, *self.tail]
        if len(prompt) + self.request.prompt.max_tokens <= self.model.capacity.context:
            self._offered[segment] = prompt

    def growth(self, segment: int, decoded: int) -> int:
        """Cells for the rest of the log, the text after it, and the longest reply."""
        prompt = self._offered.get(segment)
        return 0 if prompt is None else len(prompt) - decoded + self.request.prompt.max_tokens

    def keeps(self, segment: int, last: BoundaryLogProbs, tokens: list[int], sequence: int) -> bool:
        """Keeps a sequence that holds exactly these tokens if its score is below the threshold."""
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
        """Whether keeping more sequences would slow decoding down more than a larger batch gains."""
        cells = sum(task.need for task in self._held.values())
        return cells >= LIVE_CELLS or len(self._held) >= self.model.capacity.sequences // 4

    def write(self, progress: Callable[[int], None] | None) -> list[int]:
        """Continues every log that is kept; returns their sequences, which are empty again.

        Raises:
            Cancelled: The request was cancelled.
        """
        tasks = list(self._held.values())

        def report(_: int) -> None:
            if progress:
                progress(0)

        replies = write(self.model, tasks, (), report) if tasks else []
        self.replies.update(zip(self._held, replies, strict=True))
        self._held = {}
        return [task.sequence for task in tasks if task.sequence is not None]
