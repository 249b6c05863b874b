"""The reasons of a score by words: the words at a boundary, each with its part of the log-odds of an end.

A regression on words is a sum: of its intercept, of a weight for each word and each pair of neighbors that is there,
and, where a model read the conversation too, of what its hidden states add. Nothing else makes the score, so the parts
say why it is what it is, to the rounding of the weights, which are kept as float16. The calibration, which turns the
sum into a probability, only bends the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Floats, Ints
from engine.base.conversation import MAX_MESSAGES, LogPiece, Role
from engine.completeness.words import (
    COLUMNS,
    DISTANCES,
    Words,
    origins,
    read_text,
    split_words,
    word_columns,
)

ReasonKind = Literal["words", "begins", "ends", "empty", "speakers"]
"""What a reason is: words of a message, words at its beginning or end, that it is empty, or who speaks in the last
messages, whatever they say."""

Places = tuple[tuple[int, int], ...]
"""Where words stand in a text: start and end of each place, in characters."""

MIN_SHARE = 0.01
"""Least share of all parts, taken without their signs, at which a reason is told; the sum of the others is."""

MIN_SHARE_OF_PAIR = 0.5
"""A pair is told as one where its own weight is at least this share of that of its stronger word."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A part of the log-odds of an end.

    Attributes:
        message: Index of the message in its conversation; of `speakers` the last one.
        distance: Number of messages that models read after it, up to the boundary.
        role: Who speaks in it.
        kind: What the reason is.
        text: The words, in small letters; of `speakers` their roles in order; empty for an empty message.
        weight: Log-odds, above 0 for an end and below 0 against one.
        share: The weight without its sign, as a share of all parts of the score without theirs.
        places: Where the words stand in the text that models read of the message, in `WordReasons` in its content.
    """

    message: int
    distance: int
    role: Role
    kind: ReasonKind
    text: str
    weight: float
    share: float
    places: Places


@dataclass(frozen=True, slots=True)
class ScoreReasons:
    """The parts of the log-odds of an end at a boundary: `reasons`, `rest`, `intercept` and `states` add up to them.

    Attributes:
        message: Index of the message after which the conversation could end.
        reasons: The strongest first.
        rest: Sum of the reasons that add less than `MIN_SHARE` each, none of which is told.
        intercept: What the sum begins with, whatever the words are; messages that are not there add to it.
        states: What the hidden states of a model add; None where the score is by words alone.
        log_odds: Before the calibration.
        p: The score there, calibrated; `WordReasons` adds it.
    """

    message: int
    reasons: tuple[Reason, ...]
    rest: float
    intercept: float
    states: float | None
    log_odds: float
    p: float = 0.0

    @property
    def for_end(self) -> list[Reason]:
        """Those that speak for an end, the strongest first."""
        return [reason for reason in self.reasons if reason.weight > 0]

    @property
    def against_end(self) -> list[Reason]:
        """Those that speak against an end, the strongest first."""
        return [reason for reason in self.reasons if reason.weight < 0]


@dataclass(frozen=True, slots=True)
class StrongWord:
    """A word or a pair that speaks for or against an end in many conversations.

    Attributes:
        text: The words, in small letters, with what of the message they are.
        role: Who speaks.
        distance: As in `Reason`.
        weight: Mean over all regressions.
        share: Of the conversations that have it at some boundary.
    """

    text: str
    role: Role
    distance: int
    weight: float
    share: float


class BoundaryWeights(NamedTuple):
    """The weights that made the score of one boundary.

    Attributes:
        words: Shape (`DISTANCES * COLUMNS`,).
        intercept: Of the regressions on words.
        states: What the hidden states add; None where none was read.
        absent: What a message adds that is not there, by its distance, shape (`DISTANCES`,).
    """

    words: Floats
    intercept: float
    states: float | None
    absent: Floats


@dataclass(frozen=True, slots=True)
class WordWeights:
    """What made the scores of a set by words.

    Attributes:
        weights: Of words, by the regression that scored each fold of each repeat of each fit, shape
            (fits, repeats, folds, `DISTANCES * COLUMNS`). There is a fit for each kind of log.
        intercepts: Of these regressions, shape (fits, repeats, folds).
        absent: As in `Regression`, shape (fits, repeats, folds, `DISTANCES`).
        ids: The conversations that were scored, rising, shape (conversations,).
        fit_of: The fit that scored each, shape (conversations,).
        folds: The fold of each in each repeat, shape (repeats, conversations); -1, the last one, where it was not
            learned from.
        read: The boundaries at which hidden states were read, as `boundary_id` gives them, rising, shape (read,).
        state_parts: What the log-odds by words are multiplied with at each of these, and what is added to them, shape
            (read, 2).
    """

    weights: NDArray[np.float16]
    intercepts: Floats
    absent: Floats
    ids: Ints
    fit_of: NDArray[np.int16]
    folds: NDArray[np.int8]
    read: Ints
    state_parts: Floats

    def at(self, conversation_id: int, message: int) -> BoundaryWeights:
        """Returns the weights that made the score of the boundary after a message, given by its index.

        Raises:
            KeyError: The conversation was not scored.
        """
        index = _index(self.ids, conversation_id)
        if index is None:
            raise KeyError(conversation_id)
        repeats = np.arange(self.weights.shape[1])
        chosen = int(self.fit_of[index]), repeats, self.folds[:, index].astype(np.int64)
        place = _index(self.read, boundary_id(conversation_id, message))
        factor, by_states = (1.0, None) if place is None else self.state_parts[place].tolist()
        return BoundaryWeights(
            factor * self.weights[chosen].mean(axis=0, dtype=np.float64),
            factor * float(self.intercepts[chosen].mean()),
            by_states,
            factor * self.absent[chosen].mean(axis=0),
        )

    @property
    def mean(self) -> Floats:
        """The mean weight of each column over all regressions, shape (`DISTANCES * COLUMNS`,)."""
        return np.asarray(self.weights.mean(axis=(0, 1, 2), dtype=np.float64))


def boundary_id(conversation_id: int, message: int) -> int:
    """Returns one number for a conversation and the index of a message."""
    return conversation_id * MAX_MESSAGES + message


def _index(rising: Ints, value: int) -> int | None:
    """Returns the index of a value; None where it is not there."""
    index = int(np.searchsorted(rising, value))
    return index if index < len(rising) and rising[index] == value else None


def in_words(reason: Reason) -> str:
    """Returns what a reason is, such as `begins with no`; not display-safe."""
    return {
        "words": reason.text,
        "begins": f"begins with {reason.text}",
        "ends": f"ends with {reason.text}",
        "empty": "is empty",
        "speakers": f"{reason.text} speak",
    }[reason.kind]


def explain(pieces: Sequence[LogPiece], end: int, weights: BoundaryWeights) -> ScoreReasons:
    """Returns the parts of the log-odds of an end at a boundary.

    Args:
        pieces: The log of the conversation.
        end: Index of the piece at the boundary.
    """
    last = pieces[max(0, end + 1 - DISTANCES) : end + 1]
    parts: list[Reason] = []
    speakers = 0.0
    for distance, piece in enumerate(reversed(last)):
        of_speaker, reasons = _of_message(
            piece, distance, weights.words[distance * COLUMNS :][:COLUMNS]
        )
        speakers += of_speaker
        parts += reasons
    roles = ", ".join(piece.role for piece in last)
    parts.append(_reason(pieces[end], 0, "speakers", roles, speakers, ()))
    states = weights.states or 0.0
    intercept = weights.intercept + float(weights.absent[len(last) :].sum())
    total = sum(abs(part.weight) for part in parts) + abs(intercept) + abs(states)
    shared = [replace(part, share=abs(part.weight) / (total or 1.0)) for part in parts]
    large_parts = [part for part in shared if part.share >= MIN_SHARE]
    log_odds = sum(part.weight for part in parts) + intercept + states
    return ScoreReasons(
        pieces[end].message,
        tuple(sorted(large_parts, key=lambda reason: -reason.share)),
        sum(part.weight for part in shared if part.share < MIN_SHARE),
        intercept,
        weights.states,
        log_odds,
    )


def _of_message(piece: LogPiece, distance: int, weights: Floats) -> tuple[float, list[Reason]]:
    """Returns what the speaker of a message has in the sum, and its other parts, without their shares.

    Args:
        weights: Of the columns at the distance of the message, shape (`COLUMNS`,).
    """
    words = split_words([read_text(piece)])
    columns = np.concatenate(word_columns(words, [piece.role]))
    # A column counts once, however many words and pairs of the message have it.
    _, index, counts = np.unique(columns, return_inverse=True, return_counts=True)
    values = (weights[columns] / counts[index]).tolist()
    end = len(words.hashes) - 1  # the mark behind the last word; the words are 1 to `end` - 1
    single, pair = values[: end + 1], values[end + 1 :]
    # Every message of a speaker has both marks.
    of_speaker = single[0] + single[end]
    if end == 1:
        return of_speaker, [_reason(piece, distance, "empty", "", pair[0], ())]
    spans = _spans(words, single, pair)
    weight_of_span = dict.fromkeys(spans.values(), 0.0)
    for word, span in spans.items():
        weight_of_span[span] += single[word]
    for first in range(end):
        both = [spans[word] for word in (first, first + 1) if word in spans]
        for span in both:
            weight_of_span[span] += pair[first] / len(both)
    origin = origins(piece)
    same: dict[tuple[ReasonKind, str], tuple[float, Places]] = {}
    for span, weight in weight_of_span.items():
        first_byte, last_byte = words.first[span.first], words.last[span.last]
        start, stop = int(origin[first_byte]), int(origin[last_byte]) + 1
        text = words.text[first_byte : last_byte + 1].decode()
        places: Places = ()
        if 0 <= start < stop:
            text, places = piece.body[start:stop].lower(), ((start, stop),)
        key = span.kind, " ".join(text.split())
        before, places_before = same.get(key, (0.0, ()))
        same[key] = before + weight, places_before + places
    return of_speaker, [
        _reason(piece, distance, kind, text, weight, places)
        for (kind, text), (weight, places) in same.items()
    ]


def _reason(
    piece: LogPiece, distance: int, kind: ReasonKind, text: str, weight: float, places: Places
) -> Reason:
    """Returns a part of the sum whose share is not known yet."""
    return Reason(piece.message, distance, piece.role, kind, text, weight, 0.0, places)


def words_of_column(piece: LogPiece, column: int) -> str | None:
    """Returns the word or the pair of a message that has a column, such as `ends with ?`; None where none has."""
    words = split_words([read_text(piece)])
    single, pair = word_columns(words, [piece.role])
    end = len(words.hashes) - 1
    spans = [(index, index) for index in np.flatnonzero(single[1:end] == column) + 1]
    spans += [(index, index + 1) for index in np.flatnonzero(pair == column)]
    if not spans:
        return None
    first, last = spans[0]
    if first == 0 and last == end:
        return "is empty"
    inner = [index for index in (first, last) if 0 < index < end]
    text = words.text[words.first[inner[0]] : words.last[inner[-1]] + 1].decode()
    mark = "begins with " if first == 0 else "ends with " if last == end else ""
    return mark + " ".join(text.split())


class _Span(NamedTuple):
    """Neighboring words that are told as one: their indices, the last one included."""

    kind: ReasonKind
    first: int
    last: int


def _spans(words: Words, single: Sequence[float], pair: Sequence[float]) -> dict[int, _Span]:
    """Returns the span of each word of a message, by its index: a pair where that says more, else the word alone.

    A sign such as a comma goes with a word only where the two touch, so that no `, thank` is told.

    Args:
        single: Weight of each word, the marks at both ends included.
        pair: Weight of each of them with the one after it.
    """
    end = len(single) - 1
    parts = [
        words.text[first : last + 1]
        for first, last in zip(words.first.tolist(), words.last.tolist(), strict=True)
    ]
    is_sign = [part.isascii() and not part.replace(b"_", b"").isalnum() for part in parts]
    touches = words.last[:-1] + 1 == words.first[1:]
    spans: dict[int, _Span] = {}
    for first in sorted(range(end), key=lambda first: -abs(pair[first])):
        both = [word for word in (first, first + 1) if 0 < word < end]
        stronger = max(abs(single[word]) for word in both)
        if abs(pair[first]) < MIN_SHARE_OF_PAIR * stronger or any(word in spans for word in both):
            continue
        if len(both) == 2 and any(is_sign[word] for word in both) and not touches[first]:
            continue
        kind: ReasonKind = "begins" if first == 0 else "ends" if first == end - 1 else "words"
        spans |= dict.fromkeys(both, _Span(kind, both[0], both[-1]))
    alone = {word: _Span("words", word, word) for word in range(1, end)}
    return alone | spans
