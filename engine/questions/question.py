"""Questions that are asked of conversations, and the TOML files that define them.

A file has the text of the question, what its answers are, a line of guidance for each, and how a pattern answers it;
its name is the name of the question. `succeeded` and `note` belong to every project. Others come with the program or
are a project's own; a yes-no question that only has a name is a *tag*.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Literal

import msgspec

from engine.base.conversation import Role
from engine.base.errors import FormatError, UsageError
from engine.base.sign import Sign

NOTE = "note"
"""Name of the question whose answer is what a person remarks on a conversation."""

PEOPLE = "people"
"""Stands for all people in a list of who or what answered."""

YES, NO, UNSURE = "yes", "no", "unsure"
"""Answers to yes-no questions."""

QuestionKind = Literal["yes-no", "choice", "several", "scale", "number", "text"]
"""What the answers are: yes, no or unsure; one of the labels; some of them; one, where their order counts; a number;
a text."""

MAX_NAME_CHARACTERS = 60
"""Longest name of a question."""

_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)")
"""Matches an answer to a question for a number."""


class Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a message says that gives an answer. All conditions must hold for one message.

    Attributes:
        answer: The answer that a match gives.
        words: Words or phrases, one of which occurs, whatever their case.
        regex: A regular expression that matches a part, in the syntax of RE2; instead of `words`.
        roles: The roles whose messages are read; empty for all but the system's.
        sign: A sign of trouble that is read in the conversation, instead of `words`; its messages match.
        tools: Names of tools: one of them is called in the message, or the message is the result of its call.
        position: Which of the messages with these roles is read: each, the first or the last.
        least: Number of messages that must match.
    """

    answer: str = YES
    words: tuple[str, ...] = ()
    regex: str = ""
    sign: Sign | None = None
    roles: tuple[Role, ...] = ()
    tools: tuple[str, ...] = ()
    position: Literal["any", "first", "last"] = "any"
    least: int = 1


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question that is asked of each conversation.

    Attributes:
        name: Letters, digits, `_` and `-` (`make_slug`).
        text: The question in words.
        kind: What its answers are.
        guidance: What whoever answers reads beside the question.
        roles: Whose messages it is about, one by one; empty where it is about the conversation as a whole.
        labels: Guidance by answer, in order; the answers that a `choice`, `several` or a `scale` can have.
        patterns: Tried in their order; the first that matches gives the answer.
        otherwise: The answer of the patterns where none matches; empty for none.
        between: The least and the greatest number that answers; None for any.
        windows: What a model reads of a log that does not fit: `all` of it in parts, or the `last` part.
        votes: Number of times that a model is asked.
    """

    name: str = ""
    text: str = ""
    kind: QuestionKind = "yes-no"
    guidance: str = ""
    roles: tuple[Role, ...] = ()
    labels: Mapping[str, str] = {}
    patterns: tuple[Pattern, ...] = ()
    otherwise: str = ""
    between: tuple[float, float] | None = None
    windows: Literal["all", "last"] = "all"
    votes: Annotated[int, msgspec.Meta(ge=1)] = 1

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers that it can have; empty where any number or text will do."""
        return (YES, NO, UNSURE) if self.kind == "yes-no" else tuple(self.labels)

    def answer(self, text: str) -> str:
        """Returns an answer as it is stored, from what was typed or read.

        Raises:
            UsageError: The question cannot have this answer.
        """
        value = " ".join(text.split())
        lowered = {answer.casefold(): answer for answer in self.answers}
        if self.kind == "several":
            parts = [lowered.get(part.strip().casefold()) for part in value.split(",")]
            if None not in parts:
                return ",".join(answer for answer in self.answers if answer in parts)
        elif self.answers:
            if (known := lowered.get(value.casefold())) is not None:
                return known
        elif value and (self.kind == "text" or (_NUMBER.fullmatch(value) and self._allows(value))):
            return value
        expected = ", ".join(self.answers) or f"a {self.kind}"
        if self.between:
            expected += " from {:g} to {:g}".format(*self.between)
        raise UsageError(f"“{value}” is no answer to “{self.name}”.", f"Answers are {expected}.")

    def _allows(self, number: str) -> bool:
        """Returns whether a number is in the range of the answers."""
        low, high = self.between or (-math.inf, math.inf)
        return low <= float(number) <= high


def make_slug(text: str) -> str:
    """Returns the name of a question from words: in lower case, with hyphens between them.

    Raises:
        UsageError: No letter and no digit is in the text, or too many.
    """
    name = hyphenate(text)
    if not name or len(name) > MAX_NAME_CHARACTERS:
        raise UsageError(
            f"A question needs a name of 1 to {MAX_NAME_CHARACTERS} letters.",
            "Write a word or two.",
        )
    return name


def hyphenate(text: str) -> str:
    """Returns the words of a text in lower case with hyphens between them, as filters write names; empty where the
    text has neither letters nor digits."""
    return "-".join(re.findall(r"\w+", text.casefold()))


def parse_question(name: str, text: str) -> Question:
    """Returns the question that a file defines.

    Args:
        name: Name of the question: that of the file without its suffix.

    Raises:
        FormatError: The text is no question.
    """
    try:
        question = msgspec.toml.decode(text, type=Question)
        question = msgspec.structs.replace(question, name=make_slug(name))
        if not question.text.strip():
            raise FormatError(f"The question {name} has no text.", 'Write text = "..." into it.')
        if question.kind in ("choice", "several", "scale") and not question.labels:
            raise FormatError(
                f"The question {name} has no labels.", "Name its answers in the table [labels]."
            )
        for value in (*(pattern.answer for pattern in question.patterns), question.otherwise):
            if value:
                question.answer(value)
    except (msgspec.DecodeError, UsageError) as error:
        raise FormatError(
            f"The question {name} cannot be read: {error}.", "docs/questions.md has examples."
        ) from error
    return question


def check_answerable(question: Question) -> None:
    """Checks a question before it is stored.

    Raises:
        FormatError: No number is in its range, or nobody can type one of its labels.
    """
    if question.between and not question.between[0] <= question.between[1]:
        raise FormatError(
            f"No number is between {question.between[0]:g} and {question.between[1]:g}.",
            "Write the least number first: between = [0, 10].",
        )
    for label in question.labels:
        is_one_answer = question.kind != "several" or "," not in label
        if not label or label != " ".join(label.split()) or not is_one_answer:
            raise FormatError(
                f"The question {question.name} has the label {label!r}, which nobody can type as an answer.",
                "Labels are words on one line; those of `several` have no comma.",
            )


@cache
def read_built_in() -> Mapping[str, Question]:
    """Returns the questions that come with the program, by name."""
    folder = resources.files("engine.questions") / "built_in"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    texts = {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in files}
    return {name: parse_question(name, text) for name, text in texts.items()}


def tag_question(name: str) -> Question:
    """Returns the yes-no question of a tag, of which only the name is known."""
    return Question(name=name, text=f"Is it “{name}”?")
