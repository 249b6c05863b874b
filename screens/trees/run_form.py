"""The dialog for a run that grows trees."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from engine.base import number_format
from engine.base.text import one_line
from engine.conversations.filters import ListQuery, parse_filter
from engine.project.records import Estimate
from engine.trees.places import At
from engine.trees.records import TreeRequest
from engine.trees.service import TreeService
from engine.trees.tree import ALPHA_HELP, Growth
from screens.shell.run_form import KEYS, RunForm, field_line
from screens.widgets.controls import Cycle, LineInput

PLACES: dict[At, tuple[str, str]] = {
    "last-answer": ("at the last answer", "How sure was the model of it?"),
    "end": ("at the end", "What would come next?"),
    "every": (
        "at every answer",
        "Where did the model become unsure? As many trees as there are answers.",
    ),
}
"""The places where trees are grown, in words, and the question that trees there answer."""

GROWTHS: dict[Growth, tuple[str, str]] = {
    "path": (
        "every answer above alpha",
        "All continuations whose whole path is at least as probable as alpha.",
    ),
    "token": (
        "token by token, as Soroka et al. do",
        "The best token is always followed; each other one with a probability above alpha is a branch.",
    ),
}
"""How a tree branches, in words, and what that means."""

ADAPTERS: dict[bool, tuple[str, str]] = {
    False: ("as it is", "How sure is the model itself?"),
    True: (
        "with the completion adapter",
        "The adapter that scores completeness; at the end of the log as in appendix C.2.2 of Soroka et al.",
    ),
}
"""Whether the model grows trees with the adapter that scores completeness, in words, and what that means."""

DEFAULT = TreeRequest()


def alpha_from(text: str, most: float = 1.0) -> float | None:
    """The alpha of a text; None when the text is no number above 0 and at most `most`."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= most else None


class TreeRunForm(RunForm[TreeRequest, Estimate]):
    """Asks for the conversations, alpha and the place; the number of conversations is shown before anything starts."""

    PLACE = "tree-run"
    ASKS = "Grow response trees"
    FIRST = "alpha"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, trees: TreeService, query: ListQuery) -> None:
        super().__init__()
        self._trees, self._query = trees, query

    def fields(self) -> ComposeResult:
        """The conversations, alpha and the place."""
        which = LineInput(str(self._query.filter), placeholder="all conversations", id="which")
        yield field_line("of", which)
        yield field_line("alpha", LineInput(f"{DEFAULT.tree.alpha:g}", id="alpha"))
        yield field_line("where", Cycle([name for name, _ in PLACES.values()], id="where"))
        yield field_line("branches", Cycle([name for name, _ in GROWTHS.values()], id="branches"))
        yield field_line("model", Cycle([name for name, _ in ADAPTERS.values()], id="model"))

    def request(self) -> TreeRequest:
        """The request that the fields make; raises WorkbenchError for a wrong alpha or filter."""
        alpha = alpha_from(self.text("alpha"))
        mode = [*GROWTHS][self.at("branches")]
        tree = replace(DEFAULT.tree, alpha=0.0 if alpha is None else alpha, mode=mode)
        at, tuned = [*PLACES][self.at("where")], [*ADAPTERS][self.at("model")]
        return replace(
            DEFAULT, tree=tree, at=at, tuned=tuned, filter=parse_filter(self.text("which"))
        )

    def cost(self, request: TreeRequest) -> Estimate:
        """The estimate of the run."""
        return self._trees.estimate(request)

    def cost_text(self, request: TreeRequest, cost: Estimate) -> Content:
        """The estimate in words."""
        return estimate_content(cost)

    def help_of(self, field: str) -> str:
        """What a field means."""
        if field == "where":
            return [*PLACES.values()][self.at("where")][1]
        if field == "branches":
            return [*GROWTHS.values()][self.at("branches")][1]
        if field == "model":
            return [*ADAPTERS.values()][self.at("model")][1]
        if field == "which":
            return (
                "A filter as in the list, such as state:incomplete; empty takes all conversations."
            )
        return f"{ALPHA_HELP.capitalize()}." if field == "alpha" else ""


def estimate_content(estimate: Estimate) -> Content:
    """An estimate in words."""
    if estimate.items == 0:
        return Content(
            "Nothing to grow: these trees are there already, or no conversation matches."
        )
    time = (
        "time unknown until the first trees are grown"
        if estimate.seconds is None
        else f"about {number_format.duration(estimate.seconds)}, as long as those grown before took"
    )
    return Content.assemble(
        (number_format.counted(estimate.items, "conversation"), "bold"),
        f" · {time}\nwith ",
        (one_line(estimate.model), "bold"),
    )
