"""`workbench trees`: the sets of response trees of a project, the one that is shown, and growing on."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import NotFound, UsageError
from engine.base.number_format import counted
from engine.base.text import one_line
from engine.opener.open_project import OpenProject
from engine.trees.records import NodeColumns, TreeConfig
from workbench.commands.goals import conversation
from workbench.commands.narration import print_json, print_text, run_stages
from workbench.commands.options import positive, share
from workbench.exits import DONE


def tree_sets_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `tree_sets`."""
    parser.add_argument("project")
    parser.add_argument(
        "--show", metavar="HASH", help="show this set: the start of its configuration hash"
    )
    parser.add_argument(
        "--grow-on",
        metavar="ID",
        help="grow a tree of this conversation further: what its budget left unread, or the part that --below names",
    )
    parser.add_argument(
        "--step",
        type=positive,
        metavar="N",
        help="with --grow-on: the tree grown at this step (default: the last)",
    )
    parser.add_argument(
        "--below",
        metavar="TEXT",
        help="with --grow-on: only answers that begin with this text, down to a lower --alpha",
    )
    parser.add_argument(
        "--alpha", type=share, help="with --below: alpha there, lower than that of the set"
    )


def tree_sets(arguments: argparse.Namespace) -> int:
    """Prints the sets of trees, oldest first; with --show shows one of them first, with --grow-on grows a tree on.

    Raises:
        NotFound: --show names no set, or more than one; there is no such conversation, tree or node.
        UsageError: --below without --alpha or the other way round, or one of these or --step without --grow-on.
    """
    changes = arguments.show is not None or arguments.grow_on is not None
    options = (arguments.step, arguments.below, arguments.alpha)
    if arguments.grow_on is None and any(one is not None for one in options):
        raise UsageError("--step, --below and --alpha are for --grow-on.", "Add --grow-on ID.")
    with OpenProject(Path(arguments.project), read_only=not changes) as workspace:
        trees = workspace.trees
        sets = trees.configs()
        if arguments.show is not None:
            trees.show(_named(arguments.show, sets).config_hash)
        if arguments.grow_on is not None:
            _grow_on(workspace, arguments)
            sets = trees.configs()
        shown = trees.shown()
    if arguments.json:
        print_json({"shown": shown, "sets": list(map(asdict, sets))})
        return DONE
    for one in sets:
        sign = "*" if one.config_hash == shown else " "
        model = one_line(f"{one.model}{f' with {one.adapter}' if one.adapter else ''}")
        print_text(
            f"{sign} {one.config_hash[:8]}  alpha {one.alpha:g}, {one.mode}, {one.place}, {model}:"
            f" {counted(one.trees, 'tree')}"
        )
    print_text(
        "* shown; --show HASH shows another"
        if sets
        else "No trees yet. `workbench run trees PROJECT` grows them."
    )
    return DONE


def _grow_on(workspace: OpenProject, arguments: argparse.Namespace) -> None:
    below, alpha = arguments.below, arguments.alpha
    if (below is None) != (alpha is None):
        raise UsageError("--below and --alpha go together.", "Give both, or neither.")
    rows = workspace.trees.turns(conversation(workspace, arguments.grow_on))
    found = [row for row in rows if arguments.step in (None, row.step)]
    if not found:
        raise NotFound(
            "There is no such tree in the set that is shown.",
            f"Steps with a tree: {', '.join(str(row.step) for row in rows) or 'none'}.",
        )
    row = found[-1]
    node = None
    if alpha is not None:
        if alpha > row.alpha:
            raise UsageError(f"Alpha is {row.alpha:g} in this set of trees.", "Give a lower one.")
        node = _node_of(workspace.trees.open(row.conversation_id, row.step).nodes, below)
    run_stages(workspace, [workspace.trees.growing_on(row, node, alpha)])


def _node_of(nodes: NodeColumns, text: str) -> int:
    """The node at which the path first spells the whole text, perhaps with more; of several the most probable.

    Raises:
        NotFound: No answer of the tree begins like this.
    """
    wanted, spelled, found = text.encode(), [b""], []
    for node in range(1, len(nodes.parent)):
        before = spelled[nodes.parent[node]]
        spelled.append(before + nodes.spelling[node])
        if spelled[node].startswith(wanted) and not before.startswith(wanted):
            found.append(node)
    if not found:
        raise NotFound(f"No answer of the tree begins with {text!r}.", "`export trees` has them.")
    return max(found, key=lambda node: nodes.path[node])


def _named(which: str, sets: Sequence[TreeConfig]) -> TreeConfig:
    """The set whose hash begins like this."""
    found = [one for one in sets if which and one.config_hash.startswith(which)]
    if len(found) == 1:
        return found[0]
    hashes = ", ".join(one.config_hash[:8] for one in sets) or "none"
    many = "Several sets of trees have hashes that begin with" if found else "No set of trees is"
    raise NotFound(f"{many} {which!r}.", f"Sets: {hashes}.")
