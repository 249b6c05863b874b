"""Makes the stages in which a model answers a question, and estimates what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from engine.base.errors import UsageError
from engine.base.request_options import (
    FRESH,
    MAX_COST,
    MODEL,
    check,
    choice,
    declared,
    switch,
    whole_number,
)
from engine.conversations.filters import FILTER, Filter
from engine.conversations.selection import Selection
from engine.jobs.contract import Stage
from engine.model.catalog import DEFAULT_MODEL
from engine.model.interface import Sampling
from engine.model.records import ModelRequest
from engine.model.service.run_setup import RunSetup
from engine.project.records import Estimate
from engine.questions.question import Question
from engine.questions.stages import ModelAnswerStage


@dataclass(frozen=True, slots=True)
class AskRequest:
    """A question that a model is asked of conversations.

    Attributes:
        model: Name or path; None is the one that the project uses for questions.
        filter, limit: The conversations, and how many of them, the first ones.
        votes, windows: In place of those of the question, see `Question`.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        max_cost, fresh: See `engine.model.interface.Spending`.
        anyway: Asks the built-in model too.

    Raises:
        UsageError: A value cannot be used.
    """

    model: str | None = declared(None, MODEL)
    filter: Filter = declared(Filter(), FILTER)
    limit: int | None = whole_number(None, "ask of the first N only")
    votes: int | None = whole_number(
        None,
        "ask the model N times and take the answer of most",
        words="that of the question, or 1",
    )
    windows: Literal["all", "last"] | None = choice(
        None,
        "what a model reads of a log that does not fit: all of it in parts, or the last part",
        ("all", "last"),
        words="that of the question, or all",
    )
    context: int | None = whole_number(
        None, "longest log in tokens; longer ones are read in parts (default 8,192 at most)"
    )
    max_cost: float | None = declared(None, MAX_COST)
    fresh: bool = declared(False, FRESH)
    anyway: bool = switch("ask the built-in model too, whose answers are not trustworthy")

    def __post_init__(self) -> None:
        check(self)


def model_stages(
    setup: RunSetup, question: Question, request: AskRequest
) -> tuple[ModelAnswerStage, list[Stage]]:
    """Returns the stage in which a model answers a question, and all stages of the run in their order: tuning if the
    model was never tuned here, then that stage.

    Raises:
        UsageError: There is no such model, it gives no replies with fields, it is the built-in one and that is not
            asked for, or votes are asked for on texts.
    """
    model = setup.models.resolve(
        ModelRequest(
            "questions",
            request.model,
            context=request.context,
            max_cost=request.max_cost,
            fresh=request.fresh,
        )
    )
    if model.entry is not None and model.entry.name == DEFAULT_MODEL and not request.anyway:
        raise UsageError(
            "The built-in model is too small to answer questions: on all that were tried it is near chance.",
            "Name a larger GGUF file or an endpoint with --model (`workbench models add`), or ask it all the same"
            " with --anyway.",
        )
    setup.endpoints.check_chat(model, Sampling(json_schema="{}"))
    question = msgspec.structs.replace(
        question,
        votes=request.votes or question.votes,
        windows=request.windows or question.windows,
    )
    if question.kind == "text" and question.votes > 1:
        raise UsageError("Votes on texts cannot be counted.", "Ask once, or make it a choice.")
    stage = ModelAnswerStage(
        setup.project,
        setup.process,
        model,
        question,
        setup.prompts.prompt("ask-json"),
        Selection(request.filter, limit=request.limit),
    )
    return stage, [*setup.tuning_before(model), stage]


def estimate(setup: RunSetup, question: Question, request: AskRequest) -> Estimate:
    """Returns what asking costs: over endpoints by the requests for a sample, else at the speed measured here. Sends
    nothing.

    Raises:
        UsageError: As `model_stages` does.
    """
    stage, _ = model_stages(setup, question, request)
    model, ids = stage.model, stage.waiting()
    if model.endpoints:
        cost = stage.estimate(ids)
        return Estimate(len(ids), cost.read, None, None, model.label, costs=(cost,))
    tokens, speed = stage.reading_tokens(ids), model.tokens_per_s
    return Estimate(len(ids), tokens, speed, tokens / speed if speed else None, model.label)
