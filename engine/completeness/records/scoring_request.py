"""What a person asks of a run that scores conversations."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from engine.completeness.records.scores import Mode
from engine.conversations.filters import Filter
from engine.model.service.records import ModelRequest

STEP_STOP = "\n\nTURN"
"""The beginning of the header of the next step in a log, where an answer ends."""


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """A run that scores conversations.

    Attributes:
        mode: None takes `probe`, or what is best where there are too few conversations for it.
        model: Name or path; None is the one that the project uses for scoring.
        adapter: Name, file or run of an adapter; None in mode `tuned` is the one in use, otherwise none.
        end_tag: Text tag of a tuned model; None is the one that its adapter was trained with, else its end-of-text
            token.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        filter: Which conversations.
        held_out_by: Of them only those that this training run was not trained on.
        limit: The first so many of them.
        part: See `engine.conversations.selection.Selection`. Nothing is fitted and no remaining tasks are written
            then: that is for the project that the parts are merged into.
        tune: Tune the model first if it never was on this machine.
        remaining: Write the remaining tasks of the conversations below the threshold.
        seconds: In mode `probe`, read a random part of the logs for about so long, for provisional scores; None reads
            all.
        ends: In mode `probe`, read each log at its last boundary and one earlier one only.
        paper: As in Soroka et al.: what the model writes next decides, and is what remains. Only in the modes `base`
            and `tuned`; where `mode` is None, `tuned` with an adapter, else `base`.
    """

    mode: Mode | None = None
    model: str | None = None
    adapter: str | Path | None = None
    end_tag: str | None = None
    context: int | None = None
    filter: Filter = field(default_factory=Filter)
    held_out_by: str | None = None
    limit: int | None = None
    part: tuple[int, int] | None = None
    tune: bool = True
    remaining: bool = True
    seconds: float | None = None
    ends: bool = False
    paper: bool = False

    @property
    def model_request(self) -> ModelRequest:
        """The model that the run loads."""
        return ModelRequest(
            "scoring", self.model, self.adapter, tuned=self.mode == "tuned", context=self.context
        )
