"""Plans a training run from a request: config, data, and estimate of memory and time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import ModelError, NotFound
from engine.base.folders import log_dir
from engine.completeness.training_data import (
    MAX_SELECTION_CONVERSATIONS,
    TrainableConversation,
    items,
    split,
    usable,
)
from engine.conversations.selection import Selection
from engine.model.catalog import Catalog
from engine.model.interface import CHARS_PER_TOKEN, LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import CountTokens
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.training import presets, run_files
from engine.training.base import Base, Machine, base_for, this_machine
from engine.training.config import FIRST_WORDS_TOKENS, RECIPE_SETTINGS, TrainConfig
from engine.training.history import RunHistory
from engine.training.records import TrainingEstimate
from engine.training.run_files import DataPlan, free_name, machine_name, manifest_summary
from engine.training.training_request import SETTINGS, TrainingRequest

MAX_SURVEYED_CONVERSATIONS = 4_000
"""Most conversations that an estimate reads, evenly spread; a run reads them all."""

COUNTED_CONVERSATIONS = 48
"""Number of conversations whose tokens are counted to estimate the tokens per character."""

REPLY_TOKENS = 256
"""Assumed number of labels in recipes that learn the last answer, which is rarely longer."""

RECOMPUTING_COST = 4 / 3
"""Factor by which recomputing activations slows training: a backward pass takes as long as two forward passes, and a
second forward pass is added to the three."""

MAX_BASE_NAME_CHARACTERS = 56
"""Characters of base and recipe in the name that a run gets by itself, so that a number fits behind them."""

COUNTING_CONTEXT = 512
"""Tokens of the context of the model whose tokenizer counts; nothing is read with it."""

FEW_CONVERSATIONS = 25
"""Number of training conversations below which the plan warns."""

HEADER_TOKENS = 4
"""Tokens of the opening of a step header, each of which is a label of the recipe `boundary`."""

TokenCounter = Callable[[Path, Sequence[Sequence[str]]], list[int]]
"""Counts the tokens of each log, given as its pieces, with the tokenizer of a GGUF file."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The plan of a run that is not created yet.

    Attributes:
        estimate: Its cost; scaled up where `data` has only a part of the matching conversations.
    """

    name: str
    config: TrainConfig
    data: DataPlan
    estimate: TrainingEstimate


@dataclass(frozen=True, slots=True)
class _Survey:
    """The matching conversations that can be trained on.

    Attributes:
        matched: Number of conversations that the filter matches.
        usable: Those of them that were read and can be trained on.
        scale: Number of matching conversations divided by that of those read, at least 1.
    """

    matched: int
    usable: tuple[TrainableConversation, ...]
    scale: float


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs that the config and the estimate of one run are computed from.

    Attributes:
        survey: The matching conversations that were read.
        data: Their split into those to train on and those to hold out.
        tokens_per_char: Tokens per character of the logs, with the tokenizer of the base.
    """

    base: Base
    machine: Machine
    survey: _Survey
    data: DataPlan
    tokens_per_char: float

    @property
    def longest_tokens(self) -> int:
        """The number of tokens of the longest log that is trained on."""
        longest_chars = max(conversation.chars for conversation in self.data.split.train)
        return round(longest_chars * self.tokens_per_char)


class TrainingPlanner:
    """Plans the runs of one project. Caches what it read until the ids of the matching conversations change."""

    def __init__(
        self,
        project: Project,
        catalog: Catalog,
        histories: Callable[[], Sequence[RunHistory]],
        *,
        machine: Callable[[], Machine] = this_machine,
        count: TokenCounter | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            histories: Returns those of the runs of the project, from which the speed is taken.
            machine: The machine that runs train on.
            count: Counts tokens; by a model process where None.
        """
        self._project, self._catalog, self._histories = project, catalog, histories
        self._machine, self._count = machine, count or count_tokens
        self._surveys: dict[tuple[bytes, bool], _Survey] = {}
        self._per_char: dict[Path, float] = {}

    def plan(self, request: TrainingRequest, *, whole: bool = False) -> TrainingPlan:
        """Returns the plan of the run that a request asks for.

        Args:
            whole: Read every conversation, as a run must, instead of a part.

        Raises:
            UsageError: The request cannot be fulfilled.
            ModelFileError: The base cannot be read.
        """
        base = base_for(self._catalog, request.base)
        survey = self._survey(request, whole)
        data = _data_plan(request, survey)
        run_files.check_data(data)
        tokens_per_char = self._tokens_per_char(base, data.split.train)
        inputs = _Inputs(
            base=base,
            machine=self._machine(),
            survey=survey,
            data=data,
            tokens_per_char=tokens_per_char,
        )
        config = _config(request, inputs)
        home = Path(self._project.path)
        stem = f"{base.name}-{config.recipe}"[:MAX_BASE_NAME_CHARACTERS]
        name = request.name or free_name(home, stem)
        run_files.check_name(home, name)
        estimate = self._estimate(name, config, inputs)
        return TrainingPlan(name, config, data, estimate)

    def _survey(self, request: TrainingRequest, whole: bool) -> _Survey:
        """Returns the matching conversations that can be trained on, of many only a part unless `whole`."""
        with self._project.reading() as conn, snapshot(conn):
            ids = Selection(request.filter).ids(conn)
            reads_all = whole or len(ids) <= MAX_SURVEYED_CONVERSATIONS
            key = hashlib.sha256(ids.tobytes()).digest(), reads_all
            survey = self._surveys.get(key)
            if survey is None:
                stride = 1 if reads_all else math.ceil(len(ids) / MAX_SURVEYED_CONVERSATIONS)
                read_ids = ids[::stride]
                conversations = tuple(
                    conversation for page in usable(conn, read_ids) for conversation in page
                )
                survey = _Survey(
                    len(ids), conversations, len(ids) / len(read_ids) if read_ids else 1.0
                )
                # Keeps one survey only, so that a filter that is being typed does not fill the memory.
                self._surveys = {key: survey}
        return survey

    def _estimate(self, name: str, config: TrainConfig, inputs: _Inputs) -> TrainingEstimate:
        """Returns the size, memory and time that a run is estimated to need."""
        base, machine, survey, data = inputs.base, inputs.machine, inputs.survey, inputs.data
        train, selection = data.split.train, data.split.selection
        count = _scaled(len(train), survey, data.limit)
        held_out_count = _scaled(len(data.split.held_out), survey, None)
        selection_count = _scaled(len(selection), survey, MAX_SELECTION_CONVERSATIONS)
        tokens = round(_tokens(train, config, inputs.tokens_per_char) * count / len(train))
        steps = presets.steps_of(config, count)
        memory_bytes, fits, advice = None, True, ""
        if base.shape is not None:
            labels = _most_labels(config, train)
            need = presets.memory_of(
                base.shape, config, inputs.longest_tokens, labels, gpu=machine.has_gpu
            )
            memory_bytes = need.total
            fits = machine.memory is None or memory_bytes <= machine.memory
            advice = "" if fits else presets.advice(config, need, gpu=machine.has_gpu)
        speed, measured = self._speed(base, config, machine)
        seconds = None
        if speed is not None:
            validation_tokens = round(_tokens(selection, config, inputs.tokens_per_char))
            seconds = presets.seconds_of(config, steps, tokens, validation_tokens, speed)
        return TrainingEstimate(
            name=name,
            matched=survey.matched,
            train=count,
            held_out=held_out_count,
            selection=selection_count,
            test=held_out_count - selection_count,
            tokens=tokens,
            steps=steps,
            memory=memory_bytes,
            fits=fits,
            seconds=seconds,
            measured=measured,
            base=base.name,
            advice=advice,
            notes=_notes(config, inputs),
        )

    def _speed(
        self, base: Base, config: TrainConfig, machine: Machine
    ) -> tuple[float | None, bool]:
        """Returns the tokens a second, None where not known, and whether they were measured by a run on this
        machine."""
        this_machine_name = machine_name()
        for history in self._histories():
            past_config = history.config
            past_machine = manifest_summary(history.run).get("machine")
            if past_config is None or past_machine != this_machine_name:
                continue
            if _speed_settings(past_config) != _speed_settings(config):
                continue
            speed = history.speed()
            if speed:
                return speed, True
        # The ratio to the speed of scoring is known of the CPU only, and scoring reads GGUF files only.
        if machine.has_gpu or base.is_folder:
            return None, False
        scoring_speed = self._catalog.loadable(self._catalog.entry(str(base.path))).tokens_per_s
        if scoring_speed is None:
            return None, False
        cost = presets.TRAINING_COST * (RECOMPUTING_COST if config.recompute else 1)
        return scoring_speed / cost, False

    def _tokens_per_char(self, base: Base, train: Sequence[TrainableConversation]) -> float:
        """Returns the tokens per character: counted on a sample of `train`, else assumed."""
        if base.path not in self._per_char:
            self._per_char[base.path] = self._count_sample(base, train) or 1 / CHARS_PER_TOKEN
        return self._per_char[base.path]

    def _count_sample(self, base: Base, train: Sequence[TrainableConversation]) -> float | None:
        """Returns the tokens per character of a sample of the logs; None where they cannot be counted."""
        if base.is_folder:
            return None
        stride = math.ceil(len(train) / COUNTED_CONVERSATIONS)
        with self._project.reading() as conn:
            logs = [
                item.texts
                for _, item in items(conn, [conversation.key for conversation in train[::stride]])
            ]
        try:
            counts = self._count(base.path, logs)
        except ModelError:
            # The estimate is then less accurate. If the base cannot be used, the trainer reports it.
            return None
        return sum(counts) / max(1, sum(len(text) for log in logs for text in log))


def count_tokens(path: Path, logs: Sequence[Sequence[str]]) -> list[int]:
    """Returns the number of tokens of each log, counted in a model process of its own, so that no job loses its loaded
    model."""
    process = ModelProcess(log_dir() / "count.log")
    try:
        process.load(path, LoadOptions(context=COUNTING_CONTEXT))
        return process.ask(CountTokens(logs))
    finally:
        process.close()


def _config(request: TrainingRequest, inputs: _Inputs) -> TrainConfig:
    """Returns the config of a run: what the request sets, and for the rest what fits into the memory of the machine."""
    base, train = inputs.base, inputs.data.split.train
    chosen_settings = dict(request.settings)
    unknown = [name for name in chosen_settings if name not in SETTINGS]
    if unknown:
        raise NotFound(f"There is no setting {unknown[0]!r}.", f"There are {', '.join(SETTINGS)}.")
    recipe: Any = {"recipe": request.recipe, **RECIPE_SETTINGS.get(request.recipe, {})}
    recipe_config = TrainConfig(base=str(base.path), base_name=base.name, **recipe)
    # Before the rest is fitted, because what the user sets changes the memory that is needed.
    config = presets.with_settings(recipe_config, chosen_settings)
    labels = _most_labels(config, train)
    # Only a folder of weights can be kept in 4 bits.
    fixed_settings = set(chosen_settings) if base.is_folder else {*chosen_settings, "four_bit"}
    return presets.fitted(
        config,
        base.shape,
        inputs.machine.memory,
        inputs.longest_tokens,
        labels,
        gpu=inputs.machine.has_gpu,
        chosen=fixed_settings,
    )


def _speed_settings(config: TrainConfig) -> tuple[object, ...]:
    """Returns the settings on which the speed of a run depends most; runs that share them are taken to be as fast."""
    return config.base, config.recipe, config.precision, config.recompute, config.four_bit


def _tokens(
    conversations: Sequence[TrainableConversation], config: TrainConfig, tokens_per_char: float
) -> float:
    """Returns the number of tokens of conversations, of each at most what fits into one example."""
    return sum(
        min(conversation.chars * tokens_per_char, config.max_tokens)
        for conversation in conversations
    )


def _data_plan(request: TrainingRequest, survey: _Survey) -> DataPlan:
    """Returns the selection of data for the run that a request asks for."""
    return DataPlan(
        split=split(
            survey.usable, seed=request.seed, held_out=request.held_out, limit=request.limit
        ),
        filter=str(request.filter),
        matched=survey.matched,
        seed=request.seed,
        held_out=request.held_out,
        limit=request.limit,
    )


def _most_labels(config: TrainConfig, train: Sequence[TrainableConversation]) -> int:
    """Returns the largest number of labels that one log can have."""
    if config.recipe == "boundary":
        # At each boundary the opening of a step header, and the words after it.
        labels_at_boundary = HEADER_TOKENS + (FIRST_WORDS_TOKENS if config.words else 0)
        return labels_at_boundary * max(conversation.boundaries for conversation in train)
    return min(REPLY_TOKENS, config.max_tokens)


def _scaled(count: int, survey: _Survey, maximum: int | None) -> int:
    """Returns a count of the conversations that were read, scaled up to all matching ones."""
    scaled = round(count * survey.scale)
    return scaled if maximum is None else min(scaled, maximum)


def _notes(config: TrainConfig, inputs: _Inputs) -> tuple[str, ...]:
    """Returns sentences about what the estimate is based on and what is left out."""
    survey, data = inputs.survey, inputs.data
    notes = []
    if survey.scale > 1:
        notes.append(f"Estimated from {len(survey.usable):,} of {survey.matched:,} conversations.")
    else:
        unusable = survey.matched - len(survey.usable)
        if unusable:
            notes.append(f"{unusable:,} have no answer, so they cannot be trained on.")
        if data.split.twins:
            notes.append(
                f"{data.split.twins:,} have the same text as another one and are left out."
            )
    if inputs.longest_tokens > config.max_tokens:
        notes.append(
            f"The longest log has about {inputs.longest_tokens:,} tokens;"
            f" only the last {config.max_tokens:,} tokens of a longer log are used."
        )
    if len(data.split.train) < FEW_CONVERSATIONS:
        notes.append(
            f"Fewer than {FEW_CONVERSATIONS} conversations teach little; 100 and more are better."
        )
    if inputs.base.shape is None:
        notes.append("The sizes of the base are not known, so its memory is not known either.")
    return tuple(notes)
