"""`workbench train evaluator`: writes a run directory that teaches a model the workbench's own questions."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from engine import folders
from engine.errors import UsageError
from engine.model.catalog import Catalog
from engine.run_directory.config import EVALUATOR, ConfigError, TrainConfig
from engine.run_directory.events import RunDirectory
from engine.services.training.base import Base, base_for
from engine.text import one_line
from workbench import evaluator_data
from workbench.commands.narration import say, show
from workbench.exits import DONE

SETTINGS: dict[str, Any] = {
    "epochs": 1.0, "learning_rate": 5e-4, "rank": 8, "alpha": 16, "batch": 2, "max_tokens": 700, "valid_every": 50,
}  # fmt: skip
"""What a run has unless told otherwise: the examples are short, and small steps of few examples learn more of few."""


def evaluator(arguments: argparse.Namespace) -> int:
    """Makes the examples and says how many there are of what.

    Raises:
        UsageError: What was asked for cannot be.
        FormatError: A file cannot be read.
    """
    catalog = Catalog(folders.data_dir(), folders.cache_dir())
    base = base_for(catalog, arguments.base or "")
    settings = _config(base, arguments.set)
    made = evaluator_data.make(
        arguments.file, arguments.examples, arguments.held_out, arguments.seed
    )
    run = RunDirectory(Path(arguments.folder))
    evaluator_data.write(run, settings, made, arguments.seed)
    train, valid = made.counts(made.train), made.counts(made.valid)
    if arguments.json:
        counts = {"train": train, "valid": valid, "conversations": dict(made.sources)}
        show({"folder": str(run.path), "base": base.name, **counts})
        return DONE
    for name, number in made.sources.items():
        say(f"{number:>6,} conversations of {one_line(name)}")
    for kind in sorted({*train, *valid}):
        say(f"{train.get(kind, 0):>6,} examples of {kind}, {valid.get(kind, 0):,} to validate on")
    say(f"`python -m training {one_line(str(run.path))}` trains on them.")
    return DONE


def _config(base: Base, words: list[str]) -> TrainConfig:
    given = dict(SETTINGS)
    plain = TrainConfig(base=str(base.path), base_name=base.name, recipe=EVALUATOR, **given)
    known = {one.name: getattr(plain, one.name) for one in fields(TrainConfig)}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in known or name in ("base", "base_name", "recipe"):
            raise UsageError(f"--set takes field=value, not {word!r}.", "Like --set rank=32.")
        kind = type(known[name])
        try:
            given[name] = value == "true" if kind is bool else kind(value)
        except ValueError as error:
            raise UsageError(f"{name} cannot be {value!r}.") from error
    try:
        return replace(plain, **given)
    except ConfigError as error:
        raise UsageError(f"{error}.") from error
