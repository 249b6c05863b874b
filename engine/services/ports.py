"""What screens need of the rest of the program, as small protocols; `workbench` hands in the real things.

Every method may be called from any thread. Those marked *quick* read by key and are fit for the UI thread;
the others belong in a thread worker.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.events import JobProgress
from engine.filters import Filter, ListQuery
from engine.records.calibration import Agreement, CalibrationReport
from engine.records.conversations import (
    ConversationRow,
    Counts,
    DecisionRule,
    Estimate,
    Histogram,
    LeakRow,
    MessageRow,
    Mode,
    QueueOrder,
    RemainingRow,
    RunRow,
    ScoreRow,
    TreeRow,
    TriagePage,
    TriagePlace,
    Verdict,
    VerdictRow,
)
from engine.services.goals.port import Goals
from engine.services.models.records import Models
from engine.services.simulation.records import Simulations
from engine.services.training.records import Training
from engine.services.trees.records import (
    AnswerRow,
    Comparison,
    ConfigRow,
    Meanings,
    OpenTree,
    PropertyBounds,
    TreeItem,
    TreeRequest,
)
from engine.services.validation.records import Validation


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

    def queue(self, order: QueueOrder = "threshold", query: ListQuery | None = None) -> TriagePage:
        """Conversations without a verdict, in the order in which one is worth most; see `QueueOrder`. The filter of
        `query` says which, its order is that of `list`. Raises WorkbenchError as `Conversations.ids` does."""

    def give(self, conversation_id: int, verdict: Verdict, note: str = "") -> VerdictRow:
        """Records a verdict; raises ProjectReadOnly."""

    def note(self, conversation_id: int, note: str) -> VerdictRow:
        """Records a note and leaves the verdict as it is (or absent)."""

    def repeat(self, conversation_id: int, verdict: Verdict) -> VerdictRow:
        """Records a second verdict, given without sight of the first; what stands is as it was."""

    def tag(self, conversation_ids: Sequence[int], tag: str) -> None:
        """Tags conversations in one act, which one undo takes back; raises UsageError for an empty tag."""

    def untag(self, conversation_ids: Sequence[int], tag: str) -> None:
        """Takes a tag from conversations in one act."""

    def undo(self) -> VerdictRow | None:
        """Takes back the newest act that still stands and returns it; None when nothing is left."""

    def redo(self) -> VerdictRow | None:
        """Gives again what the newest undo took back; None when nothing was undone since the last act."""

    def current(self, conversation_id: int) -> VerdictRow | None:
        """Quick. What stands for this conversation: its verdict, its latest note and its tags."""

    def tally(self) -> dict[Verdict, int]:
        """Quick. How many verdicts of each kind stand."""

    def to_repeat(self, count: int) -> list[int]:
        """At most `count` conversations to judge again blind: judged a while ago and not asked again yet."""

    def place(self) -> TriagePlace:
        """Quick. Where the person was in triage."""

    def keep_place(self, place: TriagePlace) -> None:
        """Remembers where the person is; raises ProjectReadOnly."""


class Calibration(Protocol):
    """What the verdicts say about the scores, and the threshold that follows from it."""

    def report(self, query: ListQuery | None = None) -> CalibrationReport:
        """Everything; `rate` is that of what the query matches. Reads all scores and draws, so not quick."""

    def agreements(self) -> tuple[Agreement, Agreement]:
        """The verdicts against the model, and against those given again blind."""

    def refresh(self) -> DecisionRule | None:
        """To be called when verdicts changed: puts a calibrated threshold in force when one is due (there are enough
        verdicts, ten more than last time, or fewer), back to the default when there are too few, and returns the
        rule if it changed. Leaves a pinned one alone."""

    def pin(self, threshold: float | None) -> DecisionRule:
        """Puts a threshold in force until None frees it; returns the rule then in force. Raises ProjectReadOnly."""


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

    def run(self, run_id: int) -> RunRow | None:
        """Quick. One run with everything that determined its result; None if there is none of this id."""


class Saved(Protocol):
    """What the project remembers of how its list is looked at; writing raises ProjectReadOnly."""

    def filters(self) -> dict[str, str]:
        """Quick. The saved filters: their text by name, in the order of names."""

    def save_filter(self, name: str, text: str) -> None:
        """Saves a filter; one of the same name is replaced."""

    def delete_filter(self, name: str) -> None:
        """Forgets a filter; one that is not there already is no error."""

    def columns(self) -> list[str] | None:
        """Quick. Keys of the columns of the list, in order; None where nobody has chosen any."""

    def save_columns(self, columns: Sequence[str]) -> None:
        """Remembers the columns of the list."""

    def view(self) -> tuple[ListQuery, int | None]:
        """Quick. What the list showed last, and the id of the conversation under its cursor."""

    def save_view(self, query: ListQuery, conversation_id: int | None) -> None:
        """Remembers what the list shows."""


ExportKind = Literal[
    "conversations", "scores", "verdicts", "trees", "clusters", "assignments", "decisions", "transcripts"
]  # fmt: skip


class Exports(Protocol):
    """Writing what is in the project to files."""

    def export(self, kind: ExportKind, ids: Sequence[int], path: str) -> int:
        """Writes these conversations, their scores or verdicts as JSON Lines, in the order of `ids`, and returns
        how many lines. Raises ProjectError, and leaves no half file, when `path` is there already or cannot be
        written."""


class Trees(Protocol):
    """Response trees: measured over the data set, walked through, grown on."""

    def items(self, query: ListQuery) -> list[TreeItem]:
        """The trees that are shown, of the conversations that match, by conversation and step."""

    def steps(self, conversation_id: int) -> list[int]:
        """Quick. Steps of a conversation at which there is a tree, in order."""

    def turns(self, conversation_id: int, config_hash: str | None = None) -> list[TreeRow]:
        """Quick. The measures of a conversation's trees, by step, under the configuration that is shown or another."""

    def open(self, conversation_id: int, step: int, config_hash: str | None = None) -> OpenTree:
        """One tree, under the configuration that is shown or another; raises UsageError when there is none."""

    def answers(self, conversation_id: int, step: int, config_hash: str) -> list[AnswerRow]:
        """Its complete answers, most probable first."""

    def meanings(
        self, conversation_id: int, step: int, config_hash: str, threshold: float
    ) -> Meanings:
        """Its complete answers put together by meaning; raises UsageError saying why when nothing can compare them."""

    def bounds(
        self, conversation_id: int, step: int, config_hash: str, text: str
    ) -> PropertyBounds:
        """What the tree proves of a property such as `contains two years`; raises UsageError for another text."""

    def compare(self, conversation_id: int, step: int, first: str, second: str) -> Comparison:
        """The trees of two configurations at one step; raises UsageError when one of them is not there."""

    def configs(self, place: tuple[int, int] | None = None) -> list[ConfigRow]:
        """The configurations that have trees, or have one at this conversation and step; oldest first."""

    def shown(self) -> str | None:
        """Quick. Config hash of the trees that are shown; None before any was grown."""

    def show(self, config_hash: str) -> None:
        """Shows the trees of another configuration; raises ProjectReadOnly."""

    def estimate(self, wish: TreeRequest, query: ListQuery) -> Estimate:
        """How many conversations a run would still grow, and how long that takes where it is known."""

    def start(self, wish: TreeRequest, query: ListQuery) -> int:
        """Grows the trees of what matches in the background; returns the job id."""

    def grow_on(self, item: TreeItem, node: int | None, alpha: float | None) -> int:
        """Grows a tree on in the background, below a node to a lower alpha, or everywhere to its own; returns the job
        id. Raises UsageError when the model that it was grown with is not here."""

    def models(self) -> list[str]:
        """Quick. Names of the models that can grow a tree, the default one first."""

    def estimate_beside(self, item: TreeItem, wish: TreeRequest) -> Estimate:
        """What `grow_beside` would cost; no conversation where the tree is there already."""

    def grow_beside(self, item: TreeItem, wish: TreeRequest) -> int:
        """Grows the trees of a conversation as another model, adapter or alpha would, to be compared with a tree; mode
        and place are the tree's own, and the set that is shown stays. Returns the job id."""

    def export(self, item: TreeItem, path: str) -> None:
        """Writes a tree as one JSON line to a new file; raises ProjectError as `Exports.export` does."""


class Network(Protocol):
    """What keeps this program from reaching even what is configured. Both questions are *quick*."""

    def stays_offline(self) -> bool:
        """Whether this project's own setting is on."""

    def others(self) -> list[str]:
        """What else is on, as words of a sentence: the command line, the environment."""

    def stay_offline(self, on: bool) -> None:
        """Keeps the setting and obeys it at once; raises ProjectReadOnly."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a screen may use."""

    project: ProjectInfo
    conversations: Conversations
    triage: Triage
    jobs: Jobs
    saved: Saved
    exports: Exports
    calibration: Calibration
    trees: Trees
    goals: Goals
    training: Training
    network: Network
    models: Models
    validation: Validation
    simulations: Simulations
