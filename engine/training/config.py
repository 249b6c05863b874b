"""The config of a training run, which is a JSON file in its directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

Recipe = Literal["boundary", "paper", "no-end-tag"]
"""Names of the recipes; `RECIPE_HELP` says what each teaches an adapter."""

RECIPES: tuple[Recipe, ...] = get_args(Recipe)
"""All recipes, the default first."""

RECIPE_HELP: Mapping[Recipe, str] = {
    "boundary": "At every place where a conversation could end: does it?",
    "paper": "The last answer and the end token.",
    "no-end-tag": "The last answer alone, to see what the end token is worth.",
}
"""A sentence on what an adapter learns, by recipe."""

VERSION = 1
"""Version of the config file; a config of another version is refused."""

NUMBER_LIMIT = 2**63
"""Bound on the size of every number in configs and events; a far larger integer could not become a float."""

FIRST_WORDS_TOKENS = 32
"""Number of tokens of a next step that are learned after its opening: the rest of the header, and the first words."""

Count = Annotated[int, msgspec.Meta(gt=0, le=NUMBER_LIMIT - 1)]
"""A whole number above 0."""

Figure = Annotated[float, msgspec.Meta(gt=0, lt=float(NUMBER_LIMIT))]
"""A number above 0."""

Whole = Annotated[int, msgspec.Meta(ge=-NUMBER_LIMIT, le=NUMBER_LIMIT - 1)]
"""A whole number."""


class ConfigError(ValueError):
    """The config cannot be used; the message says which field and why."""


class TrainConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that determines a run, except its data.

    `make_config` checks the values; the constructor does not.

    Attributes:
        base: Weights to adapt: a GGUF file, or a folder as Hugging Face writes it.
        base_name: Name of the base in lists.
        recipe: What is learned, see `RECIPE_HELP`.
        epochs: Number of times that every conversation is read.
        learning_rate: Highest learning rate of AdamW.
        rank, alpha: Rank of the adapter's matrices; its output is scaled by alpha / rank.
        max_tokens: Most tokens of a log; of a longer log the system message and the end are read.
        batch: Number of conversations of an optimizer step.
        rows: Number of conversations in memory together if they are as long as the longest; more of shorter ones.
        precision: Number format of the base weights. `bf16` takes half the memory, and is faster where the machine
            supports it.
        recompute: Whether activations are computed twice instead of kept, which takes less memory and a third more
            time.
        eight_bit: Whether the state of AdamW has 8 bits, as Soroka et al. do (CUDA only; else 32 bits), which takes a
            quarter of its memory.
        seed: Seed of everything that is random.
        valid_every: Number of steps between two validations; a checkpoint is written at each.
        threads: Number of CPU threads; 0 for one on each core.
    """

    base: str
    base_name: str = ""
    recipe: Recipe = "boundary"
    epochs: Figure = 3.0
    learning_rate: Figure = 2e-4
    rank: Count = 16
    alpha: Count = 32
    max_tokens: Count = 2048
    batch: Count = 8
    rows: Count = 1
    precision: Literal["bf16", "f32"] = "bf16"
    recompute: bool = False
    eight_bit: bool = True
    seed: Whole = 0
    valid_every: Count = 25
    threads: Whole = 0

    @property
    def as_printed(self) -> bool:
        """Whether the run is like one of Soroka et al. (section 5), or an ablation of it.

        They name no schedule, no warm-up and no selection of a checkpoint, so the learning rate is constant and the
        adapter is that of the last step.
        """
        return self.recipe != "boundary"

    def save(self, path: Path) -> None:
        """Writes the config as JSON."""
        values = {"version": VERSION, **msgspec.structs.asdict(self)}
        path.write_text(json.dumps(values, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> TrainConfig:
        """Returns the config in a file.

        Raises:
            ConfigError: The file is missing, is no config, has another version, or has an unknown or wrong field.
        """
        try:
            values: Any = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path.name} cannot be read: {error}") from error
        if not isinstance(values, dict) or values.pop("version", None) != VERSION:
            raise ConfigError(f"{path.name} is not a config of version {VERSION}")
        return make_config(values)


def make_config(values: Mapping[str, Any], *, strict: bool = True) -> TrainConfig:
    """Returns the config with these values.

    Args:
        values: Values of the fields by their names.
        strict: Whether numbers and switches must have their type; else they may be texts, as people type them.

    Raises:
        ConfigError: A field is unknown or missing, or a value cannot be used.
    """
    try:
        return msgspec.convert(values, TrainConfig, strict=strict)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        raise ConfigError(f"{place.strip('`$.')}: {reason}" if place else reason) from error
