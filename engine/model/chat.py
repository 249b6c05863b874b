"""Requests for chat replies: messages, sampling settings, and the completion."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from engine.model.interface import Sampling

Speaker = Literal["system", "user", "assistant"]
Role = Literal["user", "assistant", "judge"]
"""The roles of a simulation; each may have a model of its own."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One chat message. The content is untrusted: control tokens in it are read as plain text."""

    speaker: Speaker
    content: str


@dataclass(frozen=True, slots=True)
class Call:
    """One request for the next assistant message.

    Attributes:
        module: The part of the simulation that asks, for the transcript.
        role: The role whose model answers.
        messages: The conversation as this model sees it; at least one message.
        sampling: How the reply is sampled; with a JSON schema or a grammar it follows that.
        max_tokens: Longest reply.
        stop: Texts that end the reply and are no part of it.
        seed: The same call with the same seed gives the same reply; it has no effect at temperature 0.
        opening: Beginning of the reply that the model is given; it is not part of `Completion.text`.
    """

    module: str
    role: Role
    messages: tuple[ChatMessage, ...]
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    seed: int = 0
    opening: str = ""

    def key(self, fingerprints: Mapping[str, Any]) -> str:
        """SHA-256 in hex over everything that determines the reply, with the fingerprints of the model."""
        left_out = {"module", "role"} | ({"seed"} if self.sampling.temperature == 0 else set())
        asked = {name: value for name, value in asdict(self).items() if name not in left_out}
        canonical = json.dumps([asked, dict(fingerprints)], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Completion:
    """A chat reply.

    Attributes:
        text: Without the opening.
        stopped: `end` by the model, `stop` by a stop text, `length` by the limit.
        note: What was left out of a conversation that was too long, or None.
    """

    text: str
    stopped: Literal["end", "stop", "length"]
    note: str | None = None
