"""From logs to examples: which tokens a run learns to predict.

Tokens are those of scoring: the same pieces, tokenised one by one, the same windows over long logs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.completeness.block import LogItem
from engine.completeness.logs import SMALLEST_ROOM, pieces_within
from engine.completeness.windows import Window, plan_windows
from engine.conversation import is_answer
from engine.errors import WorkbenchError
from engine.model.interface import Tokenizer
from engine.model.prompting import frame, opening_tokens
from engine.run_directory.config import WORDS, LogRecipe

T = TypeVar("T")


class DataError(WorkbenchError):
    """The data of a run cannot be trained on; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Log:
    """One conversation of a data file."""

    id: str
    item: LogItem


@dataclass(frozen=True, slots=True)
class Reading:
    """A log, or a window of it, in tokens.

    Attributes:
        marks: Numbers of tokens after which the conversation could end, rising.
        ends: Whether the last mark is where it does end.
        answer: Number of the first token of what follows the last step that is not the assistant's.
    """

    tokens: list[int]
    marks: list[int]
    ends: bool
    answer: int


@dataclass(frozen=True, slots=True)
class Example:
    """What one conversation teaches.

    Attributes:
        tokens: All that is read.
        targets: Positions of the tokens that are to be predicted from those before them, rising.
        weights: What each target counts in the loss; of a log their mean is 1.
    """

    tokens: list[int]
    targets: list[int]
    weights: list[float]


def read_logs(path: Path) -> list[Log]:
    """Reads a data file, see `engine.run_directory.events.RunDirectory`.

    Raises:
        DataError: The file is missing or a line is not of that form.
    """
    return read_data(path, _log, "conversation")


def _log(found: Any) -> Log:
    item = LogItem(
        tuple(map(str, found["texts"])), tuple(map(int, found["boundaries"])), int(found["kept"])
    )
    if not item.boundaries or item.boundaries[-1] >= len(item.texts):
        raise ValueError("boundaries that are no pieces")
    return Log(str(found["id"]), item)


def read_data(path: Path, take: Callable[[Any], T], what: str) -> list[T]:
    """What `take` makes of each line of a data file; a ValueError, KeyError or TypeError of it says it is no `what`.

    Raises:
        DataError: The file is missing or a line is not of that form.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"{path.name} cannot be read: {error}.") from error
    taken = []
    for number, line in enumerate(lines, 1):
        try:
            taken.append(take(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"Line {number} of {path.name} is no {what}: {error}.") from error
    return taken


def readings(tokenizer: Tokenizer, item: LogItem, limit: int) -> Iterator[Reading]:
    """The windows in which a log of at most `limit` tokens each is read, first to last."""
    head = frame(None, tokenizer).head
    texts = item.texts[: item.boundaries[-1] + 1]
    pieces, _ = pieces_within(tokenizer, texts, limit - len(head))
    lengths = list(map(len, pieces))
    for window in plan_windows(lengths, item.boundaries, item.kept, limit - len(head)):
        yield _reading(head, pieces, window, item)


def _reading(
    head: Sequence[int], pieces: Sequence[Sequence[int]], window: Window, item: LogItem
) -> Reading:
    tokens, marks, answer = list(head), [], len(head)
    for index in window.pieces:
        tokens += pieces[index]
        if index in window.boundaries:
            marks.append(len(tokens))
        if not is_answer(item.texts[index]):
            answer = len(tokens)
    return Reading(tokens, marks, window.pieces[-1] == item.boundaries[-1], answer)


def example(
    tokenizer: Tokenizer,
    item: LogItem,
    recipe: LogRecipe,
    limit: int,
    *,
    balance: bool = False,
    words: float = 0.0,
) -> Example:
    """What a conversation teaches; of one that is longer than `limit` tokens only its last window is read.

    Args:
        balance, words: See `TrainConfig`; the other recipes have no use for them.
    """
    *_, last = readings(tokenizer, item, limit)
    tokens = [*last.tokens, tokenizer.end_token]
    end = len(last.tokens)
    if recipe == "paper":
        return _alike(tokens, list(range(last.answer, end + 1)))
    if recipe == "no-end-tag":
        return _alike(last.tokens, list(range(last.answer, end)))
    opening = len(opening_tokens(tokenizer))
    going_on = len(last.marks) - 1
    targets: list[int] = []
    weights: list[float] = []
    for mark, following in zip(last.marks[:-1], last.marks[1:], strict=True):
        said = min(opening + WORDS, following - mark) if words else opening
        targets += range(mark, mark + said)
        weights += [*opening * [1.0], *(said - opening) * [words]]
    targets.append(end)
    # One end against as many headers as there are places where the conversation went on.
    weights.append(float(going_on) if balance and going_on else 1.0)
    mean = sum(weights) / len(weights)
    return Example(tokens, targets, [weight / mean for weight in weights])


def _alike(tokens: list[int], targets: list[int]) -> Example:
    return Example(tokens, targets, len(targets) * [1.0])


def examples(
    tokenizer: Tokenizer,
    logs: Sequence[Log],
    recipe: LogRecipe,
    limit: int,
    *,
    balance: bool = False,
    words: float = 0.0,
) -> list[Example]:
    """One for each log as `example` makes it, checked.

    Raises:
        DataError: `limit` has no room for a log, an example teaches nothing, or does not hold the end tag once.
    """
    if limit < SMALLEST_ROOM:
        raise DataError(f"{limit} tokens have no room for a log.", "Raise max_tokens.")
    if not logs:
        raise DataError("There are no conversations to train on.")
    found = []
    for log in logs:
        one = example(tokenizer, log.item, recipe, limit, balance=balance, words=words)
        taught = [one.tokens[at] for at in one.targets].count(tokenizer.end_token)
        if not one.targets or one.targets[0] < 1:
            raise DataError(f"Conversation {log.id} teaches nothing.")
        if taught != (recipe != "no-end-tag"):
            raise DataError(f"Conversation {log.id} holds the end tag {taught} times.")
        found.append(one)
    return found
