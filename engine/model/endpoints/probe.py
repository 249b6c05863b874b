"""Probes the capabilities of an endpoint with a few dozen short requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import resources
from math import exp
from statistics import mean
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from engine.base.errors import EndpointAway, EndpointError, RequestRefused
from engine.base.text import one_line
from engine.model.endpoints.capabilities import Capabilities, Prefill, Structure, Template, Tokens
from engine.model.endpoints.client import Address, BackgroundLoop, EndpointClient
from engine.model.endpoints.dialects import (
    THINKING_TOKENS,
    Step,
    Written,
    apply_template,
    read_completion,
    structure_fields,
    text_pieces,
    token_ids,
)
from engine.model.endpoints.fleet import TOKENS_PRICED
from engine.model.reply_forms import UnreadableReply, read_reply

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
"""Result of a request."""

LOG_PROB_COUNTS = (1000, 100, 50, 20, 10, 5, 1)
"""Numbers of log-probabilities that are requested, one after another, until the endpoint accepts one."""

CHAT_LOG_PROB_COUNTS = (20, 10, 5, 1)
"""The same for answers to messages, of which OpenAI's protocol allows 20."""

MIN_REPLY_CHARACTERS = 8
"""Length of the shortest reply whose first half says whether the endpoint continues it."""

NEXT_CHARACTERS = 6
"""Number of characters of a continued reply that have to be those of the whole one."""

MAX_SERVER_CHARACTERS = 60
"""Longest name of a server that is shown."""

MAX_DIFFERENCE = 0.05
"""Largest difference between two readings of the same probability: more than the batch noise of any format, less than
what the probability of another token would give."""

_TEXT = "TURN 1, STEP 1, user chat:\nThe capital of France is Paris. The capital of Italy is"
"""The raw text that most completions of a probe continue."""

_CONTROL_TOKENS = ("<|im_end|>", "<|endoftext|>", "</s>", "<|eot_id|>", "<end_of_turn>")
"""Control tokens of well-known models; an endpoint that reads one as such gives it one token."""

_WORD = "zqzq"
"""A word that no model writes by itself."""

SAMPLE_CHARACTERS = 4_000
"""Characters of the sample whose tokens are counted."""

NO_LOG_PROBS = (0, False, False, False)
"""What `_Probe._read_log_probs` returns of an endpoint whose completions list none."""

NO_PREFILL: Prefill = ""
"""The capability of an endpoint that cannot be given the beginning of a reply."""

NO_STRUCTURE: Structure = ""
"""The capability of an endpoint that answers no messages."""

PROBES_IN_FLIGHT = 16
"""Most requests of a probe that are sent side by side."""

PROBE_SECONDS = 240.0
"""Default time limit of a request, which writes a few tokens; the server may have to load the model first."""


class _ProbedWord(msgspec.Struct):
    """A reply with one field."""

    word: Annotated[str, msgspec.Meta(max_length=40)]


def probe(
    address: Address, key: str = "", *, end_text: str = "", seconds: float = PROBE_SECONDS
) -> Capabilities:
    """Returns the capabilities of an endpoint and its model.

    Args:
        end_text: Text of the model's end-of-text token; "" lets the endpoint say it.
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
    return BackgroundLoop([address]).run(lambda: _Probe(endpoint.at(address), end_text).run())


class _Probe:
    """Sends the requests that show what one endpoint can do."""

    def __init__(self, endpoint: EndpointClient, end_text: str) -> None:
        """Sends no request yet; `end_text` is that of `probe`."""
        self._endpoint, self._end_text = endpoint, end_text
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
        """Probes the capabilities side by side, and those that depend on others after them."""
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
        end_text = self._end_text or str(props.get("eos_token") or "")
        answers, continues = chat is not None, plain is not None
        start = asyncio.ensure_future
        log_probs = start(self._read_log_probs(tokens) if continues else _nothing(NO_LOG_PROBS))
        chat_top = start(self._find_chat_top() if answers else _nothing(0))
        prefill = start(self._find_prefill() if answers else _nothing(NO_PREFILL))
        structure = start(self._find_structure() if answers else _nothing(NO_STRUCTURE))
        vectors = start(self._attempt(self._embed()))
        end_token = start(self._find_end_token(tokens, end_text))
        controls = start(self._reads_controls(tokens, end_text))
        listing = start(self._find_listing(props))
        token_sizes = start(self._measure_tokens(answers))
        top, ids, named, echo = await log_probs
        context, prices = await listing
        chars_per_token, tokens_per_piece = await token_sizes
        return Capabilities(
            server=_server_name(props, server),
            completions=continues,
            chat=answers,
            top=top,
            chat_top=await chat_top,
            ids=ids,
            named=named,
            echo=echo,
            tokens=tokens,
            template=template,
            prefill=await prefill,
            structure=await structure,
            embeddings=await vectors is not None,
            end_token=await end_token,
            end_text=end_text,
            controls=await controls,
            context=context,
            parallel=_positive(props.get("total_slots")),
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

    async def _complete(self, prompt: str | Sequence[int], **options: Any) -> Written:
        """Returns the most probable continuation of a prompt; `options` are further fields of the request."""
        body = {"prompt": prompt, "temperature": 0, **options}
        return read_completion(await self._ask("completions", body))

    async def _reply(self, messages: Sequence[Mapping[str, str]], **options: Any) -> Written:
        """Returns the most probable answer to messages; `options` are further fields of the request."""
        body = {"messages": list(messages), "temperature": 0, **options}
        body["max_tokens"] += self._thinking_limit
        answer = await self._ask("chat/completions", body)
        written = read_completion(answer)
        if self._thinking_limit and (tokens := _counted_tokens(answer, "completion_tokens")):
            self._thought_tokens.append(max(0, tokens - text_pieces(written.text)))
        return written

    async def _embed(self) -> Any:
        """Returns the answer to a request for vectors; raises RequestRefused if there are none in it."""
        answer = await self._ask("embeddings", {"input": ["a text"]})
        if not (isinstance(answer, dict) and answer.get("data")):
            raise RequestRefused("no vectors")
        return answer

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

    async def _read_log_probs(self, tokens: Tokens) -> tuple[int, bool, bool, bool]:
        """Returns what completions list of log-probabilities: `top`, `ids`, `named` and `echo` of `Capabilities`."""
        top = await self._find_top()
        if not top:
            return NO_LOG_PROBS
        ids, named = await self._takes_ids(tokens)
        return top, ids, named, await self._gives_echo(tokens, ids)

    async def _find_top(self) -> int:
        """Returns how many of the most probable tokens a completion lists, 0 for none."""
        options = {"max_tokens": 1, "return_tokens_as_token_ids": True}
        return await self._largest_count(
            LOG_PROB_COUNTS, lambda count: self._complete(_TEXT, logprobs=count, **options)
        )

    async def _find_chat_top(self) -> int:
        """Returns how many of the most probable tokens an answer to messages lists, 0 for none."""
        messages, options = [_user_message("Say hello.")], {"max_tokens": 1, "logprobs": True}
        return await self._largest_count(
            CHAT_LOG_PROB_COUNTS, lambda count: self._reply(messages, top_logprobs=count, **options)
        )

    async def _largest_count(
        self, counts: Sequence[int], request: Callable[[int], Awaitable[Written]]
    ) -> int:
        """Returns how many tokens an endpoint lists of the largest number that it accepts, 0 for none."""
        results = await asyncio.gather(*(self._attempt(request(count)) for count in counts))
        listed = (min(count, _count_listed(r)) for count, r in zip(counts, results, strict=True))
        return next((count for count in listed if count), 0)

    async def _takes_ids(self, tokens: Tokens) -> tuple[bool, bool]:
        """Returns whether a prompt may be token ids, and whether answers list tokens with their ids."""
        options = {"max_tokens": 1, "logprobs": 1, "return_tokens_as_token_ids": True}
        ids = await token_ids(self._ask, tokens, _TEXT, start=True) if tokens else []
        text, from_ids = await asyncio.gather(
            self._complete(_TEXT, **options),
            self._attempt(self._complete(ids, **options)) if ids else _nothing(None),
        )
        named = bool(text.steps) and all(token.token is not None for token in text.steps[0].top)
        return from_ids is not None and _same_steps(text.steps, from_ids.steps), named

    async def _gives_echo(self, tokens: Tokens, ids: bool) -> bool:
        """Returns whether the endpoint gives the probabilities of a prompt's own tokens. They are compared with those
        of the completion that the prompt repeats, because some servers give those of the next token."""
        if not tokens:
            return False
        options = {"temperature": 0, "logprobs": 1, "return_tokens_as_token_ids": True}
        first = await self._complete(_TEXT, max_tokens=3, **options)
        prompt: str | list[int] = _TEXT + first.text
        if ids:
            start = await token_ids(self._ask, tokens, _TEXT, start=True)
            named = [step.chosen.token for step in first.steps if step.chosen]
            more_ids = [token for token in named if token is not None]
            prompt = start + (more_ids or await token_ids(self._ask, tokens, first.text))
        echoed = await self._attempt(self._complete(prompt, max_tokens=1, echo=True, **options))
        if echoed is None or len(echoed.steps) <= len(first.steps) + 1:
            return False
        for shift in (0, 1):  # with or without the token written after the prompt
            start_index = len(echoed.steps) - len(first.steps) - shift
            if _same_steps(first.steps, echoed.steps[start_index : start_index + len(first.steps)]):
                return True
        return False

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

    async def _find_end_token(self, tokens: Tokens, end_text: str) -> int | None:
        """Returns the id of the end-of-text token; None if the endpoint does not say it."""
        if not tokens or not end_text:
            return None
        bare = await token_ids(self._ask, tokens, "", special=True)
        ids = await token_ids(self._ask, tokens, end_text, special=True)
        ids = ids[len(bare) :] if ids[: len(bare)] == bare else ids
        if len(ids) != 1:
            return None
        (end_token,) = ids
        return end_token

    async def _reads_controls(self, tokens: Tokens, end_text: str) -> bool:
        """Returns whether control tokens in texts are read as such; True if the endpoint does not say."""
        if not tokens:
            return True
        # Some servers put a start token in front of every text.
        bare = len(await token_ids(self._ask, tokens, ""))
        texts = [*_CONTROL_TOKENS, *([end_text] if end_text else [])]
        read = await asyncio.gather(*(token_ids(self._ask, tokens, text) for text in texts))
        return min(map(len, read)) - bare <= 1

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
                if isinstance(place, dict) and (tokens := _positive(place.get(name))):
                    return tokens, prices
        return None, prices

    async def _measure_tokens(self, messages: bool) -> tuple[float | None, float | None]:
        """Returns the characters of a token, and the tokens of a piece of text, of a sample of logs, by the tokens that
        it adds to a request; None for an endpoint that counts none."""
        sample = (resources.files("engine.model") / "sample_logs.txt").read_text("utf-8")

        async def prompt_tokens(text: str) -> int | None:
            """Returns the tokens of a request with this text, as the endpoint counts them."""
            sent = {"messages": [_user_message(text)]} if messages else {"prompt": text}
            name = "chat/completions" if messages else "completions"
            answer = await self._attempt(self._ask(name, {**sent, "max_tokens": 1}))
            return _counted_tokens(answer, "prompt_tokens")

        sample = sample[:SAMPLE_CHARACTERS]
        short, long = await asyncio.gather(prompt_tokens(_WORD), prompt_tokens(sample))
        if not (short and long and long > short):
            return None, None
        return len(sample) / (long - short), (long - short) / text_pieces(sample)


async def _nothing(result: T) -> T:
    """Returns the result of a request that is not sent, because the endpoint cannot answer it."""
    return result


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


def _count_listed(written: Written | None) -> int:
    """Returns how many of the most probable tokens a completion lists at its first position; 0 without a completion."""
    step = next(iter(written.steps), None) if written is not None else None
    return len(step.top) if step is not None else 0


def _user_message(content: str) -> dict[str, str]:
    """Returns a message of the user, as a field of a request."""
    return {"role": "user", "content": content}


def _positive(value: Any) -> int | None:
    """Returns a number above 0; None for anything else."""
    return value if isinstance(value, int) and value > 0 else None


def _counted_tokens(answer: Any, name: str) -> int | None:
    """Returns a number of tokens that the usage of an answer gives under a name; None where it gives none."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    return _positive(usage.get(name)) if isinstance(usage, dict) else None


def _same_steps(first: Sequence[Step], second: Sequence[Step]) -> bool:
    """Returns whether both have the same tokens with the same probabilities, and at least one."""
    if not first or len(first) != len(second):
        return False
    return all(
        step.chosen is not None
        and other_step.chosen is not None
        and (step.chosen.token, step.chosen.text)
        == (other_step.chosen.token, other_step.chosen.text)
        and abs(exp(step.chosen.log_p) - exp(other_step.chosen.log_p)) <= MAX_DIFFERENCE
        for step, other_step in zip(first, second, strict=True)
    )
