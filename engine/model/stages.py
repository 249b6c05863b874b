"""The stage that tunes: it finds the fastest faithful format of the weights of a model on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from engine.jobs.contract import (
    Progress,
    ThreadedWork,
)
from engine.model.catalog import Catalog, ModelEntry
from engine.model.model_work import (
    RunModel,
)
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Tune


class TuningStage:
    """Tunes one model and stores the result in the catalogue."""

    name = "tune"
    lane: Literal["model", "cpu"] = "model"
    unit = "steps"

    def __init__(
        self,
        process: ModelProcess,
        catalog: Catalog,
        entry: ModelEntry,
        text: str,
        run_models: Sequence[RunModel] = (),
    ) -> None:
        """Prepares a run.

        Args:
            text: Text of some thousand tokens to measure on.
            run_models: The models of the stages that follow; their file is replaced by the tuned one.
        """
        self._catalog, self._entry, self._text = catalog, entry, text
        self._process, self._run_models = process, run_models
        self.result: dict[str, Any] | None = None

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        found = f"Finding the fastest format of {self._entry.name} for this machine"
        drift = self._catalog.drift(self._entry)
        if drift is None:
            return f"{found}, once"
        then, now = drift
        return f"{found} again: it reads {now:,.0f} tokens/s, and {then:,.0f} when the format was chosen"

    @property
    def params(self) -> Mapping[str, Any]:
        """The model to tune."""
        return {"model": self._entry.name}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """SHA-256 of the file to tune."""
        return {"model_sha256": self._catalog.sha256(self._entry.path)}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Measures the candidates in the model process.

        Raises:
            ModelError: The weights cannot be loaded or written in another format.
            Cancelled: `interrupt` was called.
        """
        steps = 0
        tuning = ThreadedWork(
            lambda report: self._process.ask(
                Tune(self._entry.path, self._catalog.cache, self._text), report
            )
        )
        for _, note in tuning.reports():
            yield Progress(steps, None, note)
            steps += 1
        self.result = tuning.result()
        self._catalog.record_tuning(self._entry, self.result)
        for run_model in self._run_models:
            self._replace_model(run_model)
        yield Progress(steps, steps)

    def _replace_model(self, run_model: RunModel) -> None:
        """Replaces the model of the stages that follow by the tuned file."""
        before = run_model.model
        tuned = self._catalog.runnable(replace(self._entry, tuning=self.result), before.adapter)
        options = replace(before.options, threads=tuned.options.threads)
        run_model.model = replace(tuned, options=options)

    def interrupt(self) -> None:
        """Cancels the measurement; nothing is stored."""
        self._process.cancel()

    def summary(self) -> str:
        """The result in one sentence."""
        if self.result is None:
            return "Nothing was kept."
        result = self.result
        note = (
            "" if result["settled"] else " Other formats were as fast: the measurements disagree."
        )
        if result["chosen"] == "as is":
            return f"{self._entry.name} is fastest as it is: {result['tokens_per_s']:,.0f} tokens/s.{note}"
        return (
            f"{self._entry.name} runs as {result['chosen']} at {result['tokens_per_s']:,.0f} tokens/s,"
            f" {result['gain']:.1f} times as fast as the file as shipped.{note}"
        )
