"""Which words speak for and against the end of a conversation."""

from __future__ import annotations

from dataclasses import replace

from engine.base.conversation import Message, render_log
from engine.base.errors import NotYet
from engine.completeness.service.sets import name_of
from engine.completeness.tables import score_sets, scores, word_weights
from engine.completeness.word_reasons import Places, ScoreReasons, explain
from engine.conversations.tables import conversations
from engine.project.project import Project
from engine.project.sql import snapshot

_BY_WORDS = "`workbench run complete PROJECT --mode words` makes scores by words; `scores PROJECT --use N` shows them."
"""What to do where the scores in force are not by words."""


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
        found = explain(pieces, end, weights.at(conversation_id, at))
        reasons = tuple(
            replace(reason, places=_in_content(messages[reason.message], reason.places))
            for reason in found.reasons
        )
        return replace(found, reasons=reasons, p=points[-1].p_end_normalised)


def _in_content(message: Message, places: Places) -> Places:
    """Returns the places that lie in the content of a message; the others are in its calls, or in another text that
    models read in its place."""
    if message.model_view is not None:
        return ()
    return tuple(place for place in places if place[1] <= len(message.content))
