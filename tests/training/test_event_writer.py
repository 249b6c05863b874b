"""The progress events of a training run, with the time left."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.completeness.scoring import LogItem
from engine.training.events import Event, EventLog, read_events
from engine.training.presets import VALIDATION_SPEEDUP
from training.event_writer import EventWriter
from training.examples import Datasets, Example, Log
from training.loop import BEST, AdapterTrainer

SPEED = 50.0
"""Tokens a second of the trainer below."""

EPOCH = 1000
"""Tokens."""

HELD_OUT, HELD_OUT_TOKENS = 4, 300


class Run:
    """A run of twenty steps over one epoch, validated after every eight and at the end, with a clock that the test
    moves.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.stopping = 100.0, False
        monkeypatch.setattr("training.event_writer.time.monotonic", lambda: self.now)
        data = Datasets(
            [Example(list(range(EPOCH)), [1], [1.0])],
            HELD_OUT * [Log("held out", LogItem(("text",), (0,), 0))],
            HELD_OUT_TOKENS,
        )
        self._path = folder / "events.jsonl"
        self._writer = EventWriter(EventLog(self._path), data, lambda: self.stopping)
        self._args = SimpleNamespace(
            eval_steps=8,
            num_train_epochs=1,
        )
        self._state = SimpleNamespace(
            global_step=0, max_steps=20, epoch=0.0, is_world_process_zero=True, best_metric=None,
            best_global_step=None,
        )  # fmt: skip
        trainer = SimpleNamespace(
            args=self._args, state=self._state, tokens=500, seconds=500 / SPEED
        )
        self._writer.trainer = cast(AdapterTrainer, trainer)

    def step(self, number: int) -> Event:
        """Makes a step; returns its event."""
        self._state.global_step = number
        logs = {"loss": 0.5, "learning_rate": 1e-4}
        self._writer.on_log(self._args, self._state, None, logs=logs)
        return self._last()

    def reads(self, done: int, seconds: float) -> Event:
        """Validates one conversation in this many seconds; returns the newest event."""
        self.now += seconds
        self._writer.validating(done)
        return self._last()

    def validated(self) -> None:
        """Ends a validation."""
        metrics: dict[str, Any] = {"loss": 0.5, "auroc": None, "f1": None, "pairs": 0, BEST: 8}
        self._writer.on_evaluate(self._args, self._state, None, metrics=metrics)

    def _last(self) -> Event:
        return read_events(self._path)[0][-1]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run without events."""
    return Run(tmp_path, monkeypatch)


def a_step(number: int) -> float:
    """Seconds of training that are left after a step."""
    return (20 - number) / 20 * EPOCH / SPEED


GUESS = HELD_OUT_TOKENS / (VALIDATION_SPEEDUP * SPEED)
"""Seconds of a validation, before there was one."""


class TestTimeLeft:
    def test_before_the_first_validation(self, run: Run) -> None:
        """Before the first validation its time is estimated from the speed of training: after steps 8, 16 and 20 of
        twenty.
        """
        assert run.step(1)["seconds_left"] == pytest.approx(a_step(1) + 3 * GUESS)

    def test_while_validating(self, run: Run) -> None:
        """A validation that is half done after six seconds has six left, and later ones are estimated as long as it."""
        run.step(8)
        first = run.reads(1, 0.0)
        assert (first["event"], first["done"], first["of"]) == ("validating", 1, HELD_OUT)
        run.reads(2, 3.0)
        third = run.reads(3, 3.0)
        assert (third["step"], third["done"]) == (8, 3)
        assert third["seconds_left"] == pytest.approx(a_step(8) + 6.0 + 2 * GUESS)
        run.reads(4, 3.0)
        run.validated()
        assert run.step(9)["seconds_left"] == pytest.approx(a_step(9) + 2 * 9.0)


def test_not_more_often_than_one_reads(run: Run) -> None:
    """A fast validation sends one progress event, not one for every conversation."""
    run.step(8)
    told = run.reads(1, 0.0)
    assert run.reads(2, 0.1) == told
    assert run.reads(3, 0.1) == told
