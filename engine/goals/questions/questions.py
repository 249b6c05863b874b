"""The questions of goal clustering: what a model reads for each, and how its reply is parsed.

The wordings are prompt files (`summary`, `label`, `merge`, `merge-reason`); this module builds what is inserted into
them. The lists and their names follow Soroka et al., "Unsupervised Evaluation of Multi-Turn Objective-Driven
Interactions", appendix B.1. A text takes one line, so no text can forge a list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.goals.questions.asker import Asker, LogProb
from engine.model.prompt_files import Prompt

EXAMPLES = 10
"""Number of texts in each list."""
LABEL_CHARS, MERGE_CHARS = 240, 160
"""Of each text; 20 and 30 of them leave room in a context of 2,048 tokens."""
LABEL_WORDS = 6
LABEL_GRAMMAR = (
    'root ::= " " [A-Z] [^\\n?:<>[\\]{}]{3,60} "\\nSentence: The user wants to " [^\\n.]{8,220} "."'
)
REASON_GRAMMAR = (
    'root ::= [^\\n.]{8,220} ".\\nLabel: " [A-Z] [^\\n?:<>[\\]{}]{3,60} "\\nSentence: The user wants to " '
    '[^\\n.]{8,220} "."'
)
SUMMARY_CHARS = 400

_REFUSAL = re.compile(
    r"\b(?:i(?:'|’)?m sorry|i am sorry|i apologi[sz]e|as an ai\b|i (?:can ?not|can(?:'|’)t|am unable to)\b)",
    re.I,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_OPENING = re.compile(r"(?:(?:task|group|question|label|title)\b[ \d]*:\s*)+", re.I)
_DANGLING = frozenset(
    ["a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"]
)
"""Words that no label ends with: it was cut behind them."""
_OF_THE_QUESTION = _DANGLING | frozenset(
    [
        "as", "be", "common", "description", "descriptions", "each", "example", "examples", "five",
        "following", "goal", "goals", "group", "groups", "help", "is", "it", "label", "labels", "list",
        "name", "not", "one", "possible", "question", "same", "sentence", "short", "some", "task", "tasks",
        "that", "these", "this", "three", "title", "titles", "two", "user", "users", "want", "wants",
        "what", "which", "words", "you", "your",
    ]
)  # fmt: skip
"""A label of these words alone repeats the question; it does not say what the group is about."""
_EDGES = " \t\"'“”‘’*`#-–—:;,."


def with_context(prompt: Prompt, context: str) -> Prompt:
    """The prompt with a project's context paragraph in front; an empty one changes nothing."""
    if not context.strip():
        return prompt
    return replace(prompt, before=f"{context.strip()}\n\n{prompt.before}")


def read_summary(prompt: Prompt, reply: str, *, cut: bool) -> tuple[str, str | None]:
    """Tidies a generated goal summary to its first sentence.

    Args:
        cut: The reply ran into the length limit.

    Returns:
        The goal and None; or an empty text and the reason why it is none.
    """
    if not _has_words(reply):
        return "", "the model named no goal"
    text = _SENTENCE_END.split(" ".join((prompt.reply + reply).split()), maxsplit=1)[0]
    if _REFUSAL.search(text):
        return "", "the model refused to name a goal"
    if len(text) > SUMMARY_CHARS or (cut and text[-1] not in ".!?"):
        text = text[: SUMMARY_CHARS - 2].rstrip() + " …"
    return text, None


def choose(members: Sequence[int], number: int, seed: int) -> list[int]:
    """Draws up to `number` of `members` without replacement, in the order drawn.

    The draw depends on the members and the seed, not on their order, so equal sides are asked about with equal texts.
    """
    pool = sorted(members)
    mixed = np.random.default_rng([seed, len(pool), *pool[:8], *pool[-8:]])
    return [pool[at] for at in mixed.permutation(len(pool))[:number]]


def label_body(members: Sequence[str], others: Sequence[str]) -> str:
    """The body of the label question: texts near a cluster that are not in it, and texts of it.

    The members come last, unlike in the paper: a small model describes the list that it read last.
    """
    return "\n\n".join(
        [_listed("NOT IN GROUP", others, LABEL_CHARS), _listed("GROUP", members, LABEL_CHARS)]
    )


def merge_body(first: Sequence[str], second: Sequence[str], others: Sequence[str]) -> str:
    """The body of the merge question: texts of both clusters, and texts of neither."""
    return "\n\n".join(
        [
            _listed("GROUP 1", first, MERGE_CHARS),
            _listed("GROUP 2", second, MERGE_CHARS),
            _listed("NOT IN GROUP", others, MERGE_CHARS),
        ]
    )


def _listed(name: str, texts: Sequence[str], chars: int) -> str:
    return "\n".join([f"[{name}]", *(f"- {clipped(text, chars)}" for text in texts)])


def clipped(text: str, chars: int) -> str:
    """`text` on one line, its middle left out where it is longer than `chars`.

    Both ends are kept: people state what they want at the beginning or at the end of a long message.
    """
    flat = " ".join(text[: chars * 8].split() + text[chars * 8 :][-chars:].split())
    if len(flat) <= chars:
        return flat
    head = chars * 2 // 3
    return f"{flat[:head].rstrip()} … {flat[head + 3 - chars :].lstrip()}"


@dataclass(frozen=True, slots=True)
class Named:
    """What a model called a cluster.

    Attributes:
        label: A few words.
        description: One sentence; empty when the model wrote none.
        reason: For a merge: what speaks for it, one sentence; for a label: why it is only the cluster's words.
    """

    label: str
    description: str
    reason: str


def read_label(reply: str, words: Sequence[str]) -> Named:
    """Tidies a reply to the label question (`LABEL_GRAMMAR`).

    Args:
        words: Distinctive words of the cluster, which name it when the reply does not.
    """
    label, description = _label_and_sentence(reply)
    why = ""
    if not label:
        label, why = (
            ", ".join(words[:3]),
            "the model gave no label; these are its distinctive words",
        )
    return Named(label, description, why)


def read_reason(prompt: Prompt, reply: str) -> Named:
    """Tidies a reply to the merge-reason question (`REASON_GRAMMAR`); label and reason may be empty."""
    head, _, rest = reply.partition("\nLabel:")
    label, description = _label_and_sentence(rest)
    reason = "" if not _has_words(head) else " ".join((prompt.reply + head).split())
    return Named(label, description, "" if _REFUSAL.search(reason) else reason)


def _label_and_sentence(text: str) -> tuple[str, str]:
    first, _, rest = text.partition("\nSentence:")
    bare = first.strip(_EDGES)
    words = bare[found.end() if (found := _OPENING.match(bare)) else 0 :].split()[:LABEL_WORDS]
    while words and words[-1].casefold() in _DANGLING:
        words.pop()
    label = " ".join(words).strip(_EDGES)
    said = set(re.findall(r"[^\W\d_]+", label.casefold())) - _OF_THE_QUESTION
    if not said or _REFUSAL.search(label):
        label = ""
    sentence = " ".join(rest.split())
    if not _has_words(sentence) or _REFUSAL.search(sentence):
        sentence = ""
    return label[:1].upper() + label[1:], sentence


@dataclass(frozen=True, slots=True)
class MergeQuestion:
    """The texts that one question shows."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    others: tuple[str, ...]


def ask_merges(
    asker: Asker, prompt: Prompt, questions: Sequence[MergeQuestion]
) -> list[tuple[float, float]]:
    """Asks whether pairs should be one, both ways round.

    Args:
        prompt: Its `end` is the yes, its `continuation` the no.

    Returns:
        Probabilities of the yes among the two answers: the pair as given, and the other way round.
    """
    pairs: list[tuple[str, str]] = []
    for question in questions:
        for first, second in (
            (question.first, question.second),
            (question.second, question.first),
        ):
            body = merge_body(first, second, question.others)
            pairs += [(body, prompt.end), (body, prompt.continuation)]
    read = asker.log_probs(prompt, pairs)
    yes = [yes_probability(read[at], read[at + 1]) for at in range(0, len(read), 2)]
    return list(zip(yes[::2], yes[1::2], strict=True))


def yes_probability(yes: LogProb, no: LogProb) -> float:
    """Probability of the yes when the answer is one of the two."""
    return 1 / (1 + math.exp(min(700.0, no.total - yes.total)))


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))
