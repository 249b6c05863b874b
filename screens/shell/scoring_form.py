"""The form of a scoring run, with what it costs."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from engine.base.request_options import options_of
from engine.completeness.records import Mode
from engine.completeness.scoring_request import ScoringRequest
from engine.conversations.filters import Filter
from engine.opener.jobs import JobService
from engine.project.records import Estimate
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, choices_of

DEFAULT_MINUTES = 10
"""For how long the model reads in mode `probe` if nothing else is typed; where reading takes less, all is read."""

MODES: dict[Mode, FormChoice] = {
    "words": FormChoice("words only", "The words of the last messages; no model, seconds."),
    "probe": FormChoice("words, then a model", "The model reads first what the words leave open."),
    "base": FormChoice("a model as it is", "It is asked what remains; often near chance."),
    "tuned": FormChoice("a model with an adapter", "The adapter in use, or one of yours."),
}
"""The ways of scoring, each with what it does."""

MODES_OF_FIELDS: dict[str, tuple[Mode, ...]] = {
    "minutes": ("probe",),
    "features": ("probe",),
    "layers": ("probe",),
    "adapter": ("probe", "tuned"),
    "end_tag": ("tuned",),
    "paper": ("base", "tuned"),
    **dict.fromkeys(
        ("model", "context", "remaining", "tune", "max_cost", "fresh"),
        ("probe", "base", "tuned"),
    ),
}
"""The modes in which a field means something; the others apply in every mode."""


class ScoringForm(RunForm[ScoringRequest, Estimate]):
    """Asks how to score and which conversations; shows the cost before anything starts."""

    PLACE = "run"
    FORM_TITLE = "Score conversations"
    FIRST_FIELD = "mode"
    OPTIONS = options_of(ScoringRequest)
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, jobs: JobService, mode: Mode, listed: Filter) -> None:
        """
        Args:
            jobs: The service that estimates the cost.
            mode: The mode that is proposed.
            listed: The filter of the list below the form; the conversations that are proposed.
        """
        super().__init__()
        self.choices = choices_of(ScoringRequest) | {"mode": MODES}
        self._jobs, self._mode, self._listed = jobs, mode, listed
        self._in_force = jobs.scores_in_force()

    def compose_fields(self) -> ComposeResult:
        """Yields a line for each option."""
        initial = {
            "mode": self._mode,
            "minutes": str(DEFAULT_MINUTES),
            "filter": str(self._listed),
        }
        first = ("mode", "minutes", "filter")
        yield from self.option_lines(ScoringRequest, first=first, initial=initial)

    def update_lines(self) -> None:
        """Hides what the chosen mode does not use."""
        mode = self.chosen("mode")
        self.show_lines({name: mode in modes for name, modes in MODES_OF_FIELDS.items()})

    def request(self) -> ScoringRequest:
        """Returns the run that the fields describe.

        Raises:
            WorkbenchError: A field cannot be understood.
        """
        return ScoringRequest(**self.values_of(ScoringRequest))

    def estimate(self, request: ScoringRequest) -> Estimate:
        """Returns the estimate of the run."""
        return self._jobs.estimate_scoring(request)

    def estimate_content(self, cost: Estimate) -> Content:
        """Returns the estimate in words, and which scores are in force."""
        estimate = super().estimate_content(cost)
        if self._in_force is None:
            return estimate
        sentence = "scores of another mode are stored beside them; S on the overview chooses"
        in_force = f"\nin force: {self._in_force}\n{sentence}"
        return Content.assemble(estimate, (in_force, "$tone-muted"))
