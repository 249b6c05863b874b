"""The dialog for a run that grows response trees.

A response tree has the answers that a model gives with some probability at one place of a conversation: each path from
its root is an answer. *Alpha* is the least probability that is followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from engine.base.request_options import Option, options_of
from engine.conversations.filters import ListQuery
from engine.project.records import Estimate
from engine.trees.options import Growth, Transform, TreeOptions
from engine.trees.records import At, TreeRequest
from engine.trees.service import TreeService
from screens.shell.run_form import FORM_KEYS, FormChoice, RunForm, field_line

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

ANSWER_ENDS: dict[tuple[str, ...], FormChoice] = {
    TreeRequest().tree.stop: FormChoice("where the next step of the log begins"),
    ("\n",): FormChoice("at a line break"),
}
"""The texts that end an answer."""

REQUESTS = (TreeOptions, TreeRequest, Transform)
"""The dataclasses whose options are the fields of the form."""


class TreeRunForm(RunForm[TreeRequest, Estimate]):
    """Asks for the conversations, the place and how trees grow; their number is shown before anything starts."""

    PLACE = "tree-run"
    FORM_TITLE = "Grow response trees"
    FIRST_FIELD = "alpha"
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        name: option for request in REQUESTS for name, option in options_of(request).items()
    }
    BINDINGS: ClassVar[list[BindingType]] = FORM_KEYS

    def __init__(self, trees: TreeService, query: ListQuery) -> None:
        super().__init__()
        self._trees, self._query = trees, query
        self.choices = {
            "at": TREE_PLACES,
            "mode": GROWTH_MODES,
            "tuned": ADAPTER_USES,
            "stop": ANSWER_ENDS,
        }

    def compose_fields(self) -> ComposeResult:
        """Yields a line for each option; the filter is that of the list below the form."""
        yield field_line("weights", self.choice_field("tuned"))
        initial = {"filter": str(self._query.filter)}
        first = ("alpha", "at", "mode", "filter")
        yield from self.option_lines(*REQUESTS, first=first, initial=initial)

    def request(self) -> TreeRequest:
        """Returns the request that the fields describe.

        Raises:
            UsageError: A field cannot be understood, or a value is out of its bounds.
        """
        sampler = Transform(**self.values_of(Transform))
        return TreeRequest(
            tree=TreeOptions(**self.values_of(TreeOptions), transform=sampler),
            tuned=self.chosen("tuned"),
            **self.values_of(TreeRequest),
        )

    def estimate(self, request: TreeRequest) -> Estimate:
        """Returns the estimate of the run."""
        return self._trees.estimate(request)
