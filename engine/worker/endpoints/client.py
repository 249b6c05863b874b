"""Endpoints in the place of the model process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from engine.completeness.block import ItemScore, LogItem, Question
from engine.completeness.inline_remaining import RemainingRequest
from engine.completeness.logs import log_tokens
from engine.errors import Cancelled, ModelError, RequestRefused, UsageError
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
from engine.model.prompting import Prompt
from engine.model.talking import Call, Completion
from engine.trees.growth import Budget, Work
from engine.trees.lowering import lower_below
from engine.trees.places import Place
from engine.trees.record import TreeRecord, restore
from engine.trees.tree import Tree, TreeOptions
from engine.worker.endpoints import growing
from engine.worker.endpoints.chatting import chat_replies, no_chat
from engine.worker.endpoints.growing import Grown, Spellings
from engine.worker.endpoints.known import UNBOUNDED
from engine.worker.endpoints.reading import Raw, Reader
from engine.worker.endpoints.scoring import score_items
from engine.worker.endpoints.writing import write_replies
from engine.worker.model_client import OnProgress
from engine.worker.protocol import Frame, GrownTree

T = TypeVar("T")


class EndpointModel:
    """A `ModelClient` over endpoints that serve one model. Requests are answered one at a time; any thread may ask."""

    def __init__(self, label: str, fleet: Fleet, can: Capabilities) -> None:
        """Prepares, without asking anything.

        Args:
            label: What the model is called when something is refused.
            can: What every one of the endpoints can do.
        """
        self._label, self._fleet, self._can = label, fleet, can
        self._context = can.context or UNBOUNDED
        self._turn = threading.Lock()

    # What is refused before a run starts

    def refuse_curve(self, question: Question) -> None:
        """Raises UsageError where this question cannot be answered honestly at each boundary."""
        self._refuse(
            "curves of completeness", no_curve(self._can, question.prompt, question.end_tag)
        )

    def refuse_writing(self, prompt: Prompt | None) -> None:
        """Raises UsageError where replies cannot be written."""
        self._refuse("replies", no_writing(self._can, prompt))

    def refuse_trees(self, options: TreeOptions) -> None:
        """Raises UsageError where response trees cannot be grown this way."""
        self._refuse("response trees", no_tree(self._can))
        growing.options_for(self._can, options)

    def refuse_reading(self, prompt: Prompt | None) -> None:
        """Raises UsageError where probabilities of given answers cannot be read."""
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
        """Raises UsageError where replies to messages cannot be written this way."""
        self._refuse("replies to messages", no_chat(self._can, sampling))

    # Requests

    def load(
        self,
        path: Path,
        options: LoadOptions,
        adapter: Path | None = None,
        merged: Path | None = None,
    ) -> Mapping[str, Any]:
        """Begins a new account and takes over the context that is asked for.

        Raises:
            ModelError: An adapter is asked for, which an endpoint has to serve itself.
        """
        if adapter is not None:
            raise ModelError(
                f"{self._label} cannot be sent an adapter.",
                "Let the endpoint serve it, as a model.",
            )
        self._fleet.begin()
        held = self._can.context or UNBOUNDED
        self._context = min(held, options.context or held)
        return {"name": self._label, "context": self._context}

    def score(
        self,
        items: Sequence[LogItem],
        question: Question,
        progress: OnProgress | None = None,
        spelling: RemainingRequest | None = None,
    ) -> list[ItemScore]:
        """See `ModelProcess.score`; what cannot be read honestly is unscored with the reason, nothing is written."""
        self.refuse_curve(question)
        report = _summed(progress)
        return self._run(
            lambda: score_items(self._reader(), items, question, self._context, report)
        )

    def generate(
        self,
        items: Sequence[tuple[Sequence[str], int]],
        prompt: Prompt | None,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop: Sequence[str] = (),
        seed: int = 0,
        progress: OnProgress | None = None,
    ) -> list[Frame]:
        """See `ModelProcess.generate`; `tokens` of a reply are not known.

        Raises:
            RequestRefused: The endpoint refuses one of the logs.
        """
        self.refuse_writing(prompt)
        if sampling.json_schema and not self._can.schema:
            self._refuse("replies by a schema", "its replies do not follow one")
        return self._run(
            lambda: write_replies(
                self._reader(),
                items,
                prompt,
                sampling=sampling,
                max_tokens=max_tokens,
                stop=stop,
                seed=seed,
                context=self._context,
                report=lambda done: progress(done, "") if progress else None,
            )
        )

    def chat(self, calls: Sequence[Call], progress: OnProgress | None = None) -> list[Completion]:
        """See `ModelProcess.chat`.

        Raises:
            RequestRefused: The endpoint refuses one of the conversations.
        """
        for sampling in {call.sampling for call in calls}:
            self.refuse_chat(sampling)
        return self._run(
            lambda: chat_replies(
                self._reader(),
                calls,
                self._context,
                lambda done: progress(done, "") if progress else None,
            )
        )

    def log_probs(
        self,
        items: Sequence[tuple[str, Sequence[str]]],
        prompt: Prompt | None,
        progress: OnProgress | None = None,
    ) -> list[list[tuple[float, int]]]:
        """See `ModelProcess.log_probs`.

        Raises:
            RequestRefused: The endpoint hides how probable one of the continuations is.
        """
        self.refuse_reading(prompt)

        async def work() -> list[list[tuple[float, int]]]:
            reader = self._reader()
            around = await reader.known.learn_prompt(prompt)
            found = []
            for text, continuations in items:
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

    def grow(
        self,
        places: Sequence[Place],
        options: TreeOptions,
        budget: Budget,
        progress: OnProgress | None = None,
    ) -> tuple[list[GrownTree], Frame]:
        """See `ModelProcess.grow`; children that the endpoint does not list are pruned mass."""
        self.refuse_trees(options)
        wanted = growing.options_for(self._can, options)
        # Where tokens have numbers of our own, none of them is the end token.
        named = self._can.end_token if self._can.named else None
        stops = frozenset() if named is None else frozenset({named})

        async def work() -> tuple[list[Grown], Work]:
            reader = self._reader()
            jobs = [
                await growing.begin(
                    reader, place, lambda known: Tree(wanted, stops, known.of), {}, self._context
                )
                for place in places
            ]
            return jobs, await growing.grow(reader, jobs, budget, _nodes(progress))

        jobs, done = self._run(work)
        return [_grown(job) for job in jobs], _work_frame(done)

    def grow_on(
        self,
        place: Place,
        tree: TreeRecord,
        budget: Budget,
        progress: OnProgress | None = None,
        *,
        alpha: float | None = None,
        below: int | None = None,
    ) -> tuple[GrownTree, Frame]:
        """See `ModelProcess.grow_on`."""
        self.refuse_trees(restore(tree).options)
        jobs: list[Grown] = []
        read = 0

        def make(known: Spellings) -> Tree:
            made = restore(tree)
            made.spelling = known.of
            if below is not None and alpha is not None:
                lower_below(made, alpha, below)
            return made

        def note(nodes: int) -> None:
            nonlocal read
            read = nodes
            _nodes(progress)(nodes)

        async def work() -> Work:
            reader = self._reader()
            spelled = {int(token): bytes.fromhex(text) for token, text in tree.spellings.items()}
            bare = replace(place, answer="")
            jobs.append(await growing.begin(reader, bare, make, spelled, self._context))
            return await growing.grow(reader, jobs, budget, note)

        try:
            done = self._run(work)
        except Cancelled:
            if not jobs:
                raise
            done = Work(read, read, read, 0.0, 0.0, False)
        return _grown(jobs[0]), _work_frame(done)

    def count_tokens(self, items: Sequence[Sequence[str]]) -> list[int]:
        """Tokens of each log.

        Raises:
            ModelError: The endpoint cannot be asked for them.
        """
        if not self._can.tokens:
            self._refuse("counts of tokens", "it cannot be asked which tokens a text has")

        async def work() -> list[int]:
            known = self._reader().known
            await known.learn([text for texts in items for text in texts])
            return [sum(len(known.tokenize(text)) for text in texts) for texts in items]

        return self._run(work)

    def measure(self, text: str) -> tuple[float, float]:
        """Refused: how fast endpoints are depends on who else asks, and their noise was seen when they were added."""
        raise UsageError(f"The speed of {self._label} cannot be measured.")

    def measure_long(self, text: str) -> tuple[float, int]:
        """Refused, as `measure`."""
        raise UsageError(f"The speed of {self._label} cannot be measured.")

    def spent(self) -> str:
        """Requests, tokens and cost since `load`, and which endpoints were taken out."""
        account = self._fleet.account
        words = f"{account.requests:,} requests"
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
        """Gives up what is under way."""
        self.cancel()

    def _reader(self) -> Reader:
        return Reader(self._fleet.ask, self._can)

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        with self._turn:
            return self._fleet.run(work)


def _summed(progress: OnProgress | None) -> Callable[[int], None]:
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress(done, "")

    return report


def _nodes(progress: OnProgress | None) -> Callable[[int], None]:
    return lambda nodes: progress(nodes, "") if progress else None


def _grown(job: Grown) -> GrownTree:
    return GrownTree(job.tree, job.answer, job.answer_log_probs, job.prompt_tokens, job.note)


def _work_frame(work: Work) -> Frame:
    return {name: getattr(work, name) for name in Work.__slots__}
