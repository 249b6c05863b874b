"""Makes the runs in which patterns or a model answer a question, and estimates what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from engine.jobs.runner import JobRunner
from engine.model.catalog import DEFAULT_MODEL, LoadableModel
from engine.model.interface import Sampling
from engine.model.records import ModelRequest
from engine.model.service.run_setup import RunSetup
from engine.project.project import Project
from engine.project.records import Estimate
from engine.questions.question import Question
from engine.questions.stages import ModelAnswerStage, PatternStage, unanswered

PATTERNS_PER_SECOND = 5_000
"""Conversations that patterns read in a second, roughly."""

WRITING_COST = 5
"""Tokens that a model reads in the time in which it writes one: an assumption, since only reading is measured here. A
prompt is read many tokens at a time, a reply is written one after the other, several replies side by side."""


@dataclass(frozen=True, slots=True)
class AskRequest:
    """A request for a run that asks a question of conversations. Patterns use only `by`, `filter` and `limit`.

    Attributes:
        by: Who answers.
        model: Name or path; None is the one that the project uses for questions.
        filter: Selects the conversations.
        limit: Most conversations that are asked about, the first ones; None sets no limit.
        votes, windows: Override the question's own values, see `Question`; None keeps them.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        max_cost, fresh: See `engine.model.interface.Spending`.
        anyway: Asks the built-in model too.

    Raises:
        UsageError: A value cannot be used.
    """

    by: Literal["pattern", "model"] = "pattern"
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


AnswerStage = PatternStage | ModelAnswerStage
"""A stage that answers a question; its `counts` say how often which answer was given."""


class AskingRuns:
    """Makes the runs in which the patterns of a question or a model answer it."""

    def __init__(self, project: Project, runner: JobRunner, setup: Callable[[], RunSetup]) -> None:
        """`setup` is called when a model is asked: what it needs takes long to import."""
        self._project, self._runner, self._setup = project, runner, setup

    def stages(
        self, question: Question, request: AskRequest
    ) -> tuple[AnswerStage, Sequence[Stage]]:
        """Returns the stage that answers a question, and all stages of the run.

        The answering stage is the last one. A stage before it tunes a model that was never tuned on this machine.

        Raises:
            UsageError: The question has no pattern that can be read, the model cannot be asked (see `_model_for`), or
                votes are asked for on texts.
        """
        selection = Selection(request.filter, limit=request.limit)
        if request.by == "pattern":
            by_pattern = PatternStage(self._project, question, selection)
            return by_pattern, [by_pattern]
        setup = self._setup()
        model = self._model_for(setup, request)
        question = msgspec.structs.replace(
            question,
            votes=request.votes or question.votes,
            windows=request.windows or question.windows,
        )
        if question.kind == "text" and question.votes > 1:
            raise UsageError("Votes on texts cannot be counted.", "Ask once, or make it a choice.")
        prompt = setup.prompts.prompt("ask-json")
        stage = ModelAnswerStage(setup.project, setup.process, model, question, prompt, selection)
        return stage, [*setup.tuning_before(model), stage]

    @staticmethod
    def _model_for(setup: RunSetup, request: AskRequest) -> LoadableModel:
        """Returns the model that answers a request.

        Raises:
            UsageError: There is no such model, it cannot reply in JSON, or it is the built-in one without `anyway`.
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
                "Name a larger GGUF file or an endpoint (`workbench models add`). `workbench ask --anyway` asks it all"
                " the same.",
            )
        # The schema follows from the question later; here any schema stands for it.
        setup.endpoints.check_chat(model, Sampling(json_schema="{}"))
        return model

    def start(self, question: Question, request: AskRequest) -> int:
        """Starts a run in the background; returns the job id.

        Raises:
            UsageError: As `stages` does.
        """
        return self._runner.start(self.stages(question, request)[1])

    def estimate(self, question: Question, request: AskRequest) -> Estimate:
        """Returns what asking costs, without asking.

        A cost over endpoints is estimated from the requests for a sample, a time from the speed measured on this
        machine.

        Raises:
            UsageError: As `stages` does.
        """
        stage, _ = self.stages(question, request)
        selection = Selection(request.filter, limit=request.limit)
        ids = unanswered(self._project, stage.config_hash, selection)
        if isinstance(stage, PatternStage):
            return Estimate(len(ids), None, None, len(ids) / PATTERNS_PER_SECOND, "its patterns")
        model = stage.model
        if model.endpoint:
            cost = stage.estimate(ids)
            return Estimate(len(ids), cost.read, None, None, model.label, costs=(cost,))
        read, written = stage.local_tokens(ids)
        speed = model.tokens_per_s
        seconds = (read + WRITING_COST * written) / speed if speed else None
        return Estimate(len(ids), read + written, speed, seconds, model.label)
