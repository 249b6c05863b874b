"""Requests to a model, and what they are answered with. Each crosses the pipe by the codec of `protocol`.

The type argument of `Request` is the type of the answer. `ModelClient` has a method for each request and describes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.completeness.block import ItemScore, LogItem, Question
from engine.completeness.inline_remaining import RemainingRequest
from engine.model.chat import Call, Completion
from engine.model.generation import Stopped
from engine.model.interface import LoadOptions, Sampling
from engine.model.prompt_files import Prompt
from engine.trees.growth import Budget, Work
from engine.trees.places import Place
from engine.trees.record import TreeRecord
from engine.trees.tree import Tree, TreeOptions

Answer = TypeVar("Answer", covariant=True)


class Request(Generic[Answer]):
    """Something asked of a model.

    Attributes:
        needs_model: Whether a model has to be loaded for it.
    """

    __slots__ = ()
    needs_model: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class WrittenReply:
    """A reply to a log.

    Attributes:
        tokens: Its token ids; empty where an endpoint does not give them.
        note: What of the log was left out, or None.
    """

    text: str
    tokens: tuple[int, ...]
    stopped: Stopped
    note: str | None


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A tree as it was grown, and what belongs to it.

    Attributes:
        answer: Tokens of the recorded answer; empty without one.
        answer_log_probs: Natural log-probabilities of its first tokens.
        prompt_tokens: Tokens before the root.
        note: What of the log was left out, or None.
    """

    tree: Tree
    answer: tuple[int, ...]
    answer_log_probs: tuple[float, ...]
    prompt_tokens: int
    note: str | None


@dataclass(frozen=True, slots=True)
class TokenDistribution:
    """The distribution of the next token after one token of a text, as far as it was asked for.

    Attributes:
        top: The most probable token.
        top_log_p: Its natural log-probability.
        next_log_p: That of the token that follows in the text; None after the last.
        also: Those of the other tokens that were asked about.
    """

    top: int
    top_log_p: float
    next_log_p: float | None
    also: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Load(Request[dict[str, Any]]):
    """See `WorkerProcess.load`."""

    path: Path
    options: LoadOptions
    adapter: Path | None = None
    merged: Path | None = None


@dataclass(frozen=True, slots=True)
class Score(Request[list[ItemScore]]):
    """See `ModelClient.score`."""

    items: Sequence[LogItem]
    question: Question
    remaining: RemainingRequest | None = None
    growing: bool = False


@dataclass(frozen=True, slots=True)
class Generate(Request[list[WrittenReply]]):
    """See `ModelClient.generate`."""

    items: Sequence[tuple[Sequence[str], int]]
    prompt: Prompt | None
    sampling: Sampling
    max_tokens: int
    stop: Sequence[str] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Chat(Request[list[Completion]]):
    """See `ModelClient.chat`."""

    calls: Sequence[Call]


@dataclass(frozen=True, slots=True)
class LogProbs(Request[list[list[tuple[float, int]]]]):
    """See `ModelClient.log_probs`."""

    items: Sequence[tuple[str, Sequence[str]]]
    prompt: Prompt | None


@dataclass(frozen=True, slots=True)
class Grow(Request[tuple[list[GrownTree], Work]]):
    """See `ModelClient.grow`."""

    places: Sequence[Place]
    options: TreeOptions
    budget: Budget


@dataclass(frozen=True, slots=True)
class GrowOn(Request[tuple[GrownTree, Work]]):
    """See `ModelClient.grow_on`."""

    place: Place
    tree: TreeRecord
    budget: Budget
    alpha: float | None = None
    below: int | None = None


@dataclass(frozen=True, slots=True)
class CountTokens(Request[list[int]]):
    """See `ModelClient.count_tokens`."""

    items: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Measure(Request[tuple[float, float]]):
    """See `ModelClient.measure`."""

    text: str


@dataclass(frozen=True, slots=True)
class MeasureLong(Request[tuple[float, int]]):
    """See `ModelClient.measure_long`."""

    text: str


@dataclass(frozen=True, slots=True)
class Embed(Request[NDArray[np.float32]]):
    """See `ModelProcess.embed`."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Tokenize(Request[list[list[int]]]):
    """See `ModelProcess.tokenize`."""

    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class ReadTokens(Request[list[list[TokenDistribution]]]):
    """See `ModelProcess.read_tokens`."""

    items: Sequence[Sequence[int]]
    also: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Expand(Request[None]):
    """See `ModelProcess.expand`."""

    needs_model: ClassVar[bool] = False
    path: Path
    target: Path


@dataclass(frozen=True, slots=True)
class Tune(Request[dict[str, Any]]):
    """See `ModelProcess.tune`."""

    needs_model: ClassVar[bool] = False
    path: Path
    folder: Path
    text: str


@dataclass(frozen=True, slots=True)
class Memory(Request[dict[str, Any]]):
    """See `ModelProcess.memory`."""

    needs_model: ClassVar[bool] = False
    path: Path
    options: LoadOptions


@dataclass(frozen=True, slots=True)
class Machine(Request[dict[str, Any]]):
    """See `ModelProcess.machine`."""

    needs_model: ClassVar[bool] = False
