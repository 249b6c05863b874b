"""The fields of a form in JSON, and the scores of a run that filled it: how much is filled, how much of it correctly,
and in how many turns.

A form is an object of labels to fields and sections; a field is an object with `answer`. Hakimov, Weiser and Schlangen,
"Evaluating Modular Dialogue System for Form Filling Using Large Language Models" (2024), define Success (equation 1) by
fields that are filled correctly. Their evaluation script counts fields that are filled, whatever with. Here each has
its own name: `success` and `score` need the correct answers, `filled_share` and `filled_score` do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

LabelPath = tuple[str, ...]
"""The labels from the top of a form to a field."""

Count = tuple[int, int]
"""How many of how many."""

OPTIONAL_WEIGHT = 0.2
"""Weight of the optional fields, with weight 1 for the required ones."""

COMPLETE_BASIS = "all required fields of the final form are filled"
"""What makes a run complete, in words for its truth."""

_DERIVED_FIGURES = (
    "complete", "right", "filled_share", "success", "efficiency", "filled_score", "score",
)  # fmt: skip
"""Names of the properties of `FormScores` that follow from its counts."""

_PARSED_AFTER = 2
"""Offset in a transcript from an answer to the action that its parser chose: `user`, `answer_parsing`,
`information_extraction`."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field with its path.

    Attributes:
        path: The labels that lead to it.
        type: Description for people; only `multi-choice` has an effect: the answer is a list of options.
        required: Whether a form without it is not complete.
        answer: What the field holds; None or "" where it is not filled.
        options: The allowed answers; empty for a field of free text.
    """

    path: LabelPath
    type: str
    required: bool
    answer: Any
    options: tuple[str, ...] = ()

    @property
    def filled(self) -> bool:
        """Whether there is an answer; the empty text marks an optional field that was left empty on purpose."""
        return self.answer is not None and self.answer != ""


@dataclass(frozen=True, slots=True)
class FormScores:
    """The counts of one run.

    Attributes:
        length: Number of fields of the form, at least one.
        required, optional: Number of filled fields and of all fields of each kind.
        required_right, optional_right: Number of correctly filled fields and of the fields whose answer is known, of
            each kind; None without known answers.
        turns: Number of answered questions.
        repetitions: Number of questions that equal an earlier one.
        user_questions: Number of answers with a question mark.
        successes, failures: Number of answers from which information was extracted at once, and of the others.
    """

    length: int
    required: Count = (0, 0)
    optional: Count = (0, 0)
    turns: int = 0
    repetitions: int = 0
    user_questions: int = 0
    successes: int = 0
    failures: int = 0
    required_right: Count | None = None
    optional_right: Count | None = None

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> FormScores:
        """Returns the scores of a run that is stored with its counts, such as a play's result.

        Args:
            run: The attributes by name; pairs of counts may be lists. A count that is not stored is 0, and one of
                correct answers None; `length` is always stored.
        """
        known = {name: value for name, value in run.items() if value is not None}
        return msgspec.convert(known, cls)

    @property
    def complete(self) -> bool:
        """Whether all required fields are filled."""
        filled, total = self.required
        return filled == total

    @property
    def filled_share(self) -> float:
        """Weighted share of the fields that are filled, 0 to 1; a kind (required, optional) without fields does not
        count. What the evaluation script of Hakimov et al. can tell of equation 1."""
        return _weighted_share(self.required, self.optional) or 0.0

    @property
    def right(self) -> Count | None:
        """Number of correctly filled fields and of those whose correct answer is known; None without known answers."""
        if self.required_right is None or self.optional_right is None:
            return None
        (required, of_required), (optional, of_optional) = self.required_right, self.optional_right
        return required + optional, of_required + of_optional

    @property
    def success(self) -> float | None:
        """Weighted share of the fields that are filled correctly, 0 to 1: equation 1 of Hakimov et al.; a kind without
        known answers does not count. None without any."""
        if self.required_right is None or self.optional_right is None:
            return None
        return _weighted_share(self.required_right, self.optional_right)

    @property
    def efficiency(self) -> float:
        """Equation 2 of Hakimov et al.: 1 / (max(1, 2 T / L) + Rep / L) of T turns, L fields and Rep repetitions.

        At most 1, which is reached with two or more fields a turn and no repeated question.
        """
        turns = max(1.0, 2 * self.turns / self.length)
        return 1 / (turns + self.repetitions / self.length)

    @property
    def filled_score(self) -> float:
        """Harmonic mean of the filled share and efficiency; 0 if nothing is filled."""
        return _harmonic(self.filled_share, self.efficiency)

    @property
    def score(self) -> float | None:
        """Harmonic mean of success and efficiency (equation 3); 0 if nothing is right, None without known answers."""
        return None if self.success is None else _harmonic(self.success, self.efficiency)

    def figures(self) -> dict[str, Any]:
        """Returns the counts and all that follows from them, by name."""
        return {**asdict(self), **{name: getattr(self, name) for name in _DERIVED_FIGURES}}

    def truth(self) -> dict[str, Any]:
        """Returns the figures as truth of a conversation, without those that are not known; the reward is the score, or
        the filled score where it is not known which answers are correct."""
        known_figures = {name: value for name, value in self.figures().items() if value is not None}
        score = self.score
        return {
            **known_figures,
            "fields": self.length,
            "complete_basis": COMPLETE_BASIS,
            "reward": self.filled_score if score is None else score,
            "reward_basis": "filled_score" if score is None else "score",
        }


def is_field(node: Any) -> bool:
    """Returns whether a node of a form is a field."""
    return isinstance(node, dict) and "answer" in node


def fields_of_form(node: Mapping[str, Any], above: LabelPath = ()) -> Iterator[Field]:
    """Yields the fields of a section, or the field itself, in order."""
    if is_field(node):
        yield Field(
            path=above,
            type=str(node.get("type", "")),
            required=bool(node.get("required")),
            answer=node["answer"],
            options=tuple(node.get("options") or ()),
        )
        return
    for label, child in node.items():
        if isinstance(child, dict):
            yield from fields_of_form(child, (*above, label))


def form_scores(
    filled: Mapping[str, Any],
    dialogue: Sequence[Mapping[str, str]],
    modules: Sequence[str],
    right: tuple[Count, Count] | None = None,
) -> FormScores:
    """Returns the scores of a run.

    Args:
        filled: The form at the end, with at least one field.
        dialogue: Utterances in order, each `{"Assistant": text}` or `{"User": text}`.
        modules: Names of the transcript's entries in order.
        right: Of required and of optional fields, how many are filled correctly of those whose answer is known.
    """
    form_fields = list(fields_of_form(filled))
    earlier_questions: set[str] = set()
    repetitions = 0
    for question in (line["Assistant"] for line in dialogue if "Assistant" in line):
        repetitions += question in earlier_questions
        earlier_questions.add(question)
    answered = [position for position, module in enumerate(modules) if module == "user"]
    successes = sum(_was_parsed_at_once(modules, position) for position in answered)
    required_right, optional_right = right or (None, None)
    return FormScores(
        length=len(form_fields),
        required=_count_filled(form_fields, required=True),
        optional=_count_filled(form_fields, required=False),
        turns=len(dialogue) // 2,
        repetitions=repetitions,
        user_questions=sum("?" in line["User"] for line in dialogue if "User" in line),
        successes=successes,
        failures=len(answered) - successes,
        required_right=required_right,
        optional_right=optional_right,
    )


def _was_parsed_at_once(modules: Sequence[str], position: int) -> bool:
    """Returns whether information was extracted from the answer at a position of a transcript at once."""
    action = position + _PARSED_AFTER
    return action < len(modules) and modules[action] == "information_extraction"


def _count_filled(form_fields: Sequence[Field], *, required: bool) -> Count:
    """Returns how many of the required or of the optional fields are filled, and their number."""
    flags = [form_field.filled for form_field in form_fields if form_field.required == required]
    return sum(flags), len(flags)


def _weighted_share(required: Count, optional: Count) -> float | None:
    """Returns (R_req + w R_opt) / (1 + w), equation 1 of Hakimov et al. (2024), over the kinds of which there are
    fields; None if there are none of either kind."""
    weights = ((1.0, required), (OPTIONAL_WEIGHT, optional))
    present = [(weight, part / total) for weight, (part, total) in weights if total]
    if not present:
        return None
    return sum(weight * share for weight, share in present) / sum(weight for weight, _ in present)


def _harmonic(first: float, second: float) -> float:
    """Returns the harmonic mean of two numbers; 0 if one of them is 0."""
    return 2 / (1 / first + 1 / second) if first and second else 0.0
