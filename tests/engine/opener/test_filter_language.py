"""Properties of the whole filter language, on a small project with signs, several scripts and metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.base.conversation import Verdict
from engine.base.errors import FilterError, WorkbenchError
from engine.conversations.filter_fields import FIELDS, FIELDS_WITH_KEYS
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from tests.engine.project.support import fill, give_scores, mark, talk, with_tools

TEXTS = (
    "Where is my refund?",
    "I write C++ and C#, don’t you",
    "so sad \N{CRYING FACE}",
    "再见。好吗?",
    "(see above) -- really; 100% of $50",
    "Café, über e-mail",
    "c plus nothing",
    "你好 c++",
)
SIGNS = (
    *("?", "(", '"("', "\N{CRYING FACE}", "。", '"--"', '"-"', "%", '"? !"', "…", "+", "'", "*", "."),
    "\N{ZERO WIDTH JOINER}",
)  # fmt: skip
WORDS = (
    *("refund", "refund?", "refund!", "c++", "C#", "don't", '"e-mail"', "cafe,", "再见。", "好", "c"),
    *('"c"', "$50", "ok", '"re"', "(see", "zrh", '"{"'),
)  # fmt: skip
VALUES = (
    *("any", "none", "novel", "1", ".5", "2026", "complete", "incomplete", "new", "odd", "odd?", "?"),
    *('"("', "*", "b*", "book", "2026-03", "\N{CRYING FACE}", "a", "..", "0..1", "verdict", "m", '" "'),
)  # fmt: skip

fields = st.sampled_from(
    [*(f for f in FIELDS if f not in FIELDS_WITH_KEYS), "meta.n", "meta.model", "truth.reward"]
)
values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
on_fields = st.tuples(fields, st.sampled_from((":", "<", ">=")), values.map(",".join)).map("".join)
terms = st.sampled_from([*SIGNS, *WORDS]) | on_fields
Matching = Callable[[str], frozenset[int] | None]


@pytest.fixture(scope="module")
def matching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matching]:
    """The ids that a filter selects in a project where conversations have scores, verdicts, tags and metadata; None
    where the filter is refused."""
    path = tmp_path_factory.mktemp("language") / "p.wb"
    with Project.open(path, create=True) as project:
        talks = [
            talk(f"c-{n}", text, "ok", created_at="2026-03-01") for n, text in enumerate(TEXTS)
        ]
        fill(project, [*talks, with_tools("t")], "a?.jsonl")
        give_scores(project, {1: 0.9, 2: 0.1, 3: 0.5, 4: None})
        TriageService(project).give(1, Verdict.YES)
        TriageService(project).note(2, "?")
        mark(project, 2, "tag", "odd")
        mark(project, 3, "tag", "?")
        store = ConversationService(project)

        @cache
        def ids(text: str) -> frozenset[int] | None:
            try:
                return frozenset(store.ids(ListQuery(parse_filter(text))))
            except WorkbenchError:
                return None

        yield ids


@settings(deadline=None)
@given(st.lists(terms, min_size=1, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_a_line_holds_where_each_term_holds(
    matching: Matching, some: list[str], negated: list[bool]
) -> None:
    """A line selects exactly what all of its terms select, so a term that is added never widens it."""
    written = ["-" * sign + term for sign, term in zip(negated, some, strict=False)]
    each = [matching(term) for term in written]
    found = [ids for ids in each if ids is not None]
    assume(len(found) == len(each))

    assert matching(" ".join(written)) == frozenset.intersection(*found)


@settings(deadline=None)
@given(terms)
def test_a_negated_term_is_the_complement(matching: Matching, term: str) -> None:
    """A term and its negation divide the project; both are refused or neither."""
    everything, found, rest = matching(""), matching(term), matching(f"-{term}")

    assert (found is None) == (rest is None)
    if everything is not None and found is not None:
        assert rest == everything - found


@settings(deadline=None)
@given(fields, values)
def test_alternatives_are_the_union(matching: Matching, field: str, some: list[str]) -> None:
    """A field with several values selects what each of them selects."""
    each = [matching(f"{field}:{value}") for value in some if ".." not in value]
    found = [ids for ids in each if ids is not None]
    together = matching(f"{field}:{','.join(some)}")
    assume(together is not None and len(found) == len(some))

    assert together == frozenset.union(*found)


@settings(deadline=None)
@given(
    st.text(st.sampled_from("a?-\" ('+.:\0\N{ZERO WIDTH JOINER}\N{CRYING FACE}好。é"), max_size=12)
)
def test_no_part_of_a_line_is_lost(matching: Matching, text: str) -> None:
    """Any line is refused, or each of its terms has an effect of its own: it selects what has its text."""
    try:
        read = parse_filter(text)
    except FilterError:
        return
    assert bool(read) == bool(text.strip())
    each = [matching(str(term)) for term in read.terms]
    if None in each:  # the project has no such question
        return
    found = [ids for ids in each if ids is not None]
    assert len(found) == len(read.terms)
    everything = matching("")
    assert everything is not None
    assert matching(text) == everything.intersection(*found)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("?", {1, 4}),
        ('"("', {5}),
        ("\N{CRYING FACE}", {3}),
        ("。", {4}),
        ('"--"', {5}),
        ("\N{THUMBS UP SIGN}", set()),
        ("c++", {2, 8}),
        ("refund!", set()),
        ("REFUND?", {1}),
        ("don't", {2}),
        ("don’t", {2}),
        ("'", {2}),
        ("’", {2}),
        ("‑", {5, 6}),
        ("cafe,", {6}),
        ("再见。", {4}),
        ("再见!", set()),
        ('"{"', {9}),
        ("$50", {5}),
        ("-? -c++ name:c-", {3, 5, 6, 7}),
    ],
)
def test_signs_are_searched_as_they_are_written(
    matching: Matching, text: str, wanted: set[int]
) -> None:
    """Signs alone, beside words and between Chinese characters are found where they stand, and nowhere else."""
    assert matching(text) == frozenset(wanted)
