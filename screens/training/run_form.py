"""A new training run: which conversations, which recipe, on what; with its cost before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input

from engine.errors import WorkbenchError
from engine.filters import FilterError, completions, parse_filter
from engine.services.training.records import (
    Offer,
    Training,
    TrainingEstimate,
    TrainingOffers,
    TrainingRequest,
)
from engine.text import one_line
from screens.shell.run_form import KEYS, RunForm, field_line, whole_number
from screens.training import formatting as words
from screens.widgets.cycle import Cycle

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


class TrainingRunForm(RunForm[TrainingRequest, TrainingEstimate]):
    """Asks what to train on, how and on what weights; estimates memory and time as the fields change."""

    PLACE = "training-new"
    ASKS = "Train an adapter"
    FIRST = "recipe"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, training: Training, offers: TrainingOffers) -> None:
        super().__init__()
        self._training, self._offers = training, offers
        self._bases = (*offers.bases, OTHER_BASE)

    def fields(self) -> ComposeResult:
        """See the base."""
        offers = self._offers
        names = [offer.name for offer in offers.presets]
        preset = names.index(offers.preset) if offers.preset in names else 0
        yield field_line("conversations", Input(id="conversations", placeholder="all"))
        yield field_line("name", Input(id="name"))
        yield field_line("recipe", Cycle(_titles(offers.recipes), id="recipe"))
        yield field_line("preset", Cycle(_titles(offers.presets), preset, id="preset"))
        yield field_line("base", Cycle(_titles(self._bases), id="base"))
        yield field_line("path", Input(id="path"))
        yield field_line("held out", Cycle(_percent(HELD_OUT), id="held-out"))
        yield field_line("at most", Input(id="most", placeholder="all"))
        yield field_line("settings", Input(id="settings", placeholder="as the preset has them"))

    def show_lines(self) -> None:
        """The line for a path is there when weights are chosen that are not offered."""
        other = self._chosen("base", self._bases) is OTHER_BASE
        self.query_one("#field-path").display = other

    def _chosen(self, name: str, offers: Sequence[Offer]) -> Offer | None:
        return offers[self.at(name)] if offers else None

    def wish(self) -> TrainingRequest:
        """See the base."""
        base = self._chosen("base", self._bases)
        recipe = self._chosen("recipe", self._offers.recipes)
        preset = self._chosen("preset", self._offers.presets)
        other = base is OTHER_BASE
        if other and not self.text("path"):
            raise WorkbenchError("Say where the weights are.", OTHER_BASE.help)
        try:
            chosen = parse_filter(self.text("conversations"))
        except FilterError as error:
            raise WorkbenchError(f"The filter: {one_line(error.message)}") from error
        return TrainingRequest(
            filter=chosen,
            name=self.text("name"),
            recipe="" if recipe is None else recipe.name,
            preset="" if preset is None else preset.name,
            base=self.text("path") if other or base is None else base.name,
            held_out=float(HELD_OUT[self.at("held-out")]),
            limit=whole_number("at most", self.text("most"), 1),
            settings=_settings(self.text("settings")),
        )

    def cost(self, wish: TrainingRequest) -> TrainingEstimate:
        """See the base."""
        return self._training.estimate(wish)

    def told(self, wish: TrainingRequest, cost: TrainingEstimate) -> Content:
        """See the base; the name that is proposed goes to its field."""
        self.query_one("#name", Input).placeholder = one_line(cost.name, 60)
        return words.estimate_content(cost)

    def help_of(self, field: str) -> str:
        """See the base."""
        told = HELP.get(field, "")
        offers = {
            "recipe": self._offers.recipes,
            "preset": self._offers.presets,
            "base": self._bases,
        }
        if field in offers:
            offer = self._chosen(field, offers[field])
            return "" if offer is None else offer.help
        if field == "conversations":
            return self._filter_help() or told
        if field == "settings":
            return f"{told} {self._settings_help()}"
        return told

    def _filter_help(self) -> str:
        """What may come where something is being written: names of fields, or values."""
        text = self.text("conversations")
        if not text:
            return ""
        found = completions(text, len(text), {})
        if len(found) == 1:
            return f"{found[0].text} {found[0].help}"
        return ", ".join(one.text for one in found)

    def _settings_help(self) -> str:
        """The field that is being written in words, else the names of all."""
        text = self.text("settings").split(" ")[-1].partition("=")[0]
        known = self._offers.settings
        for offer in known:
            if offer.name == text:
                return f"{offer.name}: {offer.help}"
        names = [offer.name for offer in known if offer.name.startswith(text)]
        return ", ".join(names or [offer.name for offer in known])


def _titles(offers: Sequence[Offer]) -> list[str]:
    return [offer.title or offer.name for offer in offers]


def _percent(shares: Sequence[str]) -> list[str]:
    return [f"{100 * float(share):.0f}% of the conversations" for share in shares]


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
