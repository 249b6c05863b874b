"""A `ModelClient` over HTTP endpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from engine.base.errors import Cancelled, EndpointError, RequestRefused, UsageError
from engine.base.number_format import counted
from engine.completeness.block import ItemScore, Question
from engine.completeness.logs import log_tokens
from engine.jobs.contract import (
    OnProgress,
)
from engine.model.chat import Completion
from engine.model.endpoints import tree_growth
from engine.model.endpoints.chat import chat_replies, no_chat
from engine.model.endpoints.known_tokens import UNBOUNDED
from engine.model.endpoints.log_probs import Raw, Reader
from engine.model.endpoints.replies import write_replies
from engine.model.endpoints.scoring import score_items
from engine.model.endpoints.tree_growth import Grown, Spellings
from engine.model.http.capabilities import (
    Capabilities,
    no_curve,
    no_laid_out,
    no_reading,
    no_tree,
    no_writing,
)
from engine.model.http.fleet import Fleet
from engine.model.interface import LoadOptions, Sampling
from engine.model.process.model_client import (
    ModelClient,
)
from engine.model.process.requests import (
    Chat,
    CountTokens,
    Generate,
    Grow,
    GrownTree,
    GrowOn,
    LogProbs,
    Request,
    Score,
    WrittenReply,
)
from engine.model.prompt_files import Prompt
from engine.trees.growth import Work
from engine.trees.record import restore
from engine.trees.tree import Tree, TreeOptions, lower_below

T = TypeVar("T")


class EndpointModel(ModelClient):
    """A model that one endpoint serves, or several alike."""

    def __init__(self, label: str, fleet: Fleet, can: Capabilities) -> None:
        """Prepares; sends no request.

        Args:
            label: Name of the model in error messages.
            can: Capabilities that all of the endpoints have.
        """
        self._label, self._fleet, self._can = label, fleet, can
        self._context = can.context or UNBOUNDED
        self._turn = threading.Lock()
        self._handlers: dict[type[Request[Any]], Callable[[Any, Callable[[int], None]], Any]] = {
            Score: self._score,
            Generate: self._generate,
            Chat: self._chat,
            LogProbs: self._log_probs,
            Grow: self._grow,
            GrowOn: self._grow_on,
            CountTokens: self._count_tokens,
        }

    # Checks before a run starts

    def refuse_curve(self, question: Question) -> None:
        """Raises UsageError if this question cannot be answered exactly at each boundary."""
        if question.states:
            self._refuse("hidden states", "its interface has probabilities only")
        self._refuse(
            "curves of completeness", no_curve(self._can, question.prompt, question.end_tag)
        )

    def refuse_writing(self, prompt: Prompt | None) -> None:
        """Raises UsageError if replies cannot be written."""
        self._refuse("replies", no_writing(self._can, prompt))

    def refuse_trees(self, options: TreeOptions) -> None:
        """Raises UsageError if response trees cannot be grown with these options."""
        self._refuse("response trees", no_tree(self._can))
        tree_growth.options_for(self._can, options)

    def refuse_reading(self, prompt: Prompt | None) -> None:
        """Raises UsageError if probabilities of given answers cannot be read."""
        reason = no_reading(self._can)
        if reason is None and prompt is not None:
            reason = no_laid_out(self._can, prompt)
        self._refuse("probabilities of given answers", reason)

    def _refuse(self, what: str, reason: str | None) -> None:
        if reason:
            raise UsageError(
                f"{self._label} cannot give {what}: {reason}.",
                "Use another endpoint or a model of this machine for that.",
            )

    def refuse_chat(self, sampling: Sampling) -> None:
        """Raises UsageError if chat replies cannot be written with this sampling."""
        self._refuse("replies to messages", no_chat(self._can, sampling))

    # Requests

    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        merged: Path | None = None,
    ) -> Mapping[str, Any]:
        """Starts a new count of requests and costs, and limits the context to the one asked for.

        Raises:
            ModelError: An adapter is asked for; the endpoint has to serve it as a model.
        """
        if adapter is not None:
            raise EndpointError(
                f"{self._label} cannot be sent an adapter.",
                "Let the endpoint serve it, as a model.",
            )
        self._fleet.begin()
        held = self._can.context or UNBOUNDED
        self._context = min(held, options.context or held)
        return {"name": self._label, "context": self._context}

    def ask(self, request: Request[T], progress: OnProgress | None = None) -> T:
        """Answers a request by requests to the endpoints.

        Raises:
            Cancelled: `cancel` was called while it ran.
            ModelError: No endpoint is left.
            RequestRefused: The endpoint refuses an item, or hides a probability that is asked for.
            UsageError: The endpoints cannot answer such a request.
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            raise UsageError(f"The speed of {self._label} cannot be measured.")
        report = progress or (lambda count, note: None)
        return cast(T, handler(request, lambda count: report(count, "")))

    def _score(self, request: Score, report: Callable[[int], None]) -> list[ItemScore]:
        # What cannot be scored exactly is unscored with the reason; remaining tasks are not written here.
        self.refuse_curve(request.question)
        done = 0

        def read(tokens: int) -> None:
            nonlocal done
            done += tokens
            report(done)

        return self._run(
            lambda: score_items(
                self._reader(), request.items, request.question, self._context, read
            )
        )

    def _generate(self, request: Generate, report: Callable[[int], None]) -> list[WrittenReply]:
        self.refuse_writing(request.prompt)
        if request.sampling.json_schema and not self._can.schema:
            self._refuse("replies by a schema", "its replies do not follow one")
        return self._run(lambda: write_replies(self._reader(), request, self._context, report))

    def _chat(self, request: Chat, report: Callable[[int], None]) -> list[Completion]:
        for sampling in {call.sampling for call in request.calls}:
            self.refuse_chat(sampling)
        return self._run(lambda: chat_replies(self._reader(), request.calls, self._context, report))

    def _log_probs(
        self, request: LogProbs, _report: Callable[[int], None]
    ) -> list[list[tuple[float, int]]]:
        self.refuse_reading(request.prompt)

        async def work() -> list[list[tuple[float, int]]]:
            reader = self._reader()
            around = await reader.known.learn_prompt(request.prompt)
            found = []
            for text, continuations in request.items:
                answers = [await reader.answer(one) for one in continuations]
                await reader.known.learn_log([text])
                longest = max((len(one.ids) for one in answers), default=0)
                room = self._context - longest - len(around.tokens.head) - len(around.tokens.tail)
                tokens, _ = log_tokens(reader.known, [text], 0, room)
                ids = (*around.tokens.head, *tokens, *around.tokens.tail)
                raw = Raw(around.head + text + around.tail, ids)
                values = [await reader.log_p(raw, one) for one in answers]
                if None in values:
                    raise RequestRefused(
                        f"An answer is not among the {self._can.top} most probable tokens."
                    )
                found.append(
                    [
                        (value or 0.0, len(one.ids))
                        for value, one in zip(values, answers, strict=True)
                    ]
                )
            return found

        return self._run(work)

    def _grow(self, request: Grow, report: Callable[[int], None]) -> tuple[list[GrownTree], Work]:
        # Children that the endpoint does not list are pruned mass.
        self.refuse_trees(request.options)
        options = tree_growth.options_for(self._can, request.options)
        # Where tokens have numbers of our own, none of them is the end token.
        named = self._can.end_token if self._can.named else None
        stops = frozenset() if named is None else frozenset({named})

        async def work() -> tuple[list[Grown], Work]:
            reader = self._reader()
            jobs = [
                await tree_growth.begin(
                    reader, place, lambda known: Tree(options, stops, known.of), {}, self._context
                )
                for place in request.places
            ]
            return jobs, await tree_growth.grow(reader, jobs, request.budget, report)

        jobs, done = self._run(work)
        return [_grown(job) for job in jobs], done

    def _grow_on(self, request: GrowOn, report: Callable[[int], None]) -> tuple[GrownTree, Work]:
        record = request.tree
        self.refuse_trees(restore(record).options)
        jobs: list[Grown] = []
        read = 0

        def make(known: Spellings) -> Tree:
            made = restore(record)
            made.spelling = known.of
            if request.below is not None and request.alpha is not None:
                lower_below(made, request.alpha, request.below)
            return made

        def note(nodes: int) -> None:
            nonlocal read
            read = nodes
            report(nodes)

        async def work() -> Work:
            reader = self._reader()
            spelled = {int(token): bytes.fromhex(text) for token, text in record.spellings.items()}
            bare = replace(request.place, answer="")
            jobs.append(await tree_growth.begin(reader, bare, make, spelled, self._context))
            return await tree_growth.grow(reader, jobs, request.budget, note)

        try:
            done = self._run(work)
        except Cancelled:
            if not jobs:
                raise
            done = Work(read, read, read, 0.0, 0.0, False)
        return _grown(jobs[0]), done

    def _count_tokens(self, request: CountTokens, _report: Callable[[int], None]) -> list[int]:
        if not self._can.tokens:
            self._refuse("counts of tokens", "it cannot be asked which tokens a text has")

        async def work() -> list[int]:
            known = self._reader().known
            await known.learn([text for texts in request.items for text in texts])
            return [sum(len(known.tokenize(text)) for text in texts) for texts in request.items]

        return self._run(work)

    def spent(self) -> str:
        """Requests, tokens and cost since `load`, and the endpoints that are no longer used."""
        account = self._fleet.account
        words = counted(account.requests, "request")
        words += f", {account.cached:,} more answered from the cache" if account.cached else ""
        words += f", {account.again:,} sent again" if account.again else ""
        words += f"; {account.read:,} tokens read, {account.written:,} written"
        words += "" if account.cost is None else f", cost {account.cost:,.4f}"
        return ". ".join(
            [words, *(f"Taken out: {why.rstrip('.')}" for why in self._fleet.taken_out)]
        )

    def cancel(self) -> None:
        """Makes the request in flight raise `Cancelled`."""
        self._fleet.cancel()

    def close(self) -> None:
        """Abandons the requests in flight."""
        self.cancel()

    def _reader(self) -> Reader:
        return Reader(self._fleet.ask, self._can)

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        with self._turn:
            return self._fleet.run(work)


def _grown(job: Grown) -> GrownTree:
    return GrownTree(job.tree, job.answer, job.answer_log_probs, job.prompt_tokens, job.note)
