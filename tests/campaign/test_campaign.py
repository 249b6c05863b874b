"""A short slice of each campaign: no kill changes a result, and no damaged input ends in anything but a refusal."""

from __future__ import annotations

from pathlib import Path

from tests.campaign import fuzz, kills, walk


def test_kills() -> None:
    """Imports of conversations and of verdicts that are killed at a random moment leave a sound file and can go on."""
    outcome = kills.campaign(2, 1, ["import", "verdicts"])
    assert outcome.failures == []
    assert outcome.rounds.total() == 2


def test_damaged_input() -> None:
    """Damaged logs, filters, models, mappings, verdicts, scores and projects are read or refused in words."""
    outcome = fuzz.campaign(150, 3, list(fuzz.TARGETS))
    assert outcome.failures == []
    assert set(outcome.inputs) == set(fuzz.TARGETS)
    assert 0 < outcome.refused.total() < 150


def test_keys_at_random() -> None:
    """Random keys, clicks, pastes, sizes and events on hostile texts raise nothing and draw no control byte."""
    here = Path.cwd()
    outcome = walk.campaign(60, 3, ["hostile"])
    assert outcome.failures == []
    assert len(outcome.screens) >= 5
    assert Path.cwd() == here
