"""`python -m training.bench RUN_DIR`: training speed beside a plain loop on the same conversations, as JSON.

The plain loop is what one would write with `transformers` and PEFT: shuffled batches padded to their longest row, the
model's own loss over labels, AdamW. Both begin with a new adapter on the same base, with the same batch size, precision
and threads, and read every example once.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from engine import network_guard
from engine.run_directory.config import EVALUATOR, TrainConfig
from engine.run_directory.events import RunDirectory
from training.base import add_adapter, load_base
from training.curves import Validation
from training.examples import Example, examples, read_logs
from training.loop import AdapterTrainer, Examples, arguments, collate, room_for

_PLAIN = ("input_ids", "attention_mask", "labels")
"""What a model of `transformers` takes."""


def bench(run: RunDirectory) -> dict[str, Any]:
    """Measures both loops.

    Returns:
        `tokens_per_s` and `plain_tokens_per_s` (tokens of conversations, padding not counted), their `ratio`, and what
        was read: `examples`, `tokens`, `padded` (tokens of the plain loop, padding counted).
    """
    config = TrainConfig.load(run.config)
    assert config.recipe != EVALUATOR
    if config.threads:
        torch.set_num_threads(config.threads)
    base, tokenizer = load_base(config)
    found = examples(tokenizer, read_logs(run.train), config.recipe, config.max_tokens)
    order = list(range(len(found)))
    random.Random(config.seed).shuffle(order)
    batches = [
        [found[at] for at in order[start : start + config.batch]]
        for start in range(0, len(order), config.batch)
    ]
    tokens = sum(len(one.tokens) for one in found)
    model = add_adapter(base, config)
    # What is computed for the first time is slower.
    _plain(model, [[min(found, key=lambda one: len(one.tokens))]], config)
    plain = _plain(model, batches, config)
    model = add_adapter(model.unload(), config)
    seconds = _ours(model, found, config, run)
    return {
        "tokens_per_s": tokens / seconds,
        "plain_tokens_per_s": tokens / plain,
        "ratio": plain / seconds,
        "examples": len(found),
        "tokens": tokens,
        "padded": sum(len(batch) * max(len(one.tokens) for one in batch) for batch in batches),
    }


def _plain(model: Any, batches: Sequence[Sequence[Example]], config: TrainConfig) -> float:
    data = [collate([Examples(batch)[at] for at in range(len(batch))]) for batch in batches]
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = AdamW(trained, lr=config.learning_rate, weight_decay=config.weight_decay)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).train()
    start = time.perf_counter()
    for batch in data:
        loss = model(**{name: batch[name].to(device) for name in _PLAIN}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _ours(model: Any, found: Sequence[Example], config: TrainConfig, run: RunDirectory) -> float:
    told = arguments(
        config,
        run.checkpoints,
        "adamw_torch_fused" if torch.cuda.is_available() else "adamw_torch",
        cpu=not torch.cuda.is_available(),
    )
    told.eval_strategy = IntervalStrategy.NO
    told.save_strategy = SaveStrategy.NO
    told.load_best_model_at_end = False
    told.num_train_epochs = 1
    trainer = AdapterTrainer(
        validation=lambda: Validation(0.0, None, None, 0),
        room=room_for(config, found),
        model=model,
        args=told,
        train_dataset=Examples(found),
        data_collator=collate,
    )
    start = time.perf_counter()
    trainer.train()
    return time.perf_counter() - start


def main(words: list[str]) -> int:
    """Prints the figures of one run directory."""
    network_guard.install_in_child()
    os.environ.update(TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1")
    # What the libraries print is narration.
    shown = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(bench(RunDirectory(Path(words[0]))), shown)
    shown.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
