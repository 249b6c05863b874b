"""Whether an adapter says in llama.cpp what it said where it was trained, on real text and in the same precision.

Both sides read the F32 expansion of the GGUF file that the adapter will be used with, so that what differs is the
adapter or the way it is applied. The model process writes the expansion into a temporary folder.
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

from engine.errors import ModelError
from engine.model.interface import LoadOptions
from engine.run_directory.config import EVALUATOR, TrainConfig
from engine.run_directory.events import RunDirectory
from engine.worker.client import ModelProcess
from engine.worker.reading import Reading
from training.base import load_base, load_tokenizer
from training.examples import read_logs
from training.replies import read_wanted

TOKENS, LOG_TOKENS = 600, 200
"""Tokens that are compared in all, and of one log: its last ones."""

LEAST_TOP1 = 0.99
LARGEST_SHARE = 0.25
"""The two may differ by this share of what the adapter changes, so that one that is not applied is found out."""

Values = NDArray[np.float64]


class ParitySkipped(Exception):
    """The two cannot be compared; the text says why."""


@dataclass(frozen=True, slots=True)
class ParityResult:
    """How near llama.cpp comes to PEFT. Probabilities are those of the likeliest token, the next and the end token.

    Attributes:
        top1: Share of places where both find the same token most probable.
        max_dp: Largest difference of a probability.
        moved: Largest change of a probability by the adapter itself.
        tokens: Places compared.
        same_tokens: Whether both split the texts into the same tokens.
    """

    top1: float
    max_dp: float
    moved: float
    tokens: int
    same_tokens: bool

    @property
    def failing(self) -> str:
        """Why the adapter cannot be used in llama.cpp for what was trained; empty when it can."""
        if not self.same_tokens:
            return "llama.cpp splits text into other tokens than the tokenizer of the training"
        if self.moved == 0:
            return "the adapter changes nothing"
        if self.top1 < LEAST_TOP1:
            return f"both find the same token most probable in {self.top1:.1%} of places only"
        if self.max_dp > LARGEST_SHARE * self.moved:
            return (
                f"probabilities differ by up to {self.max_dp:.2g},"
                f" where the adapter itself changes them by up to {self.moved:.2g}"
            )
        return ""

    @property
    def passed(self) -> bool:
        """Whether the adapter says in llama.cpp what it said where it was trained."""
        return not self.failing

    def as_event(self) -> dict[str, Any]:
        """The fields of the event `parity`."""
        return {**asdict(self), "passed": self.passed}


def check(run: RunDirectory, config: TrainConfig) -> ParityResult:
    """Compares the run's adapter in its two forms on logs that it was not trained on.

    Raises:
        ParitySkipped: There is no GGUF file of the base, or it is too large or of a kind that one side cannot read.
    """
    base = Path(config.base_gguf or config.base)
    if not base.is_file():
        raise ParitySkipped("no GGUF file of the base is named")
    for left in run.path.glob("parity-*"):
        shutil.rmtree(left)  # of a process that was killed while it compared
    texts = list(itertools.islice(_texts(run.valid, config), 2 * TOKENS // LOG_TOKENS))
    process = ModelProcess(run.path / "parity.log")
    with tempfile.TemporaryDirectory(dir=run.path, prefix="parity-") as folder:
        exact = Path(folder) / "f32.gguf"
        try:
            process.expand(base, exact)
            options = LoadOptions(context=LOG_TOKENS, threads=config.threads or None)
            process.load(exact, options, run.adapter_gguf)
            split = process.tokenize(texts)
            logs = list(_cut(split))
            wanted = replace(config, base=str(base), precision="f32", four_bit=False)
            model, tokenizer = load_base(wanted)
            if base != Path(config.base):
                tokenizer = load_tokenizer(config)
            end = tokenizer.end_token
            found = process.readings(logs, [end])
        except ModelError as error:
            raise ParitySkipped(error.message) from error
        except RuntimeError as error:
            # What `transformers` says to weights whose sizes are not those it expects.
            raise ParitySkipped(f"the weights of {base.name} cannot be read: {error}") from error
        finally:
            process.close()
    same = split == [tokenizer.tokenize(text) for text in texts]
    return _compare(model.eval(), run.adapter, logs, found, end, same)


def _texts(path: Path, config: TrainConfig) -> Iterator[str]:
    """The logs of a data file up to their last boundaries; of prompts their texts with what is to follow them."""
    if config.recipe == EVALUATOR:
        for wanted in read_wanted(path):
            prompt = wanted.prompt
            yield "".join([*wanted.texts, prompt.question, "\n", prompt.reply, wanted.reply])
        return
    for log in read_logs(path):
        yield "".join(log.item.texts[: log.item.boundaries[-1] + 1])


def _cut(split: Sequence[list[int]]) -> Iterator[list[int]]:
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
    found: Sequence[Sequence[Reading]],
    end: int,
    same: bool,
) -> ParityResult:
    from peft import PeftModel

    tuned = PeftModel.from_pretrained(model, str(adapter)).eval()
    agreed = tokens = 0
    apart = moved = 0.0
    for log, readings in zip(logs, found, strict=True):
        # What is asked of each place: llama.cpp's likeliest token, the next one, the end token.
        following = [*log[1:], end]
        asked = np.array([[one.top, to, end] for one, to in zip(readings, following, strict=True)])
        theirs = np.exp([[one.top_log_p, _next(one), *one.also] for one in readings])
        top, with_it = _probabilities(tuned, log, asked)
        with tuned.disable_adapter():
            _, without = _probabilities(tuned, log, asked)
        agreed += int((top == asked[:, 0]).sum())
        tokens += len(log)
        apart = max(apart, float(np.abs(theirs - with_it).max()))
        moved = max(moved, float(np.abs(without - with_it).max()))
    if not tokens:
        raise ParitySkipped("the validation data has no text")
    return ParityResult(agreed / tokens, apart, moved, tokens, same)


def _next(reading: Reading) -> float:
    """The log-probability of the next token; after the last, the end token stands in for it."""
    return reading.also[0] if reading.next_log_p is None else reading.next_log_p


def _probabilities(
    model: Any, log: Sequence[int], asked: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Values]:
    """The likeliest token after each of a log, and the probabilities of those asked about, shape (tokens, 3)."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([list(log)])).logits[0]
    rows = torch.log_softmax(logits.double(), -1)
    values = rows.gather(1, torch.from_numpy(asked)).exp()
    return rows.argmax(-1).numpy(), values.numpy()
