"""The questions of Algorithm 1 of Soroka et al. ("Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions",
section 4.1, appendix B.1): how they list summaries, and how the free replies to them are read.

The paper does not print how replies are read. Here a reply that says neither yes nor no is no answer: nothing is merged
on it, and it is counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.model.chat import split_thinking
from engine.model.reply_forms import find_verdict

LABEL_PROMPT, MERGE_PROMPT = "paper-label", "paper-merge"
"""Names of the prompts of the paper for the description of a group and for a pair of groups."""

_NO = re.compile(r"\b(?:no|not|separate(?:ly)?|distinct)\b|n['’]t\b", re.I)
"""What makes the first sentence of a reply a refusal."""
_YES = re.compile(
    r"\b(?:yes|(?:should|can|could|may) be (?:merged|combined)|merge|merged|merging)\b", re.I
)
"""What makes it an agreement, if nothing refuses."""
_ECHO = re.compile(r"\b(?:whether|if|suppose|determine)\b", re.I)
"""A reply that repeats the question decides nothing."""
_DECISION = re.compile(r":[\"'*_\s]*merge\b[\"'*_]*(?=\s*(?:[.!\n]|$))", re.I)
"""A decision in one word: "Verdict: merge"."""
_GROUNDS = re.compile(r"\s(?:because|since|as)\s", re.I)
"""What begins the grounds of a verdict, whose "no" decides nothing."""
_DESCRIPTION = re.compile(r"\bdescription\b[^:\n]{0,40}:\s*", re.I)
"""What stands before the description of the merged group: "New description of the group: "."""
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")
"""The end of a sentence: a space after punctuation, or line ends."""
_MERGE = re.compile(r"\b(?:merg|combin)", re.I)
"""A word that says what the question is about: "merge", "merging", "combined"."""


def lists(*named: tuple[str, Sequence[str]]) -> str:
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
    verdict_match = find_verdict(answer) or _DECISION.search(answer)
    first_sentence, *following = _SENTENCE.split(
        text[verdict_match.end() :] if verdict_match else text, maxsplit=1
    )
    claim, *_ = _GROUNDS.split(first_sentence, maxsplit=1)
    verdict: bool | None = None
    if verdict_match:
        verdict = (
            verdict_match.lastgroup is None
            or verdict_match[verdict_match.lastgroup].casefold() == "yes"
        )
    # Without a verdict in one word the first sentence decides, unless it only repeats the question.
    elif _MERGE.search(claim) and not _ECHO.search(claim):
        if _NO.search(claim):
            verdict = False
        elif _YES.search(claim):
            verdict = True
    if not verdict:
        return verdict, ""
    # What follows "description:", or else what follows the sentence of the verdict.
    return True, " ".join("".join(described or following).split())
