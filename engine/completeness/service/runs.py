"""Makes the stages of scoring runs, and estimates what a run costs.

In mode `words` one stage fits a probe to words and scores with it. In mode `probe` this comes first; then the model
reads hidden states, and at each doubling of what is read a probe is fitted to words and states. In the other modes one
stage reads and scores. A stage for remaining tasks may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.base.conversation import LogPiece, render_log
from engine.base.errors import UsageError
from engine.completeness import bundled_probe
from engine.completeness.boundaries import boundaries
from engine.completeness.conversation_logs import logs_of
from engine.completeness.endpoint_scoring import refuse_curve
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE, Mode
from engine.completeness.scoring import Question
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage
from engine.completeness.stages.refining import RefiningStage
from engine.completeness.stages.remaining import RemainingStage
from engine.completeness.stages.scoring import ScoringStage, question_for
from engine.completeness.tables import score_sets, scores
from engine.conversations.selection import Selection
from engine.conversations.tables import conversations
from engine.jobs.contract import Stage
from engine.model.adapter_files import AdapterOrigin
from engine.model.catalog import DEFAULT_MODEL, LoadableModel
from engine.model.gguf_file import read_gguf
from engine.model.interface import SPEED_TOKENS
from engine.model.process.process import ModelProcess
from engine.model.process.requests import CountTokens, MeasureLong
from engine.model.prompt_files import prompt_names
from engine.model.service.run_setup import RunSetup
from engine.project.project import Project
from engine.project.records import Estimate

SAMPLED_CONVERSATIONS = 48
"""Number of conversations whose tokens are counted for an estimate; the others are assumed to have the same tokens per
character."""

MIN_LONG_TOKENS = 2 * SPEED_TOKENS
"""Mean position of a token in its log, in tokens, from which the cost of attention is measured: further from the start
a token takes noticeably longer, because it attends to all tokens before it."""

MAX_REMAINING_TOKENS_OF_PAPER = 128
"""Longest list of remaining tasks, in tokens, that is written in answer to the prompt that was scored."""

MAX_CONVERSATIONS_FOR_MODE = 500
"""Number of conversations that are looked at to choose the default mode."""

CONVERSATIONS_PER_SECOND = 1_000
"""Conversations whose words are read and fitted to in a second, roughly; 1,250 of 23 messages on two plain cores."""


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
            fits like `scoring_stage`, so the list has neither of the two; the run of a part has the reading alone.
    """

    reading: ModelReading | None
    scoring_stage: ScoringStage | FittingStage
    stages: list[Stage]

    @property
    def config_hash(self) -> str:
        """The config hash of the set of scores; with a probe it is known once the conversations are read."""
        return self.scoring_stage.config_hash


class LongSpeed(NamedTuple):
    """The speed of a model on a long text, in tokens a second, and the text's length in tokens."""

    tokens_per_s: float
    tokens: int


def estimate_scoring(
    project: Project,
    process: ModelProcess,
    run: ScoringRun,
    record_long_speed: Callable[[LoadableModel, float, int], None],
) -> Estimate:
    """Returns the work that is left, divided by the speed measured on this machine.

    Args:
        record_long_speed: Called with a model, its speed on a long text in tokens a second and the text's tokens, after
            that speed had to be measured.

    Returns:
        An estimate whose speed and seconds are None when the model's speed was never measured here.

    Raises:
        ModelError: The model cannot be loaded.
    """
    scoring = run.scoring_stage
    if run.reading is None:
        waiting = scoring.waiting() if isinstance(scoring, FittingStage) else 0
        seconds = 1 + waiting / CONVERSATIONS_PER_SECOND if waiting else 0.0
        return Estimate(waiting, None, None, seconds, model="words alone")
    model = run.reading.model
    with project.reading() as conn:
        waiting_ids = sorted(run.reading.stage.waiting(conn))
        chars_by_conversation = conversations.chars(conn, waiting_ids)
        stride = max(1, len(waiting_ids) // SAMPLED_CONVERSATIONS)
        # The conversations of the sample, evenly spread over those that wait.
        sampled = slice(None, stride * SAMPLED_CONVERSATIONS, stride)
        sample = conversations.conversations_for(conn, waiting_ids[sampled])
    if not waiting_ids:
        # Nothing is left to read, but a fit may be: it was cancelled or refused, or other conversations were read.
        fits = scoring.waiting() if isinstance(scoring, FittingStage) else 0
        return Estimate(fits, 0, model.tokens_per_s, seconds=0.0, model=model.label)
    in_words = run.reading.question.prompt is not None
    if model.endpoints and in_words and isinstance(run.reading.stage, ScoringStage):
        return _estimate_requests(project, run.reading.stage, run.stages, waiting_ids, model.label)
    logs = [render_log(messages) for _, messages in sample]
    return _estimate_reading(
        process, run.reading, chars_by_conversation, sampled, logs, record_long_speed
    )


UNENDED_SHARE = 0.5
"""Share of the conversations whose remaining tasks are written, for estimates before any scores."""


def _estimate_requests(
    project: Project, scoring: ScoringStage, stages: Sequence[Stage], ids: Sequence[int], model: str
) -> Estimate:
    """Returns the cost of scoring over endpoints, and of the remaining tasks after it, by the requests for a sample.
    The scores in force say which conversations have remaining tasks.

    Args:
        ids: The conversations that wait, rising.
    """
    costs = [scoring.estimate(ids)]
    unended, count = ids, round(UNENDED_SHARE * len(ids))
    with project.reading() as conn:
        in_force = score_sets.hash_in_force(conn)
        if in_force is not None:
            unended = sorted({*ids}.intersection(scores.below_threshold(conn, in_force)))
            count = len(unended)
    costs += [
        stage.estimate(unended, count) for stage in stages if isinstance(stage, RemainingStage)
    ]
    tokens = sum(cost.read for cost in costs)
    return Estimate(len(ids), tokens, None, None, model, costs=tuple(costs))


def _estimate_reading(
    process: ModelProcess,
    reading: ModelReading,
    chars_by_conversation: Sequence[int],
    sampled: slice,
    logs: Sequence[Sequence[LogPiece]],
    record_long_speed: Callable[[LoadableModel, float, int], None],
) -> Estimate:
    """Returns the cost of reading what waits, as `estimate_scoring` does.

    Args:
        chars_by_conversation: Stored number of characters of each conversation that waits.
        sampled, logs: Which of these are in the sample, and their logs.
    """
    model, count = reading.model, len(chars_by_conversation)
    client = process.client_for(model)
    loaded = client.load(model.path, model.options, model.adapter, model.weights_copy)
    sample_tokens = sum(client.ask(CountTokens([[piece.text for piece in log] for log in logs])))
    sample_chars = sum(len(piece.text) for log in logs for piece in log)
    # A stored character count leaves out headers and calls, so the sample also gives log characters per stored one.
    overhead = sample_chars / max(1, sum(chars_by_conversation[sampled]))
    # All other tokens are estimated: the sample gives them per character, the table the characters.
    tokens_per_char = sample_tokens / max(1, sample_chars)
    log_tokens = [chars * overhead * tokens_per_char for chars in chars_by_conversation]
    asked_chars = _prompt_chars_per_log(reading.question, logs) * count
    tokens = sum(log_tokens) + asked_chars * tokens_per_char
    speed = model.tokens_per_s
    if speed is None:
        return Estimate(count, round(tokens), None, None, model.label)
    long = None if model.long is None else LongSpeed(*model.long)
    # A token is in the log that holds it, so the mean log of a token weighs each log by its tokens.
    if long is None and sum(n * n for n in log_tokens) > MIN_LONG_TOKENS * sum(log_tokens):
        sample_text = "".join(piece.text for log in logs for piece in log)
        long = LongSpeed(*client.ask(MeasureLong(sample_text)))
        record_long_speed(model, long.tokens_per_s, long.tokens)
    seconds = tokens / speed
    if long is not None:
        seconds += _attention_seconds(log_tokens, speed, long, int(loaded["context"]))
    cost = Estimate(count, round(tokens), tokens / seconds, seconds, model.label)
    minutes = reading.stage.minutes if isinstance(reading.stage, ReadingStage) else None
    if minutes is None or seconds <= 60 * minutes:
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


def _attention_seconds(
    log_tokens: Sequence[float], speed: float, long: LongSpeed, context: int
) -> float:
    """Returns the extra seconds of long logs over the time of their tokens at the speed of a short text.

    The time of a token grows with the tokens before it, so a log of n tokens takes `a * n + b * n * n`; the two
    speeds give a and b. A log over the context is read in windows, each at most as long as the context.
    """
    if long.tokens <= SPEED_TOKENS:
        return 0.0
    # b, in seconds for each token and token before it: the short speed was measured on `SPEED_TOKENS` tokens.
    growth = max(0.0, 1 / long.tokens_per_s - 1 / speed) / (long.tokens - SPEED_TOKENS)
    return sum(growth * n * max(0.0, min(n, context) - SPEED_TOKENS) for n in log_tokens)


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
        """Returns the scoring run of a request: tuning if the model was never tuned here, scores, remaining tasks.

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
        model = self._model_for(request, mode)
        tag = request.end_tag
        if mode == "tuned" and tag is None:
            tag = _trained_tag(model)
        question = self._question_for(mode, model, tag)
        reading: ScoringStage | ReadingStage
        scoring: ScoringStage | FittingStage
        words: list[Stage] = []
        stages: list[Stage]
        if mode == "probe":
            words, reading, make_fit = self._probe_stages(request, model)
            scoring = make_fit(True)
            stages = [RefiningStage(reading, make_fit, rounds=request.features == "both")]
        else:
            reading = scoring = self._scoring_stage(request, mode, model, question)
            stages = [scoring]
        by_model = ModelReading(model, question, reading)
        if request.part is not None:
            # One machine of several reads its part; the rest is done in the project that the parts are merged into.
            tuning = self._setup.tuning_before(model) if request.tune else []
            return ScoringRun(by_model, scoring, [*tuning, reading])
        writer = self._writer(request, mode, model)
        if request.remaining:
            remaining = self._remaining_stage(request, mode, writer, tag, scoring)
            if isinstance(reading, ScoringStage) and not (request.paper or remaining.by_fields):
                # The log is in the model's cache when it is scored, so writing then saves reading it again.
                reading.write_remaining(remaining)
            stages.append(remaining)
        models = [model] if writer is model else [model, writer]
        tuning = self._setup.tuning_before(*models) if request.tune else []
        return ScoringRun(by_model, scoring, [*words, *tuning, *stages])

    def _model_for(self, request: ScoringRequest, mode: Mode) -> LoadableModel:
        """Returns the model that reads the logs.

        Raises:
            ModelFileError: The model or its adapter cannot be read.
            UsageError: There is no such model or adapter, or it cannot score in this mode.
        """
        model = self._setup.models.resolve(request.model_request)
        if request.paper and model.endpoints:
            raise UsageError(
                "An endpoint does not say whether the model writes the end tag, which decides with --paper.",
                "Use a model of this machine, or score without --paper.",
            )
        is_built_in = model.entry is not None and model.entry.name == DEFAULT_MODEL
        if mode == "tuned" and is_built_in and model.adapter is None and request.end_tag is None:
            raise UsageError(
                "Mode tuned needs an adapter, and none is in use.",
                "`workbench train PROJECT` trains one, `workbench train use PROJECT NAME` chooses one.",
            )
        return model

    def _question_for(self, mode: Mode, model: LoadableModel, tag: str | None) -> Question:
        """Returns the question that a model is asked at each boundary.

        In mode `judge` an endpoint that cannot give a curve is asked for a reply with fields, if it follows
        instructions.

        Args:
            tag: The end tag; None without one.

        Raises:
            UsageError: An endpoint of the model cannot answer.
        """
        setup = self._setup
        prompts = {name: setup.prompts.prompt(name) for name in prompt_names()}
        question = question_for(mode, prompts, tag)
        try:
            setup.endpoints.check(model, lambda served: refuse_curve(served, question))
        except UsageError:
            if mode != "judge" or not model.follows_instructions:
                raise
            return Question(prompts["judge-json"], by_fields=True)
        return question

    def _words_run(self, request: ScoringRequest) -> ScoringRun:
        """Returns the run in mode `words`.

        Raises:
            UsageError: A part of the conversations is asked for.
        """
        if request.part is not None:
            raise UsageError(
                "In mode `words` no model reads, so there is nothing to share.",
                "Leave out --part.",
            )
        fitting = FittingStage(self._setup.project, "words", selection=self._selection(request))
        return ScoringRun(None, fitting, [fitting])

    def _writer(self, request: ScoringRequest, mode: Mode, model: LoadableModel) -> LoadableModel:
        """Returns the model that writes remaining tasks: the one that scores, with a completion adapter beside a
        probe."""
        if mode != "probe" or request.adapter is not None:
            return model
        tuned = self._setup.models.resolve(replace(request, mode="tuned").model_request)
        return tuned if tuned.path == model.path else model

    def _remaining_stage(
        self,
        request: ScoringRequest,
        mode: Mode,
        writer: LoadableModel,
        tag: str | None,
        scoring: ScoringStage | FittingStage,
    ) -> RemainingStage:
        """Returns the stage that writes remaining tasks.

        Args:
            tag: The end tag, at which the model stops writing too; None without one.

        Raises:
            UsageError: The endpoint of the model cannot write.
        """
        setup = self._setup
        writer_is_tuned = mode == "tuned" or (mode == "probe" and writer.adapter is not None)
        by_fields = writer.follows_instructions and not (writer_is_tuned or request.paper)
        name = "remaining-json" if by_fields else "remaining"
        prompt = setup.prompts.prompt("remaining-tuned" if writer_is_tuned else name)
        if request.paper and not writer_is_tuned:
            # In the paper, what the model writes in answer to the scored prompt is what remains.
            prompt = replace(setup.prompts.prompt(mode), max_tokens=MAX_REMAINING_TOKENS_OF_PAPER)
        if tag is not None:
            prompt = replace(prompt, stop=(*prompt.stop, tag))
        setup.endpoints.check_writing(writer, prompt)
        return RemainingStage(
            setup.project,
            setup.process,
            writer,
            prompt,
            lambda: scoring.config_hash,
            where_end_not_written=request.paper,
            by_fields=by_fields,
        )

    def _selection(self, request: ScoringRequest) -> Selection:
        """Returns the conversations that a request scores."""
        held_out = self._held_out(request.held_out_by)
        return Selection(request.filter, held_out, request.limit, request.part)

    def _scoring_stage(
        self, request: ScoringRequest, mode: Mode, model: LoadableModel, question: Question
    ) -> ScoringStage:
        """Returns the stage that asks a model at each boundary."""
        setup = self._setup
        return ScoringStage(
            setup.project,
            setup.process,
            model,
            mode,
            question,
            selection=self._selection(request),
            measured=setup.catalog.record_speed,
        )

    def _probe_stages(
        self, request: ScoringRequest, model: LoadableModel
    ) -> tuple[list[Stage], ReadingStage, Callable[[bool], FittingStage]]:
        """Returns the stages of mode `probe`: those that score by words first, the one that reads states, and the
        function that makes a fit to what was read, as `RefiningStage` takes it. With states alone no words come first.
        """
        setup, selection = self._setup, self._selection(request)
        words = None
        if request.features == "both":
            words = FittingStage(setup.project, "words", selection=selection, required=False)
        reading = ReadingStage(
            setup.project,
            setup.process,
            model,
            selection=selection,
            measured=setup.catalog.record_speed,
            minutes=request.minutes,
            words_key=lambda: "" if words is None else words.config_hash,
        )

        def make_fit(required: bool) -> FittingStage:
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

        return [] if words is None else [words], reading, make_fit

    def mode_for(self, request: ScoringRequest) -> Mode:
        """Returns the mode that a request is scored in: its own, or the best one that its model and its conversations
        allow.

        From `MIN_CONVERSATIONS_FOR_PROBE` conversations that is `probe` on a local model and `words` beside endpoints.
        With fewer it is `tuned` where an adapter is in use, `probe` on the built-in model, otherwise `base`.
        """
        if request.mode is not None:
            return request.mode
        if request.adapter is not None or request.end_tag is not None:
            return "tuned"
        setup = self._setup
        model = setup.models.resolve(replace(request, mode="tuned").model_request)
        if request.paper:
            return "tuned" if model.adapter is not None else "base"
        if self._enough_for_probe(request):
            return "words" if model.endpoints else "probe"
        if model.endpoints:
            return "base"
        if model.adapter is not None:
            return "tuned"
        bare = setup.models.resolve(replace(request, mode="probe").model_request)
        return "base" if bundled_probe.bundled_probe_for(bare) is None else "probe"

    def _enough_for_probe(self, request: ScoringRequest) -> bool:
        """Returns whether enough of the first conversations could end in two places; copies are not noticed."""
        project = self._setup.project
        selection = Selection(request.filter, self._held_out(request.held_out_by), request.limit)
        with project.reading() as conn:
            ids = selection.ids(conn)[:MAX_CONVERSATIONS_FOR_MODE]
        count = 0
        for first in range(0, len(ids), MIN_CONVERSATIONS_FOR_PROBE):
            logs = logs_of(project, ids[first : first + MIN_CONVERSATIONS_FOR_PROBE])
            count += sum(len(log.item.boundaries) > 1 for log in logs)
            if count >= MIN_CONVERSATIONS_FOR_PROBE:
                return True
        return False

    def estimate(self, run: ScoringRun) -> Estimate:
        """Returns the estimated cost of a scoring run; see `estimate_scoring`."""
        setup = self._setup
        record_speed = setup.catalog.record_long_speed
        cost = estimate_scoring(setup.project, setup.process, run, record_speed)
        adapter = None if run.reading is None else run.reading.model.adapter_name
        return replace(cost, adapter=adapter)

    def _held_out(self, run: str | None) -> frozenset[str] | None:
        """Returns the ids of the conversations that a training run was not trained on; None without a run."""
        return None if run is None else self._held_out_by(run)


def _trained_tag(model: LoadableModel) -> str | None:
    """Returns the text tag that the adapter of a model was trained to end with; None for an end token, and without an
    adapter."""
    if model.adapter is None:
        return None
    return AdapterOrigin.of(read_gguf(model.adapter)).end_tag or None
