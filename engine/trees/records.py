"""Response trees as they are stored, asked for and shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from engine.base.conversation import State
from engine.base.request_options import ADAPTER, MODEL, choice, declared, whole_number
from engine.conversations.filters import FILTER, Filter
from engine.model.records import ModelRequest

if TYPE_CHECKING:
    from engine.trees.options import TreeOptions
    from engine.trees.tree import Kind


At = Literal["last-answer", "end", "every"]
"""Places of trees in a conversation: before its last answer, after its last step, or before every answer."""

STEP_STOP = "\n\nTURN"
"""The beginning of the header of the next step in a log, where an answer ends."""


_STEP_BITS = 20
"""Bits of a tree's id that hold the step; the conversation is above them."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """The measures of one response tree, as `engine.trees.measures` defines them.

    Attributes:
        step: The step of the log at whose place the tree was grown; the last step for a tree at the end of the log.
        reason: Why there is no tree, in which case all figures are None or 0; None otherwise.
        prompt_tokens: Number of tokens before the root.
        note: The part of the log that was left out; None if nothing was.
        leaves, answers, nodes: How many it has; `answers` are leaves of different text.
        max_log_prob, max_log_prob_per_token: Natural log-probability of the most probable leaf's path, and the same
            divided by its tokens; None without a leaf.
        covered, pruned, unexpanded: Probability on leaves, on children left out, and on nodes not read; their sum is 1.
        entropy_low, entropy_high: Bits of the distribution over responses, by two ways to count what is not covered.
        fork_depth, fork_entropy: Number of tokens before the first fork, and its entropy in bits; None if the tree has
            one leaf.
        answer_log_prob: Natural log-probability of the recorded answer's first `answer_tokens` tokens, of which
            `answer_held` are in the tree; None without a recorded answer.
        seconds: The tree's share of the time that growing took.
        alpha, mode: As in `engine.trees.options.TreeOptions`.
        place: `last-answer`, `end` or `every`.
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
    max_log_prob_per_token: float | None = None
    covered: float = 0.0
    pruned: float = 0.0
    unexpanded: float = 0.0
    entropy_low: float = 0.0
    entropy_high: float = 0.0
    fork_depth: int | None = None
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
    """The nodes of a tree in order of their ids, a parent before its children; node 0 is the end of the prompt.

    Attributes:
        parent: Id of the parent node; -1 for the root.
        token: Token id; -1 for the root.
        spelling: Bytes of the token.
        log_p: Natural log-probability of the token after its parent's path.
        path: Natural log-probability of the path from the root.
        below: Probability of all leaves at or below the node.
        kind: Whether it has children, waits to be read, or which kind of leaf it is.
        entropy: Bits of the distribution of the next token; None where it was not read.
        recorded: Ids of the nodes on the recorded answer's path, from the first token; empty without one.
    """

    parent: Sequence[int]
    token: Sequence[int]
    spelling: Sequence[bytes]
    log_p: Sequence[float]
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


def _to_the_next_step() -> TreeOptions:
    """Returns how trees grow by default: an answer ends where the next step of the log begins."""
    # Imported here: it brings numpy, which a list of conversations does not wait for.
    from engine.trees.options import TreeOptions

    return TreeOptions(stop=(STEP_STOP,))


@dataclass(frozen=True, slots=True)
class TreeRequest:
    """A run that grows response trees, from the command line or a dialog.

    Attributes:
        tree: How each tree grows; by default an answer ends where the next step of the log begins.
        at: Where in each conversation trees are grown.
        tuned: Where no adapter is named, take the one that scores completeness, as in mode `tuned`.
        model: Name or path; None is the one that the project uses for trees.
        adapter: Name, file or run of an adapter, or None.
        filter: The conversations whose trees are grown.
        limit: Number of those conversations to take, the first ones; None takes all.
        nodes: Largest number of nodes of a tree; None is no bound.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
    """

    tree: TreeOptions = field(default_factory=_to_the_next_step)
    at: At = choice("last-answer", "where trees grow", get_args(At))
    model: str | None = declared(None, MODEL)
    adapter: str | Path | None = declared(None, ADAPTER)
    filter: Filter = declared(Filter(), FILTER)
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
        alpha, mode: As in `engine.trees.options.TreeOptions`.
        place: Where in each conversation they were grown: a value of `At`.
        model, adapter: Names of what grew them; `adapter` is None without one.
        trees: Number of trees of the set, where it was counted.
    """

    config_hash: str
    alpha: float
    mode: str
    place: str
    model: str
    adapter: str | None = None
    trees: int = 0
