"""The data of one run: examples to train on, and logs of the selection part to validate on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.errors import DataError
from engine.training.run_directory.config import RETIRED_RECIPE, TrainConfig
from engine.training.run_directory.events import RunDirectory
from training.base import HubTokenizer
from training.examples import Example, Log, make_examples, read_logs, token_windows


@dataclass(frozen=True, slots=True)
class Datasets:
    """The data of a run, read and checked.

    Attributes:
        examples: What is trained on.
        selection: Logs that are validated on.
        selection_tokens: Tokens that one validation reads.
    """

    examples: Sequence[Example]
    selection: Sequence[Log]
    selection_tokens: int


def read_datasets(run: RunDirectory, config: TrainConfig, tokenizer: HubTokenizer) -> Datasets:
    """Reads `train.jsonl` and `valid.jsonl`.

    Raises:
        DataError: The data cannot be trained on, or the recipe is a retired one.
    """
    if config.recipe == RETIRED_RECIPE:
        raise DataError(
            f"The recipe {RETIRED_RECIPE} is no longer trained.", "Start a run with another recipe."
        )
    train, selection = read_logs(run.train), read_logs(run.valid)
    shared = {log.item.texts for log in train} & {log.item.texts for log in selection}
    if shared:
        raise DataError(
            f"{len(shared):,} conversations are in train.jsonl and in valid.jsonl.",
            "Conversations that select the checkpoint must not be trained on; split the data again.",
        )
    limit = config.max_tokens
    return Datasets(
        examples=make_examples(
            tokenizer,
            train,
            config.recipe,
            limit,
            balance=config.balance,
            words=config.words,
            end_tag=config.end_tag,
        ),
        selection=selection,
        selection_tokens=sum(
            len(window.tokens)
            for log in selection
            for window in token_windows(tokenizer, log.item, limit)
        ),
    )
