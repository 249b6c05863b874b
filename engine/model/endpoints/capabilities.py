"""How servers differ: the capabilities of an endpoint, the work that they are enough for, the form of a request for
fields, and the reading of completions.

A completion is the answer to a raw text (`completions`) or to messages (`chat/completions`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.base.conversation import without_surrogates
from engine.base.errors import RequestRefused
from engine.model.chat import split_thinking
from engine.model.interface import Sampling
from engine.model.prompt_files import Prompt

Tokens = Literal["", "vllm", "llama-server", "llama-cpp-python"]
"""The kind of server whose requests for the tokens of a text an endpoint understands; "" for none of them."""

Template = Literal["", "vllm", "llama-server"]
"""The kind of server whose requests to apply the chat template an endpoint understands; "" for none of them."""

Prefill = Literal["", "last", "continue"]
"""How an endpoint is given the beginning of a reply: as the last message, or with an option to continue that message;
"" if it cannot be given one."""

Structure = Literal["", "json_schema", "json_object", "tool", "plain"]
"""How a reply with given fields is asked for: by a `response_format` of this type, by the arguments of a tool that has
to be called, or in plain words; "" if it cannot be asked for."""

MEASURED_OR_LISTED = ("chars_per_token", "tokens_per_piece", "thinking_tokens", "listed_prices")
"""Names of the capabilities on which estimates of the cost depend, and no result does."""

TOOL = "reply"
"""Name of the tool whose arguments are a reply with given fields."""

MAX_ROUNDING = 1e-3
"""Largest log-probability above 0 that is taken for a rounding error."""

THINKING_TOKENS = (1024, 4096, 16_384)
"""Numbers of tokens that a model gets for thinking, in addition to those of its answer: the first number, then the next
ones if it needed more."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The result of probing one endpoint and model. Capabilities are tested, not inferred from a name.

    Attributes:
        server: Name and version that the server gives itself, for people.
        completions: Whether it continues a raw text.
        chat: Whether it answers messages.
        chat_top: Number of the most probable tokens that an answer to messages lists, 0 for none.
        ids: Whether it takes a prompt as token ids.
        tokens: How it is asked for the tokens of a text; "" if it cannot be.
        template: How it is asked to lay out messages; "" if it cannot be.
        prefill: How the beginning of a reply is given; see `Prefill`.
        structure: How a reply with given fields is asked for; see `Structure`.
        context: Longest sequence in tokens; None if the server does not say.
        parallel: Number of requests that the server works on at once; None if it does not say.
        thinks: Whether it thinks before it answers messages.
        chars_per_token: Characters of a token of logs, by its count of a sample; None if it counts no tokens.
        tokens_per_piece: Tokens of a piece of text (`count_pieces`) in that sample; None if it counts no tokens.
        thinking_tokens: Mean tokens that it thought before the answers of the probe; None if it does not think, or
            does not count them.
        listed_prices: Prices of a million tokens, read and written, in its list of models; None if it lists none.
    """

    server: str = "unknown"
    completions: bool = False
    chat: bool = False
    chat_top: int = 0
    ids: bool = False
    tokens: Tokens = ""
    template: Template = ""
    prefill: Prefill = ""
    structure: Structure = ""
    context: int | None = None
    parallel: int | None = None
    thinks: bool = False
    chars_per_token: float | None = None
    tokens_per_piece: float | None = None
    thinking_tokens: float | None = None
    listed_prices: tuple[float, float] | None = None

    @property
    def reads_verdicts(self) -> bool:
        """Whether a verdict in a reply has a probability; what is thought before it would decide it."""
        return bool(self.chat_top) and not self.thinks

    @property
    def result_params(self) -> dict[str, Any]:
        """The capabilities that results depend on, for the config hash.

        The number of requests at once changes no result. `thinks` is left out although `reads_verdicts` depends on it,
        so that results that were stored before it was probed keep their hash.
        """
        params = asdict(self)
        for name in ("parallel", "thinks", *MEASURED_OR_LISTED):
            del params[name]
        return params


# What each kind of work needs


def why_no_layout(can: Capabilities, prompt: Prompt) -> str | None:
    """Returns why a prompt around a log cannot be sent as raw text, or None."""
    if not can.completions:
        return "it answers messages only, and cannot continue a raw text"
    if prompt.chat and not can.template:
        return "it does not say how it lays out messages"
    return None


def why_no_replies(can: Capabilities, prompt: Prompt) -> str | None:
    """Returns why replies to a prompt are not available, or None."""
    if prompt.chat and (can.chat or why_no_layout(can, prompt) is None):
        return None
    return None if can.completions else "it answers messages only, and cannot continue a raw text"


def why_no_fields(can: Capabilities) -> str | None:
    """Returns why replies with given fields are not available, or None."""
    if not can.chat:
        return "it continues raw texts only"
    return None if can.structure else "its replies have no fields, however it is asked for them"


def why_no_chat(can: Capabilities, sampling: Sampling) -> str | None:
    """Returns why replies to messages are not available with this sampling, or None."""
    if sampling.json_schema:
        return why_no_fields(can)
    return None if can.chat else "it continues raw texts only"


# The form of a request for fields


def structure_fields(structure: Structure, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a request for messages that make the reply follow a JSON schema; none for plain words."""
    if structure == "json_schema":
        form: dict[str, Any] = {"name": TOOL, "schema": schema}
        return {"response_format": {"type": structure, "json_schema": form}}
    if structure == "json_object":
        return {"response_format": {"type": structure, "schema": schema}}
    if structure == "tool":
        function = {"name": TOOL, "description": "Gives the reply.", "parameters": schema}
        choice = {"type": "function", "function": {"name": TOOL}}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    return {}


# Completions


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token as an endpoint lists it.

    Attributes:
        text: Bytes of the token as far as the answer gives them.
        log_p: Natural log-probability.
    """

    text: bytes
    log_p: float


@dataclass(frozen=True, slots=True)
class Position:
    """One position of an answer: the chosen token, and the most probable ones in order."""

    chosen: ListedToken
    top: tuple[ListedToken, ...]


@dataclass(frozen=True, slots=True)
class EndpointReply:
    """One completion of an endpoint.

    Attributes:
        text: The text that was written, without thoughts.
        ended: Why it ended: `length` at the limit of tokens, `stop` for any other reason.
        positions: Its positions; empty if no log-probabilities were requested.
        thinking: What the model thought before `text`, whether the endpoint gave it apart or inside `<think>`.
    """

    text: str
    ended: Literal["stop", "length"]
    positions: tuple[Position, ...]
    thinking: str = ""

    @property
    def lacks_tokens(self) -> bool:
        """Whether the limit of tokens was reached by thinking; some endpoints hide the thoughts and give no text."""
        return self.ended == "length" and (bool(self.thinking) or not (self.text or self.positions))


def read_completion(answer: Any) -> EndpointReply:
    """Returns the completion of an answer to `completions` or `chat/completions`, which must have one choice.

    Raises:
        RequestRefused: The answer does not have the form of a completion.
    """
    try:
        (choice,) = answer["choices"]
        message, listed = choice.get("message", {}), choice.get("logprobs") or {}
        text = _message_text(message) if message else choice["text"]
        separate_thinking = message.get("reasoning_content") or message.get("reasoning")
        cut = choice.get("finish_reason") == "length"
        if not isinstance(text, str | None):
            raise TypeError(f"{type(text).__name__} is no text")
        thinking, answer_text = split_thinking(without_surrogates(text or ""))
        return EndpointReply(
            text=answer_text,
            ended="length" if cut else "stop",
            positions=tuple(map(_read_position, listed.get("content") or ())),
            thinking=separate_thinking
            if isinstance(separate_thinking, str) and separate_thinking
            else thinking,
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise RequestRefused("The endpoint answered something that is no completion.") from error


def counted_tokens(answer: Any, name: str) -> int | None:
    """Returns the number of tokens that an answer counts under a name, such as `prompt_tokens`; None where it counts
    none."""
    return positive(usage_of(answer).get(name))


def usage_of(answer: Any) -> Mapping[str, Any]:
    """Returns what an answer says of its tokens and its cost; {} where it says nothing."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    return usage if isinstance(usage, dict) else {}


def positive(value: Any) -> int | None:
    """Returns a whole number above 0; None for anything else."""
    return value if isinstance(value, int) and value > 0 else None


def _message_text(message: Mapping[str, Any]) -> Any:
    """Returns the text of a message, or the arguments of the first tool that it calls."""
    calls = message.get("tool_calls")
    return calls[0]["function"]["arguments"] if calls else message["content"]


def _read_position(entry: Mapping[str, Any]) -> Position:
    """Returns one position of an answer to messages."""
    top: Sequence[Mapping[str, Any]] = entry.get("top_logprobs") or entry.get("top_probs") or []
    listed = sorted((_read_token(token) for token in top), key=lambda token: -token.log_p)
    return Position(_read_token(entry), tuple(listed))


def _read_token(entry: Mapping[str, Any]) -> ListedToken:
    """Returns a token of an answer to messages."""
    byte_values = entry.get("bytes")
    given_bytes = bytes(byte_values) if byte_values and isinstance(byte_values, list) else None
    return ListedToken(
        given_bytes or str(entry.get("token")).encode(), _checked_log_p(entry.get("logprob"))
    )


def _checked_log_p(value: Any) -> float:
    """Returns a natural log-probability, at most 0; up to `MAX_ROUNDING` above 0 is taken for a rounding error.

    Raises:
        TypeError: The value is no number.
        ValueError: The value is no log-probability.
    """
    number = float(value)
    if math.isnan(number) or number > MAX_ROUNDING:
        raise ValueError(f"{number} is no log-probability")
    return min(0.0, number)
