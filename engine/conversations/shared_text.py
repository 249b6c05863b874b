"""Finds text that many conversations share, such as an agent's instructions pasted into the first message of the user.

Texts are compared by windows: a *window* is `WINDOW_WORDS` words in a row, where a Chinese or Japanese character is a
word. The *key* of a window is its words with single spaces between. Two kinds of text are shared:

- *common*: what more than half of the conversations contain in one role: windows within a line, and whole lines of
  fewer words;
- *long*: what messages of users contain in `MIN_LONG_WORDS` words or more in a row, each window of which at least one
  conversation in ten contains: the instructions of one agent among several.

Not covered: instructions with another word in every eight, and instructions that are worded anew each time. A task of
`MIN_LONG_WORDS` words or more that a tenth of the conversations repeat word for word counts as instructions.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import compress, pairwise
from typing import Any, NamedTuple

from engine.base.conversation import Role
from engine.base.text import CJK

WINDOW_WORDS = 8

MIN_LONG_WORDS = 30
"""Number of words in a row from which a shared text is of the long kind."""

MIN_CONVERSATIONS = 5
"""Number of conversations that must contain a text before it counts as shared."""

COMMON_SHARE = 0.5
"""A text is common if more than this share of the conversations contain it."""

LONG_SHARE = 0.1
"""Least share of the conversations that must contain each window of a long shared text."""

MAX_REMEMBERED_TEXTS = 500
"""Number of texts whose rest without shared text stays in memory."""

ROLES: tuple[Role, ...] = ("user", "assistant")
"""Roles whose texts are compared: those that goal texts and openings are made of."""

_WORD = re.compile(f"[{CJK}\u3000-\u303f\uff00-\uff65]|[^\\s{CJK}\u3000-\u303f\uff00-\uff65]+")
"""Finds a word: a Chinese or Japanese character or sign, or other characters between white space."""

_LETTER = re.compile(r"\w")
"""Finds a letter, a digit or an underscore."""

_SENTENCE_END = re.compile("[.!?:;。！？：；][\"')\\]}*”’）」』]*$")
"""Finds the end of a sentence in a word: a sign, with quotation marks or brackets behind it, as in `done.")`."""

Texts = Mapping[Role, Sequence[str]]
"""The texts of one conversation by role."""


# What is shared


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """A text that many conversations share.

    Attributes:
        role: Role of the messages that contain it.
        text: The whole lines and sentences of it, which are left out of messages.
        found_by: `text` with the shared words beside it that are no whole line or sentence. A message contains the
            text if it has the windows of this.
        conversations: Number of compared conversations that contain every window of it.
        common: Whether it is of the common kind; else it is of the long kind.
    """

    role: Role
    text: str
    found_by: str
    conversations: int
    common: bool


@dataclass(frozen=True)
class SharedText:
    """The texts that the conversations of a project share; false where there are none.

    Attributes:
        blocks: The shared texts, the most widespread first.
        looked_at: Number of conversations that were compared.
    """

    blocks: tuple[SharedBlock, ...] = ()
    looked_at: int = 0

    def __bool__(self) -> bool:
        return bool(self.blocks)

    @cached_property
    def digest(self) -> str:
        """Hash of the shared texts, 16 hex digits; empty where there are none."""
        if not self.blocks:
            return ""
        identities = sorted((block.role, block.common, block.found_by) for block in self.blocks)
        return hashlib.sha256(repr(identities).encode("utf-8", "replace")).hexdigest()[:16]

    @cached_property
    def shown(self) -> tuple[SharedBlock, ...]:
        """The texts to show to a person, each once: first those with the most words over all conversations.

        A text that is part of a longer one, which at least as many conversations share, is not among them.
        """
        longest_first: list[SharedBlock] = []
        for block in sorted(self.blocks, key=lambda block: -len(block.text)):
            if not any(
                block.text in longer.text
                and block.role == longer.role
                and block.conversations <= longer.conversations
                for longer in longest_first
            ):
                longest_first.append(block)
        return tuple(
            sorted(longest_first, key=lambda block: -block.conversations * len(block.text.split()))
        )

    def without(self, role: Role, text: str) -> str:
        """Returns a text of a role without what is shared, the remaining pieces on lines of their own.

        A piece without a letter or digit is left out, so that the result may be empty. A text with nothing shared in it
        is returned as it is.
        """
        return self._remove(role, text) if role in self._windows else text

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON value that `from_json` reads."""
        return {"looked_at": self.looked_at, "blocks": [asdict(block) for block in self.blocks]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> SharedText:
        """Returns the shared text from which `as_json` made a JSON value."""
        return cls(tuple(SharedBlock(**block) for block in stored["blocks"]), stored["looked_at"])

    @cached_property
    def _remove(self) -> Callable[[Role, str], str]:
        """The function behind `without`, for roles with shared text.

        Instructions come again and again, so it remembers its last `MAX_REMEMBERED_TEXTS` results.
        """

        def remove(role: Role, text: str) -> str:
            """Returns a text without what it shares, until nothing shared is left."""
            # A remaining piece can be a common line that was part of a longer line before.
            while spans := _spans_to_remove(text, self._windows[role]):
                text = "\n".join(_pieces_around(text, spans))
            return text

        return lru_cache(maxsize=MAX_REMEMBERED_TEXTS)(remove)

    @cached_property
    def _windows(self) -> dict[Role, _SharedWindows]:
        """The windows of the shared texts by role; a role without shared texts is left out."""
        return {
            role: _SharedWindows(self._keys(role, common=True), self._keys(role, common=False))
            for role in {block.role for block in self.blocks}
        }

    def _keys(self, role: Role, *, common: bool) -> set[str]:
        """Returns the keys of the windows of the common, or of the long, shared texts in a role."""
        blocks = [block for block in self.blocks if (block.role, block.common) == (role, common)]
        return {key for block in blocks for key in _window_keys(_Words(block.found_by), common)}


NOTHING_SHARED = SharedText()
"""The shared text of conversations that share none."""


# Finding shared text


def find_shared_text(conversations: Iterable[Texts]) -> SharedText:
    """Returns the texts that conversations share; the order of the conversations does not matter."""
    texts = list(conversations)
    least_common = max(MIN_CONVERSATIONS, int(len(texts) * COMMON_SHARE) + 1)
    least_long = max(MIN_CONVERSATIONS, len(texts) * LONG_SHARE)
    blocks: list[SharedBlock] = []
    for role in ROLES:
        counts: Counter[str] = Counter()
        for conversation in texts:
            keys: set[str] = set()
            for words in map(_Words, conversation.get(role, ())):
                keys.update(_window_keys(words, common=True), _window_keys(words, common=False))
            counts.update(keys)
        common_keys = {key for key, count in counts.items() if count >= least_common}
        long_keys = {key for key, count in counts.items() if count >= least_long}
        windows = _SharedWindows(common_keys, long_keys if role == "user" else frozenset())
        texts_of_role = (text for conversation in texts for text in conversation.get(role, ()))
        blocks += _find_blocks(texts_of_role, role, windows, counts)
    blocks.sort(key=lambda block: (-block.conversations, block.role, block.common, block.text))
    return SharedText(tuple(blocks), len(texts))


def _find_blocks(
    texts: Iterable[str], role: Role, windows: _SharedWindows, counts: Mapping[str, int]
) -> Iterator[SharedBlock]:
    """Yields the stretches of shared text, the longest first, until all shared windows are in one of them.

    Args:
        texts: All texts of one role.
        windows: The windows that are shared in this role.
        counts: Number of conversations that have a window, by its key.
    """
    if not windows:
        return
    # of each stretch (its text, and whether it is common) the whole lines and sentences, as the text with most has them
    whole_by_stretch: dict[tuple[str, bool], str] = {}
    for text in texts:
        words = _Words(text)
        for first, end, common in _find_shared_runs(words, windows, also_inside=True):
            stretch = words.join(first, end), common
            whole_text = words.join(*words.whole_lines(first, end))
            whole_by_stretch[stretch] = max(whole_by_stretch.get(stretch, ""), whole_text, key=len)
    covered: set[tuple[str, bool]] = set()
    for stretch in sorted(whole_by_stretch, key=lambda stretch: (-len(stretch[0]), stretch)):
        stretch_text, common = stretch
        whole_text = whole_by_stretch[stretch]
        keys = list(_window_keys(_Words(stretch_text), common))
        if not whole_text or all((key, common) in covered for key in keys):
            continue
        covered.update((key, common) for key in keys)
        yield SharedBlock(role, whole_text, stretch_text, min(counts[key] for key in keys), common)


# Words and windows


class _Words:
    """The words of a text.

    Attributes:
        texts: The words, in order.
        starts: Position in the text at which each word starts.
        lines: Indexes of the words that begin a line.
    """

    def __init__(self, text: str) -> None:
        """Splits a text into words."""
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.lines: list[int] = []
        line_start = 0
        for line in text.split("\n"):
            if words := _WORD.findall(line):
                self.lines.append(len(self.texts))
                self.texts += words
                self.starts += [line_start + match.start() for match in _WORD.finditer(line)]
            line_start += len(line) + 1
        self._line_set = frozenset(self.lines)

    def end(self, index: int) -> int:
        """Returns the position in the text after a word."""
        return self.starts[index] + len(self.texts[index])

    def whole_lines(self, first: int, end: int) -> tuple[int, int]:
        """Returns the range of the whole lines and sentences among the words from `first` to before `end`.

        Its start and its end are the same if there are none.
        """
        cuts = (index for index in range(first, end + 1) if self._is_cut(index))
        start = next(cuts, first)
        last_cut = next((index for index in range(end, start, -1) if self._is_cut(index)), start)
        return start, last_cut

    def _is_cut(self, index: int) -> bool:
        """Returns whether a line or a sentence begins with a word, or the text ends before that index."""
        if index == len(self.texts) or index in self._line_set:
            return True
        return bool(_SENTENCE_END.search(self.texts[index - 1]))

    def join(self, first: int, end: int) -> str:
        """Returns the words from `first` to before `end`, in their lines."""
        if first == end:
            return ""
        cuts = [first, *(index for index in self.lines if first < index < end), end]
        return "\n".join(" ".join(self.texts[begin:stop]) for begin, stop in pairwise(cuts))


def _window_keys(words: _Words, common: bool) -> Iterator[str]:
    """Returns the keys of the windows of a text that can be common, or that can be part of a long shared text."""
    ranges = _windows_within_lines(words) if common else _windows_across_lines(words)
    return (_window_key(words, first, end) for first, end in ranges)


def _window_key(words: _Words, first: int, end: int) -> str:
    """Returns the key of the words from `first` to before `end`.

    A window has the same key within a line as across lines. The key of a shorter line begins with a line break, which
    tells it from the same words inside a longer line.
    """
    return ("" if end - first == WINDOW_WORDS else "\n") + " ".join(words.texts[first:end])


def _windows_within_lines(words: _Words) -> Iterator[tuple[int, int]]:
    """Yields (first word, word after the last) of each window inside a line, and of each line with fewer words."""
    for first, end in pairwise([*words.lines, len(words.texts)]):
        if end - first < WINDOW_WORDS:
            yield first, end
        for start in range(first, end - WINDOW_WORDS + 1):
            yield start, start + WINDOW_WORDS


def _windows_across_lines(words: _Words) -> Iterator[tuple[int, int]]:
    """Yields (first word, word after the last) of each window, also of those that go on over the end of a line."""
    for start in range(len(words.texts) - WINDOW_WORDS + 1):
        yield start, start + WINDOW_WORDS


# Shared windows in a text


class _SharedWindows:
    """The windows that are shared in one role; false where there are none.

    Attributes:
        common: Keys of the windows of common text.
        long: Keys of the windows of long shared text.
        common_starts: First words of the common windows.
        long_starts: First words of the long windows.
    """

    def __init__(self, common: Collection[str], long: Collection[str]) -> None:
        """Takes the keys of the windows of common and of long text."""
        self.common, self.long = frozenset(common), frozenset(long)
        self.common_starts = {_first_word(key) for key in self.common}
        self.long_starts = {_first_word(key) for key in self.long}

    def __bool__(self) -> bool:
        return bool(self.common or self.long)


def _first_word(key: str) -> str:
    """Returns the first word of the key of a window."""
    return key.lstrip("\n").partition(" ")[0]


class _SharedRun(NamedTuple):
    """A stretch of shared words: index of the first, index after the last, and whether the stretch is common."""

    first: int
    end: int
    common: bool


def _find_shared_runs(
    words: _Words, windows: _SharedWindows, also_inside: bool = False
) -> Iterator[_SharedRun]:
    """Yields the stretches of shared words, in order; with `also_inside` also the common ones inside long ones."""
    texts = words.texts
    common, long = bytearray(len(texts)), bytearray(len(texts))
    if windows.common and not windows.common_starts.isdisjoint(texts):
        for first, end in _windows_within_lines(words):
            if (
                texts[first] in windows.common_starts
                and _window_key(words, first, end) in windows.common
            ):
                common[first:end] = b"\1" * (end - first)
    # n windows of W words, each a word after the one before, make a shared stretch of n + W - 1 words
    if windows.long and not windows.long_starts.isdisjoint(texts):
        begins = bytearray(len(texts))
        possible = map(windows.long_starts.__contains__, texts)
        for first in compress(range(len(texts) - WINDOW_WORDS + 1), possible):
            begins[first] = " ".join(texts[first : first + WINDOW_WORDS]) in windows.long
        for chain in re.finditer(b"\1{%d,}" % (MIN_LONG_WORDS - WINDOW_WORDS + 1), begins):
            first, end = chain.start(), chain.end() + WINDOW_WORDS - 1
            long[first:end] = b"\1" * (end - first)
    if 1 not in common and 1 not in long:
        return
    # a byte for each word: 1 where it is in a common window, 2 where it is in a long text, 3 where it is in both
    kinds = bytes(2 * is_long + is_common for is_long, is_common in zip(long, common, strict=True))
    for run in re.finditer(b"[\2\3]+|\1+", kinds):
        is_only_common = kinds[run.start()] == 1
        if is_only_common:
            yield _SharedRun(run.start(), run.end(), True)
        else:
            yield _SharedRun(run.start(), run.end(), False)
            if also_inside:
                for part in re.finditer(b"\3+", run[0]):
                    yield _SharedRun(run.start() + part.start(), run.start() + part.end(), True)


# Taking shared text out


def _spans_to_remove(text: str, windows: _SharedWindows) -> list[tuple[int, int]]:
    """Returns where each piece of a text that is left out starts and ends.

    These are the whole lines and sentences of each shared stretch. The words at its ends can belong to what is not
    shared, like the first words of goals that begin alike.
    """
    words = _Words(text)
    wholes = (words.whole_lines(first, end) for first, end, _ in _find_shared_runs(words, windows))
    return [(words.starts[first], words.end(end - 1)) for first, end in wholes if first < end]


def _pieces_around(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yields the pieces of a text around spans, without those that have no letter and no digit."""
    position = 0
    for start, end in [*spans, (len(text), len(text))]:
        if _LETTER.search(piece := text[position:start]):
            yield piece.strip()
        position = end
