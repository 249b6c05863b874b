"""The fields of a form in JSON, and the scores of a run that filled it: how much was filled, and in how many turns.

A form is an object of labels to fields and sections; a field is an object with `answer`. The counts are those of the
evaluation script of Hakimov, Weiser and Schlangen, "Evaluating Modular Dialogue System for Form Filling Using Large
Language Models" (2024), the three scores those of their paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]
"""The labels from the top of a form to a field."""

OPTIONAL_WEIGHT = 0.2
"""Weight of the optional fields, with weight 1 for the required ones."""

PARSED_AFTER = 2
"""Offset in a transcript from an answer to the action that its parser chose."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field with its path.

    Attributes:
        type: Description for people; only `multi-choice` has an effect: the answer is a list of options.
        options: The allowed answers; empty for a field of free text.
    """

    path: Path
    type: str
    required: bool
    answer: Any
    options: tuple[str, ...] = ()
    info: str = ""

    @property
    def filled(self) -> bool:
        """Whether there is an answer; the empty text marks an optional field that was left empty on purpose."""
        return self.answer is not None and self.answer != ""


@dataclass(frozen=True, slots=True)
class FormScores:
    """The counts of one run.

    Attributes:
        length: Number of fields of the form.
        required, optional: Number of filled fields and of all fields of each kind.
        turns: Number of answered questions.
        repetitions: Number of questions that equal an earlier one.
        user_questions: Number of answers with a question mark.
        successes, failures: Number of answers from which information was extracted at once, and of the others.
    """

    length: int
    required: tuple[int, int]
    optional: tuple[int, int]
    turns: int
    repetitions: int
    user_questions: int
    successes: int
    failures: int

    @property
    def complete(self) -> bool:
        """Whether all required fields are filled."""
        return self.required[0] == self.required[1]

    @property
    def success(self) -> float:
        """Weighted share of filled fields, 0 to 1; a kind (required, optional) without fields does not count."""
        weighted = ((1.0, self.required), (OPTIONAL_WEIGHT, self.optional))
        present = [(weight, filled / total) for weight, (filled, total) in weighted if total]
        return sum(weight * share for weight, share in present) / sum(
            weight for weight, _ in present
        )

    @property
    def efficiency(self) -> float:
        """Efficiency, at most 1, which is reached with two or more fields a turn and no repeated question."""
        turns = max(1.0, 2 * self.turns / self.length)
        return 1 / (turns + self.repetitions / self.length)

    @property
    def score(self) -> float:
        """Harmonic mean of success and efficiency; 0 if nothing was filled."""
        success = self.success
        return 2 / (1 / success + 1 / self.efficiency) if success else 0.0


def is_field(node: Any) -> bool:
    """Whether a node of a form is a field."""
    return isinstance(node, dict) and "answer" in node


def fields(node: Mapping[str, Any], above: Path = ()) -> Iterator[Field]:
    """Yields the fields of a section, or the field itself, in order."""
    if is_field(node):
        yield Field(
            above,
            str(node.get("type", "")),
            bool(node.get("required")),
            node["answer"],
            tuple(node.get("options") or ()),
            str(node.get("info") or ""),
        )
        return
    for label, child in node.items():
        if isinstance(child, dict):
            yield from fields(child, (*above, label))


def form_scores(
    filled: Mapping[str, Any], dialogue: Sequence[Mapping[str, str]], modules: Sequence[str]
) -> FormScores:
    """Computes the scores of a run.

    Args:
        filled: The form at the end, with at least one field.
        dialogue: Utterances in order, each `{"Assistant": text}` or `{"User": text}`.
        modules: Names of the transcript's entries in order.
    """
    found = list(fields(filled))
    asked: set[str] = set()
    repetitions = 0
    for question in (line["Assistant"] for line in dialogue if "Assistant" in line):
        repetitions += question in asked
        asked.add(question)
    answered = [place for place, module in enumerate(modules) if module == "user"]
    successes = sum(
        modules[place + PARSED_AFTER : place + PARSED_AFTER + 1] == ["information_extraction"]
        for place in answered
    )
    return FormScores(
        length=len(found),
        required=_filled([one.filled for one in found if one.required]),
        optional=_filled([one.filled for one in found if not one.required]),
        turns=len(dialogue) // 2,
        repetitions=repetitions,
        user_questions=sum("?" in line["User"] for line in dialogue if "User" in line),
        successes=successes,
        failures=len(answered) - successes,
    )


def _filled(flags: Sequence[bool]) -> tuple[int, int]:
    return sum(flags), len(flags)
