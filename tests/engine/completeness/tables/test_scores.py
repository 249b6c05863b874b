"""Scores, remaining tasks and their export."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.conversation import State
from engine.completeness.records import CurvePoint, DecisionRule, RemainingTasks
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from tests.engine.project.support import begin_run, fill, give_scores, talk

WORDS = ScoreConfig("w", "words", "", features="words")
BOTH = ScoreConfig("b", "probe", "m", features="both")


@given(
    st.none() | st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 0.5),
)
def test_sql_and_python_agree_on_the_state(
    score: float | None, threshold: float, band: float
) -> None:
    """The state by which a query filters is the state that a row shows, for any score and rule."""
    rule = DecisionRule(threshold, band)
    expression, values = scores.state_sql(rule, "x")
    conn = sqlite3.connect(":memory:")
    (found,) = conn.execute(
        f"SELECT {expression} FROM (SELECT ? AS x)", (*values, score)
    ).fetchone()
    conn.close()
    assert found == rule.state(score)


class TestScores:
    def test_a_score_comes_back_whole(self, project: Project) -> None:
        """Curve, configuration and reason are read as stored; the score is that of the last boundary."""
        fill(project, [talk("a", "hi", "hello", "bye", "goodbye")])
        with_run = _run(project)
        entry = ScoreEntry(
            1,
            (CurvePoint(1, 2, 1, 0.1, 0.3), CurvePoint(3, 4, 2, 0.6, 0.2)),
            "window of 4,096 tokens",
            77,
        )

        def work(conn: sqlite3.Connection) -> None:
            score_sets.register(conn, ScoreConfig("k", "tuned", "m.gguf", "a.gguf"))
            score_sets.register(conn, ScoreConfig("k", "tuned", "m.gguf", "a.gguf", noise=0.01))
            scores.add_scores(conn, "k", with_run, [entry])

        project.write(work)
        assert project.read(scores.current_score, 1) is None  # not the chosen configuration yet
        project.write(lambda conn: score_sets.replace_keeping_rule(conn, "k"))
        row = project.read(scores.current_score, 1)
        assert row is not None
        assert (row.p_end, row.p_end_normalised) == (0.6, 0.6 / (0.6 + 0.2))
        assert (row.state, row.reason) == (State.COMPLETE, "window of 4,096 tokens")
        assert (row.mode, row.model, row.adapter) == ("tuned", "m.gguf", "a.gguf")
        assert [(p.message, p.step, p.turn, p.p_end) for p in row.curve] == [
            (1, 2, 1, 0.1),
            (3, 4, 2, 0.6),
        ]
        assert row.curve[0].p_end_normalised == 0.1 / (0.1 + 0.3)

    def test_two_configurations_stand_beside_each_other(self, project: Project) -> None:
        """A changed configuration gives a new set of scores; what lacks a score is asked by configuration."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(3)])
        give_scores(project, {1: 0.9, 2: None}, "one")
        give_scores(project, {3: 0.1}, "two")
        with project.reading() as conn:
            assert list(scores.ids_without_score(conn, "one")) == [3]
            assert list(scores.ids_without_score(conn, "two")) == [1, 2]
            assert list(scores.ids_without_score(conn, "three")) == [1, 2, 3]
            assert score_sets.hash_in_force(conn) == "two"
            assert set(scores.current_scores(conn, [1, 2, 3])) == {3}

    def test_another_kind_of_scores_stays_beside(self, project: Project) -> None:
        """Only the first set, and a refreshed set of the same kind with as many scores, come into force by
        themselves; a set of another mode, model or adapter does not."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(3)])

        assert _score(project, ScoreConfig("a", "tuned", "m", "x"), [1, 2]) == "a"
        assert _score(project, ScoreConfig("b", "base", "m"), [1, 2, 3]) == "a"
        assert _score(project, ScoreConfig("c", "tuned", "m", "y"), [1, 2, 3]) == "a"
        assert _score(project, ScoreConfig("d", "tuned", "other", "x"), [1, 2, 3]) == "a"
        assert _score(project, ScoreConfig("e", "tuned", "m", "x"), [1]) == "a"
        assert _score(project, ScoreConfig("f", "tuned", "m (bf16)", "x"), [1, 2, 3]) == "f"
        found = project.read(score_sets.sets)
        assert [one.config_hash for one in found if one.in_force] == ["f"]
        assert sorted(one.scored for one in found) == [1, 2, 3, 3, 3, 3]

    @pytest.mark.parametrize(("scored", "replaced"), [([1, 2], True), ([1], False), ([], False)])
    def test_words_give_way_to_words_and_states(
        self, project: Project, scored: list[int], replaced: bool
    ) -> None:
        """A set by words and states replaces one by words alone, whatever the model, once it has as many scores; words
        never replace it, and states alone replace neither."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(2)])
        states = ScoreConfig("s", "probe", "m", features="states")
        assert _score(project, WORDS, [1, 2]) == "w"
        assert _score(project, states, [1, 2]) == "w"
        assert _score(project, BOTH, scored) == ("b" if replaced else "w")
        if replaced:
            assert _score(project, replace(WORDS, config_hash="w2"), [1, 2]) == "b"
            assert _score(project, replace(states, config_hash="s2"), [1, 2]) == "b"

    @pytest.mark.parametrize(
        ("config", "taken_back"),
        [(WORDS, True), (BOTH, True), (ScoreConfig("a", "tuned", "m"), False)],
    )
    def test_a_probe_takes_scores_back(
        self, project: Project, config: ScoreConfig, taken_back: bool
    ) -> None:
        """A newer set of a probe replaces the one in force also where it says of some conversations why they have no
        score, such as those of a kind at chance; a model that gives fewer scores replaces none."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(2)])
        _score(project, config, [1, 2])
        newer = replace(config, config_hash="newer")
        in_force = _score(project, newer, [1], unscored=[2])
        assert in_force == ("newer" if taken_back else config.config_hash)

    @pytest.mark.parametrize("chosen", [False, True])
    def test_a_partial_set_goes_when_it_is_replaced(self, project: Project, chosen: bool) -> None:
        """A set from when the model had read only some conversations is deleted with its scores once another stands in
        its place; not if a person put it in force."""
        fill(project, [talk("a", "hi")])
        _score(project, BOTH, [1])
        project.write(lambda conn: score_sets.put_partial(conn, "b"))
        assert [one.config_hash for one in project.read(score_sets.sets)] == ["b"]
        if chosen:
            project.write(lambda conn: score_sets.switch_with_rules(conn, "b"))
        assert _score(project, replace(BOTH, config_hash="b2"), [1]) == "b2"
        project.write(lambda conn: score_sets.put_partial(conn, "b2"))
        with project.reading() as conn:
            kept = ["b"] if chosen else []
            assert [one.config_hash for one in score_sets.sets(conn)] == [*kept, "b2"]
            assert set(scores.normalized_curves(conn, "b", [1])) == ({1} if chosen else set())
        project.write(lambda conn: score_sets.put_partial(conn, None))
        assert [one.config_hash for one in project.read(score_sets.sets)] == [*kept, "b2"]

    @pytest.mark.parametrize("in_force", [False, True])
    def test_older_sets_by_words_go(self, project: Project, in_force: bool) -> None:
        """With a new set by words the older ones are deleted, but not the one in force, and no set of another kind."""
        fill(project, [talk("a", "hi")])
        _score(project, WORDS, [1])
        _score(project, BOTH, [1])
        _score(project, replace(WORDS, config_hash="w2"), [1])
        if in_force:
            project.write(lambda conn: score_sets.switch_with_rules(conn, "w"))
        project.write(lambda conn: score_sets.drop_other_words(conn, "w2"))
        left = {one.config_hash for one in project.read(score_sets.configs)}
        assert left == {"b", "w2"} | ({"w"} if in_force else set())

    def test_each_set_has_its_own_rule(self, project: Project) -> None:
        """A switch takes the decision rule of the set along, and switching back restores the other one."""
        fill(project, [talk("a", "hi")])
        give_scores(project, {1: 0.7}, "one")
        calibrated = DecisionRule(0.9, 0.05, "calibrated")
        project.write(lambda conn: score_sets.put_rule(conn, calibrated))
        give_scores(project, {1: 0.2}, "two", make_current=False)
        project.write(lambda conn: score_sets.switch_with_rules(conn, "two"))
        with project.reading() as conn:
            assert score_sets.rule(conn) == DecisionRule()
            assert score_sets.rule(conn, "one") == calibrated
        project.write(lambda conn: score_sets.switch_with_rules(conn, "one"))
        with project.reading() as conn:
            assert score_sets.rule(conn) == calibrated
            assert score_sets.rule(conn, "two") == DecisionRule()


class TestExport:
    def test_a_line_for_each_conversation(self, project: Project) -> None:
        """Every conversation has one line, in order, which names its duplicates; an unscored one has no score."""
        fill(project, [talk("a", "x"), talk("b", "y")])
        fill(project, [talk("b2", "y"), talk("c", "z"), talk("a", "x", meta={"m": 1})], "b.jsonl")
        give_scores(project, {1: 0.9, 2: 0.2})
        lines = [
            (one.external_id, one.source, [two.external_id for two in one.duplicates], score and score.p_end)
            for one, score in project.read(scores.export_scores)
        ]  # fmt: skip
        assert lines == [
            ("a", "a.jsonl", ["a"], 0.9),
            ("b", "a.jsonl", ["b2"], 0.2),
            ("c", "b.jsonl", [], None),
        ]
        assert (
            sum(len(names) for _, _, names, _ in lines)
            == ConversationService(project).counts().duplicates
        )


class TestEverySet:
    def test_values(self, project: Project) -> None:
        """The normalized value after each boundary of what is asked for and scored, None where both are zero."""
        fill(project, [talk(str(n), f"hi {n}", "so", "and", "on") for n in range(3)])
        give_scores(project, {2: None, 3: 0.5}, "k")
        run_id = _run(project)
        points = (CurvePoint(1, 2, 1, 0.1, 0.3), CurvePoint(3, 4, 2, 0.0, 0.0))
        project.write(
            lambda conn: scores.add_scores(conn, "k", run_id, [ScoreEntry(1, points, None, 9)])
        )
        assert project.read(scores.normalized_curves, "k", [1, 2]) == {1: {1: 0.25, 3: None}}
        assert project.read(scores.normalized_curves, "other", [1]) == {}


class TestRemaining:
    def test_of_the_score_in_force(self, project: Project) -> None:
        """The remaining tasks of a conversation are those that were written for its score in force."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(5)])
        give_scores(project, {1: 0.9, 2: 0.49, 3: None, 4: 0.1}, "s")
        run_id = _run(project)
        assert list(project.read(scores.below_threshold, "s")) == [2, 4]
        project.write(
            lambda conn: scores.add_remaining(
                conn, "r", "s", run_id, [RemainingTasks(2, "pay"), RemainingTasks(4, "", "empty")]
            )
        )
        assert project.read(scores.ids_with_remaining, "r") == {2, 4}
        row = project.read(scores.current_remaining, 2)
        assert row is not None
        assert (row.text, row.reason) == ("pay", None)
        give_scores(project, {2: 0.3}, "other")
        assert project.read(scores.current_remaining, 2) is None  # belongs to another score


def _score(
    project: Project, config: ScoreConfig, ids: Sequence[int], unscored: Sequence[int] = ()
) -> str | None:
    """Stores a set with scores of these conversations, and a reason for others; returns the set that is in force
    then."""
    run_id = _run(project)

    def work(conn: sqlite3.Connection) -> None:
        score_sets.register(conn, config)
        entries = [ScoreEntry(n, (CurvePoint(1, 2, 1, 0.6, 0.4),), None, 5) for n in ids]
        entries += [ScoreEntry(n, (), "why", 5) for n in unscored]
        scores.add_scores(conn, config.config_hash, run_id, entries)
        score_sets.put_in_force_if_due(conn, config.config_hash)

    project.write(work)
    return project.read(score_sets.hash_in_force)


def _run(project: Project) -> int:
    return project.write(lambda conn: begin_run(conn, "score", "k"))
