"""Probes the capabilities of an endpoint with a few dozen short requests, whatever the server says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from importlib import resources
from statistics import mean
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from engine.base.errors import EndpointAway, EndpointError, RequestRefused
from engine.base.text import one_line
from engine.model.endpoints.background_loop import BackgroundLoop
from engine.model.endpoints.capabilities import (
    THINKING_TOKENS,
    Capabilities,
    EndpointReply,
    Prefill,
    Structure,
    Template,
    Tokens,
    counted_tokens,
    positive,
    read_completion,
    structure_fields,
)
from engine.model.endpoints.client import Address, EndpointClient
from engine.model.endpoints.sender import TOKENS_PRICED
from engine.model.endpoints.tokens import apply_template, count_pieces, token_ids
from engine.model.reply_forms import UnreadableReply, read_reply

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
"""Result of a request."""

LOG_PROB_COUNTS = (20, 10, 5, 1)
"""Numbers of log-probabilities that are asked for; OpenAI's protocol allows 20."""

MIN_REPLY_CHARACTERS = 8
"""Length of the shortest reply whose first half says whether the endpoint continues it."""

NEXT_CHARACTERS = 6
"""Number of characters, those after the first half of a whole reply, that a continued reply has to begin with."""

MAX_SERVER_CHARACTERS = 60
"""Longest name of a server that is shown."""

_TEXT = "TURN 1, STEP 1, user chat:\nThe capital of France is Paris. The capital of Italy is"
"""The raw text that most completions of a probe continue."""

_WORD = "zqzq"
"""A word that no model writes by itself."""

SAMPLE_CHARACTERS = 4_000
"""Characters of the sample whose tokens are counted."""

PROBES_IN_FLIGHT = 16
"""Most requests of a probe that are sent side by side."""

PROBE_SECONDS = 240.0
"""Default time limit of a request, which writes a few tokens; the server may have to load the model first."""


class _ProbedWord(msgspec.Struct):
    """A reply with one field."""

    word: Annotated[str, msgspec.Meta(max_length=40)]


def probe(address: Address, key: str = "", *, seconds: float = PROBE_SECONDS) -> Capabilities:
    """Returns the capabilities of an endpoint and its model.

    Args:
        seconds: Time limit of each request.

    Raises:
        ModelError: The endpoint cannot be reached, does not finish an answer in time, or neither continues texts nor
            answers messages.
    """
    endpoint = EndpointClient(address, key, seconds=seconds)
    try:
        endpoint.ask_blocking("models", None)
    except (EndpointAway, RequestRefused) as error:
        # Not reachable, or too slow for anything; other errors only mean that the server lists no models.
        if isinstance(error, EndpointAway) and (error.silent or error.overdue):
            raise
    # What fails from here on fails for good, so nothing is tried twice but what comes too fast for the endpoint.
    return BackgroundLoop(address.host, address.port).run(
        lambda: _Probe(endpoint.with_one_attempt(address)).run()
    )


class _Probe:
    """Sends the requests that show what one endpoint can do."""

    def __init__(self, endpoint: EndpointClient) -> None:
        """Sends no request yet."""
        self._endpoint = endpoint
        self._client: httpx.AsyncClient | None = None
        self._last_failure = ""
        self._thinking_limit = 0
        self._thought_tokens: list[int] = []
        self._places = asyncio.Semaphore(PROBES_IN_FLIGHT)

    async def run(self) -> Capabilities:
        """Returns the capabilities."""
        async with self._endpoint.open_connections() as self._client:
            return await self._probe_all()

    async def _probe_all(self) -> Capabilities:
        """Probes the capabilities side by side, and those that depend on others after them.

        Raises:
            EndpointError: The endpoint neither continues texts nor answers messages.
        """
        props, plain, chat, tokens, server, template = await asyncio.gather(
            self._get("/props"),
            self._attempt(self._complete(_TEXT, max_tokens=4)),
            self._attempt(self._reply([_user_message("Say hello.")], max_tokens=4)),
            self._find_tokens(),
            self._get("/version"),
            self._find_template(),
        )
        props = props if isinstance(props, dict) else {}
        thinks = chat is not None and chat.lacks_tokens
        self._thinking_limit = THINKING_TOKENS[0] if thinks else 0
        if plain is None and chat is None:
            raise EndpointError(
                f"{self._endpoint.address.base} neither continues texts nor answers messages with the model"
                f" {self._endpoint.address.model!r}. {self._last_failure}".rstrip(),
                "Is that its name? `curl …/v1/models` lists the names. Does it want a key? --key-env names the"
                " variable that holds one.",
            )
        answers = chat is not None
        ids, (chat_top, prefill, structure), listing, token_sizes = await asyncio.gather(
            self._takes_ids(tokens, plain),
            self._find_chat_capabilities(answers),
            self._find_listing(props),
            self._measure_tokens(answers),
        )
        context, prices = listing
        chars_per_token, tokens_per_piece = token_sizes
        return Capabilities(
            server=_server_name(props, server),
            completions=plain is not None,
            chat=answers,
            chat_top=chat_top,
            ids=ids,
            tokens=tokens,
            template=template,
            prefill=prefill,
            structure=structure,
            context=context,
            parallel=positive(props.get("total_slots")),
            thinks=thinks,
            chars_per_token=chars_per_token,
            tokens_per_piece=tokens_per_piece,
            thinking_tokens=mean(self._thought_tokens) if self._thought_tokens else None,
            listed_prices=prices,
        )

    # Requests

    async def _ask(self, name: str, body: Mapping[str, Any] | None) -> Any:
        """Sends a request for the model of the endpoint and returns the JSON answer; raises as `EndpointClient.ask`."""
        assert self._client is not None
        sent = None if body is None else {"model": self._endpoint.address.model, **body}
        async with self._places:
            return await self._endpoint.ask(self._client, name, sent)

    async def _get(self, name: str) -> Any:
        """Returns the answer to a GET; None if there is none."""
        return await self._attempt(self._ask(name, None))

    async def _attempt(self, work: Awaitable[T]) -> T | None:
        """Returns the result of a request; None if the endpoint cannot answer it."""
        try:
            return await work
        except (RequestRefused, EndpointAway) as error:
            if isinstance(error, EndpointAway) and error.overdue:
                raise  # dozens of requests follow, and each would take as long
            # Of a path that the server need not have, a 404 says nothing of what is wrong.
            if "404" not in error.message or not self._last_failure:
                self._last_failure = error.message
            return None

    async def _complete(self, prompt: str | Sequence[int], **options: Any) -> EndpointReply:
        """Returns the most probable continuation of a prompt; `options` are further fields of the request."""
        body = {"prompt": prompt, "temperature": 0, **options}
        return read_completion(await self._ask("completions", body))

    async def _reply(self, messages: Sequence[Mapping[str, str]], **options: Any) -> EndpointReply:
        """Returns the most probable answer to messages; `options` are further fields of the request."""
        body = {"messages": list(messages), "temperature": 0, **options}
        body["max_tokens"] += self._thinking_limit
        answer = await self._ask("chat/completions", body)
        written = read_completion(answer)
        if self._thinking_limit and (tokens := counted_tokens(answer, "completion_tokens")):
            self._thought_tokens.append(max(0, tokens - count_pieces(written.text)))
        return written

    # Capabilities

    async def _find_tokens(self) -> Tokens:
        """Returns how the endpoint is asked for the tokens of a text; "" if it cannot be."""
        kinds: tuple[Tokens, ...] = ("vllm", "llama-server", "llama-cpp-python")
        for kind in kinds:
            result = await self._attempt(token_ids(self._ask, kind, "Rome and Paris"))
            # Servers ignore fields that they do not know, so one may answer with no tokens to another's question.
            if result:
                return kind
        return ""

    async def _find_chat_capabilities(self, answers: bool) -> tuple[int, Prefill, Structure]:
        """Returns `chat_top`, `prefill` and `structure` of `Capabilities`.

        Args:
            answers: Whether the endpoint answers messages.
        """
        if not answers:
            return 0, "", ""
        return await asyncio.gather(
            self._find_chat_top(), self._find_prefill(), self._find_structure()
        )

    async def _find_chat_top(self) -> int:
        """Returns how many of the most probable tokens an answer to messages lists, 0 for none."""
        messages, options = [_user_message("Say hello.")], {"max_tokens": 1, "logprobs": True}
        results = await asyncio.gather(
            *(
                self._attempt(self._reply(messages, top_logprobs=count, **options))
                for count in LOG_PROB_COUNTS
            )
        )
        listed = (
            min(count, _count_listed(reply))
            for count, reply in zip(LOG_PROB_COUNTS, results, strict=True)
        )
        # Of the largest number that it accepts.
        return next((count for count in listed if count), 0)

    async def _takes_ids(self, tokens: Tokens, plain: EndpointReply | None) -> bool:
        """Returns whether a prompt may be token ids: whether those of a text are continued as the text is.

        Args:
            plain: The continuation of that text; None if the endpoint continues none.
        """
        if plain is None or not tokens:
            return False
        ids = await token_ids(self._ask, tokens, _TEXT, start=True)
        from_ids = await self._attempt(self._complete(ids, max_tokens=4))
        return from_ids is not None and from_ids.text == plain.text

    async def _find_template(self) -> Template:
        """Returns how the endpoint is asked for messages in the model's chat template; "" if it cannot be."""
        kinds: tuple[Template, ...] = ("llama-server", "vllm")
        for kind in kinds:
            result = await self._attempt(apply_template(self._ask, kind, [_user_message(_WORD)]))
            if result and _WORD in result:
                return kind
        return ""

    async def _find_prefill(self) -> Prefill:
        """Returns how the beginning of a reply is given. The test is the first half of the model's own reply, which it
        has to continue."""
        messages = [_user_message("Count from one to ten in words, separated by commas.")]
        full_reply = await self._attempt(self._reply(messages, max_tokens=12))
        if full_reply is None or len(full_reply.text) < MIN_REPLY_CHARACTERS:
            return ""
        # Up to the last space, so that no word is cut.
        first_half, *_ = full_reply.text[: len(full_reply.text) // 2].rsplit(" ", 1)
        if not first_half:
            return ""
        begun_messages = [*messages, {"role": "assistant", "content": first_half}]
        continued = {"continue_final_message": True, "add_generation_prompt": False}
        kinds: tuple[tuple[Prefill, dict[str, bool]], ...] = (("last", {}), ("continue", continued))
        results = await asyncio.gather(
            *(
                self._attempt(self._reply(begun_messages, max_tokens=6, **options))
                for _, options in kinds
            )
        )
        for (kind, _), result in zip(kinds, results, strict=True):
            next_text = full_reply.text[len(first_half) :].strip()[:NEXT_CHARACTERS]
            if result is not None and next_text and result.text.strip().startswith(next_text):
                return kind
        return ""

    async def _find_structure(self) -> Structure:
        """Returns how the endpoint is asked for a reply with given fields, the surest way first; "" if it cannot be.
        The test is a field with a value that no model writes by itself."""
        schema = {
            "type": "object",
            "properties": {"word": {"enum": [_WORD]}},
            "required": ["word"],
            "additionalProperties": False,
        }
        exact_request = f'Reply with the JSON object {{"word": "{_WORD}"}} and nothing else.'
        kinds: tuple[Structure, ...] = ("json_schema", "json_object", "tool", "plain")
        for kind in kinds:
            content = exact_request if kind == "plain" else "Reply with a JSON object. Say hello."
            body = structure_fields(kind, schema)
            request = self._reply([_user_message(content)], max_tokens=48, **body)
            result = await self._attempt(request)
            try:
                if result is not None and read_reply(_ProbedWord, result.text).word == _WORD:
                    return kind
            except UnreadableReply:
                continue
        return ""

    async def _find_listing(
        self, props: Mapping[str, Any]
    ) -> tuple[int | None, tuple[float, float] | None]:
        """Returns the longest sequence in tokens and the prices of a million tokens, read and written; None for what
        the endpoint does not say."""
        listed = await self._get("models")
        entries = listed.get("data") if isinstance(listed, dict) else None
        entry = next(
            (
                entry
                for entry in (entries if isinstance(entries, list) else [])
                if isinstance(entry, dict) and entry.get("id") == self._endpoint.address.model
            ),
            {},
        )
        prices = _read_prices(entry.get("pricing"))
        places = [props.get("default_generation_settings"), entry, entry.get("meta")]
        for place in places:
            for name in ("n_ctx", "max_model_len", "context_length", "max_context_length"):
                if isinstance(place, dict) and (tokens := positive(place.get(name))):
                    return tokens, prices
        return None, prices

    async def _measure_tokens(self, as_messages: bool) -> tuple[float | None, float | None]:
        """Returns the characters of a token, and the tokens of a piece of text, of a sample of logs, by the tokens that
        it adds to a request; None for an endpoint that counts none.

        Args:
            as_messages: Whether the sample is sent as a message, else as a text to continue.
        """
        sample = (resources.files("engine.model") / "sample_logs.txt").read_text("utf-8")

        async def prompt_tokens(text: str) -> int | None:
            """Returns the tokens of a request with this text, as the endpoint counts them."""
            sent = {"messages": [_user_message(text)]} if as_messages else {"prompt": text}
            name = "chat/completions" if as_messages else "completions"
            answer = await self._attempt(self._ask(name, {**sent, "max_tokens": 1}))
            return counted_tokens(answer, "prompt_tokens")

        sample = sample[:SAMPLE_CHARACTERS]
        short, long = await asyncio.gather(prompt_tokens(_WORD), prompt_tokens(sample))
        if not (short and long and long > short):
            return None, None
        return len(sample) / (long - short), (long - short) / count_pieces(sample)


def _server_name(props: Mapping[str, Any], version: Any) -> str:
    """Returns what the server calls itself in its answers to `/props` and `/version`."""
    name = "unknown"
    if "build_info" in props:
        name = f"llama-server {props['build_info']}"
    elif isinstance(version, dict) and isinstance(version.get("version"), str):
        name = f"version {version['version']}"
    return one_line(name, MAX_SERVER_CHARACTERS)


def _read_prices(pricing: Any) -> tuple[float, float] | None:
    """Returns the prices of a million tokens, read and written, of what a list of models says of one token; None where
    it says none."""
    try:
        read, written = (float(pricing[name]) for name in ("prompt", "completion"))
        return read * TOKENS_PRICED, written * TOKENS_PRICED
    except (KeyError, TypeError, ValueError):
        return None


def _count_listed(written: EndpointReply | None) -> int:
    """Returns how many of the most probable tokens a completion lists at its first position; 0 without a completion."""
    if written is None or not written.positions:
        return 0
    return len(written.positions[0].top)


def _user_message(content: str) -> dict[str, str]:
    """Returns a message of the user, as a field of a request."""
    return {"role": "user", "content": content}
