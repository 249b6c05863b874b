"""The names of the signs of trouble: what in a conversation may show that it went wrong."""

from __future__ import annotations

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
        """What the sign says of one message, beside which it stands; empty for one of the whole conversation."""
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

_WORDS = {
    Sign.REFUSED_LAST: "refusal or apology in the last answer",
    Sign.ERROR_LAST: "error in the last result",
    Sign.TOOL_LAST: "ends with a call or its result",
    Sign.LONG: "longer than most",
}
