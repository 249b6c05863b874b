"""Repeats decisions from a file that `export PROJECT decisions` wrote, on the groups that have the same labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from engine.base.conversation import without_surrogates
from engine.base.errors import FormatError
from engine.base.number_format import counted
from engine.formats.json_values import list_or_empty
from engine.goals.merges.merge_state import MergeState
from engine.goals.records import Author, GoalDecision
from engine.goals.views.decision_log import Plan
from engine.questions.service.answer_tables import json_records, read_text

_GROUPS_OF_KIND = {
    "merge": 2,
    "apart": 2,
    "never": 2,
    "rename": 1,
    "pin": 1,
    "unpin": 1,
    "theme": 1,
}
"""Kinds of decisions that can be repeated from a file, with the number of groups that each is about."""


@dataclass(slots=True)
class DecisionReport:
    """What became of the lines of a file.

    Attributes:
        repeated: Number of decisions that were repeated.
        undone: Number of lines that were skipped because their decision had been undone before the export.
        left_out: A sentence for each line that could not be repeated here.
    """

    repeated: int = 0
    undone: int = 0
    left_out: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """Returns the report in sentences."""
        sentences = [f"{counted(self.repeated, 'decision')} repeated here, as one act."]
        if self.undone:
            sentences.append(
                f"{counted(self.undone, 'decision')} passed over: taken back in the file."
            )
        return [*sentences, *self.left_out]


class _CannotRepeat(Exception):
    """A line that cannot be repeated; the text says why."""


def import_decisions(decide_all: Callable[[Plan], int], path: Path) -> DecisionReport:
    """Repeats the decisions of a file on the groups that have their labels, as one act that one undo takes back.

    Raises:
        FormatError: The file cannot be read, or has no decisions.
        UsageError: Nothing was clustered yet.
    """
    lines = _read_lines(path)
    report = DecisionReport()

    def plan(state: MergeState) -> Iterator[GoalDecision]:
        """Yields the decisions of the lines; a line can name a group that an earlier one made."""
        for number, line in lines:
            if line["kind"] == "agree":
                continue  # the decision that it agrees with has the person as its author
            if line.get("stands") is False:
                report.undone += 1
                continue
            try:
                yield _repeated_decision(state, line)
            except _CannotRepeat as error:
                report.left_out.append(f"Line {number}: {error}.")

    report.repeated = decide_all(plan)
    return report


def _read_lines(path: Path) -> Sequence[tuple[int, Mapping[str, Any]]]:
    """Returns (number, decision) of each record of a file; raises FormatError if it has others."""
    hint = "Choose a file of JSON Lines."
    records = json_records(path, read_text(path, hint), hint)
    lines = [
        (number, line)
        for number, line in enumerate(records, 1)
        if isinstance(line, dict) and "kind" in line
    ]
    if not lines or len(lines) < len(records):
        raise FormatError(
            f"{path} has lines that are no decisions.",
            "`workbench export PROJECT decisions -o FILE` writes such a file.",
        )
    return lines


def _repeated_decision(state: MergeState, line: Mapping[str, Any]) -> GoalDecision:
    """Returns the decision of a line on the current groups; raises _CannotRepeat if it cannot be repeated."""
    kind = line["kind"]
    if kind not in _GROUPS_OF_KIND:
        raise _CannotRepeat(f"a {kind!r} is of single conversations, which the file does not have")
    groups = [_group(state, label) for label in _texts_in(line.get("labels"))]
    if len(groups) != _GROUPS_OF_KIND[kind] or len(set(groups)) != len(groups):
        raise _CannotRepeat(
            f"a {kind!r} needs {counted(_GROUPS_OF_KIND[kind], 'label')} of different groups"
        )
    if len(groups) == 2 and state.decided(*groups):
        raise _CannotRepeat("this pair was kept apart here")
    names = _texts_in(line.get("names"))
    if kind == "rename" and not (names and names[0].strip()):
        raise _CannotRepeat("a rename needs the new label in `names`")
    if kind == "theme" and not names:
        raise _CannotRepeat("a theme needs its label in `names`, which is empty for none")
    author = cast(Author, line["author"]) if line.get("author") in get_args(Author) else "human"
    _check_pins(state, kind, author, groups)
    evidence = line["evidence"] if isinstance(line.get("evidence"), dict) else None
    if author != "human":
        evidence = {**(evidence or {}), "started_by": "human"}
    # A file has labels only, so a renamed or merged group keeps the description of the first group here.
    description = state.groups[groups[0]].description
    probability = line.get("probability")
    return GoalDecision(
        kind,
        tuple(groups),
        tuple((name, description) for name in names[:1])
        if kind in ("merge", "rename", "theme")
        else (),
        author=author,
        model=str(line.get("model") or ""),
        probability=probability if isinstance(probability, float) else None,
        evidence=evidence,
    )


def _check_pins(state: MergeState, kind: str, author: Author, groups: Sequence[str]) -> None:
    """Raises _CannotRepeat if the pins of the groups here do not allow a decision."""
    any_pinned = any(state.groups[key].pinned for key in groups)
    if kind == "pin" and any_pinned:
        raise _CannotRepeat("the group is pinned here already")
    if kind == "unpin" and not any_pinned:
        raise _CannotRepeat("the group is not pinned here")
    if kind == "merge" and author in ("auto", "llm") and any_pinned:
        raise _CannotRepeat("a group that is pinned here can be merged only by a person")


def _group(state: MergeState, label: str) -> str:
    """Returns the id of the one current group with a label; raises _CannotRepeat if not exactly one has it."""
    folded_label = " ".join(label.split()).lower()
    matching = [
        key
        for key in state.current
        if " ".join(state.groups[key].label.split()).lower() == folded_label
    ]
    if len(matching) != 1:
        how_many = "several groups are" if matching else "no group is"
        raise _CannotRepeat(f"{how_many} called {label!r} here")
    (key,) = matching
    return key


def _texts_in(value: Any) -> list[str]:
    """Returns the texts of a list; none if the value is no list."""
    return [without_surrogates(text) for text in list_or_empty(value) if isinstance(text, str)]
