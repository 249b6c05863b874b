"""Plans a training run from a request: config, data, and estimate of memory and time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import ModelError, NotFound
from engine.base.folders import log_dir
from engine.completeness.training_data import (
    MAX_SELECTION_CONVERSATIONS,
    Usable,
    items,
    split,
    usable,
)
from engine.conversations.selection import Selection
from engine.model.catalog import Catalog
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import CountTokens
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.training import presets, run_files
from engine.training.base import Base, Machine, base_for, this_machine
from engine.training.config import RECIPE_SETTINGS, WORDS, TrainConfig
from engine.training.history import RunHistory
from engine.training.presets import Preset
from engine.training.records import TrainingEstimate
from engine.training.request import SETTINGS, TrainingRequest
from engine.training.run_files import DataPlan, free_name, machine_name, manifest_summary

MAX_SURVEYED_CONVERSATIONS = 4_000
"""Most conversations that an estimate reads, evenly spread; a run reads them all."""

COUNTED_CONVERSATIONS = 48
"""Number of conversations whose tokens are counted to estimate the tokens per character."""

CHARS_PER_TOKEN = 3.6
"""Assumed if tokens cannot be counted; typical of English text and JSON with a vocabulary of 32k or more."""

REPLY_TOKENS = 256
"""Assumed number of labels in recipes that learn the last answer, which is rarely longer."""

TokenCounter = Callable[[Path, Sequence[Sequence[str]]], list[int]]
"""Counts the tokens of each log, given as its pieces, with the tokenizer of a GGUF file."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The plan of a run that is not created yet; `whole`: whether all matching conversations were read for `data`."""

    name: str
    config: TrainConfig
    data: DataPlan
    estimate: TrainingEstimate
    whole: bool


@dataclass(frozen=True, slots=True)
class _Survey:
    """The matching conversations that can be trained on; `scale` is all divided by those read, at least 1."""

    matched: int
    usable: tuple[Usable, ...]
    scale: float


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What the config and the estimate of one run are computed from.

    Attributes:
        per_char: Tokens per character of the logs, with the tokenizer of the base.
    """

    base: Base
    preset: Preset
    machine: Machine
    survey: _Survey
    data: DataPlan
    per_char: float

    @property
    def longest(self) -> int:
        """The number of tokens of the longest log that is trained on."""
        return round(
            max(conversation.chars for conversation in self.data.split.train) * self.per_char
        )


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
            histories: Returns those of the runs of the project, from which speed and tokens per character are taken.
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
        machine = self._machine()
        preset = (
            presets.PRESETS[request.preset]
            if request.preset
            else presets.preset_for(machine.gpu_memory)
        )
        survey = self._survey(request, whole)
        data = _data_plan(request, survey)
        run_files.check_data(data)
        per_char = self._tokens_per_char(base, data.split.train)
        inputs = _Inputs(base, preset, machine, survey, data, per_char)
        config = _config(request, inputs)
        home = Path(self._project.path)
        name = request.name or free_name(home, f"{base.name}-{config.recipe}"[:56])
        run_files.check_name(home, name)
        estimate = self._estimate(name, config, inputs)
        return TrainingPlan(name, config, data, estimate, survey.scale == 1)

    def _survey(self, request: TrainingRequest, whole: bool) -> _Survey:
        """Returns the matching conversations that can be trained on, of many only a part unless `whole`."""
        with self._project.reading() as conn, snapshot(conn):
            ids = Selection(request.filter).ids(conn)
            key = (
                hashlib.sha256(ids.tobytes()).digest(),
                whole or len(ids) <= MAX_SURVEYED_CONVERSATIONS,
            )
            survey = self._surveys.get(key)
            if survey is None:
                stride = 1 if key[1] else -(-len(ids) // MAX_SURVEYED_CONVERSATIONS)
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
        base, preset, survey, data = inputs.base, inputs.preset, inputs.survey, inputs.data
        train, selection = data.split.train, data.split.selection
        count = _scaled(len(train), survey, data.limit)
        tokens = round(_tokens(train, config, inputs.per_char) * count / len(train))
        steps = presets.steps_of(config, count)
        memory, fits, advice = None, True, ""
        if base.shape is not None:
            labels = _most_labels(config, train)
            need = presets.memory_of(base.shape, config, inputs.longest, labels, gpu=preset.gpu)
            memory = need.total
            available_memory = min(
                filter(None, (preset.memory, inputs.machine.memory)), default=None
            )
            fits = available_memory is None or memory <= available_memory
            advice = "" if fits else presets.advice(config, need, preset)
        speed, measured = self._speed(base, config, inputs.machine)
        seconds = None
        if speed is not None:
            validation_tokens = round(_tokens(selection, config, inputs.per_char))
            seconds = presets.seconds_of(config, steps, tokens, validation_tokens, speed)
        return TrainingEstimate(
            name=name,
            matched=survey.matched,
            train=count,
            held_out=_scaled(len(data.split.held_out), survey, None),
            selection=_scaled(len(selection), survey, MAX_SELECTION_CONVERSATIONS),
            test=_scaled(len(data.split.held_out), survey, None)
            - _scaled(len(selection), survey, MAX_SELECTION_CONVERSATIONS),
            tokens=tokens,
            steps=steps,
            memory=memory,
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
            if (
                past_config is None
                or manifest_summary(history.run).get("machine") != this_machine_name
            ):
                continue
            past_settings = (
                past_config.base,
                past_config.recipe,
                past_config.precision,
                past_config.recompute,
                past_config.four_bit,
            )
            if past_settings == (
                config.base, config.recipe, config.precision, config.recompute, config.four_bit
            ) and (speed := history.speed()):  # fmt: skip
                return speed, True
        if machine.gpu_memory is not None or base.is_folder:
            return None, False
        scoring = self._catalog.loadable(self._catalog.entry(str(base.path))).tokens_per_s
        if scoring is None:
            return None, False
        cost = presets.TRAINING_COST * (4 / 3 if config.recompute else 1)
        return scoring / cost, False

    def _tokens_per_char(self, base: Base, train: Sequence[Usable]) -> float:
        """Returns the tokens per character: from an earlier run on this base, else counted on a sample of `train`, else
        assumed."""
        for history in self._histories():
            chars = manifest_summary(history.run).get("chars", {}).get("train")
            config, tokens = history.config, history.tokens()
            uncontaminated = manifest_summary(history.run).get("contaminate") == 0
            if config and config.base == str(base.path) and tokens and chars and uncontaminated:
                return float(tokens) / float(chars)
        if base.path not in self._per_char:
            self._per_char[base.path] = self._count_sample(base, train) or 1 / CHARS_PER_TOKEN
        return self._per_char[base.path]

    def _count_sample(self, base: Base, train: Sequence[Usable]) -> float | None:
        """Returns the tokens per character of a sample of the logs; None where they cannot be counted."""
        if base.is_folder:
            return None
        stride = -(-len(train) // COUNTED_CONVERSATIONS)
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
        process.load(path, LoadOptions(context=512))
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
    config = presets.with_settings(recipe_config, chosen_settings)
    labels = _most_labels(config, train)
    # Only a folder of weights can be kept in 4 bits.
    fixed_settings = set(chosen_settings) if base.is_folder else {*chosen_settings, "four_bit"}
    fitted = presets.fitted(
        config,
        inputs.preset,
        base.shape,
        inputs.machine.memory,
        inputs.longest,
        labels,
        fixed_settings,
    )
    return presets.with_settings(fitted, chosen_settings)


def _tokens(many: Sequence[Usable], config: TrainConfig, per_char: float) -> float:
    """Returns the number of tokens of conversations, of each at most what fits into one example."""
    return sum(min(conversation.chars * per_char, config.max_tokens) for conversation in many)


def _data_plan(request: TrainingRequest, survey: _Survey) -> DataPlan:
    """Returns the selection of data for the run that a request asks for."""
    return DataPlan(
        split(survey.usable, seed=request.seed, held_out=request.held_out, limit=request.limit),
        str(request.filter),
        survey.matched,
        request.seed,
        request.held_out,
        request.limit,
        request.contaminate,
    )


def _most_labels(config: TrainConfig, train: Sequence[Usable]) -> int:
    """Returns the largest number of labels that one log can have."""
    if config.recipe == "boundary":
        # At each boundary the opening of a step header, which has four tokens, and the words after it.
        return (4 + (WORDS if config.words else 0)) * max(
            conversation.boundaries for conversation in train
        )
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
    if inputs.longest > config.max_tokens:
        notes.append(
            f"The longest log has about {inputs.longest:,} tokens;"
            f" only the last {config.max_tokens:,} tokens of a longer log are used."
        )
    if len(data.split.train) < 25:
        notes.append("Fewer than 25 conversations teach little; 100 and more are better.")
    if inputs.base.shape is None:
        notes.append("The sizes of the base are not known, so its memory is not known either.")
    return tuple(notes)
