"""Finds the features that go with one of two sides of the conversations of a project.

A *feature* is a word or phrase that somebody says, or a term of the filter language, such as a tool or a goal. It *goes
with* a side if conversations of this side have it more often than chance explains.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from engine.base.arrays import Bools, Floats, Ints
from engine.base.conversation import SUCCEEDED
from engine.base.errors import NotFound, UsageError
from engine.base.number_format import counted
from engine.base.statistics.intervals import Z95, Interval
from engine.conversations.filter_fields import (
    ANY_VALUE,
    COUNTABLE_FIELDS,
    FIELDS,
    NO_VALUE,
    QUESTION_FIELD,
    WORD_FIELD,
)
from engine.conversations.filters import NO_FILTER, Filter, Term, parse_filter
from engine.conversations.tables import facets, selecting
from engine.conversations.tables.conversations import message_counts, names, texts
from engine.goals.views.merge_queue import MergeQueueCache
from engine.project.project import Project
from engine.project.sql import IdSet, snapshot
from engine.questions.question import hyphenate
from engine.questions.tables import example_probes, machine_answers, questions
from engine.results.associations import formatting
from engine.results.associations.features import word_features
from engine.results.associations.odds import (
    Incidence,
    Odds,
    adjust_p_values,
    group_near_equal,
    join_incidences,
    odds_ratios,
    weigh_tests,
)
from engine.results.associations.records import (
    FALSE_DISCOVERY_RATE,
    MOST_TROUBLE,
    PROBABLE_FAILURE,
    Association,
    Associations,
    Feature,
    Split,
    WordFeature,
)
from engine.results.comparison.differences import SignChange
from engine.results.comparison.measures import goal_numbers
from engine.results.comparison.service import find_sign_changes
from engine.signs import tables as signs

MIN_SIDE = 10
"""Fewest conversations of a side of a split."""

TROUBLED_SHARE = 0.1
"""Share of the conversations, those with the most trouble, that stand for failures where no outcome is known."""

LIKELY_FROM = 0.4
"""Probability of success below which a conversation probably failed, where verdicts predict that."""

MIN_GOAL = 10
"""Fewest conversations of a goal within which the sides are compared; the conversations of smaller goals are compared
together with those in no goal."""

MIN_COUNT = 5
"""Fewest conversations that must have a feature, and fewest that must not have it."""

MIN_SHARE = 0.05
"""As `MIN_COUNT`, as a share of the conversations of the smaller side; the greater of both numbers counts."""

NEAR_EQUAL = 0.8
"""Jaccard similarity from which two features stand for nearly the same conversations."""

LONG_QUANTILE = 0.75
"""Quantile of the number of messages from which on a conversation counts as long."""

COPY = 0.98
"""Jaccard similarity from which a value is taken for another name of one that a side is chosen by."""

FAILURE = "failure"
"""What the first side is called where what failed is known."""

_FAILURE_FILTERS = (
    ("succeeded:no", "succeeded:yes"),
    ("truth.succeeded:false", "truth.succeeded:true"),
    ("truth.success:false", "truth.success:true"),
    ("truth.success<1", "truth.success>=1"),
    ("truth.reward<1", "truth.reward>=1"),
)
"""Pairs of filters, of conversations that failed and of conversations that succeeded, one for each kind of outcome, the
best known first."""

_SAME_MATTER = (
    {"state", "p", "disagreement", "remaining"},
    {"succeeded", "annotator", "disagreement", "success"},
    {"goal", "theme"},
    {"turns", "messages", "length"},
    {"date", "since", "until"},
    {"sign", "trouble"},
    {"trouble", "succeeded", "disagreement"},  # people judge first what shows most trouble
    {"trouble", "turns", "messages", "length"},  # a long conversation is a sign of trouble
)
"""Groups of fields that say the same of a conversation; a split by a field of a group is not explained by another field
of the group."""

_FURTHER_FIELDS = ("sign", "language", "personal")
"""Fields whose values are features besides `COUNTABLE_FIELDS`."""


class AssociationService:
    """Finds associations in one project. Slow: ten thousand conversations take seconds."""

    def __init__(self, project: Project, cache: MergeQueueCache) -> None:
        """Reads nothing yet; `cache` gives the clustering that is shown with its current groups."""
        self._project, self._cache = project, cache

    def split(
        self, first: Filter = NO_FILTER, second: Filter = NO_FILTER, question: str | None = None
    ) -> Split:
        """Returns the sides that filters name, or the answers no and yes to a question.

        Without filters and question the sides are those of the best known outcome: verdicts, imported outcomes, what
        verdicts predict, signs of trouble, or states, in this order.

        Raises:
            UsageError: Filters and a question are named, only the second filter is, or there is no such question.
            NotFound: No outcome is known of enough conversations on both sides, and too few show signs of trouble.
        """
        if (first or second) and question is not None:
            raise UsageError("A question and filters are named.", "Leave one of them out.")
        if second and not first:
            raise UsageError("Only the second side is named.", "Name the first side: --a FILTER.")
        if first:
            return Split(first, second)
        return self._best_known_split() if question is None else self._split_by_question(question)

    def _split_by_question(self, question: str) -> Split:
        """Returns the split by the answers to a question.

        Raises:
            UsageError: There is no such question.
        """
        for split in (*_splits_by_failure(), _split_by_state()):
            if split.first.of(question):
                return split
        known = self._project.read(questions.names)
        if question not in known and question not in FIELDS:
            raise UsageError(
                f"There is no question “{question}”.",
                f"Questions are {', '.join(known)}. Or name the sides by filters: --a FILTER --b FILTER.",
            )
        return Split(parse_filter(f"{question}:no"), parse_filter(f"{question}:yes"))

    def _best_known_split(self) -> Split:
        """Returns the split by the best known outcome.

        Raises:
            NotFound: No outcome is known of enough conversations on both sides, and too few show signs of trouble.
        """
        shortage = ""
        with self._project.reading() as conn, snapshot(conn):
            by_machines = _machine_sides(conn, SUCCEEDED)
            unjudged = by_machines and f"Nobody has judged, but {by_machines}"
            splits = (*_splits_by_prediction(conn), *_split_by_trouble(conn), _split_by_state())
            for split in (*_splits_by_failure(), *splits):
                counts = [_count(conn, side) for side in (split.first, split.second)]
                if min(counts) >= MIN_SIDE:
                    no_outcome = "" if split.outcome == FAILURE else unjudged
                    return replace(split, shortage=shortage or no_outcome)
                if split.outcome == FAILURE and not shortage and any(counts):
                    shortage = (
                        f"{counts[0]} conversations that failed are known ({split.first}) and {counts[1]} that"
                        f" succeeded, {MIN_SIDE} of each are needed."
                    )
        nothing = f"No outcome is known of {MIN_SIDE} conversations on each side, and fewer show signs of trouble."
        raise NotFound(shortage or unjudged or nothing, "Give verdicts, or name two filters.")

    def as_json(self, result: Associations) -> dict[str, Any]:
        """Returns a result as JSON values, with names of conversations as examples."""
        return formatting.as_json(result, self._project.read(names, formatting.example_ids(result)))

    def associations(self, split: Split, *, within_goals: bool = True) -> Associations:
        """Returns the features that go with one of two sides.

        Args:
            split: The sides.
            within_goals: Whether conversations are compared only with those of the same goal, where there are goals and
                the sides are not chosen by goal.

        Raises:
            UsageError: A side has too few conversations, or a conversation is on both.
            WorkbenchError: The project cannot evaluate a filter.
        """
        with self._project.reading() as conn, snapshot(conn):
            sides = _read_sides(conn, split)
            goal = np.zeros(len(sides.ids), np.int64)
            labels: tuple[str, ...] = ()
            view = self._cache.shown(conn) if within_goals else None
            if view is not None and not split.first.of("goal") and not split.second.of("goal"):
                goal, labels = goal_numbers(view, sides.ids)
                goal += 1  # 0 is in no goal
                goal[np.bincount(goal)[goal] < MIN_GOAL] = 0  # small goals are no strata
            features, incidence = _read_features(conn, split, sides, by_goal=not goal.any())
            sign_changes: tuple[SignChange, ...] = ()
            if "sign" not in _with_same_matter(_fields_of(split)):
                both_ids = sides.ids[~sides.is_first], sides.ids[sides.is_first]
                (sign_changes,) = find_sign_changes(conn, [both_ids])
        result = _associations(split, sides, features, incidence, goal, labels)
        return replace(result, sign_changes=sign_changes)


# Into which sides conversations can be split


def _splits_by_failure() -> list[Split]:
    """Returns the splits by outcomes that say what failed, the best known first."""
    return [
        Split(parse_filter(failed), parse_filter(succeeded), FAILURE, ("failed", "succeeded"))
        for failed, succeeded in _FAILURE_FILTERS
    ]


def _split_by_state() -> Split:
    """Returns the split into the conversations that broke off and those that ended."""
    sides = parse_filter("state:broken-off"), parse_filter("state:ended")
    return Split(*sides, "breaking off", ("broke off", "ended"))


def _splits_by_prediction(conn: sqlite3.Connection) -> Iterator[Split]:
    """Yields the split into what probably failed and succeeded, where a probe of verdicts is better than chance."""
    probe = example_probes.get(conn, SUCCEEDED)
    if probe is not None and probe.tells:
        sides = parse_filter(f"success<{LIKELY_FROM}"), parse_filter(f"success>={LIKELY_FROM}")
        yield Split(*sides, PROBABLE_FAILURE, ("probably failed", "probably succeeded"))


def _split_by_trouble(conn: sqlite3.Connection) -> Iterator[Split]:
    """Yields the split into the conversations with the most trouble, `TROUBLED_SHARE` of all, and all others.

    Yields nothing where the former show no more trouble than is usual.
    """
    ids = list(signs.ids_most_trouble_first(conn))
    count = max(MIN_SIDE, round(TROUBLED_SHARE * len(ids)))
    totals = signs.trouble_of(conn, ids[count - 1 : count])
    bound = math.floor(10 * min(totals.values(), default=0.0)) / 10  # lists show one decimal
    if bound > 0 and len(ids) >= count + MIN_SIDE:
        verbs = "show the most trouble", "show less"
        yield Split(parse_filter(f"trouble>={bound}"), NO_FILTER, MOST_TROUBLE, verbs)


def _machine_sides(conn: sqlite3.Connection, question: str) -> str:
    """Returns how to take the answers of machines to a question as sides, in words; empty where no machine answered."""
    names = {
        hyphenate(answerer.name): None for answerer, _ in machine_answers.answerers(conn, question)
    }
    sides = [f"--a {question}@{name}:no --b {question}@{name}:yes" for name in names]
    return f"there are answers of a machine: {', or '.join(sides)}." if sides else ""


def _count(conn: sqlite3.Connection, filter: Filter) -> int:
    """Returns how many conversations match; 0 where the filter names a key that no conversation has."""
    if all(facets.is_known(conn, term.field) for term in filter.terms if term.key):
        return len(selecting.matching(conn, filter))
    return 0


# The conversations of the sides


class Sides(NamedTuple):
    """The conversations of both sides in ascending order of ids; arrays have the shape (conversations,) unless said.

    Attributes:
        among: The set of the conversations.
        ids: Their ids.
        is_first: Whether each is on the first side.
        index_of_id: Index in `ids` of each id, shape (largest id + 1,).
    """

    among: IdSet
    ids: Ints
    is_first: Bools
    index_of_id: Ints

    @classmethod
    def of(cls, among: IdSet, is_first: Bools) -> Sides:
        """Returns the sides of a set of conversations; `is_first` as in the attributes."""
        index_of_id = np.cumsum(np.frombuffer(among.flags, np.uint8).astype(np.int64)) - 1
        return cls(among, np.asarray(among.ascending(), np.int64), is_first, index_of_id)

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of conversations of each side."""
        first = int(self.is_first.sum())
        return first, len(self.ids) - first


def _read_sides(conn: sqlite3.Connection, split: Split) -> Sides:
    """Returns the conversations of both sides.

    Raises:
        UsageError: A side has too few conversations, or a conversation is on both.
        WorkbenchError: The project cannot evaluate a filter.
    """
    first = selecting.matching(conn, split.first)
    second = selecting.matching(conn, split.second)
    if not split.second:
        second = second - first
    on_both = len(first & second)
    if on_both:
        raise UsageError(
            f"{counted(on_both, 'conversation')} would be on both sides.",
            "Choose filters that exclude each other.",
        )
    for filter, side in ((split.first, first), (split.second, second)):
        if len(side) < MIN_SIDE:
            by_machines = "".join(
                _machine_sides(conn, term.key or term.field) for term in filter.terms
            )
            raise UsageError(
                f"“{filter or 'the others'}” has {counted(len(side), 'conversation')}.",
                f"What goes with a side is looked for from {MIN_SIDE} on each side on:"
                f" {by_machines or 'widen the filter.'}",
            )
    among = first | second
    return Sides.of(among, np.frombuffer(first.flags, np.uint8)[among.ascending()] > 0)


# Which features they have


def _read_features(
    conn: sqlite3.Connection, split: Split, sides: Sides, *, by_goal: bool
) -> tuple[list[Feature], Incidence]:
    """Returns the features of the conversations of both sides: terms, words and phrases; and which have which.

    Args:
        split: The filters of the sides; features that they name are left out.
        by_goal: Whether goals are features.
    """
    min_count = max(MIN_COUNT, round(MIN_SHARE * min(sides.sizes)))
    terms: list[Feature] = []
    incidences = []
    for term, members in _eligible_terms(conn, split, sides.among, min_count, by_goal=by_goal):
        rows = sides.index_of_id[np.asarray(members.ascending(), np.int64)]
        incidences.append(Incidence(np.full(len(rows), len(terms)), rows))
        terms.append(term)
    index_of_id = sides.index_of_id.tolist()
    messages = ((index_of_id[key], role, text) for key, role, text in texts(conn, sides.among))
    words, incidence = word_features(messages, len(sides.ids), min_count)
    # a word by which a side is searched says nothing of the side
    searched = {
        word
        for filter in (split.first, split.second)
        for term in filter.of(WORD_FIELD)
        for word in term.values[0].lower().split()
    }
    is_searched = np.array([searched.issuperset(word.text.split()) for word in words], bool)
    stays = ~is_searched[incidence.feature]
    incidences.append(Incidence(incidence.feature[stays] + len(terms), incidence.row[stays]))
    return [*terms, *words], join_incidences(incidences)


def _eligible_terms(
    conn: sqlite3.Connection, split: Split, among: IdSet, min_count: int, *, by_goal: bool
) -> Iterator[tuple[Term, IdSet]]:
    """Yields the terms that are features, with the conversations of a set that match each.

    At least `min_count` conversations match a feature, and at least as many do not. The fields by which a side is
    chosen are left out, with those that say the same, and values of others that are only another name of theirs.
    """
    chosen_fields = _fields_of(split)
    # what is asked of an answer explains it, by whatever a side is chosen
    excluded_fields = _with_same_matter(chosen_fields) | {"reason"}
    if not by_goal:
        excluded_fields |= {"goal", "theme"}
    fields = [name for name in _candidate_fields(conn) if name not in excluded_fields]
    terms = _frequent_terms(conn, fields, min_count)
    if "messages" not in excluded_fields:
        sizes = message_counts(conn, among)
        long = sizes[int(len(sizes) * LONG_QUANTILE)]
        terms.append(Term("messages", ">=", (str(long),)))
    properties = sorted(filter(_is_property, chosen_fields))
    members_of_properties = [
        selecting.matching(conn, Filter((term,))) & among
        for term in _frequent_terms(conn, properties, min_count)
    ]
    for term in terms:
        members = selecting.matching(conn, Filter((term,))) & among
        is_copy = _is_property(term.field) and any(
            len(members & others) >= COPY * len(members | others)
            for others in members_of_properties
        )
        if not is_copy and min_count <= len(members) <= len(among) - min_count:
            yield term, members


def _fields_of(split: Split) -> set[str]:
    """Returns the fields by which the sides are chosen."""
    return {
        term.field.partition("@")[0]  # answers to the same question say the same, whoever gave them
        for filter in (split.first, split.second)
        for term in filter.terms
    }


def _with_same_matter(fields: set[str]) -> set[str]:
    """Returns these fields with those that say the same of a conversation."""
    return fields.union(*(group for group in _SAME_MATTER if group & fields))


def _candidate_fields(conn: sqlite3.Connection) -> list[str]:
    """Returns the fields whose values may be features: all but truth, which is an outcome and no reason."""
    return [
        *COUNTABLE_FIELDS,
        *_FURTHER_FIELDS,
        *(
            f"{field}.{key}"
            for field in ("meta", QUESTION_FIELD)
            for key, _ in selecting.values(conn, field, NO_FILTER)
            if (field, key) != (QUESTION_FIELD, SUCCEEDED)  # a field of its own
        ),
    ]


def _frequent_terms(conn: sqlite3.Connection, fields: Sequence[str], min_count: int) -> list[Term]:
    """Returns a term for each value of the fields that at least `min_count` conversations have."""
    return [
        Term(name, ":", (value,))
        for name in fields
        for value, count in selecting.values(conn, name, NO_FILTER)
        if count is not None and count >= min_count and value not in (ANY_VALUE, NO_VALUE)
    ]


def _is_property(field: str) -> bool:
    """Returns whether a field has what came with a conversation, which one conversation may have under two names."""
    return field in ("model", "source") or field.startswith(("meta.", "truth."))


# What goes with a side


def _associations(
    split: Split,
    sides: Sides,
    features: list[Feature],
    incidence: Incidence,
    goal: Ints,
    labels: tuple[str, ...],
) -> Associations:
    """Returns the features that go with a side.

    Args:
        incidence: Which of the conversations have which features.
        goal: Number of the goal of each conversation, shape (conversations,); 0 for none.
        labels: Label of each goal, from goal 1 on.
    """
    odds = odds_ratios(incidence, len(features), sides.is_first, goal)
    is_tested = odds.first + odds.second > 0
    is_term = np.array([isinstance(feature, Term) for feature in features], bool)
    p = np.ones(len(features))
    p[is_tested] = adjust_p_values(odds.p[is_tested], weigh_tests(is_term[is_tested]))
    significant = np.flatnonzero(p < FALSE_DISCOVERY_RATE)
    order = significant[np.lexsort(_order_keys(features, odds.z)[:, significant])]
    groups = group_near_equal(incidence, order, len(sides.ids), NEAR_EQUAL)
    size_of_goal = np.bincount(goal)
    first_in_goal = np.bincount(goal[sides.is_first], minlength=len(size_of_goal))
    is_one_sided = (first_in_goal == 0) | (first_in_goal == size_of_goal)
    return Associations(
        split=split,
        sizes=sides.sizes,
        goals=int(np.count_nonzero(size_of_goal)) if goal.any() else 0,
        one_sided=int(size_of_goal[is_one_sided].sum()),
        first_only=tuple(
            (label, int(size))
            for label, size, first in zip(labels, size_of_goal[1:], first_in_goal[1:], strict=False)
            if 0 < size == first
        ),
        tested=int(is_tested.sum()),
        significant=len(significant),
        rows=_rows(sides, features, incidence, odds, p, groups),
    )


def _order_keys(features: list[Feature], z: Floats) -> Floats:
    """Returns sort keys of features for `np.lexsort`, the most important key last, shape (3, features).

    The clearest feature comes first. Of equally clear features that say the same, a term tells more than a word, and a
    phrase more than its parts.
    """
    is_word = [isinstance(feature, WordFeature) for feature in features]
    length = [-len(feature.text) if isinstance(feature, WordFeature) else 0 for feature in features]
    return np.array([length, is_word, -np.abs(z).round(1)], dtype=float)


def _rows(
    sides: Sides,
    features: list[Feature],
    incidence: Incidence,
    odds: Odds,
    p: Floats,
    groups: list[Ints],
) -> tuple[Association, ...]:
    """Returns an association for each group of near-equal features, those of the first side first.

    The same words in other messages of the speaker get no row of their own: they are near-equal to those that come
    first.

    Args:
        p: The corrected p value of each feature, shape (features,).
        groups: The indices of the features of each group, the clearest group and feature first.
    """
    rows: dict[object, Association] = {}
    for group in groups:
        head, *others = group.tolist()
        feature = features[head]
        row = _association(sides, feature, head, incidence, odds, float(p[head]))
        near_equal = tuple(features[other] for other in others)
        key = (
            (row.side, feature.speaker, feature.text)
            if isinstance(feature, WordFeature)
            else feature
        )
        if key in rows:
            row, near_equal = rows[key], (*rows[key].near_equal, feature, *near_equal)
        rows[key] = replace(row, near_equal=near_equal)
    return tuple(sorted(rows.values(), key=lambda row: row.side))


def _association(
    sides: Sides, feature: Feature, index: int, incidence: Incidence, odds: Odds, p: float
) -> Association:
    """Returns the association of a feature, given by its index too, without near-equal features."""
    side = 1 if odds.z[index] < 0 else 0
    center, half_width = abs(float(odds.log_ratio[index])), Z95 * float(odds.error[index])
    having = incidence.rows_of(index)
    having_on_side = having[sides.is_first[having] == (side == 0)]
    return Association(
        feature=feature,
        side=side,
        counts=(int(odds.first[index]), int(odds.second[index])),
        shares=(float(odds.first_share[index]), float(odds.second_share[index])),
        odds=Interval(*np.exp([center, center - half_width, center + half_width]).tolist()),
        p=p,
        near_equal=(),
        ids=tuple(np.sort(sides.ids[having_on_side]).tolist()),
    )
