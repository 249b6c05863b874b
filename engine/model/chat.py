"""Calls for chat replies, and plays, which make such calls one by one.

A call asks a model for the next message of a chat, and a completion is its reply. A play is a generator that yields one
call at a time and is sent its completion; a scenario makes plays. A play knows neither models nor files. It must be a
function of its scenario and the replies alone (its own randomness is seeded), so that it is resumed by playing it again
with the replies that are known.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from engine.model.interface import Sampling

Speaker = Literal["system", "user", "assistant"]
"""Who wrote a message of a chat."""

Role = Literal["user", "assistant", "judge"]
"""The roles of a simulation; each may have a model of its own."""

ATTEMPT_TEMPERATURES = (0.0, 0.5, 1.0)
"""Temperature of each attempt at a reply; a second attempt at 0 would give the same reply."""

_THINKING = re.compile(r"\s*(?:<think(?:ing)?>)?((?:(?!<think)[\s\S])*?)</think(?:ing)?>[\r\n]*")
"""Matches what a model thinks before its answer; the chat template may have written the opening tag already. A space
after the thoughts belongs to the answer, which may go on with a begun one."""

_BEGUN_THINKING = re.compile(r"\s*<think(?:ing)?>")
"""Matches the beginning of thoughts that did not come to an end."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One chat message. The content is untrusted: control tokens in it are read as plain text."""

    speaker: Speaker
    content: str


@dataclass(frozen=True, slots=True)
class Call:
    """One request for the next assistant message.

    Attributes:
        module: Name of what asks, such as a part of a simulation, for the transcript.
        role: The role whose model answers.
        messages: The conversation as this model sees it; at least one message.
        sampling: How the reply is sampled; with a JSON schema it follows that.
        max_tokens: Longest reply.
        seed: The same call with the same seed gives the same reply; it has no effect at temperature 0.
        opening: Beginning of the reply that the model is given; it is not part of `Completion.text`.
        probability_of: Name of the field of the JSON schema whose value gets a probability; the field is true or false,
            or has one of some values. Empty for none.
    """

    module: str
    role: Role
    messages: tuple[ChatMessage, ...]
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int = 512
    seed: int = 0
    opening: str = ""
    probability_of: str = ""

    def key(self, fingerprints: Mapping[str, Any]) -> str:
        """Returns the SHA-256 in hex over everything that determines the reply, with the fingerprints of the model."""
        ignored = {"module", "role", "probability_of"}
        if self.sampling.temperature == 0:  # the seed has no effect then
            ignored.add("seed")
        fields = {name: value for name, value in asdict(self).items() if name not in ignored}
        canonical = json.dumps([fields, dict(fingerprints)], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Completion:
    """A chat reply.

    Attributes:
        text: The reply, without the opening.
        stopped: Why it ended: `end` by the model, `stop` by a stop text, `length` by the limit.
        note: What was left out of a conversation that was too long; None for nothing.
        probability: Probability of the value that the reply gives to the field `Call.probability_of` rather than of its
            other values; None where it was not asked for, where the server lists no tokens, and where the reply has no
            such value.
    """

    text: str
    stopped: Literal["end", "stop", "length"]
    note: str | None = None
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """The result of a play.

    Attributes:
        record: The conversation as one record of an import format; None if the play made no conversation.
        format: Name of that format.
        result: Scores, counts and labels for tables, as JSON values.
    """

    record: Mapping[str, Any] | None = None
    format: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


Play = Generator[Call, Completion, Ending]
"""A generator that yields calls, is sent their completions, and returns its result."""


class Scenario(Protocol):
    """One thing that models are asked, for example to simulate one conversation."""

    @property
    def key(self) -> str:
        """A name that is unique in its run, e.g. `sharded/math/GSM8K-17/recap/3`."""

    def play(self) -> Play:
        """Returns a new play."""


def seed_from(*names: object) -> int:
    """Returns a seed of 31 bits that depends on these names alone."""
    digest = hashlib.sha256(json.dumps([str(name) for name in names]).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def parsed_object(text: str) -> dict[str, Any] | None:
    """Returns a reply as a JSON object; None if it is not one, for example because it was cut off."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def split_thinking(reply: str) -> tuple[str, str]:
    """Returns what a model thought in a reply, up to `</think>`, and its answer after that.

    The answer is empty if the thoughts did not come to an end, and the whole reply if there are none.
    """
    if thoughts := _THINKING.match(reply):
        return thoughts[1].strip(), reply[thoughts.end() :]
    if opening := _BEGUN_THINKING.match(reply):
        return reply[opening.end() :].strip(), ""
    return "", reply
