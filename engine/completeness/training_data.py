"""Splits conversations into those to train on and those held out.

Each random draw depends on a seed and on the text of one conversation alone. So a conversation keeps its side when
others are added, equal texts are always on the same side, and a smaller training set is part of a larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.completeness.block import LogItem

VALID = 100
"""Most held-out conversations that a run validates on."""

LEAST_FOR_TEST = 2
"""Fewest boundaries of a conversation that can be cut for the truncation test."""


@dataclass(frozen=True, slots=True)
class Usable:
    """A conversation that can be trained on.

    Attributes:
        key: Its id in the project.
        name: Its id in its source.
        digest: SHA-256 of the text that a model reads, see `text_digest`.
        boundaries: Number of places where it could end; at least one.
        chars: Length of that text in characters.
    """

    key: int
    name: str
    digest: bytes
    boundaries: int
    chars: int


@dataclass(frozen=True, slots=True)
class Split:
    """The two sides of a split, each in the order given.

    Attributes:
        train: To train on, each text once.
        valid: The held-out ones to validate on while training.
        held_out: All held-out conversations, `valid` included.
        twins: How many are left out of training because another one has the same text.
        beyond: How many are left out of training because of the limit.
    """

    train: tuple[Usable, ...]
    valid: tuple[Usable, ...]
    held_out: tuple[Usable, ...]
    twins: int
    beyond: int

    def held_out_names(self) -> list[str]:
        """Names of the held-out conversations, without those that a training conversation of another source has too."""
        trained = {one.name for one in self.train}
        return list(dict.fromkeys(o.name for o in self.held_out if o.name not in trained))


def text_digest(texts: Sequence[str]) -> bytes:
    """SHA-256 of the pieces of a log; it depends on where one piece ends and the next begins."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def drawn(seed: int, what: str, digest: bytes) -> float:
    """A number in [0, 1) for one conversation; draws with different names `what` are independent."""
    found = hashlib.sha256(f"{seed}:{what}:".encode() + digest).digest()
    return int.from_bytes(found[:6], "big") / (1 << 48)


def split(
    usable: Iterable[Usable],
    *,
    seed: int,
    held_out: float,
    limit: int | None = None,
    valid: int = VALID,
) -> Split:
    """Splits conversations.

    Args:
        held_out: Probability of each conversation to be held out, above 0 and below 1.
        limit: Most conversations to train on; None: all that are not held out.
        valid: Most held-out conversations to validate on, of those that can be cut for the truncation test.
    """
    train: list[Usable] = []
    kept: list[Usable] = []
    seen: set[bytes] = set()
    twins = 0
    for one in usable:
        if drawn(seed, "side", one.digest) < held_out:
            kept.append(one)
        elif one.digest in seen:
            twins += 1
        else:
            seen.add(one.digest)
            train.append(one)
    chosen = _first(train, seed, limit)
    testable = {one.digest: one for one in kept if one.boundaries >= LEAST_FOR_TEST}
    return Split(
        train=tuple(chosen),
        valid=tuple(_first(list(testable.values()), seed, valid)),
        held_out=tuple(kept),
        twins=twins,
        beyond=len(train) - len(chosen),
    )


def to_cut(train: Sequence[Usable], seed: int, share: float) -> set[int]:
    """Keys of conversations to cut, `share` of `train`; fewer where too few can be cut."""
    can = [one for one in train if one.boundaries >= LEAST_FOR_TEST]
    can.sort(key=lambda one: drawn(seed, "contaminate", one.digest))
    return {one.key for one in can[: round(share * len(train))]}


def cut(item: LogItem, seed: int) -> LogItem:
    """The log up to a boundary drawn among all but the last, as if the user had left there.

    Training takes unlabelled conversations to be complete; cutting some measures what it costs when they are not.
    """
    place = drawn(seed, "cut", text_digest(item.texts))
    keep = 1 + int(place * (len(item.boundaries) - 1))
    boundaries = item.boundaries[:keep]
    return replace(item, texts=item.texts[: boundaries[-1] + 1], boundaries=boundaries)


def _first(many: list[Usable], seed: int, limit: int | None) -> list[Usable]:
    if limit is None or len(many) <= limit:
        return many
    order = sorted(many, key=lambda one: drawn(seed, "order", one.digest))
    chosen = {one.key for one in order[:limit]}
    return [one for one in many if one.key in chosen]
