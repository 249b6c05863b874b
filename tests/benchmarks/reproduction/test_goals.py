"""What the reproduction measures of goals: distances, agreement of runs, and the baseline of one model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.opener.open_project import OpenProject
from tests.benchmarks.reproduction.goals import (
    assigned_distances,
    categorize,
    label_one_by_one,
    measured_goals,
    own_distances,
    read_categories,
)
from tests.engine.goals import paper_project
from workbench.cli import main


def test_tables_of_runs(tmp_path: Path) -> None:
    """Runs of the program over all conversations and over half of them give Figure 4 and Table 4, and the model alone
    the baseline; what is finished is not asked about again."""
    path = tmp_path / "p.wb"
    paper_project.make(path)
    run = ["run", "cluster", str(path), "--paper", "--model", "one", "--k1", "5"]
    with paper_project.scripted_model() as server:
        for more in (["--filter", "draw<.5"], ["--seed", "1"], []):
            assert main([*run, *more]) == 0
        with OpenProject(path) as workspace:
            label_one_by_one(workspace, "one", 2)
            count = len(server.bodies)
            label_one_by_one(workspace, "one", 2)
            assert len(server.bodies) == count
            measured = measured_goals(workspace)
    assert measured is not None
    total = len(paper_project.WISHES) * paper_project.EACH
    assert measured["conversations"] == total
    assert sum(group["size"] for group in measured["clustering"]["groups"]) == total
    assert measured["clustering"]["merged"] == 2
    table = measured["table_4"]
    assert table["train"]["rows"] + table["test"]["rows"] + table["without_vector"] == total
    assert table["full"]["rows"] == total
    assert len(measured["figure_4"]["seeds"]) == len(measured["figure_4"]["ari_seeds"]) == 1
    baseline = measured["llm_only"]
    assert [(order["categories"], order["without"]) for order in baseline["orders"]] == [(4, 0)] * 2
    assert baseline["ari_orders"] == [1.0]


ROWS = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float32)
LABELS = np.array([0, 0, 1], dtype=np.int32)


def test_own_distances() -> None:
    """Two rows at right angles lie half a diagonal from their mean; a row alone is its own center."""
    found = own_distances(ROWS, LABELS)
    assert found.rows == 3
    assert found.euclidean == pytest.approx(2 * np.sqrt(0.5) / 3)
    assert found.euclidean_error == pytest.approx(np.std([0.5**0.5, 0.5**0.5, 0], ddof=1) / 3**0.5)


def test_assigned_distances() -> None:
    """A new row goes to the nearest center; a row of zeros is not counted."""
    others = np.array([[0, 1], [-1, 0], [0, 0]], dtype=np.float32)
    found = assigned_distances(ROWS, LABELS, others)
    assert found.rows == 2
    assert found.euclidean == pytest.approx(np.sqrt(0.5) / 2)
    assert assigned_distances(ROWS, LABELS, others[2:]).euclidean is None


def test_the_two_prompts() -> None:
    """The first sample is asked for a category; later ones are offered each earlier answer on a line, may have several,
    and an answer in another spelling is the earlier category.
    """
    replies = iter(["Book a Flight", "- book a flight\n- Check weather", "Book a flight.", "..."])
    asked: list[tuple[str, str]] = []

    def ask(name: str, pieces: Sequence[str]) -> str:
        asked.append((name, "".join(pieces)))
        return next(replies)

    found = list(categorize(ask, [["log 1"], ["log ", "2"], ["log 3"], ["log 4"]]))
    flight, weather = "Book a Flight", "Check weather"
    assert found == [(flight,), (flight, weather), (flight,), ()]
    assert asked[0] == ("paper-first-category", "[USER INPUT LOG]\nlog 1")
    assert asked[1] == ("paper-categories", f"- {flight}\n[USER INPUT LOG]\nlog 2")
    assert asked[3] == (
        "paper-categories",
        f"- {flight}\n- {flight}, {weather}\n[USER INPUT LOG]\nlog 4",
    )


def test_no_category() -> None:
    """A model that goes on with the log, or writes a long sentence, names no category."""
    assert read_categories("TURN 3, STEP 5, user chat:\nThanks") == []
    assert read_categories("I would say that the user wants to know what the weather is like") == []
    assert read_categories("1. Check weather\n2. **Book a flight**") == [
        "Check weather",
        "Book a flight",
    ]
