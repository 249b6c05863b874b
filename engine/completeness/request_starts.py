"""Finds the messages of a user that begin another request, by the curve of scores and the words.

A message begins a request where what was asked before may be done (the score at the boundary before it is not low) and
the user asks anew: the message has new words, and its turn takes up hardly any word of before. Words that many of the
conversations have say nothing of that and do not count. How well that works is measured in docs/results/requests.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from engine.conversation import Message

LEAST_BEFORE = 0.2
"""Least normalised score at the boundary before; below, the request is not done."""
LEAST_NEW = 2
"""Least number of words in the message that the conversation did not have before."""
MOST_TAKEN_UP = 0.2
"""Greatest share of the words of the turn (message and answers) that the conversation had before."""
COMMON = 1 / 3
"""Share of the conversations from which on a word is common and does not count."""
_ALWAYS_RARE = 2
"""Number of conversations up to which a word counts, however few there are."""

_WORD = re.compile(r"\w+")


def common_words(conversations: Iterable[Sequence[Message]]) -> frozenset[str]:
    """The words that more than `COMMON` of the conversations have."""
    number, having = 0, Counter[str]()
    for messages in conversations:
        number += 1
        having.update(set().union(*(_words(one.seen) for one in messages)))
    most = max(_ALWAYS_RARE, COMMON * number)
    return frozenset(word for word, count in having.items() if count > most)


def request_starts(
    messages: Sequence[Message], curve: Mapping[int, float], common: frozenset[str]
) -> list[int]:
    """Returns the indices of the messages that begin a further request, ascending.

    Args:
        curve: Normalised score (0 to 1) by the index of the message after which the conversation could end.
        common: From `common_words`.
    """
    found = []
    before: set[str] = set()
    score: float | None = None
    starts = [at for at, one in enumerate(messages) if one.role == "user"]
    for at, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        own = _words(messages[at].seen) - common
        turn = own.union(*(_words(one.seen) for one in messages[at:end])) - common
        done = score is not None and score >= LEAST_BEFORE
        anew = len(own - before) >= LEAST_NEW and len(turn & before) <= MOST_TAKEN_UP * len(turn)
        if done and anew:
            found.append(at)
        before |= turn
        score = next((curve[one] for one in range(end - 1, at - 1, -1) if one in curve), score)
    return found


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
