"""Where a number comes from, and the record as imported: two dialogs over one conversation."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from engine.errors import WorkbenchError
from engine.text import one_line
from screens import figures
from screens.background import background
from screens.dialogs import hint_line
from screens.facts import Facts
from screens.keyed import Keyed
from screens.ports import Conversations
from screens.widgets.text_pane import TextPane

_CLOSE: list[BindingType] = [Binding("escape,q,w,o", "dismiss(None)", "Close")]


class ProvenanceDialog(Keyed, ModalScreen[None]):
    """Everything that made the number, and what the model was not shown."""

    BINDINGS: ClassVar[list[BindingType]] = _CLOSE

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self._facts = facts

    def compose(self) -> ComposeResult:
        """One line for each fact."""
        with VerticalScroll(classes="dialog") as box:
            box.border_title = "Where this number comes from"
            for lines in (score_lines(self._facts), kept_lines(self._facts)):
                if lines:
                    yield Static(_table(lines))
            yield Static(hint_line(("escape", "closes")))


class OriginalDialog(Keyed, ModalScreen[None]):
    """The record byte for byte, shown safe."""

    BINDINGS: ClassVar[list[BindingType]] = _CLOSE

    def __init__(self, conversations: Conversations, conversation_id: int) -> None:
        super().__init__()
        self._conversations = conversations
        self._conversation_id = conversation_id

    def compose(self) -> ComposeResult:
        """The text."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = "The record as imported"
            yield TextPane()
            yield Static(hint_line(("escape", "closes"), ("↑↓", "scroll")))

    def on_mount(self) -> None:
        """Reads the record."""
        background(
            self,
            lambda: self._conversations.original(self._conversation_id).decode(
                "utf-8", errors="replace"
            ),
            self.query_one(TextPane).show,
            self._failed,
            group="original",
        )

    def _failed(self, error: WorkbenchError) -> None:
        self.query_one(TextPane).show(f"{error.message}\n{error.hint}")


def score_lines(facts: Facts) -> list[tuple[str, str]]:
    """Names and values of what made the score."""
    score = facts.score
    if score is None:
        return [("score", "none yet: no run has reached this conversation")]
    digits = facts.digits
    rule = facts.rule
    lines = [("state", score.state.value)]
    if score.reason:
        lines.append(("reason", one_line(score.reason)))
    lines += [
        ("p end", figures.probability(score.p_end, digits)),
        (
            "normalised",
            f"{figures.probability(score.p_end_normalised, digits)}  p end / (p end + p of going on)",
        ),
        (
            "rule",
            f"complete from {figures.probability(rule.threshold)}, "
            f"borderline within {figures.probability(rule.band)} of it",
        ),
        ("mode", score.mode),
        ("model", one_line(score.model)),
        ("adapter", one_line(score.adapter) if score.adapter else "none"),
        ("noise", noise_words(score.noise)),
        ("run", f"{score.run_id}, configuration {one_line(score.config_hash, 12)}"),
    ]
    return lines


def noise_words(noise: float | None) -> str:
    """What the model's batch noise means for the figures."""
    if noise is None:
        return "not measured on this model"
    return f"± {noise:.3f} between batch sizes; digits below it are not shown"


def kept_lines(facts: Facts) -> list[tuple[str, str]]:
    """What the leak guard kept from the model."""
    return [
        (
            "kept from the model" if number == 0 else "",
            f"{one_line(leak.found, 80)}  ({one_line(leak.rule, 30)}, "
            + ("a field)" if leak.message is None else f"message {leak.message + 1})"),
        )
        for number, leak in enumerate(facts.leaks[:50])
    ]


def _table(lines: list[tuple[str, str]]) -> Content:
    width = max(len(name) for name, _ in lines) + 2
    return Content("\n").join(
        Content.assemble((f"{name:<{width}}", "$tone-muted"), value) for name, value in lines
    )
