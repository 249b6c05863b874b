"""Runs of stages, and estimates of their cost, as they pass between rooms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.base.number_format import Range

RunState = Literal["running", "done", "cancelled", "failed", "interrupted"]
"""How a run ended, or that it runs; `interrupted` where its process ended before it."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of one stage with everything that determined its result.

    Attributes:
        id: Its number, which grows.
        stage: Name of the kind of work, such as `import`.
        state: How it ended, or that it runs.
        config_hash: The key under which its results are stored.
        params: The parameters that determined the result, as JSON values.
        fingerprints: What else determined it, such as the model, as JSON values.
        code_version: Version of the program.
        started_at, finished_at: Times in UTC, as `utc_now` writes them; `finished_at` is None while it runs.
        done: What is done, in the unit of the stage.
        total: What there was to do, in that unit; None if unknown.
        message: A sentence on the result, or the error; None while it runs.
    """

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
class StageCost:
    """Estimated cost of what one stage asks endpoints.

    Attributes:
        stage: Name of the stage in run records.
        requests: Number of requests.
        read, written: Numbers of tokens.
        cost: In the currency of the prices; None where they are unknown.
        certain: Share of all of these that is spent in any case, from 0 to 1. Below 1 they are the most, for what is
            asked depends on results that are still to come.
    """

    stage: str
    requests: int
    read: int
    written: int
    cost: float | None
    certain: float = 1.0

    @property
    def ranges(self) -> tuple[Range, Range, Range, Range | None]:
        """The least and the most of requests, tokens read, tokens written, and cost."""

        def of(most: float) -> Range:
            return self.certain * most, most

        cost = None if self.cost is None else of(self.cost)
        return of(self.requests), of(self.read), of(self.written), cost


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cost of a run on this machine.

    Attributes:
        items: Number of conversations that are left to do.
        tokens: Number of their tokens; None if unknown, where no model reads them, and where `costs` has them.
        tokens_per_second: Speed of the model on this machine; None if it was not measured.
        seconds: Time that they take; None where no speed was measured.
        model: Name of the model that would run, or of several; `words alone` where none would.
        adapter: Name of the adapter that it would run with; None without one.
        of: Number of conversations that are left, where the time is over before; None where all are done.
        costs: Of each stage that asks endpoints.
        asked: What the model is asked for in a clustering: any of `summaries`, `labels`, `merges`.
    """

    items: int
    tokens: int | None
    tokens_per_second: float | None
    seconds: float | None
    model: str
    adapter: str | None = None
    of: int | None = None
    costs: tuple[StageCost, ...] = ()
    asked: tuple[str, ...] = ()
