"""Names, logs, samples and settings of training runs are data: they neither act nor break a layout."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.errors import WorkbenchError
from engine.training.records import (
    Choice,
    Parity,
    RunDetail,
    Setting,
    TrainingChoices,
    TrainingEstimate,
    TrainingRun,
)
from engine.training.request import TrainingRequest
from engine.training.service import TrainingService
from screens.shell.base_app import ControlGuard
from tests.screens.driving import opened, press
from tests.screens.project import ScreenProject
from tests.screens.test_hostile_text import check
from tests.screens.training.driving import RUNNING, read_again, still, trained
from tests.terminal.payloads import PAYLOADS

ALL = " ".join(PAYLOADS.values())
LONG = "W" * 10_000


class HostileTraining(TrainingService):
    """The real service, with the payload in place of every text that others can write."""

    payload = ""
    missing = ""
    error: WorkbenchError | None = None

    def _named(self, run: TrainingRun) -> TrainingRun:
        problem = self.payload if run.problem else ""
        return replace(
            run, name=self.payload + run.name, recipe=self.payload, base=self.payload, problem=problem,
            created_at=self.payload, hint=problem,
        )  # fmt: skip

    def choices(self) -> TrainingChoices:
        choice = Choice(self.payload, self.payload)
        return replace(
            super().choices(), missing=self.missing, hint=self.missing, recipes=(choice, choice),
            bases=(choice,), settings=(choice,),
        )  # fmt: skip

    def runs(self) -> list[TrainingRun]:
        if self.error is not None:
            raise self.error
        return [self._named(run) for run in super().runs()]

    def detail(self, name: str) -> RunDetail:
        payload = self.payload
        known = super().detail(name.removeprefix(payload))
        return replace(
            known,
            run=self._named(known.run),
            samples=tuple(
                replace(sample, id=payload, text=payload, generated=payload)
                for sample in known.samples
            ),
            warnings=(payload,),
            last_lines=(payload, payload),
            config=(Setting(payload, payload + name, payload),),
            parity=Parity(None, None, 0, payload),
            filter=payload,
            folder=payload,
        )

    def log(self, name: str) -> str:
        return self.payload

    def estimate(self, request: TrainingRequest) -> TrainingEstimate:
        return replace(
            super().estimate(TrainingRequest()), name=self.payload, base=self.payload, advice=self.payload,
            notes=(self.payload,), fits=False,
        )  # fmt: skip

    def resume(self, name: str) -> None:
        raise WorkbenchError(self.payload, self.payload)


def hostile(payload: str) -> tuple[ScreenProject, HostileTraining]:
    """Three runs whose texts are all the payload."""
    support = trained(used=None)
    old = support.training
    training = HostileTraining(support.file, old._catalog, support.trainers, old._machine)
    training.payload = payload
    support.training = training
    return support, training


@pytest.mark.parametrize(
    ("payload", "size"), [(ALL, (80, 24)), (LONG, (200, 60))], ids=["every payload", "ten thousand"]
)
async def test_the_training_screen_survives(
    payload: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the net, too, nothing crashes, acts, or leaves a control character in what is drawn."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    still(monkeypatch)
    support, training = hostile(payload)
    async with opened(support, size, mode="7") as pilot:
        check(pilot, "a run that works")
        for keys in (["s"], ["enter"], ["l"]):
            await press(pilot, *keys)
            check(pilot, f"training {keys}")
            await press(pilot, "escape")
        await press(pilot, "n")
        for keys in (["right"], ["down"], ["down"], ["down", "down", "down", "x"]):
            await press(pilot, *keys)
            check(pilot, f"a new run {keys}")
        await press(pilot, "escape", "down")
        check(pilot, "a run in use")
        await press(pilot, "end")
        check(pilot, "a run that failed")
        await press(pilot, "D")
        check(pilot, "a question")
        await press(pilot, "escape", "A")
        check(pilot, "a toast")
        await press(pilot, "R")
        check(pilot, "an error")
        await press(pilot, "escape")
        support.trainers.end(RUNNING)
        await read_again(pilot)
        check(pilot, "the end of a run")
        training.error = WorkbenchError(payload, payload)
        await read_again(pilot)
        check(pilot, "an error line")
    support, training = hostile(payload)
    training.missing = payload
    async with opened(support, size, mode="7") as pilot:
        check(pilot, "nothing to train with")
