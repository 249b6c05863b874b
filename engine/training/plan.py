"""Plans a training run for a request: its config, its data, and an estimate of memory and time.

A *survey* is the conversations that match the filter of a request and can be trained on; of many it reads only a part.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.completeness.training_data import (
    MAX_SELECTION_CONVERSATIONS,
    TrainableConversation,
    split,
    usable,
)
from engine.conversations.selection import Selection
from engine.model.catalog import Catalog
from engine.model.interface import CHARS_PER_TOKEN
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.training import run_files
from engine.training.base import (
    Base,
    Machine,
    advice_on,
    base_for,
    count_steps,
    estimate_memory,
    estimate_seconds,
    fit_to_memory,
    this_machine,
)
from engine.training.config import FIRST_WORDS_TOKENS, TrainConfig
from engine.training.history import RunHistory
from engine.training.records import TrainingEstimate
from engine.training.run_files import DataPlan, free_name, machine_name, manifest_summary
from engine.training.training_request import TrainingRequest, with_settings

MAX_SURVEYED_CONVERSATIONS = 4_000
"""Most conversations that an estimate reads, evenly spaced; a run reads all."""

REPLY_TOKENS = 256
"""Assumed number of labels in recipes that learn the last answer, which is rarely longer."""

MAX_BASE_NAME_CHARACTERS = 56
"""Most characters of base and recipe in the default name of a run, so that a number fits behind them."""

FEW_CONVERSATIONS = 25
"""Number of training conversations below which a plan has a warning."""

HEADER_TOKENS = 4
"""Tokens of the opening of a step header, each of which is a label of the recipe `boundary`."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The plan of a run that is not created yet.

    Attributes:
        name: Name of the run.
        config: The settings of the run.
        data: The conversations to train on and to hold out.
        estimate: Estimated cost of the run on all matching conversations, also where `data` has only a part of them.
    """

    name: str
    config: TrainConfig
    data: DataPlan
    estimate: TrainingEstimate


@dataclass(frozen=True, slots=True)
class _Survey:
    """The matching conversations that can be trained on.

    Attributes:
        matched: Number of conversations that match the filter.
        trainable: Those that were read and can be trained on.
        scale: Number of matching conversations divided by the number of those that were read, at least 1.
    """

    matched: int
    trainable: tuple[TrainableConversation, ...]
    scale: float


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs from which the config and the estimate of one run are computed.

    Attributes:
        survey: The matching conversations that were read.
        data: Their split into those to train on and those to hold out.
    """

    base: Base
    machine: Machine
    survey: _Survey
    data: DataPlan

    @property
    def longest_tokens(self) -> int:
        """The number of tokens of the longest log that is trained on."""
        longest_chars = max(conversation.chars for conversation in self.data.split.train)
        return round(longest_chars / CHARS_PER_TOKEN)


class TrainingPlanner:
    """Plans the runs of one project; keeps the last survey until the ids of the matching conversations change."""

    def __init__(
        self,
        project: Project,
        catalog: Catalog,
        histories: Callable[[], Sequence[RunHistory]],
        *,
        machine: Callable[[], Machine] = this_machine,
    ) -> None:
        """Reads nothing yet.

        Args:
            histories: Returns the histories of the runs of the project, from which the speed is taken.
            machine: The machine that runs train on.
        """
        self._project, self._catalog, self._histories = project, catalog, histories
        self._machine = machine
        self._surveys: dict[tuple[bytes, bool], _Survey] = {}

    def plan(self, request: TrainingRequest, *, whole: bool = False) -> TrainingPlan:
        """Returns the plan of the run for a request.

        Args:
            whole: Whether every conversation is read, as for a run, or only a part of many.

        Raises:
            UsageError: The request cannot be fulfilled.
            ModelFileError: The base cannot be read.
        """
        base = base_for(self._catalog, request.base)
        survey = self._survey(request, whole)
        data = _data_plan(request, survey)
        run_files.check_data(data)
        inputs = _Inputs(base=base, machine=self._machine(), survey=survey, data=data)
        config = _config(request, inputs)
        home = Path(self._project.path)
        stem = f"{base.name}-{config.recipe}"[:MAX_BASE_NAME_CHARACTERS]
        name = request.name or free_name(home, stem)
        run_files.check_name(home, name)
        estimate = self._estimate(name, config, inputs)
        return TrainingPlan(name, config, data, estimate)

    def _survey(self, request: TrainingRequest, whole: bool) -> _Survey:
        """Returns the survey for a request; it reads all conversations if `whole`, else at most
        `MAX_SURVEYED_CONVERSATIONS`."""
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
                # only one survey is kept, so that a filter that is being typed does not fill the memory
                self._surveys = {key: survey}
        return survey

    def _estimate(self, name: str, config: TrainConfig, inputs: _Inputs) -> TrainingEstimate:
        """Returns the estimated size, memory and time of a run."""
        base, machine, survey, data = inputs.base, inputs.machine, inputs.survey, inputs.data
        train, selection = data.split.train, data.split.selection
        count = _scale_count(len(train), survey, data.limit)
        held_out_count = _scale_count(len(data.split.held_out), survey, None)
        selection_count = _scale_count(len(selection), survey, MAX_SELECTION_CONVERSATIONS)
        tokens = round(_tokens(train, config) * count / len(train))
        steps = count_steps(config, count)
        memory_bytes, fits, advice = None, True, ""
        if base.shape is not None:
            labels = _most_labels(config, train)
            need = estimate_memory(
                base.shape, config, inputs.longest_tokens, labels, gpu=machine.has_gpu
            )
            memory_bytes = need.total
            fits = machine.memory is None or memory_bytes <= machine.memory
            advice = "" if fits else advice_on(config, need)
        speed = self._speed(config)
        seconds = None
        if speed is not None:
            validation_tokens = round(_tokens(selection, config))
            seconds = estimate_seconds(config, steps, tokens, validation_tokens, speed)
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
            base=base.name,
            advice=advice,
            notes=_notes(config, inputs),
        )

    def _speed(self, config: TrainConfig) -> float | None:
        """Returns the tokens a second of the newest similar run on this machine; None without one."""
        settings = (config.base, config.recipe, config.recompute)
        for history in self._histories():
            past = history.config
            if past is None or manifest_summary(history.run).get("machine") != machine_name():
                continue
            if (past.base, past.recipe, past.recompute) == settings and history.speed():
                return history.speed()
        return None


def _config(request: TrainingRequest, inputs: _Inputs) -> TrainConfig:
    """Returns the config of a run: the settings of the request, and for the others values that fit the machine."""
    base, train = inputs.base, inputs.data.split.train
    recipe: Any = request.recipe
    recipe_config = TrainConfig(base=str(base.path), base_name=base.name, recipe=recipe)
    # before the other settings are fitted, because those of the user change the memory that is needed
    config = with_settings(recipe_config, request.settings)
    return fit_to_memory(
        config,
        base.shape,
        inputs.machine.memory,
        inputs.longest_tokens,
        _most_labels(config, train),
        gpu=inputs.machine.has_gpu,
        chosen=dict(request.settings),
    )


def _tokens(conversations: Sequence[TrainableConversation], config: TrainConfig) -> float:
    """Returns the number of tokens of conversations; of each only those count that fit into one example."""
    return sum(
        min(conversation.chars / CHARS_PER_TOKEN, config.max_tokens)
        for conversation in conversations
    )


def _data_plan(request: TrainingRequest, survey: _Survey) -> DataPlan:
    """Returns the conversations of a survey to train on and to hold out, as a request asks for."""
    return DataPlan(
        split=split(
            survey.trainable, seed=request.seed, held_out=request.held_out, limit=request.limit
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
        # at each boundary the opening of a step header, and the words after it
        labels_at_boundary = HEADER_TOKENS + FIRST_WORDS_TOKENS
        return labels_at_boundary * max(conversation.boundaries for conversation in train)
    return min(REPLY_TOKENS, config.max_tokens)


def _scale_count(count: int, survey: _Survey, maximum: int | None) -> int:
    """Returns a count of conversations that were read, scaled up to all matching ones, at most `maximum`."""
    scaled = round(count * survey.scale)
    return scaled if maximum is None else min(scaled, maximum)


def _notes(config: TrainConfig, inputs: _Inputs) -> tuple[str, ...]:
    """Returns sentences on the conversations behind the estimate, and on those that are left out."""
    survey, data = inputs.survey, inputs.data
    notes = []
    if survey.scale > 1:
        notes.append(
            f"Estimated from {len(survey.trainable):,} of {survey.matched:,} conversations."
        )
    else:
        unusable = survey.matched - len(survey.trainable)
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
