"""The requests that a model answers. Other subjects add requests of their own, each with its handler.

Every request raises `Cancelled` when it was cancelled, and `ModelError` when the model cannot answer it. The docstring
of a request says what its progress counts.
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
from engine.model.interface import LoadOptions
from engine.model.process.protocol import Request
from engine.model.prompt_files import Prompt

T = TypeVar("T")
"""Answer to a request."""


@dataclass(frozen=True, slots=True)
class WrittenReply:
    """A reply to a log.

    Attributes:
        text: The reply.
        stopped: Why the reply ended.
        note: Which part of the log was left out, in words; None if the model read all of it.
    """

    text: str
    stopped: Stopped
    note: str | None


class Load(Request[dict[str, Any]], frozen=True):
    """Loads a model unless it is loaded already, and switches to an adapter or back.

    The answer has the keys `name`, `architecture`, `context` (tokens) and `vocabulary` (number of tokens).

    Attributes:
        path: File of the model.
        adapter: File of the adapter; None for the bare model.
        weights_copy: Path of a copy of the first `options.layers` layers, which is written if it is missing.
    """

    path: Path
    options: LoadOptions
    adapter: Path | None = None
    weights_copy: Path | None = None


class Generate(Request[list[WrittenReply]], frozen=True):
    """Writes the most probable reply to a prompt around each log. Progress counts finished replies.

    An endpoint raises `RequestRefused` if it refuses one of the logs.

    Attributes:
        items: Pieces of each log, and the number of leading pieces that stay if the log is too long.
        prompt: The text around each log, with the limits of a reply.
    """

    items: Sequence[tuple[Sequence[str], int]]
    prompt: Prompt


class Chat(Request[list[Completion]], frozen=True):
    """Writes the reply to each call, side by side. Progress counts finished replies.

    A reply depends on its call alone. A conversation that is too long loses its oldest messages after the system
    message, then the middle of what is left, and `Completion.note` says so. An error is raised if the model has no chat
    template or no room for a conversation beside the reply; an endpoint raises `RequestRefused` if it refuses one.
    """

    calls: Sequence[Call]


class Measure(Request[tuple[float, float]], frozen=True):
    """Measures the model on a text.

    The answer is the number of prompt tokens read per second, and the batch noise: the largest change of a probability
    that is caused by other work in the same batch.
    """

    text: str


class Embed(Request[NDArray[np.float32]], frozen=True):
    """Embeds texts; the model must be loaded with `embedding`. The answer is a matrix of unit vectors with the shape
    (texts, dimensions)."""

    texts: Sequence[str]


class Tokenize(Request[list[list[int]]], frozen=True):
    """Converts texts into token ids; control tokens in them are read as plain text, and none are put in front."""

    texts: Sequence[str]


class Tune(Request[dict[str, Any]], frozen=True):
    """Finds the fastest faithful format and thread count; see `engine.model.tuning.tune`."""

    needs_model: ClassVar[bool] = False
    path: Path
    folder: Path
    text: str


class Machine(Request[dict[str, Any]], frozen=True):
    """Describes the machine: `system` is llama.cpp's line about the CPU, `gpu_offload` whether it can use a GPU."""

    needs_model: ClassVar[bool] = False


class ModelClient(Protocol):
    """A model that answers requests; any thread may ask."""

    @property
    def parallel(self) -> int:
        """The number of items to ask about side by side; 1 where they are answered one after another."""

    def ask(self, request: Request[T], progress: OnProgress | None = None) -> T:
        """Sends a request and returns its answer.

        Args:
            progress: Called now and then with a count and a note; the request says what is counted.

        Raises:
            Cancelled: The request was cancelled.
            ModelError: The model cannot answer the request.
        """

    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        weights_copy: Path | None = None,
    ) -> Mapping[str, Any]:
        """Makes the model ready and returns what it is; `context` is its longest sequence in tokens."""

    def cancel(self) -> None:
        """Makes the requests in flight raise `Cancelled`."""

    def spent(self) -> str:
        """Returns what the requests since `load` have cost, in words; "" if they cost nothing but time."""
