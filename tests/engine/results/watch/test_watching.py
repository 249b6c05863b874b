"""Watching a folder with the real model: each turn is reported, also over a crash."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.arrays import Bools, Ints
from engine.base.conversation import Conversation, Message
from engine.base.errors import UsageError
from engine.completeness import probe
from engine.completeness.probe import Probe
from engine.completeness.regression import States
from engine.completeness.stages.reading_states import ReadingStage
from engine.conversations.stages import ImportStage
from engine.jobs.contract import Stage
from engine.jobs.runner import JobRunner, RunOutcome
from engine.model.process.process import ModelProcess
from engine.project.project import Project
from engine.results.watch.watched_inputs import WatchedFiles
from engine.results.watch.watching import Event, WatchStage
from engine.simulate.demo import sample_conversations, write_jsonl
from tests.engine.completeness import scored

PAST = 24


@pytest.fixture(scope="module", autouse=True)
def weights(single_layer_weights: Path) -> Iterator[None]:
    """One layer of the shipped weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(single_layer_weights))
        yield


@pytest.fixture(scope="module")
def samples() -> list[Conversation]:
    """Past conversations, then four of four turns each that come while the watch looks."""
    found = sample_conversations(120, seed=3)
    found.sort(key=lambda one: sum(len(message.seen) for message in one.messages))
    past = [Conversation(f"past-{at:02}", one.messages[:5]) for at, one in enumerate(found[:PAST])]
    asked = ("Do you have blue paint?", "How much is it?", "I take two.", "Thank you.")
    said = ("Yes, two kinds.", "Nine a litre.", "They are in your basket.", "You are welcome.")
    messages = [
        message
        for question, answer in zip(asked, said, strict=True)
        for message in (Message("user", question), Message("assistant", answer))
    ]
    live = [
        Conversation(
            f"live-{at}",
            (Message("user", f"Shop {at}, good day. {messages[0].content}"), *messages[1:]),
        )
        for at in range(4)
    ]
    return [*past, *live]


@pytest.fixture(scope="module")
def watched_before(
    samples: list[Conversation], process: ModelProcess, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A project whose past conversations were read by a first watch, which found nothing new."""
    folder = tmp_path_factory.mktemp("watched")
    write_jsonl(samples[:PAST], folder / "past.jsonl")
    (folder / "live").mkdir()
    with Project.open(folder / "p.wb", create=True) as project:
        runner = JobRunner(project, lambda event: None)
        runner.run(ImportStage(project, [str(folder / "past.jsonl")]))
        reported: list[Event] = []
        outcome = watch(project, process, WatchedFiles([str(folder / "live")]), reported)
        assert outcome.state == "done"
        assert reported == []
    return folder / "p.wb"


@pytest.fixture
def project(watched_before: Path, tmp_path: Path) -> Iterator[Project]:
    """A copy of it, opened."""
    with Project.open(Path(shutil.copy(watched_before, tmp_path / "p.wb"))) as opened:
        yield opened


def watch(
    project: Project,
    process: ModelProcess,
    watched_files: WatchedFiles,
    reported: list[Event],
    crash: int = 0,
    idle: float = 1e6,
) -> RunOutcome:
    """Looks once; with `crash` the program fails while it reports the event of this number."""

    def emit(event: Event) -> None:
        reported.append(event)
        if len(reported) == crash:
            raise RuntimeError("the program crashed")

    def not_clustered() -> list[Stage]:
        raise UsageError("Nothing was clustered yet.", "Cluster.")

    reading = ReadingStage(project, process, scored.model())
    stage = WatchStage(
        project, watched_files, reading, not_clustered, emit, every=2.0, idle=idle, once=True
    )
    return JobRunner(project, lambda event: None).run(stage)


def put(folder: Path, one: Conversation, count: int) -> None:
    """Writes a file with the first messages of a conversation."""
    folder.mkdir(exist_ok=True)
    write_jsonl(
        [Conversation(one.external_id, one.messages[:count])], folder / f"{one.external_id}.jsonl"
    )


def names(reported: list[Event]) -> list[tuple[Any, Any]]:
    return [(event["conversation"], event.get("turn")) for event in reported]


def test_each_turn_is_told_once(
    project: Project, process: ModelProcess, samples: list[Conversation], tmp_path: Path
) -> None:
    """A new conversation is reported with each turn that it has; when it grew, only with the new one; then its end."""
    live, one = tmp_path / "live", samples[PAST]
    put(live, one, 4)
    reported: list[Event] = []
    watch(project, process, WatchedFiles([str(live)]), reported)
    assert names(reported) == [(one.external_id, 1), (one.external_id, 2)]
    assert all(0 < event["p"] < 1 for event in reported)
    assert reported[1]["change"] == pytest.approx(reported[1]["p"] - reported[0]["p"], abs=1e-3)
    assert reported[0]["novel"] is None  # nothing was clustered

    put(live, one, 6)
    watch(project, process, WatchedFiles([str(live)]), reported)
    assert names(reported[2:]) == [(one.external_id, 3)]
    watch(project, process, WatchedFiles([str(live)]), reported)
    assert len(reported) == 3
    watch(project, process, WatchedFiles([str(live)]), reported, idle=0)
    assert (reported[3]["ended"], reported[3]["turn"], reported[3]["goal"]) == (True, 3, None)


def test_of_many_past_conversations_some_are_learned_from(
    watched_before: Path, process: ModelProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that learns from some of the past conversations reports none of the others."""
    learned = []
    fit = probe.fit

    def counted(states: States, end: Bools, group: Ints) -> Probe:
        learned.append(int(end.sum()))
        return fit(states, end, group)

    monkeypatch.setattr(probe, "MAX_CONVERSATIONS", 21)
    monkeypatch.setattr(probe, "fit", counted)
    shutil.copy(watched_before, tmp_path / "p.wb")
    with Project.open(tmp_path / "p.wb") as project:
        project.write(lambda conn: conn.execute("DELETE FROM watched"))
        reported: list[Event] = []
        watch(project, process, WatchedFiles([str(tmp_path)]), reported)
        with project.reading() as conn:
            known = conn.execute("SELECT count(*) FROM watched").fetchone()
    assert learned == [21]
    assert reported == []
    assert known == (PAST,)


def test_a_crash_loses_no_turn(
    project: Project, process: ModelProcess, samples: list[Conversation], tmp_path: Path
) -> None:
    """After a crash while it reports, the next watch reports the rest; a repeated event has the same name."""
    live = tmp_path / "live"
    for one in samples[PAST : PAST + 3]:
        put(live, one, 4)
    reported: list[Event] = []
    outcome = watch(project, process, WatchedFiles([str(live)]), reported, crash=4)
    assert outcome.state == "failed"
    watch(project, process, WatchedFiles([str(live)]), reported)
    assert len({event["event"] for event in reported}) == 6
    assert len(reported) <= 6 + 2  # one conversation at most comes again
