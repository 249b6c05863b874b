"""What stages ask of a model, whichever engine answers: the model process or endpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from engine.completeness.block import ItemScore, LogItem, Question
from engine.completeness.inline_remaining import RemainingRequest
from engine.jobs.contract import OnProgress
from engine.model.chat import Call, Completion
from engine.model.interface import LoadOptions, Sampling
from engine.model.process.requests import (
    Chat,
    CountTokens,
    Generate,
    Grow,
    GrownTree,
    GrowOn,
    LogProbs,
    Measure,
    MeasureLong,
    Request,
    Score,
    WrittenReply,
)
from engine.model.prompt_files import Prompt
from engine.trees.growth import Budget, Work
from engine.trees.places import Place
from engine.trees.record import TreeRecord
from engine.trees.tree import TreeOptions

T = TypeVar("T")


class ModelClient(ABC):
    """A model that answers requests one at a time; any thread may ask.

    Every request raises `Cancelled` when it was cancelled, and `ModelError` when the model cannot answer it.
    """

    @abstractmethod
    def ask(self, request: Request[T], progress: OnProgress | None = None) -> T:
        """Sends a request and waits for its answer."""

    @abstractmethod
    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        merged: Path | None = None,
    ) -> Mapping[str, Any]:
        """Makes the model ready; `context` of what it returns is its longest sequence in tokens."""

    @abstractmethod
    def spent(self) -> str:
        """What the requests since `load` have cost, in words; empty where they cost nothing but time."""

    def score(
        self,
        items: Sequence[LogItem],
        question: Question,
        progress: OnProgress | None = None,
        remaining: RemainingRequest | None = None,
        *,
        growing: bool = False,
    ) -> list[ItemScore]:
        """Scores one block of conversations; see `engine.completeness.block.score_block`.

        Args:
            remaining: Remaining tasks to write in the same reading of the logs. They may be left out.
            growing: Whether these are logs that grow: what was read of them before is not read again, and what is read
                now is kept for the next time, as far as there is memory. Without a prompt only.
        """
        return self.ask(Score(items, question, remaining, growing), progress)

    def generate(
        self,
        items: Sequence[tuple[Sequence[str], int]],
        prompt: Prompt | None,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop: Sequence[str] = (),
        seed: int = 0,
        progress: OnProgress | None = None,
    ) -> list[WrittenReply]:
        """Writes one reply to each log. Reply i is sampled with `seed + i`; the count of `progress` is replies done.

        Args:
            items: Log pieces, and how many leading pieces a window keeps.
            prompt: Text around each log; None: none.

        Raises:
            RequestRefused: An endpoint refuses one of the logs.
        """
        return self.ask(Generate(items, prompt, sampling, max_tokens, stop, seed), progress)

    def chat(self, calls: Sequence[Call], progress: OnProgress | None = None) -> list[Completion]:
        """Writes the reply to each call, side by side. The count of `progress` is replies done.

        A reply depends on its call alone. A conversation that is too long loses its oldest messages after the system
        message, then the middle of what is left, and `Completion.note` says so.

        Raises:
            ModelError: The model has no chat template, or no room for a conversation beside the reply.
            RequestRefused: An endpoint refuses one of the conversations.
        """
        return self.ask(Chat(calls), progress)

    def log_probs(
        self,
        items: Sequence[tuple[str, Sequence[str]]],
        prompt: Prompt | None,
        progress: OnProgress | None = None,
    ) -> list[list[tuple[float, int]]]:
        """How probable continuations of texts are; see `engine.model.process.log_probs`.

        Args:
            items: A text, and its continuations.
            prompt: Text around each text; a continuation follows its `reply`. None: none.

        Returns:
            For each item and continuation, the natural log-probability and the number of tokens.

        Raises:
            RequestRefused: An endpoint does not show the probability of one of the continuations.
        """
        return self.ask(LogProbs(items, prompt), progress)

    def grow(
        self,
        places: Sequence[Place],
        options: TreeOptions,
        budget: Budget,
        progress: OnProgress | None = None,
    ) -> tuple[list[GrownTree], Work]:
        """Grows one tree at each place, side by side. The count of `progress` is nodes read."""
        return self.ask(Grow(places, options, budget), progress)

    def grow_on(
        self,
        place: Place,
        tree: TreeRecord,
        budget: Budget,
        progress: OnProgress | None = None,
        *,
        alpha: float | None = None,
        below: int | None = None,
    ) -> tuple[GrownTree, Work]:
        """Continues the growth of a recorded tree: below one node to a lower alpha, or everywhere to its own.

        A cancel ends the growth early with what has grown; it raises `Cancelled` only before growth began.

        Returns:
            As `grow`; the recorded answer is not scored again.
        """
        return self.ask(GrowOn(place, tree, budget, alpha, below), progress)

    def count_tokens(self, items: Sequence[Sequence[str]]) -> list[int]:
        """Tokens of each log, a list of pieces."""
        return self.ask(CountTokens(items))

    def measure(self, text: str) -> tuple[float, float]:
        """Measures the model on a text.

        Returns:
            Prompt tokens a second, and the batch noise: the largest change of a probability by what else is computed in
            the same batch.
        """
        return self.ask(Measure(text))

    def measure_long(self, text: str) -> tuple[float, int]:
        """Measures the model on a text so long that attention counts; the text is repeated as needed.

        Returns:
            Prompt tokens a second, and the tokens of the text that was read.
        """
        return self.ask(MeasureLong(text))
