"""The function in a reply: found by Python's own parser, and given the name that its tests call."""

from __future__ import annotations

import ast
import re

from engine.simulate.sharded.tasks.fences import fenced

_CLASS = "Solution"
_BEGINNING = re.compile(r"^(?:from|import|def|async def|@)\b", re.MULTILINE)

PRELUDE = """\
import bisect, collections, copy, datetime, functools, heapq, itertools, json, math, operator, random, re, statistics
import string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
from builtins import *
"""
"""What the programming competitions import before an answer. Last the builtins: `pow` of `math` is another."""


def function_in(reply: str) -> str:
    """The last top-level function of the last fenced block that has one, after the imports of that block; "" for none.

    Where there is no fence, what begins with the first import or function is read. A class `Solution` stands for a
    function, as competitions want it.
    """
    blocks = fenced(reply)
    if not blocks:
        beginning = _BEGINNING.search(reply)
        blocks = [reply[beginning.start() :]] if beginning else []
    for block in reversed(blocks):
        if found := _function(block):
            return found
    return ""


def _function(code: str) -> str:
    module = _parsed(code)
    if module is None:
        return ""
    imports = [
        ast.unparse(node)
        for node in ast.walk(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    lines = code.split("\n")
    for node in reversed(module.body):
        if isinstance(node, ast.FunctionDef) or (
            isinstance(node, ast.ClassDef) and node.name == _CLASS
        ):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            text = "\n".join(lines[first - 1 : node.end_lineno])
            return "\n".join([*imports, "", text]) if imports else text
    return ""


def callable_as(answer: str, name: str, before: str = "") -> str:
    """A module in which `name` is the answer's function, "" if the answer has none.

    Args:
        before: Code whose imports the answer may rely on: the prompt that it completes.
    """
    module = _parsed(answer)
    if module is None:
        return ""
    call = next((found for node in reversed(module.body) if (found := _callable(node, name))), "")
    if not call:
        return ""
    given = _parsed(before)
    imports = [
        ast.unparse(node)
        for node in (given.body if given else ())
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return "\n".join([PRELUDE, *imports, answer, f"{name} = {call}", ""])


def _callable(node: ast.stmt, name: str) -> str:
    """The expression for the function that a statement defines."""
    match node:
        case ast.FunctionDef(name=own):
            return own
        case ast.ClassDef(name=own, body=body) if own == _CLASS:
            methods = [one.name for one in body if isinstance(one, ast.FunctionDef)]
            public = [one for one in methods if not one.startswith("_")]
            if public:
                return f"{_CLASS}().{name if name in public else public[-1]}"
    return ""


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
