"""Says what a run would cost in words, the same ones on the command line and on screens."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.number_format import Range, amount, cost_text, counted, duration
from engine.base.text import one_line
from engine.project.records import Estimate, StageCost

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
