"""What screens need of the rest of the program, as small protocols; `workbench` hands in the real things.

Every method may be called from any thread. Those marked *quick* read by key and are fit for the UI thread;
the others belong in a thread worker.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.events import JobProgress
from engine.filters import Filter, ListQuery
from engine.rows import (
    ConversationRow,
    Counts,
    DecisionRule,
    Estimate,
    Histogram,
    LeakRow,
    MessageRow,
    Mode,
    RemainingRow,
    RunRow,
    ScoreRow,
    TriageItem,
    Verdict,
    VerdictRow,
)


@dataclass(frozen=True, slots=True)
class ProjectInfo:
    """What the title line says. `read_only` is None for a writable project, else why it cannot be written."""

    name: str
    path: str
    read_only: str | None


class Conversations(Protocol):
    """Reading conversations and what is known about them."""

    def ids(self, query: ListQuery) -> array[int]:
        """Ids of all conversations that match, in order; raises WorkbenchError for a bad search text."""

    def rows(self, ids: Sequence[int]) -> list[ConversationRow]:
        """Quick. Rows for these ids, in the order of `ids`; ids that no longer exist are left out."""

    def messages(self, conversation_id: int) -> list[MessageRow]:
        """All messages in order."""

    def original(self, conversation_id: int) -> bytes:
        """The record as imported, byte for byte."""

    def leaks(self, conversation_id: int) -> list[LeakRow]:
        """Quick. What the leak guard kept from the model."""

    def score(self, conversation_id: int) -> ScoreRow | None:
        """Quick. The current score, None if no run has reached the conversation."""

    def remaining(self, conversation_id: int) -> RemainingRow | None:
        """Quick. The remaining tasks that belong to the current score, None if not generated."""

    def counts(self, query: ListQuery | None = None) -> Counts:
        """Counts of the project, or of what matches a query."""

    def sources(self) -> list[str]:
        """Names of the sources, in order of import."""

    def rule(self) -> DecisionRule:
        """Quick. The decision rule that is in force."""

    def tags(self) -> list[tuple[str, int]]:
        """The tags that stand, in order, each with its number of conversations."""

    def histogram(self, query: ListQuery | None, bins: int) -> Histogram:
        """How the normalised scores spread, over the project or over what matches a query."""

    def dates(self) -> tuple[str, str] | None:
        """Quick. When the first and the last conversation took place; None where no date is known."""

    def hits(self, conversation_id: int, filter: Filter) -> list[int]:
        """Quick. Indices of the messages in which a word or phrase of the filter occurs, in order."""


class Triage(Protocol):
    """The queue of conversations a human should look at, and the verdicts."""

    def queue(self) -> list[TriageItem]:
        """Conversations without a verdict, in the order in which one is worth most: borderline first, nearest the
        threshold, then incomplete by falling score; unscored last. Complete ones are not queued."""

    def give(self, conversation_id: int, verdict: Verdict, note: str = "") -> VerdictRow:
        """Records a verdict; raises ProjectReadOnly."""

    def note(self, conversation_id: int, note: str) -> VerdictRow:
        """Records a note and leaves the verdict as it is (or absent)."""

    def undo(self) -> VerdictRow | None:
        """Takes back the newest verdict or note that still stands and returns it; None when nothing is left."""

    def redo(self) -> VerdictRow | None:
        """Gives again what the newest undo took back; None when nothing was undone since the last verdict."""

    def current(self, conversation_id: int) -> VerdictRow | None:
        """Quick. What stands for this conversation: its verdict and its latest note."""

    def tally(self) -> dict[Verdict, int]:
        """Quick. How many verdicts of each kind stand."""


class Jobs(Protocol):
    """Long work: started, watched through events, cancelled."""

    def estimate_scoring(self, mode: Mode) -> Estimate:
        """Cost of scoring what the mode has not scored yet; may count tokens, so not quick."""

    def start_scoring(self, mode: Mode) -> int:
        """Starts scoring and then remaining tasks in the background; returns the job id."""

    def start_import(self, paths: Sequence[str]) -> int:
        """Starts an import in the background; returns the job id."""

    def cancel(self, job_id: int) -> None:
        """Quick. Asks a job to stop; what it committed stays and a later run goes on from there."""

    def active(self) -> list[JobProgress]:
        """Quick. Jobs that run or wait, oldest first."""

    def interrupted(self) -> list[RunRow]:
        """Quick. Runs that an earlier process left unfinished and that can be resumed by running again."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a screen may use."""

    project: ProjectInfo
    conversations: Conversations
    triage: Triage
    jobs: Jobs
