"""The capabilities of an endpoint, and which work of the program they are enough for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

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
