"""What a hub and the files of others say of themselves neither acts nor breaks the models screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import ModelError
from engine.services.models.records import Fact, HubFileRow, HubRow
from screens.models import screen as models_screen
from screens.shell.control_guard import ControlGuard
from tests.screens.driving import opened, press
from tests.screens.models.fake_models import ADAPTER, BROKEN, PULLED, PULLING, RECOMMENDED
from tests.screens.project import ScreenProject, project
from tests.screens.test_hostile_text import check
from tests.terminal.payloads import PAYLOADS

ALL = " ".join(PAYLOADS.values())


def hostile(payload: str) -> ScreenProject:
    """Says the payload wherever text of others can stand."""
    fake, models = project(), project().models
    fake.models = models
    said = {"source": payload, "licence": payload, "note": payload, "origin": payload}
    models.given = [
        replace(PULLED, name=f"{payload}1", runs_as=payload, **said),  # type: ignore[arg-type]
        replace(BROKEN, name=f"{payload}2", problem=payload, **said),  # type: ignore[arg-type]
        replace(ADAPTER, name=f"{payload}3", **said),  # type: ignore[arg-type]
        *(
            replace(PULLED, name=one, runs_as=one, licence=one, note=one)
            for one in PAYLOADS.values()
        ),
    ]
    models.given_pulls = [
        replace(PULLING, name=f"{payload}4", repository=payload, file=payload, redirect=payload),
        replace(PULLING, name=f"{payload}5", state="failed", problem=payload, hint=payload),
    ]
    models.known = [Fact("file", payload), Fact("from", payload)]
    models.found = [HubRow(payload, payload, True, 3, payload)]
    models.page = replace(
        models.page, revision=payload, licence=payload, page=payload, files=(HubFileRow(payload, 1, 2, False),)
    )  # fmt: skip
    models.offered = [
        replace(RECOMMENDED[0], role=payload, repository=payload, file=payload, licence=payload, note=payload)
    ]  # fmt: skip
    models.hub = lambda: payload  # type: ignore[method-assign]
    return fake


@pytest.mark.parametrize(
    ("payload", "size"), [(ALL, (160, 50)), (ALL, (80, 24)), ("W" * 10_000, (80, 24))]
)
async def test_nothing_acts(
    payload: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the list, below it, in the dialogs and in messages, without the net too."""
    monkeypatch.setattr(models_screen, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    fake = hostile(payload)
    async with opened(fake, size, mode="8") as pilot:
        for _ in range(5):
            check(pilot, "list")
            await press(pilot, "down")
        await press(pilot, "home", "down", "down", "v")
        check(pilot, "verified")
        await press(pilot, "D")
        check(pilot, "remove")
        await press(pilot, "escape", "s")
        check(pilot, "recommended")
        await press(pilot, "enter")
        check(pilot, "files")
        await press(pilot, "escape", "slash", *"x", "enter")
        check(pilot, "found")
        fake.models.fail_next = ModelError(payload, payload)
        await press(pilot, "enter")
        check(pilot, "refused")
