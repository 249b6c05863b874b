"""A new simulation: which kind, who plays, how often and under what; with its cost before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, get_args

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input

from engine.errors import WorkbenchError
from engine.records.simulation import PlayEstimate
from engine.services.simulation.records import (
    Kind,
    SimulationOffers,
    SimulationRequest,
    chosen_models,
)
from engine.services.simulation.service import SimulationService
from engine.text import display_safe, one_line
from screens.shell.run_form import KEYS, RunForm, field_line, whole_number
from screens.simulation import formatting
from screens.widgets.cycle import Cycle

KINDS: tuple[Kind, ...] = get_args(Kind)
FIELDS: dict[Kind, tuple[str, ...]] = {
    "sharded": ("judge", "instructions", "conditions", "user-temperature"),
    "forms": ("forms", "variant", "profile"),
    "recsim": ("tasks", "language", "turns"),
    "shards": ("judge", "instructions", "checks"),
}
"""The lines that a kind has beside those of all; the other lines of other kinds are hidden."""
OF_KINDS = {name for names in FIELDS.values() for name in names}
PROFILES = ("question", "run")
KIND_HELP: dict[Kind, str] = {
    "sharded": "Instructions revealed piece by piece, under conditions; the answers are scored.",
    "forms": "Forms filled in conversation, by modules or by one prompt; what is filled is scored.",
    "recsim": "Users with profiles who plan something with an assistant.",
    "shards": "Proposes shards for full instructions; a person approves them before they are played.",
}
HELP = {
    "model": "Who plays the assistant, and the others where they are not named.",
    "user": "Who plays the user.",
    "judge": "Who sorts the replies and copies the answers out; for shards, who proposes them.",
    "runs": "How often each is played; of recsim, how many conversations of each task.",
    "limit": "The first so many only; empty: all.",
    "seed": "Of all that is random: the same seed gives the same conversations.",
    "temperature": "Of replies in free words; empty: as the source paper has it.",
    "user-temperature": "Of the simulated user.",
    "checks": "Plays of FULL and of CONCAT for each: shards that lose nothing score alike. 0: none.",
    "variant": "By modules of one prompt each, by one prompt for all, or by both.",
    "profile": "A user drawn anew for each question, as in the source; or one for a run, who knows the answers.",
    "language": "Of the conversations.",
    "turns": "Answers of the assistant, at most.",
}


class SimulationRunForm(RunForm[SimulationRequest, PlayEstimate]):
    """Asks what to play; estimates the calls and the time as the fields change."""

    PLACE = "simulation-new"
    ASKS = "Simulate conversations"
    FIRST = "kind"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, simulations: SimulationService, offers: SimulationOffers) -> None:
        super().__init__()
        self._simulations, self._offers = simulations, offers

    def fields(self) -> ComposeResult:
        """The fields of all kinds, filled with the last request."""
        offers, last = self._offers, self._offers.last or SimulationRequest("sharded")
        models = offers.models
        variants = ("both", *offers.variants)
        variant = variants.index(last.variants[0]) if len(last.variants) == 1 else 0
        yield field_line(
            "kind",
            Cycle([formatting.KINDS[kind] for kind in KINDS], KINDS.index(last.kind), id="kind"),
        )
        yield field_line(
            "model", _model("model", f"{models[0]} (the project's)", models, last.model)
        )
        yield field_line("user", _model("user", "the same", models, last.user_model))
        yield field_line("judge", _model("judge", "the same", models, last.judge_model))
        yield field_line(
            "runs", _number("runs", last.runs), _number("limit", last.limit), "at most"
        )
        yield field_line(
            "seed",
            _number("seed", last.seed),
            _number("temperature", last.temperature),
            "temperature",
        )
        yield field_line("instructions", Input(display_safe(last.instructions), id="instructions"))
        yield field_line(
            "conditions", _list("conditions", last.conditions, offers.usual_conditions)
        )
        yield field_line("user temp.", _number("user-temperature", last.user_temperature))
        yield field_line("checks", _number("checks", last.checks))
        yield field_line("forms", _list("forms", last.forms, [name for name, _ in offers.forms]))
        yield field_line("variant", Cycle(variants, variant, id="variant"))
        yield field_line(
            "user is",
            Cycle(
                ("another for each question", "one for a run"),
                PROFILES.index(last.profile),
                id="profile",
            ),
        )
        yield field_line("tasks", _list("tasks", last.tasks, offers.tasks))
        yield field_line(
            "language",
            Cycle(offers.languages, offers.languages.index(last.language), id="language"),
        )
        yield field_line("turns", _number("turns", last.turns))

    @property
    def _kind(self) -> Kind:
        return KINDS[self.at("kind")]

    def show_lines(self) -> None:
        """Each kind has its own lines."""
        for name in OF_KINDS:
            self.query_one(f"#field-{name}").display = name in FIELDS[self._kind]

    def _names(self, name: str, known: Sequence[str], *, others: bool = False) -> tuple[str, ...]:
        """Names with commas between them; raises WorkbenchError for one that is not known."""
        found = tuple(one.strip() for one in self.text(name).split(",") if one.strip())
        for one in found:
            if one not in known and not others:
                raise WorkbenchError(f"{name}: there is no {one!r}.", f"Known: {', '.join(known)}.")
        return tuple(dict.fromkeys(found))

    def request(self) -> SimulationRequest:
        """The request that the fields describe; raises WorkbenchError for a field that cannot be read."""
        offers = self._offers
        variants = ((), *((one,) for one in offers.variants))
        models = offers.models
        return SimulationRequest(
            kind=self._kind,
            model=chosen_models(models, self.at("model")),
            user_model=chosen_models(models, self.at("user")),
            judge_model=chosen_models(models, self.at("judge")),
            runs=whole_number("runs", self.text("runs"), 1) or 1,
            limit=whole_number("at most", self.text("limit"), 1),
            seed=whole_number("seed", self.text("seed"), 0) or 0,
            temperature=_warmth("temperature", self.text("temperature")),
            instructions=self.text("instructions"),
            conditions=self._names("conditions", offers.conditions),
            user_temperature=_warmth("user temperature", self.text("user-temperature")) or 0.0,
            checks=whole_number("checks", self.text("checks"), 0) or 0,
            forms=self._names("forms", [name for name, _ in offers.forms], others=True),
            variants=variants[self.at("variant")],
            profile=PROFILES[self.at("profile")],
            tasks=self._names("tasks", offers.tasks),
            language=offers.languages[self.at("language")],
            turns=whole_number("turns", self.text("turns"), 1) or 10,
        )

    def cost(self, request: SimulationRequest) -> PlayEstimate:
        """The plays that are left, and what they take."""
        return self._simulations.estimate(request)

    def cost_text(self, request: SimulationRequest, cost: PlayEstimate) -> Content:
        """The cost as text."""
        return formatting.estimate_content(cost)

    def help_of(self, field: str) -> str:
        """The help of a field of this kind."""
        offers = self._offers
        return {
            "kind": KIND_HELP[self._kind],
            "instructions": f"{', '.join(offers.instructions)}, or a JSON or JSONL file of instructions.",
            "conditions": f"Of {', '.join(offers.conditions)}, with commas between.",
            "forms": "; ".join(f"{name}: {what}" for name, what in offers.forms)
            + "; or JSON files.",
            "tasks": f"Of {', '.join(offers.tasks)}, with commas between.",
        }.get(field, HELP.get(field, ""))


def _model(name: str, none: str, models: Sequence[str], chosen: str | None) -> Cycle:
    at = models.index(chosen) + 1 if chosen in models else 0
    return Cycle([none, *models], at, id=name)


def _number(name: str, value: float | None) -> Input:
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return Input(text, id=name, placeholder="all" if name == "limit" else "usual")


def _list(name: str, chosen: Sequence[str], usual: Sequence[str]) -> Input:
    text = display_safe(", ".join(chosen))
    return Input(text, id=name, placeholder=one_line(", ".join(usual), 70))


def _warmth(name: str, text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise WorkbenchError(f"{name}: a number, 0 or more.")
    return value
