"""A short slice of each campaign: no kill changes a result, and no damaged input ends in anything but a refusal."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.campaign import day, disk, fuzz, kills, moves, terminal, walk


def test_kills() -> None:
    """Imports of conversations and of verdicts that are killed at a random moment leave a sound file and can go on."""
    outcome = kills.campaign(2, 1, ["import", "verdicts"])
    assert outcome.failures == []
    assert outcome.rounds.total() == 2


def test_damaged_input() -> None:
    """Damaged logs, filters, models, mappings, verdicts, scores and projects are read or refused in words."""
    outcome = fuzz.campaign(350, 3, list(fuzz.TARGETS))
    assert outcome.failures == []
    assert set(outcome.inputs) == set(fuzz.TARGETS)
    assert 0 < outcome.refused.total() < 350


def test_keys_at_random() -> None:
    """Random keys, clicks, pastes, sizes and events on hostile texts raise nothing and draw no control byte."""
    here = Path.cwd()
    outcome = walk.campaign(60, 3, ["hostile"])
    assert outcome.failures == []
    assert len(outcome.screens) >= 5
    assert Path.cwd() == here


def test_keys_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random keys and pastes in the real program: it writes nothing to its terminal that it should not, and works in
    temporary folders only, as its home is one."""
    places = list[tuple[Path, Path]]()

    def look(pid: int) -> None:
        if not Path("/proc/self/cwd").exists():
            return
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        home = next(one for one in environment if one.startswith(b"HOME="))
        places.append((Path(f"/proc/{pid}/cwd").readlink(), Path(os.fsdecode(home[5:]))))

    monkeypatch.setattr(terminal, "continue_if_suspended", look)
    outcome = terminal.campaign(20, 1, ["hostile"])
    assert outcome.failures == []
    assert outcome.written > 10_000
    apart = Path(tempfile.gettempdir()).resolve()
    assert all(apart in place.parents for pair in places for place in pair)
    assert places or not Path("/proc/self/cwd").exists()


def test_a_day_of_watching() -> None:
    """A watch of a file that grows while it is killed reports every turn, and holds no more open files at its end than
    at its beginning."""
    outcome = day.day(minutes=9, kills=1, seed=2, every=3)
    assert outcome.killed == 1
    assert outcome.lost == set()
    assert outcome.again <= day.TURNS  # those that were reported just before the kill
    files = [one["files"] for one in outcome.hours]
    assert len(files) > 1
    assert max(files) - min(files) <= 2  # one is read from, or not, at the moment


def test_full_disk(tmp_path: Path) -> None:
    """Of an import of verdicts a write fails, once for good: the error says so, nothing is lost, and it can go on."""
    library = disk.compiled(tmp_path)
    if library is None:
        pytest.skip("there is no C compiler")
    outcome = disk.campaign(2, 1, ["verdicts"], library)
    assert outcome.failures == []
    assert outcome.calls["verdicts"] > 10


def test_moves() -> None:
    """A project that is renamed, linked or swapped for another while it is written is whole, and lost nothing."""
    outcome = moves.campaign(3, 1, ["mv", "ln", "swap"])
    assert outcome.failures == []
    assert outcome.stored > 0
