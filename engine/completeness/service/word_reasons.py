"""The words that speak for and against the end of one conversation, and those that do so in many conversations.

The scores in force are taken apart into the words that made them. A *column* is the number that a word or a pair of
neighbors is hashed to (`engine.completeness.words`); different words may share one. A *matrix column* is a column at a
distance: the matrix of words at boundaries has all columns once for each distance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from engine.base.arrays import Floats, Ints
from engine.base.conversation import LogPiece, Message, Role, render_log
from engine.base.errors import NotYet
from engine.completeness.service.sets import name_of
from engine.completeness.stages.scoring import logs_of
from engine.completeness.stages.training_set import LogTexts
from engine.completeness.tables import score_sets, scores
from engine.completeness.word_reasons import (
    Places,
    ScoreReasons,
    StrongWord,
    WordWeights,
    explain,
    words_of_column,
)
from engine.completeness.words import COLUMNS, DISTANCES
from engine.conversations.tables import conversations
from engine.project.project import Project
from engine.project.sql import snapshot

_HOW_TO_SCORE_BY_WORDS = (
    "`workbench run complete PROJECT --mode words` makes scores by words;"
    " `workbench scores PROJECT --use N` shows them."
)
"""Hint of the error where the scores in force are not by words."""

MIN_SHARE_OF_CONVERSATIONS = 0.01
"""Least share of the conversations in which one of the strongest words stands."""

MAX_CONVERSATIONS = 1_000
"""Most conversations in which the strongest words are looked for."""

BOUNDARIES_PER_COLUMN = 9
"""Number of boundaries at which the words of a matrix column are looked up; the most frequent words stand for it, since
different words may share it."""

CANDIDATES_PER_WORD = 4
"""Number of matrix columns that are looked up for each word to list: some have no words, or repeat those of others."""


class WordReasons:
    """Takes the scores in force of one project apart into words."""

    def __init__(self, project: Project) -> None:
        """Reads nothing yet."""
        self._project = project

    def of_conversation(self, conversation_id: int, message: int | None = None) -> ScoreReasons:
        """Returns the reasons of the score at the last boundary at or before a message.

        Args:
            message: Index of the message; None for the last boundary of the conversation.

        Raises:
            NotYet: The scores in force are not by words, or the conversation has none there.
        """
        with self._project.reading() as conn, snapshot(conn):
            config = score_sets.config_in_force(conn)
            packed = (
                None if config is None else score_sets.packed_word_weights(conn, config.config_hash)
            )
            score = scores.current_score(conn, conversation_id)
            rows = conversations.conversations_for(conn, [conversation_id])
        if config is None:
            raise NotYet("Nothing is scored.", _HOW_TO_SCORE_BY_WORDS)
        if packed is None:
            raise NotYet(
                f"The scores in force are not by words: {name_of(config)}.", _HOW_TO_SCORE_BY_WORDS
            )
        curve = () if score is None else score.curve
        points_before = [point for point in curve if message is None or point.message <= message]
        if not points_before:
            reason = "there is no score" if score is None or not curve else "it cannot end here yet"
            hint = f" The first place is message {curve[0].message + 1}." if curve else ""
            raise NotYet(
                f"No words speak for or against an end: {reason}.",
                f"Choose another conversation.{hint}",
            )
        ((_, messages),) = rows
        pieces = render_log(messages)
        boundary_message = points_before[-1].message
        score_reasons = explain(
            pieces,
            _piece_index(pieces, boundary_message),
            WordWeights.unpacked(packed).boundary_weights(conversation_id, boundary_message),
        )
        reasons = tuple(
            replace(reason, places=_in_content(messages[reason.message], reason.places))
            for reason in score_reasons.reasons
        )
        return replace(score_reasons, reasons=reasons, p=points_before[-1].p_end_normalised)

    def strongest(self, count: int) -> list[StrongWord]:
        """Returns the strongest words of all, at most `count` for an end and as many against one, strongest first.

        Only words that stand in at least `MIN_SHARE_OF_CONVERSATIONS` of the conversations count, found in at most
        `MAX_CONVERSATIONS` of them, drawn with a fixed seed. Empty where the scores in force are not by words.
        """
        with self._project.reading() as conn:
            config_hash = score_sets.hash_in_force(conn)
            packed = (
                None if config_hash is None else score_sets.packed_word_weights(conn, config_hash)
            )
        weights = None if packed is None else WordWeights.unpacked(packed)
        if weights is None or not len(weights.ids):
            return []
        generator = np.random.default_rng(0)
        ids = np.sort(generator.permutation(weights.ids)[:MAX_CONVERSATIONS]).tolist()
        texts = LogTexts.read(self._project, ids)
        matrix = texts.words.matrix()
        # of each cell of the matrix the boundary; of each boundary the conversation and the message
        boundary_of_cell = np.repeat(np.arange(len(texts.words)), np.diff(matrix.indptr))
        conversation_of = np.repeat(np.arange(len(texts.ids)), texts.counts)
        message_of = [place.message for places in texts.places for place in places]
        share = _shares(matrix.indices, conversation_of[boundary_of_cell], len(texts.ids))
        mean = np.where(share >= MIN_SHARE_OF_CONVERSATIONS, weights.mean_weights, 0.0)

        def word_of(matrix_column: int) -> StrongWord | None:
            """Returns the word of a matrix column; None where no word has it, as with the marks of a speaker."""
            with_word = generator.permutation(boundary_of_cell[matrix.indices == matrix_column])
            boundaries = [
                (texts.ids[conversation_of[boundary]], message_of[boundary])
                for boundary in with_word[:BOUNDARIES_PER_COLUMN].tolist()
            ]
            words_and_speaker = self._most_common_words(boundaries, matrix_column)
            if words_and_speaker is None:
                return None
            weight = float(mean[matrix_column])
            return StrongWord(*words_and_speaker, weight, float(share[matrix_column]))

        for_end, against_end = (_choose_words(mean, sign, count, word_of) for sign in (1, -1))
        return for_end + against_end

    def _most_common_words(
        self, boundaries: Sequence[tuple[int, int]], matrix_column: int
    ) -> tuple[str, Role, int] | None:
        """Returns the words that have a matrix column at more of these boundaries than any others, who speaks, and the
        distance.

        Args:
            boundaries: Of each boundary, the id of its conversation and the index of the message after which it is.

        Returns:
            None where no word has it.
        """
        distance, column = divmod(matrix_column, COLUMNS)
        messages_by_id: dict[int, list[int]] = {}
        for conversation_id, message in boundaries:
            messages_by_id.setdefault(conversation_id, []).append(message)
        counts: Counter[tuple[str, Role, int]] = Counter()
        for log in logs_of(self._project, [conversation_id for conversation_id, _ in boundaries]):
            for message in messages_by_id[log.id]:
                piece = log.pieces[_piece_index(log.pieces, message) - distance]
                if text := words_of_column(piece, column):
                    counts[text, piece.role, distance] += 1
        return counts.most_common(1)[0][0] if counts else None


def _shares(matrix_columns: Ints, conversations: Ints, count: int) -> Floats:
    """Returns the share of `count` conversations that have a word at some boundary, by matrix column.

    Args:
        matrix_columns: Of each cell of the matrix of words.
        conversations: Of each cell, the index of its conversation.
    """
    column_count = DISTANCES * COLUMNS
    # Each pair of a conversation and a column once, as one integer: that sorts much faster than two numbers do.
    pairs = np.unique(conversations * column_count + matrix_columns)
    return np.bincount(pairs % column_count, minlength=column_count) / count


def _choose_words(
    weights: Floats, sign: int, count: int, word_of: Callable[[int], StrongWord | None]
) -> list[StrongWord]:
    """Returns the words with the strongest weights of a sign, at most `count`, the strongest first.

    Args:
        weights: By matrix column.
        word_of: Returns the word of a matrix column; None where it has none.
    """
    candidates = np.argsort(-sign * weights)[: CANDIDATES_PER_WORD * count].tolist()
    chosen: list[StrongWord] = []
    for word in filter(None, map(word_of, candidates)):
        # A pair and its words are listed once.
        if word.weight * sign > 0 and not any(_share_a_word(word, other) for other in chosen):
            chosen.append(word)
    return chosen[:count]


def _piece_index(pieces: Sequence[LogPiece], message: int) -> int:
    """Returns the index of the first piece of a message in its log."""
    return next(index for index, piece in enumerate(pieces) if piece.message == message)


def _share_a_word(first: StrongWord, second: StrongWord) -> bool:
    """Returns whether both have a word or a sign in common, of the same speaker at the same distance."""
    if (first.role, first.distance) != (second.role, second.distance):
        return False
    return not _parts(first.text).isdisjoint(_parts(second.text))


def _parts(text: str) -> set[str]:
    """Returns the words and signs in a text of `words_of_column`, without "begins", "ends" and "with", which mostly are
    the program's own."""
    return set(re.findall(r"\w+|[^\w\s]+", text)) - {"begins", "ends", "with"}


def _in_content(message: Message, places: Places) -> Places:
    """Returns the places that lie in the content of a message; the others are in its calls, or in another text that
    models read in its place."""
    if message.model_view is not None:
        return ()
    return tuple(place for place in places if place[1] <= len(message.content))
