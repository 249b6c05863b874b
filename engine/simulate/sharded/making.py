"""Proposes shards for a full instruction: cuts it into pieces, chooses the first, rephrases each and checks
coverage."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.base.errors import BadInstruction
from engine.base.text import as_json
from engine.model.asking import Ending, Play, ask_json, object_schema, seed_from
from engine.model.chat import Call, ChatMessage, Completion
from engine.model.prompt_files import filled
from engine.simulate.draft import Candidate, Draft, Piece, by_sentences, placed, says_no_other
from engine.simulate.sharded.instruction import TASKS, Instruction
from engine.simulate.sharded.play import ShardedScenario
from engine.simulate.sharded.scenario import Case, Condition, Setting
from engine.simulate.sharded.task import Task

_TRIES = (0.0, 0.7)
_SEGMENTS = object_schema(segments={"type": "array", "items": {"type": "string"}})
_WORDED = object_schema(shard={"type": "string"})
_COVERAGE = object_schema(coverage={"type": "string"})
_SPARE = 60
"""Tokens allowed in a reply in addition to the text of the instruction that it repeats."""

_CHARACTERS = 2
"""Assumed least number of characters of a token, which bounds the length of a reply that repeats a text."""


@dataclass(frozen=True, slots=True)
class MakingScenario:
    """The scenario that makes shards for one instruction.

    Attributes:
        setting: Models and temperatures, with the prompts of `sharded` and of `shards`.
        source: Record of the instruction: `task_id`, `task`, the keys of the task; shards in it are ignored.
        text: The full instruction, which is cut into pieces.
        bound: Returns the task of an instruction; used to play the check.
        checks: Plays of FULL and of CONCAT for the check; 0 for none.
    """

    setting: Setting
    source: Mapping[str, Any]
    text: str
    bound: Callable[[Instruction], Task]
    checks: int = 0

    @property
    def key(self) -> str:
        """The name of the scenario, unique in its simulation."""
        digest = f"{seed_from(self.text, as_json(self.source)):08x}"
        return f"shards/{self.source['task']}/{self.source['task_id']}@{digest}/{self.checks}"

    @property
    def expected(self) -> float:
        """Rough number of replies; a longer text gives more pieces, and each takes a reply."""
        return float(len(self.text))

    def play(self) -> Play:
        """Returns a new play; its result is the record of a draft, and it makes no conversation."""
        pieces, segmented = yield from self._segmented()
        order = yield from self._ordered(pieces)
        candidates: list[Candidate] = []
        for number, index in enumerate(order, 1):
            words, by_model = yield from self._worded(pieces[index], first=number == 1)
            candidates.append(
                Candidate(number, words, pieces[index], "model" if by_model else "text")
            )
        draft = Draft(
            self.source["task_id"],
            self.source["task"],
            {n: v for n, v in self.source.items() if n not in ("task_id", "task", "shards")},
            self.text,
            tuple(candidates),
            segmented=segmented,
        )
        draft = replace(draft, missing=(yield from self._missing(draft)))
        if self.checks:
            draft = replace(draft, check=(yield from self._checked(draft)))
        return Ending(result=draft.record())

    def _segmented(self) -> Generator[Call, Completion, tuple[list[Piece], bool]]:
        def accept(reply: Mapping[str, Any]) -> list[Piece] | None:
            segments = reply.get("segments")
            if not isinstance(segments, list) or not all(
                isinstance(segment, str) for segment in segments
            ):
                return None
            pieces = placed(segments, self.text)
            return pieces if pieces and len(pieces) > 1 else None

        call = self._call("segment", 2 * len(self.text), TEXT=self.text)
        pieces = yield from ask_json(call, _SEGMENTS, accept, _TRIES)
        return (by_sentences(self.text), False) if pieces is None else (pieces, True)

    def _ordered(self, pieces: Sequence[Piece]) -> Generator[Call, Completion, list[int]]:
        """Returns the indices of the pieces in the order of the shards; a question comes first, if there is one."""
        words = [piece.of(self.text) for piece in pieces]
        every = range(1, len(pieces) + 1)
        asking = [index for index, text in enumerate(words) if "?" in text]
        if len(pieces) == 1:
            return [0]
        numbers = {"type": "integer", "enum": list(every)}
        schema = object_schema(
            first=numbers,
            others={
                "type": "array",
                "items": numbers,
                "minItems": len(pieces) - 1,
                "maxItems": len(pieces) - 1,
            },
        )

        def accept(reply: Mapping[str, Any]) -> list[int] | None:
            first, others = reply.get("first"), reply.get("others")
            if not isinstance(others, list) or sorted([first, *others], key=str) != sorted(
                every, key=str
            ):
                return None
            order = [int(number) - 1 for number in (first, *others)]
            return order if order[0] in asking or not asking else None

        listing = "\n".join(f"{number}. {text}" for number, text in enumerate(words, 1))
        call = self._call("order", 8 * len(pieces), SEGMENTS=listing)
        order = yield from ask_json(call, schema, accept, _TRIES)
        if order is not None:
            return order
        first = asking[-1] if asking else 0
        return [first, *(index for index in range(len(pieces)) if index != first)]

    def _worded(
        self, piece: Piece, *, first: bool
    ) -> Generator[Call, Completion, tuple[str, bool]]:
        """Returns the text of a shard, and whether it is the model's; the model's text must not mention other
        pieces."""
        words = piece.of(self.text)

        def accept(reply: Mapping[str, Any]) -> str | None:
            shard = reply.get("shard")
            if not isinstance(shard, str) or not shard.strip():
                return None
            fits = len(shard) <= 2 * len(words) + 80
            return shard.strip() if fits and says_no_other(shard.strip(), words) else None

        prompt = "rephrase-first" if first else "rephrase"
        call = self._call(prompt, 2 * len(words), TEXT=self.text, SEGMENT=words)
        shard = yield from ask_json(call, _WORDED, accept, _TRIES)
        return (words, False) if shard is None else (shard, True)

    def _missing(self, draft: Draft) -> Generator[Call, Completion, str | None]:
        def accept(reply: Mapping[str, Any]) -> str | None:
            coverage = reply.get("coverage")
            if not isinstance(coverage, str) or not coverage.strip():
                return None
            whole = coverage.strip().casefold() == "complete"
            return "" if whole else coverage.strip()

        shards = "\n".join(f"- {candidate.text}" for candidate in draft.candidates)
        call = self._call("coverage", 80, TEXT=self.text, SHARDS=shards)
        return (yield from ask_json(call, _COVERAGE, accept, _TRIES))

    def _checked(self, draft: Draft) -> Generator[Call, Completion, dict[str, float]]:
        """Plays FULL and CONCAT and returns the mean score of each, 0 to 1."""
        instruction = draft.instruction()
        task = self.bound(instruction)
        conditions: tuple[Condition, ...] = ("full", "concat")
        means: dict[str, float] = {}
        for condition in conditions:
            scores: list[float] = []
            for run in range(self.checks):
                case = Case(self.setting, instruction, task, condition, run)
                ending = yield from ShardedScenario(case).play()
                scores.append(ending.result["score"] or 0.0)
            means[condition] = sum(scores) / len(scores)
        return means

    def _call(self, prompt: str, characters: int, **places: str) -> Call:
        """Returns a call whose reply has about this many characters."""
        text = filled(self.setting.texts[prompt], places)
        seed = seed_from(self.setting.seed, self.source["task_id"], prompt, *places.values())
        return Call(
            prompt,
            "judge",
            (ChatMessage("user", text),),
            max_tokens=_SPARE + characters // _CHARACTERS,
            seed=seed,
        )


def full_text(record: Mapping[str, Any], where: str) -> str:
    """Returns the full instruction of a record.

    Raises:
        BadInstruction: It has none, or its task has shards that are parts of documents.
    """
    task = record.get("task")
    if task not in TASKS:
        raise BadInstruction(f"{where}: `task` must be one of {', '.join(TASKS)}; it is {task!r}.")
    if not isinstance(record.get("task_id"), str):
        raise BadInstruction(f"{where} has no `task_id`.")
    for key in ("fully_specified_question", "question", "prompt", "question_content"):
        value = record.get(key)
        while isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str) and value.strip():
            return value
    raise BadInstruction(
        f"{where}: there is no instruction to cut up.",
        "Shards of data2text, summary and translation are parts of their documents.",
    )
