"""Converts an adapter from the format of PEFT to the GGUF format of llama.cpp, and checks that it works there.

An adapter of the kind LoRA changes a matrix of weights by the product of two narrow matrices, B times A, whose common
length is the rank; the product is scaled by alpha / rank. The two formats differ in three things: the names; llama.cpp
stores one alpha and takes the rank from each matrix; and for some architectures its query and key projections have
their rows in another order.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import AdapterError, ModelError
from engine.base.files import atomic_replacement
from engine.model.adapter_files import LORA_A, LORA_B, AdapterOrigin, Sizes, fingerprint
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Expand, ReadTokens, TokenDistribution, Tokenize
from engine.training.config import TrainConfig
from engine.training.events import RunDirectory
from training.base import load_base, load_tokenizer
from training.examples import read_logs

_MODULES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Name of a linear layer in `transformers` -> its name in GGUF."""

TARGETS = tuple(name.rpartition(".")[2] for name in _MODULES)
"""Names of the modules that an adapter may change: every linear layer but the last."""

_TENSOR = re.compile(
    r"base_model\.model\.model\.layers\.(?P<block>\d+)\.(?P<module>\w+\.\w+)\.lora_(?P<matrix>[AB])"
    r"(?:\.default)?\.weight"
)
"""Name of a matrix in PEFT, like `base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight`."""

_NORMS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}
"""Name of a norm in a block of `transformers` -> its name in GGUF."""

_NORM = re.compile(
    r"(?:base_model\.model\.)?model\.(?:layers\.(?P<block>\d+)\.(?P<module>[\w.]+)|norm)\.weight"
)
"""Name of a weight that may be a norm, with or without adapter: in a block, `model.layers.3.input_layernorm.weight`, or
after the last block, `model.norm.weight`; the latter leaves both groups empty."""

TOKENS, LOG_TOKENS = 600, 200
"""Tokens that are compared in all, and of each log: its last ones."""

LEAST_TOP1 = 0.99
"""Least share of places where both must agree on the most probable token."""

LARGEST_SHARE = 0.25
"""Largest difference of a probability, as a share of the largest change that the adapter itself makes: an adapter
that llama.cpp does not apply differs by all of it."""

Values = NDArray[np.float64]
"""Probabilities."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture in llama.cpp.

    Attributes:
        name: Its name there.
        reordered: Whether the rows of its query and key projections are in another order than in `transformers`.
    """

    name: str
    reordered: bool


_ARCHITECTURES = {
    "llama": Architecture("llama", True),
    "mistral": Architecture("llama", True),
    "smollm3": Architecture("smollm3", True),
    "qwen2": Architecture("qwen2", False),
    "qwen3": Architecture("qwen3", False),
}
"""Name of an architecture in `transformers` -> its name in GGUF."""


def architecture_of(config: Any) -> Architecture:
    """Returns the architecture of a base, by its `transformers` config. Checked before training, so that no run ends
    without a usable adapter.

    Raises:
        ModelError: Adapters for it cannot be converted.
    """
    architecture = _ARCHITECTURES.get(config.model_type)
    if architecture is None:
        raise AdapterError(
            f"An adapter for the architecture {config.model_type!r} cannot be converted for llama.cpp.",
            f"Train on a base of one of these: {', '.join(_ARCHITECTURES)}.",
        )
    return architecture


def fingerprint_of(model: Any) -> str:
    """Returns the fingerprint of a `transformers` model, with or without adapter; equal to that of its GGUF files.

    Raises:
        ModelError: Its architecture is not one that adapters can be converted for.
    """
    config = model.config
    norms = {}
    for name, weight in model.named_parameters():
        match = _NORM.fullmatch(name)
        if match is None:
            continue
        block, module = match["block"], match["module"]
        if block and module not in _NORMS:
            continue
        gguf_name = f"blk.{block}.{_NORMS[module]}" if block else "output_norm"
        norms[f"{gguf_name}.weight"] = weight.detach().float().cpu().numpy()
    sizes = Sizes(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        inner=config.intermediate_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        vocabulary=model.get_input_embeddings().weight.shape[0],
    )
    return fingerprint(architecture_of(config).name, sizes, norms)


def convert(adapter: Path, config: Any, out: Path, origin: AdapterOrigin) -> None:
    """Writes an adapter as a GGUF file with matrices in 16 bits, completely or not at all.

    Args:
        adapter: Folder with `adapter_config.json` and `adapter_model.safetensors`, as a run leaves them.
        config: The `transformers` config of the base that it was trained on.
        origin: Metadata that goes into the file.

    Raises:
        ModelError: It changes another layer than llama.cpp can, or its architecture is not known.
    """
    import gguf
    from safetensors.torch import load_file

    architecture = architecture_of(config)
    settings = json.loads((adapter / "adapter_config.json").read_text("utf-8"))
    loaded = load_file(adapter / "adapter_model.safetensors")
    matrices = _with_gguf_names({name: matrix.float().numpy() for name, matrix in loaded.items()})
    if architecture.reordered:
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        for name, values in matrices.items():
            _, _, module, *_ = name.split(".")  # blk.3.attn_q.weight.lora_b
            if name.endswith(LORA_B) and module in heads:
                matrices[name] = _interleave_halves(values, heads[module])
    with atomic_replacement(out) as part:
        writer = gguf.GGUFWriter(part, architecture.name)
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(settings["lora_alpha"]))
        for key, value in origin.values().items():
            (writer.add_string if isinstance(value, str) else writer.add_uint32)(key, value)
        for name, values in sorted(matrices.items()):
            writer.add_tensor(name, _in_16_bits(values, name))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _with_gguf_names(tensors: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Returns the matrices of an adapter by their names in GGUF."""
    matrices = {}
    for name, values in tensors.items():
        match = _TENSOR.fullmatch(name)
        if match is None or match["module"] not in _MODULES:
            raise AdapterError(
                f"The adapter changes {name}, which is not converted.",
                f"Train one that changes these only: {', '.join(TARGETS)}.",
            )
        suffix = LORA_A if match["matrix"] == "A" else LORA_B
        matrices[f"blk.{match['block']}.{_MODULES[match['module']]}.weight{suffix}"] = values
    return matrices


def _interleave_halves(b: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Returns B, shape (heads * size, rank), with the two halves of the rows of each head interleaved, as llama.cpp has
    them: `transformers` rotates row i with row i + size / 2, llama.cpp rotates neighbors."""
    rows, rank = b.shape
    halves = b.reshape(heads, 2, rows // heads // 2, rank)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, rank))


def _in_16_bits(values: NDArray[np.float32], name: str) -> NDArray[np.float16]:
    """Returns the values of a matrix in 16 bits; raises AdapterError if one is not finite there."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float16)
    if not np.isfinite(narrow).all():
        raise AdapterError(
            f"The adapter holds numbers in {name} that 16 bits cannot hold.",
            "Lower the learning rate.",
        )
    return narrow


# Parity: whether an adapter gives the same probabilities in llama.cpp as in PEFT, on logs of the selection part. Both
# sides load the GGUF file that the adapter will be used with, expanded to F32, so that a difference comes from the
# adapter or from how it is applied. The model process writes the expansion into a temporary folder.


class ParitySkipped(Exception):
    """The two cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class ParityResult:
    """Agreement of llama.cpp with PEFT. At each place three probabilities are compared: of llama.cpp's most probable
    token, of the next token of the log, and of the end token.

    Attributes:
        top1: Share of places where both have the same most probable token.
        max_dp: Largest difference of a probability.
        moved: Largest change of a probability by the adapter itself.
        tokens: Places compared.
        same_tokens: Whether both tokenize the texts alike.
    """

    top1: float
    max_dp: float
    moved: float
    tokens: int
    same_tokens: bool

    @property
    def failing(self) -> str:
        """Why the adapter cannot be used in llama.cpp; empty when it can."""
        if not self.same_tokens:
            return "llama.cpp splits text into other tokens than the tokenizer of the base"
        if self.moved == 0:
            return "the adapter changes nothing"
        if self.top1 < LEAST_TOP1:
            return f"both have the same most probable token in only {self.top1:.1%} of places"
        if self.max_dp > LARGEST_SHARE * self.moved:
            return (
                f"probabilities differ by up to {self.max_dp:.2g},"
                f" where the adapter itself changes them by up to {self.moved:.2g}"
            )
        return ""

    @property
    def passed(self) -> bool:
        """Whether the adapter can be used in llama.cpp."""
        return not self.failing

    def as_event(self) -> dict[str, Any]:
        """Returns the fields of the event `parity`."""
        return {**asdict(self), "passed": self.passed}


def check_parity(run: RunDirectory, config: TrainConfig) -> ParityResult:
    """Compares the run's adapter in its two forms, PEFT and GGUF, on its logs of the selection part.

    Raises:
        ParitySkipped: There is no GGUF file of the base, it is too large, or one side cannot load it.
    """
    base = Path(config.base_gguf or config.base)
    if not base.is_file():
        raise ParitySkipped("no GGUF file of the base is named")
    for leftover in run.path.glob("parity-*"):
        shutil.rmtree(leftover)  # left by a process that was killed during the comparison
    # Twice as many logs as are needed if all are long enough.
    texts = list(itertools.islice(_texts(run.valid), 2 * TOKENS // LOG_TOKENS))
    process = ModelProcess(run.path / "parity.log")
    with tempfile.TemporaryDirectory(dir=run.path, prefix="parity-") as folder:
        expanded = Path(folder) / "f32.gguf"
        try:
            process.ask(Expand(base, expanded))
            options = LoadOptions(context=LOG_TOKENS, threads=config.threads or None)
            process.load(expanded, options, run.adapter_gguf)
            llama_cpp_tokens = process.ask(Tokenize(texts))
            logs = list(_last_tokens(llama_cpp_tokens))
            exact = replace(config, base=str(base), precision="f32", four_bit=False)
            model, tokenizer = load_base(exact)
            if base != Path(config.base):
                tokenizer = load_tokenizer(config)
            end = tokenizer.end_token
            readings = process.ask(ReadTokens(logs, [end]))
        except ModelError as error:
            raise ParitySkipped(error.message) from error
        except RuntimeError as error:
            # `transformers` raises this for weights of other sizes than it expects.
            raise ParitySkipped(f"the weights of {base.name} cannot be read: {error}") from error
        finally:
            process.close()
    return _compare(
        model.eval(),
        run.adapter,
        logs,
        readings,
        end=end,
        same_tokens=llama_cpp_tokens == [tokenizer.tokenize(text) for text in texts],
    )


def _texts(path: Path) -> Iterator[str]:
    """Yields the logs of a data file, each up to its last boundary."""
    for log in read_logs(path):
        yield "".join(log.item.texts[: log.item.boundaries[-1] + 1])


def _last_tokens(tokenized_logs: Sequence[list[int]]) -> Iterator[list[int]]:
    """Yields the last tokens of each log, at most `LOG_TOKENS` of each and `TOKENS` in all."""
    room = TOKENS
    for tokens in tokenized_logs:
        last_tokens = tokens[-min(LOG_TOKENS, room) :]
        # A place needs a token before it and one after it.
        if len(last_tokens) < 2 or room < 2:
            continue
        room -= len(last_tokens)
        yield last_tokens


def _compare(
    model: Any,
    adapter: Path,
    logs: Sequence[list[int]],
    readings: Sequence[Sequence[TokenDistribution]],
    *,
    end: int,
    same_tokens: bool,
) -> ParityResult:
    """Returns how far the trainer and llama.cpp agree on the same tokens.

    Args:
        model: The base in PyTorch.
        adapter: Folder of the adapter in the format of PEFT.
        logs: Tokens of each log.
        readings: What llama.cpp expects after each token of each log.
        end: The end token.
        same_tokens: See `ParityResult`.
    """
    from peft import PeftModel

    tuned = PeftModel.from_pretrained(model, str(adapter)).eval()
    agreed = tokens = 0
    max_dp = moved = 0.0
    for log, places in zip(logs, readings, strict=True):
        following = [*log[1:], end]
        # The three tokens that are compared at each place, shape (places, 3).
        compared = np.array(
            [[place.top, token, end] for place, token in zip(places, following, strict=True)]
        )
        llama_cpp = np.exp([[place.top_log_p, _next_log_p(place), *place.also] for place in places])
        top, peft = _probabilities(tuned, log, compared)
        with tuned.disable_adapter():
            _, untuned = _probabilities(tuned, log, compared)
        agreed += int((top == compared[:, 0]).sum())
        tokens += len(log)
        max_dp = max(max_dp, float(np.abs(llama_cpp - peft).max()))
        moved = max(moved, float(np.abs(untuned - peft).max()))
    if not tokens:
        raise ParitySkipped("the validation data has no text")
    return ParityResult(agreed / tokens, max_dp, moved, tokens, same_tokens)


def _next_log_p(reading: TokenDistribution) -> float:
    """Returns the log-probability of the next token; after the last token, that of the end token."""
    if reading.next_log_p is not None:
        return reading.next_log_p
    (end_log_p,) = reading.also
    return end_log_p


def _probabilities(
    model: Any, log: Sequence[int], compared: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Values]:
    """Returns the most probable token after each token of a log, shape (tokens,), and the probabilities of `compared`,
    shape (tokens, 3)."""
    import torch

    with torch.no_grad():
        (logits,) = model(torch.tensor([list(log)])).logits
    rows = torch.log_softmax(logits.double(), -1)
    values = rows.gather(1, torch.from_numpy(compared)).exp()
    return rows.argmax(-1).numpy(), values.numpy()
