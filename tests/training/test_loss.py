"""The loss of a step, compared with a plain computation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.training.config import TrainConfig
from tests.training.tiny_runs import tiny_base
from training.base import add_adapter, load_base
from training.examples import Example
from training.loop import AdapterTrainer, collate, trainer_arguments
from training.validation import Validation

ROWS = [
    Example([1, 5, 6, 7, 8, 9, 2], [3, 4, 6], [0.75, 0.75, 1.5]),
    Example([1, 9, 8, 2], [3], [1.0]),
]


def trainer_with(folder: Path, budget: int) -> AdapterTrainer:
    """A trainer of a tiny model with an adapter, with microbatches of this many tokens."""
    hub, _ = tiny_base(folder)
    config = TrainConfig(base=str(hub), precision="f32", batch=2)
    model, _ = load_base(config)
    model = add_adapter(model, config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1, generator=torch.Generator().manual_seed(1))
    return AdapterTrainer(
        validation=lambda: Validation(0.0, None, None, 0),
        budget=budget,
        config=config,
        model=model,
        args=trainer_arguments(config, folder / "run", "adamw_torch", cpu=True),
        train_dataset=ROWS,
        data_collator=collate,
    )


def step() -> dict[str, torch.Tensor]:
    """All rows as one batch."""
    return collate(ROWS)


def by_hand(model: Any) -> float:
    """Each row by itself, without padding, with logits at all positions; weighted -log p over all targets."""
    total = 0.0
    for row in ROWS:
        with torch.no_grad():
            logs = torch.log_softmax(model(input_ids=torch.tensor([row.tokens])).logits[0], -1)
        for at, weight in zip(row.targets, row.weights, strict=True):
            total -= weight * float(logs[at - 1, row.tokens[at]])
    return total / sum(len(row.targets) for row in ROWS)


def test_padding_and_other_rows_change_nothing(tmp_path: Path) -> None:
    """Rows of different lengths in one batch have the weighted mean over their labels, as each row by itself."""
    trainer = trainer_with(tmp_path, 1024)
    inputs = step()
    assert inputs["input_ids"].shape == (2, 64)
    loss = trainer.compute_loss(trainer.model, inputs)
    assert loss.item() == pytest.approx(by_hand(trainer.model), abs=1e-5)


def test_microbatches_have_the_same_gradients(tmp_path: Path) -> None:
    """The gradients of a step are the same whether its rows are in one microbatch or each in its own."""
    gradients: list[list[torch.Tensor]] = []
    for budget in (1024, 1):
        trainer = trainer_with(tmp_path / str(budget), budget)
        trainer.training_step(trainer.model, step(), torch.tensor(4))
        gradients.append([one.grad for one in trainer.model.parameters() if one.grad is not None])
    together, apart = gradients

    assert len(together) == len(apart) > 0
    for one, other in zip(together, apart, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(("steps", "rising"), [(1, 0), (21, 2)])
def test_a_single_step_learns(tmp_path: Path, steps: int, rising: int) -> None:
    """The learning rate rises over a share of the steps, from 0, but never over all of them."""
    found = trainer_arguments(TrainConfig("base"), tmp_path, "adamw_torch", cpu=True)
    assert found.get_warmup_steps(steps) == rising
