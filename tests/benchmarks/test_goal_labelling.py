"""The labelling-only baseline as it is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.model.prompt_files import parse_prompt, prompt_text
from tests.benchmarks.goal_labelling import labelled, line
from tests.engine.goals.toy_asker import ToyAsker

PROMPT = parse_prompt("relabel", prompt_text("relabel"))
TEXTS = ["book a flight", "weather in rome", "flight to oslo", "rain today", "fly to lima"]
REPLIES = ["Book flights", "Check weather", "book flights", "Check weather", "Book flights"]


def test_going_on(tmp_path: Path) -> None:
    """A run that was killed while it wrote goes on after the last whole label, with the questions of an unbroken one;
    a third run asks nothing."""
    whole = ToyAsker(list(REPLIES))
    wanted = labelled(whole, PROMPT, TEXTS, tmp_path / "whole.jsonl")
    kept = tmp_path / "sub" / "broken.jsonl"
    with pytest.raises(IndexError):
        labelled(ToyAsker(REPLIES[:3]), PROMPT, TEXTS, kept)
    kept.write_text(kept.read_text() + '"Check wea')
    rest = ToyAsker(REPLIES[3:])
    assert labelled(rest, PROMPT, TEXTS, kept) == wanted
    assert rest.bodies == whole.bodies[3:]
    assert labelled(ToyAsker([]), PROMPT, TEXTS, kept) == wanted
    assert kept.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_cells() -> None:
    """Labels that are the goals under other names agree with them wholly."""
    gold = np.array([0, 1, 0, 1, 0], dtype=np.int32)
    cells = line(gold, ["x", "y", "x", "y", "x"], TEXTS).split(" | ")
    assert cells[:3] == ["5", "2", "1.000 / 1.000"]
    assert line(gold, ["x"] * 5, TEXTS).split(" | ")[1:3] == ["1", "0.000 / 0.000"]
