"""Goal texts, vectors, clusterings and figures of groups in the project file."""

from __future__ import annotations

import sqlite3
from operator import methodcaller
from typing import Any

import numpy as np

from engine.base.conversation import SUCCEEDED, Conversation, Message, Verdict
from engine.completeness.records import StateCounts
from engine.goals.records import ClusterName, PairAnswer
from engine.goals.tables import clusterings, measurements, vectors
from engine.goals.tables import decisions as goal_answers
from engine.goals.tables import texts as goals
from engine.goals.tables.decisions import AnswerEntry
from engine.goals.tables.texts import NOT_EXPLAINED, NOTHING_WRITTEN, GoalEntry, TextSource
from engine.goals.tables.vectors import VectorConfig
from engine.project.project import Project
from engine.questions.question import NOTE
from engine.questions.records import Answerer, MachineAnswer, NewAnswer
from engine.questions.tables import answers, machine_answers
from tests.engine.goals.clustered import clustering, conversations_with_vectors, run_of
from tests.engine.project.support import fill, give_scores, record, talk


def add(project: Project, labels: list[int | None], run_id: int, config: str = "clusters") -> int:
    made: dict[str, Any] = clustering(labels, run_id, config)
    return project.write(lambda conn: clusterings.add(conn, **made))


def read_texts(conn: sqlite3.Connection, ids: list[int], kind: str) -> dict[int, GoalEntry]:
    """The texts of conversations by their ids."""
    return {entry.conversation_id: entry for entry in TextSource(kind).read(conn, ids)}


class TestTexts:
    def test_failures_are_forgotten(self, project: Project) -> None:
        """Failures of one configuration can be taken back, so that the model is asked about them again: of summaries
        with what says that they have no vector, of pairs those that the model could not be asked about, which cost
        nothing."""
        fill(project, [talk(name, name) for name in "ab"])

        def work(conn: sqlite3.Connection) -> None:
            run_id = run_of(conn)
            goals.register(conn, "one", "toy")
            goals.add(conn, "one", run_id, [GoalEntry(1, "Pay"), GoalEntry(2, "", "refused")])
            config = VectorConfig("v", "summary", "one", "tfidf", "f", 1, None)
            vectors.register(conn, config)
            row_of_1 = np.ones((1, 1), dtype="<f4").tobytes()
            vectors.add(conn, "v", run_id, [1], row_of_1, {2: "refused"})
            answers = [
                AnswerEntry(sides, PairAnswer(model="toy"), calls, 0.0)
                for sides, calls in (("a", 1), ("b", 0))
            ]
            goal_answers.add_answers(conn, "one", run_id, answers[1:])
            assert goal_answers.answer_cost(conn, "one") is None
            goal_answers.add_answers(conn, "one", run_id, answers[:1])
            assert goal_answers.answer_cost(conn, "one") == (1, 0)
            goals.forget_failures(conn, "one")
            goal_answers.forget_failures(conn, "one")

        project.write(work)
        with project.reading() as conn:
            assert list(goals.ids_without_summary(conn, "one")) == [2]
            assert list(vectors.ids_without_vector(conn, "v")) == [2]
            assert list(goal_answers.answers(conn, "one")) == ["a"]

    def test_what_the_user_wrote(self, project: Project) -> None:
        """The goal text is the user's first message with a text, or all of them, without what the leak guard hid or
        changed; without user text there is a reason.
        """
        messages = (
            Message("system", "You help."),
            Message("user", "  "),
            Message("user", "Pay my bill ###STOP###", model_view="Pay my bill"),
            Message("assistant", "Done."),
            Message("user", "gold", hidden=True),
            Message("user", "Thanks"),
        )
        silent = (Message("assistant", "Hello?"),)
        fill(project, [record(Conversation("a", messages)), record(Conversation("b", silent))])
        with project.reading() as conn:
            assert read_texts(conn, [2, 1], "first-user") == {
                2: GoalEntry(2, "", NOTHING_WRITTEN),
                1: GoalEntry(1, "Pay my bill"),
            }
            assert read_texts(conn, [1], "all-user")[1].text == "Pay my bill\nThanks"
            assert read_texts(conn, [1, 2], "all") == {
                1: GoalEntry(1, "Pay my bill\nDone.\nThanks"),
                2: GoalEntry(2, "", NOTHING_WRITTEN),
            }

    def test_how_the_assistant_failed_is_no_part_of_a_goal(self, project: Project) -> None:
        """Where a third of the answers refuse, or two and a third repeat one, or one repeats and one refuses, these and
        the replies to them are left out of the text of both sides, so that what failed is not clustered apart."""
        assert goals.failed_messages({"refused": [1], "repeats": [3]}) == {1, 3}
        fill(project, [talk("a", "Book a room.", "In Rome?", "Yes.", "Sorry, no.", "Why?", "Bye.")])
        whole, rest = "Yes.\nSorry, no.\nWhy?\n", "Yes.\n"
        for sign, share, messages, text in (
            ("refused", 0.3, [3], whole),
            ("refused", 0.4, [3], rest),
            ("repeats", 0.4, [3], whole),
            ("repeats", 0.4, [1, 3], ""),
        ):
            project.write(methodcaller("execute", "DELETE FROM sign"))
            row = f"INSERT INTO sign VALUES (1, '{sign}', {share}, '{messages}', '', 1.0)"
            project.write(methodcaller("execute", row))
            with project.reading() as conn:
                (entry,) = read_texts(conn, [1], "all").values()
                start = "In Rome?\n" if text else ""
                assert entry.text == f"Book a room.\n{start}{text}Bye."

    def test_why_a_question_was_answered_so(self, project: Project) -> None:
        """An explanation is the note of the person who answered, else what a machine said, else the sentences that it
        cites; it is of answers yes, of `succeeded` of answers no, and of none that a person corrected."""
        refusal = "Hm. I can't cancel it. Sorry!"
        fill(
            project, [talk(name, f"{name}, please.", refusal, "Why?", "Rules.") for name in "abcde"]
        )

        def work(conn: sqlite3.Connection) -> None:
            run_id = run_of(conn)
            given = [
                (1, "yes", ""),
                (2, "yes", "It said so."),
                (3, "no", "It did not."),
                (4, "yes", ""),
            ]
            cites = ((1, 6, 11), (3, 0, 0))
            rows = [MachineAnswer(key, value, None, text, cites) for key, value, text in given]
            pattern = Answerer("p", "refused", "pattern", "pattern")
            machine_answers.put(conn, pattern, run_id, rows)
            answers.give_all(conn, [NewAnswer(4, "refused", "no"), NewAnswer(5, "refused", "yes")])
            for key, verdict, note in ((5, Verdict.NO, "too late"), (1, Verdict.YES, "fine")):
                answers.give_all(
                    conn, [NewAnswer(key, NOTE, note), NewAnswer(key, SUCCEEDED, verdict)]
                )

        project.write(work)
        with project.reading() as conn:
            explained = read_texts(conn, [1, 2, 3, 4, 5], "explanation:refused")
            assert {key: entry.text for key, entry in explained.items() if not entry.reason} == {
                1: "I can't cancel it.\nRules.", 2: "It said so.", 5: "too late",
            }  # fmt: skip
            failed = read_texts(conn, [1, 5], "explanation:succeeded")
            assert (failed[5].text, failed[1].reason) == ("too late", NOT_EXPLAINED)

    def test_how_conversations_with_trouble_end(self, project: Project) -> None:
        """The last exchange begins with the last message of the user; without a sign of trouble there is none, nor are
        there remaining tasks that no run wrote."""
        fill(
            project,
            [talk("a", "Pay.", "Done."), talk("b", "Pay.", "No.", "Pay now.", "I am unable to.")],
        )
        project.write(
            lambda conn: conn.execute("INSERT INTO sign VALUES (2, 'refused', 1, '[3]', '', 1.0)")
        )
        with project.reading() as conn:
            last = read_texts(conn, [1, 2], "last-exchange")
            assert (last[1].reason, last[2].text) == (NOT_EXPLAINED, "Pay now.\nI am unable to.")
            assert read_texts(conn, [1], "remaining")[1].reason == NOT_EXPLAINED


class TestClusterings:
    def test_labels(self, project: Project) -> None:
        """Labels are those of the configuration that was registered last; each has its own missing clusters; a cluster
        may have a reason instead.
        """
        run_id = conversations_with_vectors(project, 4)
        key = add(project, [0, 1, 1], run_id)

        def label(config: str, names: dict[int, ClusterName]) -> None:
            def work(conn: sqlite3.Connection) -> None:
                clusterings.show_labels(conn, key, config)
                clusterings.add_labels(conn, key, config, run_id, names)

            project.write(work)

        label("a", {0: ClusterName("Pay", "They pay."), 1: ClusterName("", "", "it rambled")})
        with project.reading() as conn:
            assert [c.label for c in clusterings.clusters(conn, key)] == ["Pay", ""]
            before = clusterings.labels_version(conn, key)
        project.write(lambda conn: clusterings.forget_failures(conn, key, "a"))
        run_id = project.write(run_of)
        label("a", {1: ClusterName("Ask", "They ask.")})
        assert project.read(clusterings.labels_version, key) != before
        label("b", {1: ClusterName("Buy", "They buy.")})
        with project.reading() as conn:
            assert [c.label for c in clusterings.clusters(conn, key)] == ["", "Buy"]
            assert list(clusterings.clusters_without_label(conn, key, "b")) == [0]
            assert list(clusterings.clusters_without_label(conn, key, "a")) == []


class TestFigures:
    def test_states_and_leaves(self, project: Project) -> None:
        """One query gives the states of every group; a member without a score is unscored, outliers do not count, and a
        borderline one above the threshold counts as above it."""
        conversations_with_vectors(project, 6)
        give_scores(project, {1: 0.9, 2: 0.1, 3: 0.52, 4: 0.9, 5: None})
        groups = b"".join(n.to_bytes(2, "big") for n in [0, 1, 1, 2, 0, 2, 1])
        with project.reading() as conn:
            found = measurements.states(conn, groups, {1: 3, 2: 2})
            assert found == {
                1: StateCounts(1, 1, 0, 1, above=1),
                2: StateCounts(0, 0, 1, 1, above=1),
            }
            assert measurements.scored(conn, "config-a") == 5

    def test_months(self, project: Project) -> None:
        """Sizes are by month; a conversation without a date is in none."""
        conversations_with_vectors(project, 4)
        fill(project, [talk("later", "one more")], "b.jsonl")
        give_scores(project, {1: 0.9})
        groups = b"".join(n.to_bytes(2, "big") for n in [0, 1, 1, 2, 1])
        assert project.read(measurements.months, groups) == [
            ("2026-01", 2, 1, StateCounts(unscored=1)),
            ("2026-02", 1, 2, StateCounts(complete=1, unscored=1, above=1)),
            ("2026-03", 1, 1, StateCounts(unscored=1)),
        ]
