"""Which words speak for and against the end of a conversation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.base.conversation import Message, Role, render_log
from engine.base.errors import NotYet
from engine.completeness.conversation_logs import logs_of
from engine.completeness.service.sets import name_of
from engine.completeness.stages.log_texts import LogTexts
from engine.completeness.tables import score_sets, scores, word_weights
from engine.completeness.word_reasons import (
    Places,
    ScoreReasons,
    StrongWord,
    explain,
    words_of_column,
)
from engine.completeness.words import COLUMNS, DISTANCES
from engine.conversations.tables import conversations
from engine.project.project import Project
from engine.project.sql import snapshot

_BY_WORDS = "`workbench run complete PROJECT --mode words` makes scores by words; `scores PROJECT --use N` shows them."
"""What to do where the scores in force are not by words."""

MIN_SHARE_OF_CONVERSATIONS = 0.01
"""Least share of the conversations in which one of the strongest words stands."""

MAX_CONVERSATIONS = 1_000
"""Most conversations in which the strongest words are looked for."""

ROWS_PER_WORD = 9
"""Number of boundaries at which the words of a column are looked up; the most frequent are told, since words may share
a column."""


class WordReasons:
    """Takes the scores in force of one project apart into words."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def of_conversation(self, conversation_id: int, message: int | None = None) -> ScoreReasons:
        """Returns the reasons of the score at a boundary.

        Args:
            message: Index of a message: the last boundary that is not after it is taken; None for the last of all.

        Raises:
            NotYet: The scores in force are not by words, or the conversation has none there.
        """
        with self._project.reading() as conn, snapshot(conn):
            config = score_sets.config_in_force(conn)
            weights = None if config is None else word_weights.get(conn, config.config_hash)
            score = scores.score(conn, conversation_id)
            rows = conversations.conversations_for(conn, [conversation_id])
        if config is None:
            raise NotYet("Nothing is scored.", _BY_WORDS)
        if weights is None:
            raise NotYet(f"The scores in force are not by words: {name_of(config)}.", _BY_WORDS)
        curve = () if score is None else score.curve
        points = [point for point in curve if message is None or point.message <= message]
        if not points:
            why = "there is no score" if score is None or not curve else "it cannot end here yet"
            first = f" The first place is message {curve[0].message + 1}." if curve else ""
            raise NotYet(f"No words speak for or against an end: {why}.", f"Choose another.{first}")
        ((_, messages),) = rows
        pieces = render_log(messages)
        at = points[-1].message
        end = next(index for index, piece in enumerate(pieces) if piece.message == at)
        score_reasons = explain(pieces, end, weights.at(conversation_id, at))
        reasons = tuple(
            replace(reason, places=_in_content(messages[reason.message], reason.places))
            for reason in score_reasons.reasons
        )
        return replace(score_reasons, reasons=reasons, p=points[-1].p_end_normalised)

    def strongest(self, count: int) -> list[StrongWord]:
        """Returns the strongest words of all, at most `count` for an end and as many against one, strongest first.

        Only words that stand in at least `MIN_SHARE_OF_CONVERSATIONS` of the conversations count, found in at most
        `MAX_CONVERSATIONS` of them, drawn with a fixed seed. Empty where the scores in force are not by words.
        """
        with self._project.reading() as conn:
            config_hash = score_sets.hash_in_force(conn)
            weights = None if config_hash is None else word_weights.get(conn, config_hash)
        if weights is None or not len(weights.ids):
            return []
        random = np.random.default_rng(0)
        ids = np.sort(random.permutation(weights.ids)[:MAX_CONVERSATIONS]).tolist()
        texts = LogTexts.read(self._project, ids)
        matrix = texts.words.matrix()
        row_of = np.repeat(np.arange(len(texts.words)), np.diff(matrix.indptr))
        conversation_of = np.repeat(np.arange(len(texts.ids)), texts.counts)
        size = DISTANCES * COLUMNS
        # The columns of each conversation, each once.
        columns = np.unique(conversation_of[row_of] * size + matrix.indices) % size
        share = np.bincount(columns, minlength=size) / len(texts.ids)
        mean = np.where(share >= MIN_SHARE_OF_CONVERSATIONS, weights.mean, 0.0)
        messages = [place.message for places in texts.places for place in places]
        strongest: list[StrongWord] = []
        for sign in (1, -1):
            words_of_sign: list[StrongWord] = []
            for column in np.argsort(-sign * mean)[: 4 * count].tolist():
                rows = random.permutation(row_of[matrix.indices == column])[:ROWS_PER_WORD]
                places = [(texts.ids[conversation_of[row]], messages[row]) for row in rows.tolist()]
                speech = self._most_common_words(places, column)
                if speech is None or mean[column] * sign <= 0:
                    continue  # who speaks, whatever the words are
                word = StrongWord(*speech, float(mean[column]), float(share[column]))
                # A pair and its words are listed once.
                if not any(
                    (word.role, word.distance) == (other.role, other.distance)
                    and _parts(word.text) & _parts(other.text)
                    for other in words_of_sign
                ):
                    words_of_sign.append(word)
            strongest += words_of_sign[:count]
        return strongest

    def _most_common_words(
        self, places: Sequence[tuple[int, int]], column: int
    ) -> tuple[str, Role, int] | None:
        """Returns the words that have a column at most of these boundaries, who speaks, and the distance."""
        distance, column = divmod(column, COLUMNS)
        counts: Counter[tuple[str, Role, int]] = Counter()
        for log in logs_of(self._project, [key for key, _ in places]):
            for key, message in places:
                if key != log.id:
                    continue
                end = next(i for i, piece in enumerate(log.pieces) if piece.message == message)
                piece = log.pieces[end - distance]
                if text := words_of_column(piece, column):
                    counts[text, piece.role, distance] += 1
        return counts.most_common(1)[0][0] if counts else None


def _parts(text: str) -> set[str]:
    """Returns the words and signs of what `words_of_column` returns, without those of the program."""
    return set(re.findall(r"\w+|[^\w\s]+", text)) - {"begins", "ends", "with"}


def _in_content(message: Message, places: Places) -> Places:
    """Returns the places that lie in the content of a message; the others are in its calls, or in another text that
    models read in its place."""
    if message.model_view is not None:
        return ()
    return tuple(place for place in places if place[1] <= len(message.content))
