"""Makes training examples of the logs of a run: which tokens the model learns to predict.

A *log* is the text of a conversation in *pieces*, one for each step. A *boundary* is a piece after which the
conversation could end; in tokens it is the number of tokens up to the end of the piece. The tokens are those of
scoring: the same pieces, tokenized one by one, in the same windows over long logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.base.conversation import is_answer
from engine.base.errors import DataError
from engine.completeness.scoring import LogItem
from engine.model.interface import Tokenizer
from engine.model.log_windows import MIN_LOG_TOKENS, Window, plan_windows, tokens_of_windows
from engine.model.prompt_files import opening_tokens, tokens_around
from engine.training.config import FIRST_WORDS_TOKENS, Recipe, TrainConfig
from engine.training.run_directory import RunDirectory
from training.base import HubTokenizer

WORDS_WEIGHT = 0.1
"""Weight of each token of the first words of a next step; its opening has weight 1. With 0 an adapter would learn only
whether a conversation goes on, and forget how to write what remains to be done."""


@dataclass(frozen=True, slots=True)
class Log:
    """One conversation of a data file, with its id in the file."""

    id: str
    item: LogItem


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """A window of a log in tokens; a short log is one window.

    Attributes:
        tokens: Token ids of the window.
        boundaries: Numbers of tokens after which the conversation could end, rising.
        answer: Index of the first token of the last answer, which follows the last step that is not one of the
            assistant.
    """

    tokens: list[int]
    boundaries: list[int]
    answer: int


@dataclass(frozen=True, slots=True)
class Example:
    """One training example.

    Attributes:
        tokens: Token ids of the whole input.
        targets: Indices of the tokens that are predicted from those before them, rising.
        weights: Weight of each target in the loss; their mean is 1.
    """

    tokens: list[int]
    targets: list[int]
    weights: list[float]


def read_logs(path: Path) -> list[Log]:
    """Returns the conversations of a data file; `engine.training.run_directory.RunDirectory` describes its format.

    Raises:
        DataError: The file is missing, or a line is no conversation.
    """
    try:
        with path.open(encoding="utf-8") as file:
            lines = list(file)  # `str.splitlines` would also split at characters inside a text
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} cannot be read: {error}.") from error
    logs = []
    for number, line in enumerate(lines, 1):
        try:
            logs.append(_log_of_line(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"Line {number} of {path.name} is no conversation: {error}.") from error
    return logs


def _log_of_line(line: Any) -> Log:
    """Returns the conversation in a line; raises ValueError, KeyError or TypeError if the line has none."""
    item = LogItem(
        tuple(map(str, line["texts"])), tuple(map(int, line["boundaries"])), int(line["kept"])
    )
    if not item.boundaries or item.boundaries[-1] >= len(item.texts):
        raise ValueError("a boundary is not the index of a piece")
    return Log(str(line["id"]), item)


def token_windows(tokenizer: Tokenizer, item: LogItem, limit: int) -> Iterator[TokenWindow]:
    """Yields the windows of a log, first to last, of at most `limit` tokens each; all begin with the same tokens."""
    head = tokens_around(None, tokenizer).head
    texts = item.texts[: item.boundaries[-1] + 1]
    pieces = [tokenizer.tokenize(text) for text in texts]
    room = limit - len(head)
    windows = plan_windows(list(map(len, pieces)), item.boundaries, item.pinned_pieces, room)
    window_pieces = tokens_of_windows(tokenizer, pieces, windows, room)
    for window, pieces_of_window in zip(windows, window_pieces, strict=True):
        yield _token_window(head, pieces_of_window, window, item)


def _token_window(
    head: Sequence[int], pieces: Sequence[Sequence[int]], window: Window, item: LogItem
) -> TokenWindow:
    """Returns one window of a log in tokens, with its boundaries as numbers of tokens.

    Args:
        head: Tokens with which every window begins.
        pieces: Tokens of each piece of the window.
    """
    tokens, boundaries, answer = list(head), [], len(head)
    for index, piece in zip(window.pieces, pieces, strict=True):
        tokens += piece
        if index in window.boundaries:
            boundaries.append(len(tokens))
        if not is_answer(item.texts[index]):
            answer = len(tokens)
    return TokenWindow(tokens, boundaries, answer)


def make_example(tokenizer: Tokenizer, item: LogItem, recipe: Recipe, limit: int) -> Example:
    """Returns the example of one conversation; of a log longer than `limit` tokens only the last window is used.

    The targets of the recipes `paper` and `no-end-tag` are the last answer. Those of `boundary` are the tokens after
    each boundary: the first ones of the next step where the conversation went on, the end token where it ended.
    """
    *_, last_window = token_windows(tokenizer, item, limit)
    tokens = [*last_window.tokens, tokenizer.end_token]
    end = len(last_window.tokens)
    if recipe == "paper":
        return _weigh_equally(tokens, list(range(last_window.answer, len(tokens))))
    if recipe == "no-end-tag":
        return _weigh_equally(last_window.tokens, list(range(last_window.answer, end)))
    opening_count = len(opening_tokens(tokenizer))
    continuations = len(last_window.boundaries) - 1
    targets: list[int] = []
    weights: list[float] = []
    for boundary, next_boundary in pairwise(last_window.boundaries):
        count = min(opening_count + FIRST_WORDS_TOKENS, next_boundary - boundary)
        targets += range(boundary, boundary + count)
        weights += [*opening_count * [1.0], *(count - opening_count) * [WORDS_WEIGHT]]
    targets.append(end)
    # the end weighs as much as all boundaries together at which the conversation went on
    weights.append(float(max(1, continuations)))
    mean = sum(weights) / len(weights)
    return Example(tokens, targets, [weight / mean for weight in weights])


def _weigh_equally(tokens: list[int], targets: list[int]) -> Example:
    """Returns an example in which all targets have the weight 1."""
    return Example(tokens, targets, len(targets) * [1.0])


def make_examples(
    tokenizer: Tokenizer,
    logs: Sequence[Log],
    recipe: Recipe,
    limit: int,
) -> list[Example]:
    """Returns one example for each log, see `make_example`.

    Raises:
        DataError: There are no logs, `limit` is too small for any log, an example has no target, or the end token is
            not exactly once among its targets (for `no-end-tag`: not absent).
    """
    if limit < MIN_LOG_TOKENS:
        raise DataError(f"{limit} tokens are too few for a log.", "Raise max_tokens.")
    if not logs:
        raise DataError("There are no conversations to train on.")
    examples = []
    for log in logs:
        example = make_example(tokenizer, log.item, recipe, limit)
        labels = [example.tokens[index] for index in example.targets]
        end_count = labels.count(tokenizer.end_token)
        # the first token of an input cannot be predicted from an earlier one
        if not example.targets or example.targets[0] < 1:
            raise DataError(f"Conversation {log.id} has nothing to learn.")
        if end_count != (0 if recipe == "no-end-tag" else 1):
            raise DataError(f"Conversation {log.id} has the end token {end_count} times.")
        examples.append(example)
    return examples


# The data of one run


@dataclass(frozen=True, slots=True)
class Datasets:
    """The data of a run, read and checked.

    Attributes:
        examples: The training examples.
        selection: The logs of the validation.
    """

    examples: Sequence[Example]
    selection: Sequence[Log]


def read_datasets(run: RunDirectory, config: TrainConfig, tokenizer: HubTokenizer) -> Datasets:
    """Returns the data of a run, from `train.jsonl` and `valid.jsonl`.

    Raises:
        DataError: The data cannot be trained on.
    """
    train, selection = read_logs(run.train), read_logs(run.valid)
    shared = {log.item.texts for log in train} & {log.item.texts for log in selection}
    if shared:
        raise DataError(
            f"{len(shared):,} conversations are in train.jsonl and in valid.jsonl.",
            "Conversations that select the checkpoint must not be trained on; split the data again.",
        )
    examples = make_examples(tokenizer, train, config.recipe, config.max_tokens)
    return Datasets(examples, selection)
