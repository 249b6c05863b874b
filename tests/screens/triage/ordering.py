"""Choosing the order of triage by keys, whatever the order is now."""

from __future__ import annotations

from textual.pilot import Pilot

from engine.questions.records import QueueOrder
from screens.triage.formatting import ORDERS
from screens.triage.screen import TriageScreen
from tests.screens.driving import press


async def choose_order(pilot: Pilot[None], order: QueueOrder) -> None:
    """Opens the dialog of the orders in triage, goes to this one, and takes it."""
    triage = pilot.app.screen
    assert isinstance(triage, TriageScreen)
    names = list(ORDERS)
    steps = names.index(order) - names.index(triage.order)
    await press(pilot, "O", *["down" if steps > 0 else "up"] * abs(steps), "enter")
