"""`workbench trees`: the sets of response trees of a project, and the one that is shown."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from engine.errors import NotFound
from engine.number_format import counted
from engine.services.trees.records import ConfigRow
from engine.services.workspace import Workspace
from engine.text import one_line
from workbench.commands.narration import print_json, print_text
from workbench.exits import DONE


def tree_sets_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `tree_sets`."""
    parser.add_argument("project")
    parser.add_argument(
        "--show", metavar="HASH", help="show this set: the start of its configuration hash"
    )


def tree_sets(arguments: argparse.Namespace) -> int:
    """Prints the sets of trees, oldest first; with --show shows one of them first.

    Raises:
        NotFound: --show names no set, or more than one.
    """
    with Workspace(Path(arguments.project), read_only=arguments.show is None) as workspace:
        trees = workspace.services().trees
        sets = trees.configs()
        if arguments.show is not None:
            trees.show(_named(arguments.show, sets).config_hash)
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


def _named(which: str, sets: Sequence[ConfigRow]) -> ConfigRow:
    """The set whose hash begins like this."""
    found = [one for one in sets if which and one.config_hash.startswith(which)]
    if len(found) == 1:
        return found[0]
    hashes = ", ".join(one.config_hash[:8] for one in sets) or "none"
    many = "Several sets of trees have hashes that begin with" if found else "No set of trees is"
    raise NotFound(f"{many} {which!r}.", f"Sets: {hashes}.")
