"""The simulation service with the default model: requests, sets, tables, live replies, shards, forms."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import ProjectError, UsageError
from engine.base.events import Event, JobEnded
from engine.model.chat import Call, ChatMessage, Completion
from engine.opener.open_project import OpenProject
from engine.simulate.live import MAX_LINES, MAX_PLAYS, LivePlays
from engine.simulate.play import Line
from engine.simulate.records import PlayRow
from engine.simulate.request import SimulationRequest
from engine.simulate.service.result_tables import item_of, tables_of
from engine.simulate.service.sharded import opened_drafts

REQUEST = SimulationRequest(
    "recsim",
    runs=2,
    tasks=("travel planning",),
    turns=1,
    user_tokens=16,
    assistant_tokens=16,
    context=1024,
)
RECORD = {
    "task_id": "T-1",
    "task": "math",
    "answer": "#### 5",
    "shards": [{"shard_id": 1, "shard": "How many are left?"}, {"shard_id": 2, "shard": "Ann has 12."}],
    "sharding": {
        "state": "proposed", "text": "Ann has 12 and gives Ben 7. How many are left?", "segmented": True,
        "missing": None, "lost": [], "check": {}, "pieces": [[28, 46, "model"], [0, 10, "model"]],
    },
}  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path, tuned_shallow: None) -> Iterator[OpenProject]:
    """An empty project on a machine where the default model was tuned."""
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
        """A request is estimated and played; its replies come live, its results are in tables and in a new file; it is
        stored and not played twice.
        """
        service, request = workspace.simulations, REQUEST
        assert service.offers().tasks[0] == request.tasks[0]
        assert service.estimate(request).plays == 2
        assert service.sets() == []
        assert played(workspace, lambda: service.start(request)).outcome == "done"
        (one,) = service.sets()
        assert (one.kind, one.played) == ("recsim", 2)
        results = service.results(one.config_hash)
        assert [table.title for table in results.tables] == ["by task", "by number of turns"]
        (row,) = results.tables[0].rows
        assert row.cells[:2] == (request.tasks[0], 2)
        assert set(row.plays) == {item.id for item in results.plays}
        heard = {play.key: play for play in service.live()}
        for item in results.plays:
            lines = service.transcript(item.id)
            assert heard[f"recsim/{item.name}"].replies == len(lines)
            assert item.conversation_id is not None
        assert service.estimate(request).plays == 0
        assert service.offers().last == request
        assert played(workspace, lambda: service.go_on(one.config_hash)).outcome == "done"
        assert service.sets()[0].played == 2

        service.export(one.config_hash, str(tmp_path / "out.json"))
        exported = json.loads((tmp_path / "out.json").read_text("utf-8"))
        assert exported["tables"][0]["rows"][0]["conversations"] == 2
        assert len(exported["plays"]) == 2
        with pytest.raises(ProjectError, match="there already"):
            service.export(one.config_hash, str(tmp_path / "out.json"))

    def test_refused(self, workspace: OpenProject) -> None:
        """A request that cannot be played or resumed is refused before anything starts."""
        service = workspace.simulations
        with pytest.raises(UsageError, match="cannot be read"):
            service.estimate(SimulationRequest("sharded", instructions="/none/such.json"))
        with pytest.raises(UsageError, match="not known here") as error:
            service.go_on("0123456789abcdef")
        assert "The command that started it" in error.value.hint


class TestTables:
    def test_the_papers_table(self) -> None:
        """The table has P, A90 and U90-10 by condition and by instruction, the share of FULL, and the plays behind each
        row.
        """
        scores = {"full": (1.0, 1.0), "sharded": (1.0, 0.0)}
        rows = [
            play(2 * at + n, condition, score)
            for at, (condition, both) in enumerate(scores.items())
            for n, score in enumerate(both)
        ]
        by_condition, by_instruction, kinds = tables_of("sharded", rows)
        full, sharded = by_condition.rows
        assert full.cells == ("full", "math", 1, 2, 100.0, 1.0, 100.0, 0.0, 1.0, None)
        assert sharded.cells == ("sharded", "math", 1, 2, 50.0, 0.5, 90.0, 80.0, 0.9, None)
        assert sharded.plays == (2, 3)
        assert [row.cells[:2] for row in by_instruction.rows] == [
            ("T-1", "full"),
            ("T-1", "sharded"),
        ]
        assert kinds.rows[0].cells[0] == "sharded"
        assert by_condition.notes == ()

    def test_played_once(self) -> None:
        """With one run only, reliability is unknown, and the table says so."""
        by_condition = tables_of("sharded", [play(0, "full", 1.0)])[0]
        assert by_condition.rows[0].cells[7] is None
        assert "not known" in by_condition.notes[0]

    def test_a_play(self) -> None:
        """The description of a play has turns and shards where it has several turns, else the score alone."""
        assert item_of(play(0, "full", 0.0)).summary == "score 0"
        assert item_of(play(1, "recap", 1.0)).summary == "score 100 · 2 turns · 2 of 2 shards"

    def test_what_broke_off(self) -> None:
        """An interrupted play is in no table."""
        assert tables_of("sharded", [replace(play(0, "full", 1.0), reason="it died")]) == ()


def play(number: int, condition: str, score: float) -> PlayRow:
    """A play of one instruction."""
    result = {
        "task": "math", "task_id": "T-1", "condition": condition, "conv_type": condition, "model": "m",
        "score": score, "turns": 2, "shards": 2, "revealed": 2, "stand_ins": 0,
        "categories": ["answer_attempt"] if condition == "sharded" else [],
    }  # fmt: skip
    return PlayRow(number, "c", "sharded", f"sharded/math/{number}", 1, number, None, result)


class TestLive:
    def test_the_newest_first(self) -> None:
        """A few plays with a few replies each are kept live, the newest first; another run clears them."""
        live = LivePlays()
        call = Call("user", "user", (ChatMessage("user", "x"),), opening="I ")
        for number in range(MAX_PLAYS + 3):
            live.add("run", f"play {number}", Line(call, Completion("said", "end")))
        for _ in range(MAX_LINES + 5):
            live.add("run", "play 9", Line(call, Completion("again", "end")))
        found = live.newest()
        assert len(found) == MAX_PLAYS
        assert (found[0].key, found[0].replies, len(found[0].lines)) == (
            "play 9",
            MAX_LINES + 6,
            MAX_LINES,
        )
        assert found[0].lines[-1].text == "I again"
        live.add("another", "play", Line(call, Completion("x", "end")))
        assert [one.key for one in live.newest()] == ["play"]


class TestShards:
    def test_every_change_is_in_the_file(self, tmp_path: Path) -> None:
        """Edits, moves, omissions and decisions are stored when the file is opened again."""
        path = tmp_path / "shards.jsonl"
        path.write_text(json.dumps(RECORD) + "\n", "utf-8")
        drafts = opened_drafts(str(path), list)
        (draft,) = drafts.items()
        assert draft.lost == ["Ben", "7"]
        drafts.edit(0, 2, "Ann has 12 and gives Ben 7.")
        drafts.move(0, 2, -1)
        assert drafts.decide(0, "approved").lost == []
        (again,) = opened_drafts(str(path), list).items()
        assert again.state == "approved"
        assert [one.text for one in again.candidates] == [
            "Ann has 12 and gives Ben 7.",
            "How many are left?",
        ]
        assert [one.by for one in again.candidates] == ["person", "model"]

    def test_what_the_project_proposed(self, tmp_path: Path) -> None:
        """A new shards file gets the newest proposal for each instruction; without proposals there is no file."""
        path = tmp_path / "new.jsonl"
        with pytest.raises(UsageError, match="proposed no shards"):
            opened_drafts(str(path), list)
        assert not path.exists()
        rows = [
            PlayRow(n, "c", "shards", f"shards/{n}", 1, None, None, {**RECORD, "answer": n})
            for n in (1, 2)
        ]
        assert len(opened_drafts(str(path), lambda: rows).items()) == 1
        assert json.loads(path.read_text("utf-8"))["answer"] == 2

    def test_the_last_shard(self, tmp_path: Path) -> None:
        """An instruction keeps at least one shard."""
        path = tmp_path / "shards.jsonl"
        path.write_text(json.dumps(RECORD) + "\n", "utf-8")
        drafts = opened_drafts(str(path), list)
        drafts.leave_out(0, 1)
        with pytest.raises(UsageError, match="last shard"):
            drafts.leave_out(0, 2)
