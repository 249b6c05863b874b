"""The benchmark of goal clusters: the table, and what is selected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.goal_quality import main, read
from tests.engine.goals.groups import wishes


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints a row for each file and text; fields of truth and a number select conversations."""
    texts, kinds = wishes()
    path = tmp_path / "wishes.jsonl"
    lines = [
        {
            "messages": [{"role": "user", "content": text}],
            "truth": {"goal": kind, "odd": n % 7 == 0},
        }
        for n, (text, kind) in enumerate(zip(texts, kinds, strict=True))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    words = ["--embedder", "tfidf", "--text", "all-user", "--seeds", "2", "--k1", "7"]
    assert main([str(path), *words]) == 0
    assert "| wishes | all-user | tfidf | 7 | " in capsys.readouterr().out
    assert len(read(f"{path}:5", [])[1]) == 5
    assert len(read(str(path), ["odd"])[1]) == len(range(0, len(texts), 7))
    assert len(read(str(path), ["nobody has this"])[1]) == len(texts)
