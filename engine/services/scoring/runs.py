"""Scoring runs: a request becomes stages, with the model that it names."""

from __future__ import annotations

from pathlib import Path

from engine.model.prompt_files import prompt_names
from engine.records.runs import Estimate
from engine.services.models.run_setup import RunSetup
from engine.services.run_requests import ScoringRequest
from engine.services.scoring.estimate import ScoringRun, estimate_scoring
from engine.services.training.run_files import held_out_by, run_named
from engine.stages.remaining import RemainingStage
from engine.stages.scoring import ScoringStage, question_for
from engine.stages.selection import Selection


class ScoringRuns:
    """Makes the scoring runs of one project."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup

    def run(self, request: ScoringRequest) -> ScoringRun:
        """Returns the scoring run of a request: tuning if the model was never tuned here, scores, remaining tasks.

        Raises:
            ModelFileError: The model or its adapter cannot be read.
            UsageError: There is no such model or adapter, or it cannot answer what the request asks.
        """
        setup = self._setup
        model = setup.models.resolve(request.model_request)
        prompts = {name: setup.prompts.prompt(name) for name in prompt_names()}
        question = question_for(request.mode, prompts, request.end_tag)
        setup.endpoints.check_curve(model.model, question)
        scoring = ScoringStage(
            setup.project,
            setup.process,
            model,
            request.mode,
            question,
            selection=Selection(request.filter, self._held_out(request.held_out_by), request.limit),
            measured=setup.catalog.record_speed,
        )
        stages = [*(setup.tuning.before(model) if request.tune else []), scoring]
        if request.remaining:
            prompt = prompts["remaining-tuned" if request.mode == "tuned" else "remaining"]
            setup.endpoints.check_writing(model.model, prompt)
            remaining = RemainingStage(
                setup.project, setup.process, model, prompt, lambda: scoring.config_hash
            )
            scoring.write_remaining(remaining)
            stages.append(remaining)
        return ScoringRun(model, question, scoring, stages)

    def estimate(self, run: ScoringRun) -> Estimate:
        """Estimates the cost of a scoring run; see `estimate_scoring`."""
        setup = self._setup
        return estimate_scoring(setup.project, setup.process, run, setup.catalog.record_long_speed)

    def _held_out(self, run: str | None) -> frozenset[str] | None:
        return None if run is None else held_out_by(run_named(Path(self._setup.project.path), run))
