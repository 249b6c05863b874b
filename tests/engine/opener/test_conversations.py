"""Finding, listing, counting and reading conversations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.conversation import State, Verdict, count_turns
from engine.base.errors import WorkbenchError
from engine.conversations.filter_fields import WORD_FIELD
from engine.conversations.filters import Filter, ListQuery, Term, parse_filter
from engine.conversations.tables import conversations, sources
from engine.conversations.tables.conversations import truth_by_conversation
from engine.formats.records import Rejected
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from tests.engine.project.support import fill, give_scores, talk, with_tools


@pytest.fixture
def store(project: Project) -> ConversationService:
    """Six conversations of two sources, four of them scored, one with a verdict."""
    fill(
        project,
        [
            talk("b", "I want a red bicycle", "Sold!"),
            talk("a", "Where is my order?", "On its way", "Thanks", "Welcome"),
            talk("c", 'He said "hello" AND left', "ok"),
        ],
    )
    fill(
        project,
        [talk("d", "red wine"), with_tools("t"), talk("e", "bicycle bell", "a red one?", "yes")],
        "b.jsonl",
    )
    give_scores(project, {1: 0.9, 2: 0.2, 3: 0.55, 4: None})
    TriageService(project).give(2, Verdict.NO)
    return ConversationService(project)


class TestFinding:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("red", [1, 4, 6]),
            ("red bicycle", [1, 6]),
            ("RED bic", [1, 6]),
            ("red source:b.jsonl state:unscored", [4, 6]),
            ("ZRH", [5]),
            ("zurich", [5]),
            ('"hello"', [3]),
            ("AND", [3]),
            ("hello OR red", []),
            ("  ", [1, 2, 3, 4, 5, 6]),
            ('"*("', []),
        ],
    )
    def test_words(self, store: ConversationService, text: str, expected: list[int]) -> None:
        """All words of a search must occur, each as the beginning of a word."""
        assert list(store.ids(ListQuery(parse_filter(text)))) == expected

    def test_too_many_words(self, store: ConversationService) -> None:
        """A search of a whole text is refused with a hint, not passed to SQL."""
        with pytest.raises(WorkbenchError, match="more than 50 words") as caught:
            store.ids(ListQuery(parse_filter("word " * 51)))
        assert caught.value.hint


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConversationService]:
    """One project for many searches."""
    with Project.open(tmp_path_factory.mktemp("s") / "p.wb", create=True) as project:
        fill(project, [talk("a", "hello * NEAR(x) col:y \"q\" 'z' ^ - +"), talk("b", "日本語 ok")])
        yield ConversationService(project)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(st.characters(), max_size=40)
    | st.text(st.sampled_from("\"*()^:-+{}'\\ ANDORNEARTab\0\ud800日é;%_"), max_size=40)
)
def test_no_search_text_is_an_sql_error(searched: ConversationService, text: str) -> None:
    """Any search text finds some conversations or none, without an SQL error."""
    words = tuple(Term(WORD_FIELD, ":", (word,)) for word in text.split())
    found = searched.ids(ListQuery(Filter(words)))
    assert set(found) <= {1, 2}


class TestRows:
    def test_what_a_row_says(self, store: ConversationService) -> None:
        """A row has the figures of its conversation, its score, its state and its verdict."""
        row = store.rows([2])[0]
        assert (row.external_id, row.source, row.opening) == ("a", "a.jsonl", "Where is my order?")
        assert (row.messages, row.turns, row.chars) == (4, 2, 18 + 10 + 6 + 7)
        assert (row.p_end, row.state, row.verdict) == (0.2, State.INCOMPLETE, Verdict.NO)
        unscored = store.rows([4])[0]
        assert (unscored.p_end, unscored.state, unscored.reason) == (
            None,
            State.UNSCORED,
            "too long",
        )

    def test_messages_and_bytes_come_back_exactly(self, store: ConversationService) -> None:
        """Every field of every message, the original bytes and the leaks are as imported."""
        record = with_tools("t")
        messages = record.conversation.messages
        assert store.original(5) == record.raw
        with store._project.reading() as conn:
            assert conversations.conversations_for(conn, [5, 1, 77])[1] == (5, messages)
            ((_, truth),) = truth_by_conversation(conn)
            assert truth == {"reward": 1.0}
            *_, (_, _, whole) = list(conversations.export_conversations(conn))[:5]
            assert whole == record.conversation
        rows = store.messages(5)
        assert [row.index for row in rows] == list(range(6))
        assert [row.turn for row in rows] == [1, 2, 2, 2, 2, 3]
        assert rows[-1].turn == count_turns(messages)
        assert rows[2].tool_calls == messages[2].tool_calls
        assert (rows[5].hidden, rows[5].model_view) == (True, "")
        assert [(leak.message, leak.rule) for leak in store.leaks(5)] == [
            (4, "stop-token"),
            (None, "truth-field"),
        ]


class TestCounts:
    def test_of_the_project(self, project: Project, store: ConversationService) -> None:
        """The project's counts include duplicates, quarantine and leaks."""
        fill(project, [talk("twin", "red wine")])
        project.write(
            lambda conn: sources.put_rejected(
                conn, 2, [Rejected(1, b"x", "r"), Rejected(2, b"x", "r")]
            )
        )
        project.write(lambda conn: sources.put_rejected(conn, 2, [Rejected(1, b"x", "r")]))
        counts = store.counts()
        assert (counts.conversations, counts.sources, counts.messages) == (
            6,
            2,
            2 + 4 + 2 + 1 + 6 + 3,
        )
        assert (counts.duplicates, counts.quarantined, counts.leaks) == (1, 2, 2)
        assert (counts.complete, counts.incomplete, counts.borderline) == (1, 1, 1)
        assert (counts.unscored, counts.scored, counts.verdicts) == (3, 3, 1)
        assert store.counts(ListQuery(parse_filter("source:a.jsonl"))).quarantined == 2


def test_reads_do_not_block_writes(project: Project) -> None:
    """A long read sees one state of the file while a writer commits."""
    fill(project, [talk(str(n), f"hi {n}") for n in range(450)])
    reading = project.read(conversations.export_conversations)
    assert next(reading)[0] == 1
    fill(project, [talk("late", "late")], "b.jsonl")
    assert len(list(reading)) == 449
    with project.reading() as conn:
        assert conn.execute("SELECT count(*) FROM conversation").fetchone() == (451,)
