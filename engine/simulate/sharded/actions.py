"""Function calls (Berkeley function-calling leaderboard): the calls in an answer are parsed and compared.

The reference lists the accepted values of every parameter; `""` among them makes the parameter optional. Texts are
compared without case, spaces and `,./-_*^`, and with `'` and `"` as equal. A value must have the declared type or the
type of the reference values (a variable's name where a number is declared). A whole number is accepted for a declared
float. Calls are in Python: those of the categories `java` and `javascript`, which no sharded instruction is made of,
are refused.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from engine.base.errors import BadInstruction
from engine.simulate.sharded.instruction import Evaluation, Instruction, Task

T = TypeVar("T")

_FENCE = "```"
"""Opens and closes a block of code in a reply."""

_TAG = re.compile(
    r"\A[ \t]*(?:python3?|py|java|javascript|js|sql|json|text)?[ \t]*(?:\r?\n|\b)", re.IGNORECASE
)
"""Matches what stands before the content of a block: the name of the language, if it is there, and a line break."""

_IGNORED = re.compile(r"[ ,./\-_*^]")
"""Characters that are left out of texts before these are compared."""

_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
"""The type in Python of each declared type."""

ReferenceCall = Mapping[str, Mapping[str, Sequence[Any]]]
"""A reference call: `{function: {parameter: [accepted value, ...]}}` with one function."""


class _Parameters(msgspec.Struct):
    """What is read of the description of the parameters of a function."""

    properties: dict[str, dict[str, Any]] | None = None
    required: list[str] | None = None


class _Function(msgspec.Struct):
    """What is read of the description of a function, besides its name."""

    parameters: _Parameters | None = None


class ActionsTask(Task):
    """A request that is to be answered with function calls.

    Keys: `function`, `fully_specified_question`, `reference_answer`, `language`, `test_category`.
    """

    extracts_answer = False

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        """Reads the functions and the reference of an instruction.

        Args:
            texts: The prompts, by name.

        Raises:
            BadInstruction: The instruction cannot be played.
        """
        super().__init__(instruction, texts, _question(instruction))
        self._functions = _objects(instruction, "function", dict[str, Any])
        _objects(instruction, "function", _Function)  # refuses what `mismatch` cannot read
        self._references = _objects(
            instruction, "reference_answer", dict[str, dict[str, list[Any]]]
        )
        if instruction.text("language").lower() != "python":
            raise BadInstruction(f"{instruction.task_id}: `language` must be Python.")
        self._category = instruction.text("test_category")

    def system_prompt(self) -> str:
        """Returns the system message with the descriptions of the functions."""
        schemas = json.dumps(self._functions, ensure_ascii=False, indent=2)
        return self.text("system", FUNCTIONS=schemas)

    def evaluate(self, answer: str) -> Evaluation:
        """Scores 1 if the calls in the answer match the reference, else 0 with the reason."""
        try:
            calls = read_calls(answer)
            reason = mismatch(calls, self._references, self._functions, self._category)
        except NotCalls as error:
            reason = str(error)
        except (RecursionError, OverflowError):
            reason = "a value is too deep or too large"
        return Evaluation(0.0, {"wrong": reason}) if reason else Evaluation(1.0)


def _objects(instruction: Instruction, key: str, kind: type[T]) -> list[T]:
    """Returns the objects under a key, which holds a list of them or such a list as JSON text.

    Raises:
        BadInstruction: It does not; none of them may be empty, nor the list.
    """
    value = instruction.fields.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadInstruction(f"{instruction.task_id}: `{key}` is not JSON: {error}.") from error
    try:
        objects = msgspec.convert(value, list[kind])  # type: ignore[valid-type]  # mypy reads types only
    except msgspec.ValidationError as error:
        raise BadInstruction(f"{instruction.task_id}: `{key}`: {error}.") from error
    if not objects or not all(objects):
        raise BadInstruction(f"{instruction.task_id}: `{key}` must be a list of objects.")
    return objects


def _question(instruction: Instruction) -> str:
    """Returns the full question: the value itself, or the content of the last message in a list of turns.

    Raises:
        BadInstruction: The question has no text.
    """
    value = instruction.fields.get("fully_specified_question")
    while isinstance(value, list) and value:
        value = value[-1]
    if isinstance(value, dict):
        value = value.get("content")
    if not isinstance(value, str):
        raise BadInstruction(f"{instruction.task_id}: `fully_specified_question` has no text.")
    return value


# Calls


class NotCalls(ValueError):
    """The text is not a list of calls; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """One call.

    Attributes:
        name: Name of the function.
        arguments: Their values by name; of an expression, such as a name, its source text.
    """

    name: str
    arguments: Mapping[str, Any]


def read_calls(text: str) -> list[ParsedCall]:
    """Returns the calls in a reply; if it has fenced blocks, those in the last block.

    The form is `[first(a=1, b="x"), second()]`; the brackets and a fence are optional. Arguments must be named; an
    argument without a name gets the name `""`, which no function has. Nothing is run.

    Raises:
        NotCalls: The text is empty or contains anything but calls.
    """
    blocks = fenced_blocks(text)
    answer = blocks[-1] if blocks else text
    bare = answer.strip().strip("`").strip()
    if not bare:
        raise NotCalls("The answer is empty.")
    try:
        module = ast.parse(bare)
        return [
            _python_call(call)
            for statement in module.body
            for call in _calls_of(statement.value if isinstance(statement, ast.Expr) else statement)
        ]
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        raise NotCalls(f"Not calls in Python: {error}") from error


def fenced_blocks(reply: str) -> list[str]:
    """Returns the contents of the closed fenced blocks, stripped and without the name of the language."""
    # After a split at fences, every second part is inside of one; with an even number of parts the last fence is open.
    # Splits instead of matching a pattern, which takes minutes on the long runs of spaces that small models write.
    parts = reply.split(_FENCE)
    closed = parts[1::2] if len(parts) % 2 else parts[1:-1:2]
    return [_TAG.sub("", part, count=1).strip() for part in closed]


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
    """Returns the value of an expression: a literal, or arithmetic on literals; else its source text."""
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
                _dict_key(key): _python_value(value)
                for key, value in zip(keys, values, strict=True)
            }
        case ast.BinOp(left=left, op=operator, right=right):
            return _compute(_python_value(left), operator, _python_value(right), node)
        case _:
            return ast.unparse(node)


def _dict_key(node: ast.expr | None) -> Any:
    """Returns the value of a key of a dictionary; the node is None for `**other`.

    Raises:
        NotCalls: The key is no plain value.
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


# Comparison


def mismatch(
    calls: Sequence[ParsedCall],
    references: Sequence[ReferenceCall],
    functions: Sequence[Mapping[str, Any]],
    category: str,
) -> str:
    """Compares calls with the reference.

    Args:
        functions: The descriptions of the functions that the model saw.
        category: Category of the leaderboard, such as `parallel`; where it has no `multiple` in it and there is one
            function, all calls are of that.

    Returns:
        "" if every call matches a reference of its own, in any order; else the reason why not.
    """
    if len(calls) != len(references):
        return f"{len(calls)} calls instead of {len(references)}"
    described = {str(function.get("name")): function for function in functions}
    # In categories with one function, some references give it another name than its description.
    only_function = functions[0] if len(functions) == 1 and "multiple" not in category else None
    reasons = [
        [
            _call_mismatch(
                call, reference, only_function or described.get(next(iter(reference)), {})
            )
            for call in calls
        ]
        for reference in references
    ]
    # A row has, for one reference, why each call does not match it, "" for one that does.
    unmatched = next((row for row in reasons if all(row)), None)
    if unmatched is not None:
        # The shortest reason is mostly that of the call that was meant.
        return min(unmatched, key=len)
    fits = [[not reason for reason in row] for row in reasons]
    return "" if _can_be_paired(fits) else "two calls match the same reference"


def _can_be_paired(fits: Sequence[Sequence[bool]]) -> bool:
    """Returns whether each row can be assigned a column of its own that fits it: a perfect matching, by augmenting
    paths.

    Args:
        fits: For each row, which columns fit it.
    """
    row_of_column: dict[int, int] = {}

    def assign(row: int, tried_columns: set[int]) -> bool:
        """Assigns a column to the row; a row that has it already moves to another, if there is one."""
        for column, fit in enumerate(fits[row]):
            if fit and column not in tried_columns:
                tried_columns.add(column)
                if column not in row_of_column or assign(row_of_column[column], tried_columns):
                    row_of_column[column] = row
                    return True
        return False

    return all(assign(row, set()) for row in range(len(fits)))


def _call_mismatch(call: ParsedCall, reference: ReferenceCall, function: Mapping[str, Any]) -> str:
    """Returns why a call does not match a reference, as the name, a parameter or a value differs; "" if it matches.

    Args:
        call: The call that was made.
        reference: The name of the function -> its parameters -> the values that are accepted for each.
        function: The declaration of the function.
    """
    accepted = next(iter(reference.values()))
    name = str(function.get("name", next(iter(reference))))
    if call.name != name:
        return f"`{call.name}` instead of `{name}`"
    parameters = function.get("parameters") or {}
    specs = parameters.get("properties") or {}
    for needed in parameters.get("required") or ():
        if needed not in call.arguments:
            return f"`{needed}` is missing"
    for parameter, value in call.arguments.items():
        if parameter not in specs or parameter not in accepted:
            return f"`{parameter}` is not expected"
        if not _is_accepted(value, accepted[parameter], specs[parameter]):
            return f"`{parameter}` has another value"
    for parameter, values in accepted.items():
        if parameter not in call.arguments and "" not in values:
            return f"`{parameter}` is missing"
    return ""


def _is_accepted(value: Any, accepted: Sequence[Any], spec: Mapping[str, Any]) -> bool:
    """Returns whether a value equals one of the accepted ones, by the rules of the leaderboard.

    Args:
        spec: The description of the parameter, with its declared type.
    """
    declared_name = str(spec.get("type", "any"))
    declared_type = _TYPES.get(declared_name, str)
    if declared_name == "float" and type(value) is int:
        value = float(value)
    reference_type = _type_of(accepted)
    is_declared_type = type(value) is declared_type
    if not is_declared_type:
        # A variable, say: it has the type of the reference, and is compared as it is.
        return type(value) is reference_type and value in accepted
    items = spec.get("items")
    item_name = items.get("type") if isinstance(items, dict) else None
    item_type = _TYPES.get(str(item_name), str) if declared_type is list and item_name else None
    if item_type and not any(
        _items_have_type(value, reference, item_type) for reference in accepted
    ):
        return False
    if reference_type not in (None, declared_type):
        return value in accepted
    if isinstance(value, dict):
        return any(
            isinstance(reference, dict) and _matches_dict(value, reference)
            for reference in accepted
        )
    if isinstance(value, list) and item_type is dict:
        return any(_matches_dicts(value, reference) for reference in accepted)
    return _normalized(value) in [_normalized(reference) for reference in accepted]


def _type_of(accepted: Sequence[Any]) -> type | None:
    """Returns the type of the first accepted value that is not ""; None where there is none."""
    return next((type(item) for item in accepted if item != ""), None)


def _items_have_type(value: Sequence[Any], accepted: Any, item_type: type) -> bool:
    """Returns whether the items of a list have the declared type, or that of the reference."""
    if not isinstance(accepted, list):
        return True
    reference_type = _type_of(accepted)
    return all(type(item) is item_type or type(item) is reference_type for item in value)


def _matches_dict(value: Mapping[str, Any], accepted: Mapping[str, Any]) -> bool:
    """Returns whether a dictionary has the keys of a reference, each with one of its accepted values, which are a list
    or a single value."""
    lists = {key: item if isinstance(item, list) else [item] for key, item in accepted.items()}
    return all(
        key in lists and _normalized(item) in [_normalized(other) for other in lists[key]]
        for key, item in value.items()
    ) and all(key in value or "" in values for key, values in lists.items())


def _matches_dicts(value: Sequence[Any], accepted: Any) -> bool:
    """Returns whether a list of dictionaries matches a list of references, in order."""
    return (
        isinstance(accepted, list)
        and len(value) == len(accepted)
        and all(
            isinstance(item, dict) and isinstance(other, dict) and _matches_dict(item, other)
            for item, other in zip(value, accepted, strict=True)
        )
    )


def _normalized(value: Any) -> Any:
    """Returns a value in the form that is compared: texts, also in lists, without case and ignored characters."""
    if isinstance(value, str):
        return _IGNORED.sub("", value).lower().replace("'", '"')
    if isinstance(value, list):
        return [_normalized(item) for item in value]
    return value
