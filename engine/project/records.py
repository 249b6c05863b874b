"""Rows about the runs of stages, and estimates of their cost as rows and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.base.number_format import Range, amount, cost_text, counted, duration
from engine.base.text import one_line

RunState = Literal["running", "done", "cancelled", "failed", "interrupted"]
"""How a run ended, or that it is running; `interrupted` where its process ended before the run did."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of one stage with everything that determined its result.

    Attributes:
        id: Id of the run; a later run has a larger one.
        stage: Name of the kind of work, such as `import`.
        state: How the run ended, or that it is running.
        config_hash: The key under which the results are stored.
        params: The parameters that determined the result, as JSON values.
        fingerprints: What determined the result besides these, such as the model, as JSON values.
        started_at, finished_at: Times in UTC, as `utc_now` writes them; `finished_at` is None while it is running.
        done: How much is done, in the unit of the stage.
        total: How much there was to do, in that unit; None if unknown.
        message: A sentence on the result, or the error; None while it is running.
    """

    id: int
    stage: str
    state: RunState
    config_hash: str
    params: dict[str, Any]
    fingerprints: dict[str, Any]
    started_at: str
    finished_at: str | None
    done: int
    total: int | None
    message: str | None


@dataclass(frozen=True, slots=True)
class StageCost:
    """Estimated cost of the requests of one stage to endpoints.

    Attributes:
        stage: Name of the stage in run records.
        requests: Most requests.
        read, written: Most tokens that the model reads and writes.
        cost: Highest cost, in the currency of the prices; None where the prices are unknown.
        certain: Share of the four numbers above that is spent in any case, from 0 to 1. It is below 1 where the
            number of requests depends on results that are still to come.
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

        def range_up_to(most: float) -> Range:
            """Returns what is spent in any case, and the most."""
            return self.certain * most, most

        cost = None if self.cost is None else range_up_to(self.cost)
        return range_up_to(self.requests), range_up_to(self.read), range_up_to(self.written), cost


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cost of a run, in time on this machine and in requests to endpoints.

    Attributes:
        items: Number of conversations that the run would work on.
        tokens: Number of tokens to read and write; 0 if all are read and only a fit is left; None if no model reads, or
            if the number is not estimated.
        tokens_per_second: Speed of the model on this machine; None if it was not measured.
        seconds: Time of the run; None where no speed was measured.
        model: Names of the models that would run; `words alone` where none would.
        adapter: Name of the adapter of the model; None without one.
        of: Number of conversations that wait for a model, where a limit on the time allows only `items` of them, first
            those that words leave open; None without a limit.
        costs: The cost of each stage that asks endpoints.
        asked: What a clustering asks the model for: any of `summaries`, `labels`, `merges`.
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
"""Most characters of the names of models, and of the name of an adapter, in an estimate."""


def estimate_lines(estimate: Estimate) -> list[str]:
    """Returns an estimate as lines of display-safe text.

    One line tells that nothing, or only a fit, is left to do. Otherwise the first line says how much there is to do and
    how long that takes, the second one names the model and what it is asked for; then the cost of each stage that asks
    endpoints follows, and their total.
    """
    if not estimate.items:
        return ["Nothing is left to do: all of this was done, or no conversation matches."]
    count = counted(estimate.items, "conversation")
    if estimate.tokens == 0:
        return [f"{count} read already; only the fit is left, which takes seconds"]
    if estimate.of is not None:
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
    """Returns a line for the cost of each stage and, where there are several, one for their total."""
    lines = [f"{cost.stage:<10} {cost_text(*cost.ranges)}" for cost in costs]
    if len(costs) < 2:
        return lines
    requests, read, written, cost_ranges = (
        [span for span in spans if span is not None]
        for spans in zip(*(cost.ranges for cost in costs), strict=True)
    )
    cost = _sum_of_ranges(cost_ranges) if cost_ranges else None
    total = cost_text(_sum_of_ranges(requests), _sum_of_ranges(read), _sum_of_ranges(written), cost)
    return [*lines, f"{'in all':<10} {total}"]


def _sum_of_ranges(spans: Sequence[Range]) -> Range:
    """Returns the range of the sum of several amounts."""
    return sum(least for least, _ in spans), sum(most for _, most in spans)
