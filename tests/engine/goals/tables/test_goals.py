"""Goal texts, vectors, clusterings and figures of groups in the project file."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine.base.conversation import Conversation, Message, Verdict
from engine.completeness.records import StateCounts
from engine.goals.records import PairAnswer
from engine.goals.tables import clusterings, measurements, second_goals, vectors
from engine.goals.tables import decisions as goal_answers
from engine.goals.tables import groups as goal_groups
from engine.goals.tables import texts as goals
from engine.goals.tables.clusterings import Assignment, LabelEntry
from engine.goals.tables.decisions import AnswerEntry
from engine.goals.tables.texts import NO_SUMMARY, NOT_EXPLAINED, NOTHING_WRITTEN, GoalEntry
from engine.goals.tables.vectors import VectorConfig
from engine.project.project import Project
from engine.questions.records import Act, Answerer, MachineAnswer
from engine.questions.tables import answers, machine_answers
from engine.trees.options import TreeOptions
from tests.engine.goals.clustered import (
    VECTORS,
    clustering,
    conversations_with_vectors,
    row,
    run_of,
)
from tests.engine.project.support import check_whole, fill, give_scores, record, talk
from tests.screens.trees.tree_project import CONFIG, entry, grown, store


def add(project: Project, labels: list[int | None], run_id: int, config: str = "clusters") -> int:
    made: dict[str, Any] = clustering(labels, run_id, config)
    return project.write(lambda conn: clusterings.add(conn, **made))


class TestTexts:
    def test_failures_are_forgotten(self, project: Project) -> None:
        """Failures of one configuration can be taken back, so that the model is asked about them again: of summaries
        with what says that they have no vector, of pairs those that the model could not be asked about."""
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
                AnswerEntry(sides, PairAnswer(None, None, None, "", "", "", "toy"), calls, 0.0)
                for sides, calls in (("a", 1), ("b", 0))
            ]
            goal_answers.add_answers(conn, "one", run_id, answers)
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
            assert goals.texts(conn, [2, 1], "first-user") == {
                2: GoalEntry(2, "", NOTHING_WRITTEN),
                1: GoalEntry(1, "Pay my bill"),
            }
            assert goals.texts(conn, [1], "all-user")[1].text == "Pay my bill\nThanks"
            assert goals.texts(conn, [1, 2], "all") == {
                1: GoalEntry(1, "Pay my bill\nDone.\nThanks"),
                2: GoalEntry(2, "", NOTHING_WRITTEN),
            }

    def test_summaries(self, project: Project) -> None:
        """A reply that is no goal has its reason, and so has a conversation that no run has reached; configurations are
        stored side by side.
        """
        fill(project, [talk(name, name) for name in "abc"])

        def work(conn: sqlite3.Connection) -> None:
            run_id = run_of(conn)
            for config in ("one", "two"):
                goals.register(conn, config, "tiny.gguf")
            goals.add(conn, "one", run_id, [GoalEntry(1, "pay"), GoalEntry(3, "No.", "it refuses")])

        project.write(work)
        with project.reading() as conn:
            assert list(goals.ids_without_summary(conn, "one")) == [2]
            assert list(goals.ids_without_summary(conn, "two")) == [1, 2, 3]
            found = goals.texts(conn, [1, 2, 3], "summary", "one")
        assert found == {
            1: GoalEntry(1, "pay"),
            2: GoalEntry(2, "", NO_SUMMARY),
            3: GoalEntry(3, "No.", "it refuses"),
        }

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
            answers.give_all(conn, [Act(4, "refused", "no"), Act(5, "refused", "yes")])
            answers.give(conn, 5, Verdict.NO, "too late")
            answers.give(conn, 1, Verdict.YES, "fine")

        project.write(work)
        with project.reading() as conn:
            explained = goals.texts(conn, [1, 2, 3, 4, 5], "explanation:refused")
            assert {key: entry.text for key, entry in explained.items() if not entry.reason} == {
                1: "I can't cancel it.\nRules.", 2: "It said so.", 5: "too late",
            }  # fmt: skip
            failed = goals.texts(conn, [1, 5], "explanation:succeeded")
            assert (failed[5].text, failed[1].reason) == ("too late", NOT_EXPLAINED)

    def test_an_answer_that_came_later_takes_the_place_of_an_earlier_one(
        self, project: Project
    ) -> None:
        """What answered yes explains nothing where what answered after it says no."""
        fill(project, [talk("a", "Please.", "No.")])

        def work(conn: sqlite3.Connection) -> None:
            run_id = run_of(conn)
            for config, value, text in (("p", "yes", "It said so."), ("m", "no", "It helped.")):
                answer = MachineAnswer(1, value, None, text, ())
                answerer = Answerer(config, "refused", "pattern", config)
                machine_answers.put(conn, answerer, run_id, [answer])

        project.write(work)
        with project.reading() as conn:
            assert goals.texts(conn, [1], "explanation:refused")[1].reason == NOT_EXPLAINED

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
            last = goals.texts(conn, [1, 2], "last-exchange")
            assert (last[1].reason, last[2].text) == (NOT_EXPLAINED, "Pay now.\nI am unable to.")
            assert goals.texts(conn, [1], "remaining")[1].reason == NOT_EXPLAINED


class TestVectors:
    def test_blocks(self, project: Project) -> None:
        """Vectors come back byte for byte, in the order of ids; a conversation has a vector, a reason
        for none, or is missing.
        """
        fill(project, [talk(f"t{n}", f"t{n}") for n in range(6)])

        def work(conn: sqlite3.Connection) -> None:
            run_id = run_of(conn)
            vectors.register(conn, VECTORS)
            vectors.add(conn, "vectors", run_id, [4, 5], row(0, 1) + row(1, 0), {2: "empty"})
            vectors.add(conn, "vectors", run_id, [1], row(0.6, 0.8))

        project.write(work)
        with project.reading() as conn:
            ids, rows = vectors.read_vectors(conn, "vectors")
            assert ids.tolist() == [1, 4, 5]
            assert rows.tobytes() == row(0.6, 0.8) + row(0, 1) + row(1, 0)
            assert vectors.count(conn, "vectors") == 3
            assert vectors.reasons(conn, "vectors") == {2: "empty"}
            assert list(vectors.ids_without_vector(conn, "vectors")) == [3, 6]
            assert vectors.config(conn, "vectors") == VECTORS
            assert vectors.config(conn, "others") is None

    def test_sets_do_not_mix(self, project: Project) -> None:
        """A vector of another length is refused, one of another configuration is not found, and a fitted embedder is
        stored once.
        """
        fill(project, [talk("a", "a")])

        def work(conn: sqlite3.Connection) -> int:
            vectors.register(conn, VECTORS)
            vectors.register(conn, VectorConfig("vectors", "all-user", None, "x", "y", 9, b"new"))
            vectors.register(conn, VectorConfig("others", "all-user", None, "minilm", "m", 2))
            run_id = run_of(conn)
            vectors.add(conn, "others", run_id, [1], row(1, 0))
            return run_id

        run_id = project.write(work)
        with project.reading() as conn:
            assert vectors.config(conn, "vectors") == VECTORS
            assert len(vectors.read_vectors(conn, "vectors")[0]) == 0
            assert list(vectors.ids_without_vector(conn, "vectors")) == [1]
        with pytest.raises(ValueError, match="not 1 vectors of 2"):
            project.write(lambda conn: vectors.add(conn, "vectors", run_id, [1], b"\0" * 4))


class TestClusterings:
    def test_a_clustering(self, project: Project) -> None:
        """A clustering is stored whole with its counts, and shown; an earlier one can be shown again."""
        run_id = conversations_with_vectors(project, 6)
        first = add(project, [0, 0, 1, None, 1], run_id)
        second = add(project, [0, 0, 0, 0, 0], run_id, "later")
        with project.reading() as conn:
            assert clusterings.shown_id(conn) == second
            stored = clusterings.clustering(conn, first)
            assert stored is not None
            assert (stored.conversations, stored.outliers, stored.without) == (5, 1, 1)
            assert (stored.text, stored.embedder, stored.seed) == ("first-user", "tfidf", 7)
            assert [one.id for one in clusterings.clusterings(conn)] == [first, second]
            assert clusterings.find(conn, "clusters") == first
            assert clusterings.find(conn, "nothing") is None
            ids, numbers = clusterings.membership(conn, first)
            assert (ids.tolist(), numbers.tolist()) == ([1, 2, 3, 4, 5], [0, 0, 1, -1, 1])
        project.write(lambda conn: clusterings.show(conn, first))
        with project.reading() as conn:
            assert clusterings.shown_id(conn) == first
        check_whole(project.path)  # type: ignore[arg-type]

    def test_labels(self, project: Project) -> None:
        """Labels are those of the configuration that was registered last; each has its own missing clusters; a cluster
        may have a reason instead.
        """
        run_id = conversations_with_vectors(project, 4)
        key = add(project, [0, 1, 1], run_id)

        def label(config: str, *entries: LabelEntry) -> None:
            def work(conn: sqlite3.Connection) -> None:
                clusterings.register_labels(conn, key, config)
                clusterings.add_labels(conn, key, config, run_id, entries)

            project.write(work)

        label("a", LabelEntry(0, "Pay", "They pay."), LabelEntry(1, "", "", "it rambled"))
        with project.reading() as conn:
            assert [c.label for c in clusterings.clusters(conn, key)] == ["Pay", ""]
            assert clusterings.labels_version(conn, key) == ("a", 2)
        label("b", LabelEntry(1, "Buy", "They buy."))
        with project.reading() as conn:
            assert [c.label for c in clusterings.clusters(conn, key)] == ["", "Buy"]
            assert list(clusterings.clusters_without_label(conn, key, "b")) == [0]
            assert list(clusterings.clusters_without_label(conn, key, "a")) == []

    def test_what_came_later(self, project: Project) -> None:
        """A later conversation is missing an assignment until it has one, which a later one replaces."""
        run_id = conversations_with_vectors(project, 6)
        key = add(project, [0, 0, 1], run_id)
        one = Assignment(4, "c1", 0.75, (("c0", 0.2),), 0.25, 0)
        novel = Assignment(5, None, 0.1, (), 0.9, 3)
        project.write(lambda conn: clusterings.assign(conn, key, run_id, [one]))
        with project.reading() as conn:
            assert list(clusterings.ids_without_assignment(conn, key, "vectors")) == [5]
        project.write(lambda conn: clusterings.assign(conn, key, run_id, [novel, one]))
        with project.reading() as conn:
            assert list(clusterings.ids_without_assignment(conn, key, "vectors")) == []
            assert clusterings.assignments(conn, key) == [one, novel]
            assert clusterings.assigned_version(conn, key) == (2, 1, run_id)

    @pytest.mark.parametrize(
        ("groups", "moves", "expected"),
        [
            ({}, [], {"c0": 0.2, "c2": 0.1}),
            ({}, [(4, "c0")], {"c2": 0.1}),
            ({"c2": "c1"}, [], {"c0": 0.2}),
            ({"c2": "c0"}, [], {"c0": 0.3}),
            ({"c2": "c0"}, [(4, "c0")], {}),
        ],
        ids=["as assigned", "moved", "merged with its own", "two merged", "merged and moved"],
    )
    def test_second_goals_of_an_assignment(
        self,
        project: Project,
        groups: dict[str, str],
        moves: list[tuple[int, str | None]],
        expected: dict[str, float],
    ) -> None:
        """Second goals of an assigned conversation are groups other than its own, each once, with the sum of its
        shares; rows for the program and the view for others agree."""
        run_id = conversations_with_vectors(project, 6)
        key = add(project, [0, 1, 2], run_id)
        one = Assignment(4, "c1", 0.75, (("c0", 0.2), ("c2", 0.1)), 0.25, 0)
        entries = [
            goal_groups.GroupEntry(name, groups.get(name, name), None, "")
            for name in ("c0", "c1", "c2")
        ]

        def work(conn: sqlite3.Connection) -> None:
            clusterings.assign(conn, key, run_id, [one])
            clusterings.show(conn, key)
            goal_groups.put(conn, key, entries, moves)

        project.write(work)
        with project.reading() as conn:
            found = {goal.group_id: goal.share for goal in second_goals.of_conversation(conn, 4)}
            viewed = conn.execute(
                "SELECT group_id, share FROM conversation_goal WHERE conversation_id = 4 AND main = 0"
            )
            assert dict(viewed) == found == pytest.approx(expected)

    def test_stability(self, project: Project) -> None:
        """Stability is the mean over bootstraps of the newest measurement; stored repetitions are not missing."""
        run_id = conversations_with_vectors(project, 4)
        key = add(project, [0, 1, 1], run_id)

        def work(conn: sqlite3.Connection) -> None:
            measurements.add_repetition(conn, key, "s", run_id, ("seed", 0), 0.5, {0: 0.1, 1: 0.1})
            for n, values in enumerate(({0: 1.0, 1: 0.5}, {1: 0.75})):
                measurements.add_repetition(conn, key, "s", run_id, ("bootstrap", n), 0.9, values)

        project.write(work)
        with project.reading() as conn:
            assert measurements.stability(conn, key) == {0: 1.0, 1: 0.625}
            wanted: list[measurements.RepetitionKey] = [("seed", 0), ("seed", 1), ("bootstrap", 1)]
            assert measurements.missing_repetitions(conn, key, "s", wanted) == [("seed", 1)]
            assert [ari for _, ari in measurements.agreements(conn, key, "s")] == [0.9, 0.9, 0.5]

    def test_answers(self, project: Project) -> None:
        """Answers are found by the members of both sides and the questions; the last one counts."""
        run_id = conversations_with_vectors(project, 2)
        first = PairAnswer(yes=0.5, model="tiny.gguf")
        second = PairAnswer(0.1, 0.9, 0.8, "alike", "Both", "They both.", "tiny.gguf")
        for stored in (AnswerEntry("ab", first, 2, 1.0), AnswerEntry("ab", second, 4, 3.0)):
            project.write(
                partial(goal_answers.add_answers, config_hash="p", run_id=run_id, entries=[stored])
            )
        with project.reading() as conn:
            assert goal_answers.answers(conn, "p") == {"ab": second}
            assert goal_answers.answers(conn, "q") == {}
            assert goal_answers.answer_cost(conn, "p") == (4.0, 3.0)
            assert goal_answers.answer_cost(conn, None) is None


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

    def test_periods(self, project: Project) -> None:
        """Sizes are by month, or by import in the order of imports; a conversation beyond the end of the map is in no
        group.
        """
        conversations_with_vectors(project, 4)
        fill(project, [talk("later", "one more")], "b.jsonl")
        give_scores(project, {1: 0.9})
        groups = b"".join(n.to_bytes(2, "big") for n in [0, 1, 1, 2, 1])
        with project.reading() as conn:
            assert measurements.periods(conn, groups, "month") == [
                ("2026-01", 2, 1, StateCounts(unscored=1)),
                ("2026-02", 1, 2, StateCounts(complete=1, unscored=1, above=1)),
                ("2026-03", 1, 1, StateCounts(unscored=1)),
            ]
            by_import = measurements.periods(conn, groups, "import")
            assert [found[:3] for found in by_import] == [
                ("a.jsonl", 1, 3),
                ("a.jsonl", 2, 1),
                ("b.jsonl", 0, 1),
            ]

    def test_leaves(self, project: Project) -> None:
        """The leaves of a group are the median over its members with a tree."""
        conversations_with_vectors(project, 4)
        run_id = project.write(run_of)
        trees_of = [
            entry(n, grown(b"a%d" % n, TreeOptions(alpha, max_tokens=2)), run_id)
            for n, alpha in ((1, 0.3), (2, 0.05), (3, 0.05))
        ]
        store(project, trees_of)
        leaves = {e.row.conversation_id: e.row.leaves for e in trees_of}
        groups = b"".join(n.to_bytes(2, "big") for n in [0, 1, 1, 2, 1])
        with project.reading() as conn:
            found = measurements.leaves(conn, groups, CONFIG.config_hash)
            assert measurements.grown(conn, CONFIG.config_hash) == 3
        assert found == {1: (leaves[1] + leaves[2]) / 2, 2: float(leaves[3])}
