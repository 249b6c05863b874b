"""The LLM-only baseline of Soroka et al. (appendix C.1): a model gives each conversation one or more categories, of
those it gave before or new ones. Its result depends on the order of the conversations, as the paper shows with it.

As in the paper's example each line of the list is one earlier answer, so that a line may name several categories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

Ask = Callable[[str, Sequence[str]], str]
"""Called with the name of a prompt and the pieces that follow it, the first of which is always kept; returns the
reply."""

FIRST, NEXT = "paper-first-category", "paper-categories"
_BETWEEN = re.compile(r"\n|,|;|\s\|\s")
_EDGES = " \t\"'“”‘’*`#-–—:.[]()"
_LOG = re.compile(r"\bTURN \d")
"""A small model goes on with the log instead of answering; from there on its reply is no answer."""
_NUMBER = re.compile(r"^\d{1,2}[.)]\s+")
LONGEST = 10
"""Words above which a part of a reply is no category: five are asked for, and a model that rambles writes sentences."""


def categorise(ask: Ask, logs: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Yields the categories of each log in turn; none where the reply names none.

    A category that differs from an earlier one only in case, spacing or punctuation is that one.

    Args:
        logs: Pieces of each log.
    """
    known: dict[str, str] = {}
    lines: dict[str, None] = {}
    for log in logs:
        listed = "".join(f"- {line}\n" for line in lines)
        head = f"{listed}[USER INPUT LOG]\n"
        reply = ask(NEXT if lines else FIRST, (head, *log))
        found = {known.setdefault(_key(one), one): None for one in read_categories(reply)}
        if found:
            lines[", ".join(found)] = None
        yield tuple(found)


def read_categories(reply: str) -> list[str]:
    """The categories that a reply names, as they are written; none where it names none."""
    answer = _LOG.split(reply, maxsplit=1)[0]
    parts = (_NUMBER.sub("", part.strip(_EDGES)).strip(_EDGES) for part in _BETWEEN.split(answer))
    return [part for part in parts if _key(part) and len(part.split()) <= LONGEST]


def _key(category: str) -> str:
    return "".join(filter(str.isalnum, category.casefold()))
