"""Loads the model to adapt and its tokenizer, from a GGUF file or a folder of Hugging Face, and adds the adapter."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engine.base.errors import ModelError, ModelFileError
from engine.model.gguf_file import read_gguf
from engine.training.config import TrainConfig

_DIGITS_SPLIT = frozenset(
    ["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"]
)
"""Names in llama.cpp of the vocabularies that first split a text at every digit."""


class HubTokenizer:
    """A tokenizer of `transformers` with the interface `engine.model.interface.Tokenizer`, so that training and scoring
    read the same tokens."""

    def __init__(self, tokenizer: Any) -> None:
        """Wraps a tokenizer of `transformers`; raises ModelError if it has no end token."""
        if tokenizer.eos_token_id is None:
            raise ModelError("The tokenizer of this base has no end token to train on.")
        self._tokenizer = tokenizer

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """See `engine.model.interface.Tokenizer.tokenize`."""
        options = {"add_special_tokens": False, "split_special_tokens": not special}
        tokens: list[int] = self._tokenizer(text, **options)["input_ids"]
        if not start:
            return tokens
        # the tokens around an empty text: the start token if there is one, and for some tokenizers the end token
        opening: list[int] = self._tokenizer("", add_special_tokens=True)["input_ids"]
        return [token for token in opening if token != self.end_token] + tokens

    def token_bytes(self, token: int) -> bytes:
        """See `engine.model.interface.Tokenizer.token_bytes`."""
        return self.text([token]).encode("utf-8", "replace")

    def text(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, without control tokens."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        """See `engine.model.interface.Tokenizer.render_chat`."""
        text: str = self._tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
        return text

    @property
    def end_token(self) -> int:
        """Id of the end token."""
        token: int = self._tokenizer.eos_token_id
        return token

    @property
    def stop_tokens(self) -> frozenset[int]:
        """The end token alone."""
        return frozenset([self.end_token])


def load_base(config: TrainConfig) -> tuple[Any, HubTokenizer]:
    """Returns the weights and the tokenizer of a base, loaded from the disk; nothing is downloaded.

    Raises:
        ModelFileError: There is no such file or folder.
        ModelError: `transformers` cannot read it.
    """
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    path, folder, options = _loading_options(config.base)
    if path.is_file():
        # quantized weights would pass on no gradients
        options["quantization_config"] = GgufConfig(gguf_file=path.name, dequantize=True)
    options["dtype"] = torch.bfloat16 if config.precision == "bf16" else torch.float32
    tokenizer = load_tokenizer(config)
    with _translate_errors(path):
        model = AutoModelForCausalLM.from_pretrained(folder, **options)
    model.config.use_cache = False
    return model, tokenizer


def load_tokenizer(config: TrainConfig) -> HubTokenizer:
    """Returns the tokenizer of a base, loaded from the disk.

    Raises:
        ModelFileError: There is no such file or folder.
        ModelError: `transformers` cannot read it.
    """
    from transformers import AutoTokenizer

    path, folder, options = _loading_options(config.base)
    with _translate_errors(path):
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    if path.is_file() and read_gguf(path).text("tokenizer.ggml.pre") in _DIGITS_SPLIT:
        _split_digits(tokenizer)
    return HubTokenizer(tokenizer)


def _split_digits(tokenizer: Any) -> None:
    """Makes a tokenizer split text as llama.cpp does for `_DIGITS_SPLIT`: at each digit, then into words.

    `transformers` reads these vocabularies from a GGUF file as if they were that of GPT-2. Its tokens still differ
    where two spaces are before a digit.
    """
    from tokenizers import Regex, pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


def _loading_options(base: str) -> tuple[Path, Path, dict[str, Any]]:
    """Returns the path of a base, its folder, and the options with which `transformers` loads it from that folder.

    Raises:
        ModelFileError: There is no such file or folder.
    """
    path = Path(os.path.expanduser(base))
    if not path.exists():
        raise ModelFileError(f"There are no weights at {path}.", "Name another base.")
    options: dict[str, Any] = {"local_files_only": True}
    if path.is_file():
        return path, path.parent, options | {"gguf_file": path.name}
    return path, path, options


@contextlib.contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turns errors of `transformers` in the block, which loads a base, into ModelError."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(
            f"`transformers` cannot read the weights of {path.name}: {error}",
            "Use a GGUF file of an architecture it knows, or a Hugging Face folder.",
        ) from error


def add_adapter(model: Any, config: TrainConfig) -> Any:
    """Returns the model with a new adapter on all linear layers; only the adapter is trained.

    The base keeps its precision; the weights of the adapter are in float32.
    """
    from peft import LoraConfig, get_peft_model

    tuned = get_peft_model(
        model,
        LoraConfig(
            r=config.rank,
            lora_alpha=config.alpha,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        ),
    )
    # without a config.json beside the base PEFT thinks that the embeddings are new, and would save them too
    tuned.save_pretrained = functools.partial(tuned.save_pretrained, save_embedding_layers=False)
    return tuned
