"""The questions of goal clustering: what a model can be asked, the text that it reads for each question, the parsing of
its reply, and the likelihood ratio of two clusters.

The prompts are files (`summary`, `label`, `merge`, `merge-reason`); this module builds the text that is inserted into
them. The lists and their names follow Soroka et al., "Unsupervised Evaluation of Multi-Turn Objective-Driven
Interactions", appendix B.1. Every text is put on one line, so that no text can imitate a list.

A model that is too small to answer whether two lists have the same goal still predicts a text better after similar
texts, so the gain in log-probability measures the similarity of clusters A and B. For a text b of B, read after a list
of texts of A and after a mixed list:

    gain(A -> B) = mean over b of (log p(b | A's) - log p(b | mixed)) / tokens(b)
    likelihood ratio of A and B = (gain(A -> B) + gain(B -> A)) / 2, in nats per token

Each text of B is read alone after the list, because after other texts of B it would gain little from A. The mixed list
of a cluster is drawn once from all other clusters, so it is read once for each cluster and not for each pair.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from engine.goals.records import Support
from engine.model.prompt_files import Prompt


@dataclass(frozen=True, slots=True)
class LogProb:
    """Log-probability of a continuation.

    Attributes:
        total: Sum of the natural log-probabilities of its tokens.
        tokens: Number of its tokens, at least one.
    """

    total: float
    tokens: int


class Asker(Protocol):
    """A language model that answers requests: the model process, or a toy in tests. Its methods raise the errors of the
    model process.

    Requests are batched and equal prefixes are decoded once, so callers pass one pair for each continuation, in any
    order.
    """

    def generate(
        self, prompt: Prompt, bodies: Sequence[str], *, grammar: str | None = None
    ) -> list[str]:
        """Generates one reply for each body, with greedy decoding; without the beginning that the prompt gives.

        Args:
            bodies: Texts inserted between `prompt.before` and `prompt.question`. Control tokens in them are read as
                plain text.
            grammar: GBNF grammar that constrains the reply.
        """

    def log_probs(self, prompt: Prompt | None, pairs: Sequence[tuple[str, str]]) -> list[LogProb]:
        """Returns the log-probability of each continuation, for pairs (body, continuation).

        Args:
            prompt: Placed around each body, with its beginning of the reply; None reads the body alone, after the
                model's beginning-of-sequence tokens.
        """


EXAMPLES = 10
"""Number of texts in each list."""
LABEL_CHARS, MERGE_CHARS = 240, 160
"""Most characters of each text in a label question and in a merge question; the 20 texts of the former and the 30 of
the latter fit a context of 2,048 tokens."""
MAX_LABEL_WORDS = 6
"""Most words of a label."""
LABEL_GRAMMAR = (
    'root ::= " " [A-Z] [^\\n?:<>[\\]{}]{3,60} "\\nSentence: The user wants to " [^\\n.]{8,220} "."'
)
"""GBNF grammar of a reply to the label question: a label, then a sentence on what the user wants."""
REASON_GRAMMAR = (
    'root ::= [^\\n.]{8,220} ".\\nLabel: " [A-Z] [^\\n?:<>[\\]{}]{3,60} "\\nSentence: The user wants to " '
    '[^\\n.]{8,220} "."'
)
"""GBNF grammar of a reply to the reason question: the rest of a sentence in favor of one goal, then as above."""
MAX_SUMMARY_CHARS = 400
"""Most characters of a goal summary."""
SUMMARY_CUT = " …"
"""Ends a summary that was cut off."""
MAX_LOG_ODDS = 700.0
"""Log-odds against yes, in nats, above which the probability is taken as at this value: `math.exp` overflows at 710."""

_REFUSAL = re.compile(
    r"\b(?:i(?:'|’)?m sorry|i am sorry|i apologi[sz]e|as an ai\b|i (?:can ?not|can(?:'|’)t|am unable to)\b)",
    re.I,
)
"""What a model writes that refuses to answer."""
_ABBREVIATIONS = ("dr", "mr", "mrs", "ms", "prof", "st", "vs", "approx", "e.g", "i.e")
"""What a dot shortens, so that it ends no sentence."""
_SENTENCE_END = re.compile(
    "".join(rf"(?<!\b(?i:{re.escape(word)})\.)" for word in _ABBREVIATIONS)
    + r"(?<!\b[A-Z]\.)(?!(?<=[ap]\.m\.)\s[a-z])(?!(?<=\b[Nn]o\.)\s\d)(?<=[.!?])\s"
)
"""The space after a sentence, which an abbreviation, an initial, a time of day or "No. 7" does not end."""
_OPENING = re.compile(r"(?:(?:task|group|question|label|title)\b[ \d]*:\s*)+", re.I)
"""What a model writes before a label."""
_DANGLING = frozenset(
    ["a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"]
)
"""Words that are removed from the end of a label, where it was cut off."""
_QUESTION_WORDS = _DANGLING | frozenset(
    [
        "as", "be", "common", "description", "descriptions", "each", "example", "examples", "five",
        "following", "goal", "goals", "group", "groups", "help", "is", "it", "label", "labels", "list",
        "name", "not", "one", "possible", "question", "same", "sentence", "short", "some", "task", "tasks",
        "that", "these", "this", "three", "title", "titles", "two", "user", "users", "want", "wants",
        "what", "which", "words", "you", "your",
    ]
)  # fmt: skip
"""A label that has only these words repeats the question and is rejected."""
_EDGES = " \t\"'“”‘’*`#-–—:;,."
"""Characters that are stripped from both ends of a label."""


def with_context(prompt: Prompt, context: str) -> Prompt:
    """Returns the prompt with a project's context paragraph in front; unchanged if the paragraph is empty."""
    if not context.strip():
        return prompt
    return replace(prompt, before=f"{context.strip()}\n\n{prompt.before}")


def read_summary(
    prompt: Prompt, reply: str, *, cut: bool, whole: bool = False
) -> tuple[str, str | None]:
    """Reads a generated goal summary: its first sentence, or all of it.

    Args:
        cut: Whether the reply ended at the length limit.
        whole: Take the reply as it is, with its lines.

    Returns:
        (goal, None), or an empty text and the reason why the reply is not a goal.
    """
    if not _has_words(reply):
        return "", "the model named no goal"
    if whole:
        return (prompt.reply + reply).strip(), None
    text = _SENTENCE_END.split(" ".join((prompt.reply + reply).split()), maxsplit=1)[0]
    if _REFUSAL.search(text):
        return "", "the model refused to name a goal"
    if len(text) > MAX_SUMMARY_CHARS or (cut and text[-1] not in ".!?"):
        text = text[: MAX_SUMMARY_CHARS - len(SUMMARY_CUT)].rstrip() + SUMMARY_CUT
    return text, None


def choose(members: Sequence[int], count: int, seed: int) -> list[int]:
    """Returns up to `count` of `members`, drawn without replacement, in the order drawn.

    The draw depends on the set of members and the seed, so questions about the same groups show the same texts.
    """
    pool = sorted(members)
    # Number and both ends stand for the whole set, whose ids may be a million.
    rng = np.random.default_rng([seed, len(pool), *pool[:8], *pool[-8:]])
    return [pool[index] for index in rng.permutation(len(pool))[:count]]


def label_body(members: Sequence[str], others: Sequence[str]) -> str:
    """Returns the body of the label question: `others`, texts that are not in a cluster, then texts of the cluster.

    The members come last, unlike in Soroka et al., because a small model describes the list that it read last.
    """
    return "\n\n".join(
        [_listed("NOT IN GROUP", others, LABEL_CHARS), _listed("GROUP", members, LABEL_CHARS)]
    )


def merge_body(first: Sequence[str], second: Sequence[str], others: Sequence[str]) -> str:
    """Returns the body of the merge question: texts of both clusters, then texts of neither."""
    return "\n\n".join(
        [
            _listed("GROUP 1", first, MERGE_CHARS),
            _listed("GROUP 2", second, MERGE_CHARS),
            _listed("NOT IN GROUP", others, MERGE_CHARS),
        ]
    )


def _listed(name: str, texts: Sequence[str], chars: int) -> str:
    """Returns texts as a named list, each on a line of at most so many characters."""
    return "\n".join([f"[{name}]", *(f"- {clipped(text, chars)}" for text in texts)])


def clipped(text: str, chars: int) -> str:
    """Returns a text on one line, its middle left out where it is longer than `chars`.

    Both ends are kept: people state what they want at the beginning or at the end of a long message.
    """
    # Of a very long text only both ends are split into words; 8 times the length leaves room for runs of spaces.
    flat = " ".join(text[: chars * 8].split() + text[chars * 8 :][-chars:].split())
    if len(flat) <= chars:
        return flat
    gap = " … "
    head = chars * 2 // 3  # what a user wants is said first more often than last
    tail = chars - head - len(gap)
    return f"{flat[:head].rstrip()}{gap}{flat[-tail:].lstrip()}"


@dataclass(frozen=True, slots=True)
class Named:
    """The name that a model gave a cluster.

    Attributes:
        label: A few words.
        description: One sentence; empty if the model wrote none.
        reason: For a merge, one sentence in favour of it; for a label, why it is made of the cluster's words.
        support: How many members have the words of the label; None where they were not counted.
    """

    label: str
    description: str
    reason: str
    support: Support | None = None


def read_label(reply: str, words: Sequence[str]) -> Named:
    """Returns the name in a reply to the label question (`LABEL_GRAMMAR`).

    Args:
        words: Distinctive words of the cluster, which are its label if the reply has none.
    """
    label, description = _label_and_sentence(reply)
    if label:
        return Named(label, description, "")
    return Named(", ".join(words[:3]), description, "the model gave no label")


def read_reason(prompt: Prompt, reply: str) -> Named:
    """Returns the name in a reply to the merge-reason question (`REASON_GRAMMAR`); label and reason may be empty."""
    head, _, label_part = reply.partition("\nLabel:")
    label, description = _label_and_sentence(label_part)
    reason = "" if not _has_words(head) else " ".join((prompt.reply + head).split())
    return Named(label, description, "" if _REFUSAL.search(reason) else reason)


def _label_and_sentence(text: str) -> tuple[str, str]:
    """Returns the label and the sentence in a part of a reply; empty where there is none that can be used."""
    label_part, _, sentence_part = text.partition("\nSentence:")
    bare = label_part.strip(_EDGES)
    opening = _OPENING.match(bare)
    words = bare[opening.end() if opening else 0 :].split()[:MAX_LABEL_WORDS]
    while words and words[-1].casefold() in _DANGLING:
        words.pop()
    label = " ".join(words).strip(_EDGES)
    content_words = set(re.findall(r"[^\W\d_]+", label.casefold())) - _QUESTION_WORDS
    if not content_words or _REFUSAL.search(label):
        label = ""
    sentence = " ".join(sentence_part.split())
    if not _has_words(sentence) or _REFUSAL.search(sentence):
        sentence = ""
    return label[:1].upper() + label[1:], sentence


@dataclass(frozen=True, slots=True)
class MergeQuestion:
    """The texts in one merge question: of the first group, of the second, and `others` of neither."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    others: tuple[str, ...]


def ask_merges(
    asker: Asker, prompt: Prompt, questions: Sequence[MergeQuestion]
) -> list[tuple[float, float]]:
    """Asks whether pairs of groups are one goal, in both orders, and returns the answers.

    Args:
        prompt: Its `end` is the text of yes, its `continuation` the text of no.

    Returns:
        For each question the probability of yes (see `yes_probability`) in the given order and in the reverse order.
    """
    pairs: list[tuple[str, str]] = []
    for question in questions:
        for first, second in (
            (question.first, question.second),
            (question.second, question.first),
        ):
            body = merge_body(first, second, question.others)
            pairs += [(body, prompt.end), (body, prompt.continuation)]
    # For each question there are four: yes and no in the given order, then yes and no in the reverse order.
    log_probs = asker.log_probs(prompt, pairs)
    answers = zip(log_probs[::2], log_probs[1::2], strict=True)
    probabilities = [yes_probability(yes, no) for yes, no in answers]
    return list(zip(probabilities[::2], probabilities[1::2], strict=True))


def yes_probability(yes: LogProb, no: LogProb) -> float:
    """Returns the probability of yes, given that the answer is yes or no: the logistic function of the log-odds."""
    return 1 / (1 + math.exp(min(MAX_LOG_ODDS, no.total - yes.total)))


def _has_words(text: str) -> bool:
    """Returns whether a text has a letter or a digit."""
    return any(map(str.isalnum, text))


MAX_TEXT_CHARS = 160
"""Most characters of a text whose likelihood is read."""

_Key = TypeVar("_Key", bound=Hashable)
"""What texts that are read after one list are known by: a cluster, or a pair of clusters."""


def list_prefix(texts: Sequence[str]) -> str:
    """Returns texts as a list that ends where the next item begins."""
    return "".join(f"- {clipped(text, MAX_TEXT_CHARS)}\n" for text in texts) + "-"


def continuation(text: str) -> str:
    """Returns a text as the next item of a list."""
    return f" {clipped(text, MAX_TEXT_CHARS)}\n"


def read_mixed(
    asker: Asker, mixed: Mapping[str, Sequence[str]], texts: Mapping[str, Sequence[str]]
) -> dict[str, list[LogProb]]:
    """Returns the log-probability of each text of each cluster after the mixed list of that cluster.

    Args:
        mixed: By cluster, texts drawn from other clusters.
        texts: By cluster, a sample of its texts.
    """
    return _read(asker, {key: (mixed[key], sample) for key, sample in texts.items()})


def likelihood_ratios(
    asker: Asker,
    pairs: Sequence[tuple[str, str]],
    texts: Mapping[str, Sequence[str]],
    after_mixed: Mapping[str, Sequence[LogProb]],
) -> list[float]:
    """Returns the likelihood ratio of each pair, in nats per token.

    Args:
        pairs: Ids of two clusters each.
        texts: By cluster, a sample of its texts, the same as in `read_mixed`.
        after_mixed: The result of `read_mixed`.
    """
    directions = [direction for a, b in pairs for direction in ((a, b), (b, a))]
    log_probs = _read(asker, {(a, b): (texts[a], texts[b]) for a, b in directions})
    gains = {(a, b): _gain(after, after_mixed[b]) for (a, b), after in log_probs.items()}
    return [(gains[a, b] + gains[b, a]) / 2 for a, b in pairs]


def _read(
    asker: Asker, lists_and_texts: Mapping[_Key, tuple[Sequence[str], Sequence[str]]]
) -> dict[_Key, list[LogProb]]:
    """Returns the log-probability of each text after a list, by key.

    Args:
        lists_and_texts: By key, the texts of the list and the texts that are read after it, each alone.
    """
    pairs = [
        (list_prefix(before), continuation(text))
        for before, texts in lists_and_texts.values()
        for text in texts
    ]
    log_probs = iter(asker.log_probs(None, pairs))
    return {key: [next(log_probs) for _ in texts] for key, (_, texts) in lists_and_texts.items()}


def _gain(after: Sequence[LogProb], mixed: Sequence[LogProb]) -> float:
    """Returns the mean gain of the same texts after a list (`after`) instead of a mixed one, in nats per token."""
    gains = [
        (one.total - other.total) / one.tokens for one, other in zip(after, mixed, strict=True)
    ]
    return sum(gains) / len(gains)
