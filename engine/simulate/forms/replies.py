"""What is made of a module's reply: the last object in it, and JSON schemas that a reply is asked for with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.simulate.forms.form import Field, fields, is_field

JOINS_LINES = "; "
"""Stands for a new line within a text of a reply."""

TEXT_CHARS = 300
"""Longest text in a reply that follows a schema; a small model would write on until it is cut off."""

Schema = dict[str, Any]


def last_object(reply: str) -> str | None:
    """The last balanced `{...}` of a reply that stands in no other, or None.

    Braces within its texts do not count. New lines become "; " within a text and a space elsewhere.
    """
    found = None
    for begin, end in _balanced(reply):
        found = reply[begin:end]
    return None if found is None else _on_one_line(found)


def parsed(text: str) -> dict[str, Any] | None:
    """A JSON object, or None where the text is none."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def alike(given: Any, section: Any) -> bool:
    """Whether a returned section holds no label that the form lacks and values of the form's kinds.

    An answer may be text, a number, a list of texts or null. What a section leaves out is not held against it: the
    form is known.
    """
    if not isinstance(given, dict) or not isinstance(section, dict):
        return isinstance(given, type(section))
    if not given.keys() <= section.keys():
        return False
    return all(
        _is_answer(value)
        if label == "answer" and is_field(section)
        else alike(value, section[label])
        for label, value in given.items()
    )


def section_schema(section: Mapping[str, Any]) -> str:
    """What a filled section looks like: of each field the answer, within its options.

    The rest of a field is known, and a small model would spend most of its reply on repeating it.
    """
    return _text(_section(section))


def object_schema(properties: Mapping[str, Schema]) -> str:
    """An object that has all of these properties and no other."""
    return _text(_object(properties))


def pairs_schema(keys: Sequence[str]) -> str:
    """An object of texts under some of these keys, in this order."""
    schema = _object(dict.fromkeys(keys, TEXT))
    del schema["required"]
    return _text(schema)


def groups_schema(members: Sequence[str], largest: int) -> str:
    """An object of lists of some of these texts, under any keys."""
    group = {"type": "array", "items": one_of(members), "minItems": 1, "maxItems": largest}
    return _text({"type": "object", "additionalProperties": group})


def one_of(values: Sequence[str | None]) -> Schema:
    """One of these values."""
    return {"enum": list(values)}


def some_of(values: Sequence[str], most: int) -> Schema:
    """A list of one to `most` of these texts."""
    return {"type": "array", "items": one_of(values), "minItems": 1, "maxItems": most}


_NAME = "free--text"
"""No rule of a grammar that is made of labels has this name."""

TEXT: Schema = {"$ref": f"#/$defs/{_NAME}"}
"""A text of one to `TEXT_CHARS` characters, defined once however many there are."""


def dumped(value: Any) -> str:
    """JSON as the prompts show it."""
    return json.dumps(value, ensure_ascii=False)


def _balanced(reply: str) -> Iterator[tuple[int, int]]:
    depth = begin = 0
    quoted = escaped = False
    for place, character in enumerate(reply):
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == "{":
            begin = begin if depth else place
            depth += 1
        elif depth:
            quoted = character == '"'
            depth -= character == "}"
            if not depth:
                yield begin, place + 1


def _on_one_line(text: str) -> str:
    parts: list[str] = []
    quoted = escaped = False
    for character in text:
        if character == "\n":
            parts.append(JOINS_LINES if quoted else " ")
            continue
        if character == '"' and not escaped:
            quoted = not quoted
        escaped = character == "\\" and not escaped
        parts.append(character)
    return "".join(parts)


def _is_answer(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return value is None or isinstance(value, str | int | float)


def _section(section: Mapping[str, Any]) -> Schema:
    if is_field(section):
        (field,) = fields(section)
        return _object({"answer": _answer(field)})
    return _object(
        {label: _section(node) for label, node in section.items() if isinstance(node, dict)}
    )


def _answer(field: Field) -> Schema:
    none = [None] if field.required else [None, ""]
    if not field.options:
        return {"anyOf": [TEXT, one_of(none)]}
    if field.type == "multi-choice":
        return {"anyOf": [some_of(field.options, len(field.options)), one_of(none)]}
    return one_of([*field.options, *none])


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(schema: Schema) -> str:
    text = {"type": "string", "minLength": 1, "maxLength": TEXT_CHARS}
    return json.dumps({**schema, "$defs": {_NAME: text}}, ensure_ascii=False)
