"""`workbench analyse profiles`, `behaviour` and `ratings`: what a model or a classifier says of users."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound, UsageError
from engine.base.text import one_line
from engine.model.embedders.embedder import embedder_for
from engine.opener.workspace import Workspace
from engine.project.project import Project
from engine.questions.rating_scales import RATING
from engine.results.metrics.learners import Vectorise, linear, most_frequent, nearest
from engine.results.metrics.profile_prediction import (
    PredictionRow,
    Predictor,
    evaluate_predictors,
    questions_for,
)
from engine.simulate.profiles.guesses import guessed, guessing_simulation
from engine.simulate.profiles.labelling import (
    AgreementRow,
    LabelRow,
    agreement_rows,
    behaviour_simulation,
    label_rows,
    tag_labels,
    truths_of,
)
from engine.simulate.profiles.ratings import rated_by_turns, rating_agreement, rating_simulation
from engine.simulate.profiles.user_texts import PredictionTask, across, within
from engine.simulate.records import PlayRow
from engine.simulate.recsim.behaviour import SCHEMAS
from engine.simulate.recsim.rating import PARTS
from engine.simulate.service.request import SimulationOptions
from engine.simulate.service.simulations import Simulation
from workbench.arguments import (
    FILTER,
    LABELING,
    PROJECT,
    argument,
    positive,
    read_request,
    switch,
    takes,
)
from workbench.commands.analysing import turn_json, turn_lines
from workbench.commands.playing import exit_code, played
from workbench.narration import narrate
from workbench.result import DONE, Result
from workbench.text_tables import cell_lines

FREQUENT = "most frequent"
"""The method that always predicts the most frequent answer: the baseline."""
LLM = "language model"
_NAME = 28
_LIMIT = argument("--limit", type=positive, metavar="N", help="only the first N")


@takes(
    argument("project", help="project with profiles to learn from"),
    argument(
        "--test",
        metavar="PROJECT",
        help="predict in this project, such as one of real people (default: the same, fitted to other people)",
    ),
    argument(
        "--embedder",
        default="tfidf",
        help="embedder of the nearest-neighbor method (default: tfidf)",
    ),
    switch(
        "--llm", "also let a model predict; its replies are constrained to the possible answers"
    ),
    *LABELING,
    argument("--limit", type=positive, help="predict only this many, drawn by the seed"),
    argument("--seed", type=int, default=0, help="seed of the split (default: 0)"),
    FILTER,
)
def profiles(arguments: argparse.Namespace) -> Result:
    """Predicts profile fields from users' words, and says how well.

    Raises:
        UsageError: Too few people, or no answer that enough of them share.
        WorkbenchError: A model cannot be had.
    """
    sample = {"seed": arguments.seed, "limit": arguments.limit}
    home = Path(arguments.test or arguments.project)
    with Workspace(home, read_only=not arguments.llm) as workspace:
        if arguments.test is None:
            task = within(workspace.project, arguments.filter, **sample)
        else:
            with Project.open(arguments.project, read_only=True, upgrade=True) as known:
                task = across(known, workspace.project, arguments.filter, **sample)
        questions = questions_for(task.spoken, [task.spoken[index] for index in task.predicted])
        if not questions:
            raise UsageError(
                "No answer is shared by enough of these people to fit to.",
                "Import more of them: an answer needs five people who have it and five who have not.",
            )
        ways = _ways(task, arguments.embedder)
        code = DONE
        if arguments.llm:
            options = replace(read_request(SimulationOptions, arguments), limit=None)
            simulation = guessing_simulation(workspace.simulations(), task, questions, options)
            rows = played(workspace, simulation)
            ways[LLM] = guessed(task, [row for row in rows if row.reason is None])
            code = exit_code(rows)
    for note in task.notes:
        narrate(note)
    narrate(
        "Every conversation is predicted by a model fitted to other people."
        if arguments.test is None
        else f"Learned from {Path(arguments.project).name}, predicted in {home.name}."
    )
    predictions = evaluate_predictors(task.spoken, task.splits, ways, questions)
    document = {
        "profiles": [asdict(row) for row in predictions],
        "questions": [asdict(question) for question in questions],
        "predicted": len(task.predicted),
        "notes": list(task.notes),
    }
    return Result(_prediction_lines(predictions), document, code)


def _ways(task: PredictionTask, embedder: str) -> dict[str, Predictor]:
    return {
        FREQUENT: most_frequent(task.spoken),
        "linear": linear(task.spoken),
        f"nearest ({one_line(embedder, 12)})": nearest(task.spoken, _vectoriser(embedder)),
    }


def _vectoriser(name: str) -> Vectorise:
    def vectorise(known: Sequence[str], unknown: Sequence[str]) -> tuple[Any, Any]:
        embedder = embedder_for(name)
        if not embedder.fitted:
            embedder.fit(known)
        return embedder.embed(known), embedder.embed(unknown)

    return vectorise


def _prediction_lines(rows: Sequence[PredictionRow]) -> list[str]:
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


# Labels and ratings


@takes(
    PROJECT,
    argument(
        "--schema",
        action="append",
        choices=["strategy", "strategy_V2", "strategy_V3"],
        help="may be repeated (default: all three)",
    ),
    *LABELING,
    _LIMIT,
    argument("--seed", type=int, default=0, help="seed of the runs (default: 0)"),
    switch(
        "--tag",
        "also tag each conversation with its labels, such as `strategy_V2.order.Depth`, for filters",
    ),
    FILTER,
)
def behaviour(arguments: argparse.Namespace) -> Result:
    """Labels what was not labelled yet; gives the labels and their agreement with imported ones.

    Raises:
        NotFound: Nothing matches.
        WorkbenchError: A model cannot be had.
    """
    schemas = tuple(dict.fromkeys(arguments.schema or SCHEMAS))
    options = read_request(SimulationOptions, arguments)
    with Workspace(Path(arguments.project)) as workspace:
        simulation = behaviour_simulation(
            workspace.simulations(), workspace.project, arguments.filter, schemas, options
        )
        rows, over = _played(workspace, simulation)
        if arguments.tag:
            given = tag_labels(workspace.project, over, schemas, _judge(workspace, simulation))
            narrate(f"Gave {given:,} tags; `--filter tag:strategy_V2.order.Depth` finds them.")
        truths = truths_of(workspace.project, {int(row.result["conversation"]) for row in over})
    labels, agreements = label_rows(over, schemas), agreement_rows(over, truths, schemas)
    if not agreements:
        narrate("None of these conversations came with labels to compare with.")
    lines = label_lines(labels)
    if agreements:
        lines += ["", *agreement_lines(agreements)]
    document = {
        "config": simulation.play.config_hash,
        "labels": [asdict(row) for row in labels],
        "agreement": [flat_agreement(row) for row in agreements],
    }
    return Result(lines, document, exit_code(rows))


@takes(
    PROJECT,
    argument(
        "--part", action="append", choices=list(PARTS), help="may be repeated (default: all four)"
    ),
    *LABELING,
    _LIMIT,
    argument("--seed", type=int, default=0, help="seed of the replies (default: 0)"),
    switch(
        "--tag",
        "also tag each conversation with its ratings, such as `rating.Diversity.2`, for filters",
    ),
    FILTER,
)
def ratings(arguments: argparse.Namespace) -> Result:
    """Annotates what was not annotated yet; gives ratings, their means by turns, and agreements.

    Raises:
        NotFound: Nothing matches.
        WorkbenchError: A model cannot be had.
    """
    parts = tuple(dict.fromkeys(arguments.part or PARTS))
    options = read_request(SimulationOptions, arguments)
    with Workspace(Path(arguments.project)) as workspace:
        simulation = rating_simulation(
            workspace.simulations(), workspace.project, arguments.filter, parts, options
        )
        rows, over = _played(workspace, simulation)
        if arguments.tag and "ratings" in parts:
            given = tag_labels(workspace.project, over, [RATING], _judge(workspace, simulation))
            narrate(f"Gave {given:,} tags; `--filter tag:rating.Diversity.2` finds them.")
        keys = {int(row.result["conversation"]) for row in over}
        truths = truths_of(workspace.project, keys)
        listed = {row.id: row for row in workspace.services().conversations.rows(sorted(keys))}
    labels = label_rows(over, [RATING]) if "ratings" in parts else []
    turns = rated_by_turns(over, {key: row.turns for key, row in listed.items()}) if labels else []
    tags = {key: row.tags for key, row in listed.items()}
    agreements = rating_agreement(over, truths, tags)
    lines: list[str] = []
    if labels:
        lines += [*label_lines(labels), "", *turn_lines(turns)]
    if agreements:
        lines += ["", *agreement_lines(agreements)]
    document = {
        "config": simulation.play.config_hash,
        "labels": [asdict(row) for row in labels],
        "turns": [turn_json(row) for row in turns],
        "agreement": [flat_agreement(row) for row in agreements],
        "conversations": [
            {"id": listed[int(row.result["conversation"])].external_id, **_annotations(row.result)}
            for row in over
        ],
    }
    return Result(
        lines or [f"Annotated {len(over):,}; --json prints what was said of each."],
        document,
        exit_code(rows),
    )


def _played(workspace: Workspace, simulation: Simulation) -> tuple[list[PlayRow], list[PlayRow]]:
    """Plays what was not played yet; returns all plays, and those that did not break off.

    Raises:
        NotFound: There is nothing to play.
    """
    if not simulation.play.scenarios:
        raise NotFound("In no conversation that matches does a user speak.", "Leave out --filter.")
    rows = played(workspace, simulation)
    return rows, [row for row in rows if row.reason is None]


def _judge(workspace: Workspace, simulation: Simulation) -> str:
    """Name of the model that annotated."""
    settings = {one.config_hash: one.models for one in workspace.simulations().settings()}
    return settings.get(simulation.play.config_hash, {}).get("judge", "a model")


def label_lines(rows: Sequence[LabelRow]) -> list[str]:
    """The table of labels that a model gave."""
    return cell_lines(
        [
            ("schema", "text"), ("label", "text"), ("labelled", "text"),
            ("all runs alike", "share"), ("labels", "text"),
        ],
        [
            (
                row.schema, row.label, f"{row.labelled:,} of {row.asked:,}", row.unanimous,
                ", ".join(f"{name} {count:,}" for name, count in row.counts.items()),
            )
            for row in rows
        ],
    )  # fmt: skip


def agreement_lines(rows: Sequence[AgreementRow]) -> list[str]:
    """The table of agreements."""
    return cell_lines(
        [
            ("schema", "text"), ("label", "text"), ("against", "text"), ("n", "count"),
            ("accuracy", "interval"), ("frequent", "share"), ("kappa", "interval"), ("weighted", "share"),
        ],
        [
            (
                row.schema, row.label, f"{row.one} / {row.other}", row.found.count,
                row.found.accuracy, row.found.frequent, row.found.kappa,
                row.found.weighted and row.found.weighted.value,
            )
            for row in rows
        ],
    )  # fmt: skip


def flat_agreement(row: AgreementRow) -> dict[str, Any]:
    """An agreement as JSON values."""
    named = {"schema": row.schema, "label": row.label, "one": row.one, "other": row.other}
    return {**named, **asdict(row.found)}


def _annotations(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the model said of a conversation, in the fields of the data set."""
    parts = {
        name: value for name, value in result.items() if name not in ("conversation", "labels")
    }
    rated = result["labels"].get(RATING, {}).get("final")
    return parts if rated is None else {RATING: rated, **parts}
