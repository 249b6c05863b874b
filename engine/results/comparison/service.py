"""Compares parts of a project with each other, and tells how often each answer to a question was given.

A comparison has two sides, the first and the second one; a *breakdown* has a part for each value of a field. A
*machine* is what answers questions besides people: a pattern, a model, a file, or a probe fitted to examples.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np

from engine.base.arrays import Ints
from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.number_format import counted
from engine.base.report_table import ReportTable
from engine.base.statistics.ranking import holm
from engine.completeness.service.sets import doubt_in_force
from engine.completeness.tables import score_sets
from engine.conversations.filters import NO_FILTER, Filter, ListQuery, is_number
from engine.conversations.tables import selecting
from engine.goals.views.clustering_view import ClusteringView
from engine.goals.views.merge_queue import MergeQueueCache
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions.answer_check import AnswerCheck, is_stale, report, restrict
from engine.questions.question import Question
from engine.questions.service.calibration import FIELDS_BY_SCORE
from engine.questions.tables import answers, machine_answers, questions
from engine.results.comparison.answer_rates import answer_rates
from engine.results.comparison.differences import (
    AnswerChange,
    Breakdown,
    Comparison,
    Measure,
    Part,
    PeriodChange,
    Side,
    SignChange,
    compare,
    completion_change,
    interval_difference,
    p_of_share_differences,
)
from engine.results.comparison.measures import (
    TIME_FIELDS,
    Measures,
    comparable_fields,
    conversations_by_value,
    goal_numbers,
    term_of,
)
from engine.signs import tables as signs

ALL = "all"
"""Name of the only row of a table of rates without a field."""

MIN_IN_PERIOD = 20
"""Fewest conversations of a period of time that is compared with another one in all."""

BY_VERDICTS: tuple[Measure, ...] = ("succeeded", "success")
"""Measures that go by verdicts."""

MAX_VALUES = 40
"""Most values of a field that are compared: the most frequent ones, or for a field of time the latest."""

OTHERS_NAME = "the others"
"""Name of the conversations that are not on the first side, or do not have a value."""

NO_IDS: Ints = np.empty(0, np.int64)
"""The ids of no conversation."""


class ComparisonService:
    """Compares parts of one project. `compare`, `by` and `read_measures` are slow: they read all scores."""

    def __init__(self, project: Project, cache: MergeQueueCache) -> None:
        """Reads nothing yet; `cache` gives the clusterings of the project with their current groups."""
        self._project, self._cache = project, cache

    def compare(self, first: Filter, second: Filter) -> Comparison:
        """Returns how the conversations of two filters differ; an empty second filter stands for all others.

        Raises:
            UsageError: A side has no conversation, or a conversation is on both sides.
            WorkbenchError: The project cannot evaluate a filter.
        """
        with self._project.reading() as conn, snapshot(conn):
            all_measures = Measures.read(conn, self._cache.shown(conn))
            first_ids = _matching_ids(conn, first)
            second_ids = (
                _matching_ids(conn, second) if second else np.setdiff1d(all_measures.ids, first_ids)
            )
        shared_ids = np.intersect1d(first_ids, second_ids)
        if len(shared_ids):
            raise UsageError(
                f"{counted(len(shared_ids), 'conversation')} would be on both sides.",
                "Choose filters that exclude each other.",
            )
        parts = all_measures.of(first_ids), all_measures.of(second_ids)
        by_score = self.goes_by_score(first, second)
        second_text = str(second) if second else _opposite(first)
        first_side = _side(str(first) or "all", str(first), parts[0], by_score=by_score)
        second_side = _side(str(second) or OTHERS_NAME, second_text, parts[1], by_score=by_score)
        comparison = compare((first_side, second_side), *parts)
        with self._project.reading() as conn, snapshot(conn):
            changes = _answer_changes(conn, set(first_ids.tolist()), set(second_ids.tolist()))
            (sign_changes,) = find_sign_changes(conn, [(first_ids, second_ids)])
            return replace(
                comparison,
                answer_changes=tuple(changes),
                sign_changes=sign_changes,
                doubt=doubt_in_force(score_sets.sets(conn)),
            )

    def by(self, field: str, filter: Filter = NO_FILTER) -> Breakdown:
        """Returns the completion rates by the values of a field, over the conversations of a filter.

        A value of a field of time (`TIME_FIELDS`) is compared with the one before, any other value with all other
        conversations that have a value.

        Raises:
            UsageError: There is no such field.
            NotFound: No conversation of the filter has the field.
            WorkbenchError: The project cannot evaluate the filter.
        """
        return self.breakdown(self.read_measures(filter), field, filter)

    def breakdown(self, measures: Measures, field: str, filter: Filter) -> Breakdown:
        """Returns the result of `by` for conversations whose measures were read before.

        Args:
            measures: The measures of the conversations of the filter.
            filter: The filter that selects them.

        Raises:
            UsageError: There is no such field.
            NotFound: None of the conversations has the field.
        """
        with self._project.reading() as conn, snapshot(conn):
            members = _ids_by_value(conn, field, measures.ids)
        if not members:
            raise NotFound(f"No conversation of the filter has a {field}.")
        ids_with_value = np.unique(np.concatenate(list(members.values())))
        in_time = field in TIME_FIELDS
        order = sorted(members) if in_time else _most_frequent_first(members)
        values = order[-MAX_VALUES:] if in_time else order[:MAX_VALUES]
        sides = _sides_of_values(measures, members, values, ids_with_value, in_time=in_time)
        is_mirrored = not in_time and len(members) == 2
        with self._project.reading() as conn, snapshot(conn):
            id_pairs = [(others.ids, part.ids) for _, others, part in sides]
            sign_changes = find_sign_changes(conn, id_pairs, mirrored=is_mirrored)
            doubt = doubt_in_force(score_sets.sets(conn))
        parts = [
            Part(
                value=value,
                filter=str(Filter((*filter.terms, term_of(field, value)))),
                rate=part.rate(by_score=self.goes_by_score(filter)),
                against=against if len(others.ids) else "",
                change=completion_change(others, part),
                sign_changes=changes,
                outcomes=part.outcomes(),
            )
            for value, (against, others, part), changes in zip(
                values, sides, sign_changes, strict=True
            )
        ]
        parts = _correct_p_values(parts, mirrored=is_mirrored)
        unlisted_values = set(order) - set(values)
        return Breakdown(
            field,
            tuple(parts),
            without=len(measures.ids) - len(ids_with_value),
            left_out=(
                len(unlisted_values),
                sum(len(members[value]) for value in unlisted_values),
            ),
            doubt=doubt,
            last_change=_last_change(sides, parts) if in_time else None,
        )

    def sizes(self, field: str, filter: Filter = NO_FILTER) -> dict[str, int]:
        """Returns the number of conversations of a filter by their value of a field; empty where none has any."""
        with self._project.reading() as conn, snapshot(conn):
            try:
                members = _ids_by_value(conn, field, _matching_ids(conn, filter))
            except NotFound:
                return {}
        return {value: len(ids) for value, ids in members.items()}

    def read_measures(self, filter: Filter = NO_FILTER) -> Measures:
        """Returns the measures of the conversations of a filter.

        Raises:
            WorkbenchError: The project cannot evaluate the filter.
        """
        with self._project.reading() as conn, snapshot(conn):
            return Measures.read(conn, self._cache.shown(conn)).of(_matching_ids(conn, filter))

    def rates(self, question: Question, field: str, filter: Filter = NO_FILTER) -> ReportTable:
        """Returns how often each answer to a question was given, by the values of a field.

        Numbers and times are in their order, other values in that of their number of conversations.

        Args:
            field: Name of the field, `goal` for the goals; empty for all conversations together.

        Raises:
            UsageError: There is no such field, no conversation has it, or the answers are texts.
            NotYet: Nobody has answered, or nothing is clustered.
        """
        with self._project.reading() as conn, snapshot(conn):
            ids = _matching_ids(conn, filter)
            if not field:
                members = {ALL: ids}
            elif field == "goal":
                members = _ids_by_goal(self._cache.shown(conn), ids)
            else:
                members = _ids_by_value(conn, field, ids)
            if all(map(is_number, members)):
                order = sorted(members, key=float)
            elif field in TIME_FIELDS:
                order = sorted(members)
            else:
                order = _most_frequent_first(members)
            sorted_members = {value: members[value].tolist() for value in order}
            return answer_rates(conn, question, sorted_members, field)

    @staticmethod
    def goes_by_score(*filters: Filter) -> bool:
        """Returns whether a filter selects by score or verdict.

        The errors of the scores of such conversations are not those of the whole project.
        """
        return any(filter.of(field) for filter in filters for field in FIELDS_BY_SCORE)

    def fields(self) -> list[str]:
        """Returns the fields by which the project can be compared: those with at least two values."""
        with self._project.reading() as conn, snapshot(conn):
            return comparable_fields(conn)


def _side(name: str, text: str | None, part: Measures, *, by_score: bool) -> Side:
    """Returns a side with its rate of completion.

    Raises:
        NotFound: It has no conversation.
    """
    if not len(part.ids):
        raise NotFound(
            f"There is no conversation of “{name}”.",
            "Choose a filter that some match; `workbench list PROJECT --filter` shows which.",
        )
    return Side(name, text, part.rate(by_score=by_score))


def _sides_of_values(
    measures: Measures,
    members: Mapping[str, Ints],
    values: Sequence[str],
    ids_with_value: Ints,
    *,
    in_time: bool,
) -> list[tuple[str, Measures, Measures]]:
    """Returns for each value with what it is compared: the name and measures of that, then its own measures.

    A value of a field of time is compared with the one before it, and the first one with nothing; any other value is
    compared with all conversations that have another one.

    Args:
        members: Ids of the conversations that have each value.
        values: The values that are compared, in their order.
        ids_with_value: Ids of the conversations that have any value.
    """
    if in_time:
        return [
            (before, measures.of(members.get(before, NO_IDS)), measures.of(members[value]))
            for before, value in pairwise(["", *values])
        ]
    return [
        (OTHERS_NAME, measures.of(np.setdiff1d(ids_with_value, ids)), measures.of(ids))
        for ids in (members[value] for value in values)
    ]


def _answer_changes(
    conn: sqlite3.Connection, first: Set[int], second: Set[int]
) -> Iterator[AnswerChange]:
    """Yields, for each question, how often the machine that answered it last gave each answer on both sides.

    Args:
        first, second: Ids of the conversations of each side.
    """
    for name in questions.answered(conn):
        newest = next(machine_answers.machines(conn, name), None)
        question = questions.get(conn, name)
        if newest is None or question.kind == "text":
            continue
        by, config, rows = newest
        check = machine_answers.checks(conn, name).get(config)
        if check is None or is_stale(check, rows):
            check = AnswerCheck(by, {}, (), ())
        people = {key: value for key, (value, _) in answers.of_question(conn, name).items()}
        values = {row.conversation_id: str(row.value) for row in rows}
        sides = [{key: values[key] for key in side & values.keys()} for side in (first, second)]
        if not all(sides):
            continue
        before_report, after_report = (
            report(restrict(check, side), question, people) for side in sides
        )
        for before, after in zip(before_report.shares, after_report.shares, strict=True):
            change = None
            if before.corrected is not None and after.corrected is not None:
                change = interval_difference(before.corrected, after.corrected)
            yield AnswerChange(name, by, before.value, (before, after), change)


def _last_change(
    sides: Sequence[tuple[str, Measures, Measures]], parts: Sequence[Part]
) -> PeriodChange | None:
    """Returns how a period differs from the one before it, of the last two neighbors with `MIN_IN_PERIOD` conversations
    each; None where there are none.

    Args:
        sides: As `_sides_of_values` returns them.
        parts: The part of each period.
    """
    for (before, first, last), part in zip(reversed(sides), reversed(parts), strict=True):
        if min(len(first.ids), len(last.ids)) < MIN_IN_PERIOD:
            continue
        rated = Side(before, None, first.rate()), Side(part.value, part.filter, last.rate())
        differences = (
            part.change if each.measure == "completion" else each
            for each in compare(rated, first, last).differences
            if each.measure not in BY_VERDICTS
        )
        significant = (each for each in differences if each is not None and each.significant)
        return PeriodChange(before, part.value, tuple(significant), part.sign_changes)
    return None


def find_sign_changes(
    conn: sqlite3.Connection, sides: Sequence[tuple[Ints, Ints]], *, mirrored: bool = False
) -> list[tuple[SignChange, ...]]:
    """Returns for each pair of sides how many conversations show any sign of trouble, then each sign.

    Args:
        sides: Ids of the conversations of the sides of each pair.
        mirrored: Whether there are two pairs, the second one the first turned round, which are one test.
    """
    ids_by_sign, ids_read = signs.ids_by_sign(conn), signs.trouble_by_id(conn).keys()
    counts = []
    for pair in sides:
        first, second = (ids_read & side.tolist() for side in pair)
        counts += [
            (len(first & ids), len(first), len(second & ids), len(second))
            for ids in ids_by_sign.values()
        ]
    tested = counts[: len(ids_by_sign)] if mirrored else counts
    ps = p_of_share_differences(tested) * (2 if mirrored else 1)
    changes = map(SignChange, list(ids_by_sign) * len(sides), counts, ps)
    return [tuple(islice(changes, len(ids_by_sign))) for _ in sides]


def _correct_p_values(parts: list[Part], *, mirrored: bool) -> list[Part]:
    """Returns the parts with their p values corrected for all tests.

    Args:
        mirrored: Whether there are two parts that are compared with each other, which is a single test.
    """
    ps = [None if part.change is None else part.change.p for part in parts]
    corrected = [
        None if part.change is None or p is None else replace(part.change, corrected=p)
        for part, p in zip(parts, ps if mirrored else holm(ps), strict=True)
    ]
    return [replace(part, change=change) for part, change in zip(parts, corrected, strict=True)]


def _most_frequent_first(members: Mapping[str, Ints]) -> list[str]:
    """Returns the values in the order of their numbers of conversations, equally frequent ones in the alphabetical."""
    return sorted(members, key=lambda value: (-len(members[value]), value))


def _matching_ids(conn: sqlite3.Connection, filter: Filter) -> Ints:
    """Returns the ids of the conversations that match a filter, shape (conversations,)."""
    return np.asarray(selecting.ids(conn, ListQuery(filter)), np.int64)


def _ids_by_goal(view: ClusteringView | None, ids: Ints) -> dict[str, Ints]:
    """Returns the ids of the conversations that have a goal, by the label of the goal.

    Raises:
        NotYet: There is no clustering.
    """
    if view is None:
        raise NotYet("Nothing is clustered.", "`workbench run cluster PROJECT` does it.")
    numbers, labels = goal_numbers(view, ids)
    numbers_by_label: dict[str, list[int]] = {}  # several goals may have one label
    for number, label in enumerate(labels):
        numbers_by_label.setdefault(label, []).append(number)
    return {label: ids[np.isin(numbers, of_label)] for label, of_label in numbers_by_label.items()}


def _ids_by_value(conn: sqlite3.Connection, field: str, ids: Ints) -> dict[str, Ints]:
    """Returns which of the conversations with these ids have each value of a field, ascending; only values of some.

    Raises:
        UsageError: There is no such field.
        NotFound: No conversation of the project has it.
    """
    by_value = conversations_by_value(conn, field)
    members = {
        value: np.intersect1d(ids, np.asarray(ids_of_value, np.int64))
        for value, ids_of_value in by_value.items()
    }
    return {value: ids_of_value for value, ids_of_value in members.items() if len(ids_of_value)}


def _opposite(filter: Filter) -> str | None:
    """Returns the filter that selects all other conversations; None where no filter does."""
    if len(filter.terms) != 1:
        return None
    (term,) = filter.terms
    return str(Filter((replace(term, negated=not term.negated),)))
