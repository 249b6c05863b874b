"""The simulation port in memory: two sets that were played, drafts of two instructions, and a form that is asked."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import UsageError, WorkbenchError
from engine.records.simulation import PlayEstimate, TranscriptLine
from engine.services.simulation.records import (
    AskedField,
    Drafts,
    DraftShard,
    LiveLine,
    LivePlay,
    PlayedSet,
    PlayItem,
    ResultRow,
    ResultSheet,
    SetResults,
    ShardDraft,
    SheetColumn,
    SimulationOffers,
    SimulationRequest,
    State,
    TalkState,
)

MODEL = "SmolLM2-135M-Instruct"
CONDITIONS = ("full", "concat", "sharded", "recap")
FIGURES = {"full": (62.0, 90.0, 55.0), "concat": (58.5, 88.0, 60.0), "sharded": (31.0, 70.0, 65.0)}
SHARDED = PlayedSet(
    "3fa2c1d4", "sharded", "sharded-3fa2c1",
    (("assistant", MODEL), ("user", MODEL), ("judge", MODEL)), 6, 1, "seed 0", True,
)  # fmt: skip
FORMS = PlayedSet(
    "77aa00bb", "forms", "forms-77aa00", (("assistant", MODEL), ("user", MODEL)), 1, 0, "", False
)
_BY_CONDITION = ResultSheet(
    "by condition",
    (
        SheetColumn("condition", "How the instruction was given.", figure=False),
        SheetColumn("task", "Kind of the instruction.", figure=False),
        SheetColumn("P", "Averaged performance: the mean score, 0 to 100."),
        SheetColumn("A90", "Aptitude."),
        SheetColumn("U90-10", "Unreliability."),
    ),
    tuple(
        ResultRow(
            (name, "math", *(f"{one:.1f}" for one in figures)),
            (name, "math", *figures),
            (2 * at + 1, 2 * at + 2),
        )
        for at, (name, figures) in enumerate(FIGURES.items())
    ),
    "Where an instruction was played once, its reliability is not known.",
)
_KINDS = ResultSheet(
    "kinds of replies",
    (
        SheetColumn("condition", "", figure=False),
        SheetColumn("turns", "Times that the user spoke."),
    ),
    (ResultRow(("sharded", "12"), ("sharded", 12.0), (5, 6)),),
)
_PLAYS = tuple(
    PlayItem(at + 1, f"math/GSM8K-{at % 2}/{name}/0", 1 + at, f"score {10 * at} · 4 turns", None)
    for at, name in enumerate(name for name in FIGURES for _ in range(2))
)
BROKEN = PlayItem(7, "math/GSM8K-0/recap/0", None, "", "the process died")
_FORM_SHEET = ResultSheet(
    "forms",
    (
        SheetColumn("form", "Which form.", figure=False),
        SheetColumn("Score", "Harmonic mean of Success and Efficiency."),
    ),
    (ResultRow(("med", ".41"), ("med", 0.41), (8,)),),
)
RESULTS = {
    SHARDED.config_hash: SetResults((_BY_CONDITION, _KINDS), (*_PLAYS, BROKEN)),
    FORMS.config_hash: SetResults(
        (_FORM_SHEET,), (PlayItem(8, "med/modular/1", 3, "Score .41 · 40 turns", None),)
    ),
}
TRANSCRIPT = [
    TranscriptLine(
        "user", "user", (("system", "You say one shard."), ("user", "Shards: 1, 2")), "",
        '{"response": "How many apples are left?"}', "end", None, 7, {"temperature": 1.0},
    ),
    TranscriptLine(
        "assistant", "assistant", (("user", "How many apples are left?"),), "",
        "There were 12 apples, so 5 are left.", "length", "the oldest 2 messages", 8,
        {"temperature": 1.0, "json_schema": "{}"},
    ),
]  # fmt: skip
TEXT = "Ann has 12 apples. She gives Ben 7. How many are left?"
DRAFTS = [
    ShardDraft(
        "GSM8K-1", "math", TEXT,
        (
            DraftShard(1, "How many apples are left?", 36, 54, "model"),
            DraftShard(2, "Ann has 12 apples.", 0, 18, "text"),
            DraftShard(3, "She gives some away.", 19, 35, "model"),
        ),
        ("7", "Ben"), "that she gives 7 to Ben", True, "proposed", 0.8, 0.5, False,
    ),
    ShardDraft(
        "GSM8K-2", "math", "Tom runs 3 miles. How far?",
        (DraftShard(1, "How far?", 18, 26, "text"), DraftShard(2, "Tom runs 3 miles.", 0, 17, "text")),
        (), "", False, "proposed",
    ),
]  # fmt: skip


class FakeDrafts:
    """Drafts of a file that is none; refuses to approve empty shards."""

    def __init__(self, path: str, items: list[ShardDraft]) -> None:
        self.path = path
        self._items = items

    def items(self) -> list[ShardDraft]:
        return list(self._items)

    def decide(self, nth: int, state: State) -> ShardDraft:
        if state == "approved" and not all(one.text.strip() for one in self._items[nth].shards):
            raise UsageError("An empty shard cannot be approved.")
        return self._put(nth, replace(self._items[nth], state=state))

    def edit(self, nth: int, shard_id: int, text: str) -> ShardDraft:
        shards = [
            replace(one, text=text, by="person") if one.shard_id == shard_id else one
            for one in self._items[nth].shards
        ]
        return self._with(nth, shards)

    def move(self, nth: int, shard_id: int, by: int) -> ShardDraft:
        shards = list(self._items[nth].shards)
        at = next(place for place, one in enumerate(shards) if one.shard_id == shard_id)
        one = shards.pop(at)
        shards.insert(max(0, at + by), one)
        return self._with(nth, shards)

    def leave_out(self, nth: int, shard_id: int) -> ShardDraft:
        return self._with(nth, [s for s in self._items[nth].shards if s.shard_id != shard_id])

    def _with(self, nth: int, shards: list[DraftShard]) -> ShardDraft:
        said = " ".join(one.text for one in shards)
        gone = tuple(word for word in ("12", "7", "Ben") if word not in said and nth == 0)
        changed = replace(
            self._items[nth], shards=tuple(shards), lost=gone, missing=None, state="proposed",
            full=None, concat=None, holds=None,
        )  # fmt: skip
        return self._put(nth, changed)

    def _put(self, nth: int, draft: ShardDraft) -> ShardDraft:
        self._items[nth] = draft
        return draft


ASKED = (
    AskedField("Your name", True, ()),
    AskedField("Title", False, ("Dr", "Prof")),
    *(AskedField(f"Field {number}", True, ()) for number in range(3, 9)),
)
"""What the questions of `FakeTalk` are for."""


class FakeTalk:
    """A form of two questions; `thinking` holds the next question back."""

    job_id = 41

    def __init__(self) -> None:
        self.now = TalkState("", (), None)
        self.answers: list[str] = []
        self.stopped = False

    def ask(self, question: str, module: str = "question_generation") -> None:
        """What a module asks next."""
        line = LiveLine(module, "assistant", f'{{"question": "{question}"}}')
        lines = (*self.now.lines, line)
        self.now = replace(
            self.now, key="forms/med/modular/1", lines=lines, question=question, asked=ASKED
        )

    def state(self) -> TalkState:
        return self.now

    def answer(self, text: str) -> None:
        self.answers.append(text)
        line = LiveLine("user", "user", text)
        self.now = replace(self.now, lines=(*self.now.lines, line), question=None, asked=())

    def stop(self) -> None:
        self.stopped = True
        self.now = replace(
            self.now, question=None, over="Ended by you. Score .10.", play_id=8, conversation_id=3
        )


class FakeSimulations:
    """What was played, and what is asked for."""

    def __init__(self) -> None:
        self.played = [SHARDED, FORMS]
        self.found = dict(RESULTS)
        self.lines = list(TRANSCRIPT)
        self.now: list[LivePlay] = []
        self.last: SimulationRequest | None = None
        self.asked: list[SimulationRequest] = []
        self.started: list[SimulationRequest] = []
        self.resumed: list[str] = []
        self.written: list[tuple[str, str]] = []
        self.drafts = list(DRAFTS)
        self.talk = FakeTalk()
        self.filled: list[tuple[str, str, str | None]] = []
        self.problem: WorkbenchError | None = None

    def offers(self) -> SimulationOffers:
        return SimulationOffers(
            (MODEL, "larger-7b"),
            ("math", "samples"),
            CONDITIONS,
            CONDITIONS[:3],
            (("med", "confidential medical history"), ("ss5", "social security card application")),
            ("modular", "baseline"),
            ("travel planning", "recipe planning"),
            ("en", "zh"),
            self.last,
        )

    def estimate(self, wish: SimulationRequest) -> PlayEstimate:
        self.asked.append(wish)
        if wish.instructions == "none.json":
            raise UsageError("The instructions none.json cannot be read.", "Name another file.")
        return PlayEstimate(12 * wish.runs, 300 * wish.runs, 90.0, (wish.model or MODEL,))

    def start(self, wish: SimulationRequest) -> int:
        if self.problem is not None:
            raise self.problem
        self.started.append(wish)
        return 40

    def go_on(self, config_hash: str) -> int:
        self.resumed.append(config_hash)
        return 40

    def sets(self) -> list[PlayedSet]:
        return list(self.played)

    def results(self, config_hash: str) -> SetResults:
        return self.found[config_hash]

    def transcript(self, play_id: int) -> list[TranscriptLine]:
        return list(self.lines)

    def live(self) -> list[LivePlay]:
        return list(self.now)

    def export(self, config_hash: str, path: str) -> None:
        self.written.append((config_hash, path))

    def open_drafts(self, path: str) -> Drafts:
        if self.problem is not None:
            raise self.problem
        return FakeDrafts(path, list(self.drafts))

    def fill_form(self, form: str, variant: str, model: str | None) -> FakeTalk:
        self.filled.append((form, variant, model))
        return self.talk
