"""Forms: sections and fields as JSON, read, counted and compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePath
from typing import Any

from engine.errors import UsageError

Path = tuple[str, ...]
"""The labels from the top of a form to a field."""

TOPICS = {
    "ss5": "social security card application",
    "epa": "report of an environmental violation",
    "med": "confidential medical history",
    "inv": "invention disclosure",
}
"""The forms of Hakimov et al. (2024), each with what its users are told that it is about."""

DEEPEST = 20
"""Sections within sections; a form that a person could fill has far fewer."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field with where it stands.

    Attributes:
        type: For people; only `multi-choice` changes what an answer is: a list of options.
        options: The only answers that are allowed; empty for a field of free text.
    """

    path: Path
    type: str
    required: bool
    answer: Any
    options: tuple[str, ...] = ()
    info: str = ""

    @property
    def filled(self) -> bool:
        """Whether there is an answer; the empty text says that an optional field was left empty."""
        return self.answer is not None and self.answer != ""


@dataclass(frozen=True, slots=True)
class Form:
    """A form to fill.

    Attributes:
        content: Labels to fields and sections, in order. A field is an object with `answer`; any other object is a
            section. A section may hold an `info` text, and null for a place that is no field, such as a signature.
    """

    name: str
    topic: str
    content: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The name; of a form that a person brings, with a digest, for two files may have one name."""
        if self.name in TOPICS:
            return self.name
        text = json.dumps(self.content, ensure_ascii=True)
        return f"{self.name}-{hashlib.sha256(text.encode('ascii')).hexdigest()[:8]}"

    def blank(self) -> dict[str, Any]:
        """A copy of the content to write answers into, all of them null."""
        copy = deepcopy(dict(self.content))
        for node in field_nodes(copy):
            node["answer"] = None
        return copy


def is_field(node: Any) -> bool:
    """Whether a node of a form is a field."""
    return isinstance(node, dict) and "answer" in node


def fields(node: Mapping[str, Any], above: Path = ()) -> Iterator[Field]:
    """The fields of a section, or of the field itself, in order."""
    if is_field(node):
        yield Field(
            above,
            str(node.get("type", "")),
            bool(node.get("required")),
            node["answer"],
            tuple(node.get("options") or ()),
            str(node.get("info") or ""),
        )
        return
    for label, child in node.items():
        if isinstance(child, dict):
            yield from fields(child, (*above, label))


def fields_under(content: Mapping[str, Any], labels: Collection[str]) -> list[Field]:
    """The fields that have one of these labels, or stand in a section that has it, in order."""
    return [field for field in fields(content) if not set(labels).isdisjoint(field.path)]


def field_nodes(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The field objects themselves, to be written to."""
    for child in node.values():
        if is_field(child):
            yield child
        elif isinstance(child, dict):
            yield from field_nodes(child)


def node_at(content: Mapping[str, Any], path: Path) -> dict[str, Any] | None:
    """The object at a path, or None where there is none."""
    node: Any = content
    for label in path:
        node = node.get(label) if isinstance(node, dict) and not is_field(node) else None
    return node if isinstance(node, dict) else None


def copy_answers(given: Mapping[str, Any], into: dict[str, Any]) -> None:
    """Writes the answers of a filled section into a form, at the same labels; null leaves what stands there."""
    for label, node in given.items():
        target = into.get(label)
        if not isinstance(target, dict) or not isinstance(node, dict):
            continue
        if not is_field(target):
            copy_answers(node, target)
        elif node.get("answer") is not None:
            target["answer"] = node["answer"]


def read_form(name: str, topic: str, value: Any) -> Form:
    """A form out of parsed JSON.

    Raises:
        UsageError: It is none; the message says at which label.
    """
    _check(value, (), DEEPEST)
    form = Form(name, topic, value)
    if is_field(value) or next(fields(value), None) is None:
        raise UsageError(f"The form `{name}` has no field.", "A field is an object with `answer`.")
    return form


def known_form(name: str) -> Form:
    """One of the forms that come along, by its name in `TOPICS`."""
    file = resources.files("engine.simulate.forms") / "blank" / f"{name}.json"
    return read_form(name, TOPICS[name], json.loads(file.read_text("utf-8")))


def form_of_file(path: str, text: str) -> Form:
    """A form that a person brings; the name of the file says what it is about.

    Raises:
        UsageError: The text is no form, or the file is named like one that comes along.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}.") from None
    name = PurePath(path).name.removesuffix(".json")
    if name in TOPICS:
        raise UsageError(f"{path} has the name of a form that comes along.", "Rename the file.")
    return read_form(name, name.replace("-", " ").replace("_", " "), value)


def _check(node: Any, path: Path, deeper: int) -> None:
    where = " / ".join(path) or "the form"
    if not isinstance(node, dict):
        raise UsageError(f"{where} is no object.", "A form is an object of labels.")
    if deeper == 0:
        raise UsageError(f"{where} lies too deep.", f"Sections may be nested {DEEPEST} deep.")
    if is_field(node):
        _check_field(node, where)
        return
    for label, child in node.items():
        if child is not None and not (label == "info" and isinstance(child, str)):
            _check(child, (*path, label), deeper - 1)


def _check_field(node: Mapping[str, Any], where: str) -> None:
    if not isinstance(node.get("required", False), bool):
        raise UsageError(f"{where}: `required` is neither true nor false.")
    options = node.get("options") or []
    if not isinstance(options, list) or not all(isinstance(one, str) for one in options):
        raise UsageError(f"{where}: `options` is no list of texts.")
