"""The triage queue: conversations that wait for a person's answer to a question, in one of twelve orders.

- `trouble`: the most signs of trouble first, as the sum of their standard scores; those without a sign come last.
- `failures`: the lowest probability of success first, by the probe of verdicts; the others as in `trouble`.
- `threshold`: nearest the threshold first, then broken off ones by falling score, then unscored ones. Ended ones
  are left out unless the filter asks for a state.
- `lowest`: the lowest score first, unscored ones last.
- `disagreement`: conversations that two score configurations put into different states, the biggest difference first.
- `people`: conversations on which people disagree (`engine.questions.tables.opinions`), in id order; the only
  order of what has answers already.
- `informative`: what would change the probe of the question most: unsure, and unlike what is judged already
  (`engine.questions.example_fits.rank_by_information`); then those that came later, in id order.
- `sample`: in a random order, for figures of all. It is that of the filter `draw`; no answer and no score changes it,
  so that it is known afterwards what was drawn (`drawn`).
- `check`: those that were drawn to check what a machine answered (`engine.questions.answer_check`), as drawn.
- `answerers`: those that two patterns, models, files or probes answer differently, in id order.
- `doubtful`: the lowest probability of a machine's answer first; those without a probability are left out.
- `list`: in the order of the conversation list.

A queue returns its first `PAGE` items only, because a million items would take much memory.
"""

from __future__ import annotations

import heapq
import itertools
import sqlite3
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from engine.base.conversation import SUCCEEDED, State
from engine.base.sign import in_words
from engine.base.statistics.intervals import Interval, share_of_drawn
from engine.completeness.records import DecisionRule, mode_in_words
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import state_sql
from engine.conversations.filter_fields import NO_VALUE, QUESTION_FIELD
from engine.conversations.filters import Filter, ListQuery, Term
from engine.conversations.tables import selecting
from engine.conversations.tables.fields import random_numbers
from engine.project import settings
from engine.project.sql import IdSet, read_ids, rows_in, snapshot
from engine.questions.records import (
    MIN_DRAWN,
    NO_NAME,
    QueueOrder,
    TriageItem,
    TriagePage,
    likely_success,
)
from engine.questions.tables import example_probes, machine_answers, opinions
from engine.questions.tables.answers import CURRENT_ANSWERS
from engine.questions.tables.fields import DISAGREE
from engine.signs import tables as sign_tables

PAGE = 500
"""Largest number of items of a page of the queue."""

_NO_SIGNS = "no sign of trouble"
"""Reason of a conversation that comes last in the order of trouble."""

_WAS_JUDGED = "not ranked: it had an answer when the order was made"
"""Reason of a conversation that was an example when the probe was fitted."""

_NOT_RANKED = "not ranked: it was not there when the order was made"
"""Reason of a conversation that the probe did not know."""

_SCORED = (
    "SELECT conversation_id, p_end_normalised FROM score"
    " WHERE config_hash = ? AND p_end_normalised IS NOT NULL"
)
"""Id and score of the scored conversations, by one configuration."""


def queue(
    conn: sqlite3.Connection,
    order: QueueOrder = "threshold",
    query: ListQuery | None = None,
    page: int = PAGE,
    only: Collection[int] | None = None,
    question: str = SUCCEEDED,
) -> TriagePage:
    """Returns the first `page` conversations without an answer in an order, and the number of all of them.

    Args:
        query: Its filter selects conversations, its sort order is that of `list`; None takes all.
        only: Ids of the conversations that may be in it, such as those of one goal; None leaves none out.

    Raises:
        WorkbenchError: The search text of the filter has too many words.
    """
    with snapshot(conn):
        rule, config = score_sets.rule(conn), score_sets.hash_in_force(conn)
        waiting = _waiting_ids(conn, order, query or ListQuery(), only, question)
        among = IdSet.every(conn).of(waiting)
        match order:
            case "disagreement":
                return _queue_disagreements(conn, rule, config, among, page)
            case "check" | "answerers" | "doubtful":
                rows = _MACHINE_ORDERS[order](conn, question)
                items = [TriageItem(key, reason) for key, reason in rows if among.flags[key]]
                return TriagePage(tuple(items[:page]), len(items))
            case "list":
                states = scores.states(conn, waiting[:page])
                items = [
                    TriageItem(key, f"next in the list; {state}") for key, state in states.items()
                ]
            case "people":
                items = [
                    TriageItem(key, _opinions_text(conn, key, question)) for key in waiting[:page]
                ]
            case "sample":
                numbers = random_numbers(len(among.flags))
                keys = heapq.nsmallest(page, waiting, key=numbers.__getitem__)
                items = [TriageItem(key, "calibration sample: drawn at random") for key in keys]
            case "trouble":
                items = _items_by_trouble(conn, waiting, page)
            case "failures":
                items = _items_by_success(conn, waiting, page)
            case "informative":
                items = _items_by_information(conn, waiting, page, question)
            case "threshold":
                nearest = _scores_by_distance(conn, rule, config)
                items = _put_scored_first(conn, nearest, waiting, among, page, rule, config)
            case "lowest":
                sql = f"{_SCORED} ORDER BY p_end_normalised, conversation_id"
                lowest = conn.execute(sql, (config,))
                items = _put_scored_first(conn, lowest, waiting, among, page, rule, config)
        return TriagePage(tuple(items), len(waiting))


def _waiting_ids(
    conn: sqlite3.Connection,
    order: QueueOrder,
    query: ListQuery,
    only: Collection[int] | None,
    question: str,
) -> array[int]:
    """Returns the ids of the conversations that wait for an answer in an order; arguments as for `queue`."""
    terms = (*query.filter.terms, _waiting_term(order, question))
    if order == "threshold" and not query.filter.of("state"):
        terms += (Term("state", ":", (State.COMPLETE.value,), negated=True),)
    base = query if order == "list" else ListQuery()
    waiting = selecting.ids(conn, replace(base, filter=Filter(terms)))
    if only is None:
        return waiting
    allowed_ids = frozenset(only)
    return array("q", (key for key in waiting if key in allowed_ids))


def _waiting_term(order: QueueOrder, question: str) -> Term:
    """Returns the condition that people have no answer to a question, or different ones in the order `people`."""
    if question != SUCCEEDED:
        value = DISAGREE if order == "people" else NO_VALUE
        return Term(f"{QUESTION_FIELD}.{question}@person", ":", (value,))
    # Verdicts have fields of their own, which answer faster.
    if order == "people":
        return Term("disagreement", ":", ("people",))
    return Term(SUCCEEDED, ":", (NO_VALUE,))


def _put_scored_first(
    conn: sqlite3.Connection,
    ordered_scores: Iterable[tuple[int, float]],
    waiting: array[int],
    among: IdSet,
    page: int,
    rule: DecisionRule,
    config: str | None,
) -> list[TriageItem]:
    """Returns the waiting conversations, those with a score in a given order, then the unscored ones.

    Args:
        ordered_scores: Id and score of all scored conversations, in that order.
        among: The set of the waiting ones.
    """
    scored = list(islice(((key, p) for key, p in ordered_scores if among.flags[key]), page))
    items = [TriageItem(key, _score_reason(p, rule)) for key, p in scored]
    if room := page - len(items):
        items += _items_without_score(conn, config, waiting, {key for key, _ in scored}, room)
    return items


def _scores_by_distance(
    conn: sqlite3.Connection, rule: DecisionRule, config: str | None
) -> Iterator[tuple[int, float]]:
    """Returns (id, score) of all scored conversations by distance of the score from the threshold."""
    below = conn.execute(
        f"{_SCORED} AND p_end_normalised < ? ORDER BY p_end_normalised DESC, conversation_id",
        (config, rule.threshold),
    )
    above = conn.execute(
        f"{_SCORED} AND p_end_normalised >= ? ORDER BY p_end_normalised, conversation_id",
        (config, rule.threshold),
    )
    return heapq.merge(below, above, key=lambda row: (abs(row[1] - rule.threshold), row[0]))


def _opinions_text(conn: sqlite3.Connection, conversation_id: int, question: str) -> str:
    """Returns what each person says of a conversation, as the reason why it is in the queue."""
    texts = (
        f"{opinion.annotator or NO_NAME} says {opinion.value}"
        for opinion in opinions.on_conversation(conn, conversation_id, question)
    )
    return f"people disagree: {', '.join(texts)}"


def _queue_check(conn: sqlite3.Connection, question: str) -> list[tuple[int, str]]:
    """Returns (conversation, reason) of what was drawn to check a machine; the reason hides what the machine says."""
    check = machine_answers.newest_check(conn, question)
    return [] if check is None else [(key, f"drawn to check {check.by}") for key in check.drawn]


def _queue_differences(conn: sqlite3.Connection, question: str) -> list[tuple[int, str]]:
    """Returns (conversation, reason) of what machines answer differently."""
    says_by_id: dict[int, list[tuple[str, str]]] = {}
    for machine in machine_answers.machines(conn, question):
        for answer in machine.answers:
            says = machine.name, str(answer.value)
            says_by_id.setdefault(answer.conversation_id, []).append(says)
    return [
        (key, "; ".join(f"{by} says {value}" for by, value in says))
        for key, says in sorted(says_by_id.items())
        if len({value for _, value in says}) > 1
    ]


def _queue_doubtful(conn: sqlite3.Connection, question: str) -> list[tuple[int, str]]:
    """Returns (conversation, reason) of what the newest machine that gives probabilities answers, the least probable
    answer first."""
    for machine in machine_answers.machines(conn, question):
        rows = [(answer.p, answer) for answer in machine.answers if answer.p is not None]
        if rows:
            return [
                (
                    answer.conversation_id,
                    f"{machine.name} says {answer.value}, with probability {p:.2f}",
                )
                for p, answer in sorted(rows, key=lambda row: row[0])
            ]
    return []


_MACHINE_ORDERS: Mapping[str, Callable[[sqlite3.Connection, str], list[tuple[int, str]]]] = {
    "check": _queue_check,
    "answerers": _queue_differences,
    "doubtful": _queue_doubtful,
}
"""What gives (conversation, reason) in the orders that go by the answers of machines."""


def _score_reason(p: float, rule: DecisionRule) -> str:
    """Returns why a scored conversation is in the queue."""
    # No digits here: how many of them mean something depends on the model, and the screens draw the number.
    state = rule.state(p)
    if state is State.BORDERLINE:
        return f"{state.word}: the score is too near the threshold to say"
    side = "above" if p >= rule.threshold else "below"
    return f"{state.word}: the score is {side} the threshold"


def _items_without_score(
    conn: sqlite3.Connection, config: str | None, waiting: array[int], scored: set[int], room: int
) -> list[TriageItem]:
    """Returns the waiting conversations without a score, in id order, with the reason."""
    keys = list(islice((key for key in waiting if key not in scored), room))
    query = (
        "SELECT conversation_id, reason FROM score"
        " WHERE config_hash = ? AND reason IS NOT NULL AND conversation_id IN"
    )
    reasons: dict[int, str] = dict(rows_in(conn, query, keys, (config,)))
    return [
        TriageItem(
            key, f"{State.UNSCORED.word}: {reasons[key]}" if key in reasons else "not scored yet"
        )
        for key in keys
    ]


def _queue_disagreements(
    conn: sqlite3.Connection, rule: DecisionRule, config: str | None, among: IdSet, page: int
) -> TriagePage:
    """Returns every conversation of `among` that has different states, once, with the configuration that differs most
    from the one that is shown."""
    sets = {
        score_config.config_hash: (number, score_config)
        for number, score_config in enumerate(score_sets.configs(conn), 1)
    }
    items: list[TriageItem] = []
    listed_ids: set[int] = set()
    shown_state, shown_values = state_sql(rule, "a.p_end_normalised")
    other_state, other_values = state_sql(rule, "b.p_end_normalised")
    for key, shown, other, name in conn.execute(
        # CROSS JOIN keeps the order: one walk through the table, and for each other score a look at the one beside it.
        "SELECT a.conversation_id, a.p_end_normalised, b.p_end_normalised, b.config_hash"
        " FROM score AS b NOT INDEXED CROSS JOIN score AS a"
        " ON a.conversation_id = b.conversation_id AND a.config_hash = ?"
        " WHERE b.config_hash <> a.config_hash AND b.config_hash IS NOT ?"
        " AND a.p_end_normalised IS NOT NULL AND b.p_end_normalised IS NOT NULL"
        f" AND {shown_state} <> {other_state}"
        " ORDER BY abs(a.p_end_normalised - b.p_end_normalised) DESC, a.conversation_id",
        (config, settings.get(conn, score_sets.UNFINISHED_SETTING), *shown_values, *other_values),
    ):
        if key in listed_ids or not among.flags[key]:
            continue
        listed_ids.add(key)
        if len(items) < page:
            first, second = _names_of_sets(sets[config or ""], sets[name])
            items.append(
                TriageItem(
                    key,
                    f"disagreement: {first} says {rule.state(shown)},"
                    f" {second} says {rule.state(other)}",
                )
            )
    return TriagePage(tuple(items), len(listed_ids))


def _names_of_sets(*both: tuple[int, ScoreConfig]) -> list[str]:
    """Returns what tells two numbered sets of scores apart: their models, modes or adapters, else their numbers."""
    modes = [mode_in_words(config.mode, config.features) for _, config in both]
    by_model = modes[0] == modes[1]
    names = [config.model for _, config in both] if by_model else modes
    if len(set(names)) == 1:
        names = [config.adapter or config.model for _, config in both]
    if len(set(names)) == 1:
        names = [f"set {number} ({name})" for (number, _), name in zip(both, names, strict=True)]
    return names


def _items_by_trouble(conn: sqlite3.Connection, waiting: array[int], page: int) -> list[TriageItem]:
    """Returns the waiting conversations by falling trouble, then those whose signs were not read."""
    waiting_ids = set(waiting)
    by_trouble = (key for key in sign_tables.ids_most_trouble_first(conn) if key in waiting_ids)
    ids = list(itertools.islice(by_trouble, page))  # all the others are left unread
    if len(ids) < page:
        ids += sorted(waiting_ids.difference(ids))[: page - len(ids)]
    signs_by_id = sign_tables.of_conversations(conn, ids)
    return [TriageItem(key, in_words(signs_by_id.get(key, ())) or _NO_SIGNS) for key in ids]


def _items_by_success(conn: sqlite3.Connection, waiting: array[int], page: int) -> list[TriageItem]:
    """Returns the waiting conversations by rising probability of success, then those without one by falling trouble."""
    probe = example_probes.get(conn, SUCCEEDED)
    p_by_id = example_probes.success_of(conn, waiting)
    ranked = sorted(p_by_id, key=lambda key: (p_by_id[key], key))[:page]
    others = array("q", (key for key in waiting if key not in p_by_id))
    return [
        TriageItem(key, f"{likely_success(p_by_id[key])}, {probe.basis if probe else ''}")
        for key in ranked
    ] + _items_by_trouble(conn, others, page - len(ranked))


def _items_by_information(
    conn: sqlite3.Connection, waiting: array[int], page: int, question: str
) -> list[TriageItem]:
    """Returns the waiting conversations in the order of the probe, then those it did not rank."""
    probe = example_probes.get(conn, question)
    remaining_ids = dict.fromkeys(waiting)
    items: list[TriageItem] = []
    for key, p in example_probes.in_order(conn, question):
        if len(items) == page:
            return items
        if key in remaining_ids:
            del remaining_ids[key]
            items.append(
                TriageItem(key, _informative_reason(p if probe and probe.tells else None, question))
            )
    judged = example_probes.unranked(conn, question)
    return items + [
        TriageItem(key, _WAS_JUDGED if key in judged else _NOT_RANKED)
        for key in list(remaining_ids)[: page - len(items)]
    ]


def _informative_reason(p: float | None, question: str) -> str:
    """Returns why a ranked conversation is in the queue; `p` is None while the probe tells nothing."""
    if p is None:
        return "most informative: unlike those asked about before"
    likely = likely_success(p) if question == SUCCEEDED else f"{p:.0%} likely to be {question}: yes"
    return f"most informative: {likely}, and unlike those judged"


def drawn(conn: sqlite3.Connection, question: str) -> list[int]:
    """Returns the ids of the conversations that are a random sample whatever else people answered: those in the order
    `sample` before the first one without an answer to the question."""
    every = IdSet.every(conn)
    sql = f"SELECT conversation_id FROM ({CURRENT_ANSWERS}) WHERE question = ?"
    answered = every.of(read_ids(conn, sql, (question,)))
    numbers = random_numbers(len(every.flags))
    first = min(map(numbers.__getitem__, (every - answered).ascending()), default=1.0)
    return [key for key in answered.ascending() if numbers[key] < first]


def share_of_all(conn: sqlite3.Connection, question: str) -> tuple[Interval | None, int]:
    """Returns the share of yes among all conversations, by those drawn at random, and how many of these were answered
    yes or no; the share is None where they are fewer than `MIN_DRAWN`."""
    drawn_ids = drawn(conn, question)
    said_yes = example_probes.examples(conn, question)
    decided = [said_yes[key] for key in drawn_ids if key in said_yes]
    if len(decided) < MIN_DRAWN:
        return None, len(decided)
    (conversations,) = conn.execute("SELECT count(*) FROM conversation").fetchone()
    # who is unsure answers neither, and such conversations are left out of all in the same share
    of = conversations * len(decided) / len(drawn_ids)
    share = share_of_drawn(sum(decided), len(decided), of)
    # all answers bound it, also those on conversations that people picked
    low = sum(said_yes.values()) / conversations
    high = 1 - (len(said_yes) - sum(said_yes.values())) / conversations
    bounded = (min(max(each, low), high) for each in (share.value, share.low, share.high))
    return Interval(*bounded), len(decided)
