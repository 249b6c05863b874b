"""The arrays of a `llama_batch`, filled by numpy, and the last hidden states that are read while it is decoded.

llama.cpp can call back after it has computed a tensor. The tensor `result_norm` holds the last hidden state after the
final norm, one row for each row of logits, so nothing is read twice. The setting `embeddings` of a context would give
the same states, but it makes every token an output with a row of logits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from llama_cpp._ctypes_extensions import load_shared_library
from numpy.typing import NDArray

from engine.base.errors import ContextTooSmall, ModelError
from engine.model.interface import Span
from engine.model.memory_plan import MAX_SEQUENCES

HIDDEN_STATE_TENSOR = b"result_norm"
"""Name in llama.cpp's graph of the tensor with the last hidden states."""

FLOAT_BYTES = 4
"""Bytes of one number of that tensor."""


class BatchBuffers:
    """The arrays of a `llama_batch`, allocated once and filled by numpy instead of token by token.

    Attributes:
        token, position: Id of each token, and its position in its sequences.
        sequence_count: Number of sequences that each token belongs to.
        sequences: Those sequences, shape (size, `MAX_SEQUENCES`); only the first `sequence_count` of a row count.
        wanted: 1 for each token after which logits are wanted, else 0.
        pointers: Address of each row of `sequences`, which is how llama.cpp wants them.
    """

    def __init__(self, size: int) -> None:
        """Allocates the arrays for so many tokens."""
        self.token = np.zeros(size, dtype=np.int32)
        self.position = np.zeros(size, dtype=np.int32)
        self.sequence_count = np.zeros(size, dtype=np.int32)
        self.sequences = np.zeros((size, MAX_SEQUENCES), dtype=np.int32)
        self.wanted = np.zeros(size, dtype=np.int8)
        row_bytes, _ = self.sequences.strides
        base = self.sequences.ctypes.data
        self.pointers = np.arange(base, base + size * row_bytes, row_bytes, dtype=np.uint64)

    def fill(self, spans: Sequence[Span]) -> tuple[Any, int]:
        """Returns the batch and the number of rows it will give."""
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
            self.wanted[start:stop] = 0
            for offset in span.wanted:
                self.wanted[start + offset] = 1
            rows += len(span.wanted)
            start = stop
        as_ints = ctypes.POINTER(ctypes.c_int32)
        batch = llama_cpp.llama_batch(
            n_tokens=start,
            token=self.token.ctypes.data_as(as_ints),
            embd=None,
            pos=self.position.ctypes.data_as(as_ints),
            n_seq_id=self.sequence_count.ctypes.data_as(as_ints),
            seq_id=self.pointers.ctypes.data_as(ctypes.POINTER(as_ints)),
            logits=self.wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )
        return batch, rows


class HiddenStates:
    """Collects the hidden states of a decode.

    Attributes:
        callback: What a context calls for each tensor; `cb_eval` of its parameters.
    """

    def __init__(self, dimensions: int) -> None:
        """Prepares.

        Args:
            dimensions: Length of a hidden state of the model.
        """
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
        """Says which tensor is wanted (`asks`), and copies it once it is computed; always lets the work go on."""
        if self._ggml.ggml_get_name(tensor) != HIDDEN_STATE_TENSOR:
            return not asks
        if not asks:
            size = self._ggml.ggml_nbytes(tensor)
            rows = np.empty((size // FLOAT_BYTES // self._dimensions, self._dimensions), np.float32)
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
