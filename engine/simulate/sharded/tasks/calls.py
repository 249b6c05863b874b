"""Parses function calls in a reply without running them: Python with its own parser, Java and JavaScript with a small
one.

The form is `[first(a=1, b="x"), second()]`; the brackets and a fence are optional. Arguments must be named; an argument
without a name gets the name `""`, which no function has.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.simulate.sharded.tasks.fences import fenced

_PLAIN = r"[\w\s,.?&\[\]]*"
_GENERICS = re.compile(rf"<{_PLAIN}(?:<{_PLAIN}(?:<{_PLAIN}>{_PLAIN})*>{_PLAIN})*>")
_NAME = re.compile(r"(?:new\s+|await\s+)?([A-Za-z_$][\w$]*(?:\s*\.\s*[A-Za-z_$][\w$]*)*)\s*\(")
_NAMED = re.compile(r"\s*([A-Za-z_$][\w$]*)\s*=(?![=>])")
_OPENING, _CLOSING = "([{", ")]}"


class NotCalls(ValueError):
    """The text is not a list of calls; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """One call.

    Attributes:
        arguments: By name. From Python they are values, and source text for expressions such as names; from other
            languages all are source text.
    """

    name: str
    arguments: Mapping[str, Any]


def read_calls(text: str, language: str) -> list[ParsedCall]:
    """Returns the calls in a reply; if it has fenced blocks, those in the last block.

    Raises:
        NotCalls: The text is empty or contains anything but calls.
    """
    blocks = fenced(text)
    bare = (blocks[-1] if blocks else text).strip().strip("`").strip()
    if not bare:
        raise NotCalls("The answer is empty.")
    return _python(bare) if language.lower() == "python" else list(_foreign(bare))


def _python(text: str) -> list[ParsedCall]:
    try:
        module = ast.parse(text)
        return [
            _python_call(call)
            for statement in module.body
            for call in _calls_of(statement.value if isinstance(statement, ast.Expr) else statement)
        ]
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        raise NotCalls(f"Not calls in Python: {error}") from error


def _calls_of(node: ast.AST) -> list[ast.AST]:
    return [*node.elts] if isinstance(node, ast.List | ast.Tuple) else [node]


def _python_call(node: ast.AST) -> ParsedCall:
    if not isinstance(node, ast.Call):
        raise NotCalls(f"`{ast.unparse(node)}` is no call.")
    arguments: dict[str, Any] = {"": ast.unparse(node)} if node.args else {}
    for keyword in node.keywords:
        arguments[keyword.arg or ""] = _python_value(keyword.value)
    return ParsedCall(ast.unparse(node.func), arguments)


def _python_value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value) if value is not Ellipsis:
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=value)) if (
            isinstance(value, int | float)
        ):
            return -value if isinstance(sign, ast.USub) else value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_python_value(one) for one in items]
        case ast.Dict(keys=keys, values=values):
            return {
                _key(key): _python_value(value) for key, value in zip(keys, values, strict=True)
            }
        case ast.BinOp(left=left, op=operator, right=right):
            return _computed(_python_value(left), operator, _python_value(right), node)
        case _:
            return ast.unparse(node)


def _key(node: ast.expr | None) -> Any:
    value = None if node is None else _python_value(node)
    if isinstance(value, list | dict) or node is None:
        raise NotCalls("A key of a dictionary is no plain value.")
    return value


def _computed(left: Any, operator: ast.operator, right: Any, node: ast.expr) -> Any:
    """Returns the value of `60 * 5`; an operation on anything but numbers is returned as its source text."""
    if type(left) in (int, float) and type(right) in (int, float):
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div() if right:
                return left / right
    return ast.unparse(node)


def _foreign(text: str) -> Iterator[ParsedCall]:
    """Yields calls in Java or JavaScript with their arguments as source text."""
    if text.startswith("["):
        end = _end(text, 0)
        if text[end:].strip(" \n;"):
            raise NotCalls("Something follows the list.")
        text = text[1 : end - 1]
    at, found = 0, False
    while at < len(text):
        if text[at] in " \t\r\n,;":
            at += 1
            continue
        match = _NAME.match(text, at)
        if match is None:
            raise NotCalls(f"No call begins at `{text[at : at + 20]}`.")
        end = _end(text, match.end() - 1)
        name = re.sub(r"\s", "", match.group(1))
        yield ParsedCall(name, _arguments(text[match.end() : end - 1]))
        at, found = end, True
    if not found:
        raise NotCalls("There is no call.")


def _arguments(text: str) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for part in split(text):
        named = _NAMED.match(part)
        if named:
            arguments[named.group(1)] = part[named.end() :].strip()
        else:
            arguments[""] = part.strip()
    return arguments


def split(text: str, separator: str = ",") -> list[str]:
    """Splits source text at separators outside quotes, brackets and type parameters; leaves out blank parts."""
    parts, start, at = [], 0, 0
    while at < len(text):
        if text[at] == separator:
            parts.append(text[start:at])
            start = at = at + 1
        else:
            at = _past(text, at)
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def _end(text: str, at: int) -> int:
    """Returns the position after the bracket that closes the one at `at`."""
    open_brackets = [text[at]]
    at += 1
    while open_brackets:
        if at >= len(text):
            raise NotCalls("A bracket is not closed.")
        if text[at] in _OPENING:
            open_brackets.append(text[at])
            at += 1
        elif text[at] in _CLOSING:
            if _OPENING.index(open_brackets.pop()) != _CLOSING.index(text[at]):
                raise NotCalls("A bracket is closed by another kind.")
            at += 1
        else:
            at = _past_plain(text, at)
    return at


def _past(text: str, at: int) -> int:
    return _end(text, at) if text[at] in _OPENING else _past_plain(text, at)


def _past_plain(text: str, at: int) -> int:
    """Returns the position after the string, the type parameters or the single character at `at`."""
    character = text[at]
    if character in "\"'`":
        end = at + 1
        while end < len(text) and text[end] != character:
            end += 2 if text[end] == "\\" else 1
        if end >= len(text):
            raise NotCalls("A quote is not closed.")
        return end + 1
    if character == "<" and at and (text[at - 1].isalnum() or text[at - 1] == "_"):
        generics = _GENERICS.match(text, at)
        return generics.end() if generics else at + 1
    return at + 1
