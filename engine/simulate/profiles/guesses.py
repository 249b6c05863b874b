"""Predicts profile fields by asking a language model, as a simulation whose results make a predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.model.chat import Role
from engine.results.metrics.profile_prediction import OTHERS, SINGLE, Predictor, Question, Split
from engine.simulate.profiles.user_texts import PredictionTask
from engine.simulate.records import PlayRow
from engine.simulate.recsim.guessing import GuessingScenario
from engine.simulate.service.request import SimulationOptions
from engine.simulate.service.simulations import BY_SCHEMA, ProjectSimulations, Simulation

KIND = "profiles"


def guessing_simulation(
    simulations: ProjectSimulations,
    asked: PredictionTask,
    questions: Sequence[Question],
    options: SimulationOptions,
) -> Simulation:
    """Returns the simulation that guesses the fields of every test conversation of a task.

    Raises:
        UsageError: A model does not exist or cannot be used.
    """
    texts = simulations.texts(KIND)
    choices = {one.field: _choices(one) for one in questions}
    guesses = [
        GuessingScenario(
            asked.ids[at], asked.spoken[at].text, choices, frozenset(SINGLE), texts, options.seed
        )
        for at in asked.predicted
    ]

    def scenarios(labels: Mapping[Role, str]) -> list[GuessingScenario]:
        return guesses

    params = {"choices": choices, "seed": options.seed}
    return simulations.simulation(KIND, scenarios, params, {"judge": BY_SCHEMA}, options, texts)


def guessed(asked: PredictionTask, rows: Sequence[PlayRow]) -> Predictor:
    """Returns the predictor that takes the first answer that the model named, or `OTHERS` when it named none."""
    guesses = {int(row.result["conversation"]): row.result["guessed"] for row in rows}

    def guess(split: Split, questions: Sequence[Question]) -> list[list[str]]:
        return [
            [_first(guesses.get(asked.ids[at], {}).get(one.field, ())) for at in split.test]
            for one in questions
        ]

    return guess


def _choices(question: Question) -> list[str]:
    """Returns the choices of a question; without `OTHERS` in fields with several answers, where naming none means
    it."""
    return [*(question.answers if question.field in SINGLE else question.answers[:-1])]


def _first(named: Sequence[str]) -> str:
    return named[0] if named else OTHERS
