"""Tasks that are written in the same way, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.generation import Task
from engine.model.interface import Sampling


def uniform_tasks(
    prompts: Sequence[Sequence[int]],
    *,
    sampling: Sampling,
    max_tokens: int,
    stop: Sequence[str] = (),
    seed: int = 0,
) -> list[Task]:
    """Returns a task for each prompt; reply i is sampled with `seed + i`."""
    return [
        Task(prompt, sampling, max_tokens, tuple(stop), seed + number)
        for number, prompt in enumerate(prompts)
    ]
