"""Summaries, labels and answers on pairs by the real model, and that no kill changes them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.goals.stages import labeling
from engine.goals.tables import clusterings, decisions
from engine.goals.tables.clusterings import goals_clustering_id, source_of, stored_clustering
from engine.goals.views.decision_log import DecisionLog
from engine.jobs import contract
from engine.model.process.process import ModelProcess
from engine.project.project import Project
from tests.engine.completeness import scored
from tests.engine.goals import goal_runs
from tests.engine.goals.goal_runs import goal_content
from tests.engine.project.support import check_whole, kill_amid

Content = dict[str, list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four conversations and two clusters a block."""
    monkeypatch.setattr(contract, "BLOCK_CHARS", 1)
    monkeypatch.setattr(labeling, "CLUSTERS_PER_BLOCK", 2)


@pytest.fixture(scope="module", autouse=True)
def weights(shallow_weights: Path) -> Iterator[None]:
    """Stages, also of programs that tests start, run on five layers of the shipped weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(shallow_weights))
        yield


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without summaries."""
    path = tmp_path_factory.mktemp("project") / "p.wb"
    goal_runs.make(path, count=8)
    return path


@pytest.fixture
def path(imported: Path, tmp_path: Path) -> Path:
    """A copy of the imported project."""
    return Path(shutil.copy(imported, tmp_path / "p.wb"))


@pytest.fixture(scope="module")
def undisturbed(
    imported: Path, process: ModelProcess, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A copy on which everything ran without an interruption."""
    path = Path(shutil.copy(imported, tmp_path_factory.mktemp("whole") / "p.wb"))
    with pytest.MonkeyPatch.context() as patch, Project.open(path) as project:
        patch.setattr(contract, "BLOCK_CHARS", 1)
        patch.setattr(labeling, "CLUSTERS_PER_BLOCK", 2)
        goal_runs.run(project, goal_runs.model_stages(project, process))
    return path


@pytest.fixture(scope="module")
def expected(undisturbed: Path) -> Content:
    """What the uninterrupted run wrote."""
    return goal_content(undisturbed)


@pytest.fixture
def done(undisturbed: Path, tmp_path: Path) -> Iterator[Project]:
    """A copy of that project, opened."""
    with Project.open(Path(shutil.copy(undisturbed, tmp_path / "done.wb"))) as project:
        yield project


class TestWhatIsWritten:
    def test_a_goal_or_a_reason(self, done: Project) -> None:
        """Every conversation has a goal, or a reply with the reason why it is none."""
        with done.reading() as conn:
            stored = stored_clustering(conn, goals_clustering_id(conn))
            entries = source_of(stored).read(conn, list(range(1, 10)))
        assert all(entry.reason or entry.text for entry in entries)
        assert sum(1 for entry in entries if not entry.reason) >= 6

    def test_labels(self, done: Project) -> None:
        """Every cluster has a label: the model's, or a phrase of its members with the reason."""
        with done.reading() as conn:
            key = stored_clustering(conn, goals_clustering_id(conn)).id
            clusters, phrases = (
                clusterings.clusters(conn, key),
                clusterings.phrase_labels(conn, key),
            )
            without_label = {
                number
                for (number,) in conn.execute(
                    "SELECT number FROM cluster_label WHERE reason IS NOT NULL"
                )
            }
        assert len(phrases) == len(clusters) > 0
        assert all(cluster.label and cluster.by_model for cluster in clusters)
        for cluster in clusters:
            if cluster.number in without_label:
                phrase = phrases[cluster.number]
                assert (cluster.label, cluster.support) == (phrase.label, phrase.support)

    def test_answers_on_pairs(self, done: Project) -> None:
        """The asked pairs have the words of the model, found by the members of both sides."""
        with done.reading() as conn:
            stored = stored_clustering(conn, goals_clustering_id(conn))
            answers = decisions.answers(conn, stored.pair_config)
        state = DecisionLog(done).state(stored.id)
        asked = [pair for pair in state.open_pairs() if state.sides_key(*pair) in answers]
        assert len(asked) == len(answers) == min(2, len(state.open_pairs()))
        for answer in answers.values():
            assert answer.yes in (None, 0, 1)
            assert answer.reason
            assert answer.model == scored.model().label

    def test_again_asks_nothing(self, done: Project, expected: Content, tmp_path: Path) -> None:
        """A second run starts no model process and writes nothing."""
        unused = ModelProcess(tmp_path / "log")
        outcomes = goal_runs.run(done, goal_runs.model_stages(done, unused)[:4])
        assert all(outcome.state == "done" for outcome in outcomes)
        assert unused.pid is None
        assert goal_content(Path(done.path)) == expected


def test_a_kill_at_any_moment_changes_no_bit(
    path: Path, expected: Content, process: ModelProcess
) -> None:
    """After kill -9 at a random moment, another run leaves what an uninterrupted one wrote, bit for bit."""
    kill_amid("tests.engine.goals.goal_runs", path, random.Random(5).randrange(2, 16))

    with Project.open(path) as project:
        outcomes = goal_runs.run(project, goal_runs.model_stages(project, process))
        assert all(outcome.state == "done" for outcome in outcomes)
    check_whole(path)
    assert goal_content(path) == expected
