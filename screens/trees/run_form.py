"""The dialog for a run that grows response trees.

A response tree has the answers that a model gives with some probability at one place of a conversation: each path from
its root is an answer. *Alpha* is the least probability that is followed.
"""

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
from engine.trees.options import ALPHA_HELP, Growth
from engine.trees.records import At, TreeRequest
from engine.trees.service import TreeService
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line
from screens.widgets.controls import Cycle, LineInput

TREE_PLACES: dict[At, FormChoice] = {
    "last-answer": FormChoice("at the last answer", "How sure was the model of it?"),
    "end": FormChoice("at the end", "What would come next?"),
    "every": FormChoice(
        "at every answer",
        "Where did the model become unsure? As many trees as there are answers.",
    ),
}
"""The places of a conversation where trees are grown; the help is the question that trees there answer."""

GROWTH_MODES: dict[Growth, FormChoice] = {
    "path": FormChoice(
        "every answer above alpha",
        "All continuations whose whole path is at least as probable as alpha.",
    ),
    "token": FormChoice(
        "token by token, as Soroka et al. do",
        "The best token is always followed; each other one with a probability above alpha is a branch.",
    ),
}
"""The rules by which a tree branches."""

ADAPTER_USES: dict[bool, FormChoice] = {
    False: FormChoice("as it is", "How sure is the model itself?"),
    True: FormChoice(
        "with the completion adapter",
        "The adapter that scores completeness; at the end of the log as in appendix C.2.2 of Soroka et al.",
    ),
}
"""Whether the model grows trees with the adapter that scores completeness."""

DEFAULT_REQUEST = TreeRequest()
"""What the form begins with."""


def parse_alpha(text: str, maximum: float = 1.0) -> float | None:
    """Returns the alpha that a text says; None if the text is not a number above 0 and at most `maximum`."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= maximum else None


class TreeRunForm(RunForm[TreeRequest, Estimate]):
    """Asks for the conversations, alpha and the place; the number of conversations is shown before anything starts."""

    PLACE = "tree-run"
    FORM_TITLE = "Grow response trees"
    FIRST_FIELD = "alpha"
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, trees: TreeService, query: ListQuery) -> None:
        super().__init__()
        self._trees, self._query = trees, query

    def compose_fields(self) -> ComposeResult:
        """Yields the lines of the form; the filter is that of the list below the dialog."""
        filter_input = LineInput(
            str(self._query.filter), placeholder="all conversations", id="which"
        )
        yield field_line("of", filter_input)
        yield field_line("alpha", LineInput(f"{DEFAULT_REQUEST.tree.alpha:g}", id="alpha"))
        place_names = [place.name for place in TREE_PLACES.values()]
        yield field_line("where", Cycle(place_names, id="where"))
        mode_names = [mode.name for mode in GROWTH_MODES.values()]
        yield field_line("branches", Cycle(mode_names, id="branches"))
        adapter_names = [use.name for use in ADAPTER_USES.values()]
        yield field_line("model", Cycle(adapter_names, id="model"))

    def request(self) -> TreeRequest:
        """Returns the request that the fields describe.

        Raises:
            WorkbenchError: The filter cannot be understood, or alpha is not in (0, 1]: what is not a valid alpha
                becomes 0, which the options of a tree refuse.
        """
        alpha = parse_alpha(self.text("alpha"))
        tree = replace(
            DEFAULT_REQUEST.tree,
            alpha=0.0 if alpha is None else alpha,
            mode=self.chosen_key("branches", GROWTH_MODES),
        )
        return replace(
            DEFAULT_REQUEST,
            tree=tree,
            at=self.chosen_key("where", TREE_PLACES),
            tuned=self.chosen_key("model", ADAPTER_USES),
            filter=parse_filter(self.text("which")),
        )

    def estimate(self, request: TreeRequest) -> Estimate:
        """Returns the estimate of the run."""
        return self._trees.estimate(request)

    def estimate_text(self, request: TreeRequest, cost: Estimate) -> Content:
        """Returns the estimate in words."""
        return estimate_content(cost)

    def field_help(self, field: str) -> str:
        """Returns what a field, or its chosen value, means; empty for a field without help."""
        if field == "where":
            return TREE_PLACES[self.chosen_key(field, TREE_PLACES)].help
        if field == "branches":
            return GROWTH_MODES[self.chosen_key(field, GROWTH_MODES)].help
        if field == "model":
            return ADAPTER_USES[self.chosen_key(field, ADAPTER_USES)].help
        if field == "which":
            return (
                "A filter as in the list, such as state:incomplete; empty takes all conversations."
            )
        return f"{ALPHA_HELP.capitalize()}." if field == "alpha" else ""


def estimate_content(estimate: Estimate) -> Content:
    """Returns how many conversations get trees, how long that takes, and with which model, in words."""
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
