"""Programming (HumanEval, LiveCodeBench): the answer is one Python function, correct if it passes all tests.

The function is found with Python's own parser and run in confinement (`confined`). Test cases are JSON, or base64 of
zlib of a pickle of JSON; reading them never runs code.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import pickle
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.base.errors import BadInstruction
from engine.simulate.sharded.confined import Limits, require_confinement, run_function
from engine.simulate.sharded.instruction import Instruction, Shard
from engine.simulate.sharded.task import (
    Evaluating,
    Evaluation,
    Extraction,
    Task,
    bullets,
    fenced_blocks,
    value_of,
    without_judge,
)

_SOURCES = ("humaneval", "lcb_easy", "lcb_medium")
"""The data sets whose instructions are known."""


_MAX_UNPACKED_BYTES = 256 * 2**20
"""Largest size of unpacked test cases."""

_CLASS = "Solution"
"""Name of the class that competitions ask for."""

_BEGINNING = re.compile(r"^(?:from|import|def|async def|@)\b", re.MULTILINE)
"""Matches the line with which code begins in a reply without fences."""

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


@dataclass(frozen=True, slots=True)
class _Test:
    """A test case: the arguments of a call, and the value that it must return."""

    arguments: Sequence[Any]
    expected: Any


class _Metadata(msgspec.Struct):
    """The metadata of an instruction: the name of the function that the tests call."""

    func_name: str


class CodeTask(Task):
    """A programming problem.

    Keys: `source`, `public_test_cases`, `private_test_cases`, `metadata.func_name`; `prompt` (HumanEval) or
    `question_content` and `starter_code` (LiveCodeBench).

    A test case has the arguments, one JSON value a line, and the JSON value that the function must return.
    """

    extraction: Extraction = "task_specific"

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts)
        source = instruction.text("source")
        if source not in _SOURCES:
            raise BadInstruction(
                f"{instruction.task_id}: `source` must be one of {', '.join(_SOURCES)}."
            )
        self._is_completion = source == "humaneval"
        self._prompt = instruction.text("prompt" if self._is_completion else "question_content")
        self._starter = "" if self._is_completion else instruction.text("starter_code")
        name = value_of(instruction, "metadata", _Metadata).func_name
        if not name.isidentifier():
            raise BadInstruction(f"{instruction.task_id}: `metadata.func_name` must be a name.")
        self._name = name
        self._tests = [
            *_tests(instruction, "public_test_cases"),
            *_tests(instruction, "private_test_cases"),
        ]
        if not self._tests:
            raise BadInstruction(f"{instruction.task_id}: there are no test cases.")
        require_confinement()
        self._limits = Limits()

    def full_prompt(self) -> str:
        """Returns the code to complete, or the question with the code that the answer must begin with."""
        if self._is_completion:
            return self.text("complete", CODE=self._prompt)
        return self._with_starter(self._prompt)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """Returns the first shard, which says what is wanted, and the others as a list."""
        opening, *details = shards
        request = f"{opening.text}\n{bullets(details)}"
        return (
            self.text("full", QUESTION=request)
            if self._is_completion
            else self._with_starter(request)
        )

    def _with_starter(self, question: str) -> str:
        """Returns the prompt with the code that the answer must begin with."""
        starter = self._starter or "# YOUR CODE HERE"
        return self.text("starter", QUESTION=question, STARTER_CODE=starter)

    def extract(self, reply: str) -> str:
        """Returns the last function of the reply."""
        return function_in(reply)

    def evaluate(self, answer: str) -> Evaluating:
        """Scores 1 if the function passes all tests; the first that it fails ends the evaluation."""
        module = callable_as(answer, self._name, self._prompt if self._is_completion else "")
        if not module:
            return without_judge(Evaluation(0.0, {"failed": "there is no function"}))
        for number, test in enumerate(self._tests, 1):
            outcome = run_function(module, self._name, test.arguments, self._limits)
            if outcome.ended != "returned" or outcome.value != test.expected:
                reason = outcome.error or (
                    "another value" if outcome.ended == "returned" else outcome.ended
                )
                failed = {"failed": f"test {number}: {reason}", "tests": len(self._tests)}
                return without_judge(Evaluation(0.0, failed))
        return without_judge(Evaluation(1.0, {"tests": len(self._tests)}))


def _tests(instruction: Instruction, key: str) -> list[_Test]:
    """Returns the test cases under a key; none if the key is missing or empty.

    Raises:
        BadInstruction: They cannot be read.
    """
    value = instruction.keys.get(key)
    if not value:
        return []
    try:
        cases = unpack(value)
        return [
            _Test(
                [json.loads(line) for line in str(case["input"]).split("\n")], _expected_value(case)
            )
            for case in cases
        ]
    except BadTests as error:
        raise BadInstruction(f"{instruction.task_id}: `{key}`: {error}.") from error
    except ValueError as error:
        raise BadInstruction(
            f"{instruction.task_id}: `{key}`: an input or output is no JSON, as tests of a function have it: {error}."
        ) from error


def _expected_value(case: Mapping[str, Any]) -> Any:
    """Returns the value that a test expects."""
    return json.loads(str(case["output"]))


# Packed test cases


class BadTests(ValueError):
    """The test cases cannot be read; the message gives the reason."""


class _TextOnly(pickle.Unpickler):
    """Reads texts, numbers and containers. Raises BadTests for a pickle that names a class or function, which may run
    code."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Refuses every class and function."""
        raise BadTests(f"the pickle names {module_name}.{global_name}, which may run code")

    def persistent_load(self, pid: Any) -> Any:
        """Refuses every reference to something outside."""
        raise BadTests("the pickle refers to something outside it")


def unpack(value: Any) -> list[Mapping[str, Any]]:
    """Returns the test cases, each with `input` and `output`.

    Raises:
        BadTests: The value is not a list of test cases.
    """
    if isinstance(value, str):
        value = _from_text(value)
    if not isinstance(value, list) or not all(
        isinstance(case, dict) and "input" in case and "output" in case for case in value
    ):
        raise BadTests("test cases must be a list of objects with `input` and `output`")
    return value


def _from_text(text: str) -> Any:
    """Returns test cases that are stored as text.

    Raises:
        BadTests: The text is neither JSON nor packed JSON.
    """
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(text, validate=True), _MAX_UNPACKED_BYTES)
        if packed.unconsumed_tail:
            raise BadTests(f"they are longer than {_MAX_UNPACKED_BYTES // 2**20} MiB")
        inner = _TextOnly(io.BytesIO(data)).load()
        return json.loads(inner) if isinstance(inner, str | bytes) else inner
    except BadTests:
        raise
    except Exception as error:
        raise BadTests(f"they are neither JSON nor packed JSON: {error}") from error


# The function of an answer


def function_in(reply: str) -> str:
    """Returns the last top-level function of a reply with the imports of its block; "" if there is none.

    Looks in the last fenced block that has a function; without fences, in the text from the first import or function
    on. A class `Solution` counts as a function, because competitions ask for one.
    """
    blocks = fenced_blocks(reply)
    if not blocks:
        beginning = _BEGINNING.search(reply)
        blocks = [reply[beginning.start() :]] if beginning else []
    for block in reversed(blocks):
        if function := _function(block):
            return function
    return ""


def _function(code: str) -> str:
    """Returns the last top-level function of a piece of code with all its imports; "" if there is none."""
    module = _syntax_tree(code)
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
            first_line = min(
                [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
            )
            text = "\n".join(lines[first_line - 1 : node.end_lineno])  # lines count from 1
            return "\n".join([*imports, "", text]) if imports else text
    return ""


def callable_as(answer: str, name: str, prompt: str = "") -> str:
    """Returns the source of a module in which `name` is the function of the answer; "" if the answer has none.

    Args:
        prompt: The prompt that the answer completes; its imports are added to the module.
    """
    module = _syntax_tree(answer)
    if module is None:
        return ""
    expressions = (_callable(node, name) for node in reversed(module.body))
    function = next((expression for expression in expressions if expression), "")
    if not function:
        return ""
    prompt_module = _syntax_tree(prompt)
    imports = [
        ast.unparse(node)
        for node in (prompt_module.body if prompt_module else ())
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return "\n".join([PRELUDE, *imports, answer, f"{name} = {function}", ""])


def _callable(node: ast.stmt, name: str) -> str:
    """Returns the expression for the function that a statement defines; "" if it defines none."""
    match node:
        case ast.FunctionDef(name=defined_name):
            return defined_name
        case ast.ClassDef(name=defined_name, body=body) if defined_name == _CLASS:
            methods = [
                statement.name for statement in body if isinstance(statement, ast.FunctionDef)
            ]
            public = [method for method in methods if not method.startswith("_")]
            if public:
                return f"{_CLASS}().{name if name in public else public[-1]}"
    return ""


def _syntax_tree(code: str) -> ast.Module | None:
    """Returns the syntax tree of code; None if it is no Python."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
