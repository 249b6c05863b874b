"""Tiny models with random weights, each for `transformers` and as a GGUF file of the same weights in F32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

from tests.engine.model.tiny import SPECIAL, VOCABULARY, finish
from training.gguf_adapter import TARGETS

ARCHITECTURES = {
    "llama": "llama", "mistral": "llama", "smollm3": "smollm3", "qwen2": "qwen2", "qwen3": "qwen3",
}  # fmt: skip
"""What `transformers` and llama.cpp call each."""

WIDTH, INNER, HEADS, KV_HEADS, LAYERS, CONTEXT = 64, 96, 4, 2, 4, 512
THETA = 10_000.0
RANK = 4

_MODULES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
_WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tiny_model(model_type: str, seed: int = 7) -> Any:
    """A model whose norms are not all ones, so that fingerprints differ."""
    config = AutoConfig.for_model(
        model_type,
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=WIDTH // HEADS,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
        pad_token_id=None,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.copy_(1 + 0.2 * torch.randn_like(weight))
            else:
                weight.copy_(torch.randn_like(weight) * (WIDTH**-0.5 if weight.dim() > 1 else 0.1))
    return model.eval()


def with_adapter(model: Any, folder: Path) -> PeftModel:
    """The model with a random adapter on every linear layer, saved in a folder as training saves it."""
    wanted = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=list(TARGETS))
    tuned = get_peft_model(model, wanted)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if ".lora_B." in name:
                weight.copy_(torch.randn_like(weight) * 0.1)
    tuned.save_pretrained(str(folder))
    return tuned.eval()


def write_gguf(model: Any, path: Path) -> Path:
    """Writes the weights of a tiny model for llama.cpp."""
    arch = ARCHITECTURES[model.config.model_type]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_file_type(0)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(WIDTH // HEADS)
    writer.add_value_length(WIDTH // HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(THETA)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(VOCABULARY)
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([*kinds, *([gguf.TokenType.BYTE] * 256)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(False)
    for name, weight in model.named_parameters():
        module, _, kind = name.rpartition(".")
        values = weight.detach().numpy()
        if module in _WHOLE:
            writer.add_tensor(f"{_WHOLE[module]}.{kind}", values)
            continue
        _, _, layer, inner = module.split(".", 3)
        ours = _MODULES[inner]
        if arch in ("llama", "smollm3") and ours in ("attn_q", "attn_k"):
            values = interleaved(values, HEADS if ours == "attn_q" else KV_HEADS)
        writer.add_tensor(f"blk.{layer}.{ours}.{kind}", values)
    finish(writer)
    return path


def interleaved(values: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows in the order (head, half, place), reordered to (head, place, half)."""
    size = len(values) // heads
    order = [
        head * size + half * size // 2 + place
        for head in range(heads)
        for place in range(size // 2)
        for half in range(2)
    ]
    return np.ascontiguousarray(values[order])
