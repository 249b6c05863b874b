"""Figures of the truth that was imported with conversations: ratings by number of turns, scores of simulations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.conversations.tables import conversations
from engine.conversations.tables.conversations import truth_by_record, truth_of_duplicates
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.results.metrics.known_outcomes import Scored, TurnRow, by_turns


def turn_rows(project: Project, ids: Sequence[int]) -> list[TurnRow]:
    """Returns the means of the numbers in the truth of these conversations, by their number of turns.

    Two records with the same text under two names are one conversation and count twice, as they do in the data set's
    own table; the same record from two places counts once.
    """
    return by_turns(_records(project, ids))


def _records(
    project: Project, ids: Sequence[int]
) -> Iterator[tuple[int, Mapping[str, Any] | None]]:
    """Yields number of turns and truth of every record: of the conversations first, then of their duplicates."""
    turns: dict[int, int] = {}  # by conversation id
    names: set[tuple[int, str]] = set()  # (conversation id, name) of the records that were yielded
    with project.reading() as conn, snapshot(conn):
        for key, _, conversation in conversations.export_conversations(conn, ids):
            turns[key] = sum(message.role == "user" for message in conversation.messages)
            names.add((key, conversation.external_id))
            yield turns[key], conversation.truth
        for key, name, truth in truth_of_duplicates(conn):
            if key in turns and (key, name) not in names:
                names.add((key, name))
                yield turns[key], truth


def simulated_scores(project: Project, ids: Sequence[int]) -> list[Scored]:
    """Returns the scores of those of these conversations that are simulations with a score."""
    id_set = frozenset(ids)
    with project.reading() as conn:
        truths = [truth for key, truth in truth_by_record(conn) if key in id_set]
    return [score for truth in truths if (score := _simulated(truth)) is not None]


def _simulated(truth: Mapping[str, Any]) -> Scored | None:
    """Returns the score of a simulation, which is 0 where the log has it as null: no answer was attempted."""
    # a missing score is ..., which is no score; one that is null is None, which counts as 0
    score, instruction = truth.get("score", ...), truth.get("task_id")
    if instruction is None or not isinstance(score, int | float | None):
        return None
    names = (str(truth.get(key, "unknown")) for key in ("task", "condition", "assistant_model"))
    task, condition, model = names
    return Scored(task, condition, model, str(instruction), float(score or 0))
