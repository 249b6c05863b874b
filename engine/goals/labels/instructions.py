"""What a program wrote in the texts of a group, as against what its members did."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from engine.model.embedders.tfidf import MAX_TEXT_CHARS

MIN_INSTRUCTION_WORDS = 8
"""What half of the members repeat word for word was written by a program, and is no request, where one sentence of it
has this many words."""
MIN_ECHOES = 3
"""Times that one text has a sentence from which on it is a program's, as "Give me one action."; and members that begin
alike from which on a list shows what follows."""
_PARTS = re.compile(r"(?<=[.!?:])\s+|\n+")
"""What separates the parts of a text that a program may have written."""


def without_instructions(texts: Sequence[str]) -> list[str]:
    """Returns the texts of a group without what a program wrote in them: sentences that half of the members repeat
    word for word (`MIN_INSTRUCTION_WORDS`), and sentences that one text has several times. No text is left empty."""
    parts = [_PARTS.split(text[:MAX_TEXT_CHARS]) for text in texts]
    counts = Counter(part for text_parts in parts for part in set(text_parts))
    repeated = {part for part, count in counts.items() if part and 2 * count >= len(texts) > 4}
    if max((len(part.split()) for part in repeated), default=0) < MIN_INSTRUCTION_WORDS:
        repeated = set()
    stripped = []
    for text, text_parts in zip(texts, parts, strict=True):
        counts = Counter(text_parts)
        request = [
            part for part in text_parts if part not in repeated and counts[part] < MIN_ECHOES
        ]
        stripped.append("\n".join(request) or text)
    return stripped


def distinct_starts(texts: Sequence[str]) -> list[int]:
    """Returns where each text begins to differ: after the sentences that `MIN_ECHOES` of the texts begin with; 0 where
    nothing follows them."""
    openings = Counter(text[:end] for text in texts for end in _sentence_ends(text))
    return [
        max((end for end in _sentence_ends(text) if openings[text[:end]] >= MIN_ECHOES), default=0)
        for text in texts
    ]


def _sentence_ends(text: str) -> list[int]:
    """Returns where the second and the next sentences of a text begin, at most `MIN_ECHOES` of them."""
    return [match.end() for match in islice(_PARTS.finditer(text.rstrip()), MIN_ECHOES)]
