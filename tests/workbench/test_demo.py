"""`workbench demo`: what it says of conversations whose truth is known."""

from __future__ import annotations

from pathlib import Path

from tests.command_line import data, workbench


def test_the_demo_is_right(tmp_path: Path) -> None:
    """It finds the goals, tells ends, puts failures first, finds their causes and the planted change, and no other; the
    README has the first goals and the first conversation to read."""
    result = data(workbench("demo", tmp_path, "--json"))
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    for group in result["groups"][:3]:
        assert f"{group['size']:>8}  {group['label']}\n" in readme
    assert (
        f"{result['read_first'][0]['trouble']:+.1f}  {result['read_first'][0]['name']}  " in readme
    )
    check = result["check"]
    assert check["goals"] == 9
    assert check["goals_found"] >= 8
    assert check["auroc"] > 0.9
    assert check["same_step"] > 0.8
    assert check["failures_in_first_20"] >= 17
    assert check["causes_found"] == check["causes"] == 3
    assert check["change_found"]
    assert check["false_changes"] == 0
    assert "the model wavers between “" in check["tree"]
    (scores,) = data(workbench("scores", tmp_path / "demo.wb", "--json"))["sets"]
    assert scores["doubt"] is None


def test_where_no_sample_can_be(tmp_path: Path) -> None:
    """A folder that cannot be and a full disk are said, each with its exit code."""
    (tmp_path / "samples.jsonl").symlink_to("/dev/full")
    full = workbench("demo", tmp_path, "--samples-only")
    assert (full.returncode, b"The disk is full" in full.stderr) == (1, True)
    below_a_file = workbench("demo", "/dev/full/demo", "--samples-only")
    assert (below_a_file.returncode, b"cannot be a folder" in below_a_file.stderr) == (2, True)
