"""What keys do to a project a command does too: the table of docs/command-line.md has every key that writes.

That its commands are there is tested with those of all pages.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import defaultdict
from pathlib import Path

from screens.shell.keymap import Place, key_table
from screens.widgets.keyed import Keyed, place_of
from workbench.app import WorkbenchApp

ROOT = Path(__file__).resolve().parents[2]
WRITING = {"may_write", "_may_write", "write_in_order"}
"""What an action calls before or when it changes the project."""
DEPTH = 3
"""Calls that are followed from an action."""


def table() -> str:
    """The section of the page, from its heading on."""
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    return text.partition("## What keys do, by command")[2]


def called(tree: ast.AST) -> set[str]:
    """Names of the functions that are called in some code."""
    functions = [one.func for one in ast.walk(tree) if isinstance(one, ast.Call)]
    return {one.attr for one in functions if isinstance(one, ast.Attribute)} | {
        one.id for one in functions if isinstance(one, ast.Name)
    }


def calls_by_name() -> dict[str, set[str]]:
    """What the functions of the screens call, by their names, if only one function has the name."""
    found: dict[str, list[set[str]]] = defaultdict(list)
    for file in (ROOT / "screens").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name].append(called(node))
    return {name: each[0] for name, each in found.items() if len(each) == 1}


def classes() -> dict[str, list[type]]:
    """The classes with keys, by the name of their place."""
    found: dict[str, list[type]] = defaultdict(list)
    left: list[type] = [Keyed]
    while left:
        cls = left.pop()
        left += cls.__subclasses__()
        if cls.__module__.startswith(("screens.", "workbench.")):
            found[place_of(cls)].append(cls)
    return found


def that_write(places: list[Place]) -> set[str]:
    """Names of the actions whose code asks whether it may write, or writes."""
    known, owners = calls_by_name(), classes()
    found = set()
    for place in places:
        for action in place.actions:
            name = f"action_{action.action.partition('(')[0].rpartition('.')[2]}"
            methods = [getattr(cls, name) for cls in owners[place.name] if hasattr(cls, name)]
            own = [one for one in methods if one.__module__.startswith(("screens.", "workbench."))]
            seen: set[str] = set()
            next_calls = {
                call
                for one in own
                for call in called(ast.parse(textwrap.dedent(inspect.getsource(one))))
            }
            for _ in range(DEPTH):
                seen |= next_calls
                next_calls = {call for one in next_calls for call in known.get(one, ())} - seen
            if seen & WRITING:
                found.add(action.id)
    return found


def test_every_key_that_writes_has_its_command() -> None:
    """Each action that writes is in the table; and what is in the table is an action."""
    places = key_table(WorkbenchApp)
    every = {action.id for place in places for action in place.actions}
    told = set(re.findall(r"`([a-z-]+\.[a-z-]+)`", table()))
    writing = that_write(places)
    assert {"triage.blind", "training.use"} <= writing
    assert writing - told == set()
    assert told - every == set()
