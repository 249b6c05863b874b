"""Parses function calls in a reply without running them: Python with its own parser, Java and JavaScript with a small
one.

The form is `[first(a=1, b="x"), second()]`; the brackets and a fence are optional. Arguments must be named; an
argument without a name gets the name `""`, which no function has.

Values in Java and JavaScript are read by the declared type of a parameter. A text that is not a literal of its type
(`5` for a `long`, which is written `5L`) stays text, so that it equals no number. Without a declared type, the form
of the literal gives the type.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.simulate.sharded.task import fenced_blocks

_PLAIN = r"[\w\s,.?&\[\]]*"
"""What stands between the angle brackets of type parameters, without further ones."""

_GENERICS = re.compile(rf"<{_PLAIN}(?:<{_PLAIN}(?:<{_PLAIN}>{_PLAIN})*>{_PLAIN})*>")
"""Matches type parameters such as `<String, List<Integer>>`, nested at most three deep."""

_NAME = re.compile(r"(?:new\s+|await\s+)?([A-Za-z_$][\w$]*(?:\s*\.\s*[A-Za-z_$][\w$]*)*)\s*\(")
"""Matches the name of a call with its opening bracket, perhaps after `new` or `await`: `client.send(`."""

_NAMED = re.compile(r"\s*([A-Za-z_$][\w$]*)\s*=(?![=>])")
"""Matches the name of an argument with its `=`, which is no comparison or arrow."""

_OPENING, _CLOSING = "([{", ")]}"
"""Brackets, in the same order."""


# Calls


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
    blocks = fenced_blocks(text)
    bare = (blocks[-1] if blocks else text).strip().strip("`").strip()
    if not bare:
        raise NotCalls("The answer is empty.")
    return _python(bare) if language.lower() == "python" else list(_foreign(bare))


def _python(text: str) -> list[ParsedCall]:
    """Returns the calls of a text in Python."""
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
    """Returns the items of a list or tuple of calls; a single call as it is."""
    return [*node.elts] if isinstance(node, ast.List | ast.Tuple) else [node]


def _python_call(node: ast.AST) -> ParsedCall:
    """Returns a call with its arguments as values.

    Raises:
        NotCalls: The node is no call.
    """
    if not isinstance(node, ast.Call):
        raise NotCalls(f"`{ast.unparse(node)}` is no call.")
    arguments: dict[str, Any] = {"": ast.unparse(node)} if node.args else {}
    for keyword in node.keywords:
        arguments[keyword.arg or ""] = _python_value(keyword.value)
    return ParsedCall(ast.unparse(node.func), arguments)


def _python_value(node: ast.expr) -> Any:
    """Returns the value of an expression; its source text if it is not a literal."""
    match node:
        case ast.Constant(value=value) if value is not Ellipsis:
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=value)) if (
            isinstance(value, int | float)
        ):
            return -value if isinstance(sign, ast.USub) else value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_python_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {
                _key(key): _python_value(value) for key, value in zip(keys, values, strict=True)
            }
        case ast.BinOp(left=left, op=operator, right=right):
            return _compute(_python_value(left), operator, _python_value(right), node)
        case _:
            return ast.unparse(node)


def _key(node: ast.expr | None) -> Any:
    """Returns the value of a key of a dictionary.

    Raises:
        NotCalls: It can be no key.
    """
    value = None if node is None else _python_value(node)
    if isinstance(value, list | dict) or node is None:
        raise NotCalls("A key of a dictionary is no plain value.")
    return value


def _compute(left: Any, operator: ast.operator, right: Any, node: ast.expr) -> Any:
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
    """Yields calls in Java or JavaScript with their arguments as source text.

    Raises:
        NotCalls: The text contains anything but calls, or none.
    """
    if text.startswith("["):
        end = _after_bracket(text, 0)
        if text[end:].strip(" \n;"):
            raise NotCalls("Something follows the list.")
        text = text[1 : end - 1]
    index, has_call = 0, False
    while index < len(text):
        if text[index] in " \t\r\n,;":
            index += 1
            continue
        match = _NAME.match(text, index)
        if match is None:
            raise NotCalls(f"No call begins at `{text[index : index + 20]}`.")
        end = _after_bracket(text, match.end() - 1)
        name = re.sub(r"\s", "", match.group(1))
        yield ParsedCall(name, _arguments(text[match.end() : end - 1]))
        index, has_call = end, True
    if not has_call:
        raise NotCalls("There is no call.")


def _arguments(text: str) -> dict[str, str]:
    """Returns the source texts of arguments by name."""
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
    parts, start, index = [], 0, 0
    while index < len(text):
        if text[index] == separator:
            parts.append(text[start:index])
            index += 1
            start = index
        else:
            index = _after_token(text, index)
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def _after_bracket(text: str, index: int) -> int:
    """Returns the position after the bracket that closes the one at `index`.

    Raises:
        NotCalls: It is not closed, or by another kind.
    """
    open_brackets = [text[index]]
    index += 1
    while open_brackets:
        if index >= len(text):
            raise NotCalls("A bracket is not closed.")
        if text[index] in _OPENING:
            open_brackets.append(text[index])
            index += 1
        elif text[index] in _CLOSING:
            if _OPENING.index(open_brackets.pop()) != _CLOSING.index(text[index]):
                raise NotCalls("A bracket is closed by another kind.")
            index += 1
        else:
            index = _after_plain_token(text, index)
    return index


def _after_token(text: str, index: int) -> int:
    """Returns the position after the bracket, string or character at `index`."""
    return (
        _after_bracket(text, index) if text[index] in _OPENING else _after_plain_token(text, index)
    )


def _after_plain_token(text: str, index: int) -> int:
    """Returns the position after the string, the type parameters or the single character at `index`.

    Raises:
        NotCalls: A string is not closed.
    """
    character = text[index]
    if character in "\"'`":
        end = index + 1
        while end < len(text) and text[end] != character:
            end += 2 if text[end] == "\\" else 1  # an escape has two characters
        if end >= len(text):
            raise NotCalls("A quote is not closed.")
        return end + 1
    if character == "<" and index and (text[index - 1].isalnum() or text[index - 1] == "_"):
        generics = _GENERICS.match(text, index)
        return generics.end() if generics else index + 1
    return index + 1


# Values in Java and JavaScript

_DIGITS = r"-?\d{1,300}"
"""A whole number; limited, because Python reads no number of more than 4,300 digits."""

_INTEGER = re.compile(_DIGITS)
"""Matches a whole number: `5`."""

_LONG = re.compile(rf"({_DIGITS})[lL]")
"""Matches a `long` of Java: `5L`."""

_BIG_INTEGER = re.compile(rf"({_DIGITS})n")
"""Matches a `BigInt` of JavaScript: `5n`."""

_DECIMAL = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
"""Matches a decimal number, perhaps with an exponent: `1.5e3`."""

_FLOAT = re.compile(r"(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)[fF]")
"""Matches a `float` of Java: `1.5f`."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
"""Matches an escape in a string, and the character that it stands for or is."""

_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f"}
"""What some escaped characters stand for; each other one stands for itself."""

_BOOLEANS = {"true": True, "false": False}
"""Truth values as both languages write them."""

_NEW = r"new\s+[\w.]+(?:<.*?>)?\s*"
"""The beginning of an expression that makes an object: `new ArrayList<String>`."""

_COPIED = re.compile(rf"{_NEW}\(\s*((?:Arrays|List|Set|Map)\s*\..*)\)", re.DOTALL)
"""Matches `new ArrayList<>(Arrays.asList(...))`; the group is the collection that is copied."""

_LISTS = re.compile(
    r"(?:Arrays\s*\.\s*asList|(?:List|Set|Array)\s*\.\s*of)\s*\((?P<of>.*)\)"
    r"|new\s+[\w.<>]+\s*\[\s*\]\s*\{(?P<array>.*)\}"
    r"|\{(?P<braces>[^{].*|)\}"
    r"|\[(?P<brackets>.*)\]"
    r"|new\s+Array\s*\((?P<js>.*)\)",
    re.DOTALL,
)
"""Matches an expression that builds a list; the one group that is not None has its items."""

_FILLED = re.compile(rf"{_NEW}\(\s*\)\s*\{{\s*\{{(?P<body>.*)\}}\s*\}}", re.DOTALL)
"""Matches `new ArrayList<>() {{ add(1); add(2); }}`, an object that its own statements fill."""

_EMPTY = re.compile(rf"{_NEW}\(\s*\)", re.DOTALL)
"""Matches `new ArrayList<>()`."""

_ADD = re.compile(r"\s*(?:this\s*\.\s*)?(?:add|push|offer)\s*\((.*)\)\s*", re.DOTALL)
"""Matches a statement that adds an item: `add(1)`."""

_PUT = re.compile(r"\s*(?:this\s*\.\s*)?put\s*\((.*)\)\s*", re.DOTALL)
"""Matches a statement that adds a key with its value: `put("a", 1)`."""

_MAP = re.compile(r"Map\s*\.\s*of\s*\((?P<of>.*)\)", re.DOTALL)

"""Matches `Map.of("a", 1)`; the group has keys and values in turn."""

_JAVA_LISTS = frozenset({"Array", "ArrayList", "List", "Set", "Queue", "Stack"})
"""Declared types in Java whose values are lists."""

_JAVA_MAPS = frozenset({"HashMap", "Hashtable", "Map"})
"""Declared types in Java whose values are dictionaries."""


def java_value(text: str, kind: str | None, items: str | None = None) -> Any:
    """Returns the value of a Java literal of a declared type (`integer`, `ArrayList`...); the text if it is not one.

    Args:
        items: Declared type of the items of a list; None if not declared.
    """
    text = text.strip()
    match kind:
        case "byte" | "short" | "integer":
            return _number(_INTEGER, text, int)
        case "long":
            return _number(_LONG, text, int)
        case "float":
            return _number(_FLOAT, text, float)
        case "double":
            return _number(_DECIMAL, text, float)
        case "boolean":
            return _BOOLEANS.get(text, text)
        case "char" | "String" | "any":
            return _unquote(text)
        case None:
            return _java_literal(text)
    if kind in _JAVA_LISTS:
        parts = _list_parts(text)
        return text if parts is None else [java_value(part, items) for part in parts]
    if kind in _JAVA_MAPS:
        return _java_map(text)
    return _unquote(text)


def javascript_value(text: str, kind: str | None, items: str | None = None) -> Any:
    """Does the same as `java_value` for a declared JavaScript type (`String`, `Bigint`, `array`, `dict`...)."""
    text = text.strip()
    match kind:
        case "integer":
            return _number(_INTEGER, text, int)
        case "float":
            return _number(_DECIMAL, text, float)
        case "Bigint":
            return _number(_BIG_INTEGER, text, int)
        case "Boolean":
            return _BOOLEANS.get(text, text)
        case "array":
            parts = _list_parts(text)
            return text if parts is None else [javascript_value(part, items) for part in parts]
        case "dict":
            return _object(text)
        case None:
            return _javascript_literal(text)
    return _unquote(text)


def _number(pattern: re.Pattern[str], text: str, make: type[int] | type[float]) -> Any:
    """Returns the number that a text is in this notation; the text if it is none."""
    match = pattern.fullmatch(text)
    # The pattern has a group where a suffix such as `L` is no part of the number.
    return make(match.group(match.lastindex or 0)) if match else text


def _unquote(text: str) -> str:
    """Returns a quoted text without its quotes and escapes; another text as it is."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'`":
        return _ESCAPE.sub(
            lambda escape: _ESCAPED.get(escape.group(1), escape.group(1)), text[1:-1]
        )
    return text


def _java_literal(text: str) -> Any:
    """Returns the value of a Java literal of any type; the text if it is none."""
    text = text.strip()
    for kind in ("long", "float", "integer", "double", "boolean"):
        if not isinstance(value := java_value(text, kind), str):
            return value
    if (parts := _list_parts(text)) is not None:
        return [_java_literal(part) for part in parts]
    return _unquote(text) if isinstance(mapping := _java_map(text), str) else mapping


def _javascript_literal(text: str) -> Any:
    """Returns the value of a JavaScript literal of any type; the text if it is none."""
    text = text.strip()
    for kind in ("integer", "float", "Bigint", "Boolean"):
        if not isinstance(value := javascript_value(text, kind), str):
            return value
    if text.startswith("{"):
        return _object(text)
    if (parts := _list_parts(text)) is not None:
        return [_javascript_literal(part) for part in parts]
    return _unquote(text)


def _list_parts(text: str) -> list[str] | None:
    """Returns the source texts of the items of a list; None if the text does not build a list."""
    filled = _FILLED.fullmatch(text)
    if filled:
        adds = [_ADD.fullmatch(statement) for statement in split(filled["body"], ";")]
        return [add.group(1) for add in adds if add] if all(adds) else None
    listed = _LISTS.fullmatch(_original(text))
    if listed:
        return split(next(group for group in listed.groups() if group is not None))
    return [] if _EMPTY.fullmatch(text) else None


def _original(text: str) -> str:
    """Returns the collection that is copied: `Arrays.asList(...)` of `new ArrayList<>(Arrays.asList(...))`."""
    copied = _COPIED.fullmatch(text)
    return copied.group(1).strip() if copied else text


def _java_map(text: str) -> Any:
    """Returns the dictionary that a Java expression builds; the text if it builds none."""
    filled, of = _FILLED.fullmatch(text), _MAP.fullmatch(_original(text))
    if filled:
        puts = [_PUT.fullmatch(statement) for statement in split(filled["body"], ";")]
        if not all(puts):
            return text
        return _pairs([part for put in puts if put for part in split(put.group(1))], text)
    if of:
        return _pairs(split(of["of"]), text)
    return {} if _EMPTY.fullmatch(text) else text


def _pairs(parts: Sequence[str], text: str) -> Any:
    """Returns the dictionary of alternating keys and values; the text if a value is missing."""
    if len(parts) % 2:
        return text
    values = [_java_literal(part) for part in parts]
    return {str(key): value for key, value in zip(values[::2], values[1::2], strict=True)}


def _object(text: str) -> Any:
    """Returns the dictionary of a JavaScript object literal; the text if it is none."""
    if not (text.startswith("{") and text.endswith("}")):
        return text
    values_by_key: dict[str, Any] = {}
    try:
        for part in split(text[1:-1]):
            # A value may have further colons; a key without a value (`{a}`) is the variable of that name.
            key, *value = split(part, ":")
            values_by_key[_unquote(key.strip())] = _javascript_literal(":".join(value or [key]))
    except NotCalls:
        return text
    return values_by_key
