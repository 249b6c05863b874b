"""A proposed sharding as an immutable value, with its edits: approve, reject, edit, move and remove shards; and the
pieces of the instruction that shards state, with what they leave out.

A shard is one sentence of a simulated user; it states a piece, which is a span of the full instruction. The condition
FULL plays the instruction as it is, CONCAT all shards in one message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import Instruction, Shard, as_instruction

_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n\s*\n")
"""Matches the space after a sentence, with quotes and brackets that end it, and empty lines between paragraphs."""

_CLAUSE = re.compile(r"[,;:]\s+|\s+(?=(?:and|but|while|if|where|so that)\s)")
"""Matches a comma and its like, and the space before a conjunction: ends of clauses in a text of one sentence."""

_WORD = re.compile(r"\w+")
"""A word; a piece without one is none."""

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
"""Matches a number with its separators, such as `1,000.50` or `12:30`."""

_NAME = re.compile(r"(?<![.!?:\"]\s)(?<!^)(?<!\n)\b[A-Z][a-z]{2,}\b")
"""Matches a capitalized word inside of a sentence, so a name: not at the start of a text, line or sentence."""

_MARKS = re.compile(r"[{}\[\]<>\n]")
"""Signs that a small model adds when it writes more than a sentence."""

_MAX_JOINED_WORDS = 3
"""Most words of a gap that joins a neighbouring piece instead of becoming a piece."""


# Pieces of an instruction


class Piece(NamedTuple):
    """The place of a piece in the text: characters `start` to `end`."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Returns the text of the piece."""
        return text[self.start : self.end]


def by_sentences(text: str) -> list[Piece]:
    """Returns the sentences of a text; its clauses if it has only one sentence."""
    sentences = _split(text, _SENTENCE)
    return sentences if len(sentences) > 1 else _split(text, _CLAUSE)


def pieces_of_excerpts(excerpts: Sequence[str], text: str) -> list[Piece] | None:
    """Returns pieces for excerpts and the gaps between them; None if an excerpt is not in the text or overlaps another.

    Excerpts may come in any order and may differ from the text in white space. A stretch between them becomes a piece
    of its own if it has more than a few words, else it joins the piece before it (the first: after it), so that
    together the pieces hold every word of the text.
    """
    pieces: list[Piece] = []
    for excerpt in excerpts:
        words = excerpt.split()
        if not words:
            continue
        pattern = re.compile(r"\s+".join(map(re.escape, words)))
        candidates = (Piece(*match.span()) for match in pattern.finditer(text))
        # The first place that no other excerpt has taken: an instruction may say the same twice.
        free_piece = next(
            (span for span in candidates if not any(_overlap(span, piece) for piece in pieces)),
            None,
        )
        if free_piece is None:
            return None
        pieces.append(free_piece)
    return _with_gaps(sorted(pieces), text) if pieces else None


def lost(text: str, shards: Sequence[str]) -> list[str]:
    """Returns the numbers and names of a text that no shard contains, in order of the text."""
    in_shards = " ".join(shards)
    numbers = set(_NUMBER.findall(in_shards))
    words = {word.casefold() for word in _WORD.findall(in_shards)}
    missing = [
        (match.start(), match.group())
        for match in _NUMBER.finditer(text)
        if match.group() not in numbers
    ]
    missing += [
        (match.start(), match.group())
        for match in _NAME.finditer(text)
        if match.group().casefold() not in words
    ]
    return list(dict.fromkeys(word for _, word in sorted(missing)))


def says_no_other(shard: str, piece: str) -> bool:
    """Whether a shard has exactly the numbers of its piece, and no brackets or line breaks that the piece lacks: small
    models tend to add other pieces of the instruction or more JSON to a sentence."""
    same_numbers = set(_NUMBER.findall(shard)) == set(_NUMBER.findall(piece))
    return same_numbers and set(_MARKS.findall(shard)) <= set(piece)


def _split(text: str, border: re.Pattern[str]) -> list[Piece]:
    """Returns the pieces between the borders that contain a word, without white space around them."""
    starts = [0, *(match.end() for match in border.finditer(text))]
    ends = [*(match.start() for match in border.finditer(text)), len(text)]
    pieces = [_trim(Piece(*span), text) for span in zip(starts, ends, strict=True)]
    return [piece for piece in pieces if _WORD.search(piece.of(text))]


def _trim(piece: Piece, text: str) -> Piece:
    """Returns a piece without white space at its ends."""
    words = piece.of(text)
    start = piece.start + len(words) - len(words.lstrip())
    end = piece.end - len(words) + len(words.rstrip())
    return Piece(start, max(start, end))  # a piece of spaces alone is empty


def _overlap(piece: Piece, other: Piece) -> bool:
    """Whether two pieces share a character."""
    return piece.start < other.end and other.start < piece.end


def _with_gaps(pieces: Sequence[Piece], text: str) -> list[Piece]:
    """Returns sorted pieces with the gaps between them, as `pieces_of_excerpts` explains."""
    complete: list[Piece] = []
    gap_start = 0
    # An empty piece at the end, so that the last gap is looked at too.
    for piece in [*pieces, Piece(len(text), len(text))]:
        gap = _trim(Piece(gap_start, piece.start), text)
        word_count = len(_WORD.findall(gap.of(text)))
        is_short = 0 < word_count <= _MAX_JOINED_WORDS
        if word_count and not is_short:
            complete.append(gap)
        elif is_short and complete:
            complete[-1] = Piece(complete[-1].start, gap.end)
        elif is_short:
            piece = Piece(gap.start, piece.end)
        if piece.start < piece.end:
            complete.append(piece)
        gap_start = piece.end
    return complete


# A proposed sharding

State = Literal["proposed", "approved", "rejected"]
"""What a person decided on a draft; nothing yet where it is `proposed`."""

MIN_SCORE_RATIO = 0.8
"""Least ratio of the scores of CONCAT and FULL; below it the shards have lost information."""

KEY = "sharding"
"""Key in the record of an instruction that holds the data of its sharding."""

_STATES: Mapping[str, State] = {name: name for name in ("proposed", "approved", "rejected")}
"""Each state by its name, for the type checker."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposed shard.

    Attributes:
        shard_id: Its number in the draft, which stays when shards are moved.
        text: Its words.
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
        task_id: Id of the instruction.
        task: Kind of the instruction.
        keys: The keys of the task.
        text: The full instruction.
        missing: What the shards leave out according to a model; "" for nothing, None if no model was asked.
        segmented: Whether the model's segments were used; False if the text was cut into sentences.
        state: What a person decided.
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
    def holds(self) -> bool:
        """Whether the mean score of CONCAT is at least `MIN_SCORE_RATIO` of that of FULL: the shards then keep the
        information. False without a check."""
        return bool(self.check) and self.check["concat"] >= MIN_SCORE_RATIO * self.check["full"]

    @property
    def lost(self) -> list[str]:
        """Numbers and names of the instruction that no candidate contains."""
        return lost(self.text, [shard.text for shard in self.candidates])

    def decided(self, state: State) -> Draft:
        """Returns the draft with another state.

        Raises:
            BadInstruction: Approved with no shard or an empty one.
        """
        if state == "approved":
            if not self.candidates:
                raise BadInstruction(f"{self.task_id} has no shard to approve.")
            if not all(shard.text.strip() for shard in self.candidates):
                raise BadInstruction(f"{self.task_id}: an empty shard cannot be approved.")
        return replace(self, state=state)

    def edited(self, shard_id: int, text: str) -> Draft:
        """Returns the draft with another text for one shard; its state becomes `proposed`, as after every edit."""
        return self._with(
            [
                replace(shard, text=text, by="person") if shard.shard_id == shard_id else shard
                for shard in self.candidates
            ]
        )

    def moved(self, shard_id: int, by: int) -> Draft:
        """Returns the draft with one shard moved by this many places (negative: earlier), at most to either end."""
        order = list(self.candidates)
        index = next(place for place, shard in enumerate(order) if shard.shard_id == shard_id)
        shard = order.pop(index)
        order.insert(max(0, min(len(order), index + by)), shard)
        return self._with(order)

    def without(self, shard_id: int) -> Draft:
        """Returns the draft without one shard."""
        return self._with([shard for shard in self.candidates if shard.shard_id != shard_id])

    def instruction(self) -> Instruction:
        """Returns the instruction with these shards, numbered from 1 in order."""
        shards = tuple(
            Shard(number, candidate.text) for number, candidate in enumerate(self.candidates, 1)
        )
        return Instruction(self.task_id, self.task, shards, self.keys)

    def record(self) -> dict[str, Any]:
        """Returns the instruction in the published format, with the data of the draft under `sharding`."""
        sharding = {
            "state": self.state,
            "text": self.text,
            "segmented": self.segmented,
            "missing": self.missing,
            "lost": self.lost,
            "check": dict(self.check),
            "pieces": [[shard.piece.start, shard.piece.end, shard.by] for shard in self.candidates],
        }
        return {**self.instruction().record(), KEY: sharding}

    def _with(self, candidates: Sequence[Candidate]) -> Draft:
        """Returns the draft with other candidates, which a person has not decided on."""
        # Coverage and check are about the old shards, so they are dropped.
        return replace(self, candidates=tuple(candidates), missing=None, check={}, state="proposed")


def state_of(instruction: Instruction) -> State:
    """Returns the state of an instruction; one without sharding data counts as approved."""
    sharding = instruction.keys.get(KEY)
    if not isinstance(sharding, dict):
        return "approved"
    return _STATES.get(str(sharding.get("state")), "proposed")


def as_draft(record: Mapping[str, Any]) -> Draft:
    """Reads a draft from its record.

    Raises:
        BadInstruction: The record is not a draft.
    """
    instruction = as_instruction(dict(record))
    sharding = instruction.keys.get(KEY)
    if not isinstance(sharding, dict):
        raise BadInstruction(f"{instruction.task_id} has no `{KEY}`: it is no draft.")
    try:
        pieces = [(Piece(start, end), by) for start, end, by in sharding["pieces"]]
        candidates = tuple(
            Candidate(shard.shard_id, shard.text, piece, by)
            for shard, (piece, by) in zip(instruction.shards, pieces, strict=True)
        )
        return Draft(
            task_id=instruction.task_id,
            task=instruction.task,
            keys={name: value for name, value in instruction.keys.items() if name != KEY},
            text=str(sharding["text"]),
            candidates=candidates,
            missing=sharding["missing"],
            segmented=bool(sharding["segmented"]),
            state=state_of(instruction),
            check=dict(sharding["check"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInstruction(f"{instruction.task_id}: `{KEY}` is not that of a draft.") from error
