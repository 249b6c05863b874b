"""`workbench tree`, `run trees` and `unusual-trees`: the response trees of a project."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.errors import NotYet, UsageError
from engine.base.number_format import counted, figure, log_probability
from engine.base.text import one_line
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.trees.growth import Budget
from engine.trees.guarantee import (
    MIN_USELESS_WIDTH,
    TOO_WIDE,
    ProbabilityBounds,
    guarantee,
    parse_predicate,
)
from engine.trees.measures import (
    Measures,
    answers,
    measure,
    tree_line,
    unusual,
    unusual_lines,
    unusual_table,
)
from engine.trees.model_requests import Grow, GrownTree, Place, find_places
from engine.trees.records import TreeOptions, TreePlace, TreeRequest, TreeRow
from engine.trees.stages import tree_row
from engine.trees.tree import Kind, Tree
from workbench.arguments import (
    FILTER,
    PROJECT,
    above_zero,
    argument,
    number,
    read_request,
    request_arguments,
    switch,
    takes,
)
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.commands.goals import conversation
from workbench.narration import narrate, run_stages
from workbench.text_tables import table_lines

GROWTH_ARGUMENTS = (
    *request_arguments(TreeRequest, ("model", "adapter")),
    *request_arguments(TreeOptions, ("alpha", "mode")),
    *request_arguments(TreeRequest, ("at",)),
    switch(
        "--paper",
        "as in appendix C.2.2 of Soroka et al.: --mode token --at end, with the adapter that scores completeness"
        " unless --adapter names one",
    ),
    *request_arguments(TreeOptions, ("max_tokens",)),
    *request_arguments(TreeRequest, ("nodes",)),
    *request_arguments(TreeOptions, ("stop", "temperature")),
)
"""How trees grow, for `tree` and `run trees`."""


def tree_request(arguments: argparse.Namespace) -> TreeRequest:
    """Returns the request of a command that grows trees."""
    tree = read_request(TreeOptions, arguments)
    request = read_request(TreeRequest, arguments, tree=tree)
    if arguments.paper:
        request = replace(request, tree=replace(tree, mode="token"), at="end", tuned=True)
    return request


@takes(PROJECT, *GROWTH_ARGUMENTS, *request_arguments(TreeRequest, ("filter", "limit", "context")))
def run_trees(arguments: argparse.Namespace) -> CommandResult:
    """Grows the trees that the project does not have yet."""
    request = tree_request(arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        run_stages(workspace, workspace.trees.stages(request))
        rows = [item.row for item in workspace.trees.items(ListQuery())]
    grown = [row for row in rows if row.reason is None]
    missing = len(rows) - len(grown)
    median = statistics.median(row.leaves for row in grown) if grown else None
    note = f"Without a tree: {counted(missing, 'conversation')}; `export trees` says why."
    return CommandResult(
        [f"{counted(len(grown), 'tree')}, median of {median} leaves"],
        {
            "trees": len(grown),
            "without": missing,
            "median_leaves": median,
            "nodes": sum(row.nodes for row in grown),
        },
        EXIT_INCOMPLETE if missing else EXIT_DONE,
        notes=[note] if missing else [],
    )


# Trees that stand out


@takes(
    PROJECT,
    FILTER,
)
def unusual_trees(arguments: argparse.Namespace) -> CommandResult:
    """Lists the trees with the most branches whose best response is improbable, with state and goal, as in appendix
    C.2.2 of Soroka et al.

    Raises:
        NotYet: There is no tree.
    """
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        items = workspace.trees.items(ListQuery(arguments.filter))
    grown = [item for item in items if item.row.reason is None]
    if not grown:
        raise NotYet("There is no tree.", "`workbench run trees PROJECT --paper` grows them.")
    rows = unusual(items)
    table = unusual_table(rows, len(grown))
    lines = [table.notes[0], *(table_lines(table) if rows else [])]
    return CommandResult(lines, {"of": len(grown), "trees": unusual_lines(rows)})


@takes(
    PROJECT,
    argument("conversation", help="its name, as `workbench list` shows it"),
    *GROWTH_ARGUMENTS,
    number("--step", "before the assistant's step N instead"),
    argument("--seconds", type=above_zero, help="stop after this many seconds"),
    argument("--property", metavar="P", help="bound the probability of `contains yes`, ..."),
)
def tree(arguments: argparse.Namespace) -> CommandResult:
    """Grows the tree of one conversation, or one at each of its assistant steps, and prints its answers."""
    request = tree_request(arguments)
    predicate = parse_predicate(arguments.property) if arguments.property else None
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        chosen_places = _places(workspace, arguments, request.at)
        chosen = workspace.trees.model(request)
        steps = ", ".join(str(place.step) for place in chosen_places)
        narrate(f"Growing a tree before step {steps} with {chosen.label}.")
        model = workspace.process.client_for(chosen)
        model.load(chosen.path, chosen.options, chosen.adapter, chosen.weights_copy)
        max_nodes = None if request.nodes is None else request.nodes * len(chosen_places)
        budget = Budget(max_nodes, arguments.seconds)
        grown = model.ask(Grow(chosen_places, request.tree, budget))
    grown_trees = [
        _GrownTree(
            tree_row(0, place.step, grown_tree),
            grown_tree,
            guarantee(grown_tree.tree, predicate) if predicate else None,
        )
        for place, grown_tree in zip(chosen_places, grown, strict=True)
    ]
    documents = [_tree_json(arguments, measured) for measured in grown_trees]
    lines: list[str] = []
    hints: list[str] = []
    for measured in grown_trees:
        if len(grown_trees) > 1:
            lines.append(f"step {measured.row.step}")
        lines += _tree_lines(arguments, measured)
        if measured.grown.note:
            hints.append(f"The log did not fit: {measured.grown.note}.")
    if any(measured.row.unexpanded for measured in grown_trees):
        hints.append("Not everything is grown to its end: the budget was used up.")
    return CommandResult(lines, documents if request.at == "every" else documents[0], hints=hints)


@dataclass(frozen=True, slots=True)
class _GrownTree:
    """A grown tree with its measures, and the bounds on the probability of --property."""

    row: TreeRow
    grown: GrownTree
    bounds: ProbabilityBounds | None


def _tree_json(arguments: argparse.Namespace, measured: _GrownTree) -> dict[str, Any]:
    """Returns a tree as JSON, with the bounds on --property where it is given."""
    line = tree_line(arguments.conversation, measured.row, measured.grown.tree)
    if measured.bounds:
        line["property"] = {"text": arguments.property, **asdict(measured.bounds)}
    return line


def _tree_lines(arguments: argparse.Namespace, measured: _GrownTree) -> list[str]:
    """Returns the answers of a tree with their probabilities and how they end, then its figures and bounds."""
    grown, row = measured.grown, measured.row
    lines = [
        f"{answer.probability:7.4f}  {answer.end.name.lower():5}  {one_line(answer.text)}"
        for answer in answers(grown.tree)
    ]
    lines.append(summary(measure(grown.tree), whole_answers(grown.tree)))
    if row.answer_log_prob is not None:
        lines.append(
            f"recorded answer: log-probability {log_probability(row.answer_log_prob)} over "
            f"{row.answer_tokens} tokens; its first {row.answer_held} are in the tree"
        )
    if measured.bounds:
        low, high = measured.bounds.low, measured.bounds.high
        lines.append(f"P({arguments.property}) in [{low:.3f}, {high:.3f}]")
        if high - low >= MIN_USELESS_WIDTH:
            lines.append(f"  {TOO_WIDE}")
    return lines


def _places(workspace: OpenProject, arguments: argparse.Namespace, at: TreePlace) -> list[Place]:
    """Returns the places of one conversation where a tree grows.

    Raises:
        NotFound: There is no such conversation.
        UsageError: The step is no answer of the assistant.
    """
    key = conversation(workspace, arguments.conversation)
    log = workspace.conversations.log(key)
    if arguments.step is None:
        return find_places(log, at)
    every = find_places(log, "every")
    at_step = [place for place in every if place.step == arguments.step]
    if not at_step:
        steps = ", ".join(str(place.step) for place in every)
        raise UsageError(
            f"Step {arguments.step} is no answer of the assistant.",
            f"The assistant's steps are {steps}.",
        )
    return at_step


def whole_answers(grown: Tree) -> int:
    """Returns the number of leaves that are whole answers; the others only begin one."""
    return sum(node.kind is Kind.ENDED for node in grown.nodes)


def summary(measures: Measures, whole: int) -> str:
    """Returns the figures of a tree in one line, given how many of its leaves are whole answers."""
    parts = [
        f"{measures.leaves} {'leaf' if measures.leaves == 1 else 'leaves'}, {whole} of them whole answers",
        counted(measures.answers, "distinct text"),
        f"best {log_probability(measures.max_log_prob)}",
        f"covered {figure(measures.covered)}, pruned {figure(measures.pruned)},"
        f" unexpanded {figure(measures.unexpanded)}",
        f"entropy {measures.entropy:.1f} bits",
    ]
    return " · ".join(parts)
