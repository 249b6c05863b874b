"""The benchmark of merge probabilities, on a file with gold goals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.merge_calibration import main
from tests.engine.goals.groups import wishes


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints a row for each file and text, every pair in the table of reliability, and how the number of
    pairs to merge moves."""
    texts, kinds = wishes()
    path = tmp_path / "wishes.jsonl"
    lines = [
        {"messages": [{"role": "user", "content": text}], "truth": {"goal": kind}}
        for text, kind in zip(texts, kinds, strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert main([str(path), "--text", "all-user"]) == 0
    shown = capsys.readouterr().out.splitlines()
    (row,) = [line for line in shown if line.startswith("| wishes")]
    pairs, same = (int(cell.replace(",", "")) for cell in row.split("|")[3:5])
    assert 0 < same < pairs
    table = shown[shown.index("Before any decision:") :]
    counts = [
        int(line.split("|")[2].replace(",", "")) for line in table if " to " in line and "|" in line
    ]
    assert sum(counts) == pairs
    assert table[-1].startswith("One answer moves")
