"""The arrays of a `llama_batch`, filled by numpy."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np

from engine.base.errors import ContextTooSmall
from engine.model.interface import Span
from engine.model.memory_plan import MAX_SEQUENCES


class BatchBuffers:
    """The arrays of a `llama_batch`, allocated once and filled by numpy instead of token by token."""

    def __init__(self, size: int) -> None:
        self.token = np.zeros(size, dtype=np.int32)
        self.position = np.zeros(size, dtype=np.int32)
        self.sequence_count = np.zeros(size, dtype=np.int32)
        self.sequences = np.zeros((size, MAX_SEQUENCES), dtype=np.int32)
        self.wanted = np.zeros(size, dtype=np.int8)
        row = self.sequences.strides[0]
        base = self.sequences.ctypes.data
        self.pointers = np.arange(base, base + size * row, row, dtype=np.uint64)

    def fill(self, spans: Sequence[Span]) -> tuple[Any, int]:
        """Returns the batch and the number of rows it will give."""
        at = rows = 0
        size = len(self.token)
        for span in spans:
            count = len(span.tokens)
            if at + count > size:
                raise ContextTooSmall(f"A batch of more than {size} tokens was asked for.")
            stop = at + count
            self.token[at:stop] = span.tokens
            self.position[at:stop] = np.arange(span.position, span.position + count)
            self.sequence_count[at:stop] = len(span.sequences)
            self.sequences[at:stop, : len(span.sequences)] = span.sequences
            self.wanted[at:stop] = 0
            for offset in span.wanted:
                self.wanted[at + offset] = 1
            rows += len(span.wanted)
            at = stop
        as_ints = ctypes.POINTER(ctypes.c_int32)
        batch = llama_cpp.llama_batch(
            n_tokens=at,
            token=self.token.ctypes.data_as(as_ints),
            embd=None,
            pos=self.position.ctypes.data_as(as_ints),
            n_seq_id=self.sequence_count.ctypes.data_as(as_ints),
            seq_id=self.pointers.ctypes.data_as(ctypes.POINTER(as_ints)),
            logits=self.wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )
        return batch, rows
