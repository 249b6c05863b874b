"""Models worth a try by the memory of a machine: a file of the program, or a person's own in its place."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from engine.errors import UsageError

Role = Literal["instruct", "base", "embedder"]
FILE = "recommended.toml"
SHIPPED = Path(__file__).with_name(FILE)
_GB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Recommended:
    """One model of a set.

    Attributes:
        file: A piece of the file's name that only one file of the repository has.
        size: About how many bytes the file has.
        licence: As its owners name it.
    """

    role: Role
    repository: str
    file: str
    size: int
    licence: str
    note: str


@dataclass(frozen=True, slots=True)
class RecommendedSet:
    """The models for a machine with so many bytes of memory."""

    memory: int
    models: tuple[Recommended, ...]


def recommended_sets(config: Path) -> tuple[RecommendedSet, ...]:
    """The sets in force, for the smallest machine first.

    Args:
        config: The config folder; a file of a person's own there takes the place of the program's.

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
            "Mend it, or delete it to have the program's own recommendations.",
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
