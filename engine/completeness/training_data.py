"""Conversations for training: read from a project, without ground truth, and split into three parts."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.base.conversation import render_log
from engine.completeness.scoring import LogItem, log_item
from engine.conversations.tables import conversations
from engine.project.sql import id_pages

SELECTION_SHARE = 1 / 3
"""Share of the held-out conversations that can be cut which select the checkpoint; the others test it."""

MAX_SELECTION_CONVERSATIONS = 100
"""Largest number of conversations that select the checkpoint: each validation reads them all."""

MIN_BOUNDARIES_TO_CUT = 2
"""Smallest number of boundaries of a conversation that can be cut for the truncation test."""

CONVERSATIONS_PER_PAGE = 200
"""Number of conversations in memory at once."""


@dataclass(frozen=True, slots=True)
class TrainableConversation:
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
    """Conversations in three parts, each in the order in which they were given.

    Attributes:
        train: The conversations to train on, each text once.
        selection: The held-out conversations that select the checkpoint while training; each text once.
        test: The conversations to test the adapter on at the end: the other held-out ones, but for copies of those in
            `selection`.
        held_out: All conversations that are not trained on, `selection` and `test` included.
        twins: Number of conversations left out of training because another one has the same text.
        beyond: Number of conversations left out of training because of the limit.
    """

    train: tuple[TrainableConversation, ...]
    selection: tuple[TrainableConversation, ...]
    test: tuple[TrainableConversation, ...]
    held_out: tuple[TrainableConversation, ...]
    twins: int
    beyond: int

    def held_out_names(self) -> list[str]:
        """Returns the names of the held-out conversations, without those that a training conversation of another
        source has too."""
        return _names_in_one_part(self.held_out, self.train)

    def test_names(self) -> list[str]:
        """Returns the names of the test conversations, without those that a conversation of another part has too, from
        another source."""
        return _names_in_one_part(self.test, (*self.train, *self.selection))


def text_digest(texts: Sequence[str]) -> bytes:
    """Returns the SHA-256 of the pieces of a log; it depends on where one piece ends and the next begins."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def uniform_draw(seed: int, purpose: str, digest: bytes) -> float:
    """Returns a number in [0, 1) for one conversation; the numbers for different purposes are independent."""
    digest_bytes = hashlib.sha256(f"{seed}:{purpose}:".encode() + digest).digest()
    return int.from_bytes(digest_bytes[:6], "big") / (1 << 48)


def split(
    usable: Iterable[TrainableConversation],
    *,
    seed: int,
    held_out: float,
    limit: int | None = None,
) -> Split:
    """Returns conversations split into those to train on and those to hold out.

    Args:
        held_out: Probability of each conversation to be held out, above 0 and below 1.
        limit: Most conversations to train on; None: all that are not held out.
    """
    train: list[TrainableConversation] = []
    held_out_list: list[TrainableConversation] = []
    digests: set[bytes] = set()
    twins = 0
    for conversation in usable:
        if uniform_draw(seed, "side", conversation.digest) < held_out:
            held_out_list.append(conversation)
        elif conversation.digest in digests:
            twins += 1
        else:
            digests.add(conversation.digest)
            train.append(conversation)
    limited = _sample(train, seed, limit)
    selection = _choose_selection(held_out_list, seed)
    selected = {conversation.digest for conversation in selection}
    return Split(
        train=tuple(limited),
        selection=tuple(selection),
        test=tuple(
            conversation for conversation in held_out_list if conversation.digest not in selected
        ),
        held_out=tuple(held_out_list),
        twins=twins,
        beyond=len(train) - len(limited),
    )


def _choose_selection(
    held_out: Sequence[TrainableConversation], seed: int
) -> list[TrainableConversation]:
    """Returns the conversations that select the checkpoint: those of the lowest draws, in the order given.

    Of two or more that can be cut one selects at least, and one is left to test.
    """
    cuttable = {
        conversation.digest: conversation
        for conversation in held_out
        if conversation.boundaries >= MIN_BOUNDARIES_TO_CUT
    }
    draws = {digest: uniform_draw(seed, "selection", digest) for digest in cuttable}
    count = sum(draw < SELECTION_SHARE for draw in draws.values())
    count = min(max(count, 1), len(cuttable) - 1, MAX_SELECTION_CONVERSATIONS)
    lowest = set(sorted(cuttable, key=draws.__getitem__)[: max(count, 0)])
    return [conversation for digest, conversation in cuttable.items() if digest in lowest]


def _names_in_one_part(
    part: Sequence[TrainableConversation], others: Sequence[TrainableConversation]
) -> list[str]:
    """Returns the names of a part, each once, without those that one of the others has too."""
    other_names = {conversation.name for conversation in others}
    return list(
        dict.fromkeys(
            conversation.name for conversation in part if conversation.name not in other_names
        )
    )


def _sample(
    conversations: list[TrainableConversation], seed: int, limit: int | None
) -> list[TrainableConversation]:
    """Returns at most `limit` of the conversations, drawn by the seed, in their order."""
    if limit is None or len(conversations) <= limit:
        return conversations
    order = sorted(
        conversations, key=lambda conversation: uniform_draw(seed, "order", conversation.digest)
    )
    sampled_keys = {conversation.key for conversation in order[:limit]}
    return [conversation for conversation in conversations if conversation.key in sampled_keys]


def usable(conn: sqlite3.Connection, ids: Sequence[int]) -> Iterator[list[TrainableConversation]]:
    """Yields those of these conversations that can be trained on (that have a boundary), in lists that may be empty."""
    for page in id_pages(conn, ids, CONVERSATIONS_PER_PAGE):
        external_ids = conversations.names(conn, page)
        usable_page = []
        for key, messages in conversations.conversations_for(conn, page):
            item = log_item(render_log(messages))
            if item.boundaries:
                usable_page.append(
                    TrainableConversation(
                        key,
                        external_ids[key],
                        text_digest(item.texts),
                        len(item.boundaries),
                        sum(map(len, item.texts)),
                    )
                )
        yield usable_page


def items(conn: sqlite3.Connection, ids: Sequence[int]) -> Iterator[tuple[int, LogItem]]:
    """Yields (id, log) of these conversations, in order of id."""
    for page in id_pages(conn, sorted(ids), CONVERSATIONS_PER_PAGE):
        for key, messages in conversations.conversations_for(conn, page):
            yield key, log_item(render_log(messages))
