"""Proposes shards for a full instruction: a shard states one piece of it, and a simulated user reveals one per turn.

A model cuts the instruction into pieces, chooses their order, rephrases each as a shard, and says what the shards leave
out. Each step has a fallback that needs no model. The optional check plays the conditions FULL (the instruction as it
is) and CONCAT (all shards in one message): shards that lose information score lower.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from engine.base.errors import BadInstruction
from engine.base.text import as_json
from engine.model.chat import Call, ChatMessage, Completion, Ending, Play, seed_from
from engine.model.prompt_files import filled
from engine.model.reply_forms import Limits, UnreadableReply
from engine.model.structured_replies import ask_in_play
from engine.simulate.draft import (
    Candidate,
    Draft,
    Piece,
    by_sentences,
    pieces_of_excerpts,
    says_no_other,
)
from engine.simulate.sharded.instruction import TASKS, Instruction
from engine.simulate.sharded.play import ShardedScenario
from engine.simulate.sharded.scenario import Condition, Setting
from engine.simulate.sharded.task import Task

_TEMPERATURES = (0.0, 0.7)
"""Temperatures of the attempts at each step."""

_TEXT_KEYS = ("fully_specified_question", "question", "prompt", "question_content")
"""Keys of a record that may hold its full instruction, in the order in which they are tried."""

_EXTRA_TOKENS = 60
"""Tokens allowed in a reply in addition to the text of the instruction that it repeats."""

_MIN_CHARACTERS_PER_TOKEN = 2
"""Assumed smallest number of characters of a token, which bounds the length of a reply that repeats a text."""

_EXTRA_CHARACTERS = 80
"""Characters that a shard may have in addition to twice those of its piece."""

_COVERAGE_CHARACTERS = 80
"""Expected length of a reply that names what is missing."""

_CHARACTERS_PER_INDEX = 8
"""Expected length of the number of one piece in the JSON of a reply."""


class Segments(msgspec.Struct):
    """The pieces of an instruction."""

    segments: list[str]


class PieceOrder(msgspec.Struct):
    """The numbers of the pieces, from 1, in the order of their shards."""

    first: int
    others: list[int]


class RephrasedPiece(msgspec.Struct):
    """A piece as a shard."""

    shard: str


class Coverage(msgspec.Struct):
    """What the shards leave out, or `complete`."""

    coverage: str


@dataclass(frozen=True, slots=True)
class ShardDraftScenario:
    """The scenario that proposes shards for one instruction.

    Attributes:
        setting: Models and temperatures, with the prompts of `sharded` and of `shards`.
        source: Record of the instruction: `task_id`, `task`, the keys of the task; shards in it are ignored.
        text: The full instruction, which is cut into pieces.
        task_for: Returns the task of an instruction, with which the check scores answers.
        checks: Number of plays of each condition of the check; 0 for no check.
    """

    setting: Setting
    source: Mapping[str, Any]
    text: str
    task_for: Callable[[Instruction], Task]
    checks: int = 0

    @property
    def key(self) -> str:
        """The name of the scenario, unique in its simulation."""
        digest = f"{seed_from(self.text, as_json(self.source)):08x}"
        return f"shards/{self.source['task']}/{self.source['task_id']}@{digest}/{self.checks}"

    @property
    def expected(self) -> float:
        """The length of the text in characters, which is roughly in proportion to the replies that are needed: a longer
        text gives more pieces, and each takes a reply."""
        return float(len(self.text))

    def play(self) -> Play:
        """Starts a play; the result of its ending is the record of a draft, and it makes no conversation."""
        pieces, segmented = yield from self._cut_into_pieces()
        order = yield from self._choose_order(pieces)
        candidates: list[Candidate] = []
        for shard_id, index in enumerate(order, 1):
            words, by_model = yield from self._rephrase(pieces[index], first=shard_id == 1)
            candidates.append(
                Candidate(shard_id, words, pieces[index], "model" if by_model else "text")
            )
        draft = Draft(
            task_id=self.source["task_id"],
            task=self.source["task"],
            keys={
                key: value
                for key, value in self.source.items()
                if key not in ("task_id", "task", "shards")
            },
            text=self.text,
            candidates=tuple(candidates),
            segmented=segmented,
        )
        draft = replace(draft, missing=(yield from self._find_missing(draft)))
        if self.checks:
            draft = replace(draft, check=(yield from self._score_check(draft)))
        return Ending(result=draft.record())

    def _cut_into_pieces(self) -> Generator[Call, Completion, tuple[list[Piece], bool]]:
        """Returns the pieces of the text, and whether a model cut them: without a usable reply they are sentences."""

        def pieces_in(reply: Segments) -> list[Piece]:
            """Returns two pieces or more, all of them parts of the text."""
            pieces = pieces_of_excerpts(reply.segments, self.text)
            if not pieces or len(pieces) < 2:
                raise UnreadableReply("The segments are not two or more parts of the text")
            return pieces

        call = self._judge_call("segment", 2 * len(self.text), TEXT=self.text)
        pieces = yield from ask_in_play(call, Segments, pieces_in, _TEMPERATURES)
        return (by_sentences(self.text), False) if pieces is None else (pieces, True)

    def _choose_order(self, pieces: Sequence[Piece]) -> Generator[Call, Completion, list[int]]:
        """Returns the indices of the pieces in the order of their shards. If there are questions, one of them comes
        first: without a usable reply the last one, since a text mostly ends with what it asks."""
        texts = [piece.of(self.text) for piece in pieces]
        all_numbers = range(1, len(pieces) + 1)
        questions = [index for index, text in enumerate(texts) if "?" in text]
        if len(pieces) == 1:
            return [0]
        number_schema = {"type": "integer", "enum": list(all_numbers)}
        count = len(pieces) - 1
        limits: Limits = {
            "first": number_schema,
            "others": {"items": number_schema, "minItems": count, "maxItems": count},
        }

        def order_in(reply: PieceOrder) -> list[int]:
            """Returns an order that has each piece once and begins with a question, if there are any."""
            order = [number - 1 for number in (reply.first, *reply.others)]
            if sorted(order) != list(range(len(pieces))):
                raise UnreadableReply("The order does not have each segment once")
            if questions and order[0] not in questions:
                raise UnreadableReply("The first segment is no question")
            return order

        listing = "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))
        call = self._judge_call("order", _CHARACTERS_PER_INDEX * len(pieces), SEGMENTS=listing)
        order = yield from ask_in_play(call, PieceOrder, order_in, _TEMPERATURES, limits)
        if order is not None:
            return order
        opening = questions[-1] if questions else 0
        return [opening, *(index for index in range(len(pieces)) if index != opening)]

    def _rephrase(
        self, piece: Piece, *, first: bool
    ) -> Generator[Call, Completion, tuple[str, bool]]:
        """Returns the text of a shard, and whether a model wrote it. A reply that mentions other pieces is not used;
        without a usable reply the shard is the piece itself."""
        words = piece.of(self.text)

        def shard_in(reply: RephrasedPiece) -> str:
            """Returns a shard that is not too long and says nothing but its piece."""
            shard = reply.shard.strip()
            fits = len(reply.shard) <= 2 * len(words) + _EXTRA_CHARACTERS
            if not (shard and fits and says_no_other(shard, words)):
                raise UnreadableReply("The shard does not say its segment alone")
            return shard

        prompt = "rephrase-first" if first else "rephrase"
        call = self._judge_call(prompt, 2 * len(words), TEXT=self.text, SEGMENT=words)
        shard = yield from ask_in_play(call, RephrasedPiece, shard_in, _TEMPERATURES)
        return (words, False) if shard is None else (shard, True)

    def _find_missing(self, draft: Draft) -> Generator[Call, Completion, str | None]:
        """Returns what the shards leave out, in the words of a model; "" for nothing, None without a usable reply."""

        def missing_in(reply: Coverage) -> str:
            """Returns what is missing; "" where the model says `complete`."""
            coverage = reply.coverage.strip()
            if not coverage:
                raise UnreadableReply("The coverage says nothing")
            return "" if coverage.casefold() == "complete" else coverage

        shards = "\n".join(f"- {candidate.text}" for candidate in draft.candidates)
        call = self._judge_call("coverage", _COVERAGE_CHARACTERS, TEXT=self.text, SHARDS=shards)
        return (yield from ask_in_play(call, Coverage, missing_in, _TEMPERATURES))

    def _score_check(self, draft: Draft) -> Generator[Call, Completion, dict[str, float]]:
        """Plays the conditions of the check and returns the mean score of each, 0 to 1, by its name."""
        instruction = draft.instruction()
        task = self.task_for(instruction)
        conditions: tuple[Condition, ...] = ("full", "concat")
        means: dict[str, float] = {}
        for condition in conditions:
            scores: list[float] = []
            for run in range(self.checks):
                scenario = ShardedScenario(self.setting, instruction, task, condition, run)
                ending = yield from scenario.play()
                scores.append(ending.result["score"] or 0.0)
            means[condition] = sum(scores) / len(scores)
        return means

    def _judge_call(self, prompt: str, characters: int, **places: str) -> Call:
        """Returns a call of the judge whose reply has about `characters` characters; `places` fill in the prompt."""
        text = filled(self.setting.texts[prompt], places)
        seed = seed_from(self.setting.seed, self.source["task_id"], prompt, *places.values())
        return Call(
            module=prompt,
            role="judge",
            messages=(ChatMessage("user", text),),
            max_tokens=_EXTRA_TOKENS + characters // _MIN_CHARACTERS_PER_TOKEN,
            seed=seed,
        )


def read_full_text(record: Mapping[str, Any], where: str) -> str:
    """Returns the full instruction of a record in the format of the published instructions.

    Each task has its own key for it. The value is a text, or a list of turns (perhaps within another list) of which the
    first has the text as its `content`.

    Args:
        where: Place of the record, for the error.

    Raises:
        BadInstruction: The record has no full instruction, or its task has shards that are parts of documents.
    """
    task = record.get("task")
    if task not in TASKS:
        raise BadInstruction(f"{where}: `task` must be one of {', '.join(TASKS)}; it is {task!r}.")
    if not isinstance(record.get("task_id"), str):
        raise BadInstruction(f"{where} has no `task_id`.")
    for key in _TEXT_KEYS:
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
