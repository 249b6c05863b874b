"""What the project file holds, as the rest of the program sees it: frozen rows, no SQL, no cursors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from engine.conversation import Role, ToolCall


class State(StrEnum):
    """What the completeness score says of a conversation; `unscored` is never counted as one of the others."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    BORDERLINE = "borderline"
    UNSCORED = "unscored"


class Verdict(StrEnum):
    """What a human said in triage."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    UNSURE = "unsure"


VerdictKind = Literal["give", "repeat", "note", "tag", "untag"]
RunState = Literal["running", "done", "cancelled", "failed", "interrupted"]
RuleSource = Literal["default", "calibrated", "chosen"]
Mode = Literal["base", "tuned", "judge"]


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """How a score becomes a state.

    Attributes:
        threshold: On the normalised score, in [0, 1].
        band: Half-width of the borderline band around the threshold.
        source: Where the threshold is from: the default, the verdicts, or a person who pinned it.
    """

    threshold: float = 0.5
    band: float = 0.1
    source: RuleSource = "default"

    def state(self, p_end_normalised: float | None) -> State:
        """The state of a conversation whose last boundary has this normalised score; None is unscored."""
        if p_end_normalised is None:
            return State.UNSCORED
        if abs(p_end_normalised - self.threshold) < self.band:
            return State.BORDERLINE
        return State.COMPLETE if p_end_normalised >= self.threshold else State.INCOMPLETE


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One line of the list. `opening` is the beginning of the first user message, as imported."""

    id: int
    external_id: str
    source: str
    opening: str
    messages: int
    turns: int
    chars: int
    created_at: str | None
    p_end: float | None
    p_end_normalised: float | None
    state: State
    reason: str | None
    verdict: Verdict | None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message as imported, with its place; `model_view` and `hidden` as in `engine.conversation.Message`."""

    index: int
    turn: int
    role: Role
    name: str | None
    content: str
    tool_calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    model_view: str | None
    hidden: bool


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """`p_end` at one boundary.

    Attributes:
        message: Index of the message after which the conversation could end.
        step, turn: Its numbers in the log.
        p_end: Probability of the end tag there.
        p_end_normalised: `p_end / (p_end + P(continuation))`.
    """

    message: int
    step: int
    turn: int
    p_end: float
    p_end_normalised: float


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The completeness score of one conversation under one configuration.

    Attributes:
        reason: Why it is unscored, or what is special about the score (a window); None otherwise.
        noise: Largest change of a probability seen on this model when the batch size changes; digits below
            it mean nothing.
    """

    conversation_id: int
    config_hash: str
    run_id: int
    state: State
    reason: str | None
    p_end: float | None
    p_end_normalised: float | None
    curve: tuple[CurvePoint, ...]
    mode: Mode
    model: str
    adapter: str | None
    noise: float | None


@dataclass(frozen=True, slots=True)
class ScoredId:
    """An imported id with the score of its conversation, None where no run has reached it."""

    external_id: str
    source: str
    score: ScoreRow | None


@dataclass(frozen=True, slots=True)
class RemainingRow:
    """What a model says is left to do; `text` is empty and `reason` says why when it gave nothing usable."""

    conversation_id: int
    config_hash: str
    text: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One act of a person, or what stands after all of them; acts are appended, never changed.

    Attributes:
        tags: All that stand; of one act the tag that it gave or took.
        count: Conversations that the act concerned; more than one for a bulk tag, of which one is named here.
    """

    id: int
    conversation_id: int
    verdict: Verdict | None
    note: str
    given_at: str
    tags: tuple[str, ...] = ()
    kind: VerdictKind = "give"
    count: int = 1


@dataclass(frozen=True, slots=True)
class TriageItem:
    """One conversation in the triage queue and why it stands there, e.g. `borderline: .52 near .50`."""

    conversation_id: int
    why: str


QueueOrder = Literal["threshold", "lowest", "disagreement", "unsure", "sample", "list"]
"""What a verdict is worth: see `engine.store.queue`."""


@dataclass(frozen=True, slots=True)
class TriagePage:
    """The part of a queue that is worked on now, what is worth most first; `total` counts all that waits."""

    items: tuple[TriageItem, ...]
    total: int


@dataclass(frozen=True, slots=True)
class TriagePlace:
    """Where a person was in triage.

    Attributes:
        filter: As text.
        conversation: In front of the person; None where nothing was.
        skipped: To be seen again at the end, in the order they were skipped.
    """

    order: QueueOrder = "threshold"
    filter: str = ""
    conversation: int | None = None
    skipped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgedId:
    """An imported id with what stands for its conversation, and the verdicts given again without sight of it."""

    external_id: str
    source: str
    verdict: VerdictRow
    repeats: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class LeakRow:
    """Something that gives the ending away, kept from the model: rule, message (None: a field) and the text."""

    conversation_id: int
    message: int | None
    rule: str
    found: str


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A record that could not be imported: where it stood, why, and its bytes."""

    id: int
    source: str
    line: int | None
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class TreeRow:
    """The measures of one response tree, as `engine.trees.measures` defines them.

    Attributes:
        step: The step of the log that was recorded where the tree was grown; the last one at the end of the log.
        reason: Why there is no tree, all figures being None or 0; None otherwise.
        prompt_tokens: Tokens before the root.
        note: What of the log was left out, or None.
        fork_depth, fork_entropy: Tokens before the first fork and bits there; None when the tree has one leaf.
        answer_log_prob: Natural log-probability of the recorded answer's first `answer_tokens` tokens, of which
            `answer_held` are in the tree; None without a recorded answer.
        seconds: The tree's share of what growing took.
        place: `last-answer`, `end` or `every`.
    """

    conversation_id: int
    step: int
    config_hash: str
    run_id: int
    reason: str | None
    prompt_tokens: int
    note: str | None
    leaves: int
    answers: int
    nodes: int
    max_log_prob: float | None
    max_log_prob_per_token: float | None
    covered: float
    pruned: float
    unexpanded: float
    entropy_low: float
    entropy_high: float
    fork_depth: int | None
    fork_entropy: float | None
    answer_log_prob: float | None
    answer_tokens: int
    answer_held: int
    seconds: float
    alpha: float
    mode: str
    place: str
    model: str
    adapter: str | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of one stage with everything that determined its result."""

    id: int
    stage: str
    state: RunState
    config_hash: str
    params: dict[str, Any]
    fingerprints: dict[str, Any]
    code_version: str
    started_at: str
    finished_at: str | None
    done: int
    total: int | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """What is in a project, and how the current scores divide it.

    `complete + incomplete + borderline + unscored == conversations`.
    """

    conversations: int = 0
    messages: int = 0
    turns: int = 0
    sources: int = 0
    duplicates: int = 0
    quarantined: int = 0
    leaks: int = 0
    complete: int = 0
    incomplete: int = 0
    borderline: int = 0
    unscored: int = 0
    verdicts: int = 0

    @property
    def scored(self) -> int:
        """Conversations with an honest number."""
        return self.conversations - self.unscored


@dataclass(frozen=True, slots=True)
class Histogram:
    """How the normalised scores of some conversations spread over [0, 1].

    Attributes:
        bins: Conversations in each of equal parts, lowest first; an inner edge belongs to the part above it.
        unscored: Conversations without an honest number, which are in no part.
    """

    bins: tuple[int, ...]
    unscored: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will cost on this machine.

    Attributes:
        items: Conversations still to do.
        tokens: Tokens they hold; None while unknown.
        tokens_per_second: As measured on this machine; None when never measured.
        seconds: tokens / tokens_per_second.
        model: Name of the model that would run.
    """

    items: int
    tokens: int | None
    tokens_per_second: float | None
    seconds: float | None
    model: str
