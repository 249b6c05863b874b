"""`python -m tests.benchmarks.parts.training_times RUN_DIR ROUNDS SECONDS` prints the speed of training as JSON.

Beside it stands that of a plain loop, the usual one with `transformers` and PEFT: shuffled batches padded to their
longest row, the model's own loss over the labels, AdamW. Both start with a new adapter on the same base, with the same
batch size, precision and threads, and read every example once; they are measured by turns.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from engine.base import network_guard
from engine.training.config import TrainConfig
from engine.training.run_directory import RunDirectory
from tests.benchmarks.rounds import rounds
from training.base import add_adapter, load_base
from training.examples import Example, make_examples, read_logs
from training.loop import WEIGHT_DECAY, AdapterTrainer, budget_for, collate, trainer_arguments
from training.validation import Validation

_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes of the unit in which the system tells the memory of a process."""

_MODEL_INPUTS = ("input_ids", "attention_mask", "labels")
"""Arguments that a model of `transformers` takes."""


def bench(run: RunDirectory, most: int, seconds: float) -> dict[str, Any]:
    """Measures both loops on the data of a run directory.

    Args:
        most, seconds: Rounds, and time for them and for loading; there is one round at least.

    Returns:
        `tokens_per_s` and `plain_tokens_per_s` (without padding, medians), their `ratio` (median of the `ratios` of
        neighboring rounds), the size of the data: `examples`, `tokens` (without padding), `padded` (tokens of the
        plain loop, with padding), and `peak_mb`, the most memory that the process had (10^6 bytes).
    """
    end = time.monotonic() + seconds
    config = TrainConfig.load(run.config)
    if config.threads:
        torch.set_num_threads(config.threads)
    base, tokenizer = load_base(config)
    examples = make_examples(tokenizer, read_logs(run.train), config.recipe, config.max_tokens)
    order = list(range(len(examples)))
    random.Random(config.seed).shuffle(order)
    batches = [
        [examples[at] for at in order[start : start + config.batch]]
        for start in range(0, len(order), config.batch)
    ]
    tokens = sum(len(example.tokens) for example in examples)
    model = add_adapter(base, config)
    # The first pass of a process is slower, so it is not measured.
    _seconds_plain(model, [[min(examples, key=lambda example: len(example.tokens))]], config)
    plain, ours = [], []
    for _ in rounds(most, end - time.monotonic()):
        model = add_adapter(model.unload(), config)
        plain.append(_seconds_plain(model, batches, config))
        model = add_adapter(model.unload(), config)
        ours.append(_seconds_ours(model, examples, config, run))
    ratios = [theirs / mine for theirs, mine in zip(plain, ours, strict=True)]
    return {
        "tokens_per_s": tokens / statistics.median(ours),
        "plain_tokens_per_s": tokens / statistics.median(plain),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "examples": len(examples),
        "tokens": tokens,
        "padded": sum(
            len(batch) * max(len(example.tokens) for example in batch) for batch in batches
        ),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT / 1e6,
    }


def _seconds_plain(model: Any, batches: Sequence[Sequence[Example]], config: TrainConfig) -> float:
    data = [collate(batch) for batch in batches]
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = AdamW(weights, lr=config.learning_rate, weight_decay=WEIGHT_DECAY)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).train()
    start = time.perf_counter()
    for batch in data:
        loss = model(**{name: batch[name].to(device) for name in _MODEL_INPUTS}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _seconds_ours(
    model: Any, examples: Sequence[Example], config: TrainConfig, run: RunDirectory
) -> float:
    options = trainer_arguments(
        config,
        run.checkpoints,
        "adamw_torch_fused" if torch.cuda.is_available() else "adamw_torch",
        cpu=not torch.cuda.is_available(),
    )
    options.eval_strategy = IntervalStrategy.NO
    options.save_strategy = SaveStrategy.NO
    options.load_best_model_at_end = False
    options.num_train_epochs = 1
    trainer = AdapterTrainer(
        validation=lambda: Validation(0.0, None, None, 0),
        budget=budget_for(config, examples),
        config=config,
        model=model,
        args=options,
        train_dataset=examples,
        data_collator=collate,
    )
    start = time.perf_counter()
    trainer.train()
    return time.perf_counter() - start


def main(words: list[str]) -> int:
    """Prints the figures of one run directory."""
    network_guard.install_in_child()
    os.environ.update(TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1")
    # What the libraries print on standard output goes to standard error: standard output is data.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder, most, seconds = words
    json.dump(bench(RunDirectory(Path(folder)), int(most), float(seconds)), output)
    output.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
