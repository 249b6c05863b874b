"""A new simulation: which kind, who plays, how often and under what; with its cost before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, get_args

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from engine.errors import WorkbenchError
from engine.play_rows import PlayEstimate
from engine.text import display_safe, one_line
from screens import simulation_words as words
from screens.background import background
from screens.dialogs import Dialog, hint_line
from screens.run_dialog import refusal_content
from screens.simulation_port import (
    Kind,
    SimulationOffers,
    Simulations,
    SimulationWish,
    chosen_models,
)
from screens.widgets.cycle import Cycle

TYPING_REST = 0.25
"""Seconds without a key before it is asked what the simulation would cost."""
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


class SimulationRunDialog(Dialog[SimulationWish | None]):
    """Asks what to play; estimates the calls and the time as the fields change."""

    PLACE = "simulation-new"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("enter", "start", "Start", priority=True),
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Field before", show=False),
    ]

    def __init__(self, simulations: Simulations, offers: SimulationOffers) -> None:
        super().__init__()
        self._simulations, self._offers = simulations, offers
        self._timer: Timer | None = None
        self._known: SimulationWish | None = None

    def compose(self) -> ComposeResult:
        """Fields, help for the one in focus, estimate, keys; filled with what was asked for last."""
        offers, last = self._offers, self._offers.last or SimulationWish("sharded")
        models = offers.models
        variants = ("both", *offers.variants)
        variant = variants.index(last.variants[0]) if len(last.variants) == 1 else 0
        with Vertical(classes="dialog") as box:
            box.border_title = Content("Simulate conversations")
            yield _line(
                "kind",
                Cycle([words.KINDS[kind] for kind in KINDS], KINDS.index(last.kind), id="kind"),
            )
            yield _line(
                "model", _model("model", f"{models[0]} (the project's)", models, last.model)
            )
            yield _line("user", _model("user", "the same", models, last.user_model))
            yield _line("judge", _model("judge", "the same", models, last.judge_model))
            yield _line("runs", _number("runs", last.runs), _number("limit", last.limit), "at most")
            yield _line(
                "seed",
                _number("seed", last.seed),
                _number("temperature", last.temperature),
                "temperature",
            )
            yield _line("instructions", Input(display_safe(last.instructions), id="instructions"))
            yield _line("conditions", _list("conditions", last.conditions, offers.usual_conditions))
            yield _line("user temp.", _number("user-temperature", last.user_temperature))
            yield _line("checks", _number("checks", last.checks))
            yield _line("forms", _list("forms", last.forms, [name for name, _ in offers.forms]))
            yield _line("variant", Cycle(variants, variant, id="variant"))
            yield _line(
                "user is",
                Cycle(
                    ("another for each question", "one for a run"),
                    PROFILES.index(last.profile),
                    id="profile",
                ),
            )
            yield _line("tasks", _list("tasks", last.tasks, offers.tasks))
            yield _line(
                "language",
                Cycle(offers.languages, offers.languages.index(last.language), id="language"),
            )
            yield _line("turns", _number("turns", last.turns))
            yield Static(id="help")
            yield Static(id="estimate")
            keys = (("↑↓", "field"), ("←→", "value"), ("enter", "starts"), ("escape", "leaves it"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Begins at the kind, with the cost of what is proposed."""
        self._show_fields()
        self.query_one("#kind").focus()
        self._estimate()

    # What is asked for

    @property
    def _kind(self) -> Kind:
        return KINDS[self.query_one("#kind", Cycle).at]

    def _show_fields(self) -> None:
        for name in OF_KINDS:
            self.query_one(f"#field-{name}").display = name in FIELDS[self._kind]

    def _text(self, name: str) -> str:
        return display_safe(self.query_one(f"#{name}", Input).value.strip())

    def _at(self, name: str) -> int:
        return self.query_one(f"#{name}", Cycle).at

    def _names(self, name: str, known: Sequence[str], *, others: bool = False) -> tuple[str, ...]:
        """Names with commas between them; raises WorkbenchError for one that is not known."""
        found = tuple(one.strip() for one in self._text(name).split(",") if one.strip())
        for one in found:
            if one not in known and not others:
                raise WorkbenchError(f"{name}: there is no {one!r}.", f"Known: {', '.join(known)}.")
        return tuple(dict.fromkeys(found))

    def _wish(self) -> SimulationWish:
        """What is asked for; raises WorkbenchError for what cannot be understood."""
        offers = self._offers
        variants = ((), *((one,) for one in offers.variants))
        models = offers.models
        return SimulationWish(
            kind=self._kind,
            model=chosen_models(models, self._at("model")),
            user_model=chosen_models(models, self._at("user")),
            judge_model=chosen_models(models, self._at("judge")),
            runs=_whole("runs", self._text("runs"), 1) or 1,
            limit=_whole("at most", self._text("limit"), 1),
            seed=_whole("seed", self._text("seed"), 0) or 0,
            temperature=_warmth("temperature", self._text("temperature")),
            instructions=self._text("instructions"),
            conditions=self._names("conditions", offers.conditions),
            user_temperature=_warmth("user temperature", self._text("user-temperature")) or 0.0,
            checks=_whole("checks", self._text("checks"), 0) or 0,
            forms=self._names("forms", [name for name, _ in offers.forms], others=True),
            variants=variants[self._at("variant")],
            profile=PROFILES[self._at("profile")],
            tasks=self._names("tasks", offers.tasks),
            language=offers.languages[self._at("language")],
            turns=_whole("turns", self._text("turns"), 1) or 10,
        )

    def on_input_changed(self) -> None:
        """Another field is another simulation; its cost is asked for once the typing rests."""
        self._forget()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(TYPING_REST, self._estimate)

    def on_cycle_changed(self) -> None:
        """So is another choice."""
        self._show_fields()
        self._show_help()
        self._estimate()

    # What it costs

    def _forget(self) -> None:
        """What was estimated is not what is asked for now; nothing starts until that is known."""
        self._known = None
        self._tell(Content.styled("estimating …", "$tone-muted"))

    def _estimate(self) -> None:
        self._forget()
        try:
            wish = self._wish()
        except WorkbenchError as error:
            self._tell(refusal_content(error))
            return
        background(
            self,
            lambda: self._simulations.estimate(wish),
            lambda estimate: self._show_estimate(wish, estimate),
            lambda error: self._tell(refusal_content(error)),
            group="estimate",
        )

    def _show_estimate(self, wish: SimulationWish, estimate: PlayEstimate) -> None:
        self._known = wish
        self._tell(words.estimate_content(estimate))

    def _tell(self, content: Content) -> None:
        self.query_one("#estimate", Static).update(content)

    def action_start(self) -> None:
        """Answers with what was asked for, once it is known what it costs."""
        if self._known is not None:
            self.dismiss(self._known)

    # Help

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Explains the field in focus."""
        self._show_help()

    def _show_help(self) -> None:
        at = (self.focused.id if self.focused is not None else None) or ""
        offers = self._offers
        told = {
            "kind": KIND_HELP[self._kind],
            "instructions": f"{', '.join(offers.instructions)}, or a JSON or JSONL file of instructions.",
            "conditions": f"Of {', '.join(offers.conditions)}, with commas between.",
            "forms": "; ".join(f"{name}: {what}" for name, what in offers.forms)
            + "; or JSON files.",
            "tasks": f"Of {', '.join(offers.tasks)}, with commas between.",
        }.get(at, HELP.get(at, ""))
        self.query_one("#help", Static).update(Content.styled(one_line(told, 400), "$tone-muted"))


def _line(name: str, first: Widget, second: Widget | None = None, other: str = "") -> Horizontal:
    """A line of the dialog: a name and its field, and perhaps another pair beside it."""
    shown: list[Widget] = [
        Static(Content.styled(f"{name:<13}", "$tone-muted"), classes="name"),
        first,
    ]
    if second is not None:
        shown += [Static(Content.styled(f"{other:<13}", "$tone-muted"), classes="name"), second]
    return Horizontal(*shown, classes="field", id=f"field-{first.id}")


def _model(name: str, none: str, models: Sequence[str], chosen: str | None) -> Cycle:
    at = models.index(chosen) + 1 if chosen in models else 0
    return Cycle([none, *models], at, id=name)


def _number(name: str, value: float | None) -> Input:
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return Input(text, id=name, placeholder="all" if name == "limit" else "usual")


def _list(name: str, chosen: Sequence[str], usual: Sequence[str]) -> Input:
    text = display_safe(", ".join(chosen))
    return Input(text, id=name, placeholder=one_line(", ".join(usual), 70))


def _whole(name: str, text: str, least: int) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or int(text) < least:
        raise WorkbenchError(f"{name}: a whole number from {least} on.")
    return int(text)


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
