"""Reads the text of a file of answers, and counts what becomes of its answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from engine.base.errors import FormatError

Outcome = TypeVar("Outcome", bound=str)
"""What can become of an answer, as a literal type."""

MAX_EXAMPLES = 3
"""Most ids that are shown for each kind of gap."""

MAX_EXAMPLE_CHARACTERS = 40
"""Most characters of an answer that was not understood in its example."""


@dataclass(slots=True)
class Outcomes(Generic[Outcome]):
    """What became of the answers of a file, or would become of them.

    Attributes:
        words: How a sentence about an outcome goes on behind its number: for one, and for several.
        gaps: The outcomes of answers that were not taken as they are.
        counts: Number of answers by outcome.
        examples: Some ids for each kind of gap.
    """

    words: Mapping[Outcome, tuple[str, str]]
    gaps: Collection[Outcome]
    counts: Counter[Outcome] = field(default_factory=Counter)
    examples: dict[Outcome, list[str]] = field(default_factory=dict)

    @property
    def has_gaps(self) -> bool:
        """Whether some answer was not taken as it is."""
        return any(self.counts[outcome] for outcome in self.gaps)

    def count(self, outcome: Outcome, name: str) -> None:
        """Counts an outcome, with the id of the conversation as an example of a gap."""
        self.counts[outcome] += 1
        if outcome in self.gaps and len(self.examples.setdefault(outcome, [])) < MAX_EXAMPLES:
            self.examples[outcome].append(name)

    def as_json(self) -> dict[str, int]:
        """Returns the number of answers with each outcome."""
        return {str(outcome): self.counts[outcome] for outcome in self.words}

    def sentences(self) -> list[str]:
        """Returns a sentence for each outcome that there is."""
        sentences = []
        for outcome, (singular, plural) in self.words.items():
            if count := self.counts[outcome]:
                ids = f" ({', '.join(self.examples[outcome])})" if outcome in self.examples else ""
                sentences.append(f"{count:,} {singular if count == 1 else plural}{ids}.")
        return sentences


def read_text(path: Path, hint: str) -> str:
    """Returns the text of a file.

    Raises:
        FormatError: It cannot be read; with the hint.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} cannot be read: {error}.", hint) from error


def json_records(path: Path, text: str, hint: str) -> list[Any]:
    """Returns the records of the text of a file: the elements of an array of JSON, one document, or JSON Lines.

    Raises:
        FormatError: It is none of them; with the hint.
    """
    try:
        try:
            document = json.loads(text)
        except json.JSONDecodeError:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"{path} is neither JSON nor JSON Lines: {error}.", hint) from error
    return document if isinstance(document, list) else [document]
