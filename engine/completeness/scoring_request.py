"""A run that scores conversations, as commands, dialogs and the API ask for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from engine.base import request_options as options
from engine.base.errors import UsageError
from engine.completeness.records import Mode, ProbeFeatures
from engine.conversations.filters import FILTER, Filter
from engine.model.records import ModelRequest

PROBE_CONTEXT = 1_024
"""Default context of mode `probe` in tokens: the cost of long logs is linear in their length. Whole logs gain at most
.006 of AUROC on any of eight sets, and 512 tokens lose up to .008 (docs/lab/probe.md)."""

Layers = Literal["first", "all"]
"""Which layers of the built-in model give the states that mode `probe` reads."""


def _read_mode(text: str) -> str:
    """Returns the name of a mode as it was typed.

    Raises:
        UsageError: It is `judge`, a mode until it became a question.
    """
    if text == "judge":
        raise UsageError(
            "Mode `judge` is the question `finished` now.",
            "Ask it with `workbench ask PROJECT finished --by model`.",
        )
    return text


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """A run that scores conversations.

    Attributes:
        model: Name or path; None is the one that the project uses for scoring.
        adapter: Name, file or run of an adapter; None in mode `tuned` is the one in use, otherwise none.
        mode: None takes `probe`, or what is best where there are too few conversations for it. `words` needs no model.
        features: What a probe reads: words and states, or states alone.
        minutes: In mode `probe`, read for about so long, first what words leave open; None reads all.
        context: Longest log in tokens; None takes `PROBE_CONTEXT` in mode `probe`, else the model's own, at most 8,192.
        layers: In mode `probe` with the built-in model and no adapter, read with its first `catalog.FIRST_LAYERS`
            layers, which takes half the time, or with all.
        filter: The conversations to score.
        remaining_of: The conversations whose remaining tasks are written; None takes those below the threshold, in mode
            `words` none.
        held_out_by: Name of a training run; skips the conversations that it was trained on.
        limit: Number of those conversations to score, the first ones; None scores all.
        paper: Score as in Soroka et al.: what the model writes next decides, and is what remains. Only in the modes
            `base` and `tuned`; where `mode` is None, `tuned` with an adapter, else `base`.
        max_cost, fresh: See `engine.model.interface.Spending`.
        tune: Tune the model first if it never was on this machine.
        remaining: Write remaining tasks.

    Raises:
        UsageError: A value cannot be used, or an adapter is given with a mode that does not use it.
    """

    model: str | None = options.declare_option(None, options.MODEL)
    adapter: str | Path | None = options.declare_option(None, options.ADAPTER)
    mode: Mode | None = options.declare_option(
        None,
        options.Option(
            "how to score",
            default="probe where it is possible, else tuned with an adapter, else base",
            choices=get_args(Mode),
            convert=_read_mode,
            allowed=lambda value: value is None or value in get_args(Mode),
            must=options.join_choices(get_args(Mode)),
        ),
    )
    features: ProbeFeatures = options.choice(
        "both",
        "what a probe reads: words and hidden states, or hidden states alone",
        ("both", "states"),
    )
    minutes: int | None = options.whole_number(
        None,
        "in mode probe: let the model read for so long, first what words leave open",
        metavar="",
    )
    context: int | None = options.whole_number(
        None,
        "longest log in tokens; longer ones are read in windows (default 1,024 in mode probe, else 8,192 at most)",
        metavar="",
    )
    layers: Layers = options.choice(
        "first",
        "layers of the built-in model that mode probe reads with: its first 14, in half the time, or all 30",
        get_args(Layers),
    )
    filter: Filter = options.declare_option(Filter(), FILTER)
    remaining_of: Filter | None = options.declare_option(
        None,
        replace(
            FILTER,
            help="write remaining tasks of these, like finished:open, not of what is below the threshold;"
            " a model then writes them in mode words too",
        ),
    )
    held_out_by: str | None = options.declare_option(
        None, options.Option("only what this training run was not trained on", metavar="RUN")
    )
    limit: int | None = options.whole_number(
        None,
        "score only the first N conversations; --filter 'draw<.1' scores a tenth at random",
        metavar="",
    )
    paper: bool = options.switch(
        "as in Soroka et al.: what the model writes after a log decides, and is what remains;"
        " mode tuned with an adapter, else base"
    )
    max_cost: float | None = options.declare_option(None, options.MAX_COST)
    fresh: bool = options.declare_option(False, options.FRESH)
    # The text of a switch that is on by default describes the flag that turns it off.
    tune: bool = options.switch("use the model file as it is", default=True, flag="no-tune")
    remaining: bool = options.switch(
        "do not write remaining tasks", default=True, flag="no-remaining"
    )

    def __post_init__(self) -> None:
        options.check(self)
        if self.adapter and self.mode not in ("tuned", "probe", None):
            raise UsageError(
                "An adapter is for the modes `tuned` and `probe`.",
                "Leave out --mode, or --adapter.",
            )

    @property
    def model_request(self) -> ModelRequest:
        """The model that the run loads; used after `mode` is resolved (`ScoringRuns.make_run`)."""
        reads_states = self.mode == "probe"
        default_context = PROBE_CONTEXT if reads_states else None
        return ModelRequest(
            "scoring",
            self.model,
            self.adapter,
            tuned=self.mode == "tuned",
            context=self.context or default_context,
            first_layers=reads_states and self.layers == "first",
            max_cost=self.max_cost,
            fresh=self.fresh,
        )
