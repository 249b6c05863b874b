"""Runs of stages, and what one will cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

RunState = Literal["running", "done", "cancelled", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of one stage with everything that determined its result."""

    id: int
    stage: str
    state: RunState
    config_hash: str
    params: dict[str, Any]
    fingerprints: dict[str, Any]
    code_version: str
    started_at: str
    finished_at: str | None
    done: int
    total: int | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will cost on this machine.

    Attributes:
        items: Conversations still to do.
        tokens: Tokens they hold; None while unknown.
        tokens_per_second: As measured on this machine; None when never measured.
        seconds: tokens / tokens_per_second.
        model: Name of the model that would run.
    """

    items: int
    tokens: int | None
    tokens_per_second: float | None
    seconds: float | None
    model: str
