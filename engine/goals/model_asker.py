"""Puts the goal questions to the model process."""

from __future__ import annotations

from collections.abc import Sequence

from engine.goals.questions import LogProb
from engine.jobs.contract import OnProgress
from engine.model.interface import Sampling
from engine.model.process.requests import Generate, LogProbs, ModelClient
from engine.model.prompt_files import Prompt


class ProcessAsker:
    """An `engine.goals.questions.Asker`; each call is one request, so it is answered or cancelled as a whole."""

    def __init__(self, process: ModelClient, progress: OnProgress | None = None) -> None:
        self._process, self._progress = process, progress

    def generate(
        self, prompt: Prompt, bodies: Sequence[str], *, grammar: str | None = None
    ) -> list[str]:
        """Writes one greedy reply to each body inside the prompt; reports the number of replies done."""
        request = Generate(
            [((body,), 0) for body in bodies],
            prompt,
            Sampling(grammar=grammar),
            prompt.max_tokens,
            prompt.stop,
        )
        return [reply.text for reply in self._process.ask(request, self._progress)]

    def log_probs(self, prompt: Prompt | None, pairs: Sequence[tuple[str, str]]) -> list[LogProb]:
        """Log-probabilities of continuations; equal bodies are decoded once. Reports the number of tokens decoded."""
        continuations: dict[str, list[str]] = {}
        for body, continuation in pairs:
            continuations.setdefault(body, []).append(continuation)
        found = self._process.ask(LogProbs(list(continuations.items()), prompt), self._progress)
        answers = {body: iter(each) for body, each in zip(continuations, found, strict=True)}
        return [LogProb(*next(answers[body])) for body, _ in pairs]
