"""What a training run is told: one JSON file in its directory. Standard library only, so that anyone can write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

Recipe = Literal["boundary", "paper", "no-end-tag"]
RECIPES: tuple[Recipe, ...] = get_args(Recipe)
RECIPE_HELP: Mapping[Recipe, str] = {
    "boundary": "At every place where a conversation could end: does it?",
    "paper": "The last answer and the end token.",
    "no-end-tag": "The last answer alone, to see what the end token is worth.",
}
RetiredRecipe = Literal["evaluator"]
RETIRED_RECIPE: RetiredRecipe = "evaluator"
"""A recipe of earlier versions. Its runs can be read and listed, but no longer trained: docs/results/evaluator.md."""
Precision = Literal["bf16", "f32"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

VERSION = 1
"""Version of the config and of the event file; a run directory of another one is refused."""

WORDS = 32
"""Tokens after the opening of a next step that are learned beside it: the rest of its header, and how it begins."""


class ConfigError(ValueError):
    """The config cannot be used; the message says which field and why."""


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Everything that determines a run but its data. Each field's `help` is what a person reads about it."""

    base: str = field(
        metadata={"help": "Weights to adapt: a GGUF file, or a folder as Hugging Face writes it."}
    )
    base_name: str = field(default="", metadata={"help": "What the base is called in lists."})
    base_gguf: str = field(
        default="",
        metadata={
            "help": "The GGUF file the adapter will be used with, where the base is a folder;"
            " empty: no check against llama.cpp."
        },
    )
    recipe: Recipe | RetiredRecipe = field(
        default="boundary",
        metadata={
            "help": "What is learned. " + " ".join(f"{name}: {text}" for name, text in RECIPE_HELP.items())
        },
    )
    balance: bool = field(
        default=True,
        metadata={
            "help": "boundary only: the end of a conversation weighs as much as all the places where it goes on, so"
            " that .5 is where a whole one and one cut anywhere are equally likely; else each place weighs the same,"
            " and the longer conversations are, the rarer an end is expected at any place."
        },
    )
    words: float = field(
        default=0.1,
        metadata={
            "help": "boundary only: what each of the first words of a next step weighs beside its opening. At 0 the"
            " adapter learns only whether a conversation goes on, and forgets how to say what is left."
        },
    )
    epochs: float = field(default=3.0, metadata={"help": "Times that every conversation is read."})
    learning_rate: float = field(default=2e-4, metadata={"help": "Highest step size of AdamW."})
    weight_decay: float = field(default=0.01, metadata={"help": "Decay of AdamW."})
    warmup: float = field(
        default=0.05, metadata={"help": "Share of the steps in which the step size rises."}
    )
    rank: int = field(default=16, metadata={"help": "Rank of the adapter's matrices."})
    alpha: int = field(
        default=32, metadata={"help": "The adapter's output is scaled by alpha / rank."}
    )
    dropout: float = field(default=0.0, metadata={"help": "Dropout before the adapter."})
    max_tokens: int = field(
        default=2048,
        metadata={"help": "Longest log; longer ones keep the system message and their end."},
    )
    batch: int = field(default=8, metadata={"help": "Conversations a step, over all its parts."})
    rows: int = field(
        default=1,
        metadata={
            "help": "Conversations as long as the longest that are in memory together; shorter ones in greater number."
        },
    )
    precision: Precision = field(
        default="bf16",
        metadata={"help": "bf16: half the memory, and faster where the machine has it."},
    )
    recompute: bool = field(
        default=False,
        metadata={
            "help": "Compute activations twice instead of keeping them: less memory, a third slower."
        },
    )
    four_bit: bool = field(
        default=False,
        metadata={"help": "Keep the base in 4 bits (CUDA only): a quarter of the memory."},
    )
    seed: int = field(default=0, metadata={"help": "Seed of everything drawn."})
    valid_every: int = field(
        default=25, metadata={"help": "Steps between validations; a checkpoint is kept at each."}
    )
    patience: int = field(
        default=0,
        metadata={"help": "Stop after so many validations without a better AUROC; 0: never."},
    )
    threads: int = field(
        default=0, metadata={"help": "CPU threads; 0: as many as there are cores."}
    )

    def __post_init__(self) -> None:
        if self.recipe not in (*RECIPES, RETIRED_RECIPE):
            raise ConfigError(f"recipe is {self.recipe!r}; known are {', '.join(RECIPES)}")
        if self.precision not in PRECISIONS:
            raise ConfigError(f"precision is {self.precision!r}; known are {', '.join(PRECISIONS)}")
        for name in (
            "epochs",
            "learning_rate",
            "rank",
            "alpha",
            "max_tokens",
            "batch",
            "rows",
            "valid_every",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be above 0")

    def save(self, path: Path) -> None:
        """Writes the config as JSON."""
        path.write_text(json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> TrainConfig:
        """Reads a config.

        Raises:
            ConfigError: The file is missing, no config, of another version, or has a field that is unknown or wrong.
        """
        try:
            found: Any = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path.name} cannot be read: {error}") from error
        if not isinstance(found, dict) or found.pop("version", None) != VERSION:
            raise ConfigError(f"{path.name} is not a config of version {VERSION}")
        unknown = sorted(set(found) - {one.name for one in fields(cls)})
        if unknown:
            raise ConfigError(f"{path.name} has unknown fields: {', '.join(unknown)}")
        for one in fields(cls):
            given = found.get(one.name)
            wanted = type(one.default) if one.name != "base" else str
            if one.name in found and not isinstance(
                given, (int, float) if wanted is float else wanted
            ):
                raise ConfigError(f"{one.name} is {given!r}; it must be of type {wanted.__name__}")
        if "base" not in found:
            raise ConfigError("base is missing")
        return cls(**found)
