"""Parity check: whether an adapter gives the same probabilities in llama.cpp as in PEFT, on logs of the selection part.

Both sides load the GGUF file that the adapter will be used with, expanded to F32, so that a difference comes from the
adapter or from how it is applied. The model process writes the expansion into a temporary folder.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import ModelError
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Expand, ReadTokens, TokenDistribution, Tokenize
from engine.training.run_directory.config import TrainConfig
from engine.training.run_directory.events import RunDirectory
from training.base import load_base, load_tokenizer
from training.examples import read_logs

TOKENS, LOG_TOKENS = 600, 200
"""Tokens that are compared in all, and of each log: its last ones."""

LEAST_TOP1 = 0.99
"""Least share of places where both must agree on the most probable token."""

LARGEST_SHARE = 0.25
"""Largest difference of a probability, as a share of the largest change that the adapter itself makes: an adapter
that llama.cpp does not apply differs by all of it."""

Values = NDArray[np.float64]


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
        same_tokens: Whether both tokenise the texts alike.
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
        """The fields of the event `parity`."""
        return {**asdict(self), "passed": self.passed}


def check_parity(run: RunDirectory, config: TrainConfig) -> ParityResult:
    """Compares the run's adapter in its two forms, PEFT and GGUF, on its logs of the selection part.

    Raises:
        ParitySkipped: There is no GGUF file of the base, it is too large, or one side cannot load it.
    """
    base = Path(config.base_gguf or config.base)
    if not base.is_file():
        raise ParitySkipped("no GGUF file of the base is named")
    for left in run.path.glob("parity-*"):
        shutil.rmtree(left)  # left by a process that was killed during the comparison
    texts = list(itertools.islice(_texts(run.valid), 2 * TOKENS // LOG_TOKENS))
    process = ModelProcess(run.path / "parity.log")
    with tempfile.TemporaryDirectory(dir=run.path, prefix="parity-") as folder:
        expanded = Path(folder) / "f32.gguf"
        try:
            process.ask(Expand(base, expanded))
            options = LoadOptions(context=LOG_TOKENS, threads=config.threads or None)
            process.load(expanded, options, run.adapter_gguf)
            split = process.ask(Tokenize(texts))
            logs = list(_last_tokens(split))
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
    same = split == [tokenizer.tokenize(text) for text in texts]
    return _compare(model.eval(), run.adapter, logs, readings, end, same)


def _texts(path: Path) -> Iterator[str]:
    """The logs of a data file, each up to its last boundary."""
    for log in read_logs(path):
        yield "".join(log.item.texts[: log.item.boundaries[-1] + 1])


def _last_tokens(split: Sequence[list[int]]) -> Iterator[list[int]]:
    """The last tokens of each log, `TOKENS` in all."""
    room = TOKENS
    for tokens in split:
        cut = tokens[-min(LOG_TOKENS, room) :]
        if len(cut) < 2 or room < 2:
            continue
        room -= len(cut)
        yield cut


def _compare(
    model: Any,
    adapter: Path,
    logs: Sequence[list[int]],
    readings: Sequence[Sequence[TokenDistribution]],
    end: int,
    same: bool,
) -> ParityResult:
    from peft import PeftModel

    tuned = PeftModel.from_pretrained(model, str(adapter)).eval()
    agreed = tokens = 0
    max_dp = moved = 0.0
    for log, places in zip(logs, readings, strict=True):
        following = [*log[1:], end]
        compared = np.array([[at.top, to, end] for at, to in zip(places, following, strict=True)])
        llama_cpp = np.exp([[at.top_log_p, _next_log_p(at), *at.also] for at in places])
        top, peft = _probabilities(tuned, log, compared)
        with tuned.disable_adapter():
            _, untuned = _probabilities(tuned, log, compared)
        agreed += int((top == compared[:, 0]).sum())
        tokens += len(log)
        max_dp = max(max_dp, float(np.abs(llama_cpp - peft).max()))
        moved = max(moved, float(np.abs(untuned - peft).max()))
    if not tokens:
        raise ParitySkipped("the validation data has no text")
    return ParityResult(agreed / tokens, max_dp, moved, tokens, same)


def _next_log_p(reading: TokenDistribution) -> float:
    """The log-probability of the next token; after the last token, that of the end token."""
    return reading.also[0] if reading.next_log_p is None else reading.next_log_p


def _probabilities(
    model: Any, log: Sequence[int], compared: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Values]:
    """The most probable token after each token of a log, shape (tokens,), and the probabilities of `compared`, shape
    (tokens, 3)."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([list(log)])).logits[0]
    rows = torch.log_softmax(logits.double(), -1)
    values = rows.gather(1, torch.from_numpy(compared)).exp()
    return rows.argmax(-1).numpy(), values.numpy()
