"""`workbench run divergence`: KL(base || fine-tuned) at the boundaries of conversations."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from engine.base.interval import Z95
from engine.base.number_format import counted
from engine.base.text import one_line
from engine.completeness.records.scoring_request import (
    ScoringRequest,
)
from engine.completeness.stages.diverging import DivergenceStage
from engine.completeness.tables import divergences
from engine.opener.workspace import Workspace
from workbench.commands.options import add_filter, add_model, positive, read_filter
from workbench.narration import run_stages
from workbench.result import DONE, WITH_GAPS, Result

LARGEST = 10
"""Conversations that are listed."""


def run_divergence_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `run_divergence`."""
    parser.add_argument("project")
    add_model(parser)
    parser.add_argument("--context", type=positive, help="longest log in tokens")
    add_filter(parser)
    parser.add_argument(
        "--held-out-by", metavar="RUN", help="only what this training run was not trained on"
    )
    parser.add_argument("--limit", type=positive, help="only the first N conversations")


def run_divergence(arguments: argparse.Namespace) -> int:
    """Measures what was not measured yet, and prints the means and the conversations with the largest ones, both of the
    conversations that the options choose.

    Raises:
        UsageError: There is no such model or adapter.
    """
    request = ScoringRequest(
        model=arguments.model,
        adapter=arguments.adapter or None,
        context=arguments.context,
        filter=read_filter(arguments.filter),
        held_out_by=arguments.held_out_by,
        limit=arguments.limit,
    )
    with Workspace(Path(arguments.project)) as workspace:
        stages = workspace.scoring_runs.divergence(request)
        run_stages(workspace, stages)
        stage = stages[-1]
        assert isinstance(stage, DivergenceStage)
        with workspace.project.reading() as conn:
            chosen = stage.selection.ids(conn)
            ends = divergences.ends(conn, chosen, stage.config_hash)
            means = divergences.means(conn, chosen, stage.config_hash)
        most = sorted(means, key=lambda key: (-means[key], key))[:LARGEST]
        rows = workspace.services().conversations.rows(most)
    largest = [(row.external_id, means[row.id]) for row in rows]
    at_end = _Mean.of([bits for bits, _ in ends])
    earlier = _Mean.of([bits for _, bits in ends if bits is not None])
    result: dict[str, Any] = {
        "conversations": len(ends),
        "at_end": asdict(at_end),
        "at_earlier_boundaries": asdict(earlier),
        "largest": [{"id": name, "kl": bits} for name, bits in largest],
    }
    lines = [
        f"KL(base || fine-tuned) of {counted(len(ends), 'conversation')}:",
        f"  at their end            {at_end}",
        f"  at earlier boundaries   {earlier}",
        "Conversations with the largest mean (also: `list --sort kl --reverse`):",
        *(f"  {bits:6.2f} bits  {one_line(name, 60)}" for name, bits in largest),
    ]  # fmt: skip
    Result(lines, result).print(arguments.json)
    return WITH_GAPS if stage.without else DONE


@dataclass(frozen=True, slots=True)
class _Mean:
    """A mean in bits with its 95% interval by the normal approximation over conversations; without one for a single
    conversation, and without anything for none."""

    bits: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> _Mean:
        if len(values) < 2:
            return cls(*values)
        middle, half = mean(values), Z95 * stdev(values) / math.sqrt(len(values))
        return cls(middle, middle - half, middle + half)

    def __str__(self) -> str:
        if self.bits is None:
            return "–"
        ends = "" if self.low is None else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.bits:.2f} bits{ends}"
