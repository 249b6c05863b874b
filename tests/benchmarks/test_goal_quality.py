"""The benchmark of goal clusters: merging in memory, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.model.embedders.tfidf import TfidfEmbedder
from tests.benchmarks.goal_quality import main, measure, read
from tests.engine.goals.groups import wishes
from workbench import cli


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
    assert main([str(path), "--embedder", "tfidf", "--text", "all-user", "--seeds", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("| wishes | all-user | tfidf |") == 1
    assert len(read(f"{path}:5", [])[1]) == 5
    assert len(read(str(path), ["odd"])[1]) == len(range(0, len(texts), 7))
    assert len(read(str(path), ["nobody has this"])[1]) == len(texts)


@pytest.mark.parametrize(("k1", "groups"), [(7, (7,)), (12, (6, 7))])
def test_the_program_does_what_is_measured(
    tmp_path: Path, k1: int, groups: tuple[int, ...]
) -> None:
    """Automatic merging in a project ends with the groups that the measurement ends with, from the same clusters, or
    with some of them joined; two halves of a kind that do not mix stay apart."""
    texts, _ = wishes()
    file, project = tmp_path / "wishes.jsonl", str(tmp_path / "wishes.wb")
    records = [
        {
            "id": f"{n:03}",
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": "Done."},
            ],
        }
        for n, text in enumerate(texts)
    ]
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    out = tmp_path / "assignments.jsonl"
    clustering = ["--text", "all-user", "--k1", str(k1), "--no-labels", "--decide", "auto"]
    assert cli.main(["import", project, str(file)]) == 0
    assert cli.main(["run", "cluster", project, *clustering]) == 0
    assert cli.main(["export", project, "assignments", "-o", str(out)]) == 0
    found = {line["id"]: line["cluster"] for line in map(json.loads, out.read_text().splitlines())}
    names = sorted(set(found.values()), key=str)
    program = np.array([names.index(found[record["id"]]) for record in records], dtype=np.int32)

    embedder = TfidfEmbedder()
    embedder.fit(texts)
    gold = np.zeros(len(texts), dtype=np.int32)
    one = measure(embedder.embed(texts), texts, gold, embedder, 0, k1)
    labels = set(one.labels[one.labels >= 0].tolist())
    assert len(labels) in groups  # of 12 clusters 6 or 7: processors round differently
    for label in labels:  # groups without a common request are joined when they are named
        assert len(np.unique(program[one.labels == label])) == 1
