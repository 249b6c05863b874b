"""The decision log in the project file: every act is stored whole or not at all, and the groups follow from the file
alone.
"""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import UsageError
from engine.goals.merges.merge_state import MergeState
from engine.goals.records import GoalDecision
from engine.goals.tables import clusterings, vectors
from engine.goals.tables import decisions as goal_decisions
from engine.goals.views import merge_queue
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.merge_queue import MergeQueueCache
from engine.model.embedders.embedder import Embedder
from engine.project.project import Project
from tests.engine.goals.clustered import VECTORS, clustering, conversations_with_vectors, groups_of
from tests.engine.project.support import REPOSITORY, check_whole

LABELS = [0, 0, 0, 1, 1, 2, 2, 3, None]


def made(labels: list[int | None], run_id: int = 1, config: str = "clusters") -> dict[str, Any]:
    """Arguments of `DecisionLog.add_clustering`."""
    return clustering(labels, run_id, config)


@pytest.fixture
def project(project: Project) -> Project:
    """Ten conversations, the last without a vector, in four clusters of three, two, two and one, and an outlier."""
    run_id = conversations_with_vectors(project, 10)
    DecisionLog(project).add_clustering(**made(LABELS, run_id))
    return project


def plans(*decisions: GoalDecision) -> Any:
    """A plan of these decisions."""
    return lambda state: decisions


MERGE = GoalDecision("merge", ("c0", "c1"), (("things", "They want things."),))
SPLIT = GoalDecision("split", ("c2",), parts=(array("q", [6]),))
MOVE = GoalDecision("move", (), parts=(array("q", [1]),))


def test_clusters_of_one_name_are_compared_by_their_words(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of clusters without a label the first words are the name; what their other words say still tells them apart."""

    def is_missing(*_arguments: object) -> Embedder:
        raise UsageError("The embedder is not installed.")

    monkeypatch.setattr(merge_queue, "embedder_from_state", is_missing)
    arguments = made(LABELS, config="alike")
    arguments["clusters"] = [
        replace(cluster, words=("book", "flight", "seat", word))
        for cluster, word in zip(
            arguments["clusters"], ("refund", "meal", "luggage", "pet"), strict=True
        )
    ]
    decision_log = DecisionLog(project)
    clustering_id = decision_log.add_clustering(**arguments)
    table = MergeQueueCache(project, decision_log).snapshot(clustering_id).table
    assert (table.description[np.triu_indices(4, 1)] < 0.9).all()


class TestActs:
    def test_what_is_stored_is_what_stands(self, project: Project) -> None:
        """The state in memory and the one replayed from the file are the same after decisions of every kind, and after
        one was undone."""
        decision_log = DecisionLog(project)
        rename = GoalDecision("rename", ("c3",), (("other things", ""),))
        for decision in (
            MERGE, SPLIT, GoalDecision("never", ("d1", "c3")), MOVE, rename,
            GoalDecision("pin", ("d2",)), GoalDecision("apart", ("d1", "d2.1")), GoalDecision("pin", ("c3",)),
        ):  # fmt: skip
            decision_log.decide(1, plans(decision))
        decision_log.undo(1)
        state = decision_log.state(1)
        assert groups_of(state) == {
            "d1": [2, 3, 4, 5], "d2": [6], "d2.1": [7], "c3": [8], None: [1, 9]
        }  # fmt: skip
        again = DecisionLog(project).state(1)
        assert groups_of(again) == groups_of(state)
        assert again.open_pairs() == state.open_pairs()
        assert (again.groups["d1"].label, again.groups["c3"].label) == ("things", "other things")
        assert (again.groups["d2"].pinned, again.groups["c3"].pinned) == (True, False)
        check_whole(Path(project.path))

    def test_one_act_of_many(self, project: Project) -> None:
        """A plan sees the results of its own decisions, and is undone as a whole."""
        decision_log = DecisionLog(project)

        def plan(state: MergeState) -> Iterator[GoalDecision]:
            while len(state.current) > 1:
                a, b, *_ = state.current
                yield GoalDecision("merge", (a, b))

        rows = decision_log.decide(1, plan)
        assert [row.act for row in rows] == [1, 1, 1]
        assert list(decision_log.state(1).current) == ["d3"]
        undone = decision_log.undo(1)
        assert undone is not None
        assert (undone.id, undone.active, undone.count) == (1, False, 3)
        assert list(decision_log.state(1).current) == ["c0", "c1", "c2", "c3"]
        assert decision_log.undo(1) is None

    def test_undo_is_of_a_person(self, project: Project) -> None:
        """Undo passes over what a run decided, which its number undoes. What is on a group goes with the group."""
        decision_log = DecisionLog(project)
        decision_log.decide(1, plans(MOVE))
        decision_log.decide(1, plans(MERGE))
        decision_log.decide(1, plans(GoalDecision("theme", ("d2",), (("all", ""),), author="auto")))
        decision_log.decide(1, plans(GoalDecision("theme", ("c2",), (("all", ""),), author="auto")))

        def kinds_in_force() -> list[str]:
            return [row.kind for row in decision_log.active(1)]

        undone = decision_log.undo(1)
        assert undone is not None
        assert (undone.kind, undone.active) == ("merge", False)
        assert kinds_in_force() == ["move", "theme"]
        assert groups_of(DecisionLog(project).state(1)) == groups_of(decision_log.state(1))
        decision_log.undo(1)
        assert kinds_in_force() == ["theme"]
        assert decision_log.undo(1) is None
        assert decision_log.undo(1, 4) is not None
        assert kinds_in_force() == []
        assert decision_log.undo(1, 4) is None

    def test_what_cannot_stand_alone_is_not_undone(self, project: Project) -> None:
        """An undo that leaves a later decision without sense is refused, and nothing changes."""
        decision_log = DecisionLog(project)
        for kind in ("pin", "unpin", "pin"):
            decision_log.decide(1, plans(GoalDecision(kind, ("c0",))))
        with pytest.raises(UsageError, match="later decision cannot stand"):
            decision_log.undo(1, 2)
        assert [row.active for row in decision_log.history(1)] == [True, True, True]
        assert decision_log.state(1).groups["c0"].pinned

    def test_several_at_once(self, project: Project) -> None:
        """Decisions of several threads are applied one after another, and none is lost."""
        decision_log = DecisionLog(project)

        def decide(label: str) -> None:
            for nth in range(10):
                decision_log.decide(
                    1, plans(GoalDecision("rename", ("c0",), ((f"{label}-{nth}", ""),)))
                )
                decision_log.state(1)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(decide, "abcd"))
        rows = decision_log.history(1)
        assert len(rows) == 40
        # what each renamed is what the one before it had named
        named = [
            "word0 · thing",
            *(row.text.split(" to ")[1].strip("“”") for row in reversed(rows)),
        ]
        assert [row.labels[0] for row in reversed(rows)] == named[:-1]
        assert decision_log.state(1).groups["c0"].label == named[-1]


class TestClusteringAgain:
    def test_decisions_are_taken_over(self, project: Project) -> None:
        """Decisions are transferred in one act, marked as such; those that cannot be are listed and tried on the next
        clustering.
        """
        decision_log = DecisionLog(project)
        for decision in (MERGE, SPLIT, GoalDecision("never", ("d1", "c3"))):
            decision_log.decide(1, plans(decision))
        second = decision_log.add_clustering(**made([5, 5, 5, 4, 4, 6, 6, 7, 7], 1, "second"))
        assert groups_of(decision_log.state(second))["d4"] == [1, 2, 3, 4, 5]
        rows = decision_log.history(second)
        assert [(row.kind, row.transferred, row.act) for row in rows] == [
            ("never", True, 4),
            ("merge", True, 4),
        ]
        assert [(row.id, reason) for row, reason in decision_log.unplaced(second)] == [
            (2, "its parts lie in one group now")
        ]
        third = decision_log.add_clustering(**made([0, 0, 0, 1, 1, 2, 3, 4, 4], 1, "third"))
        assert [row.kind for row in decision_log.history(third)] == ["never", "merge"]
        assert decision_log.unplaced(third) == []
        # the earlier clustering is as it was
        assert list(DecisionLog(project).state(1).current) == ["c3", "d1", "d2", "d2.1"]

    def test_reasons_have_decisions_of_their_own(self, project: Project) -> None:
        """Reasons take over no decision on goals and are open beside them, and goals that are clustered then take over
        those on the goals before."""
        decision_log = DecisionLog(project)
        decision_log.decide(1, plans(MERGE))
        config = replace(VECTORS, config_hash="reasons", text="explanation:refused")
        project.write(lambda conn: vectors.register(conn, config))
        reasons = {**made(LABELS, 1, "reasons"), "vector_config": "reasons"}
        second = decision_log.add_clustering(**reasons)
        assert decision_log.history(second) == []
        with project.reading() as conn:
            assert (clusterings.goals_clustering_id(conn), clusterings.open_id(conn)) == (1, second)
        decision_log.decide(second, plans(GoalDecision("apart", ("c0", "c1"))))
        third = decision_log.add_clustering(**made(LABELS, 1, "third"))
        assert [row.kind for row in decision_log.history(third)] == ["merge"]
        fourth = decision_log.add_clustering(**{**reasons, "config_hash": "fourth"})
        assert [row.kind for row in decision_log.history(fourth)] == ["apart"]

    def test_what_rules_decided_is_taken_back(self, project: Project) -> None:
        """Decisions of rules and models are undone together, those of people stay; where one of these is on a group
        that a rule made, nothing is undone."""
        decision_log = DecisionLog(project)
        decision_log.decide(1, plans(GoalDecision("pin", ("c0",))))
        decision_log.decide(1, plans(GoalDecision("merge", ("c1", "c2"), author="auto")))
        assert decision_log.take_back(1) == 1
        assert list(decision_log.state(1).current) == ["c0", "c1", "c2", "c3"]
        assert [row.kind for row in decision_log.active(1)] == ["pin"]
        decision_log.decide(
            1, plans(GoalDecision("theme", ("c1",), (("trips", ""),), author="auto"))
        )
        assert (decision_log.take_back(1), decision_log.by_program(1)) == (0, [])
        assert [row.kind for row in decision_log.active(1)] == ["pin", "theme"]
        (merge,) = decision_log.decide(1, plans(GoalDecision("merge", ("c1", "c2"), author="auto")))
        decision_log.decide(1, plans(GoalDecision("pin", merge.made_groups)))
        with pytest.raises(UsageError, match="1 decision of yours"):
            decision_log.take_back(1)
        assert len(decision_log.active(1)) == 4

    def test_going_back(self, project: Project) -> None:
        """A clustering that is made again gets the decisions made since, once, and none of its own; one that is only
        shown again is unchanged.
        """
        decision_log = DecisionLog(project)
        decision_log.decide(1, plans(GoalDecision("apart", ("c0", "c1"))))
        second = decision_log.add_clustering(**made(LABELS, 1, "second"))
        decision_log.decide(second, plans(GoalDecision("never", ("c0", "c2"))))
        project.write(lambda conn: clusterings.open_clustering(conn, 1))
        assert len(decision_log.history(1)) == 1
        project.write(lambda conn: clusterings.open_clustering(conn, second))
        for _ in range(2):
            decision_log.return_to(1)
            rows = decision_log.history(1)
            assert [(row.kind, row.transferred) for row in rows] == [
                ("never", True),
                ("apart", False),
            ]
            decision_log.return_to(second)
            assert [row.kind for row in decision_log.history(second)] == ["never", "apart"]
        decision_log.undo(1)
        decision_log.return_to(1)
        assert [row.active for row in decision_log.history(1)] == [False, True]


KILLED = """
import os, signal, sys
sys.path.insert(0, {repository!r})
from engine.goals.records import GoalDecision
from engine.goals.views.decision_log import DecisionLog
from engine.project.project import Project

kept = DecisionLog(Project.open({path!r}))
kept.decide(1, lambda desk: [GoalDecision("merge", ("c0", "c1"), (("things", ""),))])
kept.decide(1, lambda desk: [GoalDecision("never", ("d1", "c3"))])

def half(desk):
    yield GoalDecision("merge", ("d1", "c2"))
    os.kill(os.getpid(), signal.SIGKILL)

kept.decide(1, half)
"""


def test_killed(tmp_path: Path) -> None:
    """After kill -9 within an act every earlier act is stored, that one is not, and new decisions can be made."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as project:
        DecisionLog(project).add_clustering(**made(LABELS, conversations_with_vectors(project, 10)))
    code = KILLED.format(repository=str(REPOSITORY), path=str(path))
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert (ended.returncode, ended.stderr) == (-9, b"")
    with Project.open(path) as project:
        decision_log = DecisionLog(project)
        assert groups_of(decision_log.state(1)) == {
            "c2": [6, 7], "c3": [8], "d1": [1, 2, 3, 4, 5], None: [9]
        }  # fmt: skip
        assert [row.text for row in decision_log.history(1)] == [
            "kept “things” and “word3 · thing” apart for good",
            "merged “word0 · thing” and “word1 · thing” into “things”",
        ]
        following = project.read(goal_decisions.next_id)
        (row,) = decision_log.decide(1, plans(SPLIT))
        assert row.id == following
    check_whole(path)
