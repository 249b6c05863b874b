"""Signs of trouble: what in a conversation may show that it went wrong, each with the messages that show it.

Signs are found in the text alone, without a model. They show where to look; only a person can say that a conversation
failed. The *trouble* of a conversation is the sum of the standard scores of all signs that count (all but two, see
`engine.signs.reading`), each taken over all conversations of the project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Sign(StrEnum):
    """A sign of trouble. The values are what filters, tables and the project file have."""

    REFUSED = "refused"
    REFUSED_LAST = "refused-last"
    ERRORS = "errors"
    ERROR_LAST = "error-last"
    EMPTY_RESULTS = "empty-results"
    COMPLAINT = "complaint"
    REPEATS = "repeats"
    ASKS_AGAIN = "asks-again"
    UNANSWERED = "unanswered"
    TOOL_LAST = "tool-last"
    LONG = "long"

    @property
    def mark(self) -> str:
        """What the sign says of a message, beside which it stands; empty for `LONG`, which is of no one message, and
        for `REFUSED_LAST` and `ERROR_LAST`, of whose message `REFUSED` and `ERRORS` say the same."""
        return _MARKS.get(self, "")

    @property
    def words(self) -> str:
        """What the sign says of a conversation."""
        return _WORDS.get(self, self.mark)


_MARKS = {
    Sign.REFUSED: "refusal or apology",
    Sign.ERRORS: "error",
    Sign.EMPTY_RESULTS: "empty result",
    Sign.COMPLAINT: "complaint",
    Sign.REPEATS: "said or called before",
    Sign.ASKS_AGAIN: "nearly the same was said before",
    Sign.UNANSWERED: "the user has the last word",
    Sign.TOOL_LAST: "no answer follows",
}
"""What signs say of a message."""

_WORDS = {
    Sign.REFUSED_LAST: "refusal or apology in the last answer",
    Sign.ERROR_LAST: "error in the last result",
    Sign.TOOL_LAST: "ends with a call or its result",
    Sign.LONG: "longer than most",
}
"""What signs say of a conversation, where that differs from their mark."""

_MAX_REASONS = 4
"""Most signs that `in_words` names."""

_LAST_OF_SIGN = {Sign.REFUSED: Sign.REFUSED_LAST, Sign.ERRORS: Sign.ERROR_LAST}
"""The sign of the last message that goes with a sign of any message."""


ANY_SIGN = "any"
"""Stands for any sign where each sign has its name."""


@dataclass(frozen=True, slots=True)
class SignReading:
    """A sign that a conversation has.

    Attributes:
        sign: The sign.
        value: How much of it there is: the share of the messages in question that show it, 1 for a sign that is there
            or not, and for `long` the logarithm of the number of messages.
        messages: Indices of the messages that show it, rising; empty where all do.
        reason: The sign in words of this conversation, such as `the same search 4 times`.
    """

    sign: Sign
    value: float
    messages: tuple[int, ...]
    reason: str


def in_words(signs: Sequence[SignReading]) -> str:
    """Returns the first signs of a conversation in words, at most `_MAX_REASONS`: `the same call of search 4 times ·
    error in the last result`."""
    # Where the last result is an error or the last answer a refusal, the sign of the last message says enough.
    present = {reading.sign for reading in signs}
    left_out = {sign for sign, last in _LAST_OF_SIGN.items() if last in present}
    reasons = [reading.reason for reading in signs if reading.sign not in left_out]
    return " · ".join(reasons[:_MAX_REASONS])
