"""Probes the capabilities of an endpoint with a few dozen short requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from math import exp
from typing import TYPE_CHECKING, Any, TypeVar

from engine.base.errors import EndpointAway, EndpointError, RequestRefused
from engine.base.text import one_line
from engine.model.http.address import Address
from engine.model.http.capabilities import Capabilities, Prefill, Template, Tokens
from engine.model.http.client import BackgroundRun, EndpointClient
from engine.model.http.dialects import Step, Written, grammar_for, laid_out, token_ids, written

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
TOPS = (1000, 100, 50, 20, 10, 5, 1)
"""Numbers of log-probabilities to ask for, until the endpoint accepts one."""

AGREES = 0.05
"""Largest difference of a probability that is read off a prompt and off a completion: over the batch noise of any
format, under what another token would give."""

_TEXT = "TURN 1, STEP 1, user chat:\nThe capital of France is Paris. The capital of Italy is"
_ALIKE = (
    "The capital of Spain is",
    "One, two, three, four, five,",
    "Monday, Tuesday,",
    "Roses are",
)
_ONE_TOKEN = ("<|im_end|>", "<|endoftext|>", "</s>", "<|eot_id|>", "<end_of_turn>")
_WORD = "zqzq"
PROBE_SECONDS = 240.0
"""Time limit of a request, which writes a few tokens; the server may have to load the model first."""


def probe(
    address: Address, key: str = "", *, end_text: str = "", seconds: float = PROBE_SECONDS
) -> Capabilities:
    """Probes an endpoint and its model.

    Args:
        end_text: Text of the model's end-of-text token, if the user knows it.
        seconds: Time limit of each request.

    Raises:
        ModelError: The endpoint cannot be reached, does not come to the end of an answer in time, or neither continues
            texts nor answers messages.
    """
    asker = EndpointClient(address, key, seconds=seconds)
    try:
        asker.once("models", None)
    except EndpointAway as error:
        # Not reachable, or too slow for anything; other errors only mean that the server lists no models.
        if error.silent or error.overdue:
            raise
    # What fails from here on fails for good, so nothing is tried twice.
    once = EndpointClient(address, key, attempts=1, seconds=seconds)
    return BackgroundRun([address]).run(lambda: _Probe(once, end_text).run())


class _Probe:
    def __init__(self, asker: EndpointClient, end_text: str) -> None:
        self._asker, self._end_text = asker, end_text
        self._client: httpx.AsyncClient | None = None
        self._last = ""

    async def run(self) -> Capabilities:
        async with self._asker.client() as self._client:
            return await self._all()

    async def _all(self) -> Capabilities:
        props = await self._got("/props")
        props = props if isinstance(props, dict) else {}
        plain = await self._tried(self._complete(_TEXT, max_tokens=4))
        chat = await self._tried(self._say([_user("Say hello.")], max_tokens=4))
        if plain is None and chat is None:
            raise EndpointError(
                f"{self._asker.address.base} neither continues texts nor answers messages with the model"
                f" {self._asker.address.model!r}. {self._last}".rstrip(),
                "Is that its name? `curl …/v1/models` lists the names. Does it want a key? --key-env names the"
                " variable that holds one.",
            )
        tokens = await self._tokens()
        top = await self._top() if plain is not None else 0
        ids, named = await self._ids(tokens, top)
        end_text = self._end_text or str(props.get("eos_token") or "")
        return Capabilities(
            server=await self._server(props),
            completions=plain is not None,
            chat=chat is not None,
            top=top,
            chat_top=await self._chat_top() if chat is not None else 0,
            ids=ids,
            named=named,
            echo=await self._echo(tokens, ids) if top else False,
            forced=await self._forced() if top else False,
            tokens=tokens,
            template=await self._template(),
            prefill=await self._prefill() if chat is not None else "",
            seed=await self._seed(plain is not None),
            grammar=await self._grammar(plain is not None),
            schema=await self._schema() if chat is not None else False,
            embeddings=await self._tried(self._embed()) is not None,
            end_token=await self._end_token(tokens, end_text),
            end_text=end_text,
            controls=await self._controls(tokens, end_text),
            context=await self._context(props),
            parallel=_positive(props.get("total_slots")),
            noise=await self._noise(top) if top else None,
        )

    # Requests

    async def _ask(self, name: str, body: Mapping[str, Any] | None) -> Any:
        assert self._client is not None
        sent = None if body is None else {"model": self._asker.address.model, **body}
        return await self._asker.ask(self._client, name, sent)

    async def _got(self, name: str) -> Any:
        return await self._tried(self._ask(name, None))

    async def _tried(self, work: Awaitable[T]) -> T | None:
        """What came of it; None where the endpoint cannot do it."""
        try:
            return await work
        except (RequestRefused, EndpointAway) as error:
            if isinstance(error, EndpointAway) and error.overdue:
                raise  # dozens of requests follow, and each would take as long
            self._last = error.message
            return None

    async def _complete(self, prompt: str | Sequence[int], **more: Any) -> Written:
        body = {"prompt": prompt, "temperature": 0, **more}
        return written(await self._ask("completions", body))

    async def _say(self, messages: Sequence[Mapping[str, str]], **more: Any) -> Written:
        body = {"messages": list(messages), "temperature": 0, **more}
        return written(await self._ask("chat/completions", body))

    async def _embed(self) -> Any:
        answer = await self._ask("embeddings", {"input": ["a text"]})
        if not (isinstance(answer, dict) and answer.get("data")):
            raise RequestRefused("no vectors")
        return answer

    # What is found out

    async def _tokens(self) -> Tokens:
        kinds: tuple[Tokens, ...] = ("vllm", "llama-server", "llama-cpp-python")
        for kind in kinds:
            found = await self._tried(token_ids(self._ask, kind, "Rome and Paris"))
            # Servers ignore fields that they do not know, so one may answer with no tokens to another's question.
            if found:
                return kind
        return ""

    async def _top(self) -> int:
        for count in TOPS:
            asked = self._complete(
                _TEXT, max_tokens=1, logprobs=count, return_tokens_as_token_ids=True
            )
            found = await self._tried(asked)
            if found is not None and found.steps and found.steps[0].top:
                return min(count, len(found.steps[0].top))
        return 0

    async def _chat_top(self) -> int:
        for count in (20, 10, 5, 1):
            asked = self._say(
                [_user("Say hello.")], max_tokens=1, logprobs=True, top_logprobs=count
            )
            found = await self._tried(asked)
            if found is not None and found.steps and found.steps[0].top:
                return min(count, len(found.steps[0].top))
        return 0

    async def _ids(self, tokens: Tokens, top: int) -> tuple[bool, bool]:
        """Whether a prompt may be token ids, and whether tokens are listed with theirs."""
        if not top:
            return False, False
        text = await self._complete(
            _TEXT, max_tokens=1, logprobs=1, return_tokens_as_token_ids=True
        )
        named = bool(text.steps) and all(one.token is not None for one in text.steps[0].top)
        if not tokens:
            return False, named
        ids = await token_ids(self._ask, tokens, _TEXT, start=True)
        same = await self._tried(
            self._complete(ids, max_tokens=1, logprobs=1, return_tokens_as_token_ids=True)
        )
        return same is not None and _agree(text.steps, same.steps), named

    async def _echo(self, tokens: Tokens, ids: bool) -> bool:
        """Whether the probabilities of a prompt's own tokens are given, and are those of the completion that it
        repeats: some servers give those of the token after."""
        if not tokens:
            return False
        more = {"temperature": 0, "logprobs": 1, "return_tokens_as_token_ids": True}
        first = await self._complete(_TEXT, max_tokens=3, **more)
        prompt: str | list[int] = _TEXT + first.text
        if ids:
            start = await token_ids(self._ask, tokens, _TEXT, start=True)
            named = [step.chosen.token for step in first.steps if step.chosen]
            more_ids = [token for token in named if token is not None]
            prompt = start + (more_ids or await token_ids(self._ask, tokens, first.text))
        echoed = await self._tried(self._complete(prompt, max_tokens=1, echo=True, **more))
        if echoed is None or len(echoed.steps) <= len(first.steps) + 1:
            return False
        for shift in (0, 1):  # with or without the token written after the prompt
            at = len(echoed.steps) - len(first.steps) - shift
            if _agree(first.steps, echoed.steps[at : at + len(first.steps)]):
                return True
        return False

    async def _forced(self) -> bool:
        """Whether a token that the model would not have chosen, written because of a grammar, has the probability that
        it had in the list: some servers give what is left after the grammar."""
        free = await self._complete(_TEXT, max_tokens=1, logprobs=20)
        listed = free.steps[0].top[1:] if free.steps else ()
        plain = [one for one in listed if (one.text or b"").strip().isalpha()]
        if not plain:
            return False
        wanted = plain[0]
        text = (wanted.text or b"").decode()
        asked = self._complete(_TEXT, max_tokens=1, logprobs=1, grammar=grammar_for(text))
        forced = await self._tried(asked)
        if forced is None or len(forced.steps) != 1 or forced.steps[0].chosen is None:
            return False
        chosen = forced.steps[0].chosen
        return chosen.text == wanted.text and abs(exp(chosen.log_p) - exp(wanted.log_p)) <= AGREES

    async def _template(self) -> Template:
        kinds: tuple[Template, ...] = ("llama-server", "vllm")
        for kind in kinds:
            found = await self._tried(laid_out(self._ask, kind, [_user(_WORD)]))
            if found and _WORD in found:
                return kind
        return ""

    async def _prefill(self) -> Prefill:
        """Tests how a reply can be begun: sends the start of the model's own reply, which it has to continue."""
        asked = [_user("Count from one to ten in words, separated by commas.")]
        whole = await self._tried(self._say(asked, max_tokens=12))
        if whole is None or len(whole.text) < 8:
            return ""
        half = whole.text[: len(whole.text) // 2].rsplit(" ", 1)[0]
        if not half:
            return ""
        begun = [*asked, {"role": "assistant", "content": half}]
        continued = {"continue_final_message": True, "add_generation_prompt": False}
        kinds: tuple[tuple[Prefill, dict[str, bool]], ...] = (("last", {}), ("continue", continued))
        for kind, more in kinds:
            found = await self._tried(self._say(begun, max_tokens=6, **more))
            rest = whole.text[len(half) :].strip()[:6]
            if found is not None and rest and found.text.strip().startswith(rest):
                return kind
        return ""

    async def _seed(self, completions: bool) -> bool:
        async def sampled(seed: int) -> str | None:
            more = {"temperature": 1.5, "seed": seed, "max_tokens": 12}
            asked = (
                self._complete(_TEXT, **more)
                if completions
                else self._say([_user("Tell a story.")], **more)
            )
            found = await self._tried(asked)
            return None if found is None else found.text

        first, again, other = [await sampled(seed) for seed in (11, 11, 12)]
        return first is not None and first == again != other

    async def _grammar(self, completions: bool) -> bool:
        if not completions:
            return False
        asked = self._complete(_TEXT, grammar=grammar_for(_WORD), max_tokens=8)
        found = await self._tried(asked)
        return found is not None and found.text.strip() == _WORD

    async def _schema(self) -> bool:
        schema = {
            "type": "object",
            "properties": {"word": {"const": _WORD}},
            "required": ["word"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "word", "schema": schema}}
        asked = self._say([_user("Say hello.")], response_format=form, max_tokens=24)
        found = await self._tried(asked)
        return found is not None and _WORD in found.text and found.text.lstrip().startswith("{")

    async def _end_token(self, tokens: Tokens, end_text: str) -> int | None:
        if not tokens or not end_text:
            return None
        bare = await token_ids(self._ask, tokens, "", special=True)
        found = await token_ids(self._ask, tokens, end_text, special=True)
        found = found[len(bare) :] if found[: len(bare)] == bare else found
        return found[0] if len(found) == 1 else None

    async def _controls(self, tokens: Tokens, end_text: str) -> bool:
        """Whether control tokens in texts are read as such."""
        if not tokens:
            return True
        bare = len(await token_ids(self._ask, tokens, ""))
        texts = [*_ONE_TOKEN, *([end_text] if end_text else [])]
        counts = [len(await token_ids(self._ask, tokens, text)) - bare for text in texts]
        return min(counts) <= 1

    async def _context(self, props: Mapping[str, Any]) -> int | None:
        settings = props.get("default_generation_settings")
        if isinstance(settings, dict) and (found := _positive(settings.get("n_ctx"))):
            return found
        listed = await self._got("models")
        entries = listed.get("data") if isinstance(listed, dict) else None
        for entry in entries if isinstance(entries, list) else []:
            if not isinstance(entry, dict) or entry.get("id") != self._asker.address.model:
                continue
            meta = entry.get("meta")
            for place in (entry, meta if isinstance(meta, dict) else {}):
                for name in ("max_model_len", "context_length", "max_context_length", "n_ctx"):
                    if found := _positive(place.get(name)):
                        return found
        return None

    async def _server(self, props: Mapping[str, Any]) -> str:
        if "build_info" in props:
            return one_line(f"llama-server {props['build_info']}", 60)
        version = await self._got("/version")
        if isinstance(version, dict) and isinstance(version.get("version"), str):
            return one_line(f"version {version['version']}", 60)
        return "unknown"

    async def _noise(self, top: int) -> float | None:
        """Largest change of a probability when several requests are under way at once."""

        async def step() -> Step | None:
            found = await self._tried(self._complete(_TEXT, max_tokens=1, logprobs=min(top, 20)))
            return found.steps[0] if found is not None and found.steps else None

        alone = await step()
        others = [self._tried(self._complete(text, max_tokens=4)) for text in _ALIKE]
        beside = (await asyncio.gather(step(), *others))[0]
        if alone is None or not isinstance(beside, Step):
            return None
        return _difference(alone, beside)


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _difference(first: Step, second: Step) -> float | None:
    other = {(one.token, one.text): one.log_p for one in second.top}
    shared = [
        abs(exp(one.log_p) - exp(other[(one.token, one.text)]))
        for one in first.top
        if (one.token, one.text) in other
    ]
    return max(shared, default=None)


def _agree(first: Sequence[Step], second: Sequence[Step]) -> bool:
    """Whether both are the same tokens with the same probabilities."""
    if not first or len(first) != len(second):
        return False
    return all(
        one.chosen is not None
        and other.chosen is not None
        and (one.chosen.token, one.chosen.text) == (other.chosen.token, other.chosen.text)
        and abs(exp(one.chosen.log_p) - exp(other.chosen.log_p)) <= AGREES
        for one, other in zip(first, second, strict=True)
    )
