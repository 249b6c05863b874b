"""What can be asked of the model process, each request with its types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from engine.completeness.block import ItemScore, LogItem, Question
from engine.completeness.inline_remaining import RemainingRequest
from engine.model.catalog import RunnableModel
from engine.model.interface import LoadOptions, Sampling
from engine.model.prompting import Prompt
from engine.model.talking import Call, Completion
from engine.trees.growth import Budget
from engine.trees.places import Place
from engine.trees.record import TreeRecord, options_frame
from engine.trees.tree import TreeOptions
from engine.worker import protocol
from engine.worker.model_client import ModelClient
from engine.worker.process import OnProgress, WorkerProcess
from engine.worker.protocol import Frame, GrownTree
from engine.worker.reading import Reading, readings_from

__all__ = ["ModelProcess", "OnProgress"]


class ModelProcess(WorkerProcess):
    """The model process with a method for each request. Requests are answered one at a time; any thread may ask."""

    def client_for(self, model: RunnableModel) -> ModelClient:
        """What answers for a model: this process."""
        return self

    def spent(self) -> str:
        """Nothing but time."""
        return ""

    def score(
        self,
        items: Sequence[LogItem],
        question: Question,
        progress: OnProgress | None = None,
        spelling: RemainingRequest | None = None,
    ) -> list[ItemScore]:
        """Scores one block of conversations; see `engine.completeness.block.score_block`."""
        answer = self.request(
            {
                "type": "score",
                "items": [protocol.item_frame(item) for item in items],
                "question": protocol.question_frame(question),
                "spelling": protocol.spelling_frame(spelling),
            },
            progress,
        )
        return [protocol.score_from(score) for score in answer["scores"]]

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
        """Writes one reply to each log.

        Args:
            items: Log pieces, and how many leading pieces a window keeps.
            prompt: What stands around each log; None: nothing.

        Returns:
            For each item `text`, `tokens`, `stopped` (`end`, `stop`, `length`) and `note` (what was left out, or None).
        """
        request: Frame = {
            "type": "generate",
            "items": [[list(texts), kept] for texts, kept in items],
            "prompt": None if prompt is None else prompt.as_params(),
            "sampling": {name: getattr(sampling, name) for name in Sampling.__slots__},
            "max_tokens": max_tokens,
            "stop": list(stop),
            "seed": seed,
        }
        return cast("list[Frame]", self.request(request, progress)["replies"])

    def chat(self, calls: Sequence[Call], progress: OnProgress | None = None) -> list[Completion]:
        """Writes the reply to each call, side by side.

        A reply depends on its call alone. A conversation that is too long loses its oldest messages after the system
        message, then the middle of what is left, and `Completion.note` says so.

        Raises:
            ModelError: The model has no chat template, or no room for a conversation beside the reply.
        """
        request: Frame = {"type": "chat", "calls": [protocol.call_frame(call) for call in calls]}
        return [
            protocol.completion_from(frame) for frame in self.request(request, progress)["said"]
        ]

    def log_probs(
        self,
        items: Sequence[tuple[str, Sequence[str]]],
        prompt: Prompt | None,
        progress: OnProgress | None = None,
    ) -> list[list[tuple[float, int]]]:
        """How probable texts are as what follows others, in one batch; see `engine.worker.logprobs`.

        Args:
            items: A text and the continuations that are asked about after it.
            prompt: What stands around each text; a continuation follows its `reply`. None: nothing.

        Returns:
            For each item and continuation, the natural log-probability and the number of tokens.
        """
        request: Frame = {
            "type": "log_probs",
            "items": [[text, list(continuations)] for text, continuations in items],
            "prompt": None if prompt is None else prompt.as_params(),
        }
        found = self.request(request, progress)["log_probs"]
        return [[(value, tokens) for value, tokens in item] for item in found]

    def grow(
        self,
        places: Sequence[Place],
        options: TreeOptions,
        budget: Budget,
        progress: OnProgress | None = None,
    ) -> tuple[list[GrownTree], Frame]:
        """Grows one tree at each place, side by side.

        Returns:
            The trees, and what growing took: `nodes`, `tokens`, `decodes`, `seconds`, `model_seconds`, `finished`.
        """
        answer = self.request(
            {
                "type": "grow",
                "items": [[list(place.texts), place.kept, place.answer] for place in places],
                "options": options_frame(options),
                "budget": asdict(budget),
            },
            progress,
        )
        return [protocol.tree_from(frame) for frame in answer["trees"]], answer["work"]

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
        """Grows a recorded tree on, below one node to a lower alpha or everywhere to its own.

        A cancel ends the growth early with what has grown; it raises `Cancelled` only before growth began.

        Returns:
            As `grow`; the recorded answer is not scored again.
        """
        answer = self.request(
            {
                "type": "grow",
                "items": [[list(place.texts), place.kept, place.answer]],
                "options": dict(tree.options),
                "budget": asdict(budget),
                "on": {"tree": tree.as_frame(), "alpha": alpha, "below": below},
            },
            progress,
        )
        return protocol.tree_from(answer["trees"][0]), answer["work"]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit-length embeddings, shape (texts, dimensions); the model must be loaded with `embedding`."""
        answer = self.request({"type": "embed", "texts": list(texts)})
        return protocol.vectors_from(answer["vectors"])

    def count_tokens(self, items: Sequence[Sequence[str]]) -> list[int]:
        """Tokens of each log (a list of pieces)."""
        answer = self.request({"type": "count", "items": [list(texts) for texts in items]})
        return cast("list[int]", answer["counts"])

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts; control tokens in them are read as text, and none are put in front."""
        answer = self.request({"type": "tokenize", "texts": list(texts)})
        return cast("list[list[int]]", answer["tokens"])

    def readings(
        self,
        items: Sequence[Sequence[int]],
        also: Sequence[int] = (),
        progress: OnProgress | None = None,
    ) -> list[list[Reading]]:
        """What the model says after every token of texts, each read on its own; see `engine.worker.reading`.

        Args:
            items: Token ids.
            also: Tokens whose log-probability is wanted everywhere.
        """
        request: Frame = {
            "type": "readings",
            "items": [list(tokens) for tokens in items],
            "also": list(also),
        }
        return [readings_from(frame) for frame in self.request(request, progress)["readings"]]

    def expand(self, path: Path, target: Path) -> None:
        """Writes the weights of a GGUF file in F32; see `engine.model.tuning.expand`."""
        request = {"type": "expand", "path": str(path), "target": str(target)}
        self.request(request, needs_model=False)

    def measure(self, text: str) -> tuple[float, float]:
        """Prompt tokens a second and batch noise (largest change of a probability) of the loaded model on a text."""
        answer = self.request({"type": "measure", "text": text})
        return float(answer["tokens_per_s"]), float(answer["noise"])

    def measure_long(self, text: str) -> tuple[float, int]:
        """Prompt tokens a second of the loaded model on a long text, and how many tokens that text had."""
        answer = self.request({"type": "measure_long", "text": text})
        return float(answer["tokens_per_s"]), int(answer["tokens"])

    def tune(
        self, path: Path, folder: Path, text: str, progress: OnProgress | None = None
    ) -> Frame:
        """Finds the fastest faithful format and thread count; see `engine.model.tuning.tune`."""
        request = {"type": "tune", "path": str(path), "folder": str(folder), "text": text}
        return cast(Frame, self.request(request, progress, needs_model=False)["tune"])

    def bench(
        self,
        blocks: Sequence[Sequence[LogItem]],
        long: Sequence[LogItem],
        question: Question,
        rounds: int,
        progress: OnProgress | None = None,
    ) -> Frame:
        """Measures scoring on the loaded model.

        Returns:
            `scoring`: `blocks` against bare decoding; `prompts`: `long` against one prompt per boundary. See
            `engine.worker.bench_scoring`.
        """
        request = {
            "type": "bench",
            "blocks": [[protocol.item_frame(item) for item in block] for block in blocks],
            "long": [protocol.item_frame(item) for item in long],
            "question": protocol.question_frame(question),
            "rounds": rounds,
        }
        return self.request(request, progress)

    def memory(self, path: Path, options: LoadOptions) -> Frame:
        """Bytes that loading a model will take: `weights`, `cache`, and what is `available` (None if unknown)."""
        request = {"type": "memory", "path": str(path), "options": asdict(options)}
        return self.request(request, needs_model=False)

    def machine(self) -> Frame:
        """`system`: llama.cpp's line about the CPU; `gpu_offload`: whether it can use a GPU."""
        return self.request({"type": "machine"}, needs_model=False)
