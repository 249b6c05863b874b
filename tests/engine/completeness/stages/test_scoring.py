"""Scoring a project with the real model: what is written, and that no interruption changes it."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import State
from engine.completeness.boundaries import NO_BOUNDARY
from engine.completeness.records import DecisionRule
from engine.completeness.tables import score_sets, scores
from engine.jobs import contract
from engine.jobs.contract import Progress
from engine.jobs.runner import JobRunner
from engine.model.process.process import ModelProcess
from engine.opener.conversations import ConversationService
from engine.project import runs
from engine.project.project import Project
from tests.engine.completeness import scored
from tests.engine.model.weights import FIRST_TEN, write_shallow
from tests.engine.project.support import check_whole, content, kill_amid

Content = dict[str, list[tuple[Any, ...]]]


THRESHOLD = 0.998
"""Half of the conversations lie below it, by the weights of these tests."""


@pytest.fixture(scope="module", autouse=True)
def weights(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The stages, also of programs that tests start, run on ten layers of the shipped weights."""
    path = tmp_path_factory.mktemp("weights") / "ten.gguf"
    write_shallow(shipped, path, FIRST_TEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(path))
        yield
    path.unlink()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four conversations a block."""
    monkeypatch.setattr(contract, "BLOCK_CHARS", 1)


@pytest.fixture(scope="module")
def unscored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without scores."""
    path = tmp_path_factory.mktemp("project") / "p.wb"
    scored.make(path)
    with Project.open(path) as project:
        project.write(lambda conn: score_sets.put_rule(conn, DecisionRule(THRESHOLD)))
    return path


@pytest.fixture
def path(unscored: Path, tmp_path: Path) -> Path:
    """A copy of the unscored project."""
    return Path(shutil.copy(unscored, tmp_path / "p.wb"))


@pytest.fixture
def project(path: Path) -> Iterator[Project]:
    """The copy, opened."""
    with Project.open(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def uninterrupted(
    unscored: Path, process: ModelProcess, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A copy that was scored without an interruption."""
    path = Path(shutil.copy(unscored, tmp_path_factory.mktemp("whole") / "p.wb"))
    with pytest.MonkeyPatch.context() as patch, Project.open(path) as project:
        patch.setattr(contract, "BLOCK_CHARS", 1)
        scored.run(project, process)
    return path


@pytest.fixture(scope="module")
def expected(uninterrupted: Path) -> Content:
    """What the uninterrupted run wrote."""
    found = content(uninterrupted)
    assert len(found["score"]) == 12
    assert found["remaining"]
    return found


class TestWhatIsWritten:
    def test_every_conversation_has_a_score_or_a_reason(self, uninterrupted: Path) -> None:
        """Each boundary has its probabilities and the last one is the score; a conversation without an answer has the
        reason.
        """
        with Project.open(uninterrupted) as project:
            exported = list(project.read(scores.export_scores))
        assert [named.external_id for named, _ in exported] == [
            c.external_id for c in scored.conversations()
        ]
        for (named, score), conversation in zip(exported, scored.conversations(), strict=True):
            assert score is not None
            if named.external_id == scored.ONLY_USER:
                assert (score.state, score.reason) == (State.UNSCORED, NO_BOUNDARY)
                continue
            answered = [
                number
                for number, message in enumerate(conversation.messages)
                if message.role in ("assistant", "tool")
            ]
            assert {point.message for point in score.curve} <= set(answered)
            assert score.curve[-1].p_end == score.p_end
            assert 0 < (score.p_end or 0) < 1
            assert score.p_end_normalised == score.curve[-1].p_end_normalised

    def test_what_is_generated_is_known_at_every_boundary(self, uninterrupted: Path) -> None:
        """Each boundary has a decision by what is generated. Where the end is written, nothing that the format allows
        is more probable."""
        with Project.open(uninterrupted) as project, project.reading() as conn:
            key = score_sets.hash_in_force(conn) or ""
            lines = {
                named.conversation_id: score
                for named, score in scores.export_scores(conn)
                if score is not None and score.curve
            }
            found = scores.generated_curves(conn, key, list(lines))
            complete, incomplete = scores.generated_counts(conn, key)
        assert complete + incomplete == len(lines)
        for conversation_id, line in lines.items():
            curve = found[conversation_id]
            assert list(curve) == [point.message for point in line.curve]
            assert line.generated == bool(curve[line.curve[-1].message])
            for point in line.curve:
                assert not curve[point.message] or point.p_end_normalised > 0.5

    def test_remaining_tasks(self, uninterrupted: Path) -> None:
        """Conversations below the threshold, and only these, have remaining tasks or a reason."""
        with Project.open(uninterrupted) as project:
            store = ConversationService(project)
            for named, score in project.read(scores.export_scores):
                assert score is not None
                value = score.p_end_normalised
                found = store.remaining(named.conversation_id)
                assert (found is not None) == (value is not None and value < THRESHOLD)
                assert found is None or bool(found.text) != bool(found.reason)

    def test_again_writes_nothing(
        self, uninterrupted: Path, expected: Content, process: ModelProcess, tmp_path: Path
    ) -> None:
        """A second run calls no model and writes nothing."""
        again = Path(shutil.copy(uninterrupted, tmp_path / "p.wb"))
        with Project.open(again) as project:
            outcomes = scored.run(project, process)
        assert all(outcome.state == "done" for outcome in outcomes)
        assert "12 were scored before" in outcomes[0].message
        assert content(again) == expected


def test_a_kill_at_any_moment_changes_no_bit(
    path: Path, expected: Content, process: ModelProcess
) -> None:
    """After kill -9 at random moments of scoring, a last run leaves the content of an undisturbed one, bit for bit."""
    chance = random.Random(1)
    score_counts = []
    for _ in range(2):
        kill_amid("tests.engine.completeness.scored", path, chance.randrange(1, 12))
        score_counts.append(len(content(path)["score"]))
    assert score_counts == sorted(score_counts)

    with Project.open(path) as project:
        assert {run.state for run in project.read(runs.all_runs)} <= {"interrupted", "done"}
        assert all(o.state == "done" for o in scored.run(project, process))
    check_whole(path)
    assert content(path) == expected


def test_cancel_keeps_what_was_committed(
    project: Project, path: Path, expected: Content, process: ModelProcess
) -> None:
    """A cancelled run keeps its whole blocks, and a later one resumes to the same result."""
    committed = threading.Event()
    scoring, _ = scored.stages(project, process)
    runner = JobRunner(project, lambda event: None)
    seen: list[int] = []

    silent_run = scoring.run

    def watched_run(run_id: int) -> Iterator[Progress]:
        """The run of the stage, which signals when its first block is committed."""
        for progress in silent_run(run_id):
            seen.append(progress.done)
            if progress.done:
                committed.set()
            yield progress

    vars(scoring)["run"] = watched_run
    job = runner.start([scoring])
    assert committed.wait(60)
    runner.cancel(job)
    assert runner.close(60)
    (run,) = (r for r in project.read(runs.all_runs) if r.stage == scoring.name)
    assert run.state == "cancelled"
    kept = content(path)["score"]
    assert len(kept) in (4, 8)
    assert set(kept) <= set(expected["score"])
    assert all(outcome.state == "done" for outcome in scored.run(project, process))
    project.close()
    assert content(path) == expected
