"""A proposed sharding as an immutable value, with its edits: approve, reject, edit, move and remove shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import Instruction, Shard, as_instruction
from engine.simulate.sharded.making.pieces import Piece, lost

State = Literal["proposed", "approved", "rejected"]
KEY = "sharding"
"""Key in the record of an instruction that holds the data of its sharding."""

_STATES: Mapping[str, State] = {one: one for one in ("proposed", "approved", "rejected")}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposed shard.

    Attributes:
        piece: The part of the instruction that it states.
        by: Who wrote the text: a `model`, a `person`, or the `text` itself where the model's words lost something.
    """

    shard_id: int
    text: str
    piece: Piece
    by: Literal["model", "text", "person"]


@dataclass(frozen=True, slots=True)
class Draft:
    """Candidates for the shards of one instruction; the first opens the conversation.

    Attributes:
        keys: The keys of the task.
        text: The full instruction.
        missing: What the shards leave out according to a model; "" for nothing, None if no model was asked.
        segmented: Whether the model's segments were used; False if the text was cut into sentences.
        check: Mean scores of FULL and of CONCAT, 0 to 1; {} if they were not played.
    """

    task_id: str
    task: str
    keys: Mapping[str, Any]
    text: str
    candidates: tuple[Candidate, ...]
    missing: str | None = None
    segmented: bool = True
    state: State = "proposed"
    check: Mapping[str, float] = field(default_factory=dict)

    @property
    def lost(self) -> list[str]:
        """Numbers and names of the instruction that no candidate contains."""
        return lost(self.text, [one.text for one in self.candidates])

    def decided(self, state: State) -> Draft:
        """Returns the draft with another state.

        Raises:
            BadInstruction: Approved with no shard or an empty one.
        """
        if state == "approved":
            if not self.candidates:
                raise BadInstruction(f"{self.task_id} has no shard to approve.")
            if not all(one.text.strip() for one in self.candidates):
                raise BadInstruction(f"{self.task_id}: an empty shard cannot be approved.")
        return replace(self, state=state)

    def edited(self, shard_id: int, text: str) -> Draft:
        """Returns the draft with another text for one shard; its state becomes `proposed`, as after every edit."""
        return self._with(
            [
                replace(one, text=text, by="person") if one.shard_id == shard_id else one
                for one in self.candidates
            ]
        )

    def moved(self, shard_id: int, by: int) -> Draft:
        """Returns the draft with one shard moved by this many places (negative: earlier), at most to either end."""
        order = list(self.candidates)
        at = next(n for n, one in enumerate(order) if one.shard_id == shard_id)
        one = order.pop(at)
        order.insert(max(0, min(len(order), at + by)), one)
        return self._with(order)

    def without(self, shard_id: int) -> Draft:
        """Returns the draft without one shard."""
        return self._with([one for one in self.candidates if one.shard_id != shard_id])

    def instruction(self) -> Instruction:
        """Returns the instruction with these shards, numbered from 1 in order."""
        shards = tuple(
            Shard(number, candidate.text) for number, candidate in enumerate(self.candidates, 1)
        )
        return Instruction(self.task_id, self.task, shards, self.keys)

    def record(self) -> dict[str, Any]:
        """Returns the instruction in the published format, with the data of the draft under `sharding`."""
        making = {
            "state": self.state,
            "text": self.text,
            "segmented": self.segmented,
            "missing": self.missing,
            "lost": self.lost,
            "check": dict(self.check),
            "pieces": [[one.piece.start, one.piece.end, one.by] for one in self.candidates],
        }
        return {**self.instruction().record(), KEY: making}

    def _with(self, candidates: Sequence[Candidate]) -> Draft:
        # Coverage and check are about the old shards, so they are dropped.
        return replace(self, candidates=tuple(candidates), missing=None, check={}, state="proposed")


def state_of(instruction: Instruction) -> State:
    """Returns the state of an instruction; one without sharding data counts as approved."""
    making = instruction.keys.get(KEY)
    if not isinstance(making, dict):
        return "approved"
    return _STATES.get(str(making.get("state")), "proposed")


def as_draft(record: Mapping[str, Any]) -> Draft:
    """Reads a draft from its record.

    Raises:
        BadInstruction: The record is not a draft.
    """
    instruction = as_instruction(dict(record))
    making = instruction.keys.get(KEY)
    if not isinstance(making, dict):
        raise BadInstruction(f"{instruction.task_id} has no `{KEY}`: it is no draft.")
    try:
        pieces = [(Piece(start, end), by) for start, end, by in making["pieces"]]
        candidates = tuple(
            Candidate(shard.shard_id, shard.text, piece, by)
            for shard, (piece, by) in zip(instruction.shards, pieces, strict=True)
        )
        return Draft(
            instruction.task_id,
            instruction.task,
            {name: value for name, value in instruction.keys.items() if name != KEY},
            str(making["text"]),
            candidates,
            making["missing"],
            bool(making["segmented"]),
            state_of(instruction),
            dict(making["check"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInstruction(f"{instruction.task_id}: `{KEY}` is not that of a draft.") from error
