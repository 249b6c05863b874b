"""How servers differ: the capabilities of an endpoint, the work that they are enough for, and its forms of requests and
answers."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.base.conversation import without_surrogates
from engine.base.errors import RequestRefused
from engine.model.chat import split_thinking
from engine.model.prompt_files import Prompt

Tokens = Literal["", "vllm", "llama-server", "llama-cpp-python"]
"""The server whose way of asking for the tokens of a text is understood; "" for none."""

Template = Literal["", "vllm", "llama-server"]
"""The server whose way of applying the chat template is understood; "" for none."""

Prefill = Literal["", "last", "continue"]
"""How the beginning of a reply is given: as the last message, or with an option to continue it; "" if it cannot be."""


Structure = Literal["", "json_schema", "json_object", "tool", "plain"]
"""How a reply with given fields is had: by a `response_format` of this type, by the arguments of a tool that has to be
called, or by asking for it in plain words; "" if it cannot be."""


MEASURED_OR_LISTED = ("chars_per_token", "tokens_per_piece", "thinking_tokens", "listed_prices")
"""Capabilities that estimates of the cost depend on, and no result."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The result of probing one endpoint and model. Capabilities are tested, not inferred from a name.

    Attributes:
        server: Name and version that the server gives itself, for people.
        completions: Continues a raw text.
        chat: Answers messages.
        chat_top: Number of the most probable tokens that an answer to messages lists, 0 for none.
        ids: Takes a prompt as token ids.
        tokens: How it is asked for the tokens of a text; "" if it cannot be.
        template: How it is asked to lay out messages; "" if it cannot be.
        prefill: How the beginning of a reply is given: as the `last` message, or as the last one with an option to
            `continue` it; empty if the server does not continue replies.
        structure: How a reply with given fields is had; "" if it cannot be.
        embeddings: Gives vectors.
        context: Longest sequence in tokens; None if it does not say.
        parallel: Requests that it does at once; None if it does not say.
        thinks: Thinks before it answers messages.
        chars_per_token: Characters of a token of logs, by its count of a sample; None if it counts no tokens.
        tokens_per_piece: Tokens of a piece of text (`text_pieces`), in the same way.
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
    embeddings: bool = False
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
    def decisive(self) -> dict[str, Any]:
        """The capabilities that results depend on, for the config hash."""
        params = asdict(self)
        for name in ("parallel", "thinks", *MEASURED_OR_LISTED):
            del params[name]
        return params


# What each kind of work needs: each function returns the reason why it cannot be done exactly, or None.


def no_laid_out(can: Capabilities, prompt: Prompt) -> str | None:
    """Returns why a prompt around a log cannot be sent as raw text, or None."""
    if not can.completions:
        return "it answers messages only, and cannot continue a raw text"
    if prompt.chat and not can.template:
        return "it does not say how it lays out messages"
    return None


def no_writing(can: Capabilities, prompt: Prompt | None) -> str | None:
    """Returns why replies are not available, or None."""
    if prompt is not None and prompt.chat and (can.chat or no_laid_out(can, prompt) is None):
        return None
    return None if can.completions else "it answers messages only, and cannot continue a raw text"


def no_fields(can: Capabilities) -> str | None:
    """Returns why replies with given fields are not available, or None."""
    if not can.chat:
        return "it continues raw texts only"
    return None if can.structure else "its replies have no fields, however it is asked for them"


Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Posts a body to a path and returns the JSON answer; see `RequestSender.ask`."""

TOOL = "reply"
"""Name of the tool whose arguments are a reply with given fields."""

_PIECE = re.compile(r"[^\W\d_]{1,12}|\d{1,3}|[^\w\s]")
"""A piece of text that is about a token: letters of a word, digits of a number, or a sign."""

_CONTROL_TOKEN = re.compile(
    r"<(?=\|[^|<>\s]{1,48}\|>)"
    r"|<(?=/?(?:s|bos|eos|pad|unk|mask|cls|sep|turn|think|tool_call|tool_response)>)"
    r"|<(?=(?:start|end)_of_(?:turn|text|image)>)"
    r"|<(?=｜[^｜<>\s]{1,48}｜>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
)
"""The first character of a text that some server reads as a control token; what follows is only looked at. By line:
`<|im_end|>`, `</s>`, `<end_of_turn>`, `<｜User｜>` with wide bars, and `[/INST]`."""

MAX_ROUNDING = 1e-3
"""Largest log-probability above 0 that is taken for a rounding error."""

THINKING_TOKENS = (1024, 4096, 16_384)
"""Tokens that a model gets for thinking, beside those of its answer: the first number, then the next ones where it
needed more."""


async def token_ids(
    ask: Ask, tokens: Tokens, text: str, *, special: bool = False, start: bool = False
) -> list[int]:
    """Returns the token ids of a text.

    Args:
        special: Whether control tokens in the text are read as such; only `llama-server` has a choice.
        start: Whether the tokens that the model wants at the start of a sequence are put in front; `llama-cpp-python`
            has no choice.

    Raises:
        RequestRefused: The answer has no tokens.
    """
    if tokens == "vllm":
        answer = await ask("/tokenize", {"prompt": text, "add_special_tokens": start})
    elif tokens == "llama-server":
        body = {"content": text, "add_special": start, "parse_special": special}
        answer = await ask("/tokenize", body)
    else:
        answer = await ask("/extras/tokenize", {"input": text})
    return _token_list(answer, "tokens")


async def text_of(ask: Ask, tokens: Tokens, ids: Sequence[int]) -> str:
    """Returns the text that tokens stand for; whether control tokens are written out depends on the server.

    Raises:
        RequestRefused: The answer has no text.
    """
    path = "/extras/detokenize" if tokens == "llama-cpp-python" else "/detokenize"
    answer = await ask(path, {"tokens": list(ids)})
    for name in ("prompt", "content", "text"):
        if isinstance(answer, dict) and isinstance(answer.get(name), str):
            return str(answer[name])
    raise RequestRefused("The endpoint gave no text for tokens.")


async def apply_template(
    ask: Ask, template: Template, messages: Sequence[Mapping[str, str]]
) -> str:
    """Returns messages as one text in the model's chat template, with the assistant's turn opened.

    Raises:
        RequestRefused: The answer has no such text.
    """
    if template == "llama-server":
        answer = await ask("/apply-template", {"messages": list(messages)})
        if isinstance(answer, dict) and isinstance(answer.get("prompt"), str):
            return str(answer["prompt"])
        raise RequestRefused("The endpoint laid out no messages.")
    body = {"messages": list(messages), "add_generation_prompt": True}
    return await text_of(ask, "vllm", _token_list(await ask("/tokenize", body), "tokens"))


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


def text_pieces(text: str) -> int:
    """Returns the number of pieces of a text, of which a tokenizer makes about as many tokens in any text: JSON
    has more tokens for its characters than sentences have."""
    return sum(1 for _ in _PIECE.finditer(text))


def _token_list(answer: Any, name: str) -> list[int]:
    """Returns the list of token ids under `name` in an answer.

    Raises:
        RequestRefused: There is none.
    """
    tokens = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
        raise RequestRefused("The endpoint gave no tokens for a text.")
    return tokens


def without_controls(text: str) -> tuple[str, int]:
    """Returns the text with a space within each control token, so that no server reads it as one, and their number."""
    return _CONTROL_TOKEN.subn(lambda match: match.group() + " ", text)


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
class Step:
    """One position of an answer: the chosen token, and the most probable ones in order."""

    chosen: ListedToken
    top: tuple[ListedToken, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """One completion.

    Attributes:
        ended: Why it ended: `length` at the limit of tokens, `stop` for any other reason.
        steps: Its positions; empty if no log-probabilities were requested.
        thinking: What the model thought before `text`, whether the endpoint gave it apart or inside `<think>`.
    """

    text: str
    ended: Literal["stop", "length"]
    steps: tuple[Step, ...]
    thinking: str = ""

    @property
    def lacks_tokens(self) -> bool:
        """Whether thinking took the tokens of the answer; some endpoints hide the thoughts and give no text."""
        return self.ended == "length" and (bool(self.thinking) or not (self.text or self.steps))


def read_completion(answer: Any) -> Written:
    """Returns the only choice of an answer to `completions` or `chat/completions`.

    Raises:
        RequestRefused: The answer does not have the form of a completion.
    """
    try:
        (choice,) = answer["choices"]
        message = choice.get("message", {})
        text = _message_text(message) if message else choice["text"]
        apart = message.get("reasoning_content") or message.get("reasoning")
        cut = choice.get("finish_reason") == "length"
        if not isinstance(text, str | None):
            raise TypeError(f"{type(text).__name__} is no text")
        thinking, answer_text = split_thinking(without_surrogates(text or ""))
        return Written(
            text=answer_text,
            ended="length" if cut else "stop",
            steps=_read_steps(choice),
            thinking=apart if isinstance(apart, str) and apart else thinking,
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise RequestRefused("The endpoint answered something that is no completion.") from error


def _message_text(message: Mapping[str, Any]) -> Any:
    """Returns the text of a message, or the arguments of the tool that it calls."""
    calls = message.get("tool_calls")
    return calls[0]["function"]["arguments"] if calls else message["content"]


def _read_steps(choice: Mapping[str, Any]) -> tuple[Step, ...]:
    """Returns the positions of an answer to messages; () without log-probabilities."""
    listed_probabilities = choice.get("logprobs") or {}
    return tuple(map(_read_chat_step, listed_probabilities.get("content") or ()))


def _read_chat_step(entry: Mapping[str, Any]) -> Step:
    """Returns one position of an answer to messages."""
    top: Sequence[Mapping[str, Any]] = entry.get("top_logprobs") or entry.get("top_probs") or []
    listed = sorted((_read_chat_token(token) for token in top), key=lambda token: -token.log_p)
    return Step(_read_chat_token(entry), tuple(listed))


def _read_chat_token(entry: Mapping[str, Any]) -> ListedToken:
    """Returns a token of an answer to messages."""
    byte_values = entry.get("bytes")
    given_bytes = bytes(byte_values) if byte_values and isinstance(byte_values, list) else None
    return ListedToken(
        given_bytes or str(entry.get("token")).encode(), _checked_log_p(entry.get("logprob"))
    )


def _checked_log_p(value: Any) -> float:
    """Returns a natural log-probability, at most 0.

    Raises:
        ValueError: The number is not one; up to `MAX_ROUNDING` above 0 is taken for a rounding error.
    """
    number = float(value)
    if math.isnan(number) or number > MAX_ROUNDING:
        raise ValueError(f"{number} is no log-probability")
    return min(0.0, number)
