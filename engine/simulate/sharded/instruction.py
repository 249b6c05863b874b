"""Reads and writes sharded instructions in the published JSON format: a task, its text in pieces, and the known answer.

A file is a JSON list of objects or one object a line:
`{"task_id", "task", "shards": [{"shard_id", "shard"}, ...], <keys of the task>}`. The first shard is the short intent
that opens the conversation. The text of a shard is under `shard` (as in the published data) or `shard_text` (as in its
description).

A *task* is bound to one instruction: it has the prompts (engine/model/prompts/sharded/TASK-PART.txt, perhaps edited),
and evaluates an answer. Its constructor checks the keys of the instruction, so that a bad instruction is
refused when the file is read and not in the middle of a run. The word problems of `math` are here, function calls in
`engine.simulate.sharded.actions`.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from engine.base.errors import BadInstruction
from engine.model.chat import parsed_object
from engine.model.prompt_files import filled

_NUMBER = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
"""Matches a number as the published evaluation finds it."""

_MARK = "####"
"""Stands before the number in a known answer."""

TASKS = ("math", "actions")
"""The tasks that instructions can be of: word problems and function calls."""

BUNDLED = TASKS
"""Names of the instructions that come with the program: some for each task."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One piece of an instruction; its number, 0 or more, is unique in the instruction."""

    shard_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction with its shards: at least one, with unique ids.

    Attributes:
        task_id: Id of the instruction, unique in its file.
        task: One of `TASKS`.
        shards: The pieces of the instruction, in order.
        fields: The fields of the task: the full question, the gold answer, functions.
    """

    task_id: str
    task: str
    shards: tuple[Shard, ...]
    fields: Mapping[str, Any]

    def text(self, key: str) -> str:
        """Returns the value of a key that must be text.

        Raises:
            BadInstruction: The key is missing or its value is not text.
        """
        value = self.fields.get(key)
        if not isinstance(value, str):
            raise BadInstruction(f"{self.task_id}: `{key}` must be text, it is {_kind(value)}.")
        return value

    @property
    def digest(self) -> str:
        """8 hex digits over the whole instruction."""
        canonical = json.dumps(self.record(), sort_keys=True)
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:8]

    def record(self) -> dict[str, Any]:
        """Returns the instruction in the published format."""
        shards = [{"shard_id": shard.shard_id, "shard": shard.text} for shard in self.shards]
        return {"task_id": self.task_id, "task": self.task, "shards": shards, **self.fields}


def read_instructions(text: str) -> list[Instruction]:
    """Returns the instructions in the text of a file: a JSON list, one JSON object, or one a line.

    Raises:
        BadInstruction: With the number of the instruction (or of the line) and what is wrong with it.
    """
    instructions = [_parse_instruction(record, where) for where, record in _parse_records(text)]
    if not instructions:
        raise BadInstruction("There is no instruction in the file.")
    task_ids: set[str] = set()
    for instruction in instructions:
        if instruction.task_id in task_ids:
            raise BadInstruction(f"Two instructions have the task_id {instruction.task_id}.")
        task_ids.add(instruction.task_id)
    return instructions


def bundled_instructions(name: str) -> list[Instruction]:
    """Returns the bundled instructions: `math` has 20 word problems, `actions` two requests for function calls."""
    file = resources.files("engine.simulate.sharded") / f"instructions_{name}.json"
    return read_instructions(file.read_text("utf-8"))


def _parse_records(text: str) -> Iterator[tuple[str, Any]]:
    """Yields the records of a file (a JSON list, one object, or one object a line), each with its place for messages.

    Raises:
        BadInstruction: Something is not JSON.
    """
    if text.lstrip().startswith("["):
        for number, record in enumerate(_parse_json(text, "The file"), 1):
            yield f"Instruction {number}", record
    elif (only := parsed_object(text)) is not None:
        yield "Instruction 1", only
    else:
        # Not splitlines(), which also splits at characters that may occur in a JSON string.
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"Line {number}", _parse_json(line, f"Line {number}")


def _parse_json(text: str, where: str) -> Any:
    """Returns parsed JSON.

    Raises:
        BadInstruction: It is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInstruction(f"{where} is not JSON: {error}.") from error


def _parse_instruction(record: Any, where: str) -> Instruction:
    """Reads an instruction from its record; `where` is its place, for messages.

    Raises:
        BadInstruction: The record is no instruction.
    """
    if not isinstance(record, dict):
        raise BadInstruction(f"{where} is {_kind(record)}, not an object.")
    task_id = record.get("task_id")
    if not isinstance(task_id, str) or not task_id:
        raise BadInstruction(f"{where} has no `task_id`.")
    where = f"{where} ({task_id})"
    task = record.get("task")
    if task not in TASKS:
        raise BadInstruction(f"{where}: `task` must be one of {', '.join(TASKS)}; it is {task!r}.")
    shards = record.get("shards")
    if not isinstance(shards, list) or not shards:
        raise BadInstruction(f"{where}: `shards` must be a list with at least one shard.")
    fields = {
        name: value for name, value in record.items() if name not in ("task_id", "task", "shards")
    }
    return Instruction(task_id, task, _parse_shards(shards, where), fields)


def _parse_shards(shard_records: Sequence[Any], where: str) -> tuple[Shard, ...]:
    """Reads the shards of an instruction.

    Raises:
        BadInstruction: One is not a shard, or two have the same id.
    """
    shards: list[Shard] = []
    for number, record in enumerate(shard_records, 1):
        place = f"{where}, shard {number}"
        if not isinstance(record, dict):
            raise BadInstruction(f"{place} is {_kind(record)}, not an object.")
        shard_id = record.get("shard_id")
        if isinstance(shard_id, bool) or not isinstance(shard_id, int) or shard_id < 0:
            raise BadInstruction(f"{place}: `shard_id` must be a whole number of 0 or more.")
        if shard_id in {shard.shard_id for shard in shards}:
            raise BadInstruction(f"{place}: the shard_id {shard_id} occurs twice.")
        text = record.get("shard", record.get("shard_text"))
        if not isinstance(text, str):
            raise BadInstruction(f"{place}: `shard` must be text, it is {_kind(text)}.")
        shards.append(Shard(shard_id, text))
    return tuple(shards)


def _kind(value: Any) -> str:
    """Returns the kind of a value in words, for messages."""
    if value is None:
        return "missing"
    names = {bool: "a truth value", int: "a number", float: "a number", str: "text"}
    names |= {list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The score of an answer.

    Attributes:
        score: 0 to 1; exactly 1 is a correct answer.
        details: JSON values for the record: the two numbers compared, an error message, the parts of a score.
    """

    score: float
    details: Mapping[str, Any] = field(default_factory=dict)


class Task(ABC):
    """A task bound to one instruction: its prompts and its scoring. All methods are pure functions.

    The prompts are `texts["TASK-system"]`, `texts["TASK-full"]` and `texts["TASK-answer"]`.

    Attributes:
        extracts_answer: Whether a model copies the answer out of a reply; else the whole reply is the answer.
    """

    extracts_answer = True

    def __init__(self, instruction: Instruction, texts: Mapping[str, str], question: str) -> None:
        """Binds the task; `question` is the original instruction."""
        self.instruction = instruction
        self._texts, self._question = texts, question

    @property
    def answer_description(self) -> str:
        """Describes what counts as an answer; part of the prompts that classify a reply and extract the answer."""
        return self.text("answer")

    def system_prompt(self) -> str:
        """Returns the system message, the same under every condition."""
        return self.text("system")

    def full_prompt(self) -> str:
        """Returns the only user turn of FULL: the original instruction."""
        return self.text("full", QUESTION=self._question)

    def concat_prompt(self, shards: Sequence[Shard]) -> str:
        """Returns the only user turn of CONCAT: the shards in the given order, as a list in place of the question."""
        bullets = "".join(f"- {shard.text}\n" for shard in shards)
        return self.text("full", QUESTION=bullets)

    @abstractmethod
    def evaluate(self, answer: str) -> Evaluation:
        """Scores an answer, which may be empty. Does not raise, whatever the model wrote."""

    def text(self, part: str, **places: str) -> str:
        """Returns the prompt `TASK-part` with its places filled."""
        return filled(self._texts[f"{self.instruction.task}-{part}"].strip("\n"), places)


def last_number(text: str) -> str | None:
    """Returns the last number of a text in the form that is compared; None if there is none.

    A number is what the regular expression of the published evaluation matches, which also matches two or more of `$.,`
    without a digit. The form that is compared has no `,`, no `$`, no `.00` after a sum in dollars and no final dot.
    """
    numbers = [match.group() for match in _NUMBER.finditer(text.strip())]
    return _plain(numbers[-1]) if numbers else None


def _plain(number: str) -> str:
    """Returns a number in the form that is compared."""
    if "$" in number:
        number = number.removesuffix(".00")
    return number.replace(",", "").replace("$", "").removesuffix(".")


class MathTask(Task):
    """A word problem with one number as its answer. Keys: `question`, `answer` ("... #### 16")."""

    def __init__(self, instruction: Instruction, texts: Mapping[str, str]) -> None:
        super().__init__(instruction, texts, instruction.text("question"))
        _, mark, gold = instruction.text("answer").partition(_MARK)
        if not mark or not gold.strip():
            raise BadInstruction(
                f"{instruction.task_id}: `answer` must end with {_MARK} and the number."
            )
        self._gold = _plain(gold.strip().lower())

    def evaluate(self, answer: str) -> Evaluation:
        """Scores 1 if the last number of the answer is the known one."""
        number = last_number(answer)
        score = 1.0 if number == self._gold else 0.0
        return Evaluation(score, {"number": number, "gold": self._gold})
