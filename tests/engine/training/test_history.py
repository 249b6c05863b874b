"""The history of a training run, read from its events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.training.events import EventLog
from engine.training.history import RunHistory
from engine.training.run_directory import RunDirectory, lock_run
from tests.engine.training.training_project import bare_run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run without events."""
    return bare_run(tmp_path / "p.wb")


def say(run: RunDirectory, *events: tuple[str, dict[str, Any]]) -> None:
    """Appends events as the trainer does."""
    log = EventLog(run.events)
    for name, fields in events:
        log.write(name, **fields)
    log.close()


def started(step: int = 0) -> tuple[str, dict[str, Any]]:
    """The first event of a process."""
    return "started", {"step": step, "steps": 40, "examples": 9, "tokens": 900, "pid": 1}


def step(number: int, loss: float = 0.5) -> tuple[str, dict[str, Any]]:
    """A step."""
    return "step", {
        "step": number,
        "epoch": number / 20,
        "loss": loss,
        "tokens_per_s": 100.0 + number,
        "seconds_left": 60.0,
        "memory": 1 << 30,
    }


def valid(number: int, auroc: float | None, best: bool) -> tuple[str, dict[str, Any]]:
    """A validation."""
    return "valid", {
        "step": number, "loss": 0.4, "auroc": auroc, "f1": 0.5, "n": 20, "best": best,
    }  # fmt: skip


class TestCurves:
    def test_what_was_written_since_is_taken_in(self, run: RunDirectory) -> None:
        """A history that is read again has the new events once, and an incomplete line only when it is complete."""
        history = RunHistory(run)
        say(run, started(), step(1), step(2))
        assert [point.step for point in history.detail().loss] == [1, 2]

        say(run, step(3))
        with run.events.open("a") as file:
            file.write('{"event": "step", "time": 1, "step": 4, "lo')
        assert [point.step for point in history.detail().loss] == [1, 2, 3]
        with run.events.open("a") as file:
            file.write('ss": 0.25}\n')
        assert [point.step for point in history.detail().loss] == [1, 2, 3, 4]

    def test_a_validation_that_goes_on(self, run: RunDirectory) -> None:
        """A validation is shown while it lasts and a process works."""
        history = RunHistory(run)
        say(run, started(), step(10), ("validating", {"step": 10}))
        assert not history.row().validating
        with lock_run(run) as had:
            assert had
            assert (history.row().validating, history.row().phase) == (True, "validating")
            say(run, valid(10, 0.7, True))
            assert (history.row().validating, history.row().phase) == (False, "")

    def test_the_time_that_is_left_is_never_an_old_one(self, run: RunDirectory) -> None:
        """A process that resumes a run has said nothing yet."""
        history = RunHistory(run)

        def at(time: float, event: tuple[str, dict[str, Any]]) -> float | None:
            say(run, (event[0], {**event[1], "time": time}))
            return history.row().seconds_left

        with lock_run(run) as had:
            assert had
            assert at(100.0, started()) is None
            assert at(110.0, step(10)) == 60.0
            assert at(200.0, ("started", {})) == 60.0  # is skipped, for it has no step
            assert at(200.0, started(11)) is None
            assert 10.0 <= history.row().seconds < 11.0

    def test_what_is_done_again_is_told_once(self, run: RunDirectory) -> None:
        """After a resume, steps since the checkpoint are repeated: the curve shows the repetition only, and where it
        begins.
        """
        say(
            run,
            started(), step(9, 0.9), valid(10, 0.7, True), step(11, 0.8), valid(20, 0.9, True), step(21),
            started(10),
        )  # fmt: skip
        assert RunHistory(run).row().loss is None
        say(run, step(11, 0.6))
        detail = RunHistory(run).detail()

        assert [(point.step, point.loss) for point in detail.loss] == [(9, 0.9), (11, 0.6)]
        assert [point.step for point in detail.valid] == [10]
        assert detail.resumed == (10,)
        assert (detail.run.auroc, detail.run.best_step) == (0.7, 10)

    def test_lines_that_say_nothing_are_passed_over(self, run: RunDirectory) -> None:
        """Unknown events, and events with missing or invalid fields, are ignored."""
        say(
            run,
            ("music", {}), ("step", {}), ("valid", {"step": "two"}), ("sample", {"step": 1}),
            started(), step(1),
        )  # fmt: skip
        run.events.write_bytes(run.events.read_bytes() + b'[1]\n"x"\n\xff\n')
        detail = RunHistory(run).detail()

        assert [point.step for point in detail.loss] == [1]
        assert detail.run.steps == 40

    @pytest.mark.parametrize(
        "manifest", ['{"counts": {"train": [3]}}', '{"counts": 3}', "[" * 100_000]
    )
    def test_a_damaged_manifest(self, run: RunDirectory, manifest: str) -> None:
        """Without counts in the manifest those of the trainer are used."""
        say(run, started())
        run.manifest.write_text(manifest, "utf-8")

        assert RunHistory(run).row().conversations == 9


class TestStates:
    @pytest.mark.parametrize(
        ("ending", "state"),
        [
            (("done", {"step": 40, "reason": "finished", "best_step": 20}), "finished"),
            (("done", {"step": 12, "reason": "stopped", "best_step": 10}), "stopped"),
            (("error", {"message": "It broke.", "hint": "Mend it."}), "failed"),
            (step(3), "interrupted"),
        ],
    )
    def test_the_last_word_counts(
        self, ending: tuple[str, dict[str, Any]], state: str, run: RunDirectory
    ) -> None:
        """Without a process the last state event determines the state of a run."""
        say(run, started(), step(1), ending, ("warning", {"message": "late"}))

        assert RunHistory(run).row().state == state

    def test_new(self, run: RunDirectory) -> None:
        """A run that was never started is new and has no problem."""
        row = RunHistory(run).row()

        assert (row.state, row.problem, row.step) == ("new", "", None)

    def test_time_is_that_of_its_processes(self, run: RunDirectory) -> None:
        """The running time of a run is that of its processes, without the time between them."""
        lines = [
            {"event": "started", "time": 1000.0, "step": 0, "steps": 9},
            {"event": "step", "time": 1060.0, "step": 1, "loss": 1.0},
            {"event": "warning", "time": 8990.0, "message": "A checkpoint is damaged."},
            {"event": "started", "time": 9000.0, "step": 1, "steps": 9},
            {"event": "step", "time": 9030.0, "step": 2, "loss": 1.0},
        ]
        run.events.write_text("".join(f"{line}\n".replace("'", '"') for line in lines))

        assert RunHistory(run).row().seconds == 90.0
