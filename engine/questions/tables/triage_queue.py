"""The triage queue: conversations that wait for a verdict, in one of eight orders.

- `threshold`: nearest the threshold first, then incomplete ones by falling score, then unscored ones. Complete ones
  are left out unless the filter asks for a state.
- `lowest`: the lowest score first, unscored ones last.
- `disagreement`: conversations that two score configurations put into different states, the biggest difference first.
- `people`: conversations that have verdicts on which people disagree (`engine.questions.tables.second_verdicts`), in id
  order; the only order of what has verdicts already.
- `unsure`: by response trees. First conversations in the top tenth of both the number of leaves and minus the best
  log-probability, then of one of them, then the rest, by the sum of both ranks. As in Appendix C.2.2 of Soroka et al.,
  "Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions".
- `informative`: what would change the probe of success most: unsure, and unlike what is judged already
  (`engine.questions.example_probe.rank_by_information`); then those without hidden states, in id order.
- `sample`: stratified for calibration. Scored conversations are divided by rank into `SAMPLE_GROUPS` groups of equal
  size, and one is drawn at random (seeded) from each group in turn, so that verdicts cover all scores.
- `list`: in the order of the conversation list.

A queue returns its first `PAGE` items only, because a million items would take much memory.
"""

from __future__ import annotations

import heapq
import random
import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import replace

from engine.base.conversation import State
from engine.completeness.records import DecisionRule
from engine.completeness.tables import score_sets
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import state_sql
from engine.conversations.filters import Filter, ListQuery, Term
from engine.conversations.tables import selecting
from engine.project import settings
from engine.project.idset import IdSet, read_ids
from engine.project.sql import chunks, placeholders, snapshot
from engine.questions.records import NO_NAME, SUCCESS, QueueOrder, TriageItem, TriagePage
from engine.questions.tables import example_probes, second_verdicts
from engine.questions.tables.verdicts import CURRENT_VERDICTS, scored_values
from engine.trees import tables as trees

PAGE = 5_000
SAMPLE_GROUPS = 20
SAMPLE_SEED = 7

_WITHOUT_VERDICT = Term("verdict", ":", ("none",))
_SCORED = (
    "SELECT conversation_id, p_end_normalised FROM score"
    " WHERE config_hash = ? AND p_end_normalised IS NOT NULL"
)


def queue(
    conn: sqlite3.Connection,
    order: QueueOrder = "threshold",
    query: ListQuery | None = None,
    page: int = PAGE,
    only: Collection[int] | None = None,
) -> TriagePage:
    """Returns the first `page` conversations without a verdict in an order, and the number of all of them.

    Args:
        query: Its filter selects conversations, its sort order is that of `list`; None takes all.
        only: Ids of the conversations that may be in it, such as those of one goal; None leaves none out.

    Raises:
        WorkbenchError: The search text of the filter has too many words.
    """
    with snapshot(conn):
        rule, config = score_sets.rule(conn), score_sets.score_config(conn)
        wanted = query or ListQuery()
        if order != "list":
            wanted = ListQuery(wanted.filter)
        waits = Term("disagreement", ":", ("people",)) if order == "people" else _WITHOUT_VERDICT
        terms = (*wanted.filter.terms, waits)
        if order == "threshold" and not wanted.filter.of("state"):
            terms += (Term("state", ":", (State.COMPLETE.value,), negated=True),)
        waiting = selecting.ids(conn, replace(wanted, filter=Filter(terms)))
        if only is not None:
            kept = frozenset(only)
            waiting = array("q", (key for key in waiting if key in kept))
        if order == "list":
            shown = waiting[:page]
            return TriagePage(_as_listed(conn, shown, rule, config), len(waiting))
        if order == "people":
            items = [TriageItem(key, _opinions(conn, key)) for key in waiting[:page]]
            return TriagePage(tuple(items), len(waiting))
        among = IdSet.every(conn).of(waiting)
        if order == "disagreement":
            found, total = _disagreeing(conn, rule, config, among, page)
            return TriagePage(tuple(found), total)
        if order == "unsure":
            found, total = _unsure(conn, among, page)
            return TriagePage(tuple(found), total)
        if order == "informative":
            return TriagePage(tuple(_informative(conn, waiting, page)), len(waiting))
        if order == "sample":
            found, total = _sample(conn, among, page)
            return TriagePage(tuple(found), total)
        walk = _nearest(conn, rule, config) if order == "threshold" else _lowest(conn, config)
        scored: list[tuple[int, float]] = []
        for key, p in walk:
            if len(scored) == page:
                break
            if among.flags[key]:
                scored.append((key, p))
        items = [TriageItem(key, _why(p, rule)) for key, p in scored]
        if len(items) < page:
            items += _unscored(conn, config, waiting, {key for key, _ in scored}, page - len(items))
        return TriagePage(tuple(items), len(waiting))


def _nearest(
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


def _lowest(conn: sqlite3.Connection, config: str | None) -> Iterator[tuple[int, float]]:
    return conn.execute(f"{_SCORED} ORDER BY p_end_normalised, conversation_id", (config,))


def _opinions(conn: sqlite3.Connection, conversation_id: int) -> str:
    said = (
        f"{one.annotator or NO_NAME} says {one.verdict}"
        for one in second_verdicts.opinions_on(conn, conversation_id)
    )
    return f"people disagree: {', '.join(said)}"


def _why(p: float, rule: DecisionRule) -> str:
    # No digits here: how many of them mean something depends on the model, and the screens draw the number.
    state = rule.state(p)
    if state is State.BORDERLINE:
        return "borderline: the score is too near the threshold to say"
    side = "above" if p >= rule.threshold else "below"
    return f"{state}: the score is {side} the threshold"


def _unscored(
    conn: sqlite3.Connection, config: str | None, waiting: array[int], scored: set[int], room: int
) -> list[TriageItem]:
    """Returns the waiting conversations without a score, in id order, with the reason."""
    keys: list[int] = []
    for key in waiting:
        if len(keys) == room:
            break
        if key not in scored:
            keys.append(key)
    reasons: dict[int, str] = {}
    for some in chunks(keys):
        reasons.update(
            conn.execute(
                "SELECT conversation_id, coalesce(reason, 'not scored yet') FROM score"
                f" WHERE config_hash = ? AND conversation_id IN ({placeholders(some)})",
                (config, *some),
            ).fetchall()
        )
    return [TriageItem(key, f"unscored: {reasons.get(key, 'not scored yet')}") for key in keys]


def _as_listed(
    conn: sqlite3.Connection, keys: array[int], rule: DecisionRule, config: str | None
) -> tuple[TriageItem, ...]:
    scores: dict[int, float | None] = {}
    for some in chunks(keys):
        scores.update(
            conn.execute(
                "SELECT conversation_id, p_end_normalised FROM score"
                f" WHERE config_hash = ? AND conversation_id IN ({placeholders(some)})",
                (config, *some),
            ).fetchall()
        )
    return tuple(
        TriageItem(key, f"next in the list; {rule.state(scores.get(key))}") for key in keys
    )


def _disagreeing(
    conn: sqlite3.Connection, rule: DecisionRule, config: str | None, among: IdSet, page: int
) -> tuple[list[TriageItem], int]:
    """Returns every conversation once, with the configuration that differs most from the one that is shown."""
    sets = {
        one.config_hash: (number, one) for number, one in enumerate(score_sets.configs(conn), 1)
    }
    items: list[TriageItem] = []
    seen: set[int] = set()
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
        (config, settings.get(conn, score_sets.UNFINISHED), *shown_values, *other_values),
    ):
        if key in seen or not among.flags[key]:
            continue
        seen.add(key)
        if len(items) < page:
            first, second = _names(sets[config or ""], sets[name])
            items.append(
                TriageItem(
                    key,
                    f"disagreement: {first} says {rule.state(shown)},"
                    f" {second} says {rule.state(other)}",
                )
            )
    return items, len(seen)


def _names(*both: tuple[int, ScoreConfig]) -> list[str]:
    """Returns what tells two numbered sets of scores apart: their models, modes or adapters, else their numbers."""
    by_model = len({one.mode for _, one in both}) == 1
    names = [one.model if by_model or one.mode == "outside" else one.mode for _, one in both]
    if len(set(names)) == 1:
        names = [one.adapter or one.model for _, one in both]
    if len(set(names)) == 1:
        names = [f"set {number} ({name})" for (number, _), name in zip(both, names, strict=True)]
    return names


def _unsure(conn: sqlite3.Connection, among: IdSet, page: int) -> tuple[list[TriageItem], int]:
    """Returns every conversation that has a tree; the tenths are of all of them, judged or not, so the order never
    changes."""
    found = trees.unsure(conn)
    many, unlikely = _ranks([row[1] for row in found]), _ranks([-row[2] for row in found])
    top = -(-len(found) // 10)
    order = sorted(
        (-(most <= top) - (least <= top), most + least, key, leaves, most <= top, least <= top)
        for (key, leaves, _), most, least in zip(found, many, unlikely, strict=True)
        if among.flags[key]
    )
    items = [
        TriageItem(key, _unsure_why(leaves, in_most, in_least))
        for _, _, key, leaves, in_most, in_least in order[:page]
    ]
    return items, len(order)


def _informative(conn: sqlite3.Connection, waiting: array[int], page: int) -> list[TriageItem]:
    newest = example_probes.newest(conn, SUCCESS)
    left = dict.fromkeys(waiting)
    items: list[TriageItem] = []
    for key, p in example_probes.in_order(conn, SUCCESS):
        if len(items) == page:
            return items
        if key in left:
            del left[key]
            items.append(TriageItem(key, _informative_why(p if newest and newest.tells else None)))
    judged = example_probes.unranked(conn, SUCCESS)
    return items + [
        TriageItem(key, _JUDGED_THEN if key in judged else _NOT_RANKED)
        for key in list(left)[: page - len(items)]
    ]


_JUDGED_THEN = "not ranked: it had a verdict when the order was made"
_NOT_RANKED = "not ranked: its hidden states were not there when the order was made"


def _informative_why(p: float | None) -> str:
    if p is None:
        return "most informative: unlike those asked about before"
    return f"most informative: {p:.0%} likely to have succeeded, and unlike those judged"


def _ranks(values: list[float]) -> list[int]:
    """Returns for each value how many are at least as high, so that equal ones lie in a tenth together or not at
    all."""
    ascending = sorted(values)
    return [len(values) - bisect_left(ascending, value) for value in values]


def _unsure_why(leaves: int, in_most: bool, in_least: bool) -> str:
    many = f"{leaves:,} {'leaf' if leaves == 1 else 'leaves'}"
    if in_most and in_least:
        return f"unsure: {many} and an unlikely best answer, both in the top tenth"
    if in_most:
        return f"unsure: {many}, in the top tenth"
    if in_least:
        return f"unsure: {many}; the best answer is among the least likely tenth"
    return f"not among the most unsure tenth: {many}"


def _sample(conn: sqlite3.Connection, waiting: IdSet, page: int) -> tuple[list[TriageItem], int]:
    """Returns one conversation of each group per round; a judged one keeps its place, so the order never changes."""
    ids, _ = scored_values(conn)
    judged = read_ids(conn, f"SELECT conversation_id FROM ({CURRENT_VERDICTS})")
    drawable = (waiting | IdSet.every(conn).of(judged)).flags
    in_filter = array("q", [key for key in ids if drawable[key]])
    groups = min(SAMPLE_GROUPS, len(in_filter))
    turns: list[tuple[int, int, int]] = []
    for group in range(groups):
        low, high = group * len(in_filter) // groups, (group + 1) * len(in_filter) // groups
        count = min(
            high - low, PAGE
        )  # the same however many were judged, or the order would change
        drawn = random.Random(f"{SAMPLE_SEED}:{group}").sample(range(low, high), count)
        turns += [(turn, group, in_filter[place]) for turn, place in enumerate(drawn)]
    items = [
        TriageItem(key, f"calibration sample: score group {group + 1} of {groups}")
        for _, group, key in sorted(turns)
        if waiting.flags[key]
    ]
    return items[:page], sum(map(waiting.flags.__getitem__, in_filter))
