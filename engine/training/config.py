"""The config of a training run: one JSON file in its directory. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

Recipe = Literal["boundary", "paper", "no-end-tag"]
"""Names of the recipes; `RECIPE_HELP` says what each teaches an adapter."""

RECIPES: tuple[Recipe, ...] = get_args(Recipe)
"""All recipes, the default first."""

RECIPE_HELP: Mapping[Recipe, str] = {
    "boundary": "At every place where a conversation could end: does it?",
    "paper": "The last answer and the end token.",
    "no-end-tag": "The last answer alone, to see what the end token is worth.",
}
"""Recipe -> a sentence on what is learned."""

Precision = Literal["bf16", "f32"]
"""Number format of the base weights while training."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
"""All number formats."""

Schedule = Literal["cosine", "constant"]
"""Courses of the learning rate after the warm-up."""

SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
"""All schedules."""

Checkpoint = Literal["best", "last"]
"""Choices of the weights that become the adapter."""

CHECKPOINTS: tuple[Checkpoint, ...] = get_args(Checkpoint)
"""All choices of a checkpoint."""

_AS_PRINTED = {"schedule": "constant", "warmup": 0.0, "checkpoint": "last"}
"""Settings of a recipe as its paper prints it."""

RECIPE_SETTINGS: Mapping[str, Mapping[str, Any]] = {"paper": _AS_PRINTED, "no-end-tag": _AS_PRINTED}
"""Recipe -> settings that a new run of it begins with in place of the defaults. Soroka et al. (section 5) name no
schedule, no warm-up and no selection of a checkpoint, so their recipe and its ablation have none."""

VERSION = 1
"""Version of the config file and of the event file; a config of another version is refused."""

NUMBER_LIMIT = 2**63
"""Bound above every number of a run, in configs and events. An integer far above it could not become a float."""

FIRST_WORDS_TOKENS = 32
"""Tokens of a next step that are learned beside its opening: the rest of its header, and its first words."""

_ABOVE_ZERO = (
    "epochs", "learning_rate", "rank", "alpha", "max_tokens", "batch", "rows", "valid_every"
)  # fmt: skip
"""Settings that must be above 0."""


class ConfigError(ValueError):
    """The config cannot be used; the message says which field and why."""


def _setting(default: Any, help: str) -> Any:
    """Returns a field with its default and its help."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Everything that determines a run, except its data. The `help` of each field is shown to people.

    Raises:
        ConfigError: A field has a value that cannot be used.
    """

    base: str = field(
        metadata={"help": "Weights to adapt: a GGUF file, or a folder as Hugging Face writes it."}
    )
    base_name: str = _setting("", "Name of the base in lists.")
    base_gguf: str = _setting(
        "",
        "GGUF file that the adapter will be used with, where the base is a folder;"
        " empty: no comparison with llama.cpp.",
    )
    recipe: Recipe = _setting(
        "boundary",
        "What is learned. " + " ".join(f"{name}: {text}" for name, text in RECIPE_HELP.items()),
    )
    words: float = _setting(
        0.1,
        "boundary only: weight of each of the first words of a next step; its opening has weight 1. At 0"
        " the adapter learns only whether a conversation goes on, and forgets how to write what remains to be done.",
    )
    epochs: float = _setting(3.0, "Times that every conversation is read.")
    learning_rate: float = _setting(2e-4, "Highest learning rate of AdamW.")
    weight_decay: float = _setting(0.01, "Weight decay of AdamW.")
    warmup: float = _setting(
        0.05,
        "Share of the steps in which the learning rate rises. The recipes paper and no-end-tag begin"
        " with 0.",
    )
    schedule: Schedule = _setting(
        "cosine",
        "cosine: the learning rate falls to 0 after the warm-up; constant: it stays. The recipes paper and"
        " no-end-tag begin with constant.",
    )
    checkpoint: Checkpoint = _setting(
        "best",
        "Weights that become the adapter. best: those of the best validation on the selection part; last:"
        " those of the last step. The recipes paper and no-end-tag begin with last.",
    )
    rank: int = _setting(16, "Rank of the adapter's matrices.")
    alpha: int = _setting(32, "The adapter's output is scaled by alpha / rank.")
    dropout: float = _setting(0.0, "Dropout before the adapter.")
    max_tokens: int = _setting(
        2048, "Longest log; longer ones keep the system message and their end."
    )
    batch: int = _setting(8, "Conversations of an optimizer step.")
    rows: int = _setting(
        1,
        "Conversations in memory together if they are as long as the longest; of shorter ones more.",
    )
    precision: Precision = _setting(
        "bf16", "bf16: half the memory, and faster where the machine has it."
    )
    recompute: bool = _setting(
        False, "Compute activations twice instead of keeping them: less memory, a third slower."
    )
    four_bit: bool = _setting(
        False, "Keep the base in 4 bits (CUDA only): a quarter of the memory."
    )
    eight_bit: bool = _setting(
        True,
        "Keep the state of AdamW in 8 bits, as Soroka et al. do (CUDA only; else 32 bits): a quarter of its"
        " memory.",
    )
    seed: int = _setting(0, "Seed of everything that is random.")
    valid_every: int = _setting(25, "Steps between validations; a checkpoint is kept at each.")
    threads: int = _setting(0, "CPU threads; 0: as many as there are cores.")

    def __post_init__(self) -> None:
        """Checks the values; types are checked by `load`."""
        if self.recipe not in RECIPES:
            raise ConfigError(f"recipe is {self.recipe!r}; known are {', '.join(RECIPES)}")
        for name, known in (
            ("precision", PRECISIONS),
            ("schedule", SCHEDULES),
            ("checkpoint", CHECKPOINTS),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(f"{name} is {value!r}; known are {', '.join(known)}")
        for name in _ABOVE_ZERO:
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be above 0")

    def save(self, path: Path) -> None:
        """Writes the config as JSON."""
        path.write_text(json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> TrainConfig:
        """Reads a config file.

        Raises:
            ConfigError: The file is missing, is no config, has another version, or has an unknown or wrong field.
        """
        try:
            values: Any = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path.name} cannot be read: {error}") from error
        if not isinstance(values, dict) or values.pop("version", None) != VERSION:
            raise ConfigError(f"{path.name} is not a config of version {VERSION}")
        unknown = sorted(set(values) - {setting.name for setting in fields(cls)})
        if unknown:
            raise ConfigError(f"{path.name} has unknown fields: {', '.join(unknown)}")
        for setting in fields(cls):
            if setting.name not in values:
                continue
            value = values[setting.name]
            # The type of a setting is that of its default; only `base` has none.
            kind = str if setting.name == "base" else type(setting.default)
            if not isinstance(value, (int, float) if kind is float else kind):
                raise ConfigError(
                    f"{setting.name} is {value!r}; it must be of type {kind.__name__}"
                )
            if isinstance(value, int) and abs(value) >= NUMBER_LIMIT:
                raise ConfigError(f"{setting.name} is too large a number")
        if "base" not in values:
            raise ConfigError("base is missing")
        return cls(**values)
