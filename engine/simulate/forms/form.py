"""Forms as JSON, the people who fill them, and the comparison of a filled form with the answers that a person knows.

A *label* is a key of a form, above a field (an object with `answer`) or a section (labels again). A *path* is the
labels from the outermost to that of a field.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePath
from typing import Any

from engine.base.errors import UsageError
from engine.simulate.forms.form_scores import Count, LabelPath, fields_of_form, is_field

TOPICS = {
    "ss5": "social security card application",
    "epa": "report of an environmental violation",
    "med": "confidential medical history",
    "inv": "invention disclosure",
}
"""The forms of Hakimov et al. (2024), each with the topic that is given to its users."""

MAX_DEPTH = 20
"""Greatest nesting depth of sections, far more than real forms have."""

DIGEST_CHARS = 8
"""Characters of the digest in the key of a form, each a hexadecimal digit."""

MAX_FACTS = 10
"""Most facts in the prompt of a simulated user for one question."""

_PAPER_DESCRIPTIONS = (
    "a banker living in Downtown New York",
    "a fisherman living on the west coast of the USA",
    "a politician and lawmaker",
    "an actress who moved from France to Los Angeles",
    "a beetroot farmer with German roots and an office job",
    "an olympic swimmer",
    "a brain surgeon",
    "a female soccer player",
    "a social media influencer",
    "a university student",
)
"""The people of section 4.4 of Hakimov et al. (2024); each completes `Imagine you are ...`."""

_WORD = re.compile(r"\w+")
"""A word of a label, a question or an answer: letters, digits and underscores, such as `2nd`."""

_NUMBER = re.compile(r"\d+")
"""A label that is only a number, such as `7`, which is left out of facts."""

_MAX_WEIGHT_RATIO = 3
"""A fact is left out if the best one weighs more than this many times as much."""

MIN_SHARE_OF_WORDS = 0.75
"""Least share of the words of a known answer that a free text must contain."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form to fill.

    Attributes:
        name: A name in `TOPICS`, or one made from the name of the file.
        topic: What the form is about, for the simulated user.
        content: Labels to fields and sections, in order. A field is an object with `answer`; any other object is a
            section. A section may hold an `info` text, and null for a place that is no field, such as a signature.
    """

    name: str
    topic: str
    content: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The name; for a form from a user's file with a digest of its content, since two files may have one name."""
        if self.name in TOPICS:
            return self.name
        text = json.dumps(self.content, ensure_ascii=True)
        digest = hashlib.sha256(text.encode("ascii")).hexdigest()
        return f"{self.name}-{digest[:DIGEST_CHARS]}"

    def blank(self) -> dict[str, Any]:
        """Returns a copy of the content with all answers null."""
        copy = deepcopy(dict(self.content))
        for node in field_nodes(copy):
            node["answer"] = None
        return copy


def field_nodes(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the field objects below a node, in the order of `fields`, so that answers can be written to them."""
    for child in node.values():
        if is_field(child):
            yield child
        elif isinstance(child, dict):
            yield from field_nodes(child)


def copy_answers(given: Mapping[str, Any], form: dict[str, Any]) -> None:
    """Writes the answers of a filled section into a form, at the same labels; null leaves the existing answer."""
    for label, node in given.items():
        target = form.get(label)
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
    _check(value, (), MAX_DEPTH)
    form = Form(name, topic, value)
    if is_field(value) or next(fields_of_form(value), None) is None:
        raise UsageError(f"The form `{name}` has no field.", "A field is an object with `answer`.")
    return form


def known_form(name: str) -> Form:
    """Returns a bundled form by its name in `TOPICS`."""
    file = resources.files("engine.simulate.forms") / "blank" / f"{name}.json"
    return read_form(name, TOPICS[name], json.loads(file.read_text("utf-8")))


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
    if name in TOPICS:
        return read_form(f"{name}-file", TOPICS[name], value)
    return read_form(name, name.replace("-", " ").replace("_", " "), value)


def _check(node: Any, path: LabelPath, levels_left: int) -> None:
    """Checks a section, a field or the whole form; `levels_left` is how many levels may follow.

    Raises:
        UsageError: It cannot be part of a form; the message names the label.
    """
    where = " / ".join(path) or "the form"
    if not isinstance(node, dict):
        raise UsageError(f"{where} is no object.", "A form is an object of labels.")
    if levels_left == 0:
        raise UsageError(f"{where} lies too deep.", f"Sections may be nested {MAX_DEPTH} deep.")
    if is_field(node):
        _check_field(node, where)
        return
    for label, child in node.items():
        if child is not None and not (label == "info" and isinstance(child, str)):
            _check(child, (*path, label), levels_left - 1)


def _check_field(node: Mapping[str, Any], where: str) -> None:
    """Checks the keys of a field that a form file may have wrong.

    Raises:
        UsageError: One of them is of the wrong kind.
    """
    if not isinstance(node.get("required", False), bool):
        raise UsageError(f"{where}: `required` is neither true nor false.")
    options = node.get("options") or []
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise UsageError(f"{where}: `options` is no list of texts.")


# The people who fill forms


@dataclass(frozen=True, slots=True)
class Profile:
    """One person.

    Attributes:
        name: Name of its file, or its number in a list, from 1.
        description: Completes `Imagine you are ...`.
        answers: Answers by form name, nested as in the form. An answer is a text or a list of options; the empty text
            means that this person leaves the field empty.
    """

    name: str
    description: str
    answers: Mapping[str, Mapping[str, Any]]

    def of_form(self, form: str) -> dict[LabelPath, str | list[str]]:
        """Returns the answers to one form by path; {} if the profile has none."""
        return dict(_flat(self.answers.get(form, {}), ()))


def known_profiles() -> tuple[Profile, ...]:
    """Returns the ten bundled profiles, sorted by name."""
    folder = resources.files("engine.simulate.forms") / "people"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(
        Profile(file.name.removesuffix(".json"), **json.loads(file.read_text("utf-8")))
        for file in files
        if file.name.endswith(".json")
    )


def people_of_paper() -> tuple[Profile, ...]:
    """Returns the ten people of section 4.4 of Hakimov et al. (2024), who have a description and no answers."""
    return tuple(
        Profile(str(number), description, {})
        for number, description in enumerate(_PAPER_DESCRIPTIONS, 1)
    )


def facts_for(question: str, answers: Mapping[LabelPath, str | Sequence[str]]) -> list[str]:
    """Returns the facts that a question seems to be about, as `label: answer` lines in order of the form.

    Ranks facts by the words that label and question share; a word weighs the more, the fewer labels have it. Takes the
    best `MAX_FACTS` of them, without those far below the best one; if no word is shared, the first facts. Uses the
    question alone, so that the user does not know which fields a module asks for.
    """
    label_texts = {
        path: " / ".join(label for label in path if not _NUMBER.fullmatch(label))
        for path in answers
    }
    words = {path: set(_words(label)) for path, label in label_texts.items()}
    label_counts = Counter(word for label_words in words.values() for word in label_words)
    asked_words = set(_words(question))
    weights = {
        path: sum(
            # In sorted order, so that the sum is the same in each process.
            math.log(1 + len(answers) / label_counts[word])
            for word in sorted(label_words & asked_words)
        )
        for path, label_words in words.items()
    }
    # The sort is stable: of equal weights, and without any, the earlier facts come first.
    best = sorted(answers, key=lambda path: -weights[path])[:MAX_FACTS]
    if best and weights[best[0]]:
        best = [path for path in best if weights[path] * _MAX_WEIGHT_RATIO >= weights[best[0]]]
    return [
        f"{label_texts[path]}: {_text(answers[path]) or '(none)'}"
        for path in answers
        if path in set(best)
    ]


def _flat(node: Mapping[str, Any], above: LabelPath) -> list[tuple[LabelPath, str | list[str]]]:
    """Returns the answers below a node of a profile, each with its path."""
    answers: list[tuple[LabelPath, str | list[str]]] = []
    for label, child in node.items():
        path = (*above, label)
        answers += _flat(child, path) if isinstance(child, dict) else [(path, child)]
    return answers


# Whether a filled form is right


def right_fields(
    filled: Mapping[str, Any], known: Mapping[LabelPath, str | Sequence[str]]
) -> tuple[Count, Count]:
    """Returns, for required and for optional fields, the number of right fields and of judged fields: fields with a
    known answer, unless both are empty.

    Case and punctuation are ignored. A field with options is right if it has exactly the options of the profile. A free
    text is right if it has all numbers and at least `MIN_SHARE_OF_WORDS` of the words of the known answer; if that is
    empty, the field must be empty too.
    """
    right: dict[bool, list[bool]] = {True: [], False: []}  # by whether the field is required
    for field in fields_of_form(filled):
        answer = known.get(field.path)
        if answer is not None and (field.filled or _words(_text(answer))):
            right[field.required].append(
                _is_right(field.answer, answer, has_options=bool(field.options))
            )
    required, optional = right[True], right[False]
    return (sum(required), len(required)), (sum(optional), len(optional))


def _is_right(given: Any, known: str | Sequence[str], *, has_options: bool) -> bool:
    """Returns whether an answer equals the known one, by the rules of `right_fields`."""
    if isinstance(known, str) and not _words(known):
        return given is None or not _words(_text(given))
    if has_options:
        return _options(given) == _options(known)
    known_words, given_words = _words(_text(known)), set(_words(_text(given)))
    numbers = [word for word in known_words if any(map(str.isdigit, word))]
    matching_words = sum(word in given_words for word in known_words)
    has_all_numbers = all(word in given_words for word in numbers)
    return has_all_numbers and matching_words >= MIN_SHARE_OF_WORDS * len(known_words)


def _options(value: Any) -> set[str]:
    """Returns the options that are chosen, in the form that is compared."""
    chosen = value if isinstance(value, list | tuple) else [value]
    return {" ".join(_words(str(option))) for option in chosen if option is not None}


def _words(text: str) -> list[str]:
    """Returns the words of a text, without case and punctuation."""
    return _WORD.findall(text.casefold())


def _text(value: Any) -> str:
    """Returns an answer as text; "" for None."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
