"""A new training run: which conversations, which recipe, on what; with its cost before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from engine.errors import WorkbenchError
from engine.filters import FilterError, completions, parse_filter
from engine.text import display_safe, one_line
from screens import training_words as words
from screens.background import background
from screens.dialogs import Dialog, hint_line
from screens.run_dialog import refusal_content
from screens.training_port import (
    Offer,
    Training,
    TrainingEstimate,
    TrainingOffers,
    TrainingWish,
)
from screens.widgets.cycle import Cycle

TYPING_REST = 0.25
"""Seconds without a key before it is asked what the run would cost."""
HELD_OUT = ("0.5", "0.3", "0.2", "0.1")
"""Shares that are held out, as they are chosen."""
OTHER_BASE = Offer("", "another: a path", "A GGUF file, or a folder as Hugging Face writes it.")
HELP = {
    "conversations": "A filter as in the list: source:web turns>5 -tag:spam. Empty: all conversations.",
    "name": "What the run is called; its folder is named so. Empty: the name that is proposed.",
    "path": OTHER_BASE.help,
    "held-out": "Share of the conversations that is not trained on; figures come from these only.",
    "most": "Train on at most so many conversations; empty: all that are not held out.",
    "settings": "field=value, several with spaces between them, over what the preset says:",
}


class TrainingRunDialog(Dialog[TrainingWish | None]):
    """Asks what to train on, how and on what weights; estimates memory and time as the fields change."""

    PLACE = "training-new"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("enter", "start", "Start", priority=True),
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Field before", show=False),
    ]

    def __init__(self, training: Training, offers: TrainingOffers) -> None:
        super().__init__()
        self._training, self._offers = training, offers
        self._bases = (*offers.bases, OTHER_BASE)
        self._timer: Timer | None = None
        self._known: TrainingWish | None = None

    def compose(self) -> ComposeResult:
        """Fields, help for the one in focus, estimate, keys."""
        offers = self._offers
        names = [offer.name for offer in offers.presets]
        preset = names.index(offers.preset) if offers.preset in names else 0
        with Vertical(classes="dialog") as box:
            box.border_title = Content("Train an adapter")
            yield from _field("conversations", Input(id="conversations", placeholder="all"))
            yield from _field("name", Input(id="name"))
            yield from _field("recipe", Cycle(_titles(offers.recipes), id="recipe"))
            yield from _field("preset", Cycle(_titles(offers.presets), preset, id="preset"))
            yield from _field("base", Cycle(_titles(self._bases), id="base"))
            yield from _field("path", Input(id="path"))
            yield from _field("held out", Cycle(_percent(HELD_OUT), id="held-out"))
            yield from _field("at most", Input(id="most", placeholder="all"))
            yield from _field(
                "settings", Input(id="settings", placeholder="as the preset has them")
            )
            yield Static(id="help")
            yield Static(id="estimate")
            keys = (("↑↓", "field"), ("←→", "value"), ("enter", "starts"), ("escape", "leaves it"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Begins at the recipe, with the cost of what is proposed."""
        self._show_path()
        self.query_one("#recipe").focus()
        self._estimate()

    # What is asked for

    def _value(self, name: str) -> str:
        return display_safe(self.query_one(f"#{name}", Input).value.strip())

    def _chosen(self, name: str, offers: Sequence[Offer]) -> Offer | None:
        return offers[self.query_one(f"#{name}", Cycle).at] if offers else None

    def _wish(self) -> TrainingWish:
        """What is asked for; raises WorkbenchError for what cannot be understood."""
        base = self._chosen("base", self._bases)
        recipe = self._chosen("recipe", self._offers.recipes)
        preset = self._chosen("preset", self._offers.presets)
        other = base is OTHER_BASE
        if other and not self._value("path"):
            raise WorkbenchError("Say where the weights are.", OTHER_BASE.help)
        return TrainingWish(
            filter=parse_filter(self._value("conversations")),
            name=self._value("name"),
            recipe="" if recipe is None else recipe.name,
            preset="" if preset is None else preset.name,
            base=self._value("path") if other or base is None else base.name,
            held_out=float(HELD_OUT[self.query_one("#held-out", Cycle).at]),
            limit=_whole(self._value("most")),
            settings=_settings(self._value("settings")),
        )

    def on_input_changed(self) -> None:
        """Another field is another run; it is asked for once the typing rests."""
        self._forget()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(TYPING_REST, self._estimate)
        self._show_help()

    def on_cycle_changed(self) -> None:
        """So is another choice."""
        self._show_path()
        self._show_help()
        self._estimate()

    def _show_path(self) -> None:
        """The line for a path is there when weights are chosen that are not offered."""
        other = self._chosen("base", self._bases) is OTHER_BASE
        self.query_one("#field-path").display = other

    # What it costs

    def _forget(self) -> None:
        """What was estimated is not what is asked for now; nothing starts until that is known."""
        self._known = None
        self._tell(Content.styled("estimating …", "$tone-muted"))

    def _estimate(self) -> None:
        self._forget()
        try:
            wish = self._wish()
        except FilterError as error:
            self._tell(Content.styled(f"The filter: {one_line(error.message)}", "$tone-incomplete"))
            return
        except WorkbenchError as error:
            self._tell(refusal_content(error))
            return
        background(
            self,
            lambda: self._training.estimate(wish),
            lambda estimate: self._show_estimate(wish, estimate),
            lambda error: self._tell(refusal_content(error)),
            group="estimate",
        )

    def _show_estimate(self, wish: TrainingWish, estimate: TrainingEstimate) -> None:
        self._known = wish
        self.query_one("#name", Input).placeholder = one_line(estimate.name, 60)
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
        at = self.focused.id if self.focused is not None else None
        told = HELP.get(at or "", "")
        offers = {
            "recipe": self._offers.recipes,
            "preset": self._offers.presets,
            "base": self._bases,
        }
        if at in offers:
            offer = self._chosen(at, offers[at])
            told = "" if offer is None else offer.help
        if at == "conversations":
            told = self._filter_help() or told
        if at == "settings":
            told = f"{told} {self._settings_help()}"
        self.query_one("#help", Static).update(Content.styled(one_line(told, 400), "$tone-muted"))

    def _filter_help(self) -> str:
        """What may come where something is being written: names of fields, or values."""
        text = self._value("conversations")
        if not text:
            return ""
        found = completions(text, len(text), {})
        if len(found) == 1:
            return f"{found[0].text} {found[0].help}"
        return ", ".join(one.text for one in found)

    def _settings_help(self) -> str:
        """The field that is being written in words, else the names of all."""
        text = self._value("settings").split(" ")[-1].partition("=")[0]
        known = self._offers.settings
        for offer in known:
            if offer.name == text:
                return f"{offer.name}: {offer.help}"
        names = [offer.name for offer in known if offer.name.startswith(text)]
        return ", ".join(names or [offer.name for offer in known])


def _field(name: str, widget: Widget) -> ComposeResult:
    with Horizontal(classes="field", id=f"field-{widget.id}"):
        yield Static(Content.styled(f"{name:<14}", "$tone-muted"), classes="name")
        yield widget


def _titles(offers: Sequence[Offer]) -> list[str]:
    return [offer.title or offer.name for offer in offers]


def _percent(shares: Sequence[str]) -> list[str]:
    return [f"{100 * float(share):.0f}% of the conversations" for share in shares]


def _whole(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise WorkbenchError("At most: a whole number from 1 on, or nothing.")
    return int(text)


def _settings(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in text.split():
        name, sign, value = part.partition("=")
        if not (name and sign and value):
            raise WorkbenchError(
                f"Settings are written field=value; “{one_line(part, 40)}” is not."
            )
        found.append((name, value))
    return tuple(found)
