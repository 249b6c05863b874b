"""Which checkpoint a run resumes at after a loss of power."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import WorkbenchError
from engine.base.files import write_atomically
from training import checkpoints
from training.checkpoints import SEAL_NAME, last_checkpoint, seal

BEST_AT_20 = {20: 0.9, 40: 0.6, 60: 0.7}
"""AUROC by step: the first is the best."""


def checkpoint(folder: Path, step: int, aurocs: dict[int, float], best: int) -> Path:
    """A sealed checkpoint with two files and the state of the trainer at this step."""
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "adapter_model.safetensors").write_bytes(b"weights" * step)
    (path / "optimizer.pt").write_bytes(b"moments" * step)
    history = [
        {"step": at, "validation": {"loss": 1.0, "auroc": auroc, "f1": 0.5, "pairs": 100}}
        for at, auroc in aurocs.items()
        if at <= step
    ]
    state = {
        "best_global_step": best,
        "best_metric": best,
        "best_model_checkpoint": str(folder / f"checkpoint-{best}"),
        "log_history": [{"step": 1, "loss": 2.0}, *history],
    }
    (path / "trainer_state.json").write_text(json.dumps(state), "utf-8")
    seal(path)
    return path


def state_of(path: Path) -> dict[str, Any]:
    """The state of the trainer in a checkpoint."""
    found: dict[str, Any] = json.loads((path / "trainer_state.json").read_text("utf-8"))
    return found


def refuse(message: str) -> None:
    """Fails on a warning."""
    raise AssertionError(message)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("adapter_model.safetensors", b"\0" * 420),
        (SEAL_NAME, b"half"),
    ],
    ids=["a file of zeros", "half a seal"],
)
def test_a_damaged_one_falls_back(tmp_path: Path, name: str, content: bytes) -> None:
    """A sealed checkpoint with a file that is not as it was written is deleted, and the one before is taken."""
    for step in BEST_AT_20:
        checkpoint(tmp_path, step, BEST_AT_20, best=20)
    (tmp_path / "checkpoint-60" / name).write_bytes(content)
    warnings: list[str] = []

    assert last_checkpoint(tmp_path, warnings.append) == tmp_path / "checkpoint-40"
    assert warnings == [f"checkpoint-60 is damaged ({name}); it is not used."]
    assert not (tmp_path / "checkpoint-60").exists()


def test_an_error_that_passes_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that cannot be read now stays, and the error says so: it may be whole."""
    whole = checkpoint(tmp_path, 20, BEST_AT_20, best=20)

    def refused(*_: object) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "_digest", refused)
        with pytest.raises(WorkbenchError, match="checkpoint-20 cannot be read: Too many open"):
            last_checkpoint(tmp_path, refuse)
    assert last_checkpoint(tmp_path, refuse) == whole


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_kill_while_the_best_is_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """In a project that was moved, the last checkpoint is whole after each write of its correction."""
    checkpoint(tmp_path / "old", 20, BEST_AT_20, best=20)
    moved = (tmp_path / "old").rename(tmp_path / "new")
    written: list[Path] = []

    def write(path: Path, text: str) -> None:
        if len(written) == writes:
            raise KeyboardInterrupt
        written.append(path)
        write_atomically(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_atomically", write)
        with pytest.raises(KeyboardInterrupt):
            last_checkpoint(moved, refuse)
    last = last_checkpoint(moved, refuse)
    assert last == moved / "checkpoint-20"
    assert state_of(last)["best_model_checkpoint"] == str(last)


def test_the_best_was_deleted_for_a_damaged_better_one(tmp_path: Path) -> None:
    """When the best checkpoint is gone too, the best of those that are left takes its place; its seal fits."""
    aurocs = {**BEST_AT_20, 80: 0.95}
    for step in (40, 60):
        checkpoint(tmp_path, step, aurocs, best=20)
    newest = checkpoint(tmp_path, 80, aurocs, best=80)
    (newest / "optimizer.pt").write_bytes(b"")

    last = last_checkpoint(tmp_path, lambda message: None)

    assert last == tmp_path / "checkpoint-60"
    state = state_of(last)
    assert state["best_model_checkpoint"] == str(last)
    assert (state["best_global_step"], state["best_metric"]) == (60, 60)
    assert [e["step"] for e in state["log_history"] if "validation" in e] == [40, 60]
    assert last_checkpoint(tmp_path, refuse) == last


def test_without_a_seal(tmp_path: Path) -> None:
    """A checkpoint that was not finished is deleted without a word."""
    checkpoint(tmp_path, 20, BEST_AT_20, best=20)
    (checkpoint(tmp_path, 40, BEST_AT_20, best=20) / SEAL_NAME).unlink()

    assert last_checkpoint(tmp_path, refuse) == tmp_path / "checkpoint-20"
    assert not (tmp_path / "checkpoint-40").exists()
