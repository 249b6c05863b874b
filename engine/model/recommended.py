"""Recommended models for machines of different memory, from a file of the program or the user's own file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
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
    """The recommended models for a machine with this many bytes of memory."""

    memory: int
    models: tuple[Recommended, ...]


def recommended_sets(config: Path) -> tuple[RecommendedSet, ...]:
    """The recommended sets, for the smallest machine first.

    Args:
        config: The config folder; a `recommended.toml` there replaces the one of the program.

    Raises:
        UsageError: Their file cannot be read.
    """
    own = config / FILE
    path = own if own.is_file() else SHIPPED
    try:
        content = tomllib.loads(path.read_text("utf-8"))
        sets = [_set(one) for one in content["set"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path} cannot be read: {what}.",
            "Correct it, or delete it to have the program's own recommendations.",
        ) from error
    return tuple(sorted(sets, key=lambda one: one.memory))


def set_for(sets: Sequence[RecommendedSet], memory: int | None) -> RecommendedSet | None:
    """The largest set that is meant for a machine with so many bytes; None where that is not known or too little."""
    # Makers count in units of 1000 and keep a part for the display or the firmware.
    fitting = [one for one in sets if memory is not None and memory >= one.memory * 0.9]
    return fitting[-1] if fitting else None


def _set(content: dict[str, Any]) -> RecommendedSet:
    return RecommendedSet(
        int(content["memory"] * _GB), tuple(_model(one) for one in content["model"])
    )


def _model(content: dict[str, Any]) -> Recommended:
    role = content["role"]
    if role not in get_args(Role):
        raise ValueError(f"role is {role!r}, not one of {', '.join(get_args(Role))}")
    texts = [content[key] for key in ("repository", "file", "licence", "note")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("repository, file, licence and note are texts")
    repository, file, licence, note = texts
    return Recommended(role, repository, file, int(content["size"] * _GB), licence, note)
