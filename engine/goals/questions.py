"""The questions of goal clustering: what a model can be asked, the text that it reads for each question, the parsing of
its reply, and the likelihood ratio of two clusters.

The prompts are files. A model that follows instructions is asked with `summary-json`, `label-json` and `merge-json`,
whose replies have the fields declared here; another with `summary` and `merge`, and it labels nothing. This module
builds the text that is inserted into them. The lists of `merge` and their names follow Soroka et al., "Unsupervised
Evaluation of Multi-Turn Objective-Driven Interactions", appendix B.1. Every text is put on one line, so that no text
can imitate a list.

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
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import msgspec
import numpy as np

from engine.goals.records import Support
from engine.model.prompt_files import Prompt

EXAMPLES = 10
"""Number of texts in each list."""

MAX_LABEL_WORDS = 6
"""Most words of a label."""

MAX_SUMMARY_CHARS = 400
"""Most characters of a goal summary."""

MAX_LABEL_CHARS = 80
"""Most characters of a label."""

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

MAX_TEXT_CHARS = 160
"""Most characters of a text whose likelihood is read."""


@dataclass(frozen=True, slots=True)
class LogProb:
    """Log-probability of a continuation.

    Attributes:
        total: Sum of the natural log-probabilities of its tokens.
        tokens: Number of its tokens, at least one.
    """

    total: float
    tokens: int


ReadLogProbs = Callable[[Prompt | None, Sequence[tuple[str, str]]], list[LogProb]]
"""Returns the log-probability of each continuation, for pairs (body, continuation) inside a prompt, with its beginning
of the reply; without a prompt the body is read alone, after the model's beginning-of-sequence tokens. It raises the
errors of the model process. Equal bodies are decoded once, so callers pass one pair for each continuation, in any
order."""


LABEL_EXAMPLES, VERDICT_EXAMPLES = 40, 20
"""Number of texts in each list for a model that follows instructions: of a group that is labeled, and of a pair."""
LABEL_CHARS, MERGE_CHARS, MIN_TEXT_CHARS = 240, 160, 60
"""Most characters of each text for a model that follows instructions, and for others, where 30 texts fit a context of
2,048 tokens; and the fewest that a text is shortened to."""


def with_context(prompt: Prompt, context: str) -> Prompt:
    """Returns the prompt with a project's context paragraph in front; unchanged if the paragraph is empty."""
    if not context.strip():
        return prompt
    return replace(prompt, before=f"{context.strip()}\n\n{prompt.before}")


class GoalSummary(msgspec.Struct):
    """What a model says that the user of a conversation wants."""

    goal: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_SUMMARY_CHARS,
            description='one short sentence that begins with "The user wants to"',
        ),
    ]


class GoalLabel(msgspec.Struct):
    """What a model calls a group."""

    label: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_LABEL_CHARS,
            description='2 to 5 words, a verb first, such as "Book a flight"',
        ),
    ]
    description: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_SUMMARY_CHARS,
            description='one sentence that begins with "The user wants to"',
        ),
    ]


class MergeVerdict(msgspec.Struct):
    """What a model says of two groups."""

    same_goal: Annotated[bool, msgspec.Meta(description="whether the two should be one group")]
    reason_for: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_SUMMARY_CHARS, description="the best reason for one group, in a sentence"
        ),
    ]
    reason_against: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_SUMMARY_CHARS,
            description="the best reason against one group, in a sentence",
        ),
    ]
    label: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_LABEL_CHARS,
            description="what one group would be called: 2 to 5 words, a verb first",
        ),
    ]


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


def numbered_lists(room: int, **lists: Sequence[str]) -> str:
    """Returns lists of texts, each numbered and between the marks of its name, for a model that follows instructions.

    Args:
        room: Most characters. Of each list as many texts are shown as its part has room for; the others are counted.
        lists: Texts by the name of their list, `_` standing for `-`.
    """
    longest = min(LABEL_CHARS, max(room // (8 * len(lists)), MIN_TEXT_CHARS))
    part = room // len(lists)
    return "\n\n".join(
        _numbered(name.replace("_", "-"), texts, longest, part) for name, texts in lists.items()
    )


def _numbered(name: str, texts: Sequence[str], chars: int, room: int) -> str:
    """Returns the texts of one list that fit, each on a line of at most so many characters."""
    lines: list[str] = []
    left = room
    for number, text in enumerate(texts, 1):
        # No text can close the marks that it stands between.
        line = f"{number}. {clipped(text, chars).replace('</', '< /')}"
        left -= len(line) + 1
        if left < 0:
            lines.append(f"[{len(texts) - number + 1} more are left out here]")
            break
        lines.append(line)
    return "\n".join([f"<{name}>", *lines, f"</{name}>"])


def merge_body(first: Sequence[str], second: Sequence[str], others: Sequence[str]) -> str:
    """Returns the body of the merge question: texts of both clusters, then texts of neither."""
    return "\n\n".join(
        [
            _listed("GROUP 1", first),
            _listed("GROUP 2", second),
            _listed("NOT IN GROUP", others),
        ]
    )


def _listed(name: str, texts: Sequence[str]) -> str:
    """Returns texts as a named list, each on a line of at most `MERGE_CHARS`."""
    return "\n".join([f"[{name}]", *(f"- {clipped(text, MERGE_CHARS)}" for text in texts)])


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
    """The name that a model gave a cluster, or that phrases of its members gave it.

    Attributes:
        label: A few words.
        description: One sentence; empty if there is none.
        reason: Why the label is not the model's; empty where it is.
        support: How many members have the words of the label; None where they were not counted.
    """

    label: str
    description: str = ""
    reason: str = ""
    support: Support | None = None


def clean_label(text: str) -> str:
    """Returns a label that a model wrote, without its print, what it wrote before it, and a loose end; empty where it
    only repeats the question, or refuses."""
    bare = text.strip(_EDGES)
    opening = _OPENING.match(bare)
    words = bare[opening.end() if opening else 0 :].split()[:MAX_LABEL_WORDS]
    while words and words[-1].casefold() in _DANGLING:
        words.pop()
    label = " ".join(words).strip(_EDGES)
    content_words = set(re.findall(r"[^\W\d_]+", label.casefold())) - _QUESTION_WORDS
    if not content_words or _REFUSAL.search(label):
        return ""
    return label[:1].upper() + label[1:]


@dataclass(frozen=True, slots=True)
class MergeQuestion:
    """The texts in one merge question: of the first group, of the second, and `others` of neither."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def reversed(self) -> MergeQuestion:
        """The question with the second group first."""
        return MergeQuestion(self.second, self.first, self.others)


def ask_merges(
    read: ReadLogProbs, prompt: Prompt, questions: Sequence[MergeQuestion]
) -> list[tuple[float, float]]:
    """Asks whether pairs of groups are one goal, in both orders, and returns the answers.

    Args:
        prompt: Its `end` is the text of yes, its `continuation` the text of no.

    Returns:
        For each question the probability of yes (see `yes_probability`) in the given order and in the reverse order.
    """
    pairs: list[tuple[str, str]] = []
    for question in questions:
        for ordered in (question, question.reversed):
            body = merge_body(ordered.first, ordered.second, ordered.others)
            pairs += [(body, prompt.end), (body, prompt.continuation)]
    # For each question there are four: yes and no in the given order, then yes and no in the reverse order.
    log_probs = read(prompt, pairs)
    answers = zip(log_probs[::2], log_probs[1::2], strict=True)
    probabilities = [yes_probability(yes, no) for yes, no in answers]
    return list(zip(probabilities[::2], probabilities[1::2], strict=True))


def yes_probability(yes: LogProb, no: LogProb) -> float:
    """Returns the probability of yes, given that the answer is yes or no: the logistic function of the log-odds."""
    return 1 / (1 + math.exp(min(MAX_LOG_ODDS, no.total - yes.total)))


def _has_words(text: str) -> bool:
    """Returns whether a text has a letter or a digit."""
    return any(map(str.isalnum, text))


_Key = TypeVar("_Key", bound=Hashable)
"""What texts that are read after one list are known by: a cluster, or a pair of clusters."""


def list_prefix(texts: Sequence[str]) -> str:
    """Returns texts as a list that ends where the next item begins."""
    return "".join(f"- {clipped(text, MAX_TEXT_CHARS)}\n" for text in texts) + "-"


def continuation(text: str) -> str:
    """Returns a text as the next item of a list."""
    return f" {clipped(text, MAX_TEXT_CHARS)}\n"


def read_mixed(
    read: ReadLogProbs, mixed: Mapping[str, Sequence[str]], texts: Mapping[str, Sequence[str]]
) -> dict[str, list[LogProb]]:
    """Returns the log-probability of each text of each cluster after the mixed list of that cluster.

    Args:
        mixed: By cluster, texts drawn from other clusters.
        texts: By cluster, a sample of its texts.
    """
    return _read(read, {key: (mixed[key], sample) for key, sample in texts.items()})


def likelihood_ratios(
    read: ReadLogProbs,
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
    log_probs = _read(read, {(a, b): (texts[a], texts[b]) for a, b in directions})
    gains = {(a, b): _gain(after, after_mixed[b]) for (a, b), after in log_probs.items()}
    return [(gains[a, b] + gains[b, a]) / 2 for a, b in pairs]


def _read(
    read: ReadLogProbs, lists_and_texts: Mapping[_Key, tuple[Sequence[str], Sequence[str]]]
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
    log_probs = iter(read(None, pairs))
    return {key: [next(log_probs) for _ in texts] for key, (_, texts) in lists_and_texts.items()}


def _gain(after: Sequence[LogProb], mixed: Sequence[LogProb]) -> float:
    """Returns the mean gain of the same texts after a list (`after`) instead of a mixed one, in nats per token."""
    gains = [
        (one.total - other.total) / one.tokens for one, other in zip(after, mixed, strict=True)
    ]
    return sum(gains) / len(gains)
