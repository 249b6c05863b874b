"""`workbench analyse profiles`: predicts the profiles of users from what they write."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.text import one_line
from engine.model.embedders.embedder import embedder_for
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.results.metrics.learners import Vectorise, linear, most_frequent, nearest
from engine.results.metrics.profile_prediction import (
    PredictionRow,
    Predictor,
    Question,
    evaluate_predictors,
    questions_for,
)
from engine.simulate.profiles.guesses import guessed, guessing_simulation
from engine.simulate.profiles.user_texts import PredictionTask, across, within
from workbench.commands.narration import Result, narrate
from workbench.commands.options import add_filter, add_labelling, positive, read_filter
from workbench.commands.playing import exit_code, played, read_options
from workbench.commands.report_text import cell_lines
from workbench.exits import DONE

FREQUENT = "most frequent"
"""The method that always predicts the most frequent answer: the baseline."""
LLM = "language model"
_NAME = 28


def profiles_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `profiles`."""
    parser.add_argument("project", help="project with profiles to learn from")
    parser.add_argument(
        "--test",
        metavar="PROJECT",
        help="predict in this project, such as one of real people (default: the same, fitted to other people)",
    )
    parser.add_argument(
        "--embedder",
        default="tfidf",
        help="embedder of the nearest-neighbor method (default: tfidf)",
    )
    parser.add_argument(
        "--llm",
        action="store_true",
        help="also let a model predict; its replies are constrained to the possible answers",
    )
    add_labelling(parser)
    parser.add_argument("--limit", type=positive, help="predict only this many, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split (default: 0)")
    add_filter(parser)


def profiles(arguments: argparse.Namespace) -> int:
    """Predicts profile fields from users' words, and prints how well.

    Raises:
        UsageError: Too few people, or no answer that enough of them share.
        WorkbenchError: A model cannot be had.
    """
    wanted = read_filter(arguments.filter)
    sample = {"seed": arguments.seed, "limit": arguments.limit}
    home = Path(arguments.test or arguments.project)
    with OpenProject(home, read_only=not arguments.llm) as workspace:
        if arguments.test is None:
            asked = within(workspace.project, wanted, **sample)
        else:
            with Project.open(arguments.project, read_only=True, upgrade=True) as known:
                asked = across(known, workspace.project, wanted, **sample)
        questions = questions_for(asked.spoken, [asked.spoken[at] for at in asked.predicted])
        if not questions:
            raise UsageError(
                "No answer is shared by enough of these people to fit to.",
                "Import more of them: an answer needs five people who have it and five who have not.",
            )
        ways = _ways(asked, arguments.embedder)
        code = DONE
        if arguments.llm:
            options = replace(read_options(arguments), limit=None)
            simulation = guessing_simulation(workspace.simulation_runs, asked, questions, options)
            rows = played(workspace, simulation)
            ways[LLM] = guessed(asked, [row for row in rows if row.reason is None])
            code = exit_code(rows)
    for note in asked.notes:
        narrate(note)
    narrate(
        "Every conversation is predicted by a model fitted to other people."
        if arguments.test is None
        else f"Learned from {Path(arguments.project).name}, predicted in {home.name}."
    )
    found = evaluate_predictors(asked.spoken, asked.splits, ways, questions)
    Result(_lines(found), _as_json(found, questions, asked)).print(arguments.json)
    return code


def _ways(asked: PredictionTask, embedder: str) -> dict[str, Predictor]:
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


def _lines(rows: Sequence[PredictionRow]) -> list[str]:
    better = [f"{row.field} ({row.way})" for row in rows if row.gain.low > 0]
    conclusion = (
        f"Better than the most frequent answer: {', '.join(better)}."
        if better
        else "No field is predicted better than by the most frequent answer."
    )
    return [*_table_lines(rows), "", conclusion]


def _table_lines(rows: Sequence[PredictionRow]) -> list[str]:
    return cell_lines(
        [
            ("field", "text"), ("way", "text"), ("answers", "count"), ("n", "count"),
            ("people", "count"), ("accuracy", "interval"), ("F1", "share"), ("gain", "difference"),
        ],
        [
            (
                one_line(row.field, _NAME) if row.way == FREQUENT else "", row.way, row.answers,
                row.conversations, row.people, row.accuracy, row.f1,
                "" if row.way == FREQUENT else row.gain,
            )
            for row in rows
        ],
    )  # fmt: skip


def _as_json(
    rows: Sequence[PredictionRow], questions: Sequence[Question], asked: PredictionTask
) -> dict[str, Any]:
    return {
        "profiles": [asdict(row) for row in rows],
        "questions": [asdict(one) for one in questions],
        "predicted": len(asked.predicted),
        "notes": list(asked.notes),
    }
