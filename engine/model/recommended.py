"""Recommended models for machines of different memory, from a file of the program or the user's own file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from engine.base.errors import UsageError

Role = Literal["instruct", "base", "embedder"]
FILE = "recommended.toml"
SHIPPED = Path(__file__).with_name(FILE)
_GB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Recommended:
    """One model of a set.

    Attributes:
        role: What it is for: `instruct` (scores, trees, summaries, labels), `base` (to be trained on), `embedder`
            (vectors of summaries).
        repository: OWNER/NAME on the hub.
        file: A part of the file's name that matches one file of the repository.
        size: Approximate size in bytes; in the file in GB.
        licence: Name that its owners give.
        note: A sentence for whoever chooses.
    """

    role: Role
    repository: str
    file: str
    size: int
    licence: str
    note: str


@dataclass(frozen=True, slots=True)
class RecommendedSet:
    """The recommended models for machines of one size.

    Attributes:
        memory: Bytes of memory of these machines.
        here: Whether this machine is one of them.
    """

    memory: int
    models: tuple[Recommended, ...]
    here: bool = False


def recommended_sets(config: Path, memory: int | None = None) -> list[RecommendedSet]:
    """Returns the recommended sets, that for the smallest machines first.

    The largest set that is meant for a machine with so much memory is marked with `here`.

    Args:
        config: The config folder; a `recommended.toml` there replaces the one of the program.
        memory: Bytes of memory of this machine; None if unknown.

    Raises:
        UsageError: Their file cannot be read.
    """
    own = config / FILE
    path = own if own.is_file() else SHIPPED
    try:
        content = tomllib.loads(path.read_text("utf-8"))
        sets = sorted(map(_parse_set, content["set"]), key=lambda models: models.memory)
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path} cannot be read: {what}.",
            "Correct it, or delete it to have the program's own recommendations.",
        ) from error
    # Makers count in units of 1000 and keep a part for the display or the firmware.
    fitting = [models for models in sets if memory is not None and memory >= models.memory * 0.9]
    return [replace(models, here=models in fitting[-1:]) for models in sets]


def _parse_set(content: dict[str, Any]) -> RecommendedSet:
    return RecommendedSet(int(content["memory"] * _GB), tuple(map(_parse_model, content["model"])))


def _parse_model(content: dict[str, Any]) -> Recommended:
    role = content["role"]
    if role not in get_args(Role):
        raise ValueError(f"role is {role!r}, not one of {', '.join(get_args(Role))}")
    texts = [content[key] for key in ("repository", "file", "licence", "note")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("repository, file, licence and note are texts")
    repository, file, licence, note = texts
    return Recommended(role, repository, file, int(content["size"] * _GB), licence, note)
