"""A model of llama.cpp with its context, as a `TokenModel`.

A context of llama.cpp is what a model computes in: its cache, which has a cell for each token of a sequence, and the
buffers of a decode. Changing the layout of the cache needs a new context. One `LlamaModel` owns one model and one
context; exactly one thread may touch it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from llama_cpp._ctypes_extensions import load_shared_library
from numpy.typing import NDArray

from engine.base.errors import Cancelled, ContextTooSmall, ModelError, ModelFileError, OutOfMemory
from engine.model import memory_plan
from engine.model.adapter_files import refuse_broken_weights, refuse_other_base
from engine.model.batched_replies import count_separate, divided_capacity
from engine.model.gguf_file import read_gguf
from engine.model.interface import Capacity, LoadOptions, Logits, Sampling, Span
from engine.model.llamacpp.files import forward_log, metadata_reader, refuse_if_too_large
from engine.model.llamacpp.writing import ChatRenderer, Sampler

HIDDEN_STATE_TENSOR = b"result_norm"
"""Name in llama.cpp's graph of the tensor with the last hidden states."""

ABORTED = 2
"""Status that llama.cpp gives of a decode that the abort callback ended."""

MAX_TOKEN_BYTES = 256
"""Most bytes for which one token may stand."""

SPARE_TOKENS = 8
"""Tokens more than bytes that a text is first given room for: start tokens, and a space that some vocabularies add."""

MIN_LENGTH = 1e-12
"""Length of a vector below which it is not scaled to length 1, so that zeros stay zeros."""


class BatchBuffers:
    """The arrays of a `llama_batch`, allocated once and filled by numpy instead of token by token.

    Attributes:
        token, position: Id of each token, and its position in its sequences.
        sequence_count: Number of sequences that each token belongs to.
        sequences: Those sequences, shape (size, `MAX_SEQUENCES`); only the first `sequence_count` of a row count.
        gives_logits: 1 for each token after which logits are computed, else 0.
        pointers: Address of each row of `sequences`, which is how llama.cpp wants them.
    """

    def __init__(self, size: int) -> None:
        """Allocates the arrays for so many tokens."""
        self.token = np.zeros(size, dtype=np.int32)
        self.position = np.zeros(size, dtype=np.int32)
        self.sequence_count = np.zeros(size, dtype=np.int32)
        self.sequences = np.zeros((size, memory_plan.MAX_SEQUENCES), dtype=np.int32)
        self.gives_logits = np.zeros(size, dtype=np.int8)
        row_bytes, _ = self.sequences.strides
        base = self.sequences.ctypes.data
        self.pointers = np.arange(base, base + size * row_bytes, row_bytes, dtype=np.uint64)

    def fill(self, spans: Sequence[Span]) -> tuple[Any, int]:
        """Fills the arrays with spans, and returns the batch and the number of rows of logits that it will give.

        Raises:
            ContextTooSmall: The spans have more tokens than the arrays have room for.
        """
        start = rows = 0
        size = len(self.token)
        for span in spans:
            count = len(span.tokens)
            if start + count > size:
                raise ContextTooSmall(f"A batch of more than {size} tokens was asked for.")
            stop = start + count
            self.token[start:stop] = span.tokens
            self.position[start:stop] = np.arange(span.position, span.position + count)
            self.sequence_count[start:stop] = len(span.sequences)
            self.sequences[start:stop, : len(span.sequences)] = span.sequences
            self.gives_logits[start:stop] = 0
            for offset in span.logit_offsets:
                self.gives_logits[start + offset] = 1
            rows += len(span.logit_offsets)
            start = stop
        as_ints = ctypes.POINTER(ctypes.c_int32)
        batch = llama_cpp.llama_batch(
            n_tokens=start,
            token=self.token.ctypes.data_as(as_ints),
            embd=None,
            pos=self.position.ctypes.data_as(as_ints),
            n_seq_id=self.sequence_count.ctypes.data_as(as_ints),
            seq_id=self.pointers.ctypes.data_as(ctypes.POINTER(as_ints)),
            logits=self.gives_logits.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )
        return batch, rows


class HiddenStates:
    """Collects the hidden states of the last decode.

    Attributes:
        callback: What a context calls for each tensor; `cb_eval` of its parameters.
    """

    def __init__(self, dimensions: int) -> None:
        """Collects nothing yet; `dimensions` is the length of a hidden state of the model."""
        self._dimensions = dimensions
        self._parts: list[NDArray[np.float32]] = []
        self._ggml = _ggml()
        self.callback = llama_cpp.ggml_backend_sched_eval_callback(self._on_tensor)

    def forget(self) -> None:
        """Drops the states of the last decode."""
        self._parts = []

    def rows(self, count: int) -> NDArray[np.float32]:
        """Returns the states behind the rows of logits of the last decode, shape (count, dimensions).

        Raises:
            ModelError: The model's graph has no such tensor, or another number of rows.
        """
        state_count = sum(len(part) for part in self._parts)
        if state_count != count:
            raise ModelError(
                f"The model gave {state_count:,} hidden states for {count:,} places.",
                "Use another model, or mode `tuned` or `base`.",
            )
        return np.concatenate(self._parts)

    def _on_tensor(self, tensor: int, asks: bool, _data: Any) -> bool:
        """Copies the tensor with the hidden states once it is computed.

        llama.cpp calls this for each tensor before it is computed (`asks`) to ask whether it is to be shown, and for a
        tensor that is to be shown once more afterwards, to ask whether the work is to go on.
        """
        if self._ggml.ggml_get_name(tensor) != HIDDEN_STATE_TENSOR:
            return not asks
        if not asks:
            size = self._ggml.ggml_nbytes(tensor)
            rows = np.empty(
                (size // memory_plan.FLOAT_BYTES // self._dimensions, self._dimensions), np.float32
            )
            self._ggml.ggml_backend_tensor_get(tensor, rows.ctypes.data, 0, rows.nbytes)
            self._parts.append(rows)
        return True


def _ggml() -> ctypes.CDLL:
    """Returns the library under llama.cpp, which reads tensors on any device."""
    library: ctypes.CDLL = load_shared_library("ggml-base", Path(llama_cpp.__file__).parent / "lib")
    library.ggml_get_name.argtypes = [ctypes.c_void_p]
    library.ggml_get_name.restype = ctypes.c_char_p
    library.ggml_nbytes.argtypes = [ctypes.c_void_p]
    library.ggml_nbytes.restype = ctypes.c_size_t
    library.ggml_backend_tensor_get.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_size_t,
    ]
    library.ggml_backend_tensor_get.restype = None
    return library


class LlamaModel:
    """A GGUF model with one context, as a `TokenModel`.

    Attributes:
        path, options: What it was loaded from, and how.
        vocabulary: Number of tokens.
        meta: Returns a value of the metadata by its key; None if there is none.
    """

    def __init__(self, path: Path, options: LoadOptions, cancelled: Callable[[], bool]) -> None:
        """Loads the weights.

        Args:
            cancelled: Asked while weights are read and during every decode; when it returns true, the work stops and
                raises Cancelled.

        Raises:
            Cancelled: The request was cancelled.
            ModelError: There is not enough memory.
            ModelFileError: The file is missing, damaged or of an architecture llama.cpp does not know.
        """
        forward_log()
        need = memory_plan.estimate(read_gguf(path), options)
        offload = llama_cpp.llama_supports_gpu_offload() and options.gpu_layers != 0
        if not offload:
            refuse_if_too_large(path, need)
        self.path, self.options, self._is_cancelled = path, options, cancelled
        self._model = self._load_weights(options.gpu_layers if offload else 0)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.vocabulary: int = llama_cpp.llama_vocab_n_tokens(self._vocab)
        trained: int = llama_cpp.llama_model_n_ctx_train(self._model)
        self._context_tokens = memory_plan.context_tokens(options, trained)
        self._max_cells = need.cells
        # Number of sequences with cells of their own; 0 when all share the cache.
        self._separate = 0
        self._hidden_states: HiddenStates | None = None
        self.meta = metadata_reader(self._model)
        self._adapters: dict[str, Any] = {}
        self._adapter_in_use: str | None = None
        try:
            self._context = self._new_context()
        except ModelError:
            llama_cpp.llama_model_free(self._model)
            raise
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._bytes_by_token: dict[int, bytes] = {}
        self._buffers = BatchBuffers(options.batch)
        # Rows of logits of the last decode.
        self._rows = 0

    def _load_weights(self, gpu_layers: int) -> Any:
        """Returns llama.cpp's handle of the weights, with some layers on the GPU (-1 for all); raises Cancelled or
        ModelFileError."""
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        # A name of its own keeps the callback alive while llama.cpp calls it.
        goes_on = llama_cpp.llama_progress_callback(lambda _share, _data: not self._is_cancelled())
        params.progress_callback = goes_on
        model = llama_cpp.llama_model_load_from_file(str(self.path).encode(), params)
        if model:
            return model
        if self._is_cancelled():
            raise Cancelled("The request was cancelled.")
        raise ModelFileError(
            f"llama.cpp cannot load {self.path.name}.",
            "The file is damaged or of a newer kind; the worker log says which.",
        )

    def _new_context(self) -> Any:
        """Returns a new context of llama.cpp with the current layout of the cache; raises OutOfMemory."""
        options = self.options
        params = llama_cpp.llama_context_default_params()
        capacity = self.capacity
        params.n_ctx = capacity.cells
        params.n_batch = params.n_ubatch = options.batch
        params.n_seq_max = capacity.sequences
        params.kv_unified = not capacity.separate
        # A cache cut to a sliding window gives away what a fork at an earlier place needs, and does not tell.
        params.swa_full = True
        params.no_perf = True
        params.embeddings = options.embedding
        if options.embedding:
            params.pooling_type = self._pooling()
        else:
            # llama.cpp aborts when this is less than the number of sequences.
            params.n_outputs_max = max(capacity.rows, memory_plan.MAX_SEQUENCES)
        # F32 is kept for exactness, which a 16-bit cache and flash attention undo. Measured on the default model: batch
        # noise 0.000002 without the two, 0.001 with them, at the same speed.
        if self.meta("general.file_type") == str(memory_plan.ALL_F32):
            params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.n_threads = params.n_threads_batch = options.threads or os.cpu_count() or 1
        self._abort = llama_cpp.ggml_abort_callback(lambda _data: self._is_cancelled())
        params.abort_callback = self._abort
        if self._hidden_states:
            params.cb_eval = self._hidden_states.callback
        context = llama_cpp.llama_init_from_model(self._model, params)
        if not context:
            raise OutOfMemory(
                f"There is not enough memory for {self.path.name} with {capacity.cells:,} tokens of context.",
                "Ask for a smaller context or a smaller model.",
            )
        return context

    def _pooling(self) -> int:
        """Returns llama.cpp's number for how the vectors of the tokens become that of a text: as the file says, else by
        their mean."""
        kind = self.meta(f"{self.meta('general.architecture')}.pooling_type")
        return int(kind) if kind else int(llama_cpp.LLAMA_POOLING_TYPE_MEAN)

    def use_threads(self, count: int) -> None:
        """Computes with another number of threads from now on."""
        llama_cpp.llama_set_n_threads(self._context, count, count)

    def close(self) -> None:
        """Frees context, adapters and weights."""
        for adapter in self._adapters.values():
            llama_cpp.llama_adapter_lora_free(adapter)
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    # What the model is

    @property
    def capacity(self) -> Capacity:
        """The limits of this context."""
        recurrent = llama_cpp.llama_model_is_recurrent(self._model)
        hybrid = llama_cpp.llama_model_is_hybrid(self._model)
        shared = Capacity(
            context=self._context_tokens,
            cells=memory_plan.shared_cells(self._context_tokens, self.options),
            batch=self.options.batch,
            rows=min(memory_plan.MAX_ROWS, self.options.batch),
            sequences=memory_plan.MAX_SEQUENCES,
            forkable=not (recurrent or hybrid),
        )
        return (
            divided_capacity(shared, self._max_cells, self._separate) if self._separate else shared
        )

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest sequence in a shared cache."""
        return self._context_tokens

    def max_separate(self, length: int) -> int:
        """Returns for how many sequences of a length there is room when each has cells of its own."""
        return count_separate(self._max_cells, length)

    def arrange(self, separate: int) -> None:
        """Forgets all sequences and lays the cache out anew; see `GenerativeModel.arrange`.

        Raises:
            ModelError: There is not enough memory.
        """
        if separate == self._separate and self._context:
            self.clear()
            return
        self._separate = separate
        self._renew_context()

    def keep_states(self, on: bool) -> None:
        """Forgets all sequences if this changes anything; see `TokenModel.keep_states`.

        Raises:
            ModelError: The model is recurrent or hybrid, or there is not enough memory.
        """
        if on == (self._hidden_states is not None):
            return
        if on and not self.capacity.forkable:
            # Such a model reads sequences side by side, in another order than that of the logits.
            raise ModelError(
                f"{self.path.name} is recurrent or hybrid; its hidden states cannot be read.",
                "Use mode `tuned` with the model's own end token.",
            )
        dimensions = llama_cpp.llama_model_n_embd(self._model)
        self._hidden_states = HiddenStates(dimensions) if on else None
        self._renew_context()

    def _renew_context(self) -> None:
        """Replaces the context by a new one, with the adapter in use."""
        llama_cpp.llama_free(self._context)
        self._context = None
        self._context = self._new_context()
        self._memory = llama_cpp.llama_get_memory(self._context)
        if self._adapter_in_use is not None:
            self._apply(self._adapter_in_use)

    # Tokens

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """Returns the token ids of `text`; see `Tokenizer.tokenize`."""
        data = text.encode("utf-8", "replace")
        room = len(data) + SPARE_TOKENS
        while True:
            tokens = (llama_cpp.llama_token * room)()
            count = llama_cpp.llama_tokenize(
                self._vocab, data, len(data), tokens, room, start, special
            )
            if count >= 0:
                return list(tokens[:count])
            room = -count  # how llama.cpp says that it needs more room

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes a token stands for; empty for control tokens."""
        data = self._bytes_by_token.get(token)
        if data is None:
            buffer = ctypes.create_string_buffer(MAX_TOKEN_BYTES)
            size = llama_cpp.llama_token_to_piece(
                self._vocab,
                token,
                buffer,
                MAX_TOKEN_BYTES,
                0,  # leading spaces to strip
                False,  # no text for control tokens
            )
            data = self._bytes_by_token[token] = buffer.raw[: max(size, 0)]
        return data

    @property
    def end_token(self) -> int:
        """The model's end-of-text token."""
        return int(llama_cpp.llama_vocab_eos(self._vocab))

    @cached_property
    def stop_tokens(self) -> frozenset[int]:
        """All tokens that end a generation."""
        ends = llama_cpp.llama_vocab_is_eog
        return frozenset(token for token in range(self.vocabulary) if ends(self._vocab, token))

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        """Returns the model's own chat template applied to messages, with the assistant's turn opened.

        Raises:
            ModelError: The model has no chat template, or one that refuses the messages.
        """
        return self._chat.render(messages)

    @cached_property
    def _chat(self) -> ChatRenderer:
        """The chat template of the model; raises ModelError if it has none."""
        template = llama_cpp.llama_model_chat_template(self._model, None)
        if not template:
            raise ModelError(
                f"{self.path.name} has no chat template.", "Use a prompt with `chat = false`."
            )
        return ChatRenderer(
            self.path.name,
            template.decode("utf-8", "replace"),
            end=self._text_of(self.end_token),
            start=self._text_of(llama_cpp.llama_vocab_bos(self._vocab)),
        )

    def _text_of(self, token: int) -> str:
        """Returns how a token is written in the vocabulary; empty for -1, which stands for none."""
        text = llama_cpp.llama_vocab_get_text(self._vocab, token) if token >= 0 else b""
        return (text or b"").decode("utf-8", "replace")

    # Sequences

    def decode(self, spans: Sequence[Span]) -> Logits:
        """Decodes spans as one batch; see `TokenModel.decode`."""
        rows = self._rows = self._decode(spans)
        if not rows:
            return np.empty((0, self.vocabulary), dtype=np.float32)
        pointer = llama_cpp.llama_get_logits(self._context)
        return np.ctypeslib.as_array(pointer, shape=(rows, self.vocabulary))

    def hidden_states(self) -> NDArray[np.float32]:
        """Returns the last hidden states of the last decode; see `TokenModel.hidden_states`.

        Raises:
            ModelError: They were not kept, or the model's graph does not show them.
        """
        if self._hidden_states is None:
            raise ModelError("The hidden states of this decode were not kept.")
        return self._hidden_states.rows(self._rows)

    def _decode(self, spans: Sequence[Span]) -> int:
        """Decodes spans as one batch, and returns the number of rows of logits; raises as `decode`."""
        if self._hidden_states:
            self._hidden_states.forget()
        batch, rows = self._buffers.fill(spans)
        status = llama_cpp.llama_decode(self._context, batch)
        if status == ABORTED or self._is_cancelled():
            self.clear()
            raise Cancelled("The request was cancelled.")
        if status != 0:
            self.clear()
            raise ContextTooSmall(
                f"llama.cpp refused a batch of {batch.n_tokens} tokens (status {status}).",
                "The cache is full: use a larger context or fewer parallel sequences.",
            )
        return rows

    def fork(self, source: int, target: int, end: int) -> None:
        """Lets `target` share the first `end` tokens of `source`, or have a copy of their cells."""
        if self._separate:  # llama.cpp copies cells of whole sequences only
            llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)
            self.drop(target, end)
        else:
            llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, end)

    def drop(self, sequence: int, start: int = 0) -> None:
        """Forgets a sequence's tokens from position `start`."""
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, start, -1)

    def clear(self) -> None:
        """Forgets all sequences."""
        llama_cpp.llama_memory_clear(self._memory, False)

    # Adapters, embeddings, sampling

    def use_adapter(self, path: Path | None) -> None:
        """Switches to an adapter, or back to the bare model with None; loads each adapter once.

        Raises:
            ModelFileError: The file is not a GGUF adapter for this model; see `refuse_other_base`.
            AdapterError: It has values that are not numbers.
        """
        name = None if path is None else str(path)
        if name == self._adapter_in_use:
            return
        if path is not None and name is not None and name not in self._adapters:
            refuse_other_base(path, self.path)
            refuse_broken_weights(path)
            handle = llama_cpp.llama_adapter_lora_init(self._model, name.encode())
            if not handle:
                raise ModelFileError(
                    f"llama.cpp cannot load the adapter {path.name}.",
                    "The file is damaged or of a newer kind; the worker log says which.",
                )
            self._adapters[name] = handle
        self._apply(name)
        self._adapter_in_use = name
        self.clear()

    def _apply(self, name: str | None) -> None:
        """Lets the context use a loaded adapter, or none.

        Raises:
            ModelError: llama.cpp cannot apply the adapter.
        """
        adapters, scales, count = None, None, 0
        if name is not None:
            adapters = (llama_cpp.llama_adapter_lora_p_ctypes * 1)(self._adapters[name])
            scales, count = (ctypes.c_float * 1)(1.0), 1
        if llama_cpp.llama_set_adapters_lora(self._context, adapters, count, scales) != 0:
            raise ModelError(f"llama.cpp cannot apply the adapter {name}.")

    def embed(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Returns unit-length pooled embeddings, shape (texts, dimensions); texts are cut to one batch of tokens.

        Raises:
            ModelError: A text has no tokens, so nothing can be said of it.
            Cancelled: The request was cancelled.
        """
        if not all(texts):
            raise ModelError("An empty text has no embedding.")
        size: int = llama_cpp.llama_model_n_embd(self._model)
        out = np.empty((len(texts), size), dtype=np.float32)
        # The texts of the next batch, and the index of the first of them.
        pending: list[Span] = []
        first = 0
        for index, tokens in enumerate(texts):
            read_tokens = list(tokens[: self.options.batch])
            pending_tokens = sum(len(span.tokens) for span in pending)
            is_full = pending_tokens + len(read_tokens) > self.options.batch
            if pending and (is_full or len(pending) == memory_plan.MAX_SEQUENCES):
                self._embed_batch(pending, out[first:index])
                pending, first = [], index
            every_offset = tuple(range(len(read_tokens)))
            pending.append(Span(read_tokens, 0, (len(pending),), every_offset))
        if pending:
            self._embed_batch(pending, out[first:])
        return out

    def _embed_batch(self, spans: Sequence[Span], out: NDArray[np.float32]) -> None:
        """Embeds the texts of one batch, one a span, into the rows of `out`, shape (texts, dimensions)."""
        self.clear()
        self._decode(spans)
        for row, span in enumerate(spans):
            (sequence,) = span.sequences
            pointer = llama_cpp.llama_get_embeddings_seq(self._context, sequence)
            vector = np.ctypeslib.as_array(pointer, shape=out.shape[1:])
            out[row] = vector / max(float(np.linalg.norm(vector)), MIN_LENGTH)

    def sampler(self, settings: Sampling, seed: int) -> Sampler:
        """Returns a sampler for one sequence."""
        return Sampler(self._vocab, self.vocabulary, settings, seed)
