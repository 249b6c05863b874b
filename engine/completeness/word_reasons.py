"""The reasons of a score by words: the words at a boundary, each with its part of the log-odds of an end.

A regression on words is a sum: of its intercept, of a weight for each word and each pair of neighbors that is there,
and, where a model read the conversation too, of what its hidden states add. Nothing else makes the score, so the parts
say why it is what it is, to the rounding of the weights, which are kept as float16. The calibration, which turns the
sum into a probability, only bends the scale.

A *column* is the number that a word or a pair is hashed to (`engine.completeness.words`). Each message has a *mark*
before its first word and one after its last, which are words too. A *span* is a word, or a pair, that makes one reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from io import BytesIO
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Floats, Ints
from engine.base.conversation import MAX_MESSAGES, LogPiece, Role
from engine.completeness.words import (
    COLUMNS,
    DISTANCES,
    Words,
    source_indices,
    split_words,
    text_to_read,
    word_columns,
)

ReasonKind = Literal["words", "begins", "ends", "empty", "speakers"]
"""What a reason is: words of a message, words at its beginning or end, that it is empty, or who speaks in the last
messages, whatever they say."""

Places = tuple[tuple[int, int], ...]
"""Where words stand in a text: start and end (exclusive) of each place, in characters."""

MIN_SHARE = 0.01
"""Smallest `Reason.share` of a reason that is listed; `ScoreReasons.rest` is the sum of those with a smaller one."""

MIN_SHARE_OF_PAIR = 0.5
"""Two neighbors are one reason where the weight of the pair is at least this share of that of its stronger word."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A part of the log-odds of an end.

    Attributes:
        message: Index of the message in its conversation; for the kind `speakers` that of the last message.
        distance: Number of messages that models read after it, up to the boundary.
        role: Who speaks in the message.
        kind: What the reason is.
        text: The words, in small letters; for the kind `speakers` the roles in order; empty for an empty message.
        weight: Log-odds, above 0 for an end and below 0 against one.
        share: |weight| divided by the sum of |weight| over all parts of the score, intercept and states included.
        places: Where the words stand in `LogPiece.body`; `WordReasons` leaves only those in the content of the message.
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
        rest: Sum of the reasons that are not listed, because the share of each is below `MIN_SHARE`.
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
        """The reasons that speak for an end, the strongest first."""
        return [reason for reason in self.reasons if reason.weight > 0]

    @property
    def against_end(self) -> list[Reason]:
        """The reasons that speak against an end, the strongest first."""
        return [reason for reason in self.reasons if reason.weight < 0]


@dataclass(frozen=True, slots=True)
class StrongWord:
    """A word or a pair that speaks for or against an end in many conversations.

    Attributes:
        text: The words in small letters, as `reason_text` has them (`begins with no`).
        role: Who speaks in the message.
        distance: As in `Reason`.
        weight: Mean weight over all regressions.
        share: Share of the conversations that have the word at some boundary.
    """

    text: str
    role: Role
    distance: int
    weight: float
    share: float


class BoundaryWeights(NamedTuple):
    """The weights that made the score of one boundary.

    Attributes:
        words: Weight of each column at each distance, shape (`DISTANCES * COLUMNS`,).
        intercept: Intercept of the regressions on words.
        states: What the hidden states add to the log-odds; None where no state was read.
        absent: What is added where there is no message at a distance, shape (`DISTANCES`,).
    """

    words: Floats
    intercept: float
    states: float | None
    absent: Floats


@dataclass(frozen=True, slots=True)
class WordWeights:
    """The regressions that made the scores of a set by words, and which of them scored which conversation.

    Projects store the arrays under these names.

    Attributes:
        weights: Weights of the columns in the regression that scored each fold of each repeat of each fit, shape
            (fits, repeats, folds, `DISTANCES * COLUMNS`). There is a fit for each kind of log.
        intercepts: Intercepts of these regressions, shape (fits, repeats, folds).
        absent: What these regressions add for a message that is not there, as in `Regression`, shape
            (fits, repeats, folds, `DISTANCES`).
        ids: Ids of the conversations that were scored, rising, shape (conversations,).
        fit_of: Index of the fit that scored each conversation, shape (conversations,).
        folds: The fold of each conversation in each repeat, shape (repeats, conversations); -1, which
            means the last one, where it was not learned from.
        read: The boundaries at which hidden states were read, as `boundary_id` gives them, rising, shape (read,).
        state_parts: Two numbers for each of these boundaries, shape (read, 2): what the log-odds by words are
            multiplied with where states are joined to them, and what the states add to the product.
    """

    weights: NDArray[np.float16]
    intercepts: Floats
    absent: Floats
    ids: Ints
    fit_of: NDArray[np.int16]
    folds: NDArray[np.int8]
    read: Ints
    state_parts: Floats

    def boundary_weights(self, conversation_id: int, message: int) -> BoundaryWeights:
        """Returns the weights that made the score of the boundary after a message, given by its index.

        Raises:
            KeyError: The conversation was not scored.
        """
        index = _index_of(conversation_id, self.ids)
        if index is None:
            raise KeyError(conversation_id)
        repeats = np.arange(self.weights.shape[1])
        # The regressions that scored the conversation, one of each repeat, as an index of the arrays.
        regressions = int(self.fit_of[index]), repeats, self.folds[:, index].astype(np.int64)
        state_index = _index_of(boundary_id(conversation_id, message), self.read)
        factor_of_words, states = (
            (1.0, None) if state_index is None else self.state_parts[state_index].tolist()
        )
        return BoundaryWeights(
            words=factor_of_words * self.weights[regressions].mean(axis=0, dtype=np.float64),
            intercept=factor_of_words * float(self.intercepts[regressions].mean()),
            states=states,
            absent=factor_of_words * self.absent[regressions].mean(axis=0),
        )

    @property
    def mean_weights(self) -> Floats:
        """The mean weight of each column over all regressions, shape (`DISTANCES * COLUMNS`,)."""
        return np.asarray(self.weights.mean(axis=(0, 1, 2), dtype=np.float64))

    def packed(self) -> bytes:
        """Returns the arrays as they are stored: a few megabytes, since most words stand in no log. Takes up to a
        second."""
        file = BytesIO()
        np.savez_compressed(
            file, **{field.name: getattr(self, field.name) for field in fields(self)}
        )
        return file.getvalue()

    @classmethod
    def unpacked(cls, packed: bytes) -> WordWeights:
        """Returns the weights that `packed` wrote."""
        return cls(**np.load(BytesIO(packed)))


def boundary_id(conversation_id: int, message: int) -> int:
    """Returns one number that identifies the boundary after a message, given by its index, of a conversation."""
    return conversation_id * MAX_MESSAGES + message


def _index_of(value: int, rising: Ints) -> int | None:
    """Returns the index of a value among rising ones, shape (values,); None where it is not among them."""
    index = int(np.searchsorted(rising, value))
    return index if index < len(rising) and rising[index] == value else None


# The reasons at one boundary


def explain(pieces: Sequence[LogPiece], piece_index: int, weights: BoundaryWeights) -> ScoreReasons:
    """Returns the parts of the log-odds of an end at a boundary; `p` of the result is left at 0.

    Args:
        pieces: The log of the conversation.
        piece_index: Index of the piece after which the conversation could end.
        weights: The weights that made the score of this boundary.
    """
    last_pieces = pieces[max(0, piece_index + 1 - DISTANCES) : piece_index + 1]
    parts: list[Reason] = []
    weight_of_speakers = 0.0
    for distance, piece in enumerate(reversed(last_pieces)):
        weight_of_speaker, reasons = _reasons_of_message(
            piece, distance, weights.words[distance * COLUMNS :][:COLUMNS]
        )
        weight_of_speakers += weight_of_speaker
        parts += reasons
    roles = ", ".join(piece.role for piece in last_pieces)
    parts.append(_reason(pieces[piece_index], 0, "speakers", roles, weight_of_speakers, ()))
    states = weights.states or 0.0
    intercept = weights.intercept + float(weights.absent[len(last_pieces) :].sum())
    total = sum(abs(part.weight) for part in parts) + abs(intercept) + abs(states)
    parts_with_share = [replace(part, share=abs(part.weight) / (total or 1.0)) for part in parts]
    large_parts = [part for part in parts_with_share if part.share >= MIN_SHARE]
    return ScoreReasons(
        message=pieces[piece_index].message,
        reasons=tuple(sorted(large_parts, key=lambda reason: -reason.share)),
        rest=sum(part.weight for part in parts_with_share if part.share < MIN_SHARE),
        intercept=intercept,
        states=weights.states,
        log_odds=sum(part.weight for part in parts) + intercept + states,
    )


def _reasons_of_message(
    piece: LogPiece, distance: int, weights: Floats
) -> tuple[float, list[Reason]]:
    """Returns the weight of who speaks in a message, and its other parts of the sum, without their shares.

    Args:
        weights: Of the columns at the distance of the message, shape (`COLUMNS`,).
    """
    words = split_words([text_to_read(piece)])
    columns = np.concatenate(word_columns(words, [piece.role]))
    # A column counts once in a message, so all words and pairs that have it share its weight equally.
    _, column_index, uses_of_column = np.unique(columns, return_inverse=True, return_counts=True)
    shares_of_weight = (weights[columns] / uses_of_column[column_index]).tolist()
    word_count = len(words.hashes)  # the marks at both ends included
    word_weights, pair_weights = shares_of_weight[:word_count], shares_of_weight[word_count:]
    begin_mark, *inner_weights, end_mark = word_weights
    # Every message of a speaker has both marks.
    weight_of_speaker = begin_mark + end_mark
    if not inner_weights:
        (weight_of_empty,) = pair_weights
        return weight_of_speaker, [_reason(piece, distance, "empty", "", weight_of_empty, ())]
    spans = _spans(words, word_weights, pair_weights)
    indices = source_indices(piece)
    by_text: dict[tuple[ReasonKind, str], tuple[float, Places]] = {}
    for span, weight in _weight_by_span(spans, word_weights, pair_weights).items():
        text, places = _text_and_places(piece, words, span, indices)
        key = span.kind, text
        weight_before, places_before = by_text.get(key, (0.0, ()))
        by_text[key] = weight_before + weight, places_before + places
    return weight_of_speaker, [
        _reason(piece, distance, kind, text, weight, places)
        for (kind, text), (weight, places) in by_text.items()
    ]


def _reason(
    piece: LogPiece, distance: int, kind: ReasonKind, text: str, weight: float, places: Places
) -> Reason:
    """Returns a part of the sum whose share is not known yet."""
    return Reason(piece.message, distance, piece.role, kind, text, weight, 0.0, places)


class _Span(NamedTuple):
    """Neighboring words that make one reason: their indices, the last one included."""

    kind: ReasonKind
    first: int
    last: int


def _spans(
    words: Words, word_weights: Sequence[float], pair_weights: Sequence[float]
) -> dict[int, _Span]:
    """Returns the span of each word of a message, by its index: a pair where that says more, else the word alone.

    Pairs are taken greedily, the strongest first; a word is in one span only. A mark is in no span: the pair of a mark
    and a word makes a span of the word alone, whose kind is `begins` or `ends`. A sign such as a comma goes with a word
    only where the two touch, so that there is no reason `, thank`.

    Args:
        words: The words of the message, of which there is one at least.
        word_weights: Weight of each word, the marks at both ends included.
        pair_weights: Weight of each of them with the one after it.
    """
    end_mark = len(word_weights) - 1
    parts = [
        words.text[first : last + 1]
        for first, last in zip(words.first_byte.tolist(), words.last_byte.tolist(), strict=True)
    ]
    is_sign = [part.isascii() and not part.replace(b"_", b"").isalnum() for part in parts]
    touches_next = words.last_byte[:-1] + 1 == words.first_byte[1:]
    spans = {word: _Span("words", word, word) for word in range(1, end_mark)}
    in_a_pair: set[int] = set()
    # a pair is known by the index of its first word
    for pair in sorted(range(end_mark), key=lambda index: -abs(pair_weights[index])):
        inner = [word for word in (pair, pair + 1) if 0 < word < end_mark]  # without the marks
        stronger = max(abs(word_weights[word]) for word in inner)
        is_weak = abs(pair_weights[pair]) < MIN_SHARE_OF_PAIR * stronger
        if is_weak or not in_a_pair.isdisjoint(inner):
            continue
        if len(inner) == 2 and any(is_sign[word] for word in inner) and not touches_next[pair]:
            continue
        kind = _kind_of_words(pair, pair + 1, end_mark)
        spans |= dict.fromkeys(inner, _Span(kind, inner[0], inner[-1]))
        in_a_pair.update(inner)
    return spans


def _kind_of_words(first: int, last: int, end_mark: int) -> ReasonKind:
    """Returns the kind of a word or a pair, given its first and last index: whether it has one of the two marks."""
    if first == 0:
        return "begins"
    if last == end_mark:
        return "ends"
    return "words"


def _weight_by_span(
    spans: Mapping[int, _Span], word_weights: Sequence[float], pair_weights: Sequence[float]
) -> dict[_Span, float]:
    """Returns the weight of each span: of its words and of the pairs in it; arguments as in `_spans`.

    The weight of a pair over the border of two spans is shared by both.
    """
    weights = dict.fromkeys(spans.values(), 0.0)
    for word, span in spans.items():
        weights[span] += word_weights[word]
    for pair_index, pair_weight in enumerate(pair_weights):
        spans_of_pair = [spans[word] for word in (pair_index, pair_index + 1) if word in spans]
        for span in spans_of_pair:
            weights[span] += pair_weight / len(spans_of_pair)
    return weights


def _text_and_places(
    piece: LogPiece, words: Words, span: _Span, indices: Ints
) -> tuple[str, Places]:
    """Returns the words of a span in small letters, and where they stand in the body of the message.

    Args:
        indices: As `source_indices` returns them.
    """
    first_byte, last_byte = words.first_byte[span.first], words.last_byte[span.last]
    start, stop = int(indices[first_byte]), int(indices[last_byte]) + 1
    is_in_body = 0 <= start < stop  # the name of a tool, read before the body, has the index -1
    if is_in_body:
        return " ".join(piece.body[start:stop].lower().split()), ((start, stop),)
    return " ".join(words.text[first_byte : last_byte + 1].decode().split()), ()


# Reasons as text


def reason_text(reason: Reason) -> str:
    """Returns what a reason is, such as `begins with no`; not display-safe."""
    return _phrase(reason.kind, reason.text)


def _phrase(kind: ReasonKind, text: str) -> str:
    """Returns the words of a reason of a kind, such as `begins with no`."""
    return {
        "words": text,
        "begins": f"begins with {text}",
        "ends": f"ends with {text}",
        "empty": "is empty",
        "speakers": f"{text} speak",
    }[kind]


def words_of_column(piece: LogPiece, column: int) -> str | None:
    """Returns the word or the pair of a message that has a column, such as `ends with ?`; None where none has."""
    words = split_words([text_to_read(piece)])
    single, pair = word_columns(words, [piece.role])
    end_mark = len(words.hashes) - 1
    words_with_column = (np.flatnonzero(single[1:end_mark] == column) + 1).tolist()
    spans = [(index, index) for index in words_with_column]
    spans += [(index, index + 1) for index in np.flatnonzero(pair == column).tolist()]
    if not spans:
        return None
    first, last = spans[0]
    if first == 0 and last == end_mark:
        return _phrase("empty", "")
    inner = [index for index in (first, last) if 0 < index < end_mark]
    text = words.text[words.first_byte[inner[0]] : words.last_byte[inner[-1]] + 1].decode()
    return _phrase(_kind_of_words(first, last, end_mark), " ".join(text.split()))
