"""The questions of goal clustering: what a model can be asked, the text that it reads for each question, and how its
reply is read.

The prompts are files. A model that follows instructions is asked with `summary-json`, `label-json` and `merge-json`,
whose replies have the fields declared here. As in Soroka et al. ("Unsupervised Evaluation of Multi-Turn
Objective-Driven Interactions", section 4.1, appendix B.1) any model is asked with the paper's prompts, and replies
freely. This module builds the text that is inserted into them, and reads free replies. The paper does not print how
they are read: here a reply to the merge question that says neither yes nor no is no answer. Nothing is merged on it,
and it is counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
import numpy as np

from engine.model.chat import split_thinking
from engine.model.prompt_files import Prompt
from engine.model.reply_forms import find_yes_or_no

PAPER_EXAMPLES = 10
"""Number of texts in each list of the paper's questions."""

MAX_LABEL_WORDS = 6

MAX_SUMMARY_CHARS = 400
"""Most characters of a goal summary."""

MAX_LABEL_CHARS = 80

_REFUSAL = re.compile(
    r"\b(?:i(?:'|’)?m sorry|i am sorry|i apologi[sz]e|as an ai\b|i (?:can ?not|can(?:'|’)t|am unable to)\b)",
    re.I,
)
"""Matches what a model writes that refuses to answer."""

_OPENING = re.compile(r"(?:(?:task|group|question|label|title)\b[ \d]*:\s*)+", re.I)
"""Matches what a model writes before a label."""

_DANGLING = frozenset(
    ["a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"]
)
"""Words that are removed from the end of a label that was cut off there."""

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

LABEL_EXAMPLES, VERDICT_EXAMPLES = 40, 20
"""Number of texts in each list for a model that follows instructions: of a group that is labeled, and of a pair."""
LABEL_CHARS, MIN_TEXT_CHARS = 240, 60
"""Most characters of each text for a model that follows instructions, and the fewest that a text is shortened to."""

_TEXTS_WITH_ROOM = 8
"""Number of texts of a list that have room whatever their length, as long as `MIN_TEXT_CHARS` allow it."""


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


def draw_sample(members: Sequence[int], count: int, seed: int) -> list[int]:
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
        room: Most characters of the lines with texts, shared out equally. Of each list as many texts are shown as its
            part has room for; the others are counted.
        lists: Texts by the name of their list, `_` standing for `-`.
    """
    part = room // len(lists)
    longest = min(LABEL_CHARS, max(part // _TEXTS_WITH_ROOM, MIN_TEXT_CHARS))
    return "\n\n".join(
        _numbered(name.replace("_", "-"), texts, longest, part) for name, texts in lists.items()
    )


def _numbered(name: str, texts: Sequence[str], chars: int, room: int) -> str:
    """Returns the texts of one list that fit into `room` characters, each on a line and cut to `chars`."""
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


def clipped(text: str, chars: int) -> str:
    """Returns a text on one line, with " … " for its middle where it is longer than `chars`.

    Both ends are kept: people state what they want at the beginning or at the end of a long message.
    """
    # Only as many words of a long text are split off as can be shown: a word and its space have two characters or more.
    from_begin, from_end = text.split(maxsplit=chars), text.rsplit(maxsplit=chars)
    flat = " ".join(from_begin)
    if len(flat) <= chars:
        return flat
    gap = " … "
    head = chars * 2 // 3  # what a user wants is said first more often than last
    tail = chars - head - len(gap)
    return f"{flat[:head].rstrip()}{gap}{' '.join(from_end)[-tail:].lstrip()}"


def clean_label(text: str) -> str:
    """Returns a label that a model wrote; empty where it only repeats the question, or refuses.

    Left out are Markdown, quotes, a prefix such as `Label:`, and words such as `the` at the end.
    """
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


# The paper's questions

SUMMARY_PROMPT, LABEL_PROMPT, MERGE_PROMPT = "paper-summary", "paper-label", "paper-merge"
"""Names of the paper's prompts for the summary of a conversation, the description of a group, and a pair of groups."""

_NO = re.compile(r"\b(?:no|not|separate(?:ly)?|distinct)\b|n['’]t\b", re.I)
"""Finds what makes the first sentence of a reply a refusal to merge two groups."""
_YES = re.compile(
    r"\b(?:yes|(?:should|can|could|may) be (?:merged|combined)|merge|merged|merging)\b", re.I
)
"""Finds what makes the first sentence of a reply an agreement to merge two groups, if nothing in it refuses."""
_ECHO = re.compile(r"\b(?:whether|if|suppose|determine)\b", re.I)
"""Finds words of the question; a reply that repeats the question decides nothing."""
_DECISION = re.compile(r":[\"'*_\s]*merge\b[\"'*_]*(?=\s*(?:[.!\n]|$))", re.I)
"""A decision in one word: "Verdict: merge"."""
_GROUNDS = re.compile(r"\s(?:because|since|as)\s", re.I)
"""Finds what begins the grounds of a verdict; a "no" in the grounds decides nothing."""
_DESCRIPTION = re.compile(r"\bdescription\b[^:\n]{0,40}:\s*", re.I)
"""What stands before the description of the merged group: "New description of the group: "."""
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")
"""The end of a sentence: a space after punctuation, or line ends."""
_MERGE = re.compile(r"\b(?:merg|combin)", re.I)
"""A word that says what the question is about: "merge", "merging", "combined"."""


def paper_lists(*named: tuple[str, Sequence[str]]) -> str:
    """Returns lists of summaries as the paper prints them: `[NAME]`, then `- summary` with a blank line between
    summaries."""
    return "\n\n".join(
        f"[{name}]\n" + "\n\n".join(f"- {text.strip()}" for text in texts) for name, texts in named
    )


def read_description(reply: str) -> str:
    """Returns the description of a group in a free reply, on one line; empty where the model wrote nothing."""
    _, text = split_thinking(reply.strip())
    return " ".join(text.split())


def read_merge(reply: str) -> tuple[bool | None, str]:
    """Reads a free reply to the merge question.

    Returns:
        Whether the groups are to be merged, None if the reply does not say; and the description, empty without one.
    """
    _, text = split_thinking(reply.strip())
    answer, *described = _DESCRIPTION.split(text, maxsplit=1)
    yes_or_no = find_yes_or_no(answer)
    one_word = yes_or_no or _DECISION.search(answer)
    sentence, *following = _SENTENCE.split(text[one_word.end() :] if one_word else text, maxsplit=1)
    if yes_or_no:
        verdict: bool | None = yes_or_no[yes_or_no.lastgroup or 0].casefold() == "yes"
    else:
        verdict = True if one_word else _verdict_of_sentence(sentence)
    if not verdict:
        return verdict, ""
    # What follows "description:", or else what follows the sentence of the verdict.
    return True, " ".join("".join(described or following).split())


def _verdict_of_sentence(sentence: str) -> bool | None:
    """Returns what a sentence says of merging, before its grounds; None for nothing, or if it repeats the question."""
    claim, *_ = _GROUNDS.split(sentence, maxsplit=1)
    if not _MERGE.search(claim) or _ECHO.search(claim):
        return None
    return False if _NO.search(claim) else True if _YES.search(claim) else None
