"""What the texts of conversations tell about their boundaries, from one pass over them and without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

import numpy as np

from engine.completeness.boundaries import no_boundary_reason
from engine.completeness.conversation_logs import Log, logs_of
from engine.completeness.probe_calibration import Bools
from engine.completeness.tables.hidden_states import BoundaryPlace
from engine.completeness.words import DISTANCES, BoundaryWords, Ints, MessageWords
from engine.conversations import shingle_overlap
from engine.project.project import Project

CONVERSATIONS_PER_READ = 500
"""Number of conversations whose text is in memory at once."""


@dataclass(frozen=True, slots=True)
class LogTexts:
    """What the texts of some conversations tell.

    Attributes:
        ids: The conversations, rising.
        places: The boundaries of each; none where it could end nowhere.
        numbers: Which of all its boundaries these are, from 0.
        reasons: Why each has no boundary; None where it has some.
        words: The words at the boundaries of all conversations, in order.
        runs: The different runs of three words in each conversation, rising.
    """

    ids: list[int]
    places: list[tuple[BoundaryPlace, ...]]
    numbers: list[list[int]]
    reasons: list[str | None]
    words: BoundaryWords
    runs: list[shingle_overlap.Shingles]

    @classmethod
    def read(
        cls, project: Project, ids: Sequence[int], check: Callable[[], None] = lambda: None
    ) -> LogTexts:
        """Reads the texts of these conversations.

        Args:
            ids: Rising; those without messages are left out.
            check: Called now and then; may raise to cancel.
        """
        pages = []
        for first in range(0, len(ids), CONVERSATIONS_PER_READ):
            check()
            pages.append(_of_logs(logs_of(project, ids[first : first + CONVERSATIONS_PER_READ])))
        if not pages:
            pages.append(_of_logs([]))
        before = accumulate((len(page.words.words) for page in pages), initial=0)
        messages = [
            np.where(page.words.messages < 0, -1, page.words.messages + count)
            for page, count in zip(pages, before, strict=False)
        ]
        words = MessageWords.joined([page.words.words for page in pages])
        return cls(
            list(chain.from_iterable(page.ids for page in pages)),
            list(chain.from_iterable(page.places for page in pages)),
            list(chain.from_iterable(page.numbers for page in pages)),
            list(chain.from_iterable(page.reasons for page in pages)),
            BoundaryWords(words, np.concatenate(messages)),
            list(chain.from_iterable(page.runs for page in pages)),
        )

    @property
    def counts(self) -> Ints:
        """Number of boundaries of each conversation, shape (conversations,)."""
        return np.array([len(places) for places in self.places], dtype=np.int64)

    def at(self, rows: Bools) -> LogTexts:
        """Returns the same with some of the boundaries only, given by whether each counts, shape (boundaries,)."""
        kept = iter(rows.tolist())
        numbers = [[number for number in each if next(kept)] for each in self.numbers]
        kept = iter(rows.tolist())
        places = [tuple(place for place in each if next(kept)) for each in self.places]
        return replace(self, places=places, numbers=numbers, words=self.words[rows])


def _of_logs(logs: Sequence[Log]) -> LogTexts:
    """Returns what these logs tell."""
    words = MessageWords.of([piece for log in logs for piece in log.pieces])
    # The first message of each conversation among all of them.
    first = np.concatenate([[0], np.cumsum([len(log.pieces) for log in logs], dtype=np.int64)])
    starts = words.run_starts[first]
    boundaries = [np.array(log.item.boundaries, dtype=np.int64) for log in logs]
    index = np.concatenate([*boundaries, np.empty(0, dtype=np.int64)])
    origin = np.repeat(first[:-1], [len(each) for each in boundaries])
    earlier = index[:, None] - np.arange(DISTANCES)
    messages = np.where(earlier < 0, -1, earlier + origin[:, None])
    return LogTexts(
        [log.id for log in logs],
        [_places(log) for log in logs],
        [list(range(len(log.item.boundaries))) for log in logs],
        [None if log.item.boundaries else no_boundary_reason(log.pieces) for log in logs],
        BoundaryWords(words, messages),
        [np.unique(words.runs[begin:end]) for begin, end in pairwise(starts.tolist())],
    )


def _places(log: Log) -> tuple[BoundaryPlace, ...]:
    """Returns where the boundaries of a log lie."""
    chars = list(accumulate(len(piece.text) for piece in log.pieces))
    return tuple(
        BoundaryPlace(piece.message, piece.step, piece.turn, chars[index], len(piece.text))
        for index in log.item.boundaries
        for piece in (log.pieces[index],)
    )
