"""The simulation service with the default model: requests, sets and tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.errors import ProjectError, UsageError
from engine.base.events import Event, JobEnded
from engine.opener.open_project import OpenProject
from engine.simulate.records import PlayRow
from engine.simulate.recsim import play as recsim
from engine.simulate.service.result_tables import tables_of
from engine.simulate.simulation_request import SimulationRequest

REQUEST = SimulationRequest(
    "recsim",
    runs=1,
    tasks=("travel planning",),
    turns=1,
    context=1024,
)


@pytest.fixture
def workspace(
    tmp_path: Path, tuned_shallow: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenProject]:
    """An empty project on a machine where the default model was tuned; replies are short."""
    for name in ("USER_TOKENS", "ASSISTANT_TOKENS"):
        monkeypatch.setattr(recsim, name, 16)
    with OpenProject(tmp_path / "p.wb", create=True) as opened:
        yield opened


def played(workspace: OpenProject, start: object) -> JobEnded:
    """Waits until a job that is started in this block has ended."""
    ended = threading.Event()
    found: list[JobEnded] = []

    def hear(event: Event) -> None:
        if isinstance(event, JobEnded):
            found.append(event)
            ended.set()

    unsubscribe = workspace.subscribe(hear)
    start()  # type: ignore[operator]
    assert ended.wait(120)
    unsubscribe()
    return found[0]


class TestPlaying:
    def test_from_a_request_to_its_results(self, workspace: OpenProject, tmp_path: Path) -> None:
        """A request is estimated and played; its results are in tables and in a new file; it is stored and not played
        twice.
        """
        service, request = workspace.simulations, REQUEST
        assert service.estimate(request).items == 1
        assert service.sets() == []
        assert played(workspace, lambda: service.start(request)).outcome == "done"
        (one,) = service.sets()
        assert (one.kind, one.played) == ("recsim", 1)
        results = service.results(one.config_hash)
        assert [table.title for table in results.tables] == ["by task"]
        (row,) = results.tables[0].rows
        assert row.cells[:2] == (request.tasks[0], 1)
        assert set(row.plays) == {item.id for item in results.plays}
        for item in results.plays:
            assert service.transcript(item.id)
            assert item.conversation_id is not None
        assert service.estimate(request).items == 0
        assert service.offers().last == request

        service.export(one.config_hash, str(tmp_path / "out.json"))
        exported = json.loads((tmp_path / "out.json").read_text("utf-8"))
        assert exported["tables"][0]["rows"][0]["conversations"] == 1
        assert len(exported["plays"]) == 1
        with pytest.raises(ProjectError, match="there already"):
            service.export(one.config_hash, str(tmp_path / "out.json"))

    def test_an_edit_with_a_place_that_nothing_fills(self, workspace: OpenProject) -> None:
        """An edited prompt with an unknown place is refused with the list of known ones."""
        with pytest.raises(UsageError, match=r"\[\[NO_SUCH_PLACE\]\]") as error:
            workspace.prompts.edit("sharded/recap", "[[SAMPLE_TEXT]] [[NO_SUCH_PLACE]]")
        assert "[[SAMPLE_TEXT]]" in error.value.hint

    def test_refused(self, workspace: OpenProject) -> None:
        """A request that cannot be played is refused before anything starts."""
        service = workspace.simulations
        with pytest.raises(UsageError, match="cannot be read"):
            service.estimate(SimulationRequest("sharded", instructions="/none/such.json"))


class TestTables:
    def test_the_papers_table(self) -> None:
        """The table has P, A90 and U90-10 by condition, the share of FULL, and the plays behind each row."""
        scores = {"full": (1.0, 1.0), "sharded": (1.0, 0.0)}
        rows = [
            play(2 * at + n, condition, score)
            for at, (condition, both) in enumerate(scores.items())
            for n, score in enumerate(both)
        ]
        by_condition, kinds = tables_of("sharded", rows)
        full, sharded = by_condition.rows
        assert full.cells == ("full", "math", 1, 2, 100.0, 1.0, 100.0, 0.0, 1.0, None)
        assert sharded.cells == ("sharded", "math", 1, 2, 50.0, 0.5, 90.0, 80.0, 0.9, None)
        assert sharded.plays == (2, 3)
        assert kinds.rows[0].cells[0] == "sharded"
        assert by_condition.notes == ()


def play(number: int, condition: str, score: float) -> PlayRow:
    """A play of one instruction."""
    result = {
        "task": "math", "task_id": "T-1", "condition": condition, "conv_type": condition, "model": "m",
        "score": score, "turns": 2, "shards": 2, "revealed": 2, "stand_ins": 0,
        "categories": ["answer_attempt"] if condition == "sharded" else [],
    }  # fmt: skip
    return PlayRow(number, "c", "sharded", f"sharded/math/{number}", 1, number, None, result)
