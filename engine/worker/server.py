"""The serving side: one thread reads requests, the main thread owns the model and answers them in turn."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from engine.completeness.block import score_block
from engine.completeness.logs import log_tokens
from engine.completeness.scoring import BoundaryScorer
from engine.errors import Cancelled, ModelError, WorkbenchError
from engine.model.generation import alike
from engine.model.interface import LoadOptions
from engine.model.llamacpp import LlamaModel, gpu_offload, memory_need, system_info
from engine.model.merging import merge
from engine.model.prompting import Prompt, frame
from engine.model.replies import generate
from engine.model.tuning import LONG_TOKENS, expand, noise_of, speed_of, tune
from engine.worker import protocol
from engine.worker.bench_scoring import bench_prompts, bench_scoring
from engine.worker.bench_trees import bench_trees
from engine.worker.chatting import chat_replies
from engine.worker.gpu import with_layers_that_fit
from engine.worker.growing import grow_trees
from engine.worker.logprobs import log_probs_of
from engine.worker.protocol import Frame
from engine.worker.reading import readings, readings_frame

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
        self._loaded: tuple[str, dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self._handlers: dict[str, Callable[[Frame], Frame]] = {
            "load": self._load,
            "score": self._score,
            "generate": self._generate,
            "chat": self._chat,
            "log_probs": self._log_probs,
            "grow": self._grow,
            "embed": self._embed,
            "count": self._count,
            "tokenize": self._tokenize,
            "readings": self._readings,
            "expand": self._expand,
            "measure": self._measure,
            "measure_long": self._measure_long,
            "tune": self._tune,
            "machine": self._machine,
            "memory": self._memory,
            "bench": self._bench,
            "bench_trees": self._bench_trees,
        }

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
            result = self._handlers[request["type"]](request)
            self._send({"type": "result", "id": request["id"], **result})
        except Cancelled:
            self._send({"type": "cancelled", "id": request["id"]})
        except WorkbenchError as error:
            self._fail(request, type(error).__name__, error.message, error.hint)
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
        """A callback that adds up what it is told and reports the sum now and then."""
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
        """As `_progress`, but a callback that is told the sum."""
        finished = 0
        report = self._progress()

        def progress(done: int) -> None:
            nonlocal finished
            report(done - finished)
            finished = done

        return progress

    def _note(self, note: str) -> None:
        """Tells what is being done where there is nothing to count."""
        self._send({"type": "progress", "id": self._current, "done": 0, "note": note})

    # Requests

    def _load(self, request: Frame) -> Frame:
        path, adapter = Path(request["path"]), request["adapter"]
        if request["merged"] is not None:
            path, adapter = self._merged(path, Path(adapter), Path(request["merged"])), None
        wanted = (str(path), request["options"])
        if self._loaded != wanted:
            if self._model:
                self._model.close()
                self._model = self._scorer = self._loaded = None
            options = LoadOptions(**request["options"])
            if gpu_offload():
                options = with_layers_that_fit(path, options)
            self._model = LlamaModel(path, options, self._is_cancelled)
            self._scorer = BoundaryScorer(self._model)
            self._loaded = wanted
        model = self._ready()
        model.use_adapter(None if adapter is None else Path(adapter))
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
        """The model with its cache laid out in whatever way the last request left it."""
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

    def _score(self, request: Frame) -> Frame:
        items = [protocol.item_from(item) for item in request["items"]]
        question = protocol.question_from(request["question"])
        scores = score_block(
            self._ready_scorer(),
            items,
            question,
            self._progress(),
            writer=self._ready(),
            spelling=protocol.spelling_from(request["spelling"]),
        )
        return {"scores": [protocol.score_frame(score) for score in scores]}

    def _generate(self, request: Frame) -> Frame:
        model = self._held()
        self._ready_scorer().forget()
        prompt = None if request["prompt"] is None else Prompt.from_params(request["prompt"])
        around = frame(prompt, model)
        room = model.longest - request["max_tokens"] - len(around.head) - len(around.tail)
        prompts, notes = [], []
        for texts, kept in request["items"]:
            tokens, note = log_tokens(model, texts, kept, room)
            prompts.append([*around.head, *tokens, *around.tail])
            notes.append(note)
        replies = generate(
            model,
            alike(
                prompts,
                sampling=protocol.sampling_from(request["sampling"]),
                max_tokens=request["max_tokens"],
                stop=request["stop"],
                seed=request["seed"],
            ),
            self._replies_done(),
        )
        return {
            "replies": [
                {"text": r.text, "tokens": list(r.tokens), "stopped": r.stopped, "note": note}
                for r, note in zip(replies, notes, strict=True)
            ]
        }

    def _chat(self, request: Frame) -> Frame:
        model = self._held()
        self._ready_scorer().forget()
        calls = [protocol.call_from(call) for call in request["calls"]]
        said = chat_replies(model, calls, self._replies_done())
        return {"said": [protocol.completion_frame(one) for one in said]}

    def _log_probs(self, request: Frame) -> Frame:
        model = self._ready()
        self._ready_scorer().forget()
        return log_probs_of(model, request, self._progress())

    def _grow(self, request: Frame) -> Frame:
        model = self._ready()
        self._ready_scorer().forget()
        return grow_trees(model, request, self._progress())

    def _embed(self, request: Frame) -> Frame:
        model = self._ready()
        texts = [model.tokenize(text, start=True) for text in request["texts"]]
        return {"vectors": protocol.vectors_frame(model.embed(texts))}

    def _count(self, request: Frame) -> Frame:
        model = self._held()
        report = self._progress()
        counts = []
        for texts in request["items"]:
            counts.append(sum(len(model.tokenize(text)) for text in texts))
            report(1)
        return {"counts": counts}

    def _tokenize(self, request: Frame) -> Frame:
        model = self._held()
        return {"tokens": [model.tokenize(text) for text in request["texts"]]}

    def _readings(self, request: Frame) -> Frame:
        model = self._ready()
        self._ready_scorer().forget()
        report = self._progress()
        found = [readings(model, tokens, request["also"], report) for tokens in request["items"]]
        return {"readings": [readings_frame(one) for one in found]}

    def _expand(self, request: Frame) -> Frame:
        expand(Path(request["path"]), Path(request["target"]))
        return {}

    def _measure(self, request: Frame) -> Frame:
        """Speed and batch noise of the loaded model on a text."""
        model = self._ready()
        self._ready_scorer().forget()
        tokens = model.tokenize(request["text"])
        return {"tokens_per_s": speed_of(model, tokens), "noise": noise_of(model, tokens)}

    def _measure_long(self, request: Frame) -> Frame:
        """Speed of the loaded model on a text so long that attention counts; the text is repeated as needed."""
        model = self._ready()
        self._ready_scorer().forget()
        tokens = model.tokenize(request["text"])
        length = min(LONG_TOKENS, model.capacity.context)
        tokens = (tokens * (length // max(1, len(tokens)) + 1))[:length]
        speed = speed_of(model, tokens, rounds=1, length=length)
        return {"tokens_per_s": speed, "tokens": length}

    def _tune(self, request: Frame) -> Frame:
        result = tune(
            Path(request["path"]),
            Path(request["folder"]),
            request["text"],
            cancelled=self._is_cancelled,
            report=self._note,
        )
        return {"tune": result}

    def _bench_trees(self, request: Frame) -> Frame:
        self._ready_scorer().forget()
        return {"trees": bench_trees(self._ready(), request, self._note)}

    def _bench(self, request: Frame) -> Frame:
        self._ready()
        scorer = self._ready_scorer()
        question = protocol.question_from(request["question"])
        rounds = request["rounds"]
        return {
            "scoring": bench_scoring(scorer, request["blocks"], question, rounds, self._note),
            "prompts": bench_prompts(scorer, request["long"], question, rounds, self._note),
        }

    def _machine(self, _request: Frame) -> Frame:
        return {"system": system_info(), "gpu_offload": gpu_offload()}

    def _memory(self, request: Frame) -> Frame:
        need = memory_need(Path(request["path"]), LoadOptions(**request["options"]))
        return {"weights": need.weights, "cache": need.cache, "available": need.available}
