"""What a run learns from and is judged by: logs, or prompts with the replies wanted, as its recipe says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.run_directory.config import EVALUATOR, TrainConfig
from engine.run_directory.events import EventLog, RunDirectory
from training.base import HubTokenizer
from training.curves import Validation, validate
from training.examples import DataError, Example, examples, read_logs, readings
from training.replies import read_wanted, reply_example, reply_examples, validate_replies
from training.samples import tell_replies, tell_samples


@dataclass(frozen=True, slots=True)
class Datasets:
    """The data of a run, read.

    Attributes:
        examples: What is trained on.
        held_out, held_out_tokens: How many conversations or prompts are validated on, and how long they are together.
        validate: The figures of the model as it is now; it tells how many of them it has read.
        tell: Writes what the model says of some of them after a step.
    """

    examples: Sequence[Example]
    held_out: int
    held_out_tokens: int
    validate: Callable[[Any, Callable[[int], None]], Validation]
    tell: Callable[[EventLog, int, Any], None]


def datasets(run: RunDirectory, config: TrainConfig, tokenizer: HubTokenizer) -> Datasets:
    """Reads and checks the data of a run.

    Raises:
        DataError: The data cannot be trained on.
    """
    limit = config.max_tokens
    if config.recipe == EVALUATOR:
        wanted, asked = read_wanted(run.train), read_wanted(run.valid)
        _check_split(
            [(one.prompt, one.texts) for one in wanted], [(o.prompt, o.texts) for o in asked]
        )

        def tell(events: EventLog, step: int, model: Any) -> None:
            tell_replies(events, step, model, tokenizer, asked, limit)

        return Datasets(
            reply_examples(tokenizer, wanted, limit),
            len(asked),
            sum(len(reply_example(tokenizer, one, limit).tokens) for one in asked),
            lambda model, told: validate_replies(model, tokenizer, asked, limit, told),
            tell,
        )
    logs, held_out = read_logs(run.train), read_logs(run.valid)
    _check_split([log.item.texts for log in logs], [log.item.texts for log in held_out])
    return Datasets(
        examples(tokenizer, logs, config.recipe, limit, balance=config.balance, words=config.words),
        len(held_out),
        sum(len(one.tokens) for log in held_out for one in readings(tokenizer, log.item, limit)),
        lambda model, told: validate(model, tokenizer, held_out, limit, config.seed, told),
        lambda events, step, model: tell_samples(events, step, model, tokenizer, held_out, limit),
    )


def _check_split(train: Sequence[object], valid: Sequence[object]) -> None:
    both = set(train) & set(valid)
    if both:
        raise DataError(
            f"{len(both):,} conversations stand in train.jsonl and in valid.jsonl.",
            "What is validated must not have been trained on; split the data anew.",
        )
