"""Queries compared with a plain evaluation of filter and order, on random small projects."""

from __future__ import annotations

import operator
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.conversation import SUCCEEDED, State, Verdict, count_turns
from engine.completeness.records import DecisionRule, normalized
from engine.completeness.tables import score_sets
from engine.conversations.filter_fields import ANY_VALUE, NO_VALUE, SortKey
from engine.conversations.filters import ListQuery, Term, parse_filter
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.project.sql import IdSet
from engine.questions.records import ExampleProbe
from engine.questions.service.triage import TriageService
from engine.questions.tables import example_probes
from tests.engine.project.support import fill, give_scores, mark, talk

WORDS = ("red", "reddish", "blue", "bicycle", "zz9")
SCORES = (0.0, 0.2, 0.39999999999999997, 0.4, 0.4000000000000001, 0.5, 0.6, 0.6000000000000001, 1.0)
DATES = ("2025-12-31", "2026-03-01", "2026-03-14", "2026-03-14T09:30:00Z", "2026-04-01")
LABELS = ("a.jsonl", "b.jsonl", "ab.jsonl")
NO_SCORE = "no score"
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
SOURCE = Random(0)
DRAWN = [SOURCE.random() for _ in range(20)]
"""By the id of a conversation."""
STATES = (State.COMPLETE, State.INCOMPLETE, State.BORDERLINE, State.UNSCORED)


@dataclass(frozen=True)
class MadeConversation:
    """One conversation as the test made it."""

    label: str
    name: str
    texts: tuple[str, ...]
    date: str | None
    score: float | str | None
    verdict: Verdict | None
    note: str
    tags: tuple[str, ...]
    success: float | None
    proposed: float | None

    @property
    def p(self) -> float | None:
        return None if isinstance(self.score, str) else self.score


known = st.builds(
    MadeConversation,
    label=st.sampled_from(LABELS),
    name=st.sampled_from(("A-1", "a-2", "b-1", "é")),
    texts=st.lists(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), min_size=1, max_size=4
    ).map(tuple),
    date=st.none() | st.sampled_from(DATES),
    score=st.sampled_from((*SCORES, None, NO_SCORE)),
    verdict=st.none() | st.sampled_from(Verdict),
    note=st.sampled_from(("", "", "look")),
    tags=st.lists(st.sampled_from(("odd", "late")), unique=True).map(sorted).map(tuple),
    success=st.sampled_from((None, 0.1, 0.4, 0.9)),
    proposed=st.sampled_from((None, 0.2, 0.7)),
)  # fmt: skip
terms = st.sampled_from(
    [
        *("state:complete", "state:incomplete,unscored", "state:borderline", "state:unscored"),
        *("p<.4", "p<=.4", "p>.6", "p:.5,1", "p:0.2...5", "p>=0"),
        *("success<.4", "success>=.4", "success:.1,.9", "success:0.05...5"),
        *("odd@examples:yes", "tag:late,none"),
        *("draw<.5", "draw>=.8", "draw:0.2..0.4"),
        *("turns>1", "turns:1", "turns:2..9", "messages<=2", "messages:1,3", "length>12"),
        *("source:a", "source:b.jsonl,nowhere", "name:A", "name:é,b", "name:-2"),
        *("date:2026", "date:2026-03", "date:2025,2026-04", "date>2026-03-14", "date>=2026-03-14"),
        *("date<2026-03", "date<=2026-03", "date:2026-03..2026-04"),
        *("succeeded:any", "succeeded:none", "succeeded:unsure,none", "succeeded:yes"),
        *("tag:odd", "tag:any", "tag:none", "tag:late,none", "note:any", "note:none"),
        *("red", '"red"', "bi", '"red blue"', "nothing", '"*"'),
    ]
)
filters = st.lists(st.tuples(terms, st.booleans()), max_size=3).map(
    lambda some: parse_filter(" ".join("-" * negated + text for text, negated in some))
)


def holds(term: Term, key: int, it: MadeConversation, rule: DecisionRule) -> bool:
    """Whether one term matches, evaluated plainly."""
    if term.field == "text":
        phrase = term.values[0].split()
        if phrase == ["*"]:
            return False
        found = [
            words[at : at + len(phrase)]
            for words in map(str.split, it.texts)
            for at in range(len(words))
        ]
        if term.whole:
            return phrase in found
        return any(words and words[0].startswith(phrase[0]) for words in found)
    if term.field == "source":
        return any(value in it.label for value in term.values)
    if term.field == "name":
        lower = re.compile("[A-Z]")
        plain = [lower.sub(lambda m: m[0].lower(), text) for text in (it.name, *term.values)]
        return any(value in plain[0] for value in plain[1:])
    if term.field == "date":
        return it.date is not None and _date(term, it.date)
    if term.field in ("state", "succeeded", "tag", "note"):
        values: dict[str, tuple[str, ...]] = {
            "state": (rule.state(it.p),),
            "succeeded": () if it.verdict is None else (it.verdict,),
            "tag": it.tags,
            "note": (it.note,) if it.note else (),
        }
        have = {*values[term.field], ANY_VALUE if values[term.field] else NO_VALUE}
        return bool(have.intersection(term.values))
    if term.field == "answer.odd@examples":
        return is_proposed(it)
    value: float | None = {
        "p": it.p,
        "success": it.success,
        "turns": turns(it),
        "messages": len(it.texts),
        "length": sum(map(len, it.texts)),
        "draw": DRAWN[key],
    }[term.field]
    return value is not None and _compares(term, value, [float(v) for v in term.values])


def is_proposed(it: MadeConversation) -> bool:
    """Whether the probe of the tag `odd` proposes it and a person did not give it."""
    return it.proposed is not None and it.proposed >= 0.5 and "odd" not in it.tags


def turns(it: MadeConversation) -> int:
    """The number of turns of the conversation made of it."""
    return count_turns(talk(it.name, *it.texts).conversation.messages)


def _compares(term: Term, value: Any, wanted: list[Any]) -> bool:
    if term.span:
        return bool(min(wanted) <= value <= max(wanted))
    if term.op == ":":
        return value in wanted
    return COMPARE[term.op](value, wanted[0])


def _date(term: Term, date: str) -> bool:
    if term.op == ":" and not term.span:
        return date.startswith(term.values)
    if term.span:
        return term.values[0] <= date and (date[: len(term.values[1])] <= term.values[1])
    return _compares(term, date[: len(term.values[0])], list(term.values))


def expected(all_known: list[MadeConversation], query: ListQuery, rule: DecisionRule) -> list[int]:
    """Ids in order, evaluated plainly."""

    def value(key: int) -> Any:
        it = all_known[key - 1]
        return {
            "id": key, "name": it.name, "source": it.label, "date": it.date, "p": it.p,
            "success": it.success,
            "turns": turns(it), "messages": len(it.texts), "length": sum(map(len, it.texts)),
            "succeeded": it.verdict, "tag": min(it.tags, default=None), "trouble": None,
        }[query.sort]  # fmt: skip

    found = [
        key
        for key, it in enumerate(all_known, start=1)
        if all(holds(term, key, it, rule) != term.negated for term in query.filter.terms)
    ]
    with_value = [key for key in found if value(key) is not None]
    with_value.sort(key=value)
    if query.descending:
        with_value.reverse()
    return with_value + [key for key in found if value(key) is None]


rules = st.sampled_from([DecisionRule(), DecisionRule(0.4, 0.0), DecisionRule(0.0, 1.0)])
queries = st.builds(ListQuery, filters, st.sampled_from(get_args(SortKey)), st.booleans())


def make(
    project: Project, some: list[MadeConversation], rule: DecisionRule
) -> list[MadeConversation]:
    """Fills a project with these conversations in this order; returns them as stored, without duplicates."""
    made = []
    for nth, it in enumerate(some):
        texts = (f"{it.texts[0]} n{nth}", *it.texts[1:])
        fill(project, [talk(it.name, *texts, created_at=it.date)], it.label)
        score = None if it.p is None else normalized(it.p, 1 - it.p)
        made.append(replace(it, texts=texts, score=score if it.score != NO_SCORE else NO_SCORE))
    give_scores(project, {n: it.p for n, it in enumerate(some, start=1) if it.score != NO_SCORE})
    project.write(lambda conn: score_sets.put_rule(conn, rule))
    triage = TriageService(project)
    for key, it in enumerate(made, start=1):
        if it.verdict is not None:
            triage.give(key, Verdict.UNSURE)
            triage.give(key, it.verdict)
        if it.note:
            triage.note(key, it.note)
        for tag in it.tags:
            mark(project, key, "tag", tag)
        mark(project, key, "tag", "gone")
        mark(project, key, "untag", "gone")
    success = [(key, it.success, key) for key, it in enumerate(made, start=1)]
    odd = [(key, it.proposed, key) for key, it in enumerate(made, start=1)]
    for subject, values in ((SUCCEEDED, success), ("odd", odd)):
        found = ExampleProbe(subject, 2, None)
        project.write(partial(example_probes.put, probe=found, values=values))
    return made


@settings(max_examples=50, deadline=None)
@given(
    some=st.lists(known, max_size=9), rule=rules, asked=st.lists(queries, min_size=20, max_size=20)
)
def test_against_a_plain_evaluation(
    some: list[MadeConversation], rule: DecisionRule, asked: list[ListQuery]
) -> None:
    """Matches, order, counts and histogram equal those of a plain evaluation of every row."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Project.open(Path(folder) / "p.wb", create=True) as project,
    ):
        made = make(project, some, rule)
        store = ConversationService(project)
        for query in asked:
            ids = expected(made, query, rule)
            assert list(store.ids(query)) == ids, query
            rows = store.rows(ids)
            assert [row.success for row in rows] == [made[key - 1].success for key in ids]
            counts = store.counts(query)
            states = Counter(row.state for row in rows)
            assert states == Counter(rule.state(made[key - 1].p) for key in ids)
            assert (counts.conversations, counts.messages, counts.turns, counts.verdicts) == (
                len(rows),
                sum(row.messages for row in rows),
                sum(row.turns for row in rows),
                sum(row.verdict is not None for row in rows),
            )
            assert counts.sources == len({row.source for row in rows})
            assert [counts.complete, counts.incomplete, counts.borderline, counts.unscored] == [
                states[state] for state in STATES
            ]
        bins = Counter(min(int(each.p * 5), 4) for each in made if each.p is not None)
        assert store.histogram(5) == tuple(bins[place] for place in range(5))


class TestDraw:
    def test_a_share_at_random(self, project: Project) -> None:
        """A random share is about as large as asked, in any part of the order; its negation is the rest."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(1000)])
        store = ConversationService(project)
        drawn = list(store.ids(ListQuery(parse_filter("draw<.2"))))

        assert 160 <= len(drawn) <= 240
        assert all(sum(low < key <= low + 500 for key in drawn) >= 60 for low in (0, 500))
        rest = store.ids(ListQuery(parse_filter("draw>=.2")))
        assert sorted([*drawn, *rest]) == list(range(1, 1001))

    def test_it_stays(self, project: Project) -> None:
        """A conversation that is in a share stays in it when others are imported, and in every larger share."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(50)])
        store = ConversationService(project)
        before = set(store.ids(ListQuery(parse_filter("draw<.3"))))
        fill(project, [talk(f"more {n}", f"more {n}") for n in range(50)], "b.jsonl")

        after = set(store.ids(ListQuery(parse_filter("draw<.3"))))
        assert before == {key for key in after if key <= 50}
        assert after < set(store.ids(ListQuery(parse_filter("draw<.6"))))


class TestIdSet:
    @given(st.lists(st.sets(st.integers(1, 30)), min_size=2, max_size=2))
    def test_is_a_set(self, some: list[set[int]]) -> None:
        """The set of ids behaves as Python's own sets."""
        every = IdSet(b"\0" + b"\1" * 30)
        left, right = (every.of(ids) for ids in some)
        for found, wanted in [
            (left & right, some[0] & some[1]),
            (left | right, some[0] | some[1]),
            (left - right, some[0] - some[1]),
            (every - left, set(range(1, 31)) - some[0]),
        ]:
            assert list(found.ascending()) == sorted(wanted)
            assert len(found) == len(wanted)
