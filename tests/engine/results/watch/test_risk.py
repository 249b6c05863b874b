"""The probe of conversations that still run, on made states."""

from __future__ import annotations

import numpy as np

from engine.completeness.tables.hidden_states import BoundaryPlace, StateEntry
from engine.results.watch.watching import MIN_VERDICTS_OF_EACH, fit_risk

PLACE = BoundaryPlace(0, 0, 1, 10, 10)


def past(count: int) -> list[StateEntry]:
    """Conversations of four boundaries; in every second one the first number of each state but the last is larger."""
    random = np.random.default_rng(4)
    found = []
    for number in range(count):
        states = random.normal(size=(4, 8)).astype("<f2")
        states[:3, 0] += 3 * (number % 2)
        found.append(StateEntry(number, (PLACE,) * 4, states.tobytes(), None, 40))
    return found


def test_what_is_foreseen_before_the_end() -> None:
    """From the states before the last boundary the verdict on the whole is foreseen, by probes that did not see the
    conversation, and by the one that is used from then on."""
    entries = past(60)
    fitted, risks = fit_risk(entries, {one: one % 2 == 0 for one in range(60)}, np.arange(60))
    assert fitted is not None
    assert all(len(risk) == 3 for risk in risks.values())
    means = [np.mean([risks[one] for one in range(first, 60, 2)]) for first in (0, 1)]
    assert means[1] > means[0] + 0.4
    assert fitted.p(np.array([[3, *[0] * 7], [0] * 8], dtype=np.float32)).argmax() == 0


def test_too_few_verdicts() -> None:
    """Without enough verdicts of either kind there is no probe; those of conversations of one turn do not count."""
    said = {one: one >= MIN_VERDICTS_OF_EACH - 1 for one in range(60)}
    assert fit_risk(past(60), said, np.arange(60)) == (None, {})
    short = [StateEntry(one, (PLACE,), b"\0" * 16, None, 4) for one in range(60)]
    assert fit_risk(short, {one: one % 2 == 0 for one in range(60)}, np.arange(60)) == (None, {})
