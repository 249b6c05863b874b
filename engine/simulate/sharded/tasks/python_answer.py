"""Finds the function in a reply with Python's own parser, and binds it to the name that its tests call."""

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
"""Imports that programming competitions provide. `builtins` comes last, so that `pow` is not that of `math`."""


def function_in(reply: str) -> str:
    """Returns the last top-level function of a reply with the imports of its block; "" if there is none.

    Looks in the last fenced block that has a function; without fences, in the text from the first import or function
    on. A class `Solution` counts as a function, because competitions ask for one.
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
    """Returns the source of a module in which `name` is the function of the answer; "" if the answer has none.

    Args:
        before: The prompt that the answer completes; its imports are added to the module.
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
    """Returns the expression for the function that a statement defines; "" if it defines none."""
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
