"""Embedding, clustering, assignment and stability as stages: what is written, resumed and transferred."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest

from engine.base.conversation import Conversation, Message
from engine.goals.records import ClusterName
from engine.goals.stages import clustering, embedding, stability
from engine.goals.stages.clustering import AssignStage
from engine.goals.stages.embedding import EmbedStage
from engine.goals.tables import clusterings, measurements, vectors
from engine.goals.tables.clusterings import goals_clustering_id, source_of, stored_clustering
from engine.goals.tables.texts import TextSource
from engine.goals.tables.vectors import read_vectors
from engine.goals.views.decision_log import DecisionLog
from engine.jobs.runner import JobRunner
from engine.model.embedders.vectors import Vectors
from engine.project import runs
from engine.project.project import Project
from tests.engine.goals import goal_runs
from tests.engine.goals.goal_runs import goal_content


class TestEmbedding:
    def test_every_text_has_a_vector_or_a_reason(
        self, project: Project, decision_log: DecisionLog
    ) -> None:
        """Vectors have length 1; a conversation without a text has the reason; a second run writes nothing, and one
        with another embedder is refused."""
        embed, _ = goal_runs.vector_stages(project, decision_log)
        (outcome,) = goal_runs.run(project, [embed])
        with project.reading() as conn:
            ids, rows = read_vectors(conn, embed.vector_key)
            reasons = vectors.reasons(conn, embed.vector_key)
        before = goal_content(Path(project.path))
        again, _ = goal_runs.vector_stages(project, decision_log)
        goal_runs.run(project, [again])

        assert outcome.state == "done"
        assert ids.tolist() == list(range(1, 49))
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
        assert list(reasons) == [49]
        assert (again.embedded, again.without) == (0, 0)
        assert goal_content(Path(project.path)) == before
        project.write(lambda conn: conn.execute("UPDATE vector_config SET fingerprint = 'other'"))
        (refused,) = goal_runs.run(project, [again])
        assert refused.message.startswith("The stored vectors are of another embedder, other")

    def test_in_many_batches_as_in_one(
        self,
        project: Project,
        decision_log: DecisionLog,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Small batches, cancelled after the first and resumed, give the same vectors and the same reasons."""
        whole, _ = goal_runs.vector_stages(project, decision_log)
        with Project.open(Path(shutil.copy(project.path, tmp_path / "other.wb"))) as other:
            goal_runs.run(project, [whole])
            monkeypatch.setattr(embedding, "QUICK_BATCH", 10)
            first, _ = goal_runs.vector_stages(other, DecisionLog(other))
            batches = first.run(_run_id(other))
            while next(batches).done == 0:
                pass
            del batches
            rest, _ = goal_runs.vector_stages(other, DecisionLog(other))
            goal_runs.run(other, [rest])
            with project.reading() as mine, other.reading() as theirs:
                expected = read_vectors(mine, whole.vector_key)
                got = read_vectors(theirs, rest.vector_key)
                assert vectors.reasons(theirs, rest.vector_key).keys() == {49}

        assert rest.embedded == 38
        assert got[0].tolist() == expected[0].tolist()
        assert goal_runs.same_vectors(got[1], expected[1])


class TestClustering:
    def test_a_partition_of_what_has_a_vector(
        self, project: Project, decision_log: DecisionLog
    ) -> None:
        """Every conversation with a vector is in one cluster or an outlier; goals of one kind are in one cluster."""
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=4))
        with project.reading() as conn:
            stored = stored_clustering(conn, goals_clustering_id(conn))
            ids, numbers = clusterings.membership(conn, stored.id)
            clusters = clusterings.clusters(conn, stored.id)
            texts = source_of(stored).read(conn, list(ids))

        assert list(ids) == list(range(1, 49))
        assert (stored.k, stored.conversations, stored.without) == (4, 48, 1)
        assert [c.size for c in clusters] == sorted((c.size for c in clusters), reverse=True)
        assert sum(c.size for c in clusters) == sum(1 for n in numbers if n >= 0)
        assert all(c.words for c in clusters)
        kinds = {(n, e.text.split()[3]) for n, e in zip(numbers, texts, strict=True) if n >= 0}
        assert len(kinds) == 4

    def test_without_a_model_phrases_are_labels_again(
        self, project: Project, decision_log: DecisionLog
    ) -> None:
        """A run that asks no model for labels shows phrases again where a model wrote others."""
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=4))

        def labels() -> list[str]:
            groups = decision_log.state(1).groups
            return [group.label for group in groups.values()]

        def relabel(conn: sqlite3.Connection) -> None:
            names = {number: ClusterName(f"Goal {number}") for number in range(4)}
            clusterings.show_labels(conn, 1, "model")
            clusterings.add_labels(conn, 1, "model", 1, names)

        phrases = labels()
        project.write(relabel)
        assert labels() == ["Goal 0", "Goal 1", "Goal 2", "Goal 3"] != phrases
        embed, _ = goal_runs.vector_stages(project, decision_log)
        again = clustering.ClusterStage(project, decision_log, embed, k=4, unlabeled=True)
        goal_runs.run(project, [embed, again])
        assert labels() == phrases
        assert again.summary().endswith("Labels are phrases again, in place of those of a model.")

    def test_cancelled_while_it_computes(
        self, project: Project, decision_log: DecisionLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A cancel does not wait for a running computation; its result is not stored."""
        begun, released = threading.Event(), threading.Event()

        def slow(*_args: object, **_more: object) -> None:
            begun.set()
            released.wait(60)

        embed, cluster = goal_runs.vector_stages(project, decision_log)
        goal_runs.run(project, [embed])
        monkeypatch.setattr(clustering, "cluster", slow)
        runner = JobRunner(project, lambda event: None)
        job = runner.start([cluster])
        assert begun.wait(60)
        runner.cancel(job)
        assert runner.close(60)
        released.set()
        assert project.read(clusterings.every) == []


class TestAssigning:
    def assign(self, project: Project, decision_log: DecisionLog) -> AssignStage:
        """Embeds and assigns later conversations."""
        with project.reading() as conn:
            stored = stored_clustering(conn, goals_clustering_id(conn))
        embed = EmbedStage(
            project,
            goal_runs.tfidf(),
            lambda: source_of(stored),
            vector_config=stored.vector_config,
        )
        stage = AssignStage(project, decision_log, stored)
        outcomes = goal_runs.run(project, [embed, stage])
        assert all(outcome.state == "done" for outcome in outcomes)
        return stage

    def test_later_ones_go_where_their_like_are(
        self, project: Project, decision_log: DecisionLog
    ) -> None:
        """Each later conversation is assigned to the group of its kind, an unusual one to none; members stay."""
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=4))
        with project.reading() as conn:
            key = stored_clustering(conn, goals_clustering_id(conn)).id
            members = clusterings.membership(conn, key)
        strange = Conversation(
            "odd", (Message("user", "please account number people city flight"),)
        )
        goal_runs.add(project, [*goal_runs.conversations(8, "later"), strange], "later")
        stage = self.assign(project, decision_log)
        state = decision_log.state(key)
        with project.reading() as conn:
            found = {one.conversation_id: one for one in clusterings.assignments(conn, key)}
            assert clusterings.membership(conn, key) == members
            texts = source_of(stored_clustering(conn, goals_clustering_id(conn))).read(
                conn, list(range(1, 58))
            )
        kinds = {entry.conversation_id: entry.text.split()[3] for entry in texts if entry.text}

        assert stage.assigned + stage.novel == 9
        for number in range(50, 58):
            group = found[number].group
            assert group is not None
            its_kind = {kinds[int(member)] for member in state.members(group)}
            assert its_kind == {kinds[number]}
        assert self.assign(project, decision_log).assigned == 0


class TestStability:
    def test_repetitions_resume(
        self, project: Project, decision_log: DecisionLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Repetitions done in two runs equal those of one run; each cluster has its mean Jaccard."""
        goal_runs.run(project, goal_runs.vector_stages(project, decision_log, k=4))
        for seeds, bootstraps in ((1, 2), (2, 4)):
            monkeypatch.setattr(stability, "SEEDS", seeds)
            monkeypatch.setattr(stability, "BOOTSTRAPS", bootstraps)
            stage = stability.StabilityStage(project)
            goal_runs.run(project, [stage])
        with project.reading() as conn:
            key = stored_clustering(conn, goals_clustering_id(conn)).id
            found = measurements.agreements(conn, key, stage.config_hash)
            jaccard = measurements.stability(conn, key)
            count = len(clusterings.clusters(conn, key))
        assert stage.done == 3
        assert [repetition for repetition, _ in found] == [
            *(("bootstrap", n) for n in range(4)),
            *(("seed", n) for n in range(2)),
        ]
        assert all(-1 <= ari <= 1 for _, ari in found)
        assert sorted(jaccard) == list(range(count))
        assert all(0 <= value <= 1 for value in jaccard.values())


def _run_id(project: Project) -> int:
    return project.write(
        lambda conn: runs.create(conn, stage="s", config_hash="c", params={}, fingerprints={})
    )


class TestSharedText:
    PROMPT = (
        "You are an agent that books and finds things. You have to answer with one action. " * 3
    )

    def _add(self, project: Project, made: list[Conversation], name: str, prompt: str) -> None:
        goal_runs.add(
            project,
            [
                Conversation(one.external_id, (Message("user", prompt + one.messages[0].content),))
                for one in made
            ],
            name,
        )

    def _made(self, project: Project, into: str | None = None) -> EmbedStage:
        embed = EmbedStage(
            project, goal_runs.tfidf(), lambda: TextSource("all"), vector_config=into
        )
        (outcome,) = goal_runs.run(project, [embed])
        assert outcome.state == "done"
        return embed

    def _rows(self, project: Project, key: str) -> Vectors:
        return project.read(read_vectors, key)[1]

    def test_vectors_are_those_of_the_rest(self, tmp_path: Path) -> None:
        """Instructions in front of each goal change no vector, and texts that people read go without them; vectors
        of texts with nothing to leave out have the key that they always had."""
        made = goal_runs.conversations(40)
        with Project.open(tmp_path / "a.wb", create=True) as plain:
            self._add(plain, made, "a", "")
            bare = self._made(plain)
            expected = self._rows(plain, bare.vector_key)
        with Project.open(tmp_path / "b.wb", create=True) as project:
            self._add(project, made, "b", self.PROMPT)
            embed = self._made(project)
            assert self._rows(project, embed.vector_key) == pytest.approx(expected, abs=1e-5)
            (entry,) = project.read(TextSource("all-user").read, [1])
            assert entry.text == made[0].messages[0].content.strip()
        assert "without" in embed.params
        assert bare.params.keys() == {"text", "goals", "embedder", "fitted_on"}
