"""Reads prompts, which are files that a person can edit, and lays them around a log in tokens.

A prompt file is TOML. What the model reads is `before`, the log, `question`, `reply`; with `chat = true` all but
`reply` stands in a user message of the model's own chat template. `reply` begins the model's answer for it.

The prompts of plays are text files with places in double brackets, `[[LIKE_THIS]]`, in a folder for each kind.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import resources
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from engine.base.conversation import STEP_OPENING
from engine.base.errors import NotFound, UsageError

if TYPE_CHECKING:
    from engine.model.interface import TextTokenizer  # which imports numpy

LOG_MARK = "\x1eLOG\x1e"
"""Text that stands for the log while a chat template is applied."""

_PLACE = re.compile(r"\[\[([A-Z0-9_]+)\]\]")
"""A place in a prompt text that a value is put into, like `[[TASK]]`, with its name."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt file.

    Attributes:
        name: File name without suffix.
        chat: Whether all but `reply` is put into a user message of the model's chat template.
        before, question: Text before and after the log.
        reply: Beginning of the model's answer, written for it.
        end: The answer that means that nothing remains; empty where the prompt has no such answer.
        continuation: The beginning of the answer that means that something remains.
        stop: Texts that end a generated answer.
        max_tokens: Longest generated answer.
    """

    name: str
    chat: bool
    before: str
    question: str
    reply: str
    end: str
    continuation: str
    stop: tuple[str, ...]
    max_tokens: int

    def as_params(self) -> dict[str, Any]:
        """Returns everything that determines what the model reads, for the config hash."""
        return {**asdict(self), "stop": list(self.stop)}

    @property
    def version(self) -> str:
        """The name of the prompt, followed by the first digits of its hash if it differs from the shipped one."""
        if self == parse_prompt(self.name, prompt_text(self.name)):
            return self.name
        content = json.dumps(self.as_params(), sort_keys=True)
        return f"{self.name} {hashlib.sha256(content.encode()).hexdigest()[:6]}"


def prompt_names() -> list[str]:
    """Returns the names of the prompts that come with the program."""
    folder = resources.files("engine.model") / "prompts"
    return sorted(
        file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")
    )


def prompt_text(name: str) -> str:
    """Returns the text of a prompt file that comes with the program.

    Raises:
        UsageError: There is no such prompt.
    """
    if name not in prompt_names():
        raise _no_prompt(name, prompt_names())
    return (resources.files("engine.model") / "prompts" / f"{name}.toml").read_text("utf-8")


def parse_prompt(name: str, text: str) -> Prompt:
    """Reads the text of a prompt file.

    Raises:
        UsageError: The text is not TOML, or a field is missing, unknown or of the wrong type.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The prompt {name} is not valid TOML: {error}.") from error
    known = [field.name for field in fields(Prompt) if field.name != "name"]
    if unknown := sorted(set(values) - set(known)):
        raise UsageError(
            f"The prompt {name} has unknown fields: {', '.join(unknown)}.",
            f"Fields are: {', '.join(known)}.",
        )
    try:
        return msgspec.convert({**values, "name": name}, Prompt)
    except msgspec.ValidationError as error:
        raise UsageError(f"The prompt {name} is none: {error}.") from error


# A prompt in tokens


@dataclass(frozen=True, slots=True)
class TokensAround:
    """The tokens of a prompt: those before a log and those after it."""

    head: list[int]
    tail: list[int]


def tokens_around(prompt: Prompt | None, tokenizer: TextTokenizer) -> TokensAround:
    """Returns the tokens of a prompt around a log; None is the bare log, as a tuned model reads it.

    Only the program's own text is read with control tokens, so a transcript cannot forge a chat turn.
    """
    if prompt is None:
        return TokensAround(tokenizer.tokenize("", special=True, start=True), [])
    if not prompt.chat:
        head = tokenizer.tokenize(prompt.before, special=True, start=True)
        return TokensAround(head, tokenizer.tokenize(prompt.question + prompt.reply))
    content = prompt.before + LOG_MARK + prompt.question
    rendered = tokenizer.render_chat([{"role": "user", "content": content}])
    before, after = rendered.split(LOG_MARK, 1)
    head = tokenize_with_start(tokenizer, before)
    tail = tokenizer.tokenize(after, special=True)
    return TokensAround(head, tail + (tokenizer.tokenize(prompt.reply) if prompt.reply else []))


def tokenize_with_start(tokenizer: TextTokenizer, text: str) -> list[int]:
    """Returns the tokens of the beginning of what a chat template wrote, with the start token in front exactly once."""
    tokens = tokenizer.tokenize(text, special=True)
    # Most templates write the start token themselves; one tokenized in front of it would double it.
    if not tokens or tokens[0] not in tokenizer.tokenize("", special=True, start=True):
        tokens = tokenizer.tokenize(text, special=True, start=True)
    return tokens


def common_length(token_lists: Sequence[Sequence[int]]) -> int:
    """Returns the number of tokens with which all lists begin alike."""
    alike = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*token_lists, strict=False))
    return sum(1 for _ in alike)


def sharable_length(prompts: Sequence[Sequence[int]], least: int) -> int:
    """Returns the length of the common beginning of prompts that one sequence can hold for all of them.

    The last token of each prompt is left out, because its decoding gives the first distribution.

    Args:
        least: Length in tokens below which sharing is not worth it; 0 is returned then.
    """
    shared = min(common_length(prompts), min(map(len, prompts)) - 1)
    return shared if shared >= least else 0


def opening_tokens(tokenizer: TextTokenizer) -> list[int]:
    """Returns the tokens with which every next step begins, whatever its number is."""
    # What two headers with different numbers share, at most the words before the number.
    first = tokenizer.tokenize(f"{STEP_OPENING} 2, STEP 3, user chat:\n")
    other = tokenizer.tokenize(f"{STEP_OPENING} 14, STEP 97, assistant (tool) chat:\n")
    bare = tokenizer.tokenize(STEP_OPENING)
    return first[: min(common_length([first, other]), len(bare))]


# Prompt texts of plays


def prompt_kinds() -> list[str]:
    """Returns the kinds of plays that have prompt texts."""
    folder = resources.files("engine.model") / "prompts"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())


def prompt_texts(kind: str) -> dict[str, str]:
    """Returns the bundled prompt texts of one kind of play by name: the files `prompts/KIND/*.txt`."""
    folder = resources.files("engine.model") / "prompts" / kind
    return {
        file.name.removesuffix(".txt"): file.read_text("utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".txt")
    }


def all_prompt_names() -> list[str]:
    """Returns the names of all prompts that come with the program, those of plays, such as `sharded/user`, last."""
    return [
        *prompt_names(),
        *(f"{kind}/{name}" for kind in prompt_kinds() for name in prompt_texts(kind)),
    ]


def shipped_prompt(name: str) -> str:
    """Returns the text of a prompt as it comes with the program.

    Args:
        name: One of `all_prompt_names`.

    Raises:
        UsageError: There is no such prompt.
    """
    kind, _, name_in_kind = name.partition("/")
    if not name_in_kind:
        return prompt_text(name)
    text = prompt_texts(kind).get(name_in_kind) if kind in prompt_kinds() else None
    if text is None:
        raise _no_prompt(name, all_prompt_names())
    return text


def _no_prompt(name: str, known: Sequence[str]) -> NotFound:
    """Returns the error for a name that no prompt has."""
    return NotFound(f"There is no prompt {name!r}.", f"Prompts are: {', '.join(known)}.")


def places(text: str) -> frozenset[str]:
    """Returns the names of the places in a prompt text."""
    return frozenset(_PLACE.findall(text))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Returns a prompt text with its places filled in one pass, so that brackets in a value stay unchanged.

    Raises:
        KeyError: A place has no value.
    """
    return _PLACE.sub(lambda place: values[place.group(1)], text)
