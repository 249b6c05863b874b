"""Signs of trouble: what in a conversation may show that it went wrong, each with the messages that show it.

Signs are found in the text alone, without a model. They show where to look; only a person can say that a conversation
failed. The *trouble* of a conversation is the sum of the standard scores of its signs, each taken over all
conversations of the project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.sign import Sign

_AT_THE_END = {Sign.REFUSED: Sign.REFUSED_LAST, Sign.ERRORS: Sign.ERROR_LAST}
"""Signs of any message -> the same signs of the last message."""


@dataclass(frozen=True, slots=True)
class SignReading:
    """A sign that a conversation has.

    Attributes:
        value: How much of it there is: the share of the messages in question that show it, 1 for a sign that is there
            or not, and for `long` the logarithm of the number of messages.
        messages: Indices of the messages that show it, rising; empty where all do.
        reason: The sign in words of this conversation, such as `the same search 4 times`.
    """

    sign: Sign
    value: float
    messages: tuple[int, ...]
    reason: str


def in_words(signs: Sequence[SignReading], most: int = 4) -> str:
    """Returns the first signs of a conversation in words: `the same call of search 4 times · error in the last
    result`."""
    # Where the last result is an error or the last answer a refusal, one of the two signs says enough.
    names = {reading.sign for reading in signs}
    repeated = {sign for sign, last in _AT_THE_END.items() if last in names}
    reasons = [reading.reason for reading in signs if reading.sign not in repeated]
    return " · ".join(reasons[:most])
