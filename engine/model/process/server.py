"""The server in the model process: one thread reads requests, the main thread owns the model and answers them."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import Cancelled, ModelError, WorkbenchError
from engine.completeness.block import ItemScore, score_block
from engine.completeness.kept_logs import KeptLogs
from engine.completeness.logs import log_tokens
from engine.completeness.scoring import BoundaryScorer
from engine.model.adapter_merging import merge
from engine.model.batched_replies import generate
from engine.model.chat import Completion
from engine.model.generation import alike
from engine.model.interface import LoadOptions
from engine.model.llamacpp import LlamaModel, gpu_offload, memory_need, system_info
from engine.model.process import protocol
from engine.model.process.chat import chat_replies
from engine.model.process.gpu import with_layers_that_fit
from engine.model.process.log_probs import prompted_log_probs
from engine.model.process.protocol import Frame
from engine.model.process.requests import (
    Chat,
    CountTokens,
    Embed,
    Expand,
    Generate,
    Grow,
    GrownTree,
    GrowOn,
    Load,
    LogProbs,
    Machine,
    Measure,
    MeasureLong,
    Memory,
    ReadTokens,
    Request,
    Score,
    TokenDistribution,
    Tokenize,
    Tune,
    WrittenReply,
)
from engine.model.process.token_distributions import read_tokens
from engine.model.process.tree_growth import grow_on, grow_trees
from engine.model.prompt_files import frame
from engine.model.tuning import LONG_TOKENS, expand, noise_of, speed_of, tune
from engine.trees.growth import Work

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 0.1


class Server:
    """Answers requests on one model."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests, self._answers = requests, answers
        self._queue: queue.Queue[Frame | None] = queue.Queue()
        self._cancelled: set[int] = set()
        self._current: int | None = None
        self._model: LlamaModel | None = None
        self._scorer: BoundaryScorer | None = None
        self._kept_logs = KeptLogs()
        self._loaded: tuple[Path, LoadOptions] | None = None
        self._lock = threading.Lock()
        handlers: dict[type[Request[Any]], Callable[[Any], Any]] = {
            Load: self._load,
            Score: self._score,
            Generate: self._generate,
            Chat: self._chat,
            LogProbs: self._log_probs,
            Grow: self._grow,
            GrowOn: self._grow_on,
            Embed: self._embed,
            CountTokens: self._count_tokens,
            Tokenize: self._tokenize,
            ReadTokens: self._read_tokens,
            Expand: self._expand,
            Measure: self._measure,
            MeasureLong: self._measure_long,
            Tune: self._tune,
            Machine: self._machine,
            Memory: self._memory,
        }
        self._handlers = {kind.__name__: (kind, handler) for kind, handler in handlers.items()}

    def serve(self) -> None:
        """Answers requests until the input closes."""
        threading.Thread(target=self._read, name="requests", daemon=True).start()
        self._send({"type": "hello", "id": 0, "version": protocol.VERSION})
        while (request := self._queue.get()) is not None:
            self._answer(request)
        if self._model:
            self._model.close()

    def _read(self) -> None:
        while (request := protocol.read_frame(self._requests)) is not None:
            if request["type"] == "cancel":
                self._cancelled.add(request["id"])
            else:
                self._queue.put(request)
        # The program is gone or wants us gone: stop the work in flight too.
        if self._current is not None:
            self._cancelled.add(self._current)
        self._queue.put(None)

    def _answer(self, request: Frame) -> None:
        self._current = request["id"]
        try:
            if self._is_cancelled():
                raise Cancelled("The request was cancelled.")
            kind, handler = self._handlers[request["type"]]
            result = handler(protocol.decode(kind, request["request"]))
            self._send({"type": "result", "id": request["id"], "result": result})
        except Cancelled:
            self._send({"type": "cancelled", "id": request["id"]})
        except WorkbenchError as error:
            self._fail(request, error.code, error.message, error.hint)
        except Exception as error:
            log.exception("request %s failed", request["type"])
            self._fail(request, "ModelError", f"{type(error).__name__}: {error}", "See the log.")
        finally:
            self._cancelled.discard(request["id"])
            self._current = None

    def _fail(self, request: Frame, kind: str, message: str, hint: str) -> None:
        self._send(
            {"type": "error", "id": request["id"], "kind": kind, "message": message, "hint": hint}
        )

    def _send(self, answer: Frame) -> None:
        with self._lock:
            protocol.write_frame(self._answers, answer)

    def _is_cancelled(self) -> bool:
        return self._current in self._cancelled

    def _progress(self) -> Callable[[int], None]:
        """A callback that adds up the counts it gets and sends the sum every tenth of a second."""
        done, sent = 0, time.monotonic()

        def report(count: int) -> None:
            nonlocal done, sent
            done += count
            if self._is_cancelled():
                raise Cancelled("The request was cancelled.")
            if time.monotonic() - sent >= PROGRESS_SECONDS:
                sent = time.monotonic()
                self._send({"type": "progress", "id": self._current, "done": done})

        return report

    def _replies_done(self) -> Callable[[int], None]:
        """As `_progress`, for a callback that gets the sum itself."""
        finished = 0
        report = self._progress()

        def progress(done: int) -> None:
            nonlocal finished
            report(done - finished)
            finished = done

        return progress

    def _note(self, note: str) -> None:
        """Sends what is being done, where there is nothing to count."""
        self._send({"type": "progress", "id": self._current, "done": 0, "note": note})

    # Requests

    def _load(self, request: Load) -> dict[str, Any]:
        path, adapter = request.path, request.adapter
        if request.merged is not None and adapter is not None:
            path, adapter = self._merged(path, adapter, request.merged), None
        wanted = (path, request.options)
        self._kept_logs.clear()
        if self._loaded != wanted:
            if self._model:
                self._model.close()
                self._model = self._scorer = self._loaded = None
            options = request.options
            if gpu_offload():
                options = with_layers_that_fit(path, options)
            self._model = LlamaModel(path, options, self._is_cancelled)
            self._scorer = BoundaryScorer(self._model)
            self._loaded = wanted
        model = self._ready()
        model.use_adapter(adapter)
        self._ready_scorer().forget()
        capacity = model.capacity
        return {
            "name": model.meta("general.name") or model.path.stem,
            "architecture": model.meta("general.architecture"),
            "context": capacity.context,
            "forkable": capacity.forkable,
            "memory_bytes": model.memory_bytes,
            "vocabulary": model.vocabulary,
        }

    def _held(self) -> LlamaModel:
        """Returns the loaded model; its cache has the layout of the last request.

        Raises:
            ModelError: No model is loaded.
        """
        if self._model is None:
            raise ModelError("No model is loaded.")
        return self._model

    def _ready(self) -> LlamaModel:
        """The model with a cache that all sequences share."""
        model = self._held()
        if model.capacity.separate:
            model.arrange(0)
        return model

    def _ready_scorer(self) -> BoundaryScorer:
        if self._scorer is None:
            raise ModelError("No model is loaded.")
        return self._scorer

    def _merged(self, base: Path, adapter: Path, out: Path) -> Path:
        """The merged copy, made if it is not there; its time of change is that of its last use."""
        if out.is_file():
            os.utime(out)
        else:
            self._note("adding the adapter to the weights")
            merge(base, adapter, out)
        return out

    def _score(self, request: Score) -> list[ItemScore]:
        return score_block(
            self._ready_scorer(),
            request.items,
            request.question,
            self._progress(),
            writer=self._ready(),
            remaining=request.remaining,
            kept=self._kept_logs if request.growing else None,
        )

    def _generate(self, request: Generate) -> list[WrittenReply]:
        model = self._held()
        self._ready_scorer().forget()
        around = frame(request.prompt, model)
        room = model.longest - request.max_tokens - len(around.head) - len(around.tail)
        prompts, notes = [], []
        for texts, kept in request.items:
            tokens, note = log_tokens(model, texts, kept, room)
            prompts.append([*around.head, *tokens, *around.tail])
            notes.append(note)
        replies = generate(
            model,
            alike(
                prompts,
                sampling=request.sampling,
                max_tokens=request.max_tokens,
                stop=request.stop,
                seed=request.seed,
            ),
            self._replies_done(),
        )
        return [
            WrittenReply(reply.text, reply.tokens, reply.stopped, note)
            for reply, note in zip(replies, notes, strict=True)
        ]

    def _chat(self, request: Chat) -> list[Completion]:
        model = self._held()
        self._ready_scorer().forget()
        return chat_replies(model, request.calls, self._replies_done())

    def _log_probs(self, request: LogProbs) -> list[list[tuple[float, int]]]:
        model = self._ready()
        self._ready_scorer().forget()
        return prompted_log_probs(model, request.items, request.prompt, self._progress())

    def _grow(self, request: Grow) -> tuple[list[GrownTree], Work]:
        model = self._ready()
        self._ready_scorer().forget()
        return grow_trees(model, request, self._progress())

    def _grow_on(self, request: GrowOn) -> tuple[GrownTree, Work]:
        model = self._ready()
        self._ready_scorer().forget()
        return grow_on(model, request, self._progress())

    def _embed(self, request: Embed) -> NDArray[np.float32]:
        model = self._ready()
        return model.embed([model.tokenize(text, start=True) for text in request.texts])

    def _count_tokens(self, request: CountTokens) -> list[int]:
        model = self._held()
        report = self._progress()
        counts = []
        for texts in request.items:
            counts.append(sum(len(model.tokenize(text)) for text in texts))
            report(1)
        return counts

    def _tokenize(self, request: Tokenize) -> list[list[int]]:
        model = self._held()
        return [model.tokenize(text) for text in request.texts]

    def _read_tokens(self, request: ReadTokens) -> list[list[TokenDistribution]]:
        model = self._ready()
        self._ready_scorer().forget()
        report = self._progress()
        return [read_tokens(model, tokens, request.also, report) for tokens in request.items]

    def _expand(self, request: Expand) -> None:
        expand(request.path, request.target)

    def _measure(self, request: Measure) -> tuple[float, float]:
        model = self._ready()
        self._ready_scorer().forget()
        tokens = model.tokenize(request.text)
        return speed_of(model, tokens), noise_of(model, tokens)

    def _measure_long(self, request: MeasureLong) -> tuple[float, int]:
        model = self._ready()
        self._ready_scorer().forget()
        tokens = model.tokenize(request.text)
        length = min(LONG_TOKENS, model.capacity.context)
        return speed_of(model, tokens, rounds=1, length=length), length

    def _tune(self, request: Tune) -> dict[str, Any]:
        return tune(
            request.path,
            request.folder,
            request.text,
            cancelled=self._is_cancelled,
            report=self._note,
        )

    def _machine(self, _request: Machine) -> dict[str, Any]:
        return {"system": system_info(), "gpu_offload": gpu_offload()}

    def _memory(self, request: Memory) -> dict[str, Any]:
        need = memory_need(request.path, request.options)
        return {"weights": need.weights, "cache": need.cache, "available": need.available}
