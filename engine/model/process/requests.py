"""What can be asked of a model itself. Other subjects add requests of their own, each with its handler.

Every request raises `Cancelled` when it was cancelled, and `ModelError` when the model cannot answer it. What its
progress counts is said with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.jobs.contract import OnProgress
from engine.model.chat import Call, Completion
from engine.model.generation import Stopped
from engine.model.interface import LoadOptions, Sampling
from engine.model.process.protocol import Request
from engine.model.prompt_files import Prompt


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


class Load(Request[dict[str, Any]], frozen=True):
    """Loads a model unless it is loaded already, and switches to an adapter or back.

    The answer has `name`, `architecture`, `context` (tokens), `forkable`, `memory_bytes` and `vocabulary`.

    Attributes:
        merged: Path of a copy of the weights with the adapter merged in, which is written if it is missing; None
            applies the adapter at run time.
    """

    path: Path
    options: LoadOptions
    adapter: Path | None = None
    merged: Path | None = None


class Generate(Request[list[WrittenReply]], frozen=True):
    """Writes one reply to each log. Reply i is sampled with `seed + i`; the count of progress is replies done.

    An endpoint raises `RequestRefused` if it refuses one of the logs.

    Attributes:
        items: Log pieces, and how many leading pieces a window keeps.
        prompt: Text around each log; None: none.
    """

    items: Sequence[tuple[Sequence[str], int]]
    prompt: Prompt | None
    sampling: Sampling
    max_tokens: int
    stop: Sequence[str] = ()
    seed: int = 0


class Chat(Request[list[Completion]], frozen=True):
    """Writes the reply to each call, side by side. The count of progress is replies done.

    A reply depends on its call alone. A conversation that is too long loses its oldest messages after the system
    message, then the middle of what is left, and `Completion.note` says so. An error is raised if the model has no chat
    template or no room for a conversation beside the reply; an endpoint raises `RequestRefused` if it refuses one.
    """

    calls: Sequence[Call]


class LogProbs(Request[list[list[tuple[float, int]]]], frozen=True):
    """Reads how probable continuations of texts are. The count of progress is tokens read.

    The answer has, for each item and continuation, the natural log-probability and the number of tokens. An endpoint
    raises `RequestRefused` if it does not show the probability of one of them.

    Attributes:
        items: A text, and its continuations.
        prompt: Text around each text; a continuation follows its `reply`. None: none.
    """

    items: Sequence[tuple[str, Sequence[str]]]
    prompt: Prompt | None


class CountTokens(Request[list[int]], frozen=True):
    """Counts the tokens of each item, which is a list of texts. The count of progress is items."""

    items: Sequence[Sequence[str]]


class Measure(Request[tuple[float, float]], frozen=True):
    """Measures the model on a text.

    The answer is the prompt tokens a second, and the batch noise: the largest change of a probability by what else is
    computed in the same batch.
    """

    text: str


class MeasureLong(Request[tuple[float, int]], frozen=True):
    """Measures the model on a text so long that attention counts; the text is repeated as needed.

    The answer is the prompt tokens a second, and the tokens of the text that was read.
    """

    text: str


class Embed(Request[NDArray[np.float32]], frozen=True):
    """Embeds texts; the model must be loaded with `embedding`. The answer has unit length and the shape (texts,
    dimensions)."""

    texts: Sequence[str]


class Tokenize(Request[list[list[int]]], frozen=True):
    """Reads texts as token ids; control tokens in them are read as text, and none are put in front."""

    texts: Sequence[str]


class ReadTokens(Request[list[list[TokenDistribution]]], frozen=True):
    """Reads the distribution of the next token after every token of texts, each on its own. The count of progress is
    tokens.

    Attributes:
        items: Token ids.
        also: Tokens whose log-probability is asked for everywhere.
    """

    items: Sequence[Sequence[int]]
    also: Sequence[int] = ()


class Expand(Request[None], frozen=True):
    """Writes the weights of a GGUF file in F32; see `engine.model.tuning.expand`."""

    needs_model: ClassVar[bool] = False
    path: Path
    target: Path


class Tune(Request[dict[str, Any]], frozen=True):
    """Finds the fastest faithful format and thread count; see `engine.model.tuning.tune`."""

    needs_model: ClassVar[bool] = False
    path: Path
    folder: Path
    text: str


class Memory(Request[dict[str, Any]], frozen=True):
    """Says how many bytes loading a model will take: `weights`, `cache`, and what is `available` (None if unknown)."""

    needs_model: ClassVar[bool] = False
    path: Path
    options: LoadOptions


class Machine(Request[dict[str, Any]], frozen=True):
    """Describes the machine. `system`: llama.cpp's line about the CPU; `gpu_offload`: whether it can use a GPU."""

    needs_model: ClassVar[bool] = False


T = TypeVar("T")


class ModelClient(Protocol):
    """A model that answers requests one at a time; any thread may ask."""

    def ask(self, request: Request[T], progress: OnProgress | None = None) -> T:
        """Sends a request and waits for its answer.

        Args:
            progress: Gets a count and a note now and then; the request says what is counted.

        Raises:
            Cancelled: It was cancelled.
            ModelError: The model cannot answer it.
        """

    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        merged: Path | None = None,
    ) -> Mapping[str, Any]:
        """Makes the model ready; `context` of what it returns is its longest sequence in tokens."""

    def spent(self) -> str:
        """Returns what the requests since `load` have cost, in words; empty where they cost nothing but time."""
