"""Text that many conversations share, such as an agent's instructions pasted into the first message of the user.

Texts are compared in windows of `WINDOW` words; a Chinese or Japanese character is a word. Two kinds are shared:

- *common*: what more than half of the conversations contain in one role: windows within a line, and whole lines of
  fewer words;
- *long*: what messages of users contain in `LONG` words or more in a row, each window of which at least one
  conversation in ten contains: the instructions of one agent among several.

Not covered: instructions with another word in every eight, and instructions that are worded anew each time. A task of
`LONG` words or more that a tenth of the conversations repeat word for word counts as instructions.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import compress, pairwise
from typing import Any

from engine.base.conversation import Role
from engine.base.text import CJK

WINDOW = 8
LONG = 30
FEWEST = 5
"""Conversations that must contain a text before it counts as shared."""
MOST, SOME = 0.5, 0.1
KEPT = 500
"""Texts whose rest is kept in memory."""
ROLES: tuple[Role, ...] = ("user", "assistant")
"""Roles whose texts are compared: those of goal texts and openings."""

_WORD = re.compile(f"[{CJK}\u3000-\u303f\uff00-\uff65]|[^\\s{CJK}\u3000-\u303f\uff00-\uff65]+")
_LETTER = re.compile(r"\w")
_SENTENCE_END = re.compile("[.!?:;。！？：；][\"')\\]}*”’）」』]*$")

Texts = Mapping[Role, Sequence[str]]
"""The texts of one conversation by role."""


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """A text that many conversations share.

    Attributes:
        text: Whole lines and sentences, which are left out.
        found_by: `text` with the shared words beside it that are no whole line or sentence; its windows are looked for.
        conversations: How many of those looked at contain every window of it.
        common: Whether it is of the common kind or of the long one.
    """

    role: Role
    text: str
    found_by: str
    conversations: int
    common: bool


@dataclass(frozen=True)
class SharedText:
    """The texts that the conversations of a project share, the most widespread first; false where there are none.

    Attributes:
        looked_at: Number of conversations that were compared.
    """

    blocks: tuple[SharedBlock, ...] = ()
    looked_at: int = 0

    def __bool__(self) -> bool:
        return bool(self.blocks)

    @cached_property
    def digest(self) -> str:
        """Hash of what is left out, 16 hex digits; empty where nothing is."""
        if not self.blocks:
            return ""
        left_out = sorted((one.role, one.common, one.found_by) for one in self.blocks)
        return hashlib.sha256(repr(left_out).encode("utf-8", "replace")).hexdigest()[:16]

    @cached_property
    def shown(self) -> tuple[SharedBlock, ...]:
        """The texts to show to a person, those of most words in sum first: none that is part of a longer one which as
        many conversations share, and each once."""
        first: list[SharedBlock] = []
        for one in sorted(self.blocks, key=lambda one: -len(one.text)):
            if not any(
                one.text in other.text
                and one.role == other.role
                and one.conversations <= other.conversations
                for other in first
            ):
                first.append(one)
        return tuple(sorted(first, key=lambda one: -one.conversations * len(one.text.split())))

    def without(self, role: Role, text: str) -> str:
        """The text without what is shared, its pieces on lines of their own; empty if no letter or digit is left.

        A text with nothing shared in it is returned as it is.
        """
        return self._kept(role, text) if role in self._known else text

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {"looked_at": self.looked_at, "blocks": [asdict(one) for one in self.blocks]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> SharedText:
        """What `as_json` returned."""
        return cls(tuple(SharedBlock(**one) for one in stored["blocks"]), stored["looked_at"])

    @cached_property
    def _kept(self) -> Callable[[Role, str], str]:
        """`without` for a role with shared text. Instructions come again and again, so the last answers are kept."""

        def kept(role: Role, text: str) -> str:
            # What is left can be a common line now that was part of a longer one before.
            while spans := _spans(text, self._known[role]):
                text = "\n".join(_around(text, spans))
            return text

        return lru_cache(maxsize=KEPT)(kept)

    @cached_property
    def _known(self) -> dict[Role, _Known]:
        kinds: dict[Role, tuple[set[str], set[str]]] = {}
        for block in self.blocks:
            keys = kinds.setdefault(block.role, (set(), set()))[block.common]
            keys.update(_keys(_Words(block.found_by), block.common))
        return {role: _Known(common, long) for role, (long, common) in kinds.items()}


NOTHING_SHARED = SharedText()


def find_shared_text(conversations: Iterable[Texts]) -> SharedText:
    """The texts that these conversations share; their order does not matter."""
    texts = list(conversations)
    least_common = max(FEWEST, int(len(texts) * MOST) + 1)
    least_long = max(FEWEST, len(texts) * SOME)
    blocks: list[SharedBlock] = []
    for role in ROLES:
        counts: Counter[str] = Counter()
        for one in texts:
            words = [_Words(text) for text in one.get(role, ())]
            counts.update(
                {key for own in words for kind in (True, False) for key in _keys(own, kind)}
            )
        common = {key for key, count in counts.items() if count >= least_common}
        long = {key for key, count in counts.items() if count >= least_long}
        known = _Known(common, long if role == "user" else frozenset())
        blocks += _blocks(
            (text for one in texts for text in one.get(role, ())), role, known, counts
        )
    blocks.sort(key=lambda one: (-one.conversations, one.role, one.common, one.text))
    return SharedText(tuple(blocks), len(texts))


def _blocks(
    texts: Iterable[str], role: Role, known: _Known, counts: Mapping[str, int]
) -> Iterator[SharedBlock]:
    """The stretches of shared text, the longest first, as many as contain all its windows."""
    if not known:
        return
    found: dict[tuple[str, bool], str] = {}
    for text in texts:
        words = _Words(text)
        for first, last, common in _runs(words, known, also_inside=True):
            block = words.between(first, last), common
            found[block] = max(
                found.get(block, ""), words.between(*words.whole(first, last)), key=len
            )
    taken: set[tuple[str, bool]] = set()
    for (block_text, common), whole in sorted(
        found.items(), key=lambda item: (-len(item[0][0]), item)
    ):
        keys = list(_keys(_Words(block_text), common))
        if not whole or all((key, common) in taken for key in keys):
            continue
        taken.update((key, common) for key in keys)
        yield SharedBlock(role, whole, block_text, min(counts[key] for key in keys), common)


class _Words:
    """The words of a text: where they start, and which of them begin a line."""

    def __init__(self, text: str) -> None:
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.lines: list[int] = []
        at = 0
        for line in text.split("\n"):
            if found := _WORD.findall(line):
                self.lines.append(len(self.texts))
                self.texts += found
                self.starts += [at + match.start() for match in _WORD.finditer(line)]
            at += len(line) + 1
        self._line_set = frozenset(self.lines)

    def end(self, at: int) -> int:
        """Where a word ends."""
        return self.starts[at] + len(self.texts[at])

    def whole(self, first: int, last: int) -> tuple[int, int]:
        """The whole lines and sentences between `first` and before `last`; (first, first) if there are none."""
        cuts = (at for at in range(first, last + 1) if self._is_cut(at))
        start = next(cuts, first)
        end = next((at for at in range(last, start, -1) if self._is_cut(at)), start)
        return start, end

    def _is_cut(self, at: int) -> bool:
        """Whether a line or a sentence begins at a word, or the text ends before it."""
        if at == len(self.texts) or at in self._line_set:
            return True
        return bool(_SENTENCE_END.search(self.texts[at - 1]))

    def between(self, first: int, last: int) -> str:
        """The words from `first` to before `last`, in their lines."""
        if first == last:
            return ""
        cuts = [first, *(at for at in self.lines if first < at < last), last]
        return "\n".join(" ".join(self.texts[one:other]) for one, other in pairwise(cuts))


class _Known:
    """The windows that are shared; `starts` and `long_starts` are the words with which they begin."""

    def __init__(self, common: Collection[str], long: Collection[str]) -> None:
        self.common, self.long = frozenset(common), frozenset(long)
        self.starts = {_first_word(key) for key in self.common}
        self.long_starts = {_first_word(key) for key in self.long}

    def __bool__(self) -> bool:
        return bool(self.common or self.long)


def _first_word(key: str) -> str:
    return key.lstrip("\n").partition(" ")[0]


def _keys(words: _Words, common: bool) -> Iterator[str]:
    """The keys of the windows of a text that can be common, or of those that can be part of a long shared text."""
    places = _within_lines(words) if common else _across_lines(words)
    return (_key(words, first, last) for first, last in places)


def _key(words: _Words, first: int, last: int) -> str:
    """A window has the same key within a line as across lines; a line of fewer words is marked, for it is whole."""
    return ("" if last - first == WINDOW else "\n") + " ".join(words.texts[first:last])


def _within_lines(words: _Words) -> Iterator[tuple[int, int]]:
    """The places of the windows inside lines, and of lines with fewer words."""
    for first, last in pairwise([*words.lines, len(words.texts)]):
        if last - first < WINDOW:
            yield first, last
        for at in range(first, last - WINDOW + 1):
            yield at, at + WINDOW


def _across_lines(words: _Words) -> Iterator[tuple[int, int]]:
    """The places of all windows."""
    for at in range(len(words.texts) - WINDOW + 1):
        yield at, at + WINDOW


def _runs(
    words: _Words, known: _Known, also_inside: bool = False
) -> Iterator[tuple[int, int, bool]]:
    """Yields the places (first, end) of the stretches that are left out, in order, and whether they are common; with
    `also_inside` also the common ones inside long ones."""
    texts = words.texts
    common, long = bytearray(len(texts)), bytearray(len(texts))
    if known.common and not known.starts.isdisjoint(texts):
        for first, last in _within_lines(words):
            if texts[first] in known.starts and _key(words, first, last) in known.common:
                common[first:last] = b"\1" * (last - first)
    if known.long and not known.long_starts.isdisjoint(texts):
        begins = bytearray(len(texts))
        possible = map(known.long_starts.__contains__, texts)
        for first in compress(range(len(texts) - WINDOW + 1), possible):
            begins[first] = " ".join(texts[first : first + WINDOW]) in known.long
        for chain in re.finditer(b"\1{%d,}" % (LONG - WINDOW + 1), begins):
            first, last = chain.start(), chain.end() + WINDOW - 1
            long[first:last] = b"\1" * (last - first)
    if 1 not in common and 1 not in long:
        return
    both = bytes(2 * one + other for one, other in zip(long, common, strict=True))
    for run in re.finditer(b"[\2\3]+|\1+", both):
        if run[0][0] == 1:
            yield run.start(), run.end(), True
        else:
            yield run.start(), run.end(), False
            if also_inside:
                for part in re.finditer(b"\3+", run[0]):
                    yield run.start() + part.start(), run.start() + part.end(), True


def _spans(text: str, known: _Known) -> list[tuple[int, int]]:
    """The places in the text that are left out: of each stretch the whole lines and sentences, for the words at its
    ends can belong to what is not shared, like the first words of goals that begin alike."""
    words = _Words(text)
    wholes = (words.whole(first, last) for first, last, _ in _runs(words, known))
    return [(words.starts[first], words.end(last - 1)) for first, last in wholes if first < last]


def _around(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    """What is left around the spans, without pieces that have no letter and no digit."""
    at = 0
    for start, end in [*spans, (len(text), len(text))]:
        if _LETTER.search(piece := text[at:start]):
            yield piece.strip()
        at = end
