"""Examples that teach a model the goal questions: what it reads for each, and the reply that the known goals give.

What is read is made by `engine.goals.questions.questions`, as when it is asked in earnest. Draws depend on the seed alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

import numpy as np

from engine.goals.embedders.tfidf import TfidfEmbedder
from engine.goals.questions.phrasing import named, words_of
from engine.goals.questions.questions import (
    EXAMPLES,
    LABEL_CHARS,
    LABEL_WORDS,
    MERGE_CHARS,
    clipped,
    label_body,
    merge_body,
)
from engine.model.prompting import Prompt

Kind = Literal["summary", "label", "merge", "remaining"]
KINDS: tuple[Kind, ...] = get_args(Kind)

LEAST_TEXTS = 3
"""Texts of each list of a question, at least."""

BODY_CHARS = 2_300
"""About so long are the lists of a question together: some 600 tokens."""

NEAR = 3
"""Goals that count as near to one."""

NEAR_SHARE = 0.75
"""Of the questions about two goals, so many are about near ones."""

WISH_SHARE = 0.5
"""Of the questions about lists, so many show goals in words, as summaries are; the others what users said first."""

LEAST_LABEL = 4
"""Characters that the grammar of labels wants."""


@dataclass(frozen=True, slots=True)
class Known:
    """A conversation whose goal is known.

    Attributes:
        source: Where it comes from; goals of different sources are not compared.
        texts, kept: Its log as a summary is asked for.
        opening: What its user says first.
        goal: The goal's name.
        wish: The goal in words, after "The user wants to".
    """

    id: str
    source: str
    texts: tuple[str, ...]
    kept: int
    opening: str
    goal: str
    wish: str


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A conversation that was cut, with what was left to do, after "The assistant still has to"."""

    id: str
    texts: tuple[str, ...]
    kept: int
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lesson:
    """One example: a prompt, the pieces of text that it is asked about, and the reply after the prompt's beginning."""

    id: str
    prompt: Prompt
    texts: tuple[str, ...]
    kept: int
    reply: str


def lessons(
    known: Sequence[Known],
    unfinished: Sequence[Unfinished],
    prompts: Mapping[Kind, Prompt],
    counts: Mapping[Kind, int],
    seed: int,
) -> list[Lesson]:
    """Up to so many examples of each kind, fewer where the conversations do not give them; a merge question counts
    once for each order.

    Args:
        prompts: The prompt of each kind.
    """
    rng = Random(f"lessons {seed}")
    boards = _boards(known)
    made = [
        *_summaries(known, prompts["summary"], counts["summary"], rng),
        *_labels(boards, prompts["label"], counts["label"], rng),
        *_merges(boards, prompts["merge"], counts["merge"], rng),
        *_remaining(unfinished, prompts["remaining"], counts["remaining"], rng),
    ]
    rng.shuffle(made)
    return made


def remaining_reply(tasks: Sequence[str]) -> str:
    """Tasks as one sentence, after "The assistant still has to"."""
    if len(tasks) < 2:
        return f" {tasks[0]}."
    return f" {', '.join(tasks[:-1])} and {tasks[-1]}."


def label_reply(goal: str) -> str:
    """A goal's name as a reply that the grammar of labels allows, after "Label:"."""
    words = words_of(goal).split()[:LABEL_WORDS]
    label = " ".join(words)
    if len(label) < LEAST_LABEL:
        label += " tasks"
    wish = named(goal).replace(".", " ")
    return f" {label[:1].upper()}{label[1:]}\nSentence: The user wants to {wish}."


class _Board:
    """The conversations of one source by goal, and which goals are near each other."""

    def __init__(self, source: str, members: Mapping[str, Sequence[Known]]) -> None:
        self.source = source
        self.members = {goal: list(many) for goal, many in sorted(members.items())}
        self.goals = list(self.members)
        every = [one for many in self.members.values() for one in many]
        embedder = TfidfEmbedder()
        embedder.fit([one.opening for one in every])
        vectors = embedder.embed([one.opening for one in every])
        goal_of = np.array([self.goals.index(one.goal) for one in every])
        self._every, self._goal_of, self._vectors = every, goal_of, vectors
        centres = np.stack([vectors[goal_of == at].mean(axis=0) for at in range(len(self.goals))])
        norms = np.linalg.norm(centres, axis=1, keepdims=True)
        self._centres = centres / np.maximum(norms, 1e-9)

    def tells_wishes(self, goal: str) -> bool:
        """Whether the goals in words differ from one conversation to the next: equal ones would teach to look for
        equal words."""
        return len({one.wish for one in self.members[goal]}) >= 2 * LEAST_TEXTS

    def near(self, goal: str) -> list[str]:
        """The other goals, nearest first."""
        cosines = self._centres @ self._centres[self.goals.index(goal)]
        order = [self.goals[at] for at in np.argsort(-cosines, kind="stable")]
        return [other for other in order if other != goal]

    def strangers(self, goal: str) -> list[Known]:
        """Conversations with another goal, nearest to this one's middle first."""
        at = self.goals.index(goal)
        order = np.argsort(-(self._vectors @ self._centres[at]), kind="stable")
        return [self._every[row] for row in order if self._goal_of[row] != at]

    def of_neither(self, first: str, second: str) -> list[Known]:
        """Conversations with neither goal."""
        return [one for one in self._every if one.goal not in (first, second)]


def _boards(known: Sequence[Known]) -> list[_Board]:
    """The sources with two goals or more that open in ways enough to be halved. Goals that are several at once are
    left out: whether they are one with a part of them nobody has said."""
    sources: dict[str, dict[str, list[Known]]] = defaultdict(lambda: defaultdict(list))
    for one in known:
        sources[one.source][one.goal].append(one)
    boards = []
    for source, goals in sorted(sources.items()):
        large = {
            goal: many
            for goal, many in goals.items()
            if "+" not in goal and len({one.opening for one in many}) >= 2 * LEAST_TEXTS
        }
        if len(large) > 1:
            boards.append(_Board(source, large))
    return boards


def _summaries(known: Sequence[Known], prompt: Prompt, count: int, rng: Random) -> Iterator[Lesson]:
    goals: dict[tuple[str, str], list[Known]] = defaultdict(list)
    for one in known:
        goals[one.source, one.goal].append(one)
    for many in goals.values():
        rng.shuffle(many)
    # Sources by turns, in each its goals by turns, so that a large one does not drown the others.
    turns: dict[str, list[list[Known]]] = defaultdict(list)
    for (source, _), many in sorted(goals.items()):
        turns[source].append(many)
    given = 0
    while given < count and turns:
        for source in list(turns):
            rows = turns[source]
            many = rows.pop(0)
            one = many.pop()
            if many:
                rows.append(many)
            if not rows:
                del turns[source]
            yield Lesson(f"summary:{one.id}", prompt, one.texts, one.kept, f" {one.wish}.")
            given += 1
            if given == count:
                return


def _labels(boards: Sequence[_Board], prompt: Prompt, count: int, rng: Random) -> Iterator[Lesson]:
    for nth in range(count if boards else 0):
        board = boards[nth % len(boards)]
        goal = rng.choice(board.goals)
        wishes = board.tells_wishes(goal) and rng.random() < WISH_SHARE
        mine = _some(board.members[goal], wishes, rng)
        near = _some(board.strangers(goal)[: 2 * EXAMPLES], wishes, rng)
        size = _size([mine, near], LABEL_CHARS, rng)
        body = label_body(mine[:size], near[:size])
        yield Lesson(f"label:{nth}:{board.source}/{goal}", prompt, (body,), 0, label_reply(goal))


def _merges(boards: Sequence[_Board], prompt: Prompt, count: int, rng: Random) -> Iterator[Lesson]:
    for nth in range(count // 2 if boards else 0):
        board = boards[nth // 2 % len(boards)]
        same = nth % 2 == 0
        goal = rng.choice(board.goals)
        near = board.near(goal)
        other = rng.choice(near[:NEAR] if rng.random() < NEAR_SHARE else near)
        wishes = (
            board.tells_wishes(goal) and board.tells_wishes(other) and rng.random() < WISH_SHARE
        )
        members = _some(board.members[goal], wishes, rng, 2 * EXAMPLES)
        half = len(members) // 2
        first = members[:half] if same else members
        second = members[half:] if same else _some(board.members[other], wishes, rng)
        rest = _some(board.of_neither(goal, other), wishes, rng)
        size = _size([first, second], MERGE_CHARS, rng)
        sides = (first[:size], second[:size])
        reply = prompt.end if same else prompt.continuation
        for order, (one, two) in enumerate((sides, sides[::-1])):
            body = merge_body(one, two, rest[:size])
            yield Lesson(f"merge:{nth}:{order}", prompt, (body,), 0, reply)


def _remaining(
    unfinished: Sequence[Unfinished], prompt: Prompt, count: int, rng: Random
) -> Iterator[Lesson]:
    for one in rng.sample(list(unfinished), min(count, len(unfinished))):
        reply = remaining_reply(one.tasks)
        yield Lesson(f"remaining:{one.id}", prompt, one.texts, one.kept, reply)


def _some(
    many: Sequence[Known], wishes: bool, rng: Random, count: int = EXAMPLES
) -> tuple[str, ...]:
    """Texts for conversations, drawn: what their users say first, or what they want in words, no text twice."""
    texts = [f"The user wants to {one.wish}." if wishes else one.opening for one in many]
    different = sorted(set(texts))
    return tuple(rng.sample(different, min(count, len(different))))


def _size(lists: Sequence[Sequence[str]], chars: int, rng: Random) -> int:
    """How many texts of each list are shown: any number that fits."""
    shown = [len(clipped(text, chars)) + 3 for texts in lists for text in texts]
    most = int(BODY_CHARS / (3 * sum(shown) / len(shown)))
    return rng.randint(LEAST_TEXTS, max(LEAST_TEXTS, min(EXAMPLES, most)))
