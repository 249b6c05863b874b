"""The dialog that asks how to grow a second tree for a comparison, and shows the cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static
from textual.widgets.option_list import Option

from engine.base.text import display_safe, one_line
from engine.project.records import Estimate
from engine.trees.records import (
    TreeItem,
    TreeRequest,
)
from engine.trees.service import TreeService
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.run_form import refusal_content
from screens.trees.run_form import alpha_from, estimate_content
from screens.widgets.background import background
from screens.widgets.controls import Choices, LineInput


class ComparisonDialog(Dialog[TreeRequest | None]):
    """Asks for model, adapter and alpha, and shows the cost before anything starts."""

    PLACE = "beside"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("enter", "start", "Start", priority=True),
    ]

    def __init__(self, trees: TreeService, item: TreeItem) -> None:
        super().__init__()
        self._trees, self._item = trees, item
        self._models: Sequence[str] = ()
        self._known: TreeRequest | None = None

    def compose(self) -> ComposeResult:
        """Models, adapter, alpha, estimate, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Grow a tree to compare with"
            which = one_line(self._item.name, 50)
            yield Static(
                Content.assemble(
                    "of ", (which, "bold"), ("; model, adapter and alpha", "$tone-muted")
                )
            )
            yield Choices(markup=False)
            yield LineInput(placeholder="adapter: a GGUF file; empty for none", id="adapter")
            yield LineInput(f"{self._item.row.alpha:g}", placeholder="alpha", id="alpha")
            yield Static(id="estimate")
            keys = (("tab", "the next line"), ("enter", "starts"), ("escape", "cancels"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Asks which models there are."""
        background(
            self,
            self._trees.models,
            self._show_models,
            lambda error: self._show_estimate(refusal_content(error)),
            group="models",
        )

    def _show_models(self, models: Sequence[str]) -> None:
        self._models = models
        choices = self.query_one(Choices)
        choices.add_options([Option(Content(display_safe(name))) for name in models])
        choices.highlighted = 0
        choices.focus()

    def on_input_changed(self) -> None:
        """Estimates again: another adapter or alpha is another tree."""
        self._estimate()

    def on_option_list_option_highlighted(self) -> None:
        """Estimates again: another model is another tree."""
        self._estimate()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        """A click chooses the model; enter is taken before the list sees it."""
        event.stop()

    def _estimate(self) -> None:
        self._known = None
        alpha = alpha_from(self.query_one("#alpha", Input).value)
        if alpha is None or not self._models:
            self._show_estimate(
                Content.styled("Alpha is above 0 and at most 1.", "$tone-incomplete")
            )
            return
        model = self._models[self.query_one(Choices).highlighted or 0]
        adapter = self.query_one("#adapter", Input).value.strip() or None
        self._show_estimate(Content.styled("estimating …", "$tone-muted"))

        def estimated() -> tuple[TreeRequest, Estimate]:
            request = self._trees.request_like(self._item, alpha, model, adapter)
            return request, self._trees.estimate(request)

        def arrived(found: tuple[TreeRequest, Estimate]) -> None:
            request, estimate = found
            self._known = request if estimate.items else None
            self._show_estimate(estimate_content(estimate))

        background(
            self,
            estimated,
            arrived,
            lambda error: self._show_estimate(refusal_content(error)),
            group="estimate",
        )

    def _show_estimate(self, content: Content) -> None:
        self.query_one("#estimate", Static).update(content)

    def action_start(self) -> None:
        """Returns the request, once it is known that it can be grown."""
        if self._known is not None:
            self.dismiss(self._known)
