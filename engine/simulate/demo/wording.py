"""Words templates at random, and gives each simulated user a style: a register, typos, politeness. The words of all
worlds are in `words.toml`.

A template has choices `{a|b}`, which may be nested, and places for values `$name`.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from random import Random
from string import Template
from typing import Any, TypeVar

import msgspec

_CHOICE = re.compile(r"\{([^{}]*)\}")
"""Matches an innermost choice `{a|b}`."""

_SPACES = re.compile(r" {2,}")
"""Matches several spaces, which empty choices leave."""

_BEFORE_POINT = re.compile(r" +([,.?!;:])(?=[\s]|$)")
"""Matches spaces before a punctuation mark that ends a word."""

_WORD = re.compile(r"(?<![$\w/.*_@-])[a-z]{5,}(?![\w/*_@-]|\.\w)")
"""Matches a word that a typo may change: five small letters or more, no `$name`, path, address or code."""

_ARTICLE = re.compile(r"\b(?:the|a|an) (?=[a-z$])")
"""Matches an article, which a foreign user may leave out."""

_STARTS = re.compile(r"(^|[.?!]\s+|(?:^|\n)(?:\d[.)] |- )?)([a-z])")
"""Matches the first letter of a text, a sentence or an item of a list, if it is a small one."""

T = TypeVar("T")


@cache
def _sections() -> dict[str, Any]:
    """Returns the sections of `words.toml`, by name."""
    file = resources.files("engine.simulate.demo") / "words.toml"
    return tomllib.loads(file.read_text("utf-8"))


def words_of(section: str, kind: type[T]) -> T:
    """Returns the words in a section of `words.toml`.

    Raises:
        msgspec.ValidationError: They are not of this kind.
    """
    return msgspec.convert(_sections()[section], kind)


class _People(msgspec.Struct, frozen=True):
    """Names and places; `cjk` has names in Chinese, Japanese and Korean script."""

    first: tuple[str, ...]
    last: tuple[str, ...]
    cjk: tuple[str, ...]
    streets: tuple[str, ...]
    months: tuple[str, ...]
    towns: tuple[str, ...]


class _UserWords(msgspec.Struct, frozen=True):
    """How users color what they say; templates, of the section `user` of `words.toml`.

    Attributes:
        asides: What chatty users add to a message.
        reactions: Short reactions before a message.
        reactions_to_questions: The same before an answer to a question.
    """

    asides: tuple[str, ...]
    reactions: tuple[str, ...]
    reactions_to_questions: tuple[str, ...]


PEOPLE = words_of("people", _People)
"""Names and places of all domains."""

_USER = words_of("user", _UserWords)
"""The words of users."""

REGISTERS = ("plain", "plain", "terse", "hurried", "chatty", "formal", "foreign")
"""How users speak; `plain` is twice as likely as each other."""


def expand(rng: Random, template: str, **values: object) -> str:
    """Returns `template` with one of each `{a|b}` chosen, the innermost first, and each `$name` replaced by its value.

    Raises:
        KeyError: A `$name` has no value.
    """
    return Template(_tidy(_choose(rng, template))).substitute(values)


class Voice:
    """The style of one user, the same in the whole conversation.

    Attributes:
        register: One of `REGISTERS`.
        polite: Whether the user often thanks or reacts before asking for the next thing.
    """

    def __init__(self, rng: Random) -> None:
        self.register = rng.choice(REGISTERS)
        self.polite = rng.random() < 0.6
        self._rng = rng
        self._said = 0  # messages so far
        # The share of words with a typo.
        self._typos = {"hurried": 0.05, "foreign": 0.02}.get(self.register, 0.004)
        self._asides = rng.sample(_USER.asides, 2) if self.register == "chatty" else []

    def say(self, template: str, **values: object) -> str:
        """Returns `template` expanded in this user's style; values are inserted unchanged."""
        return Template(self._apply_style(_tidy(_choose(self._rng, template)))).substitute(values)

    def reply(self, template: str, to_question: bool, **values: object) -> str:
        """Returns the same as `say`, sometimes after a short reaction such as `ok, thanks`.

        Args:
            to_question: Whether the message before asks the user something; then the reaction fits a question.
        """
        words = _USER.reactions_to_questions if to_question else _USER.reactions
        ack = self._rng.choice(words) if self._rng.random() < (0.55 if self.polite else 0.2) else ""
        return self.say(f"{ack} {template}", **values)

    def _apply_style(self, text: str) -> str:
        """Returns a text with asides, typos and the other marks of the register; places `$name` stay."""
        rng = self._rng
        self._said += 1
        if self._asides and self._said <= 3 and rng.random() < 0.5:
            aside = _tidy(_choose(rng, self._asides.pop()))
            ended = text if text[-1] in ".?!:" else text + "."
            text = f"{aside} {text}" if rng.random() < 0.4 else f"{ended} {aside}"
        if self.register == "foreign":
            text = _ARTICLE.sub(lambda m: "" if rng.random() < 0.5 else m.group(), text)
        text = _WORD.sub(lambda m: self._maybe_mistype(m.group()), text)
        if self.register == "hurried":
            text = re.sub(r"(?<![$\w])[A-Z](?=[a-z' ])", lambda m: m.group().lower(), text)
            return text.replace("'", "").rstrip(".")
        return _STARTS.sub(lambda m: m.group(1) + m.group(2).upper(), text)

    def _maybe_mistype(self, word: str) -> str:
        """Returns a word, rarely with two letters swapped or one left out."""
        if self._rng.random() >= self._typos:
            return word
        index = self._rng.randrange(1, len(word) - 2)
        if self._rng.random() < 0.5:
            return word[:index] + word[index + 1] + word[index] + word[index + 2 :]
        return word[:index] + word[index + 1 :]


def _choose(rng: Random, template: str) -> str:
    """Returns a template with one of each choice, the innermost first."""
    while match := _CHOICE.search(template):
        chosen = rng.choice(match.group(1).split("|"))
        template = template[: match.start()] + chosen + template[match.end() :]
    return template


def _tidy(text: str) -> str:
    """Returns a text without the spaces that empty choices leave."""
    return _BEFORE_POINT.sub(r"\1", _SPACES.sub(" ", text)).strip()


def person(rng: Random) -> str:
    """Returns a first and a last name, in about 6% of draws a name in Chinese, Japanese or Korean script."""
    if rng.random() < 0.06:
        return rng.choice(PEOPLE.cjk)
    return f"{rng.choice(PEOPLE.first)} {rng.choice(PEOPLE.last)}"


def reference(rng: Random, length: int = 5) -> str:
    """Returns capital letters and digits, without those that are easily misread (0, 1, 5, I, L, O, S)."""
    return "".join(rng.choices("ABCDEFGHJKMNPQRTUVWXYZ2346789", k=length))


def day(rng: Random) -> str:
    """Returns a day from April to November as people write it: `12 May`."""
    return f"{rng.randint(1, 28)} {rng.choice(PEOPLE.months[3:11])}"
