"""`workbench analyse profiles`: whether what users say gives away who they are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.goals.embedding import embedder_for
from engine.store.project import Project
from engine.text import one_line
from engine.validate.identifying import Identified, Question, Way, identify, questions_for
from engine.validate.learners import Vectorise, linear, most_frequent, nearest
from engine.validate.short_figures import ends, short
from workbench.commands.analyse import aligned
from workbench.commands.filtering import asked_filter
from workbench.commands.narration import Told, tell
from workbench.exits import DONE
from workbench.recllmsim.spoken import Asked, across, within

FREQUENT = "most frequent"
"""The first way, which the others have to beat."""
_NAME = 28


def profiles(arguments: argparse.Namespace) -> int:
    """Predicts profile fields from what users said, and tells how well.

    Raises:
        UsageError: Too few people, or nothing that tells them apart.
    """
    wanted = asked_filter(arguments.filter)
    with Project.open(arguments.project, read_only=True) as project:
        if arguments.test is None:
            asked = within(project, wanted, seed=arguments.seed, limit=arguments.limit)
        else:
            with Project.open(arguments.test, read_only=True) as other:
                asked = across(project, other, wanted, seed=arguments.seed, limit=arguments.limit)
    told = _told(asked, arguments)
    told.print(arguments.json)
    return DONE


def _told(asked: Asked, arguments: argparse.Namespace) -> Told:
    questions = questions_for(asked.spoken, [asked.spoken[at] for at in asked.predicted])
    if not questions:
        raise UsageError(
            "No answer is shared by enough of these people to be learnt.",
            "Import more of them: an answer needs five people who have it and five who have not.",
        )
    rows = identify(asked.spoken, asked.splits, _ways(asked, arguments.embedder), questions)
    for note in asked.notes:
        tell(note)
    tell(
        "Every conversation is predicted by what was learnt from other people."
        if arguments.test is None
        else f"Learnt from {Path(arguments.project).name}, predicted in {Path(arguments.test).name}."
    )
    return Told(_table(rows), _as_json(rows, questions, asked))


def _ways(asked: Asked, embedder: str) -> dict[str, Way]:
    return {
        FREQUENT: most_frequent(asked.spoken),
        "linear": linear(asked.spoken),
        f"nearest ({one_line(embedder, 12)})": nearest(asked.spoken, _vectoriser(embedder)),
    }


def _vectoriser(name: str) -> Vectorise:
    def vectorise(known: Sequence[str], asked: Sequence[str]) -> tuple[Any, Any]:
        embedder = embedder_for(name)
        if not embedder.fitted:
            embedder.fit(known)
        return embedder.embed(known), embedder.embed(asked)

    return vectorise


def _table(rows: Sequence[Identified]) -> list[str]:
    heads = ["field", "way", "answers", "n", "people", "accuracy", "95%", "F1", "gain", "95% "]
    body = []
    for row in rows:
        first = row.way == FREQUENT
        gain = ["", ""] if first else [_signed(row.gain.value), ends(row.gain)]
        body.append(
            [
                one_line(row.field, _NAME) if first else "",
                row.way,
                f"{row.answers:,}",
                f"{row.conversations:,}",
                f"{row.people:,}",
                short(row.accuracy.value),
                ends(row.accuracy),
                "-" if row.f1 is None else short(row.f1),
                *gain,
            ]
        )
    better = [f"{row.field} ({row.way})" for row in rows if row.gain.low > 0]
    said = (
        f"Better than the most frequent answer: {', '.join(better)}."
        if better
        else "Nothing is told better than by the most frequent answer."
    )
    return [*aligned(heads, body), "", said]


def _signed(value: float) -> str:
    return short(value) if value < 0 else f"+{short(value)}"


def _as_json(
    rows: Sequence[Identified], questions: Sequence[Question], asked: Asked
) -> dict[str, Any]:
    return {
        "profiles": [asdict(row) for row in rows],
        "questions": [asdict(one) for one in questions],
        "predicted": len(asked.predicted),
        "notes": list(asked.notes),
    }
