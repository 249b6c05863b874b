"""Schedules the trees that grow on one model: which grow now, their KV cache sequences, and prompts that share
cells."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.model.interface import TokenModel
from engine.trees.tree import Tree

PROMPT_CELLS = 1536
"""Most tokens of the prompts of trees that grow at once, unless one prompt alone is longer. Every decode attends over
all occupied cells, so more would slow it."""

LEAST_SHARED = 16
"""Least length in tokens of a common prefix for a prompt to reuse another's cells."""


@dataclass(slots=True)
class Job:
    """One tree to grow.

    Attributes:
        prompt: Tokens before the root; at least one.
        answer: Tokens of the recorded answer, scored on the same pass; may be empty.
        answer_log_probs: Natural log-probabilities of the answer's tokens, untransformed, filled while growing.
    """

    tree: Tree
    prompt: Sequence[int]
    answer: Sequence[int] = ()
    answer_log_probs: list[float] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class GrowingTree:
    """A tree while it grows.

    Attributes:
        trunk: Sequence that holds the prompt without its last token, which every new path decodes itself.
        decoded: Number of tokens in the trunk.
        origin: The tree whose cells the first `shared` tokens of this prompt use; None without one.
        held: Node id -> sequence that holds the path before the token of that waiting node.
    """

    job: Job
    trunk: int
    decoded: int = 0
    origin: GrowingTree | None = None
    shared: int = 0
    held: dict[int, int] = field(default_factory=dict)

    @property
    def base(self) -> int:
        """Position of the prompt's last token; a node of depth d is at base + d."""
        return len(self.job.prompt) - 1

    @property
    def prefilled(self) -> bool:
        """Whether the trunk holds the whole prompt but its last token."""
        return self.decoded == self.base

    @property
    def done(self) -> bool:
        """Whether nothing of the tree or of its recorded answer waits to be read."""
        job = self.job
        answered = bool(job.answer_log_probs) or not job.answer
        return self.prefilled and answered and job.tree.next_path is None


class Roster:
    """The trees that grow now, the trees that wait, and the sequences of the model."""

    def __init__(self, model: TokenModel, jobs: Sequence[Job], most: int) -> None:
        """Prepares; the model's cache must be empty.

        Args:
            most: Most trees that grow at once.
        """
        self._model, self._most = model, most
        self._free = list(range(model.capacity.sequences - 1, -1, -1))
        # Sorted, so that prompts with a common prefix are adjacent and can share cells.
        self._waiting = deque(sorted(jobs, key=lambda job: list(job.prompt)))
        self.lives: list[GrowingTree] = []

    @property
    def empty(self) -> bool:
        """Whether no tree grows or waits."""
        return not self.lives and not self._waiting

    def admit(self) -> None:
        """Starts waiting trees while their prompts and some branches for each fit."""
        while self._waiting and self._free and len(self.lives) < self._most:
            job = self._waiting[0]
            origin, shared = self._most_alike(job)
            if origin and origin.decoded < shared:
                return  # cheaper: wait until the shared part of the other prompt is decoded
            if self.lives and not self._fits(len(job.prompt) - shared):
                return
            live = GrowingTree(job, self._free.pop(), shared, origin, shared)
            if origin:
                self._model.fork(origin.trunk, live.trunk, shared)
            self.lives.append(live)
            self._waiting.popleft()

    def leave(self, live: GrowingTree) -> None:
        """Removes a finished tree and frees its sequences, unless the next prompt can reuse its trunk best."""
        for sequence in live.held.values():
            self.release(sequence)
        self.lives.remove(live)
        job = self._waiting[0] if self._waiting else None
        common = _common(live, job) if job else 0
        fits = not self.lives or (job and self._fits(len(job.prompt) - live.shared, live))
        if job and fits and common > self._most_alike(job)[1]:
            self._model.drop(live.trunk, common)
            self.lives.append(GrowingTree(job, live.trunk, common, live, common))
            self._waiting.popleft()
        else:
            self.release(live.trunk)
        self._hand_over_cells(live)

    def begin(self, live: GrowingTree) -> int:
        """Returns a sequence forked from a tree's trunk; evicts the least probable waiting path if none is free."""
        sequence = self.take()
        if sequence is None:
            self._evict()
            sequence = self._free.pop()
        if live.base:
            self._model.fork(live.trunk, sequence, live.base)
        return sequence

    def _evict(self) -> None:
        holders = [
            (live.job.tree.nodes[node].path, -node, at)
            for at, live in enumerate(self.lives)
            for node in live.held
        ]
        if holders:
            _, negative, at = min(holders)
            self.release(self.lives[at].held.pop(-negative))

    def take(self) -> int | None:
        """Returns a free sequence for a path; None when none is free or the cache would overflow."""
        if not self._free or self._branches >= self.most_branches:
            return None
        return self._free.pop()

    def release(self, sequence: int) -> None:
        """Clears a sequence and makes it free."""
        self._model.drop(sequence)
        self._free.append(sequence)

    @property
    def most_branches(self) -> int:
        """Most sequences that can hold paths, so that prompts and paths fit the cache."""
        capacity = self._model.capacity
        room = capacity.cells - self._prompt_cells() - capacity.batch
        return max(1, min(room // self._longest, capacity.sequences - len(self.lives)))

    @property
    def _branches(self) -> int:
        """Number of sequences that hold paths now."""
        return self._model.capacity.sequences - len(self._free) - len(self.lives)

    @property
    def _longest(self) -> int:
        return max(live.job.tree.options.max_tokens for live in self.lives) + 1

    def _prompt_cells(self) -> int:
        return sum(len(live.job.prompt) - live.shared for live in self.lives)

    def _fits(self, more: int, leaving: GrowingTree | None = None) -> bool:
        """Whether this many more prompt tokens fit, with all other prompts and the longest possible paths."""
        prompts = self._prompt_cells() + more
        if leaving:  # the cells that another tree shares stay
            heirs = [live.shared for live in self.lives if live.origin is leaving]
            prompts += max(heirs, default=0)
        paths = (self._branches + 1) * self._longest + self._model.capacity.batch
        return prompts <= PROMPT_CELLS and prompts + paths <= self._model.capacity.cells

    def _most_alike(self, job: Job) -> tuple[GrowingTree | None, int]:
        """Returns the growing tree with the longest common prefix with a job's prompt, and its length in tokens."""
        found: tuple[GrowingTree | None, int] = (None, 0)
        for live in self.lives:
            common = _common(live, job)
            if common > found[1]:
                found = live, common
        return found

    def _hand_over_cells(self, leaving: GrowingTree) -> None:
        """Makes the tree that shares most cells with a leaving one the origin of the others that share them."""
        heirs = [live for live in self.lives if live.origin is leaving]
        if not heirs:
            return
        first = max(heirs, key=lambda live: live.shared)
        for heir in heirs:
            heir.origin = first
        first.origin, first.shared = leaving.origin, min(first.shared, leaving.shared)


def _common(live: GrowingTree, job: Job) -> int:
    """Returns the length of the common prefix without either last token; 0 if below `LEAST_SHARED`."""
    low, high = 0, min(live.base, len(job.prompt) - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if list(live.job.prompt[low:middle]) == list(job.prompt[low:middle]):
            low = middle
        else:
            high = middle - 1
    return low if low >= LEAST_SHARED else 0
