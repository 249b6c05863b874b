"""Forms as JSON: sections and fields; reads forms, walks their fields and copies answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePath
from typing import Any

from engine.base.errors import UsageError
from engine.base.form_scores import Field, Path, fields, is_field

TOPICS = {
    "ss5": "social security card application",
    "epa": "report of an environmental violation",
    "med": "confidential medical history",
    "inv": "invention disclosure",
}
"""The forms of Hakimov et al. (2024), each with the topic that is given to its users."""

AS_PRINTED = "ss5-printed"
"""The form `ss5` with the required fields of Figure 6, where three more are required than in the JSON of the runs."""

ALL_FORMS = {**TOPICS, AS_PRINTED: TOPICS["ss5"]}
"""All forms that come along, with their topics."""

_REQUIRED_IN_PRINT: tuple[Path, ...] = (
    ("1", "Full Name at birth", "First Name"),
    ("1", "Full Name at birth", "Last Name"),
    ("7", "Race", "Select one or more (Your response is voluntary)"),
)

DEEPEST = 20
"""Greatest nesting depth of sections, far more than real forms have."""


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
        """The name; for a form from a user's file with a digest of its content, since two files may have one name."""
        if self.name in ALL_FORMS:
            return self.name
        text = json.dumps(self.content, ensure_ascii=True)
        return f"{self.name}-{hashlib.sha256(text.encode('ascii')).hexdigest()[:8]}"

    def blank(self) -> dict[str, Any]:
        """Returns a copy of the content with all answers null."""
        copy = deepcopy(dict(self.content))
        for node in field_nodes(copy):
            node["answer"] = None
        return copy


def fields_under(content: Mapping[str, Any], labels: Collection[str]) -> list[Field]:
    """Returns the fields with one of these labels on their path, in order."""
    return [field for field in fields(content) if not set(labels).isdisjoint(field.path)]


def field_nodes(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the field objects themselves, so that answers can be written to them."""
    for child in node.values():
        if is_field(child):
            yield child
        elif isinstance(child, dict):
            yield from field_nodes(child)


def node_at(content: Mapping[str, Any], path: Path) -> dict[str, Any] | None:
    """Returns the object at a path; None if there is none."""
    node: Any = content
    for label in path:
        node = node.get(label) if isinstance(node, dict) and not is_field(node) else None
    return node if isinstance(node, dict) else None


def copy_answers(given: Mapping[str, Any], into: dict[str, Any]) -> None:
    """Writes the answers of a filled section into a form, at the same labels; null leaves the existing answer."""
    for label, node in given.items():
        target = into.get(label)
        if not isinstance(target, dict) or not isinstance(node, dict):
            continue
        if not is_field(target):
            copy_answers(node, target)
        elif node.get("answer") is not None:
            target["answer"] = node["answer"]


def read_form(name: str, topic: str, value: Any) -> Form:
    """Reads a form from parsed JSON.

    Raises:
        UsageError: The value is not a form; the message names the label.
    """
    _check(value, (), DEEPEST)
    form = Form(name, topic, value)
    if is_field(value) or next(fields(value), None) is None:
        raise UsageError(f"The form `{name}` has no field.", "A field is an object with `answer`.")
    return form


def known_form(name: str) -> Form:
    """Returns a bundled form by its name in `ALL_FORMS`."""
    stored = "ss5" if name == AS_PRINTED else name
    file = resources.files("engine.simulate.forms") / "blank" / f"{stored}.json"
    form = read_form(name, ALL_FORMS[name], json.loads(file.read_text("utf-8")))
    for path in _REQUIRED_IN_PRINT if name == AS_PRINTED else ():
        node = node_at(form.content, path)
        assert node is not None
        node["required"] = True
    return form


def form_of_file(path: str, text: str) -> Form:
    """Reads a form from the text of a user's file; the file name gives its topic.

    A file with the name of a bundled form, such as the source's own `ss5.json`, has the topic of that form and is
    called `ss5-file`, so that tables keep the two apart.

    Raises:
        UsageError: The text is not a form.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}.") from None
    name = PurePath(path).name.removesuffix(".json")
    if name in ALL_FORMS:
        return read_form(f"{name}-file", ALL_FORMS[name], value)
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
