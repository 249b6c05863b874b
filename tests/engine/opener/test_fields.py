"""Fields of the filter language against a plain evaluation of what was stored."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message, ToolCall, Verdict
from engine.base.errors import WorkbenchError
from engine.completeness.records import RemainingTasks
from engine.completeness.tables import scores
from engine.conversations.filter_fields import FIELDS
from engine.conversations.filters import Filter, ListQuery, parse_filter
from engine.conversations.tables import facets
from engine.formats.records import Parsed
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.questions.records import NewAnswer
from engine.questions.service.triage import TriageService
from engine.questions.tables.answers import append, undo
from engine.results.comparison.measures import conversations_by_value
from engine.trees import tables as trees
from engine.trees.records import TreeConfig, TreeRow
from engine.trees.tables import TreeEntry
from tests.engine.project.support import fill, give_scores, talk
from tests.screens.goals.goal_project import clustered, group_id

CHANNELS = ("web", "Phone", None, "e-mail, old")
MODELS = ("gpt-4o", "gpt-4", "vicuna")
TOOLS = ("book", "cancel", "find")
COUNT = 24


def conversation(n: int) -> Conversation:
    """One of `COUNT` conversations that differ in all that filters ask for."""
    facts = json.dumps({"model": MODELS[n % 3]}) if n % 4 else None
    messages = [Message("user", f"number {n}"), Message("assistant", "well", facts=facts)]
    if n % 2:
        call = ToolCall(TOOLS[n % 3], "{}", "c")
        messages.append(Message("assistant", "", tool_calls=(call,)))
        messages.append(Message("tool", "ok", name=TOOLS[n % 3], tool_call_id="c"))
    channel = CHANNELS[n % 4]
    meta = {
        "cost": n / 4,
        "user": {"plan name": "pro" if n % 5 else "free"},
        "labels": ["a", n % 2 == 0],
    }
    if channel is not None:
        meta["channel"] = channel
    if n % 4 == 0:
        meta["model"] = "from-meta"
    truth = {"reward": n % 3 / 2, "goal": f"goal {n % 4}"} if n % 3 else None
    return Conversation(
        f"c{n}", tuple(messages), meta, truth, f"2026-{9 + n % 3:02}-{1 + n:02}T10:00:00Z"
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The conversations with two sets of scores, remaining tasks, trees and verdicts."""
    with Project.open(tmp_path_factory.mktemp("fields") / "p.wb", create=True) as made:
        fill(made, [Parsed(None, b"%d" % n, conversation(n)) for n in range(1, COUNT + 1)])
        give_scores(made, {n: (n * 7 % COUNT) / COUNT for n in range(1, COUNT)}, "other")
        give_scores(made, {n: n / COUNT for n in range(1, COUNT)})
        tasks = [RemainingTasks(n, f"Refund {n}" if n % 2 else "") for n in range(1, 9)]
        made.write(lambda conn: scores.add_remaining(conn, "r", "config-a", 1, tasks))
        made.write(_grow)
        triage = TriageService(made)
        for n in range(1, COUNT, 3):
            triage.give(n, list(Verdict)[n % 3 if n % 2 else 0])
        yield made


def _grow(conn: sqlite3.Connection) -> None:
    trees.register(conn, TreeConfig("t", 0.1, "path", "every", "tiny"))
    trees.add(
        conn,
        "t",
        [
            TreeEntry(
                TreeRow(n, step, "t", 1, None, 3, None, n + step, 1, 3, -n / step, 0.5, 0.5, 0,
                        n / 5 + step, 0.5, -2.0, 4, 4, 0.1, 0.1, "path", "every", "tiny",
                        None),
                {"nodes": 1},
            )
            for n in range(1, 13)
            for step in (1, 2)
        ],
    )  # fmt: skip


def matching(project: Project, text: str) -> list[int]:
    return list(ConversationService(project).ids(ListQuery(parse_filter(text))))


def plain(holds: Callable[[Conversation], bool]) -> list[int]:
    return [n for n in range(1, COUNT + 1) if holds(conversation(n))]


def calls(one: Conversation) -> set[str]:
    return {call.name for message in one.messages for call in message.tool_calls}


def models(one: Conversation) -> set[str]:
    named = {json.loads(m.facts)["model"] for m in one.messages if m.facts}
    return named or ({one.meta["model"]} if "model" in one.meta else set())


STORED: dict[str, Callable[[Conversation], bool]] = {
    "tool:book": lambda c: "book" in calls(c),
    "tool:BOOK,find": lambda c: bool(calls(c) & {"book", "find"}),
    "tool:none": lambda c: not calls(c),
    "model:gpt-4": lambda c: "gpt-4" in models(c),
    "model:gpt-4*": lambda c: any(name.startswith("gpt-4") for name in models(c)),
    "-model:from-meta": lambda c: "from-meta" not in models(c),
    "meta.channel:phone": lambda c: c.meta.get("channel") == "Phone",
    'meta.channel:"e-mail, old",web': lambda c: c.meta.get("channel") in ("e-mail, old", "web"),
    "meta.channel:none": lambda c: "channel" not in c.meta,
    "meta.channel:any": lambda c: "channel" in c.meta,
    "meta.cost>2.5": lambda c: c.meta["cost"] > 2.5,
    "meta.cost:2": lambda c: c.meta["cost"] == 2,
    "meta.cost:1..2.25": lambda c: 1 <= c.meta["cost"] <= 2.25,
    'meta."user.plan name":free': lambda c: c.meta["user"]["plan name"] == "free",
    "meta.labels:true": lambda c: True in c.meta["labels"],
    "truth.reward<=.5": lambda c: c.truth is not None and c.truth["reward"] <= 0.5,
    'truth.goal:"goal 1"': lambda c: c.truth is not None and c.truth["goal"] == "goal 1",
    "truth.goal:goal*": lambda c: c.truth is not None,
    "since:2026-10": lambda c: str(c.created_at) >= "2026-10",
    "until:2026-10": lambda c: str(c.created_at) < "2026-11",
    "since:2026-10 until:2026-10": lambda c: str(c.created_at).startswith("2026-10"),
    "until:2026-10-08": lambda c: str(c.created_at) < "2026-10-09",
}


def test_the_store_knows_every_field(project: Project) -> None:
    """A term on any field and its negation match all conversations between them; terms on goals, reasons and
    likeness say that nothing was clustered yet."""
    values = {"date": "2026-10", "number": ".5", "text": "x", "anything": "x"}
    for field in FIELDS.values():
        name = {"meta": "meta.channel", "truth": "truth.goal", "answer": "answer.note"}.get(
            field.name, field.name
        )
        value = (field.choices or [values.get(field.kind)])[0]
        text = f"{name}<{value}" if field.kind == "number" else f"{name}:{value}"
        if name in ("goal", "also", "share", "theme", "reason", "like"):
            with pytest.raises(WorkbenchError, match="clustered yet"):
                matching(project, text)
            continue
        found = [*matching(project, text), *matching(project, f"-{text}")]
        assert sorted(found) == [*range(1, COUNT + 1)], text


@pytest.mark.parametrize("text", STORED)
def test_what_was_imported(project: Project, text: str) -> None:
    """Tools, models, metadata, truth and dates are found as a plain evaluation of the records finds them."""
    found = matching(project, text)
    assert found == plain(STORED[text])
    assert 0 < len(found) < COUNT


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("remaining:REFUND", [1, 3, 5, 7]),
        ("remaining:any", [1, 3, 5, 7]),
        ("remaining:none turns:1 p<.35", [2, 4, 6, 8]),
        ("leaves>=10", [n for n in range(1, 13) if n + 2 >= 10]),
        ("max_logprob<-5", [n for n in range(1, 13) if -n < -5]),
        ("max_logprob:-5..-3", [3, 4, 5]),
        ("entropy<3", [n for n in range(1, 13) if n / 5 + 2 < 3]),
    ],
)
def test_what_was_computed(project: Project, text: str, wanted: list[int]) -> None:
    """Remaining tasks and the figures of trees: the most leaves and bits, and the lowest best log-probability."""
    assert matching(project, text) == wanted


def state(p: float | None) -> str:
    return "unscored" if p is None else "?" if abs(p - 0.5) < 0.1 else "yn"[p < 0.5]


def test_disagreement(project: Project) -> None:
    """A verdict against the score, and one set of scores against another; borderline and unsure disagree with none."""
    given = {row.id: row.verdict for row in ConversationService(project).rows(range(1, COUNT + 1))}
    opposite = {Verdict.YES: "n", Verdict.NO: "y"}
    one = {n: state(n / COUNT if n < COUNT else None) for n in range(1, COUNT + 1)}
    two = {n: state((n * 7 % COUNT) / COUNT if n < COUNT else None) for n in range(1, COUNT + 1)}
    verdicts = [n for n, verdict in given.items() if verdict and opposite.get(verdict) == one[n]]
    others = [n for n in one if {one[n], two[n]} == {"y", "n"}]
    assert verdicts
    assert others
    assert matching(project, "disagreement:verdict") == verdicts
    assert matching(project, "disagreement:scores") == others
    assert matching(project, "disagreement:people annotator:any") == []
    for name, verdict in (("ann", Verdict.YES), ("bob", Verdict.NO)):
        project.write(lambda conn, v=verdict, n=name: second(conn, v, n))  # type: ignore[misc]
    assert matching(project, "disagreement:people") == [COUNT - 1, COUNT]
    assert matching(project, "annotator:bob") == [COUNT - 1, COUNT]
    project.write(lambda conn: [undo(conn) for _ in range(4)])
    assert matching(project, "annotator:any") == []


def second(conn: sqlite3.Connection, verdict: Verdict, name: str) -> None:
    """Somebody judges the last two conversations blind."""
    for n in (COUNT - 1, COUNT):
        append(conn, [NewAnswer(n, "succeeded", verdict, name, blind=True)])


def test_a_field_that_no_conversation_has(project: Project) -> None:
    """The error names the fields that are near."""
    with pytest.raises(WorkbenchError) as caught:
        matching(project, "meta.chanel:web")
    assert "meta.channel" in caught.value.hint


def test_dates_that_are_in_the_metadata(tmp_path: Path) -> None:
    """Without a time of conversations, the error names the fields of the metadata that hold dates, and no others."""
    known = [{"visit": "2026-03-14", "plan": "web"}, {"visit": "2026-04-01", "at": 1773446400}]
    with Project.open(tmp_path / "dates.wb", create=True) as project:
        fill(project, [talk(f"c{n}", f"hi {n}", meta=meta) for n, meta in enumerate(known)])
        with project.reading() as conn, pytest.raises(WorkbenchError) as caught:
            conversations_by_value(conn, "month")

    assert caught.value.message == "No conversation has a date."
    assert "meta.at, meta.visit" in caught.value.hint
    assert "plan" not in caught.value.hint


@pytest.mark.parametrize(
    "field", ["tool", "model", "meta.channel", "truth.goal", "state", "date", "source"]
)
def test_counts_of_values(project: Project, field: str) -> None:
    """The count of a value is the number of conversations that its term and the rest of the filter match."""
    rest = parse_filter("turns:1 p<.8")
    values = ConversationService(project).values(field, rest)
    assert values
    for value, count in values:
        term = parse_filter(f'{field}:"{value}"').terms
        assert len(matching(project, str(Filter((*rest.terms, *term))))) == count


def test_keys_of_the_metadata(project: Project) -> None:
    """The keys are counted too; names of fields within fields are joined by dots."""
    found = dict(ConversationService(project).values("meta", Filter()))
    assert set(found) == {"channel", "cost", "labels", "model", "user.plan name"}
    assert found["channel"] == len(matching(project, "meta.channel:any"))


def test_a_conversation_that_grew(tmp_path: Path) -> None:
    """After an import replaced the text, filters find what it has now and not what it had."""
    first, second = conversation(1), conversation(2)
    messages = (*first.messages, *second.messages)
    longer = Conversation("c1", messages, {"channel": "mail"}, None, first.created_at)
    with Project.open(tmp_path / "p.wb", create=True) as made:
        fill(made, [Parsed(None, b"1", first)])
        assert matching(made, "meta.channel:phone") == [1]
        added = fill(made, [Parsed(None, b"2", longer)])
        assert added.grew == 1
        assert matching(made, "meta.channel:mail model:gpt-4o,vicuna") == [1]
        assert matching(made, "meta.channel:phone") == []
        assert matching(made, "truth.goal:any") == []
        with made.reading() as conn:
            indexed = {
                tuple(row)
                for row in conn.execute(
                    "SELECT key, value FROM facet JOIN conversation_facet ON facet_id = id"
                )
            }
        assert indexed == facets.facets_of(longer.meta, longer.truth, longer.messages)


class TestGoals:
    def test_every_decision_changes_what_is_found(self) -> None:
        """After a merge, a split, a move, a new label and their undoing, `goal:` finds the members that the goals
        screen lists."""
        project = clustered()
        goals, review = project.goals, project.merge_review

        def check() -> None:
            for group in goals.groups():
                members = sorted(row.conversation_id for row in goals.members(group.id))
                assert matching(project.file, f'goal:"{group.label}"') == members
                assert dict(project.conversations.values("goal", Filter()))[group.label] == len(
                    members
                )
            outside = {row.conversation_id for row in goals.members(None)}
            assert outside <= set(matching(project.file, "goal:none"))
            assert not outside & set(matching(project.file, "goal:any"))

        check()
        lamp, back = (
            group_id(project, name) for name in ("Exchange a damaged lamp", "Return a damaged lamp")
        )
        review.merge(review.pair(lamp, back), "Damaged lamps")
        check()
        merged = group_id(project, "Damaged lamps")
        some = [row.conversation_id for row in goals.members(merged)[:3]]
        review.split(merged, [some])
        check()
        review.move([30], group_id(project, "Count files"))
        review.move(some[:1], None)
        review.rename(group_id(project, "Book a flight"), "Buy a ticket")
        check()
        while review.undo() is not None:
            check()

    def test_parts_of_labels_and_labels_that_are_not_there(self) -> None:
        """A part of a label finds all goals with it, an exact label only its own; what no goal has is refused with the
        command that lists them."""
        project = clustered()
        sizes = {group.label: group.size for group in project.goals.groups()}
        both = sizes["Book a flight"] + sizes["Book a table"]
        assert len(matching(project.file, "goal:book")) == both + sizes["Move a table booking"]
        assert len(matching(project.file, 'goal:"book a table"')) == sizes["Book a table"]
        with pytest.raises(WorkbenchError) as caught:
            matching(project.file, 'goal:"buy a flight"')
        assert "goals list" in caught.value.hint


def test_what_a_watch_saw(tmp_path: Path) -> None:
    """`watched` finds past, new and running conversations."""
    with Project.open(tmp_path / "p.wb", create=True) as made:
        fill(made, [Parsed(None, b"%d" % n, conversation(n)) for n in range(1, 9)])
        rows = [(1, 0, 1), (2, 0, 1), (3, 5, 1), (4, 2, 1), (5, 3, 0), (6, 4, 1)]
        made.write(
            lambda conn: conn.executemany(
                "INSERT INTO watched (conversation_id, boundaries, p, grew_at, ended)"
                " VALUES (?, 2, .5, '2026-11-23T12:00:0' || ? || '.000Z', ?)",
                rows,
            )
        )
        assert matching(made, "watched:past") == [1, 2]
        assert matching(made, "watched:new") == [3, 4, 5, 6]
        assert matching(made, "watched:running") == [5]
        assert matching(made, "watched:past,running") == [1, 2, 5]
        assert matching(made, "-watched:past") == [3, 4, 5, 6, 7, 8]
