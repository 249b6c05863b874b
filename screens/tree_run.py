"""What a run that grows trees would cost, before it starts."""

from __future__ import annotations

from typing import ClassVar, get_args

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.filters import ListQuery
from engine.rows import Estimate
from engine.text import one_line
from screens import figures
from screens.background import background
from screens.dialogs import Dialog, hint_line
from screens.ports import Trees
from screens.run_dialog import refusal_content
from screens.tree_rows import TreeWish, Where
from screens.widgets.choices import Choices

PLACES: dict[Where, str] = {
    "last-answer": "at the last answer: how sure was the model of it",
    "end": "at the end: what would come next",
    "every": "at every answer: where did it become unsure",
}
DEFAULT = TreeWish()


def alpha_from(text: str, most: float = 1.0) -> float | None:
    """The alpha that was typed; None when it is none, or is above `most`."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= most else None


class TreeRunDialog(Dialog[TreeWish | None]):
    """Asks for alpha and the place; the number of conversations is shown before anything starts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding("enter", "start", "Start", priority=True),
        Binding("up,down", "other_place", "Place", show=False),
    ]

    def __init__(self, trees: Trees, query: ListQuery) -> None:
        super().__init__()
        self._trees, self._query = trees, query

    def compose(self) -> ComposeResult:
        """Alpha, places, estimate, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Grow response trees"
            which = one_line(str(self._query.filter), 60) or "all conversations"
            yield Static(Content.assemble("of ", (which, "bold"), ("; alpha", "$tone-muted")))
            yield Input(f"{DEFAULT.alpha:g}", placeholder="alpha, above 0 and at most 1")
            yield Choices(*[Option(Content(words)) for words in PLACES.values()], markup=False)
            yield Static(id="estimate")
            keys = (("tab", "alpha or place"), ("enter", "starts"), ("escape", "leaves it"))
            yield Static(hint_line(*keys))

    def on_mount(self) -> None:
        """Begins at alpha, at the first place."""
        self.query_one(OptionList).highlighted = 0
        self.query_one(Input).focus()

    @property
    def _wish(self) -> TreeWish | None:
        alpha = alpha_from(self.query_one(Input).value)
        at = self.query_one(OptionList).highlighted or 0
        places: tuple[Where, ...] = get_args(Where)
        return None if alpha is None else TreeWish(alpha, DEFAULT.mode, places[at])

    def on_input_changed(self) -> None:
        """Another alpha is another run."""
        self._estimate()

    def on_option_list_option_highlighted(self) -> None:
        """So is another place."""
        self._estimate()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click chooses the place; enter is taken before the list sees it."""
        event.stop()

    def action_other_place(self) -> None:
        """From the line of alpha the arrow keys lead to the places."""
        self.query_one(OptionList).focus()

    def _estimate(self) -> None:
        wish = self._wish
        if wish is None:
            self._tell(Content.styled("Alpha is above 0 and at most 1.", "$tone-incomplete"))
            return
        self._tell(Content.styled("estimating …", "$tone-muted"))
        background(
            self,
            lambda: self._trees.estimate(wish, self._query),
            lambda estimate: self._tell(estimate_content(estimate)),
            lambda error: self._tell(refusal_content(error)),
            group="estimate",
        )

    def _tell(self, content: Content) -> None:
        self.query_one("#estimate", Static).update(content)

    def action_start(self) -> None:
        """Answers with what was asked for; not while alpha is none."""
        wish = self._wish
        if wish is not None:
            self.dismiss(wish)


def estimate_content(estimate: Estimate) -> Content:
    """An estimate in words."""
    if estimate.items == 0:
        return Content("All of these trees are there; there is nothing to do.")
    time = (
        "time unknown until the first trees are grown"
        if estimate.seconds is None
        else f"about {figures.duration(estimate.seconds)}, as long as those grown before took"
    )
    return Content.assemble(
        (figures.counted(estimate.items, "conversation"), "bold"),
        f" · {time}\nwith ",
        (one_line(estimate.model), "bold"),
    )
