"""`workbench run trees`, `trees` and `unusual-trees`: the response trees of a project."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, replace
from pathlib import Path

from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.line_files import write_file
from engine.base.number_format import counted
from engine.base.text import one_line
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.trees import reports
from engine.trees.options import Transform, TreeOptions
from engine.trees.records import STEP_STOP, NodeColumns, TreeRequest
from workbench.arguments import (
    FILTER,
    FORMULAS,
    PROJECT,
    Argument,
    ArgumentGroup,
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
