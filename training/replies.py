"""Prompts with the replies that are wanted: what the recipe `evaluator` learns, and how a run is validated by them.

A prompt is laid around its text by the function that asks it, so what is learned stands where it will be asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.completeness.logs import SMALLEST_ROOM, log_tokens
from engine.model.interface import Tokenizer
from engine.model.prompting import Prompt, frame
from engine.run_directory.microbatches import width
from engine.validate.statistics.classification import figures
from training.base import HubTokenizer
from training.curves import Validation
from training.examples import DataError, Example, read_data

CHOICE_WEIGHT = 8.0
"""A yes or no is one token; beside replies of some twenty it would count for nothing."""

LEAST_CLASS = 2
"""Examples of yes and of no that an AUROC needs."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One example of a data file.

    Attributes:
        prompt: What stands around the text.
        texts: Pieces of a log, or one text.
        kept: Leading pieces that stay where not all fit.
        reply: What is to follow the prompt's own beginning of the reply.
    """

    id: str
    prompt: Prompt
    texts: tuple[str, ...]
    kept: int
    reply: str

    @property
    def choice(self) -> bool | None:
        """Whether the reply is the prompt's yes; None where the prompt asks for no choice."""
        if self.prompt.max_tokens:
            return None
        return self.reply == self.prompt.end


def read_wanted(path: Path) -> list[Wanted]:
    """Reads a data file of the recipe `evaluator`, see `engine.run_directory.events.RunDirectory`.

    Raises:
        DataError: The file is missing or a line is not of that form.
    """
    return read_data(path, _wanted, "example")


def _wanted(found: Any) -> Wanted:
    wanted = Wanted(
        str(found["id"]),
        Prompt.from_params(found["prompt"]),
        tuple(map(str, found["texts"])),
        int(found["kept"]),
        str(found["reply"]),
    )
    if not wanted.texts or not wanted.reply:
        raise ValueError("no text or no reply")
    answers = (wanted.prompt.end, wanted.prompt.continuation)
    if wanted.choice is not None and wanted.reply not in answers:
        raise ValueError(f"{wanted.reply!r} is none of {' and '.join(map(repr, answers))}")
    return wanted


def reply_example(tokenizer: Tokenizer, wanted: Wanted, limit: int) -> Example:
    """The prompt in at most `limit` tokens with its reply, of which all tokens are learned.

    A reply that is written ends with the end token; a choice is read off and has no end.
    """
    start = _prompt_tokens(tokenizer, wanted, limit)
    reply = tokenizer.tokenize(wanted.reply)
    weight = CHOICE_WEIGHT
    if wanted.choice is None:
        reply = [*reply, tokenizer.end_token]
        weight = 1.0
    targets = list(range(len(start), len(start) + len(reply)))
    return Example([*start, *reply], targets, len(reply) * [weight])


def reply_examples(tokenizer: Tokenizer, many: Sequence[Wanted], limit: int) -> list[Example]:
    """One for each.

    Raises:
        DataError: There are none, or `limit` has no room for a text beside its prompt and reply.
    """
    if not many:
        raise DataError("There are no examples to train on.")
    return [reply_example(tokenizer, one, limit) for one in many]


def validate_replies(
    model: Any,
    tokenizer: HubTokenizer,
    many: Sequence[Wanted],
    limit: int,
    tell: Callable[[int], None] = lambda done: None,
) -> Validation:
    """Loss over examples that were not trained on, each counting as in training, and AUROC and F1 of the choices.

    `tell` hears after each how many are read.
    """
    model.eval()
    lost = weighed = 0.0
    values: list[float] = []
    yes: list[bool] = []
    for done, one in enumerate(many, 1):
        example = reply_example(tokenizer, one, limit)
        rows = _rows(model, example)
        places = range(len(example.targets))
        found = [float(rows[at, example.tokens[example.targets[at]]]) for at in places]
        lost -= math.fsum(w * p for w, p in zip(example.weights, found, strict=True))
        weighed += math.fsum(example.weights)
        if one.choice is not None:
            first = [
                float(rows[0, tokenizer.tokenize(answer)[0]])
                for answer in (one.prompt.end, one.prompt.continuation)
            ]
            values.append(1 / (1 + math.exp(min(700.0, first[1] - first[0]))))
            yes.append(one.choice)
        tell(done)
    loss = lost / weighed if weighed else 0.0
    if min(yes.count(True), yes.count(False)) < LEAST_CLASS:
        return Validation(loss, None, None, len(yes))
    judged = figures(values, yes)
    return Validation(loss, judged.auroc, judged.f1, len(yes))


def written(model: Any, tokenizer: HubTokenizer, wanted: Wanted, limit: int, most: int) -> str:
    """The first `most` tokens of what the model replies, greedily."""
    import torch

    start = _prompt_tokens(tokenizer, wanted, limit)
    tokens = torch.tensor([start], device=model.device)
    with torch.inference_mode():
        found = model.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=min(most, wanted.prompt.max_tokens or 1),
            do_sample=False,
            pad_token_id=tokenizer.end_token,
            use_cache=True,
        )
    return tokenizer.text(found[0, len(start) :].tolist())


def _prompt_tokens(tokenizer: Tokenizer, wanted: Wanted, limit: int) -> list[int]:
    around = frame(wanted.prompt, tokenizer)
    taken = len(around.head) + len(around.tail) + len(tokenizer.tokenize(wanted.reply)) + 1
    if limit - taken < SMALLEST_ROOM:
        raise DataError(
            f"{limit} tokens have no room for the text of {wanted.id}.", "Raise max_tokens."
        )
    tokens, _ = log_tokens(tokenizer, wanted.texts, wanted.kept, limit - taken)
    return [*around.head, *tokens, *around.tail]


def _rows(model: Any, example: Example) -> Any:
    """Log-probabilities before each target, shape (targets, vocabulary)."""
    import torch

    tokens = [*example.tokens, *(width(len(example.tokens)) - len(example.tokens)) * [0]]
    asked = torch.tensor([at - 1 for at in example.targets], device=model.device)
    with torch.inference_mode():
        logits = model(
            input_ids=torch.tensor([tokens], device=model.device), logits_to_keep=asked
        ).logits[0]
    return torch.log_softmax(logits.float(), -1)
