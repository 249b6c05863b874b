"""Compares what the program says of the demo's conversations with what is true of them, which the program did not read.

The demo's conversations come from `engine.simulate.demo`: each has a true goal and outcome, the failures have *causes*,
and one goal fails more often in the second month (`CHANGED_GOAL`).
"""

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
from engine.results.associations.records import WordFeature
from engine.results.comparison.measures import NO_GOAL, goal_numbers
from engine.simulate.demo import CAUSES, CHANGED_GOAL, MONTHS
from engine.trees.tree import Kind

FIRST = 20
"""Number of conversations with the most trouble whose outcomes are counted."""

MIN_SHARE, MIN_PURITY = 0.5, 0.7
"""Least share of the conversations of a goal that are in its group, and least share of the group that have the goal."""

MAX_ANSWER_CHARACTERS = 60

STEM_LETTERS = 4
"""Number of first letters that two forms of a word share."""


@dataclass(frozen=True, slots=True)
class DemoCheck:
    """How right the program is on the demo's conversations.

    Attributes:
        goals, goals_found: Number of true goals, and of those that have a group whose label names them.
        auroc, same_step: AUROC of whole conversations against cut ones, and against longer ones that are cut at the
            same step; None where that was not tested.
        failures_in_first_20: Number of failed conversations among the `FIRST` with the most trouble.
        causes, causes_found: Number of causes of failure, and of those that are a feature that goes with failure.
        change_found: Whether the comparison of the months shows more trouble in `CHANGED_GOAL`.
        false_changes: Number of other differences of the months that the comparison calls significant.
        tree: A sentence on the answers between which the model wavers in the response tree; empty without a tree.
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
        """Returns the check as lines of text."""
        endings = "endings: not tested"
        if self.auroc is not None and self.same_step is not None:
            endings = (
                f"endings: AUROC {figure(self.auroc)}, at the same step {figure(self.same_step)}"
            )
        change = "found" if self.change_found else "not found"
        return [
            "How right that is, as the truth of these conversations is known:",
            f"  goals found and named: {self.goals_found} of {self.goals}",
            f"  {endings}",
            f"  failures among the {FIRST} to read first: {self.failures_in_first_20}",
            f"  causes of failure found: {self.causes_found} of {self.causes}",
            f"  the change between the months: {change}; false alarms: {self.false_changes}",
            *([f"  {self.tree}"] if self.tree else []),
        ]


def check_demo(project: OpenProject) -> DemoCheck:
    """Returns how right the program is on a project with the demo's conversations that was scored and clustered."""
    truth = dict(project.project.read(truth_by_conversation))
    label_of_goal = _labels_of_goals(
        project, {key: str(truth[key]["goal"]) for key in sorted(truth)}
    )
    by_trouble = project.conversations.ids(ListQuery(sort="trouble", descending=True))
    score_set = in_force(project.score_sets.all())
    test = None if score_set is None else score_set.test
    words = _words_of_failures(project)
    first, second = (parse_filter(f"date:{month:%Y-%m}") for month in MONTHS)
    changes = [
        (difference.measure, difference.goal)
        for difference in project.comparison.compare(first, second).differences
        if difference.significant
    ]
    of_all = ("trouble", None), ("failed", None)
    true_changes = [("trouble in goal", label_of_goal.get(CHANGED_GOAL)), *of_all]
    return DemoCheck(
        goals=len(label_of_goal),
        goals_found=sum(
            label is not None and _names_goal(label, goal) for goal, label in label_of_goal.items()
        ),
        auroc=None if test is None else test.auroc.value,
        same_step=None if test is None or test.matched is None else test.matched.value,
        failures_in_first_20=sum(
            truth[key]["outcome"] == "failed" for key in list(by_trouble)[:FIRST] if key in truth
        ),
        causes=len(CAUSES),
        causes_found=sum(bool(words & words_of_cause) for words_of_cause in CAUSES.values()),
        change_found=true_changes[0] in changes,
        false_changes=sum(change not in true_changes for change in changes),
        tree=_tree_sentence(project),
    )


def _labels_of_goals(project: OpenProject, goal_by_id: dict[int, str]) -> dict[str, str | None]:
    """Returns, for each true goal, the label of the group that most of its conversations are in.

    The label is None where no group is mainly of this goal; see `MIN_SHARE` and `MIN_PURITY`.

    Args:
        goal_by_id: The true goal of each conversation, by its id.
    """
    view = project.goals.view() if project.goals.shown() else None
    numbers, labels = goal_numbers(view, np.array(list(goal_by_id), dtype=np.int64))
    goals, groups = list(goal_by_id.values()), numbers.tolist()
    sizes, goal_sizes = Counter(groups), Counter(goals)
    label_of_goal: dict[str, str | None] = dict.fromkeys(goals)
    for (goal, group), count in Counter(zip(goals, groups, strict=True)).items():
        is_main_goal = count >= MIN_SHARE * goal_sizes[goal] and count >= MIN_PURITY * sizes[group]
        if is_main_goal and group != NO_GOAL:
            label_of_goal[goal] = labels[group]
    return label_of_goal


def _names_goal(label: str, goal: str) -> bool:
    """Returns whether the label of a group has a word of the name of a goal, in whatever form."""
    label_stems, goal_stems = (
        {word[:STEM_LETTERS] for word in _split_words(text)} for text in (label, goal)
    )
    return bool(label_stems & goal_stems)


def _words_of_failures(project: OpenProject) -> set[str]:
    """Returns the words of the features that go with failure: those that somebody says, and values of fields."""
    split = project.associations.split(
        parse_filter("truth.success:false"), parse_filter("truth.success:true")
    )
    words: set[str] = set()
    for row in project.associations.associations(split).rows:
        for feature in (row.feature, *row.near_equal) if row.side == 0 else ():
            texts = [feature.text] if isinstance(feature, WordFeature) else feature.values
            words.update(_split_words(" ".join(texts)))
    return words


def _split_words(text: str) -> list[str]:
    """Returns the words of a text that have four letters or more, and the numbers, in small letters."""
    return re.findall(r"[a-z]{4,}|\d+", text.lower())


def _tree_sentence(project: OpenProject) -> str:
    """Returns a sentence on the two answers between which the model wavers in the first response tree.

    The sentence is empty where there is no tree, or fewer than two answers in it end.
    """
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
