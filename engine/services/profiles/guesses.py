"""A model's guesses at profiles, as one of the ways of predicting them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.model.chat import Role
from engine.records.simulation import PlayRow
from engine.services.profiles.user_texts import PredictionTask
from engine.services.simulation.options import SimulationOptions
from engine.services.simulation.simulations import BY_SCHEMA, ProjectSimulations, Simulation
from engine.simulate.recsim.guessing import Guess
from engine.validate.profile_prediction import OTHERS, Question, Split, Way
from engine.validate.traits import SINGLE

KIND = "profiles"


def guessing_simulation(
    simulations: ProjectSimulations,
    asked: PredictionTask,
    questions: Sequence[Question],
    options: SimulationOptions,
) -> Simulation:
    """What guesses the fields of everybody who is predicted; the project is theirs.

    Raises:
        UsageError: A model cannot be had.
    """
    texts = simulations.texts(KIND)
    choices = {one.field: _choices(one) for one in questions}
    guesses = [
        Guess(asked.ids[at], asked.spoken[at].text, choices, frozenset(SINGLE), texts, options.seed)
        for at in asked.predicted
    ]

    def scenarios(labels: Mapping[Role, str]) -> list[Guess]:
        return guesses

    params = {"choices": choices, "seed": options.seed}
    return simulations.simulation(KIND, scenarios, params, {"judge": BY_SCHEMA}, options, texts)


def guessed(asked: PredictionTask, rows: Sequence[PlayRow]) -> Way:
    """The first answer that a model named, and `OTHERS` where it named none."""
    said = {int(row.result["conversation"]): row.result["guessed"] for row in rows}

    def guess(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        return [
            [_first(said.get(asked.ids[at], {}).get(one.field, ())) for at in split.test]
            for one in questions
        ]

    return guess


def _choices(question: Question) -> list[str]:
    """What may be named; where any number may be, `OTHERS` is to name none."""
    return [*(question.answers if question.field in SINGLE else question.answers[:-1])]


def _first(named: Sequence[str]) -> str:
    return named[0] if named else OTHERS
