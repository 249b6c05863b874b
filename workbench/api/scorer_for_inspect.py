"""A scorer for Inspect (inspect_ai), which must be installed: how complete the conversation of a sample is."""

from __future__ import annotations

from functools import partial

import anyio.to_thread
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from engine.completeness.records import Mode
from workbench.api.messages import score


@scorer(metrics=[mean(), stderr()])
def inspect_scorer(
    adapter: str | None = None, model: str | None = None, mode: Mode | None = None
) -> Scorer:
    """Scores each sample by the probability that its conversation is complete, from 0 to 1; the explanation says what
    measured it. A conversation without an honest number is unscored in Inspect too, with the reason.

    Args:
        adapter, model, mode: As in `workbench.score`.
    """

    async def completeness(state: TaskState, target: Target) -> Score:
        """Scores the messages of a sample, in a thread: it takes seconds."""
        messages = [message.model_dump(exclude_none=True) for message in state.messages]
        work = partial(score, messages, adapter=adapter, model=model, mode=mode)
        result = await anyio.to_thread.run_sync(work)
        metadata = {
            "how": result.how,
            "curve": [[point.step, point.p_end_normalised] for point in result.curve],
        }
        if result.p is None:
            return Score.unscored(explanation=result.reason, metadata=metadata)
        return Score(value=result.p, explanation=f"Scored by {result.how}.", metadata=metadata)

    return completeness
