"""The loss of a step, beside one that is computed the long way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.tiny_runs import tiny_base
from training.base import add_adapter, load_base
from training.config import TrainConfig
from training.curves import Validation
from training.examples import Example
from training.loop import AdapterTrainer, Examples, arguments, collate

ROWS = [
    Example([1, 5, 6, 7, 8, 9, 2], [3, 4, 6], [0.75, 0.75, 1.5]),
    Example([1, 9, 8, 2], [3], [1.0]),
]


@pytest.fixture
def trainer(tmp_path: Path) -> AdapterTrainer:
    """On a tiny model with an adapter that changes something."""
    hub, _ = tiny_base(tmp_path)
    config = TrainConfig(base=str(hub), precision="f32", rows=2, batch=2)
    model, _ = load_base(config)
    model = add_adapter(model, config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1, generator=torch.Generator().manual_seed(1))
    return AdapterTrainer(
        validation=lambda: Validation(0.0, None, None, 0),
        model=model,
        args=arguments(config, tmp_path / "run", "adamw_torch", cpu=True),
        train_dataset=Examples(ROWS),
        data_collator=collate,
    )


def by_hand(model: Any) -> float:
    """Each row for itself, without padding, all positions projected; weighed -log p over all targets."""
    total = 0.0
    for row in ROWS:
        with torch.no_grad():
            logs = torch.log_softmax(model(input_ids=torch.tensor([row.tokens])).logits[0], -1)
        for at, weight in zip(row.targets, row.weights, strict=True):
            total -= weight * float(logs[at - 1, row.tokens[at]])
    return total / sum(len(row.targets) for row in ROWS)


def test_padding_and_other_rows_change_nothing(trainer: AdapterTrainer) -> None:
    """Rows of different lengths in one batch give the weighed mean over their labels, as each gives alone."""
    inputs = collate([Examples(ROWS)[0], Examples(ROWS)[1]])
    assert inputs["input_ids"].shape == (2, 64)
    loss = trainer.compute_loss(trainer.model, inputs)
    assert loss.item() == pytest.approx(by_hand(trainer.model), abs=1e-5)


def test_a_step_in_parts(trainer: AdapterTrainer) -> None:
    """Parts of a step, each divided by the labels of the whole, add up to the loss of the whole."""
    labels = torch.tensor(sum(len(row.targets) for row in ROWS))
    parts = [
        trainer.compute_loss(trainer.model, collate([row]), num_items_in_batch=labels)
        for row in (Examples(ROWS)[0], Examples(ROWS)[1])
    ]
    assert torch.stack(parts).sum().item() == pytest.approx(by_hand(trainer.model), abs=1e-5)
