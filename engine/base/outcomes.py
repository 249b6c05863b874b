"""The words for how a conversation went: by its score, and by the verdict of a person."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The state of a conversation by its completeness score; `unscored` is never counted as one of the others."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    BORDERLINE = "borderline"
    UNSCORED = "unscored"


class Verdict(StrEnum):
    """The judgement of a person in triage."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    UNSURE = "unsure"
