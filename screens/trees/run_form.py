"""The dialog for a run that grows response trees.

A response tree has the answers that a model gives with some probability at one place of a conversation: each path from
its root is an answer. *Alpha* is the least probability that is followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from engine.base.request_options import Option, options_of
from engine.conversations.filters import ListQuery
from engine.project.records import Estimate
from engine.trees.options import Growth, TreeOptions
from engine.trees.records import At, TreeRequest
from engine.trees.service import TreeService
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line
from screens.widgets.controls import LineInput

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


class TreeRunForm(RunForm[TreeRequest, Estimate]):
    """Asks for the conversations, alpha and the place; the number of conversations is shown before anything starts."""

    PLACE = "tree-run"
    FORM_TITLE = "Grow response trees"
    FIRST_FIELD = "alpha"
    OPTIONS: ClassVar[Mapping[str, Option]] = options_of(TreeRequest) | options_of(TreeOptions)
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, trees: TreeService, query: ListQuery) -> None:
        super().__init__()
        self._trees, self._query = trees, query
        self.choices = {"at": TREE_PLACES, "mode": GROWTH_MODES, "tuned": ADAPTER_USES}

    def compose_fields(self) -> ComposeResult:
        """Yields the lines of the form; the filter is that of the list below the dialog."""
        filter_input = LineInput(
            str(self._query.filter), placeholder="all conversations", id="filter"
        )
        yield field_line("of", filter_input)
        yield field_line("alpha", LineInput(f"{DEFAULT_REQUEST.tree.alpha:g}", id="alpha"))
        yield field_line("where", self.choice_field("at"))
        yield field_line("branches", self.choice_field("mode"))
        yield field_line("model", self.choice_field("tuned"))

    def request(self) -> TreeRequest:
        """Returns the request that the fields describe.

        Raises:
            UsageError: The filter cannot be understood, or alpha is not above 0 and at most 1.
        """
        growth = self.typed_values("alpha")
        return replace(
            DEFAULT_REQUEST,
            tree=replace(DEFAULT_REQUEST.tree, mode=self.chosen("mode"), **growth),
            at=self.chosen("at"),
            tuned=self.chosen("tuned"),
            **self.typed_values("filter"),
        )

    def estimate(self, request: TreeRequest) -> Estimate:
        """Returns the estimate of the run."""
        return self._trees.estimate(request)
