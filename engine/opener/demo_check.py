"""Holds what the program says of the demo's conversations against what is true of them, which it did not read."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from engine.base.number_format import figure, probability
from engine.base.text import one_line
from engine.completeness.service.sets import in_force
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.tables.conversations import truth_by_conversation
from engine.opener.open_project import OpenProject
from engine.results.associations.records import Feature, WordFeature
from engine.results.comparison.measures import goal_numbers
from engine.simulate.demo import CAUSES, CHANGED_GOAL, MONTHS
from engine.trees.tree import Kind

FIRST = 20
"""Number of conversations with the most trouble that are looked at."""

MIN_SHARE, MIN_PURITY = 0.5, 0.7
"""Least share of a goal's conversations that its group has, and least share of the group that is of the goal."""

MAX_ANSWER_CHARACTERS = 60
"""Most characters of an answer that are shown."""

STEM = 4
"""Number of first letters in which two forms of a word agree."""


@dataclass(frozen=True, slots=True)
class DemoCheck:
    """How right the program is.

    Attributes:
        goals, goals_found: Number of goals, and of those that have a group with a name that says them.
        auroc, same_step: How well whole conversations are told from cut ones; None where that was not tested.
        failures_in_first_20: Number of failed conversations among the `FIRST` with the most trouble.
        causes, causes_found: Number of causes of failure, and of those that are seen to go with it.
        change_found: Whether the goal that fails more often in the second month is seen to have more trouble.
        false_changes: Number of other differences of the months that are called significant.
        tree: Between which answers the model wavers in the response tree that was grown, in a sentence; empty without.
    """

    goals: int
    goals_found: int
    auroc: float | None
    same_step: float | None
    failures_in_first_20: int
    causes: int
    causes_found: int
    change_found: bool
    false_changes: int
    tree: str = ""

    def lines(self) -> list[str]:
        """Returns the check in words."""
        ends = "endings: not tested"
        if self.auroc is not None and self.same_step is not None:
            ends = f"endings: AUROC {figure(self.auroc)}, at the same step {figure(self.same_step)}"
        change = "found" if self.change_found else "not found"
        return [
            "How right that is, as the truth of these conversations is known:",
            f"  goals found and named: {self.goals_found} of {self.goals}",
            f"  {ends}",
            f"  failures among the {FIRST} to read first: {self.failures_in_first_20}",
            f"  causes of failure found: {self.causes_found} of {self.causes}",
            f"  the change between the months: {change}; false alarms: {self.false_changes}",
            *([f"  {self.tree}"] if self.tree else []),
        ]


def check_demo(project: OpenProject) -> DemoCheck:
    """Returns how right the program is on a project of sample conversations that was scored and clustered."""
    with project.project.reading() as conn:
        truth = dict(truth_by_conversation(conn))
    ids = np.array(sorted(truth), dtype=np.int64)
    goal_of_id = {key: str(of_key["goal"]) for key, of_key in truth.items()}
    view = project.goals.view() if project.goals.shown() else None
    numbers, labels = goal_numbers(view, ids)
    label_of_goal = _labels_of_goals(
        [goal_of_id[key] for key in ids.tolist()], numbers.tolist(), labels
    )
    by_trouble = project.conversations.ids(ListQuery(sort="trouble", descending=True))
    score_set = in_force(project.score_sets.all())
    test = None if score_set is None else score_set.test
    split = project.associations.split(
        parse_filter("truth.success:false"), parse_filter("truth.success:true")
    )
    features = [
        feature
        for row in project.associations.associations(split).rows
        if row.side == 0
        for feature in (row.feature, *row.near_equal)
    ]
    words = {word for feature in features for word in _words(feature)}
    first, second = (parse_filter(f"date:{month:%Y-%m}") for month in MONTHS)
    changes = [
        (difference.measure, difference.goal)
        for difference in project.comparison.compare(first, second).differences
        if difference.significant
    ]
    planted = [("trouble in goal", label_of_goal.get(CHANGED_GOAL)), ("trouble", None)]
    return DemoCheck(
        goals=len(set(goal_of_id.values())),
        goals_found=sum(
            label is not None and _names_goal(label, goal) for goal, label in label_of_goal.items()
        ),
        auroc=None if test is None else test.auroc.value,
        same_step=None if test is None or test.matched is None else test.matched.value,
        failures_in_first_20=sum(
            truth[key]["outcome"] == "failed" for key in list(by_trouble)[:FIRST] if key in truth
        ),
        causes=len(CAUSES),
        causes_found=sum(bool(words & of_cause) for of_cause in CAUSES.values()),
        change_found=planted[0] in changes,
        false_changes=sum(change not in planted for change in changes),
        tree=_tree_sentence(project),
    )


def _tree_sentence(project: OpenProject) -> str:
    """Returns between which two answers the model wavers in the first response tree; empty without a tree or two."""
    items = project.trees.items(ListQuery())
    if not items:
        return ""
    row = items[0].row
    ended = [
        answer
        for answer in project.trees.answers(row.conversation_id, row.step, row.config_hash)
        if answer.end is Kind.ENDED
    ]
    if len(ended) < 2:
        return ""
    answers = " and ".join(
        f"“{one_line(answer.text, MAX_ANSWER_CHARACTERS)}” ({probability(answer.probability)})"
        for answer in ended[:2]  # the most probable first
    )
    return f"response tree of {items[0].name}: the model wavers between {answers}"


def _labels_of_goals(
    goals: list[str], groups: list[int], labels: tuple[str, ...]
) -> dict[str, str | None]:
    """Returns for each goal the label of the group that most of its conversations are in, None where none is its own.

    Args:
        goals: The true goal of each conversation.
        groups: Index in `labels` of the group of each; below 0 for none.
    """
    sizes, goal_sizes = Counter(groups), Counter(goals)
    label_of_goal: dict[str, str | None] = dict.fromkeys(goals)
    for (goal, group), count in Counter(zip(goals, groups, strict=True)).items():
        is_main_goal = count >= MIN_SHARE * goal_sizes[goal] and count >= MIN_PURITY * sizes[group]
        if is_main_goal and group >= 0:
            label_of_goal[goal] = labels[group]
    return label_of_goal


def _names_goal(label: str, goal: str) -> bool:
    """Returns whether the label of a group has a word of a goal's name, whatever its form."""
    label_words, goal_words = ({word[:STEM] for word in _split(text)} for text in (label, goal))
    return bool(label_words & goal_words)


def _words(feature: Feature) -> set[str]:
    """Returns the words of a feature: those that somebody says, or the values of a field."""
    text = feature.text if isinstance(feature, WordFeature) else " ".join(feature.values)
    return set(_split(text))


def _split(text: str) -> list[str]:
    """Returns the words of a text of four letters or more, and numbers, in small letters."""
    return re.findall(r"[a-z]{4,}|\d+", text.lower())
