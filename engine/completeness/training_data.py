"""Which conversations a training run reads and which it never sees.

Every draw depends on a seed and on the text of the one conversation that it is about. So a conversation keeps its
side when others are added, equal texts are always on one side, and a smaller training set is part of a larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.completeness.block import LogItem

VALID = 100
"""Held-out conversations that a run validates on, unless another number is asked for."""

LEAST_FOR_TEST = 2
"""Boundaries that a conversation needs to be cut for the truncation test."""


@dataclass(frozen=True, slots=True)
class Usable:
    """One conversation that could be trained on.

    Attributes:
        key: Its id in the project.
        name: Its id in its source.
        digest: SHA-256 over the text that a model reads.
        boundaries: Places where it could end; at least one.
        chars: Length of that text.
    """

    key: int
    name: str
    digest: bytes
    boundaries: int
    chars: int


@dataclass(frozen=True, slots=True)
class Split:
    """What is on which side, each in the order given.

    Attributes:
        train: To train on, each text once.
        valid: Held-out ones to validate on while training.
        held_out: Everything that was kept from training, `valid` among it.
        twins: Left out of training because their text is there already.
        beyond: Left out of training because there were enough.
    """

    train: tuple[Usable, ...]
    valid: tuple[Usable, ...]
    held_out: tuple[Usable, ...]
    twins: int
    beyond: int

    def held_out_names(self) -> list[str]:
        """Names of what is held out, without those that something trained on has in another source."""
        trained = {one.name for one in self.train}
        return list(dict.fromkeys(o.name for o in self.held_out if o.name not in trained))


def text_digest(texts: Sequence[str]) -> bytes:
    """SHA-256 over the pieces of a log, which tells apart how it is cut into pieces."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def drawn(seed: int, what: str, digest: bytes) -> float:
    """A number in [0, 1) for one conversation; `what` names the draw, so that one says nothing of another."""
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
    """Draws the sides.

    Args:
        held_out: Chance of each conversation to be kept from training, above 0 and below 1.
        limit: Train on so many at most; None: on all of that side.
        valid: Validate on so many held-out ones at most; they have boundaries enough for the truncation test.
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
    """Keys of the conversations to cut so that `share` of `train` is cut; fewer where too few can be."""
    can = [one for one in train if one.boundaries >= LEAST_FOR_TEST]
    can.sort(key=lambda one: drawn(seed, "contaminate", one.digest))
    return {one.key for one in can[: round(share * len(train))]}


def cut(item: LogItem, seed: int) -> LogItem:
    """The log up to a boundary drawn among all but the last: what is left looks as if the user had gone.

    Measures what unlabelled data costs that is not as complete as training takes it to be.
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
