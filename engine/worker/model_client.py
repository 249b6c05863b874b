"""What stages ask of a model, whichever engine answers: the model process or endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from engine.completeness.block import ItemScore, LogItem, Question
from engine.completeness.inline_remaining import RemainingRequest
from engine.model.interface import LoadOptions, Sampling
from engine.model.prompting import Prompt
from engine.model.talking import Call, Completion
from engine.trees.growth import Budget
from engine.trees.places import Place
from engine.trees.record import TreeRecord
from engine.trees.tree import TreeOptions
from engine.worker.process import OnProgress
from engine.worker.protocol import Frame, GrownTree

__all__ = ["ModelClient", "OnProgress"]


class ModelClient(Protocol):
    """See `engine.worker.client.ModelProcess` for each request."""

    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        merged: Path | None = None,
    ) -> Mapping[str, Any]:
        """Makes the model ready; `context` is its longest sequence in tokens."""

    def score(
        self,
        items: Sequence[LogItem],
        question: Question,
        progress: OnProgress | None = None,
        spelling: RemainingRequest | None = None,
    ) -> list[ItemScore]:
        """Scores one block of conversations; what `spelling` asks for may be left out."""

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
    ) -> list[Frame]:
        """Writes one reply to each log."""

    def chat(self, calls: Sequence[Call], progress: OnProgress | None = None) -> list[Completion]:
        """Writes the reply to each call."""

    def log_probs(
        self,
        items: Sequence[tuple[str, Sequence[str]]],
        prompt: Prompt | None,
        progress: OnProgress | None = None,
    ) -> list[list[tuple[float, int]]]:
        """How probable texts are as what follows others."""

    def grow(
        self,
        places: Sequence[Place],
        options: TreeOptions,
        budget: Budget,
        progress: OnProgress | None = None,
    ) -> tuple[list[GrownTree], Frame]:
        """Grows one tree at each place."""

    def grow_on(
        self,
        place: Place,
        tree: TreeRecord,
        budget: Budget,
        progress: OnProgress | None = None,
        *,
        alpha: float | None = None,
        below: int | None = None,
    ) -> tuple[GrownTree, Frame]:
        """Grows a recorded tree on."""

    def count_tokens(self, items: Sequence[Sequence[str]]) -> list[int]:
        """Tokens of each log."""

    def measure(self, text: str) -> tuple[float, float]:
        """Prompt tokens a second, and the largest change of a probability by what is computed beside it."""

    def measure_long(self, text: str) -> tuple[float, int]:
        """Prompt tokens a second on a long text, and how many tokens that text had."""

    def spent(self) -> str:
        """What the requests since the model was made ready have cost, in words; empty where they cost nothing but
        time."""
