"""Finds the messages of a user that begin another request, by the curve of scores alone.

Where a request is done the score is high, and where the user then asks for something else it falls, since the new
request is not done. So a request begins with a turn over which the score falls steeply. The words say less: rules on
new words were tried and did worse on unseen data (docs/lab/requests.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.base.conversation import Message

FALL = 0.2
"""Least fall of the normalised score over a turn that begins a request."""


def starts_by_curve(
    messages: Sequence[Message], curve: Mapping[int, float], fall: float = FALL
) -> list[int]:
    """Returns the indices of the messages of the user that begin a further request, ascending.

    Args:
        curve: Normalised score (0 to 1) by the index of the message after which the conversation could end.
        fall: Between the last boundary before a turn and the last one in it, in units of the score.
    """
    found = []
    before: float | None = None
    starts = [at for at, one in enumerate(messages) if one.role == "user"]
    for at, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        after = next((curve[one] for one in range(end - 1, at - 1, -1) if one in curve), before)
        if before is not None and after is not None and before - after > fall:
            found.append(at)
        before = after
    return found
