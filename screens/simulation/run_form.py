"""The dialog for a new simulation. Its fields are those of `SimulationRequest`; it shows the cost before the start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from engine.base.text import display_safe, one_line
from engine.project.records import Estimate
from engine.simulate.request import (
    BOTH,
    FIELDS,
    KINDS,
    OPTIONS,
    Kind,
    SimulationOffers,
    SimulationRequest,
    read_request,
)
from engine.simulate.service.service import SimulationService
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line
from screens.simulation import formatting
from screens.widgets.controls import LineInput

KIND_FIELDS = (
    "instructions", "conditions", "user_temperature", "forms", "variants", "profile", "free_replies",
    "tasks", "language", "turns",
)  # fmt: skip
"""Fields with a line of their own that only some kinds have; the lines of other kinds are hidden."""

PROFILES = {"question": FormChoice("another for each question"), "run": FormChoice("one for a run")}
"""For how long a user keeps a profile."""

REPLIES = {False: FormChoice("follow a JSON schema"), True: FormChoice("free, as in the source")}
"""Whether replies are free."""

KIND_HELP: dict[Kind, str] = {
    "sharded": "Instructions revealed piece by piece, under conditions; the answers are scored.",
    "forms": "Forms filled in conversation, by modules or by one prompt; what is filled is scored.",
    "recsim": "Users with profiles who plan something with an assistant.",
}
"""What each kind plays."""

_MAX_PLACEHOLDER_CHARS = 70
"""Most characters of a default that stands in an empty field."""


class SimulationRunForm(RunForm[SimulationRequest, Estimate]):
    """Asks what to play; estimates the calls and the time as the fields change."""

    PLACE = "simulation-new"
    FORM_TITLE = "Simulate conversations"
    FIRST_FIELD = "kind"
    OPTIONS = OPTIONS
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, simulations: SimulationService, offers: SimulationOffers) -> None:
        super().__init__()
        self._simulations, self._offers = simulations, offers
        models = {name: FormChoice(name) for name in offers.models}
        self.choices = {
            "kind": {
                kind: FormChoice(formatting.KIND_NAMES[kind], KIND_HELP[kind]) for kind in KINDS
            },
            "model": {None: FormChoice(f"{offers.models[0]} (the project's)"), **models},
            "user_model": {None: FormChoice("the same"), **models},
            "judge_model": {None: FormChoice("the same"), **models},
            "variants": {name: FormChoice(name) for name in (BOTH, *offers.variants)},
            "profile": PROFILES,
            "free_replies": REPLIES,
            "language": {name: FormChoice(name) for name in offers.languages},
        }

    def compose_fields(self) -> ComposeResult:
        """Yields the fields of all kinds, filled with the last request."""
        offers, last = self._offers, self._offers.last or SimulationRequest(KINDS[0])
        variant = last.variants[0] if len(last.variants) == 1 else BOTH
        yield field_line("kind", self.choice_field("kind", last.kind))
        yield field_line("model", self.choice_field("model", last.model))
        yield field_line("user", self.choice_field("user_model", last.user_model))
        yield field_line("judge", self.choice_field("judge_model", last.judge_model))
        yield field_line("runs", _input(last, "runs"), _input(last, "limit"), "limit")
        yield field_line("seed", _input(last, "seed"), _input(last, "temperature"), "temperature")
        yield field_line("instructions", _input(last, "instructions"))
        yield field_line("conditions", _input(last, "conditions", offers.usual_conditions))
        yield field_line("user temp.", _input(last, "user_temperature"))
        yield field_line("forms", _input(last, "forms", [name for name, _ in offers.forms]))
        yield field_line("variant", self.choice_field("variants", variant))
        yield field_line("user is", self.choice_field("profile", last.profile))
        yield field_line("replies", self.choice_field("free_replies", last.free_replies))
        yield field_line("tasks", _input(last, "tasks", offers.tasks))
        yield field_line("language", self.choice_field("language", last.language))
        yield field_line("turns", _input(last, "turns"))

    def update_lines(self) -> None:
        """Shows the lines of the kind that is chosen."""
        kind: Kind = self.chosen("kind")
        for name in KIND_FIELDS:
            self.query_one(f"#field-{name}").display = name in FIELDS[kind]
        self.query_one("#field-judge_model").display = kind == "sharded"

    def request(self) -> SimulationRequest:
        """Returns the request that the fields describe.

        Raises:
            WorkbenchError: A field cannot be used.
        """
        kind: Kind = self.chosen("kind")
        texts = {box.id: self.text(box.id) for box in self.query(Input) if box.id}
        # A choice of None, the usual one, is an empty text for `read_request`.
        for name in ("model", "user_model", "judge_model", "variants", "profile", "language"):
            texts[name] = self.chosen(name) or ""
        request = read_request(kind, texts)
        return replace(request, free_replies=kind == "forms" and self.chosen("free_replies"))

    def estimate(self, request: SimulationRequest) -> Estimate:
        """Returns how many plays are left, and what they take."""
        return self._simulations.estimate(request)

    def field_help(self, field: str) -> str:
        """Returns the help of a field, and for the forms their names and subjects."""
        if field == "forms":
            return (
                "; ".join(f"{name}: {topic}" for name, topic in self._offers.forms)
                + "; or JSON files."
            )
        return super().field_help(field)


def _input(last: SimulationRequest, name: str, usual: Sequence[str] = ()) -> Input:
    """Returns a field with its value in a request, and the default in it where it is empty.

    Args:
        usual: The default of a field for several names.
    """
    value = getattr(last, name)
    placeholder = "all" if name == "limit" else "usual"
    if isinstance(value, tuple):
        text = ", ".join(value)
        placeholder = one_line(", ".join(usual), _MAX_PLACEHOLDER_CHARS)
    elif value is None:
        text = ""
    elif isinstance(value, float):
        text = f"{value:g}"
    else:
        text = str(value)
    return LineInput(display_safe(text), id=name, placeholder=placeholder)
