"""Parses the replies of modules, and builds the JSON schemas that constrain them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.base.form_scores import Field, fields, is_field

JOINS_LINES = "; "
"""Replaces a line break within a string of a reply."""

TEXT_CHARS = 300
"""Longest text in a reply that follows a schema; a small model would write on until it is cut off."""

Schema = dict[str, Any]


def last_object(reply: str) -> str | None:
    """Returns the last outermost balanced `{...}` of a reply; None without one.

    Ignores braces within strings. Replaces line breaks by "; " within a string and by a space elsewhere.
    """
    found = None
    for begin, end in _balanced(reply):
        found = reply[begin:end]
    return None if found is None else _on_one_line(found)


def parsed(text: str) -> dict[str, Any] | None:
    """Parses a JSON object; returns None if the text is not one."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def alike(given: Any, section: Any) -> bool:
    """Whether a returned section has only labels of the form, with values of the right kinds.

    An answer may be text, a number, a list of texts or null. Labels may be missing.
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
    """Returns the JSON schema of a filled section: only the answer of each field, limited to its options.

    The other keys of a field are left out, because a small model would spend most of its reply on them.
    """
    return _text(_section(section))


def object_schema(properties: Mapping[str, Schema]) -> str:
    """Returns the schema of an object with exactly these properties."""
    return _text(_object(properties))


def pairs_schema(keys: Sequence[str]) -> str:
    """Returns the schema of an object of texts under some of these keys, in this order."""
    schema = _object(dict.fromkeys(keys, TEXT))
    del schema["required"]
    return _text(schema)


def groups_schema(members: Sequence[str], largest: int) -> str:
    """Returns the schema of an object of lists of some of these texts, under any keys."""
    group = {"type": "array", "items": one_of(members), "minItems": 1, "maxItems": largest}
    return _text({"type": "object", "additionalProperties": group})


def one_of(values: Sequence[str | None]) -> Schema:
    """Returns the schema of one of these values."""
    return {"enum": list(values)}


def some_of(values: Sequence[str], most: int) -> Schema:
    """Returns the schema of a list of one to `most` of these texts."""
    return {"type": "array", "items": one_of(values), "minItems": 1, "maxItems": most}


_NAME = "free--text"
"""Name of the definition of a text; no grammar rule made from a label has this name."""

TEXT: Schema = {"$ref": f"#/$defs/{_NAME}"}
"""A text of one to `TEXT_CHARS` characters, defined once however many there are."""


def dumped(value: Any) -> str:
    """Formats JSON as in the prompts."""
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
