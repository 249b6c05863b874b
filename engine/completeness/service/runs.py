"""Makes scoring runs, and estimates what they cost from a sample of the conversations that they would read.

In mode `words` one stage fits a probe to words and scores with it. In mode `probe` this comes first, unless the probe
reads states alone. Then the model reads hidden states. Where words came first, a probe is fitted to words and states at
each doubling of what is read; else one is fitted to states, once at the end. In the other modes one stage reads and
scores. A stage for remaining tasks may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.base.conversation import LogPiece, render_log
from engine.base.errors import UsageError
from engine.completeness import bundled_probe
from engine.completeness.boundaries import boundaries
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE, Mode
from engine.completeness.scoring import Question
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage, RefiningStage
from engine.completeness.stages.remaining import RemainingStage
from engine.completeness.stages.scoring import ScoringStage, logs_of, question_for
from engine.conversations.selection import Selection
from engine.conversations.tables import conversations
from engine.jobs.contract import Stage
from engine.model.catalog import DEFAULT_MODEL, LoadableModel
from engine.model.service.run_setup import RunSetup
from engine.project.project import Project
from engine.project.records import Estimate, StageCost

SAMPLED_CONVERSATIONS = 48
"""Number of conversations whose bytes are counted for an estimate; the others are assumed to have as many for each
character."""

TOKENS_PER_BYTE = 0.25
"""Tokens of a byte of a log, about the same in all languages."""

CONVERSATIONS_PER_SECOND = 1_000
"""Conversations whose words are read and fitted to in a second. Measured: 1,250 of 23 messages in a second on two plain
cores."""

MAX_REMAINING_TOKENS_OF_PAPER = 128
"""Longest list of remaining tasks, in tokens, that is written in answer to the prompt that was scored."""

MAX_CONVERSATIONS_FOR_MODE = 500
"""Number of conversations that are looked at to choose the default mode."""


@dataclass(frozen=True, slots=True)
class ModelReading:
    """How a model reads the logs in a scoring run, which is nearly all of the work.

    Attributes:
        model: Resolved once, for the stages and the estimate.
        question: What it is asked at each boundary.
        stage: Reads all that is left.
    """

    model: LoadableModel
    question: Question
    stage: ScoringStage | ReadingStage


@dataclass(frozen=True, slots=True)
class ScoringRun:
    """A scoring run that is ready to start.

    Attributes:
        reading: How a model reads the logs; None in mode `words`.
        scoring_stage: Knows the config hash of the final scores, and how many conversations wait for them.
        stages: All stages of the run, in order. In mode `probe` a `RefiningStage` runs the stage of `reading` and makes
            fits like `scoring_stage`, so the list has neither of the two.
    """

    reading: ModelReading | None
    scoring_stage: ScoringStage | FittingStage
    stages: list[Stage]

    @property
    def config_hash(self) -> str:
        """The config hash of the set of scores; with a probe it is known once the conversations are read."""
        return self.scoring_stage.config_hash


class ScoringRuns:
    """Makes the scoring runs of one project."""

    def __init__(self, setup: RunSetup, held_out_by: Callable[[str], frozenset[str]]) -> None:
        """Reads nothing yet.

        Args:
            held_out_by: Returns the ids in their sources of the conversations that a training run, given by its name,
                was not trained on.
        """
        self._setup, self._held_out_by = setup, held_out_by

    def make_run(self, request: ScoringRequest) -> ScoringRun:
        """Returns the scoring run of a request, with the stages that it needs: the fit to words, tuning if the model
        was never tuned here, the scores, remaining tasks.

        Raises:
            ModelFileError: The model or its adapter cannot be read.
            UsageError: There is no such model or adapter, or it cannot answer what the request asks.
        """
        mode = self.mode_for(request)
        if request.paper and mode not in ("base", "tuned"):
            raise UsageError(
                f"Nothing is generated in mode `{mode}`.", "Use --mode base or --mode tuned."
            )
        request = replace(request, mode=mode)
        if mode == "words":
            return self._words_run(request)
        if mode == "probe":
            return self._probe_run(request)
        return self._prompt_run(request, mode)

    def _model_for(self, request: ScoringRequest, mode: Mode) -> LoadableModel:
        """Returns the model that reads the logs or, in mode `words`, writes the remaining tasks.

        Raises:
            ModelFileError: The model or its adapter cannot be read.
            UsageError: There is no such model or adapter, or it cannot score in this mode.
        """
        model = self._setup.models.resolve(request.model_request)
        if mode != "words" and model.endpoint:
            raise UsageError(
                f"An endpoint cannot score in mode `{mode}`: the model that does is loaded on this machine.",
                "Use --mode words, or name a model of this machine with --model.",
            )
        is_built_in = model.entry is not None and model.entry.name == DEFAULT_MODEL
        if mode == "tuned" and is_built_in and model.adapter is None:
            raise UsageError(
                "Mode tuned needs an adapter, and none is in use.",
                "`workbench train PROJECT` trains one, `workbench train use PROJECT NAME` chooses one.",
            )
        return model

    def _words_run(self, request: ScoringRequest) -> ScoringRun:
        """Returns the run in mode `words`, in which a model only writes the remaining tasks of what a filter names."""
        fitting = FittingStage(self._setup.project, "words", selection=self._selection(request))
        stages: list[Stage] = [fitting]
        if request.remaining and request.remaining_of is not None:
            writer = self._model_for(request, "words")
            stages.append(self._remaining_stage(request, "words", writer, fitting))
        return ScoringRun(None, fitting, stages)

    def _probe_run(self, request: ScoringRequest) -> ScoringRun:
        """Returns the run in mode `probe`, in which a model reads states while a probe is fitted to them.

        With states alone no fit to words comes first.
        """
        model = self._model_for(request, "probe")
        setup, selection = self._setup, self._selection(request)
        words = None
        if request.features == "both":
            words = FittingStage(setup.project, "words", selection=selection, required=False)
        reading = ReadingStage(
            setup.project,
            setup.process,
            model,
            selection=selection,
            on_measured=setup.catalog.record_speed,
            minutes=request.minutes,
            words_key=lambda: "" if words is None else words.config_hash,
        )

        def make_fit(*, required: bool) -> FittingStage:
            """Returns a fit to what is read when it starts."""
            return FittingStage(
                setup.project,
                request.features,
                selection=selection,
                model=model,
                states_key=lambda: reading.config_hash,
                required=required,
                part=True,
            )

        scoring_stage = make_fit(required=True)
        refining_stage = RefiningStage(reading, make_fit, while_reading=words is not None)
        stages = self._further_stages(request, "probe", model, refining_stage, scoring_stage)
        question = question_for("probe", setup.prompts.prompt)
        return ScoringRun(
            ModelReading(model, question, reading),
            scoring_stage,
            stages if words is None else [words, *stages],
        )

    def _prompt_run(self, request: ScoringRequest, mode: Mode) -> ScoringRun:
        """Returns the run in mode `base` or `tuned`, in which a model scores by what it writes next."""
        model = self._model_for(request, mode)
        question = question_for(mode, self._setup.prompts.prompt)
        scoring_stage = ScoringStage(
            self._setup.project,
            self._setup.process,
            model,
            mode,
            question,
            selection=self._selection(request),
            on_measured=self._setup.catalog.record_speed,
        )
        stages = self._further_stages(request, mode, model, scoring_stage, scoring_stage)
        return ScoringRun(ModelReading(model, question, scoring_stage), scoring_stage, stages)

    def _further_stages(
        self,
        request: ScoringRequest,
        mode: Mode,
        model: LoadableModel,
        reading_stage: Stage,
        scoring_stage: ScoringStage | FittingStage,
    ) -> list[Stage]:
        """Returns tuning, if it is asked for, the stage in which a model reads, and remaining tasks, if they are."""
        writer = self._writer(request, mode, model)
        models = [model] if writer is model else [model, writer]
        stages = [*(self._setup.tuning_before(*models) if request.tune else ()), reading_stage]
        if request.remaining:
            stages.append(self._remaining_stage(request, mode, writer, scoring_stage))
        return stages

    def _writer(self, request: ScoringRequest, mode: Mode, model: LoadableModel) -> LoadableModel:
        """Returns the model that writes remaining tasks: the one that scores. In mode `probe` the scoring model has no
        adapter; where a trained one is in use for the same weights, the model with it writes."""
        if mode != "probe" or request.adapter is not None:
            return model
        tuned = self._setup.models.resolve(replace(request, mode="tuned").model_request)
        return tuned if tuned.path == model.path else model

    def _remaining_stage(
        self,
        request: ScoringRequest,
        mode: Mode,
        writer: LoadableModel,
        scoring: ScoringStage | FittingStage,
    ) -> RemainingStage:
        """Returns the stage that writes remaining tasks.

        Raises:
            UsageError: The endpoint of the model cannot write.
        """
        setup = self._setup
        writer_is_tuned = mode == "tuned" or (mode == "probe" and writer.adapter is not None)
        by_fields = writer.follows_instructions and not (writer_is_tuned or request.paper)
        if writer_is_tuned:
            prompt_name = "remaining-tuned"
        elif by_fields:
            prompt_name = "remaining-json"
        else:
            prompt_name = "remaining"
        prompt = setup.prompts.prompt(prompt_name)
        if request.paper and not writer_is_tuned:
            # In the paper, what the model writes in answer to the scored prompt is what remains.
            prompt = replace(setup.prompts.prompt(mode), max_tokens=MAX_REMAINING_TOKENS_OF_PAPER)
        setup.endpoints.check_writing(writer, prompt)
        return RemainingStage(
            setup.project,
            setup.process,
            writer,
            prompt,
            lambda: scoring.config_hash,
            unfinished=None if request.remaining_of is None else Selection(request.remaining_of),
            where_end_not_written=request.paper,
            by_fields=by_fields,
        )

    def _selection(self, request: ScoringRequest) -> Selection:
        """Returns the conversations that a request scores."""
        run = request.held_out_by
        held_out = None if run is None else self._held_out_by(run)
        return Selection(request.filter, held_out, request.limit)

    def mode_for(self, request: ScoringRequest) -> Mode:
        """Returns the mode that a request is scored in: its own, or the best one that its model and its conversations
        allow.

        The adapter of the request gives `tuned`; `paper` gives `tuned` with an adapter in use, else `base`. An endpoint
        gives `words`. On a local model it is `probe` from `MIN_CONVERSATIONS_FOR_PROBE` conversations; with fewer it is
        `tuned` where an adapter is in use, `probe` where one is bundled for the model, otherwise `base`.
        """
        if request.mode is not None:
            return request.mode
        if request.adapter is not None:
            return "tuned"
        setup = self._setup
        model = setup.models.resolve(replace(request, mode="tuned").model_request)
        if request.paper:
            return "tuned" if model.adapter is not None else "base"
        if model.endpoint:
            return "words"
        if self._enough_for_probe(request):
            return "probe"
        if model.adapter is not None:
            return "tuned"
        bare = setup.models.resolve(replace(request, mode="probe").model_request)
        return "base" if bundled_probe.bundled_probe_for(bare) is None else "probe"

    def _enough_for_probe(self, request: ScoringRequest) -> bool:
        """Returns whether enough of the first conversations could end in two places; copies are not noticed."""
        project = self._setup.project
        ids = project.read(self._selection(request).ids)[:MAX_CONVERSATIONS_FOR_MODE]
        count = 0
        for first in range(0, len(ids), MIN_CONVERSATIONS_FOR_PROBE):
            logs = logs_of(project, ids[first : first + MIN_CONVERSATIONS_FOR_PROBE])
            count += sum(len(log.item.boundaries) > 1 for log in logs)
            if count >= MIN_CONVERSATIONS_FOR_PROBE:
                return True
        return False

    def estimate(self, run: ScoringRun) -> Estimate:
        """Returns the estimated cost of a scoring run; see `estimate_scoring`."""
        return estimate_scoring(self._setup.project, run)


def estimate_scoring(project: Project, run: ScoringRun) -> Estimate:
    """Returns the work that is left, with its time by the speed measured on this machine; the time is None where no
    speed was measured."""
    scoring = run.scoring_stage
    if run.reading is None:
        waiting = _waiting_fits(scoring)
        seconds = 1 + waiting / CONVERSATIONS_PER_SECOND if waiting else 0.0
        costs = tuple(_remaining_costs(project, run.stages))
        return Estimate(waiting, None, None, seconds, model="words alone", costs=costs)
    model = run.reading.model
    with project.reading() as conn:
        waiting_ids = sorted(run.reading.stage.waiting(conn))
        chars_by_conversation = conversations.chars(conn, waiting_ids)
        # The conversations of the sample are evenly spread over those that wait.
        stride = max(1, len(waiting_ids) // SAMPLED_CONVERSATIONS)
        sample_slice = slice(None, stride * SAMPLED_CONVERSATIONS, stride)
        sample = conversations.conversations_for(conn, waiting_ids[sample_slice])
    if not waiting_ids:
        # Nothing is left to read, but a fit may be: it was cancelled or refused, or other conversations were read.
        return Estimate(
            items=_waiting_fits(scoring),
            tokens=0,
            tokens_per_second=model.tokens_per_s,
            seconds=0.0,
            model=model.label,
            adapter=model.adapter_name,
        )
    logs = [render_log(messages) for _, messages in sample]
    return _estimate_reading(run.reading, chars_by_conversation, sample_slice, logs)


def _waiting_fits(stage: ScoringStage | FittingStage) -> int:
    """Returns how many conversations wait for a fit; 0 where the stage makes none."""
    return stage.waiting() if isinstance(stage, FittingStage) else 0


def _remaining_costs(project: Project, stages: Sequence[Stage]) -> list[StageCost]:
    """Returns the cost over endpoints of the remaining tasks in a run."""
    costs = []
    for stage in stages:
        if isinstance(stage, RemainingStage) and stage.model.endpoint:
            _, missing = project.read(stage.waiting)
            if missing:
                costs.append(stage.estimate(sorted(missing)))
    return costs


def _estimate_reading(
    reading: ModelReading,
    chars_by_conversation: Sequence[int],
    sample_slice: slice,
    logs: Sequence[Sequence[LogPiece]],
) -> Estimate:
    """Returns the cost of reading what waits, as `estimate_scoring` does.

    Args:
        chars_by_conversation: Stored number of characters of each conversation that waits.
        sample_slice, logs: Which of these are in the sample, and their logs.
    """
    model, count = reading.model, len(chars_by_conversation)
    sample_bytes = sum(len(piece.text.encode()) for log in logs for piece in log)
    # The stored characters leave out headers and calls, and count no bytes: the sample gives bytes of log for each.
    bytes_per_char = sample_bytes / max(1, sum(chars_by_conversation[sample_slice]))
    # A character of a prompt is about a byte.
    asked_chars = _prompt_chars_per_log(reading.question, logs) * count
    tokens = (sum(chars_by_conversation) * bytes_per_char + asked_chars) * TOKENS_PER_BYTE
    seconds = None if model.tokens_per_s is None else tokens / model.tokens_per_s
    cost = Estimate(
        items=count,
        tokens=round(tokens),
        tokens_per_second=model.tokens_per_s,
        seconds=seconds,
        model=model.label,
        adapter=model.adapter_name,
    )
    minutes = reading.stage.minutes if isinstance(reading.stage, ReadingStage) else None
    if seconds is None or minutes is None or seconds <= 60 * minutes:
        return cost
    share = 60 * minutes / seconds
    return replace(
        cost,
        items=max(1, round(share * count)),
        tokens=round(share * tokens),
        seconds=60.0 * minutes,
        of=count,
    )


def _prompt_chars_per_log(question: Question, logs: Sequence[Sequence[LogPiece]]) -> float:
    """Returns the mean number of characters by which the prompt lengthens a log: it is asked once at each boundary."""
    boundaries_per_log = sum(len(boundaries(log)) for log in logs) / len(logs)
    prompt = question.prompt
    if prompt is None:
        return 0.0
    return boundaries_per_log * len(
        prompt.question + prompt.reply + prompt.end + prompt.continuation
    )
