"""Scoring runs: a request becomes stages, with the model that it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.base.errors import UsageError
from engine.completeness import bundled_probe
from engine.completeness.block import Question
from engine.completeness.conversation_logs import logs_of
from engine.completeness.endpoint_scoring import refuse_curve
from engine.completeness.records.scores import LEAST_FOR_PROBE, Mode
from engine.completeness.records.scoring_request import (
    ScoringRequest,
)
from engine.completeness.service.estimate import ScoringRun, estimate_scoring
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage
from engine.completeness.stages.remaining import RemainingStage
from engine.completeness.stages.scoring import ScoringStage, question_for
from engine.conversations.selection import Selection
from engine.model.adapter_files import AdapterOrigin
from engine.model.catalog import BUNDLED_ADAPTERS
from engine.model.gguf_file import read_gguf
from engine.model.model_work import RunModel
from engine.model.prompt_files import prompt_names
from engine.model.service.run_setup import RunSetup
from engine.project.records import Estimate
from engine.training.run_files import held_out_by, run_named

PAPER_TOKENS = 128
"""Longest list of remaining tasks that is written in answer to the prompt that was scored."""

LOOKED_AT = 500
"""Conversations that are looked at to choose the default mode."""

ScoringPart = ReadingStage | FittingStage | ScoringStage | RemainingStage


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
        mode = self.mode_for(request)
        if request.paper and mode not in ("base", "tuned"):
            raise UsageError(
                f"Nothing is generated in mode `{mode}`.", "Use --mode base or --mode tuned."
            )
        request = replace(request, mode=mode)
        model = setup.models.resolve(request.model_request)
        prompts = {name: setup.prompts.prompt(name) for name in prompt_names()}
        tag = request.end_tag
        if mode == "tuned" and tag is None:
            tag = _trained_tag(model)
        question = question_for(mode, prompts, tag)
        setup.endpoints.check(model.model, lambda served: refuse_curve(served, question))
        reading, scored = self._stages(request, mode, model, question)
        if request.part is not None:
            before = setup.tuning.before(model) if request.tune else []
            return ScoringRun(model, question, reading, scored, [*before, reading])
        stages: list[ScoringPart] = [scored] if scored is reading else [reading, scored]
        writer = self._writer(request, mode, model)
        if request.remaining:
            tuned = mode == "tuned" or (mode == "probe" and writer.model.adapter is not None)
            prompt = prompts["remaining-tuned" if tuned else "remaining"]
            if request.paper and not tuned:
                prompt = replace(prompts[mode], max_tokens=PAPER_TOKENS)
            if tag is not None:
                prompt = replace(prompt, stop=(*prompt.stop, tag))
            setup.endpoints.check_writing(writer.model, prompt)
            remaining = RemainingStage(
                setup.project,
                setup.process,
                writer,
                prompt,
                lambda: scored.config_hash,
                as_generated=request.paper,
            )
            if isinstance(reading, ScoringStage) and not request.paper:
                reading.write_remaining(remaining)
            stages.append(remaining)
        others = () if writer is model else (writer,)
        before = setup.tuning.before(model, *others) if request.tune else []
        return ScoringRun(model, question, reading, scored, [*before, *stages])

    def _writer(self, request: ScoringRequest, mode: Mode, model: RunModel) -> RunModel:
        """The model that writes remaining tasks: the one that scores, with a completion adapter beside a probe."""
        if mode != "probe" or request.adapter is not None:
            return model
        tuned = self._setup.models.resolve(replace(request, mode="tuned").model_request)
        return tuned if tuned.model.path == model.model.path else model

    def _stages(
        self, request: ScoringRequest, mode: Mode, model: RunModel, question: Question
    ) -> tuple[ScoringStage | ReadingStage, ScoringStage | FittingStage]:
        """The stage that reads the logs, and the one that stores the scores, which may be the same."""
        setup = self._setup
        selection = Selection(
            request.filter, self._held_out(request.held_out_by), request.limit, request.part
        )
        measured = setup.catalog.record_speed
        if mode != "probe":
            scoring = ScoringStage(
                setup.project,
                setup.process,
                model,
                mode,
                question,
                selection=selection,
                measured=measured,
            )
            return scoring, scoring
        reading = ReadingStage(
            setup.project,
            setup.process,
            model,
            selection=selection,
            measured=measured,
            seconds=request.seconds,
            ends=request.ends,
        )
        fitting = FittingStage(
            setup.project,
            model,
            lambda: reading.config_hash,
            provisional=request.seconds is not None,
        )
        return reading, fitting

    def mode_for(self, request: ScoringRequest) -> Mode:
        """The mode that a request is scored in: its own, or the best one that its model and its conversations allow.

        That is `probe` on a local model from `LEAST_FOR_PROBE` conversations. With fewer it is `tuned` where somebody
        trained or added an adapter, `probe` on the built-in model, otherwise `tuned` or `base`.
        """
        if request.mode is not None:
            return request.mode
        if request.adapter is not None or request.end_tag is not None:
            return "tuned"
        setup = self._setup
        model = setup.models.resolve(replace(request, mode="tuned").model_request)
        if model.model.endpoints:
            return "base"
        if request.paper:
            return "tuned" if model.model.adapter is not None else "base"
        if self._enough_for_probe(request):
            return "probe"
        adapter = model.model.adapter
        if adapter is not None and adapter.parent != BUNDLED_ADAPTERS:
            return "tuned"
        bare = setup.models.resolve(replace(request, mode="probe").model_request)
        if bundled_probe.of_model(bare.model) is not None:
            return "probe"
        return "tuned" if adapter is not None else "base"

    def _enough_for_probe(self, request: ScoringRequest) -> bool:
        """Whether enough of the first conversations could end in two places; copies are not noticed."""
        project = self._setup.project
        selection = Selection(request.filter, self._held_out(request.held_out_by), request.limit)
        with project.reading() as conn:
            ids = selection.ids(conn)[:LOOKED_AT]
        found = 0
        for first in range(0, len(ids), LEAST_FOR_PROBE):
            logs = logs_of(project, ids[first : first + LEAST_FOR_PROBE])
            found += sum(len(log.item.boundaries) > 1 for log in logs)
            if found >= LEAST_FOR_PROBE:
                return True
        return False

    def estimate(self, run: ScoringRun) -> Estimate:
        """Estimates the cost of a scoring run; see `estimate_scoring`."""
        setup = self._setup
        found = estimate_scoring(setup.project, setup.process, run, setup.catalog.record_long_speed)
        return replace(found, adapter=run.model.model.adapter_name)

    def _held_out(self, run: str | None) -> frozenset[str] | None:
        return None if run is None else held_out_by(run_named(Path(self._setup.project.path), run))


def _trained_tag(model: RunModel) -> str | None:
    """The text tag that the adapter of a model was trained to end with; None for an end token, and without an
    adapter."""
    adapter = model.model.adapter
    return AdapterOrigin.of(read_gguf(adapter)).end_tag or None if adapter is not None else None
