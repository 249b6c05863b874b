"""The ports in memory, for what a real project cannot show on demand: errors, slow calls, exact pictures."""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Callable, Sequence

from engine.conversation import Role, ToolCall
from engine.errors import WorkbenchError
from engine.events import Event, JobEnded, JobProgress, Listener
from engine.filters import TEXT, Filter, ListQuery
from engine.records.conversations import (
    ConversationRow,
    Counts,
    CurvePoint,
    DecisionRule,
    Estimate,
    Histogram,
    LeakRow,
    MessageRow,
    Mode,
    RemainingRow,
    RunRow,
    ScoreRow,
    State,
)
from engine.services.services import ProjectInfo, Services
from tests.screens.fake_filter import matches
from tests.screens.fake_network import FakeNetwork
from tests.screens.fake_saved import FakeExports, FakeSaved
from tests.screens.goals.fake_goals import FakeGoals
from tests.screens.models.fake_models import FakeModels
from tests.screens.simulation.fake_simulations import FakeSimulations
from tests.screens.training.fake_training import FakeTraining
from tests.screens.trees.fake_trees import NoTrees
from tests.screens.triage.fake_calibration import FakeCalibration
from tests.screens.triage.fake_triage import RULE, FakeTriage
from tests.screens.validation.fake_validation import FakeValidation

GOALS = (
    ("I want to exchange the desk lamp in order #W6390527 for a cheaper one.", "lamp"),
    ("Please move my flight to Boston to Thursday morning.", "flight"),
    ("How many files under /testbed end in .sh? Write the count to out.txt.", "files"),
    ("My policy covers three locations, can you add the one in Leeds?", "policy"),
    ("Book a table for four, vegetarian, tonight at eight.", "table"),
    ("Which customers ordered twice in March? I need the SQL too.", "SQL query"),
)


def conversation(number: int, p_end: float | None, turns: int = 4) -> FakeConversation:
    """A conversation of `turns` user turns about one of the goals, scored `p_end` at its end."""
    goal, word = GOALS[number % len(GOALS)]
    messages: list[MessageRow] = []

    def say(role: Role, text: str, turn: int, calls: tuple[ToolCall, ...] = ()) -> None:
        messages.append(
            MessageRow(
                len(messages),
                turn,
                role,
                None,
                text,
                calls,
                None,
                None,
                False,
            )
        )

    say(
        "system",
        "\n".join(f"Rule {line}: be helpful, ask before changing." for line in range(9)),
        1,
    )
    points: list[CurvePoint] = []
    for turn in range(2, turns + 2):
        say("user", goal if turn == 2 else f"Yes, the {word}, please go on ({turn}).", turn)
        say("assistant", "", turn, (ToolCall("get_details", f'{{"what": "{word}"}}'),))
        output = "\n".join(f'{{"line": {line}, "about": "{word}"}}' for line in range(42))
        say("tool", output, turn)
        text = (
            f"I looked at the {word}. There are two possibilities, and I would like your decision "
            "before anything is changed: the first one costs less, the second one is ready today."
        )
        say("assistant", text, turn)
        if p_end is not None:
            last = turn == turns + 1
            p = p_end if last else min(0.95, 0.08 * ((turn * 7 + number) % 6))
            points.append(CurvePoint(len(messages) - 1, len(messages), turn, p * 0.8, p))
    state = RULE.state(p_end)
    row = ConversationRow(
        id=number,
        external_id=f"support/{number:04d}",
        source="support.jsonl",
        opening=goal,
        messages=len(messages),
        turns=turns + 1,
        chars=sum(len(message.content) for message in messages),
        created_at=None,
        p_end=None if p_end is None else p_end * 0.8,
        p_end_normalised=p_end,
        state=state,
        reason=None if p_end is not None else "longer than the context",
        verdict=None,
    )
    score = ScoreRow(
        number, "5f0c1d", 3, state, row.reason, row.p_end, p_end, tuple(points), "base",
        "SmolLM2-135M-Instruct", None, 0.006,
    )  # fmt: skip
    remaining = None
    if state in (State.INCOMPLETE, State.BORDERLINE):
        text = f"· confirm the change of the {word}\n· tell the customer when it takes effect"
        remaining = RemainingRow(number, "5f0c1d", text, None)
    return FakeConversation(row, messages, score, remaining, [])


class FakeConversation:
    """Everything about one conversation, to be changed at will by a test."""

    def __init__(
        self,
        row: ConversationRow,
        messages: list[MessageRow],
        score: ScoreRow | None,
        remaining: RemainingRow | None,
        leaks: list[LeakRow],
    ) -> None:
        self.row, self.messages, self.score = row, messages, score
        self.remaining, self.leaks = remaining, leaks
        self.original = row.opening.encode()


class FakeProject(FakeTriage):
    """Conversations, triage and jobs over one list, with a listener; implements all ports at once."""

    def __init__(self, conversations: Sequence[FakeConversation]) -> None:
        super().__init__()
        self.items = {item.row.id: item for item in conversations}
        self.fetched: list[list[int]] = []
        self.started: list[object] = []
        self.cancelled: list[int] = []
        self.running: list[JobProgress] = []
        self.left: list[RunRow] = []
        self.fail_next: WorkbenchError | None = None
        self.hold = threading.Event()
        self.hold.set()
        self.listeners: list[Listener] = []
        self.read_only: str | None = None
        self.saved = FakeSaved()
        self.exports = FakeExports()
        self.calibration = FakeCalibration(self)
        self.trees = NoTrees()
        self.goals = FakeGoals(self.rows, self.emit)
        self.training = FakeTraining()
        self.models = FakeModels()
        self.validation = FakeValidation()
        self.network = FakeNetwork()
        self.simulations = FakeSimulations()

    # The app's side

    def services(self) -> Services:
        info = ProjectInfo("support-october.wb", "support-october.wb", self.read_only)
        self.goals.read_only = self.training.read_only = self.read_only
        self.network.read_only = self.read_only
        return Services(
            info,
            self,
            self,
            self,
            self.saved,
            self.exports,
            self.calibration,
            self.trees,
            self.goals,
            self.training,
            self.network,
            self.models,
            self.validation,
            self.simulations,
        )

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def emit(self, event: Event) -> None:
        if isinstance(event, JobProgress):
            self.running = [job for job in self.running if job.job_id != event.job_id] + [event]
        elif isinstance(event, JobEnded):
            self.running = [job for job in self.running if job.job_id != event.job_id]
        for listener in self.listeners:
            listener(event)

    def _maybe_fail(self) -> None:
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error

    # Conversations

    def ids(self, query: ListQuery) -> array[int]:
        self._maybe_fail()
        rows = [self._row(item) for item in self.items.values() if self._matches(item, query)]
        named = {
            "p": "p_end_normalised",
            "length": "chars",
            "name": "external_id",
            "date": "created_at",
        }
        key = named.get(query.sort, query.sort)
        valued = [row for row in rows if getattr(row, key) is not None]
        rest = [row for row in rows if getattr(row, key) is None]
        valued.sort(key=lambda row: getattr(row, key))
        if query.descending:
            valued.reverse()
        return array("q", [row.id for row in valued + rest])

    def _matches(self, item: FakeConversation, query: ListQuery) -> bool:
        text = " ".join(message.content for message in item.messages)
        return matches(self._row(item), text, query.filter)

    def rows(self, ids: Sequence[int]) -> list[ConversationRow]:
        self.hold.wait()
        self.fetched.append(list(ids))
        return [self._row(self.items[row_id]) for row_id in ids if row_id in self.items]

    def messages(self, conversation_id: int) -> list[MessageRow]:
        return self.items[conversation_id].messages

    def original(self, conversation_id: int) -> bytes:
        return self.items[conversation_id].original

    def leaks(self, conversation_id: int) -> list[LeakRow]:
        return self.items[conversation_id].leaks

    def score(self, conversation_id: int) -> ScoreRow | None:
        return self.items[conversation_id].score

    def remaining(self, conversation_id: int) -> RemainingRow | None:
        return self.items[conversation_id].remaining

    def counts(self, query: ListQuery | None = None) -> Counts:
        rows = [
            item.row for item in self.items.values() if query is None or self._matches(item, query)
        ]
        states = Counter(row.state for row in rows)
        return Counts(
            conversations=len(rows),
            messages=sum(row.messages for row in rows),
            complete=states[State.COMPLETE],
            incomplete=states[State.INCOMPLETE],
            borderline=states[State.BORDERLINE],
            unscored=states[State.UNSCORED],
        )

    def sources(self) -> list[str]:
        return sorted({item.row.source for item in self.items.values()})

    def rule(self) -> DecisionRule:
        return RULE

    def tags(self) -> list[tuple[str, int]]:
        return sorted(Counter(tag for item in self.items.values() for tag in item.row.tags).items())

    def histogram(self, query: ListQuery | None, bins: int) -> Histogram:
        scores = [
            item.row.p_end_normalised
            for item in self.items.values()
            if query is None or self._matches(item, query)
        ]
        places = Counter(min(int(p * bins), bins - 1) for p in scores if p is not None)
        return Histogram(tuple(places[bin] for bin in range(bins)), scores.count(None))

    def dates(self) -> tuple[str, str] | None:
        known = [item.row.created_at for item in self.items.values() if item.row.created_at]
        return (min(known), max(known)) if known else None

    def hits(self, conversation_id: int, filter: Filter) -> list[int]:
        words = [term.values[0].lower() for term in filter.of(TEXT) if not term.negated]
        return [
            message.index
            for message in self.items[conversation_id].messages
            if any(word in message.content.lower() for word in words)
        ]

    # Jobs

    def estimate_scoring(self, mode: Mode) -> Estimate:
        if mode == "tuned":
            raise WorkbenchError("There is no adapter.", "Train one, or name one with --adapter.")
        return Estimate(812, 1_240_000, 3_450.0, 359.4, "SmolLM2-135M-Instruct (BF16)")

    def start_scoring(self, mode: Mode) -> int:
        self._maybe_fail()
        self.started.append(mode)
        return len(self.started)

    def start_import(self, paths: Sequence[str]) -> int:
        self._maybe_fail()
        self.started.append(list(paths))
        return len(self.started)

    def cancel(self, job_id: int) -> None:
        self.cancelled.append(job_id)

    def active(self) -> list[JobProgress]:
        return self.running

    def interrupted(self) -> list[RunRow]:
        return self.left

    def run(self, run_id: int) -> RunRow | None:
        prompt = {"name": "base", "question": "What remains to be done?"}
        return RunRow(
            run_id, "complete", "done", "5f0c1d", {"mode": "base", "prompt": prompt, "context": 8192},
            {"model_sha256": "ab" * 32, "engine": "llama.cpp 0.3.35"}, "0.3.0",
            "2026-10-01T10:00:00Z", "2026-10-01T10:12:00Z", 812, 812, None,
        )  # fmt: skip


def project(count: int = 36) -> FakeProject:
    """A few dozen conversations in all states."""
    scores = [0.93, 0.07, 0.52, None, 0.88, 0.31, 0.97, 0.44, 0.12, 0.9, 0.99, 0.02]
    return FakeProject(
        [
            conversation(number, scores[number % len(scores)], 3 + number % 7)
            for number in range(1, count + 1)
        ]
    )
