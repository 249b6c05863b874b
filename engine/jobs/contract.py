"""The contract between stages and the runner: the `Stage` protocol, progress, and the config hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Lane = Literal["model", "cpu"]
"""Stages of one lane run one after another."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a stage after a batch, in its own unit; `total` is None while it is unknown.

    Attributes:
        share: Share of the whole work that is done, 0 to 1, where the units differ in size; None for `done / total`.
    """

    done: int
    total: int | None
    note: str = ""
    share: float | None = None


class Stage(Protocol):
    """One execution of one kind of work.

    Attributes:
        name: Names the kind in run records, e.g. `import`.
        title: Its name on screens and in progress lines, e.g. `Importing star.jsonl.gz`.
        unit: What progress counts, e.g. `bytes`.
        params, fingerprints: Everything that determines the result, as JSON values.
        lane: Stages of one lane run one after another.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def params(self) -> Mapping[str, Any]: ...
    @property
    def fingerprints(self) -> Mapping[str, Any]: ...
    @property
    def lane(self) -> Lane: ...

    def run(self, run_id: int) -> Iterator[Progress]:
        """Yields progress after each bounded batch, committed with the counter of run `run_id` in one transaction."""

    def interrupt(self) -> None:
        """Makes `run` raise Cancelled soon, also from a blocking call; called once, from another thread."""

    def summary(self) -> str:
        """The result in one sentence with counts; also called after a cancel."""


def config_hash(stage_name: str, params: Mapping[str, Any], fingerprints: Mapping[str, Any]) -> str:
    """The key under which results are stored: 16 hex digits over everything that determines them."""
    canonical = json.dumps(
        [stage_name, dict(params), dict(fingerprints)],
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
    )
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:16]
