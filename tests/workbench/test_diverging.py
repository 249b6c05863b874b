"""`workbench run divergence` with the built-in model and its adapter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.project.project import Project
from tests.engine.project.support import fill, talk
from workbench.cli import main


@pytest.mark.usefixtures("tuned")
def test_divergence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The adapter moves the distributions; the list is ordered by how far, and what was measured is not read again."""
    path = str(tmp_path / "p.wb")
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk("a", "Book a table.", "Done.", "Thanks!", "Bye."), talk("b", "Hello?")])
    words = ["run", "divergence", path, "--adapter", "smollm2-135m-samples", "--json"]
    assert main(words) == 3
    first = json.loads(capsys.readouterr().out)
    assert (first["conversations"], [one["id"] for one in first["largest"]]) == (1, ["a"])
    assert first["at_end"]["bits"] > 0.01
    assert first["largest"][0]["kl"] * 2 == pytest.approx(
        first["at_end"]["bits"] + first["at_earlier_boundaries"]["bits"]
    )
    assert main(words) == 0
    again = capsys.readouterr()
    assert json.loads(again.out) == first
    assert "2 were measured before" in again.err
    for chosen in (["--filter", "name:b"], ["--limit", "1"]):
        assert main([*words, *chosen]) == 0
        some = json.loads(capsys.readouterr().out)
        assert (some["conversations"], [one["id"] for one in some["largest"]]) == (
            (1, ["a"]) if chosen[0] == "--limit" else (0, [])
        )
    assert main(["list", path, "--sort", "kl", "--filter", "kl>0.01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kl"] == first["largest"][0]["kl"]
