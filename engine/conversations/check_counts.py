"""What the check after an import found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.number_format import counted
from engine.conversations.personal_data import KINDS, NAMES

MOST_LANGUAGES = 4


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """Numbers of conversations.

    Attributes:
        languages: By language; "" for those where it is not clear.
        personal: By kind of personal data.
        copies: Those that have near duplicates.
        groups: The groups that these form.
    """

    languages: Mapping[str, int]
    personal: Mapping[str, int]
    copies: int
    groups: int

    def in_words(self) -> str:
        """What was found, in one sentence."""
        languages = sorted(self.languages.items(), key=lambda entry: -entry[1])
        parts = [
            f"{code or 'language not clear'} {count:,}"
            for code, count in languages[:MOST_LANGUAGES]
        ]
        if len(languages) > MOST_LANGUAGES:
            parts.append(f"{len(languages) - MOST_LANGUAGES} more languages")
        parts += [
            f"{NAMES[kind]} in {self.personal[kind]:,}" for kind in KINDS if self.personal.get(kind)
        ]
        if self.copies:
            parts.append(
                f"{self.copies:,} are near copies of one another ({counted(self.groups, 'group')})"
            )
        some = counted(sum(self.languages.values()), "conversation")
        return f"Looked at {some}: {', '.join(parts) or 'nothing new'}."
