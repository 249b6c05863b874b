"""`workbench tree`, `run trees`, `trees` and `unusual-trees`: the response trees of a project."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.line_files import write_file
from engine.base.number_format import bar, counted, figure, small_probability
from engine.base.text import one_line
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.trees import reports
from engine.trees.growth import Budget
from engine.trees.guarantee import (
    MIN_USELESS_WIDTH,
    TOO_WIDE,
    ProbabilityBounds,
    guarantee,
    parse_predicate,
)
from engine.trees.measures import Answer, Measures, answers, measure, subtree_mass
from engine.trees.model_requests import Grow, GrownTree, Place, places
from engine.trees.options import Transform, TreeOptions
from engine.trees.records import STEP_STOP, At, NodeColumns, TreeRequest, TreeRow
from engine.trees.reports import tree_line
from engine.trees.stages import tree_row
from engine.trees.tree import ROOT, Kind, Tree
from workbench.arguments import (
    FILTER,
    FORMULAS,
    PROJECT,
    Argument,
    ArgumentGroup,
    above_zero,
    argument,
    number,
    read_request,
    request_arguments,
    share,
    switch,
    takes,
    titled,
)
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.commands.goals import conversation
from workbench.commands.summaries import set_named
from workbench.narration import narrate, run_stages
from workbench.text_tables import table_lines

GROWTH_ARGUMENTS: tuple[Argument | ArgumentGroup, ...] = (
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
    *request_arguments(TreeOptions, ("stop", "widest")),
    titled("the sampler whose answers are explored (default: none)", *request_arguments(Transform)),
)
"""How trees grow, for `tree` and `run trees`."""


MAX_TREE_LINES = 60
"""Lines of a tree that are printed; the others are counted."""


def tree_request(arguments: argparse.Namespace) -> TreeRequest:
    """Returns the request of a command that grows trees."""
    tree = read_request(TreeOptions, arguments, transform=read_request(Transform, arguments))
    if "stop" not in arguments:
        tree = replace(tree, stop=(STEP_STOP,))
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


@takes(
    PROJECT,
    argument("--show", metavar="HASH", help="show this set: the start of its configuration hash"),
    argument(
        "--grow-on",
        metavar="ID",
        help="grow a tree of this conversation further: what its budget left unread, or the part that --below names",
    ),
    number("--step", "with --grow-on: the tree grown at this step (default: the last)"),
    argument(
        "--below",
        metavar="TEXT",
        help="with --grow-on: only answers that begin with this text, down to a lower --alpha",
    ),
    argument("--alpha", type=share, help="with --below: alpha there, lower than that of the set"),
)
def tree_sets(arguments: argparse.Namespace) -> CommandResult:
    """Lists the sets of trees, oldest first; with --show shows one of them first, with --grow-on grows a tree on.

    Raises:
        NotFound: --show names no set, or more than one; there is no such conversation, tree or node.
        UsageError: --below without --alpha or the other way round, or one of these or --step without --grow-on.
    """
    changes = arguments.show is not None or arguments.grow_on is not None
    options = (arguments.step, arguments.below, arguments.alpha)
    if arguments.grow_on is None and any(option is not None for option in options):
        raise UsageError("--step, --below and --alpha are for --grow-on.", "Add --grow-on ID.")
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        trees = workspace.trees
        if arguments.show is not None:
            named = set_named(
                arguments.show, trees.configs(), "trees", lambda s: s.config_hash[:8], "Sets"
            )
            trees.show(named.config_hash)
        if arguments.grow_on is not None:
            _grow_on(workspace, arguments)
        sets, shown = trees.configs(), trees.shown()
    lines = []
    for tree_set in sets:
        sign = "*" if tree_set.config_hash == shown else " "
        model = one_line(
            f"{tree_set.model}{f' with {tree_set.adapter}' if tree_set.adapter else ''}"
        )
        lines.append(
            f"{sign} {tree_set.config_hash[:8]}  alpha {tree_set.alpha:g}, {tree_set.mode}, {tree_set.place}, {model}:"
            f" {counted(tree_set.trees, 'tree')}"
        )
    if sets:
        lines.append("* shown; --show HASH shows another")
    else:
        lines.append("No trees yet. `workbench run trees PROJECT` grows them.")
    return CommandResult(lines, {"shown": shown, "sets": list(map(asdict, sets))})


def _grow_on(workspace: OpenProject, arguments: argparse.Namespace) -> None:
    """Grows a tree of the set that is shown further: all of it, or below the text of --below.

    Raises:
        NotFound: There is no such conversation, tree or node.
        UsageError: --below without --alpha or the other way round, or alpha is not lower.
    """
    below, alpha = arguments.below, arguments.alpha
    if (below is None) != (alpha is None):
        raise UsageError("--below and --alpha go together.", "Give both, or neither.")
    rows = workspace.trees.turns(conversation(workspace, arguments.grow_on))
    at_step = [row for row in rows if arguments.step in (None, row.step)]
    if not at_step:
        raise NotFound(
            "There is no such tree in the set that is shown.",
            f"Steps with a tree: {', '.join(str(row.step) for row in rows) or 'none'}.",
        )
    row = at_step[-1]
    node = None
    if alpha is not None:
        if alpha > row.alpha:
            raise UsageError(f"Alpha is {row.alpha:g} in this set of trees.", "Give a lower one.")
        node = _node_of(workspace.trees.open(row.conversation_id, row.step).nodes, below)
    run_stages(workspace, [workspace.trees.growing_on(row, node, alpha)])


def _node_of(nodes: NodeColumns, text: str) -> int:
    """Returns the node at which the path first spells the whole text, perhaps with more; of several the most probable.

    Raises:
        NotFound: No answer of the tree begins like this.
    """
    start, spelled, candidates = text.encode(), [b""], []
    for node in range(1, len(nodes.parent)):
        before = spelled[nodes.parent[node]]
        spelled.append(before + nodes.spelling[node])
        if spelled[node].startswith(start) and not before.startswith(start):
            candidates.append(node)
    if not candidates:
        raise NotFound(f"No answer of the tree begins with {text!r}.", "`export trees` has them.")
    return max(candidates, key=lambda node: nodes.path[node])


# Trees that stand out


@takes(
    PROJECT,
    FILTER,
    argument(
        "-o", "--output", metavar="FILE", help="also write the rows, as .csv or as lines of JSON"
    ),
    FORMULAS,
)
def unusual_trees(arguments: argparse.Namespace) -> CommandResult:
    """Lists the trees with the most branches whose best response is improbable, with state and goal, as in appendix
    C.2.2 of Soroka et al.

    Raises:
        NotYet: There is no tree.
        ProjectError: The file cannot be written.
    """
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        items = workspace.trees.items(ListQuery(arguments.filter))
    grown = [item for item in items if item.row.reason is None]
    if not grown:
        raise NotYet("There is no tree.", "`workbench run trees PROJECT --paper` grows them.")
    rows = reports.unusual(items)
    if arguments.output:
        path = Path(arguments.output)
        kind = "csv" if path.suffix == ".csv" else "jsonl"
        write_file(reports.lines(rows), path, kind, formulas=arguments.formulas)
        narrate(f"Wrote {len(rows):,} lines to {path}.")
    table = reports.table(rows, len(grown))
    lines = [table.notes[0], *(table_lines(table) if rows else [])]
    return CommandResult(lines, {"of": len(grown), "trees": reports.lines(rows)})


@takes(
    PROJECT,
    argument("conversation", help="its name, as `workbench list` shows it"),
    *GROWTH_ARGUMENTS,
    number("--step", "before the assistant's step N instead"),
    argument("--seconds", type=above_zero, help="stop after this many seconds"),
    argument("--property", metavar="P", help="bound the probability of `contains yes`, ..."),
    switch("--text", "print complete answers instead"),
)
def tree(arguments: argparse.Namespace) -> CommandResult:
    """Grows the tree of one conversation, or one at each of its assistant steps."""
    request = tree_request(arguments)
    predicate = parse_predicate(arguments.property) if arguments.property else None
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        chosen_places = _places(workspace, arguments, request.at)
        chosen = workspace.models_in_use.resolve(request.model_request)
        steps = ", ".join(str(place.step) for place in chosen_places)
        narrate(f"Growing a tree before step {steps} with {chosen.label}.")
        model = workspace.process.client_for(chosen)
        model.load(chosen.path, chosen.options, chosen.adapter, chosen.weights_copy)
        max_nodes = None if request.nodes is None else request.nodes * len(chosen_places)
        grown, work = model.ask(
            Grow(chosen_places, request.tree, Budget(max_nodes, arguments.seconds))
        )
    nodes = sum(len(grown_tree.tree.nodes) for grown_tree in grown)
    measured_trees = []
    for place, grown_tree in zip(chosen_places, grown, strict=True):
        # The trees grow together: each gets the part of the seconds that it has of the nodes.
        row = tree_row(0, place.step, grown_tree, work.seconds * len(grown_tree.tree.nodes) / nodes)
        measured_trees.append(
            _GrownTree(
                row, grown_tree, guarantee(grown_tree.tree, predicate) if predicate else None
            )
        )
    documents = [_json(arguments, tree) for tree in measured_trees]
    lines: list[str] = []
    hints: list[str] = []
    for tree in measured_trees:
        if len(measured_trees) > 1:
            lines.append(f"step {tree.row.step}")
        lines += _tree_lines(arguments, tree)
        if tree.grown.note:
            hints.append(f"The log did not fit: {tree.grown.note}.")
    if len(measured_trees) > 1:
        lines += turn_lines([tree.row for tree in measured_trees])
    if not work.finished:
        hints.append("Not everything is grown to its end: the budget was used up.")
    return CommandResult(lines, documents if request.at == "every" else documents[0], hints=hints)


@dataclass(frozen=True, slots=True)
class _GrownTree:
    """A grown tree with its measures, and the bounds on the probability of --property."""

    row: TreeRow
    grown: GrownTree
    bounds: ProbabilityBounds | None


def _json(arguments: argparse.Namespace, measured: _GrownTree) -> dict[str, Any]:
    """Returns a tree as JSON, with the bounds on --property where it is given."""
    line = tree_line(arguments.conversation, measured.row, measured.grown.tree)
    if measured.bounds:
        line["property"] = {"text": arguments.property, **asdict(measured.bounds)}
    return line


def _tree_lines(arguments: argparse.Namespace, measured: _GrownTree) -> list[str]:
    """Returns a tree as lines: as answers or as branches, then its figures and bounds."""
    grown, row = measured.grown, measured.row
    lines = (
        [_answer_line(answer) for answer in answers(grown.tree)]
        if arguments.text
        else tree_lines(grown.tree)
    )
    lines.append(summary(measure(grown.tree), whole_answers(grown.tree)))
    if row.answer_log_prob is not None:
        lines.append(
            f"recorded answer: log-probability {row.answer_log_prob:.2f} over "
            f"{row.answer_tokens} tokens; its first {row.answer_held} are in the tree"
        )
    if measured.bounds:
        low, high = measured.bounds.low, measured.bounds.high
        lines.append(f"P({arguments.property}) in [{low:.3f}, {high:.3f}]")
        if high - low >= MIN_USELESS_WIDTH:
            lines.append(f"  {TOO_WIDE}")
    return lines


def _places(workspace: OpenProject, arguments: argparse.Namespace, at: At) -> list[Place]:
    """Returns the places of one conversation where a tree grows.

    Raises:
        NotFound: There is no such conversation.
        UsageError: The step is no answer of the assistant.
    """
    key = conversation(workspace, arguments.conversation)
    log = workspace.conversations.log(key)
    if arguments.step is None:
        return places(log, at)
    every = places(log, "every")
    at_step = [place for place in every if place.step == arguments.step]
    if not at_step:
        steps = ", ".join(str(place.step) for place in every)
        raise UsageError(
            f"Step {arguments.step} is no answer of the assistant.",
            f"The assistant's steps are {steps}.",
        )
    return at_step


def _answer_line(answer: Answer) -> str:
    """Returns an answer with its probability and how it ends."""
    return f"{answer.probability:7.4f}  {answer.end.name.lower():5}  {one_line(answer.text)}"


def turn_lines(rows: Sequence[TreeRow]) -> list[str]:
    """Returns the uncertainty of the model along a conversation: a line for each step."""
    worst = max((-(row.max_log_prob or 0.0) for row in rows), default=0.0)
    return [
        f"step {row.step:3}  {bar(-(row.max_log_prob or 0.0) / worst if worst else 0.0)}"
        f"  best {row.max_log_prob or 0.0:6.2f}  {row.leaves:4} leaves"
        f"  entropy {row.entropy_low:.1f}-{row.entropy_high:.1f} bits"
        for row in rows
    ]


def whole_answers(grown: Tree) -> int:
    """Returns the number of leaves that are whole answers; the others only begin one."""
    return sum(node.kind is Kind.ENDED for node in grown.nodes)


def summary(measures: Measures, whole: int) -> str:
    """Returns the figures of a tree in one line, given how many of its leaves are whole answers."""
    best = "–" if measures.max_log_prob is None else f"{measures.max_log_prob:.2f}"
    parts = [
        f"{measures.leaves} {'leaf' if measures.leaves == 1 else 'leaves'}, {whole} of them whole answers",
        counted(measures.answers, "distinct text"),
        f"best {best}",
        f"covered {figure(measures.covered)}, pruned {figure(measures.pruned)},"
        f" unexpanded {figure(measures.unexpanded)}",
        f"entropy {measures.entropy_low:.1f}-{measures.entropy_high:.1f} bits",
    ]
    if measures.fork_entropy is not None:
        parts.append(
            f"first fork after {measures.fork_depth} tokens ({measures.fork_entropy:.1f} bits)"
        )
    return " · ".join(parts)


def tree_lines(grown: Tree) -> list[str]:
    """Returns the tree as indented lines: single continuations share a line, branches are ordered by descending
    mass.
    """
    masses = subtree_mass(grown)
    lines: list[str] = []
    left_out = 0

    def draw(children: Sequence[int], depth: int) -> None:
        """Appends the lines of these nodes and of all below them."""
        nonlocal left_out
        for child in sorted(children, key=lambda at: (-grown.nodes[at].path_log_p, at)):
            end = child
            while len(grown.nodes[end].children) == 1:
                end = grown.nodes[end].children[0]
            if len(lines) >= MAX_TREE_LINES:
                left_out += 1
                continue
            before = grown.text(grown.nodes[child].parent)
            text = grown.text(end)[len(before) :].decode("utf-8", "replace")
            node = grown.nodes[child]
            kind = "" if grown.nodes[end].children else f"  ({grown.nodes[end].kind.name.lower()})"
            line = one_line(text, 60) or "·"
            share, below = small_probability(node.mass), small_probability(masses[child])
            lines.append(f"{bar(node.mass)} {share:>5} {below:>5} {'  ' * depth}{line}{kind}")
            draw(grown.nodes[end].children, depth + 1)

    draw(grown.nodes[ROOT].children, 0)
    if left_out:
        lines.append(f"… {left_out} more branches")
    return lines
