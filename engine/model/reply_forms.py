"""The form of a structured reply: its fields with their types, limits and meanings, declared once as a
`msgspec.Struct`.

From the declaration follow the JSON schema that a server is given, the words that ask for the form, and the reading of
what a model wrote. Reading is tolerant of how a reply is dressed (thoughts, code fences, bold print, words around the
JSON, `Field: value` on lines of its own), and strict about what it says: a value that cannot be taken for one of its
type, or that is beyond its limit, is an error that says which.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec

from engine.model.chat import split_thinking

FieldsT = TypeVar("FieldsT", bound=msgspec.Struct)
"""The fields of a reply."""

YES_NO_WORDS = {"true": ("true", "yes"), "false": ("false", "no")}
"""The words that answer yes or no, by the JSON value that they stand for."""

YES_NO_LINES = 3
"""Number of first lines of a plain reply in which `read_reply` looks for yes or no."""

_YES_OR_NO = re.compile(
    r"^\W*(?P<first>yes|no)\b"
    r"|(?:[.:,!?\n]\s*|\bis\s+)[\"'*_\s]*(?P<later>yes|no)\b[\"'*_]*(?=\s*(?:[.,;:!—–\n-]|$))",
    re.I,
)
"""Finds a yes or no in one word: the `first` of the reply, as in `**Yes**, both book`, or a `later` one that stands
alone, as in `Answer: "no".` or `The answer is yes.`"""

_MARKS = " \t*_`#\"'"
"""Characters of print that surround a field or its value in a plain reply."""


class UnreadableReply(ValueError):
    """A reply does not have its form; the message says what is wrong, in words that the model is told."""


Limits = Mapping[str, Mapping[str, Any]]
"""What the fields of one reply are limited to beyond their declaration: keywords of JSON schema, by field. An `enum` is
checked when the reply is read; the others only constrain what is written."""


def reply_schema(
    fields: type[msgspec.Struct], limits: Limits = MappingProxyType({})
) -> dict[str, Any]:
    """Returns the JSON schema of a reply, without references, which some servers cannot follow."""
    (schema,), components = msgspec.json.schema_components([fields])
    resolved = _without_references(schema, components)
    for name, keywords in limits.items():
        resolved["properties"][name] |= keywords
    return resolved


def _without_references(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a schema with its references replaced; its objects have no fields beside those declared."""
    if "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    resolved = {name: value for name, value in schema.items() if name not in ("title", "default")}
    if "items" in resolved:
        resolved["items"] = _without_references(resolved["items"], components)
    if "properties" in resolved:
        properties = resolved["properties"].items()
        resolved["properties"] = {
            name: _without_references(value, components) for name, value in properties
        }
        resolved["required"] = list(resolved["properties"])
        resolved["additionalProperties"] = False
    return resolved


def form_request(fields: type[msgspec.Struct]) -> str:
    """Returns the words that ask for the form of a reply."""
    lines = [
        f"- {json.dumps(name)}, {_type_in_words(schema)}: {schema.get('description', '')}"
        for name, schema in reply_schema(fields)["properties"].items()
    ]
    return "\n".join(
        ["Reply with one JSON object and nothing else. Its fields are, in this order:", *lines]
    )


def _type_in_words(schema: Mapping[str, Any]) -> str:
    """Returns the type and the limit of a field, for a model."""
    if "enum" in schema:
        return "one of " + ", ".join(map(json.dumps, schema["enum"]))
    if schema.get("type") == "array":
        return f"a list of at most {schema['maxItems']}, each {_type_in_words(schema['items'])}"
    if schema.get("type") == "object":
        names = (
            f"{json.dumps(name)} ({_type_in_words(value)}: {value.get('description', '')})"
            for name, value in schema["properties"].items()
        )
        return "an object with " + " and ".join(names)
    if schema.get("type") == "string":
        return f"a text of at most {schema['maxLength']} characters"
    return "true or false" if schema.get("type") == "boolean" else "a number"


def read_reply(fields: type[FieldsT], reply: str, limits: Limits = MappingProxyType({})) -> FieldsT:
    """Returns the fields of a reply.

    Raises:
        UnreadableReply: It does not have the form, or a value is not what its field allows.
    """
    _, text = split_thinking(reply.strip())
    schema = reply_schema(fields)["properties"]
    objects = (value for _, value in json_objects(text) if value.keys() & schema.keys())
    values = next(objects, None) or _plain_values(text, schema)
    try:
        reply_fields = msgspec.convert(_with_known_words(values, schema), fields, strict=False)
    except msgspec.ValidationError as error:
        raise UnreadableReply(str(error)) from error
    for name, value in msgspec.to_builtins(reply_fields).items():
        keywords = limits.get(name, {})
        if value not in keywords.get("enum", [value]):
            allowed = ", ".join(map(json.dumps, keywords["enum"]))
            raise UnreadableReply(f"The field {json.dumps(name)} has to be one of {allowed}")
    return reply_fields


def json_objects(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the outermost JSON objects in a text, whatever stands around them: each as it is written, and as a
    value."""
    decoder = json.JSONDecoder(strict=False)  # line breaks within a text are what models write
    position = text.find("{")
    while position >= 0:
        end = position + 1
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield text[position:end], value
        position = text.find("{", end)


def _plain_values(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a reply in plain text.

    They are those on lines `Field: value`. If the first field is answered by yes or no and has no such line, it is the
    yes or no in the first lines of the reply. If a text is all that is asked for and has no such line, it is the whole
    reply.

    Raises:
        UnreadableReply: It has none of them; the message speaks of JSON, which the model was asked for.
    """
    values: dict[str, Any] = {}
    keys = {name.replace("_", " "): name for name in schema}
    for line in text.splitlines():
        label, colon, value = line.partition(":")
        key = keys.get(label.strip(_MARKS + "-").casefold().replace("_", " "))
        if key and colon:
            values[key] = _plain_value(value.strip(_MARKS), schema[key])
    first, *others = schema
    bare = text.strip(_MARKS + "\n")
    yes_or_no = find_yes_or_no("\n".join(bare.splitlines()[:YES_NO_LINES]))
    if yes_or_no and first not in values and schema[first].get("type") == "boolean":
        values[first] = yes_or_no[yes_or_no.lastgroup or 0]
    if not values and not others and schema[first].get("type") == "string" and bare[:1] not in "{[":
        values[first] = bare
    if not values:
        raise UnreadableReply("The reply has no JSON object")
    return values


def _plain_value(text: str, schema: Mapping[str, Any]) -> Any:
    """Returns the value of a field in plain text: of a list what is JSON, or the numbers in it."""
    if schema.get("type") != "array":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return re.findall(r"\d+", text)


def _with_known_words(values: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values in which words are replaced by the JSON values that they stand for, in whatever case they are
    written: yes and no where the field is a boolean, and the values of a field that has one of some."""
    replaced = {}
    for name, value in values.items():
        word = str(value).strip(_MARKS + ".").casefold()
        replaced[name] = _values_by_word(schema.get(name, {})).get(word, value)
    return replaced


def _values_by_word(field_schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON values of a field by the words that stand for them, in small letters; {} for a field without
    them."""
    if field_schema.get("type") == "boolean":
        return {word: name == "true" for name, words in YES_NO_WORDS.items() for word in words}
    return {str(value).casefold(): value for value in field_schema.get("enum", ())}


# Where a reply gives a value, for the probability of that value


class ValuePlace(NamedTuple):
    """Where a reply gives a field one of its values.

    Attributes:
        start: Bytes of the reply before the value.
        value: As `value_words` names it.
        after: The quotation mark behind the value; empty where there is none.
    """

    start: int
    value: str
    after: str


def value_words(schema: str | None, field: str) -> Mapping[str, Sequence[str]]:
    """Returns the values of a field of a JSON schema, each with the words that stand for it; `YES_NO_WORDS` where no
    schema says which values the field has."""
    properties = {} if schema is None else json.loads(schema)["properties"]
    values = properties.get(field, {}).get("enum")
    return {value: (value,) for value in values} if values else YES_NO_WORDS


def find_value(reply: bytes, field: str, words: Mapping[str, Sequence[str]]) -> ValuePlace | None:
    """Returns the place at which a reply, JSON or plain, gives a field one of its values; None where it does not.

    Args:
        words: From `value_words`.
    """
    text = reply.decode("utf-8", "surrogateescape")
    _, answer = split_thinking(text)
    value_by_word = {word.casefold(): value for value, several in words.items() for word in several}
    place = _find_labeled_word(answer, field, value_by_word)
    if place is None and words == YES_NO_WORDS:
        place = find_yes_or_no(answer)
    if place is None:
        return None
    group = place.lastgroup or 0
    start, end = place.span(group)
    answer_start = len(text) - len(answer)  # the answer is the end of the text, after the thoughts
    before = text[: answer_start + start]
    return ValuePlace(
        len(before.encode("utf-8", "surrogateescape")),
        value_by_word[place[group].casefold()],
        '"' if answer.startswith('"', end) else "",
    )


def _find_labeled_word(answer: str, field: str, words: Iterable[str]) -> re.Match[str] | None:
    """Returns where a word follows the name of a field, as in `"same_goal": "yes"` or, at the beginning of a line,
    `**Same goal:** yes`; the group `word` has it. None if none does."""
    any_word = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    json_label = rf'(?<!\\)"{field}"'
    line_label = rf"""^[ \t*_`#"'-]*{field.replace("_", "[ _]")}[ *_`"']*"""
    return re.search(
        rf"""(?:{json_label}|{line_label})\s*:[\s*_`"']*(?P<word>{any_word})(?!\w)""",
        answer,
        re.I | re.M,
    )


def find_yes_or_no(text: str) -> re.Match[str] | None:
    """Returns the first yes or no in one word in a text; its `lastgroup` has the word. None for none."""
    return _YES_OR_NO.search(text)
