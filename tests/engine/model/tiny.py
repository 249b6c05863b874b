"""Tiny models with random weights as GGUF files, of architectures whose cache is not that of a plain transformer. Their
tokens are bytes. The same call always writes the same model.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

WINDOW = 8
"""Tokens that most layers of the sliding model see."""

WIDTH, CONTEXT = 32, 2048
SPECIAL = ("<unk>", "<s>", "</s>")
VOCABULARY = len(SPECIAL) + 256


def finish(writer: gguf.GGUFWriter) -> None:
    """Writes a file with what was added, and closes it."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class _Writer:
    """A model being written."""

    def __init__(self, path: Path, architecture: str, layers: int) -> None:
        self.to = gguf.GGUFWriter(path, architecture)
        self._random = np.random.default_rng(11)
        self.to.add_file_type(0)
        self.to.add_context_length(CONTEXT)
        self.to.add_embedding_length(WIDTH)
        self.to.add_block_count(layers)
        self.to.add_layer_norm_rms_eps(1e-6)
        kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
        self.to.add_tokenizer_model("llama")
        self.to.add_token_list([*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))])
        self.to.add_token_scores([0.0] * VOCABULARY)
        self.to.add_token_types([*kinds, *([gguf.TokenType.BYTE] * 256)])
        self.to.add_unk_token_id(0)
        self.to.add_bos_token_id(1)
        self.to.add_eos_token_id(2)
        self.to.add_add_space_prefix(False)
        self.put("token_embd.weight", self._random.standard_normal((VOCABULARY, WIDTH)) * 0.3)
        self.ones("output_norm.weight", WIDTH)

    def put(self, name: str, values: NDArray[np.float64]) -> None:
        self.to.add_tensor(name, values.astype(np.float32))

    def ones(self, name: str, size: int, scale: float = 1.0) -> None:
        self.put(name, np.full(size, scale))

    def matrix(self, name: str, rows: int, columns: int) -> None:
        self.put(name, self._random.standard_normal((rows, columns)) * columns**-0.5)


def write_sliding(path: Path) -> Path:
    """Writes a model of the architecture of Gemma 3: five layers that see `WINDOW` tokens and one that sees all."""
    layers, heads, head, inner = 6, 2, 16, 48
    writer = _Writer(path, "gemma3", layers)
    writer.to.add_feed_forward_length(inner)
    writer.to.add_head_count(heads)
    writer.to.add_head_count_kv(heads)
    writer.to.add_key_length(head)
    writer.to.add_value_length(head)
    writer.to.add_sliding_window(WINDOW)
    for layer in range(layers):
        name = f"blk.{layer}."
        for norm in ("attn_norm", "ffn_norm", "post_ffw_norm"):
            writer.ones(f"{name}{norm}.weight", WIDTH)
        # What attention says weighs much, so that forgotten tokens are seen in the probabilities.
        writer.ones(f"{name}post_attention_norm.weight", WIDTH, 3.0)
        for norm in ("attn_q_norm", "attn_k_norm"):
            writer.ones(f"{name}{norm}.weight", head)
        for part in ("attn_q", "attn_k", "attn_v"):
            writer.matrix(f"{name}{part}.weight", heads * head, WIDTH)
        writer.matrix(f"{name}attn_output.weight", WIDTH, heads * head)
        for part in ("ffn_gate", "ffn_up"):
            writer.matrix(f"{name}{part}.weight", inner, WIDTH)
        writer.matrix(f"{name}ffn_down.weight", WIDTH, inner)
    finish(writer.to)
    return path


def write_recurrent(path: Path) -> Path:
    """Writes a model of the architecture of Mamba: two layers with a recurrent state."""
    layers, inner, state, kernel, rank = 2, 2 * WIDTH, 4, 4, 2
    writer = _Writer(path, "mamba", layers)
    writer.to.add_feed_forward_length(0)
    writer.to.add_head_count(0)
    writer.to.add_ssm_conv_kernel(kernel)
    writer.to.add_ssm_inner_size(inner)
    writer.to.add_ssm_state_size(state)
    writer.to.add_ssm_time_step_rank(rank)
    for layer in range(layers):
        name = f"blk.{layer}."
        writer.ones(f"{name}attn_norm.weight", WIDTH)
        writer.matrix(f"{name}ssm_in.weight", 2 * inner, WIDTH)
        writer.matrix(f"{name}ssm_conv1d.weight", inner, kernel)
        writer.ones(f"{name}ssm_conv1d.bias", inner)
        writer.matrix(f"{name}ssm_x.weight", rank + 2 * state, inner)
        writer.matrix(f"{name}ssm_dt.weight", inner, rank)
        writer.ones(f"{name}ssm_dt.bias", inner)
        writer.put(f"{name}ssm_a", -np.tile(np.arange(1.0, state + 1), (inner, 1)))
        writer.ones(f"{name}ssm_d", inner)
        writer.matrix(f"{name}ssm_out.weight", WIDTH, inner)
    finish(writer.to)
    return path
