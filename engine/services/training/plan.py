"""From what a person asks for to a run that can be begun: config, data, and what it would cost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.completeness.training_data import Usable, split
from engine.errors import ModelError, UsageError
from engine.filters import ListQuery
from engine.folders import log_dir
from engine.model.catalog import Catalog
from engine.model.interface import LoadOptions
from engine.run_directory.config import RECIPES, WORDS, TrainConfig
from engine.services.training import presets, run_files
from engine.services.training.base import Base, Machine, base_for, this_machine
from engine.services.training.history import RunHistory
from engine.services.training.presets import Preset
from engine.services.training.records import TrainingEstimate, TrainingRequest
from engine.services.training.run_files import DataPlan, about_data, free_name, machine
from engine.store import conversations
from engine.store.project import Project
from engine.store.sql import snapshot
from engine.views.training_data import items, usable
from engine.worker.client import ModelProcess

SURVEYED = 4_000
"""Conversations that an estimate reads; of more it takes as many, evenly spread. A run reads them all."""

SAMPLE = 48
"""Conversations whose tokens are counted."""

CHARS_PER_TOKEN = 3.6
"""English text and JSON in vocabularies of 32k and more, where nothing could be counted."""

REPLY_TOKENS = 256
"""Labels of the recipes that learn the last answer; it is rarely longer."""

Counter = Callable[[Path, Sequence[Sequence[str]]], list[int]]
"""Tokens of each log (its pieces) in the vocabulary of a GGUF file."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A run before it is begun; `whole` says whether `data` was drawn from every conversation."""

    name: str
    config: TrainConfig
    data: DataPlan
    estimate: TrainingEstimate
    whole: bool


@dataclass(frozen=True, slots=True)
class _Survey:
    """What of the conversations asked for could be used; `scale` is above 1 where only some were read."""

    matched: int
    usable: tuple[Usable, ...]
    scale: float


class TrainingPlanner:
    """Plans the runs of one project. What it read of the conversations it keeps until they change."""

    def __init__(
        self,
        project: Project,
        catalog: Catalog,
        histories: Callable[[], Sequence[RunHistory]],
        *,
        on: Callable[[], Machine] = this_machine,
        count: Counter | None = None,
    ) -> None:
        """Prepares.

        Args:
            histories: The runs of the project, whose speeds are known.
        """
        self._project, self._catalog, self._histories = project, catalog, histories
        self._on, self._count = on, count or count_tokens
        self._surveys: dict[tuple[bytes, bool], _Survey] = {}
        self._per_char: dict[Path, float] = {}

    def plan(
        self, wish: TrainingRequest, *, seed: int = 0, contaminate: float = 0.0, whole: bool = False
    ) -> TrainingPlan:
        """The run that this wish comes to.

        Args:
            seed: Of the split.
            contaminate: See `DataPlan`.
            whole: Read every conversation, as a run must.

        Raises:
            UsageError: Something of the wish cannot be.
            ModelFileError: The base cannot be read.
        """
        if not 0 < wish.held_out < 1:
            raise UsageError(
                f"The share to hold out is {wish.held_out:g}.", "It must lie between 0 and 1."
            )
        if wish.limit is not None and wish.limit < 1:
            raise UsageError("The most conversations to train on must be at least 1.")
        base = base_for(self._catalog, wish.base)
        where = self._on()
        preset = self._preset(wish.preset, where)
        survey = self._survey(wish, whole)
        data = self._data(wish, survey, seed, contaminate)
        run_files.refuse_too_little(data)
        per_char = self._tokens_per_char(base, data.split.train)
        config = self._config(wish, base, preset, where, data, per_char)
        home = Path(self._project.path)
        name = wish.name or free_name(home, f"{base.name}-{config.recipe}"[:56])
        run_files.check_name(home, name)
        estimate = self._estimate(name, base, preset, where, survey, data, config, per_char)
        return TrainingPlan(name, config, data, estimate, survey.scale == 1)

    def _preset(self, name: str, where: Machine) -> Preset:
        if not name:
            return presets.preset_for(where.gpu_memory)
        if name not in presets.PRESETS:
            raise UsageError(
                f"There is no preset {name!r}.", f"There are {', '.join(presets.PRESETS)}."
            )
        return presets.PRESETS[name]

    def _survey(self, wish: TrainingRequest, whole: bool) -> _Survey:
        with self._project.reading() as conn, snapshot(conn):
            ids = conversations.ids(conn, ListQuery(wish.filter))
            key = (hashlib.sha256(ids.tobytes()).digest(), whole or len(ids) <= SURVEYED)
            known = self._surveys.get(key)
            if known is None:
                stride = 1 if key[1] else -(-len(ids) // SURVEYED)
                read = ids[::stride]
                found = tuple(one for page in usable(conn, read) for one in page)
                known = _Survey(len(ids), found, len(ids) / len(read) if read else 1.0)
                # One at a time: a filter that is being typed leaves none behind.
                self._surveys = {key: known}
        return known

    def _data(
        self, wish: TrainingRequest, survey: _Survey, seed: int, contaminate: float
    ) -> DataPlan:
        found = split(survey.usable, seed=seed, held_out=wish.held_out, limit=wish.limit)
        return DataPlan(
            found,
            str(wish.filter),
            survey.matched,
            seed,
            wish.held_out,
            wish.limit,
            contaminate,
        )

    def _config(
        self,
        wish: TrainingRequest,
        base: Base,
        preset: Preset,
        where: Machine,
        data: DataPlan,
        per_char: float,
    ) -> TrainConfig:
        if wish.recipe not in RECIPES:
            raise UsageError(
                f"There is no recipe {wish.recipe!r}.", f"There are {', '.join(RECIPES)}."
            )
        asked = dict(wish.settings)
        for taken in ("base", "base_name", "recipe"):
            if taken in asked:
                raise UsageError(f"{taken} cannot be set so.", "It is asked for by itself.")
        plain = TrainConfig(base=str(base.path), base_name=base.name, recipe=wish.recipe)
        config = presets.with_settings(plain, asked)
        longest = max(one.chars for one in data.split.train) * per_char
        labels = _labels(config, data.split.train)
        # Only a folder of weights can be kept in 4 bits.
        chosen = set(asked) if base.is_folder else {*asked, "four_bit"}
        fitted = presets.fitted(
            config, preset, base.shape, where.memory, round(longest), labels, chosen
        )
        return presets.with_settings(fitted, asked)

    def _estimate(
        self,
        name: str,
        base: Base,
        preset: Preset,
        where: Machine,
        survey: _Survey,
        data: DataPlan,
        config: TrainConfig,
        per_char: float,
    ) -> TrainingEstimate:
        train, valid = data.split.train, data.split.valid
        count = _scaled(len(train), survey, data.limit)
        tokens = round(_tokens(train, config, per_char) * count / len(train))
        steps = presets.steps_of(config, count)
        longest = round(max(one.chars for one in train) * per_char)
        memory, fits, advice = None, True, ""
        if base.shape is not None:
            labels = _labels(config, train)
            need = presets.memory_of(base.shape, config, longest, labels, gpu=preset.gpu)
            memory = need.total
            room = min(filter(None, (preset.memory, where.memory)), default=None)
            fits = room is None or memory <= room
            advice = "" if fits else presets.advice(config, need, preset)
        speed, measured = self._speed(base, config, where)
        seconds = None
        if speed is not None:
            of_valid = round(_tokens(valid, config, per_char))
            seconds = presets.seconds_of(config, steps, tokens, of_valid, speed)
        return TrainingEstimate(
            name=name,
            matched=survey.matched,
            train=count,
            held_out=_scaled(len(data.split.held_out), survey, None),
            tokens=tokens,
            steps=steps,
            memory=memory,
            fits=fits,
            seconds=seconds,
            measured=measured,
            base=base.name,
            advice=advice,
            notes=_notes(survey, data, config, base, longest),
        )

    def _speed(self, base: Base, config: TrainConfig, where: Machine) -> tuple[float | None, bool]:
        """Tokens a second, and whether a run on this machine told them."""
        here = machine()
        for history in self._histories():
            known = history.config
            if known is None or about_data(history.run).get("machine") != here:
                continue
            same = (known.base, known.recipe, known.precision, known.recompute, known.four_bit)
            if same == (
                config.base, config.recipe, config.precision, config.recompute, config.four_bit
            ) and (speed := history.speed()):  # fmt: skip
                return speed, True
        if where.gpu_memory is not None or base.is_folder:
            return None, False
        scoring = self._catalog.runnable(self._catalog.entry(str(base.path))).tokens_per_s
        if scoring is None:
            return None, False
        cost = presets.TRAINING_COST * (4 / 3 if config.recompute else 1)
        return scoring / cost, False

    def _tokens_per_char(self, base: Base, train: Sequence[Usable]) -> float:
        """From an earlier run on this base, else counted on a sample, else what is usual."""
        for history in self._histories():
            chars = about_data(history.run).get("chars", {}).get("train")
            config, tokens = history.config, history.tokens()
            whole = about_data(history.run).get("contaminate") == 0
            if config and config.base == str(base.path) and tokens and chars and whole:
                return float(tokens) / float(chars)
        if base.path not in self._per_char:
            self._per_char[base.path] = self._counted(base, train) or 1 / CHARS_PER_TOKEN
        return self._per_char[base.path]

    def _counted(self, base: Base, train: Sequence[Usable]) -> float | None:
        if base.is_folder:
            return None
        stride = -(-len(train) // SAMPLE)
        with self._project.reading() as conn:
            logs = [item.texts for _, item in items(conn, [one.key for one in train[::stride]])]
        try:
            counts = self._count(base.path, logs)
        except ModelError:
            # The estimate is rougher then; whether the base can be used, the trainer says.
            return None
        return sum(counts) / max(1, sum(len(text) for log in logs for text in log))


def count_tokens(path: Path, logs: Sequence[Sequence[str]]) -> list[int]:
    """Counts in a model process of its own: loading another model must not disturb a job that uses the first."""
    process = ModelProcess(log_dir() / "count.log")
    try:
        process.load(path, LoadOptions(context=512))
        return process.count_tokens(logs)
    finally:
        process.close()


def _tokens(many: Sequence[Usable], config: TrainConfig, per_char: float) -> float:
    return sum(min(one.chars * per_char, config.max_tokens) for one in many)


def _labels(config: TrainConfig, train: Sequence[Usable]) -> int:
    """Positions with a label in one log at most."""
    if config.recipe == "boundary":
        # A continuation is the fixed opening of its header, and the words after that.
        return (4 + (WORDS if config.words else 0)) * max(one.boundaries for one in train)
    return min(REPLY_TOKENS, config.max_tokens)


def _scaled(count: int, survey: _Survey, most: int | None) -> int:
    scaled = round(count * survey.scale)
    return scaled if most is None else min(scaled, most)


def _notes(
    survey: _Survey, data: DataPlan, config: TrainConfig, base: Base, longest: int
) -> tuple[str, ...]:
    found = []
    if survey.scale > 1:
        found.append(f"Estimated from {len(survey.usable):,} of {survey.matched:,} conversations.")
    else:
        unusable = survey.matched - len(survey.usable)
        if unusable:
            found.append(f"{unusable:,} have no answer, so no place where they could end.")
        if data.split.twins:
            found.append(f"{data.split.twins:,} have the text of another one and are left out.")
    if longest > config.max_tokens:
        found.append(
            f"The longest log has about {longest:,} tokens;"
            f" of those over {config.max_tokens:,} the end is kept."
        )
    if len(data.split.train) < 25:
        found.append("Fewer than 25 conversations teach little; 100 and more are better.")
    if base.shape is None:
        found.append("The sizes of the base are not known, so neither is the memory it takes.")
    return tuple(found)
