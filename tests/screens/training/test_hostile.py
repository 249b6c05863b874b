"""Names, logs, samples and settings of training runs are data: they neither act nor break a layout."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import WorkbenchError
from engine.records.interval import Interval
from engine.records.validation import CompletenessTable, TruthRow, TruthTable
from engine.services.training.records import (
    Offer,
    Parity,
    Setting,
    TrainingEstimate,
    TrainingRequest,
)
from screens.shell.control_guard import ControlGuard
from screens.training import view
from tests.screens.driving import opened, press
from tests.screens.fakes import FakeProject, project
from tests.screens.test_hostile_text import check
from tests.screens.training.fake_training import OFFERS, FakeTraining, detail, run, running
from tests.terminal.payloads import PAYLOADS

ALL = " ".join(PAYLOADS.values())
LONG = "W" * 10_000


class HostileTraining(FakeTraining):
    """Says the payload wherever text of others can stand."""

    def __init__(self, payload: str) -> None:
        given = {"recipe": payload, "base": payload, "created_at": payload}
        super().__init__(
            replace(running(payload), **given),  # type: ignore[arg-type]
            run(f"{payload}2", in_use=True, **given),
            run(f"{payload}3", state="failed", problem=payload, hint=payload, **given),
        )
        self.payload = payload
        offer = Offer(payload, payload, payload)
        self.offered = replace(
            OFFERS, recipes=(offer, offer), presets=(offer,), bases=(offer,), settings=(offer,)
        )
        self.log_text = payload
        for one in self.given:
            known = detail(one)
            self.details[one.name] = replace(
                known,
                samples=tuple(
                    replace(sample, id=payload, text=payload, says=payload)
                    for sample in known.samples
                ),
                warnings=(payload,),
                last_lines=(payload, payload),
                config=(Setting(payload, payload + one.name, payload),),
                parity=Parity(None, None, 0, payload),
                filter=payload,
                folder=payload,
            )

    def estimate(self, wish: TrainingRequest) -> TrainingEstimate:
        return replace(
            super().estimate(wish), name=self.payload, base=self.payload, advice=self.payload,
            notes=(self.payload,), fits=False,
        )  # fmt: skip

    def table(self, name: str | None) -> CompletenessTable:
        known = super().table(name)
        truth = TruthTable(
            self.payload, self.payload, 3, 4, 7, (TruthRow(self.payload, HALF, HALF),)
        )
        rows = tuple(replace(row, name=self.payload) for row in known.rows)
        return replace(known, run=self.payload, rows=rows, truths=(truth,))


HALF = Interval(0.5, 0.4, 0.6)


@pytest.mark.parametrize(
    ("payload", "size"), [(ALL, (80, 24)), (LONG, (200, 60))], ids=["every payload", "ten thousand"]
)
async def test_the_training_screen_survives(
    payload: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the net, too, nothing crashes, acts, or leaves a control character in what is drawn."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    monkeypatch.setattr(view, "POLL_SECONDS", 3600.0)
    fake: FakeProject = project()
    fake.training = HostileTraining(payload)
    async with opened(fake, size, mode="7") as pilot:
        check(pilot, "a run that works")
        for keys in (["s"], ["enter"], ["l"], ["v"], ["c"], ["c", "enter"]):
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
        fake.training.fail_next = WorkbenchError(payload, payload)
        await press(pilot, "R")
        check(pilot, "an error")
        await press(pilot, "escape")
        fake.training.change(f"{payload}3", state="running")
        pilot.app.screen.refresh_data()  # type: ignore[attr-defined]
        await press(pilot, "home")
        fake.training.change(f"{payload}3", state="failed")
        pilot.app.screen.refresh_data()  # type: ignore[attr-defined]
        await press(pilot, "home")
        check(pilot, "the end of a run")
        fake.training.fail_reading = WorkbenchError(payload, payload)
        pilot.app.screen.refresh_data()  # type: ignore[attr-defined]
        await press(pilot, "home")
        check(pilot, "an error line")
    fake = project()
    fake.training.offered = replace(OFFERS, missing=payload, hint=payload)
    async with opened(fake, size, mode="7") as pilot:
        check(pilot, "nothing to train with")
