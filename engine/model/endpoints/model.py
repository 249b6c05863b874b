"""A model behind an HTTP endpoint, as a `ModelClient`: its requests, their cost, and an estimate of it in advance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from engine.base.errors import UsageError
from engine.jobs.contract import OnProgress
from engine.model.endpoints.capabilities import (
    THINKING_TOKENS,
    Capabilities,
    why_no_chat,
    why_no_replies,
)
from engine.model.endpoints.replies import (
    UNBOUNDED,
    EndpointAccess,
    Thinking,
    chat_replies,
    write_replies,
)
from engine.model.endpoints.sender import RequestSender, rehearsed_pieces
from engine.model.endpoints.tokens import RequestedTokens
from engine.model.interface import LoadOptions
from engine.model.process.protocol import Request
from engine.model.process.requests import Chat, Generate
from engine.project.records import StageCost

TOKENS_PER_PIECE = 1.0
"""Tokens of a piece of text where an endpoint did not say how many it counts."""

MESSAGE_TOKENS = 8
"""Tokens of a chat template around one message."""

REPLY_TOKENS, UNMEASURED_THINKING_TOKENS = 30, 512
"""Tokens of a reply of one or two sentences, and tokens that a model thinks before one, for estimates before the first
reply of a stage."""

T = TypeVar("T")
"""Answer to a request."""


class EndpointModel:
    """A model that an endpoint serves, as a `ModelClient`.

    Attributes:
        sender: Sends the requests, and has their account.
        can: The capabilities of the endpoint.
        context: Longest sequence in tokens.
    """

    def __init__(self, label: str, sender: RequestSender, can: Capabilities) -> None:
        """Prepares; sends no request.

        Args:
            label: Name of the model in error messages.
        """
        self._label, self.sender, self.can = label, sender, can
        self.context = can.context or UNBOUNDED
        self._thinking = Thinking(THINKING_TOKENS[0] if can.thinks else 0)

    def refuse(self, what: str, reason: str | None) -> None:
        """Raises UsageError if there is a reason why the endpoint cannot give something."""
        if reason:
            raise UsageError(
                f"{self._label} cannot give {what}: {reason}.",
                "Use another endpoint or a model of this machine for that.",
            )

    # Requests

    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        weights_copy: Path | None = None,
    ) -> Mapping[str, Any]:
        """Starts a new count of requests and costs, and limits the context to that of the options.

        The other arguments are for models of this machine.

        Returns:
            `name` and `context`, the longest sequence in tokens.
        """
        self.sender.begin()
        largest = self.can.context or UNBOUNDED
        self.context = min(largest, options.context or largest)
        return {"name": self._label, "context": self.context}

    def ask(self, request: Request[T], progress: OnProgress | None = None) -> T:
        """Answers a request by requests to the endpoint.

        Raises:
            Cancelled: `cancel` was called while it ran.
            ModelError: The endpoint has failed.
            RequestRefused: The endpoint refuses an item.
            UsageError: The endpoint cannot give such replies.
        """
        send = self.sender.ask
        access = EndpointAccess(send, self.can, self._thinking, RequestedTokens(send, self.can))

        def report(count: int) -> None:
            """Passes on the number of replies that are done."""
            if progress is not None:
                progress(count, "")

        if isinstance(request, Generate):
            self.refuse("replies", why_no_replies(self.can, request.prompt))
            return cast(
                T, self.sender.run(lambda: write_replies(access, request, self.context, report))
            )
        assert isinstance(request, Chat), "an endpoint answers no other requests"
        calls = request.calls
        for sampling in {call.sampling for call in calls}:
            self.refuse("replies to messages", why_no_chat(self.can, sampling))
        return cast(T, self.sender.run(lambda: chat_replies(access, calls, self.context, report)))

    @property
    def tokens_per_reply(self) -> float | None:
        """The mean tokens of a reply since `load`; None before any."""
        account = self.sender.account
        return account.written / account.requests if account.requests else None

    def estimate(
        self,
        stage: str,
        bodies: Sequence[Mapping[str, Any]],
        ratio: float,
        tokens_per_reply: float | None = None,
    ) -> StageCost:
        """Returns what a stage costs by the requests for a sample of its items.

        Args:
            stage: Name of the stage.
            bodies: The requests for the sample, from `RequestSender.rehearse`.
            ratio: Number of items for each of the sample.
            tokens_per_reply: As measured in an earlier run; None takes one or two sentences, and the thoughts that the
                probe of the endpoint saw.
        """
        tokens_per_piece = self.can.tokens_per_piece or TOKENS_PER_PIECE
        read = sum(rehearsed_pieces(body) * tokens_per_piece for body in bodies) * ratio
        read += len(bodies) * MESSAGE_TOKENS * ratio
        thinking = (
            (self.can.thinking_tokens or UNMEASURED_THINKING_TOKENS) if self.can.thinks else 0
        )
        longest = [body.get("max_tokens", 1) - self._thinking.tokens for body in bodies]
        typical = [min(REPLY_TOKENS, tokens) + thinking for tokens in longest]
        written = sum(tokens_per_reply or tokens for tokens in typical) * ratio
        prices = self.sender.prices
        return StageCost(
            stage,
            round(len(bodies) * ratio),
            round(read),
            round(written),
            prices.cost_of(read, written) if prices else None,
        )

    @property
    def parallel(self) -> int:
        """The number of items to ask about side by side now: as many as the endpoint bears requests."""
        return self.sender.limit

    def spent(self) -> str:
        """Returns the requests, tokens and cost since `load`, in words."""
        return self.sender.spent()

    def cancel(self) -> None:
        """Makes the request in flight raise `Cancelled`."""
        self.sender.cancel()
