"""Answers the requests of `engine.model.process.requests`. Only the model process imports it, because it loads
llama.cpp."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.model.batched_replies import generate
from engine.model.chat import Completion
from engine.model.generation import Task
from engine.model.interface import Sampling
from engine.model.llamacpp.files import copy_first_layers, gpu_offload, system_info
from engine.model.llamacpp.model import LlamaModel
from engine.model.log_windows import log_tokens
from engine.model.memory_plan import with_layers_that_fit
from engine.model.process import requests
from engine.model.process.chat import chat_replies
from engine.model.process.session import Handlers, ModelSession
from engine.model.prompt_files import tokens_around
from engine.model.tuning import measure_noise, measure_speed, tune


def _load(session: ModelSession, request: requests.Load) -> dict[str, Any]:
    """Loads the model of a request and switches to its adapter; returns the figures of the model."""
    path, options = request.path, request.options
    if request.weights_copy is not None and options.layers is not None:
        path = request.weights_copy
        if not path.is_file():
            session.note("copying the first layers of the weights")
            copy_first_layers(request.path, path, options.layers, os.cpu_count() or 1)

    def load() -> LlamaModel:
        """Loads the model, with as many layers on the GPU as fit."""
        fitting = with_layers_that_fit(path, options) if gpu_offload() else options
        return LlamaModel(path, fitting, session.is_cancelled)

    model = session.use(path, options, load)
    model.use_adapter(request.adapter)
    return {
        "name": model.meta("general.name") or model.path.stem,
        "architecture": model.meta("general.architecture"),
        "context": model.capacity.context,
        "vocabulary": model.vocabulary,
    }


def _generate(session: ModelSession, request: requests.Generate) -> list[requests.WrittenReply]:
    """Writes one reply to each log, which the prompt is laid around."""
    model = session.claim()
    prompt, around = request.prompt, tokens_around(request.prompt, model)
    room = model.longest_sequence - prompt.max_tokens - len(around.head) - len(around.tail)
    tasks, notes = [], []
    for texts, leading_pieces in request.items:
        tokens, note = log_tokens(model, texts, leading_pieces, room)
        tokens = [*around.head, *tokens, *around.tail]
        tasks.append(Task(tokens, Sampling(), prompt.max_tokens, prompt.stop))
        notes.append(note)
    replies = generate(model, tasks, session.total_progress())
    return [
        requests.WrittenReply(reply.text, reply.stopped, note)
        for reply, note in zip(replies, notes, strict=True)
    ]


def _chat(session: ModelSession, request: requests.Chat) -> list[Completion]:
    """Writes the reply to each call."""
    return chat_replies(session.claim(), request.calls, session.total_progress())


def _tokenize(session: ModelSession, request: requests.Tokenize) -> list[list[int]]:
    """Converts texts into token ids."""
    return [session.model.tokenize(text) for text in request.texts]


def _embed(session: ModelSession, request: requests.Embed) -> NDArray[np.float32]:
    """Embeds texts; returns vectors of shape (texts, dimensions)."""
    model = session.claim_shared()
    return model.embed([model.tokenize(text, start=True) for text in request.texts])


def _measure(session: ModelSession, request: requests.Measure) -> tuple[float, float]:
    """Measures tokens a second and batch noise."""
    model = session.claim_shared()
    tokens = model.tokenize(request.text)
    return measure_speed(model, tokens), measure_noise(model, tokens)


def _tune(session: ModelSession, request: requests.Tune) -> dict[str, Any]:
    """Finds the fastest faithful format and the number of threads."""
    return tune(
        request.path,
        request.folder,
        request.text,
        cancelled=session.is_cancelled,
        report=session.note,
    )


def _machine(_session: ModelSession, _request: requests.Machine) -> dict[str, Any]:
    """Describes the machine."""
    return {"system": system_info(), "gpu_offload": gpu_offload()}


HANDLERS: Handlers = {
    requests.Load: _load,
    requests.Generate: _generate,
    requests.Chat: _chat,
    requests.Tokenize: _tokenize,
    requests.Embed: _embed,
    requests.Measure: _measure,
    requests.Tune: _tune,
    requests.Machine: _machine,
}
