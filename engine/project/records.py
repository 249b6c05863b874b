"""Runs of stages, and estimates of their cost, as they pass between rooms and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.base.number_format import Range, amount, cost_text, counted, duration
from engine.base.text import one_line

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


MAX_MODEL_CHARACTERS = 60
"""Most characters of the names of models and of an adapter."""


def estimate_lines(estimate: Estimate) -> list[str]:
    """Returns an estimate as lines of display-safe text: how much there is to do and how long that takes; with which
    model, and what that is asked for; then the cost of each stage that asks endpoints, and of all of them."""
    if not estimate.items:
        return ["Nothing is left to do: all of this was done, or no conversation matches."]
    count = counted(estimate.items, "conversation")
    if estimate.tokens == 0:
        return [f"{count} read already; only the fit is left, which takes seconds"]
    if estimate.of is not None:  # the time that was asked for ends before all are read
        count = f"about {estimate.items:,} of {estimate.of:,}, those that words leave open first"
    facts = [count]
    if estimate.tokens is not None:
        facts.append(f"{amount(estimate.tokens)} tokens")
    if estimate.seconds is not None:
        facts.append(f"about {duration(estimate.seconds)}")
    elif not estimate.costs:
        facts.append("time unknown until the first are done")
    if estimate.tokens_per_second is not None:
        facts.append(f"{amount(estimate.tokens_per_second)} tokens/s")
    model = f"with {one_line(estimate.model, MAX_MODEL_CHARACTERS)}"
    if estimate.adapter:
        model += f" and the adapter {one_line(estimate.adapter, MAX_MODEL_CHARACTERS)}"
    if estimate.asked:
        model += f": {', '.join(estimate.asked)}"
    return [" · ".join(facts), model, *_cost_lines(estimate.costs)]


def _cost_lines(costs: Sequence[StageCost]) -> list[str]:
    """Returns the costs of stages, one a line, and where there are several also their total."""
    lines = [f"{cost.stage:<10} {cost_text(*cost.ranges)}" for cost in costs]
    if len(costs) < 2:
        return lines
    requests, read, written, prices = (
        [span for span in spans if span is not None]
        for spans in zip(*(cost.ranges for cost in costs), strict=True)
    )
    total = cost_text(_sum(requests), _sum(read), _sum(written), _sum(prices) if prices else None)
    return [*lines, f"{'in all':<10} {total}"]


def _sum(spans: Sequence[Range]) -> Range:
    """Returns the least and the most of several amounts together."""
    return sum(least for least, _ in spans), sum(most for _, most in spans)
