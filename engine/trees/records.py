"""The records of response trees: options and requests for growing them, rows that are stored, and trees that are shown.

A response tree holds the probable continuations of a log at one place: each node is a token, each path from the root a
continuation. The recorded answer is what the log has at that place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from engine.base.conversation import State
from engine.base.errors import UsageError
from engine.base.request_options import (
    ADAPTER,
    MODEL,
    Option,
    choice,
    declare_option,
    share,
    whole_number,
)
from engine.conversations.filters import FILTER, Filter
from engine.model.records import ModelRequest

if TYPE_CHECKING:
    from engine.trees.tree import Kind

Growth = Literal["path", "token"]
"""The ways in which alpha bounds a tree; see `TreeOptions.alpha`."""

ALPHA_HELP = (
    "least probability: what is less probable is cut off, so a lower alpha grows larger trees"
    " and takes longer"
)
"""Help on alpha, for the command line and the dialogs."""

TreePlace = Literal["last-answer", "end", "every"]
"""Places of trees in a conversation: before its last answer, after its last step, or before every answer."""

STEP_STOP = "\n\nTURN"
"""The beginning of the header of the next step in a log, where an answer ends."""


_STEP_BITS = 20
"""Bits of a tree's id that hold the step; the conversation is above them."""


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Options of the growth of a tree; by default an answer ends where the next step of the log begins.

    Attributes:
        alpha: In (0, 1]. Mode `path` keeps nodes whose path probability reaches it. Mode `token` follows the best token
            and branches at others whose conditional probability reaches it, the procedure of Soroka et al.,
            "Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions".
        max_tokens: Longest continuation, in tokens.
        stop: Texts that end a continuation.
        temperature: Above 0; 1 leaves the distribution as the model gives it.
    """

    alpha: float = share(0.01, ALPHA_HELP)
    mode: Growth = choice(
        "path",
        "alpha bounds the path, or each branching token as in Soroka et al.",
        get_args(Growth),
    )
    max_tokens: int = whole_number(64, "longest answer", metavar="")
    stop: tuple[str, ...] = declare_option(
        (STEP_STOP,), Option("an answer ends at a line break", flag="line", constant=("\n",))
    )
    temperature: float = declare_option(
        1.0,
        Option(
            "divide the logits by this",
            metavar="T",
            convert=float,
            allowed=lambda value: 0 < value < math.inf,
            must="above 0",
        ),
    )

    def __post_init__(self) -> None:
        """Raises UsageError for an alpha, and ValueError for a limit, out of its bounds."""
        if not 0 < self.alpha <= 1:
            raise UsageError("Alpha is above 0 and at most 1.", f"Alpha is the {ALPHA_HELP}.")
        if self.max_tokens < 1 or not self.temperature > 0:
            raise ValueError(f"not a way to grow a tree: {self}")


def options_frame(options: TreeOptions) -> dict[str, Any]:
    """Returns the options as JSON values."""
    return {**asdict(options), "stop": list(options.stop)}


def options_from(frame: Mapping[str, Any]) -> TreeOptions:
    """Returns the inverse of `options_frame`."""
    return TreeOptions(**{**frame, "stop": tuple(frame["stop"])})


@dataclass(frozen=True, slots=True)
class TreeRow:
    """The measures of one response tree, as `engine.trees.measures` defines them.

    Attributes:
        conversation_id: Id of the conversation.
        step: The step of the log at whose place the tree was grown; the last step for a tree at the end of the log.
        config_hash: The key of the configuration under which the tree is stored; "" before it is stored.
        run_id: Id of the run that grew it; 0 before it is stored.
        reason: Why there is no tree, in which case all figures are None or 0; None otherwise.
        prompt_tokens: Number of tokens before the root.
        note: The part of the log that was left out; None if nothing was.
        leaves, answers, nodes: Number of leaves, of different texts among them, and of nodes.
        max_log_prob: Natural log-probability of the most probable leaf's path; None without a leaf.
        covered, pruned, unexpanded: Probability on leaves, on children left out, and on nodes not read; their sum is 1.
        entropy: Entropy of the responses in bits, as `Measures.entropy` defines it.
        fork_entropy: Entropy in bits at the first node with several children; None if the tree has one branch.
        answer_log_prob: Natural log-probability of the recorded answer's first `answer_tokens` tokens, of which
            `answer_held` are in the tree; None without a recorded answer.
        seconds: The tree's share of the time that growing took.
        alpha, mode: As in `TreeOptions`.
        place: `last-answer`, `end` or `every`.
        model: Name of the model.
        adapter: Name of its adapter; None without one.
    """

    conversation_id: int
    step: int
    config_hash: str
    run_id: int
    reason: str | None
    prompt_tokens: int = 0
    note: str | None = None
    leaves: int = 0
    answers: int = 0
    nodes: int = 0
    max_log_prob: float | None = None
    covered: float = 0.0
    pruned: float = 0.0
    unexpanded: float = 0.0
    entropy: float = 0.0
    fork_entropy: float | None = None
    answer_log_prob: float | None = None
    answer_tokens: int = 0
    answer_held: int = 0
    seconds: float = 0.0
    alpha: float = 0.0
    mode: str = ""
    place: str = ""
    model: str = ""
    adapter: str | None = None


@dataclass(frozen=True, slots=True)
class TreeItem:
    """One tree of the data set: its measures, and its conversation.

    Attributes:
        row: The row of measures.
        name: The id of the conversation in its source.
        completed: State of the conversation by the completeness scores in force.
        goal: Label of its goal in the clustering that is shown; "" without one.
    """

    row: TreeRow
    name: str
    completed: State = State.UNSCORED
    goal: str = ""

    @property
    def id(self) -> int:
        """One number for conversation and step; a conversation has fewer than a million steps."""
        return item_id(self.row.conversation_id, self.row.step)


def item_id(conversation_id: int, step: int) -> int:
    """Returns the id, in a list of trees, of the tree at a step of a conversation."""
    return conversation_id << _STEP_BITS | step


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """The nodes of a tree by columns, in the order of their ids: a parent before its children, the root (0) first.

    Attributes:
        parent: Id of the parent node; -1 for the root.
        spelling: Bytes of the token.
        path: Natural log-probability of the path from the root.
        below: Probability of all leaves at or below the node together.
        kind: Whether it has children, waits to be read, or which kind of leaf it is.
        entropy: Bits of the distribution of the next token; None where it was not read.
        recorded: Ids of the nodes on the recorded answer's path, from the first token; empty without one.
    """

    parent: Sequence[int]
    spelling: Sequence[bytes]
    path: Sequence[float]
    below: Sequence[float]
    kind: Sequence[Kind]
    entropy: Sequence[float | None]
    recorded: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class OpenTree:
    """One tree with all its nodes."""

    item: TreeItem
    nodes: NodeColumns


@dataclass(frozen=True, slots=True)
class PropertyBounds:
    """Bounds on the probability that the response has the property that `text` names."""

    text: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TreeRequest:
    """A run that grows response trees, from the command line or a dialog.

    Attributes:
        tree: How each tree grows.
        at: Where in each conversation trees are grown.
        tuned: Where no adapter is named, take the one that scores completeness, as in mode `tuned`.
        model: Name or path; None is the one that the project uses for trees.
        adapter: Name, file or run of an adapter, or None.
        filter: The conversations whose trees are grown.
        limit: Number of those conversations to take, the first ones; None takes all.
        nodes: Largest number of nodes of a tree; None is no bound.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
    """

    tree: TreeOptions = TreeOptions()
    at: TreePlace = choice("last-answer", "where trees grow", get_args(TreePlace))
    model: str | None = declare_option(None, replace(MODEL, help="name or path of a model"))
    adapter: str | Path | None = declare_option(None, ADAPTER)
    filter: Filter = declare_option(Filter(), FILTER)
    limit: int | None = whole_number(None, "only the first N conversations", metavar="")
    nodes: int | None = whole_number(None, "stop a tree after reading this many nodes", metavar="")
    context: int | None = whole_number(None, "longest log in tokens", metavar="")
    tuned: bool = False

    @property
    def model_request(self) -> ModelRequest:
        """The model that the run loads."""
        return ModelRequest("trees", self.model, self.adapter, self.tuned, self.context)


@dataclass(frozen=True, slots=True)
class TreeConfig:
    """The configuration that produced a set of trees.

    Attributes:
        config_hash: The key under which its trees are stored.
        alpha, mode: As in `TreeOptions`.
        place: Where in each conversation they were grown: a value of `TreePlace`.
        model, adapter: Names of what grew them; `adapter` is None without one.
    """

    config_hash: str
    alpha: float
    mode: str
    place: str
    model: str
    adapter: str | None = None
