"""The stage that reads hidden states and, at each doubling of what is read, fits the probe to words and states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from engine.base.errors import Cancelled
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage
from engine.jobs.contract import Lane, Progress, Stage

FIRST_READ = 50
"""Number of conversations after which the probe is fitted to states first, and again at each doubling."""


class RefiningStage(Stage):
    """Reads conversations, and fits the probe anew to what is read.

    Scores by words, where the probe reads them, are there before, so each fit changes what is shown. A run that is
    cancelled fits once more, so that nothing it read is in vain; a second cancel leaves that out, and the next run
    fits to it.
    """

    name = "read"
    lane: Lane = "model"

    def __init__(
        self,
        reading: ReadingStage,
        make_fit: Callable[[bool], FittingStage],
        *,
        while_reading: bool,
    ) -> None:
        """Prepares a run.

        Args:
            make_fit: Makes the stage of one fit; called with whether it is an error that there are too few
                conversations. The fit is a part of this run.
            while_reading: Whether to fit at each doubling; else only at the end.
        """
        self._reading, self._make_fit, self._while_reading = reading, make_fit, while_reading
        self._fit: FittingStage | None = None  # the last one
        self._cancels = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return self._reading.title

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the states, and what is fitted to them."""
        return {**self._reading.params, **self._make_fit(True).method}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """The fingerprints of the model."""
        return self._reading.fingerprints

    def run(self, run_id: int) -> Iterator[Progress]:
        """Reads block by block, and fits between blocks.

        Raises:
            ModelError: The model cannot be loaded, or gives no hidden states.
            NotYet: There are too few conversations for a probe, and the bundled one does not fit the model.
            Cancelled: The run was cancelled; what was read is kept, and after a single cancel the scores rest on it.
        """
        reading, last, fitted_count = self._reading, Progress(0, None), None
        try:
            for last in reading.run(run_id):
                yield last
                read_count = reading.read + reading.skipped
                # What an earlier run read is fitted to; after the last block comes the fit at the end.
                fitted_count = reading.skipped if fitted_count is None else fitted_count
                if (
                    self._while_reading
                    and _doubled(fitted_count, read_count)
                    and last.done != last.total
                ):
                    fitted_count = read_count
                    yield from self._run_fit(run_id, last, required=False)
        except (Cancelled, KeyboardInterrupt):
            for stage in (reading, self._fit):
                if stage is not None:  # what it does on a thread would go on
                    stage.interrupt()
            if self._cancels < 2 and reading.read:
                note = "the scores are fitted to what was read; cancel again to leave that out"
                yield replace(last, result=f"Reading was cancelled: {note}.", note=note)
                yield from self._run_fit(run_id, last, required=False)
            raise Cancelled("The work was cancelled.") from None
        yield from self._run_fit(run_id, last, required=True)

    def _run_fit(self, run_id: int, last: Progress, *, required: bool) -> Iterator[Progress]:
        """Fits to what is read, and says what came of it; the progress stays where reading is.

        Raises:
            NotYet: There are too few conversations for a probe, and this is required.
            Cancelled: The run was cancelled.
        """
        self._fit = fit = self._make_fit(required)
        progress = None
        for progress in fit.run(run_id):
            yield replace(last, note=progress.note or "fitting the probe")
        if progress is not None:  # else the scores were stored before
            yield replace(last, note="", result=fit.summary())

    def interrupt(self) -> None:
        """Ends reading, so that what was read is fitted to; the second time ends that fit."""
        self._cancels += 1
        self._reading.interrupt()
        if self._cancels > 1 and self._fit is not None:
            self._fit.interrupt()

    def summary(self) -> str:
        """Returns how many were read, and what came of the last fit, in two sentences."""
        fitted = "" if self._fit is None else f" {self._fit.summary()}"
        return f"{self._reading.summary()}{fitted}"


def _doubled(before: int, now: int) -> bool:
    """Returns whether the number of conversations that are read passed `FIRST_READ`, or a doubling of it."""
    return (before // FIRST_READ).bit_length() < (now // FIRST_READ).bit_length()
