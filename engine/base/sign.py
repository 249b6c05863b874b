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
    def help(self) -> str:
        """What the sign says, for a person who chooses one."""
        return _HELP[self]


_HELP = {
    Sign.REFUSED: "the assistant is sorry, or says that it cannot",
    Sign.REFUSED_LAST: "it does so in its last answer",
    Sign.ERRORS: "tools answer with errors",
    Sign.ERROR_LAST: "the last result of a tool is an error",
    Sign.EMPTY_RESULTS: "tools answer with nothing",
    Sign.COMPLAINT: "the user says that something is wrong, or asks for a person",
    Sign.REPEATS: "the assistant repeats an answer or a call",
    Sign.ASKS_AGAIN: "the user says nearly the same again",
    Sign.UNANSWERED: "the user has the last word, without thanks",
    Sign.TOOL_LAST: "a call or its result is the last message",
    Sign.LONG: "it has more messages than nine in ten others",
}
