"""Seals checkpoints, and finds the one at which a run resumes.

A checkpoint is *whole* if its seal, which is written last, has the digests of all its files; others are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from engine.base.errors import WorkbenchError
from engine.base.files import sync_tree, write_atomically
from training.validation import Validation, best_validation

VALIDATION_KEY = "validation"
"""Key of the figures of a validation in the history in a checkpoint."""

SEAL_NAME = "whole"
"""Name of the seal: the SHA-256 of each other file of the checkpoint, as JSON."""


def seal(checkpoint: Path) -> None:
    """Waits until all files of a checkpoint are on the disk, and writes its seal.

    Raises:
        OSError: A file cannot be written.
    """
    sync_tree(checkpoint)
    _write_seal(
        checkpoint,
        {
            str(path.relative_to(checkpoint)): _digest(path)
            for path in sorted(checkpoint.rglob("*"))
            if path.is_file() and path != checkpoint / SEAL_NAME
        },
    )


def _write_seal(checkpoint: Path, digests: dict[str, str]) -> None:
    """Writes the seal of a checkpoint with the digests of its files."""
    write_atomically(checkpoint / SEAL_NAME, json.dumps(digests, indent=1) + "\n")


def discard_incomplete(folder: Path) -> None:
    """Deletes the checkpoints without a seal; a killed process or a full disk leaves them."""
    for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        if not (path / SEAL_NAME).exists():
            shutil.rmtree(path, ignore_errors=True)


def step_of(checkpoint: Path) -> int:
    """Returns the step after which a checkpoint was written."""
    _, _, step = checkpoint.name.rpartition("-")
    return int(step)


def last_checkpoint(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """Returns the last whole checkpoint of a run; None where there is none.

    Checkpoints that are not whole are deleted, so that they are written anew.

    Args:
        warn: Called with a sentence on each checkpoint that has a seal but is damaged.

    Raises:
        WorkbenchError: A checkpoint cannot be read now; it is not deleted, because it may be whole.
    """
    discard_incomplete(folder)
    whole_checkpoints = []
    for path in sorted(folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"), key=step_of):
        damaged = _damaged_file(path)
        if damaged:
            warn(f"{path.name} is damaged ({damaged}); it is not used.")
            shutil.rmtree(path, ignore_errors=True)
        else:
            whole_checkpoints.append(path)
    if not whole_checkpoints:
        return None
    _correct_best(folder, whole_checkpoints)
    return whole_checkpoints[-1]


def _damaged_file(checkpoint: Path) -> str:
    """Returns the name of the first damaged or missing file of a sealed checkpoint; empty if there is none.

    Raises:
        WorkbenchError: A file is there but cannot be read.
    """
    try:
        digests = json.loads((checkpoint / SEAL_NAME).read_text("utf-8"))
        for name, digest in digests.items():
            if _digest(checkpoint / name) != digest:
                return str(name)
    except FileNotFoundError as error:
        return os.path.basename(str(error.filename))
    except OSError as error:
        raise WorkbenchError(
            f"{checkpoint.name} cannot be read: {error.strerror or error}.",
            "It stays as it is. Resume the run when it can be read, or delete it to resume at the one before.",
        ) from error
    except (ValueError, AttributeError):
        return SEAL_NAME
    return ""


def _correct_best(folder: Path, whole_checkpoints: list[Path]) -> None:
    """Corrects the path of the best checkpoint in the state of the last one, and seals the last one anew.

    The path is absolute, so it is wrong after the project was moved. And the best checkpoint may be missing, if it was
    deleted for a better one that is damaged now; then the best of the whole checkpoints takes its place.
    """
    state_file = whole_checkpoints[-1] / TRAINER_STATE_NAME
    state = json.loads(state_file.read_text("utf-8"))
    recorded_best = state.get("best_model_checkpoint")
    if not recorded_best or Path(recorded_best) in whole_checkpoints:
        return
    best = folder / Path(recorded_best).name
    if best not in whole_checkpoints:
        steps = {step_of(path) for path in whole_checkpoints}
        state["log_history"] = [
            entry
            for entry in state["log_history"]
            if VALIDATION_KEY not in entry or entry["step"] in steps
        ]
        entries = [entry for entry in state["log_history"] if VALIDATION_KEY in entry]
        validations = [Validation(**entry[VALIDATION_KEY]) for entry in entries]
        step = entries[best_validation(validations)]["step"]
        best = folder / f"{PREFIX_CHECKPOINT_DIR}-{step}"
        state["best_global_step"] = state["best_metric"] = step
    state["best_model_checkpoint"] = str(best)
    # first a seal without the digest of the state, so that the checkpoint is still whole if the process is killed
    # before the last line
    digests = json.loads((whole_checkpoints[-1] / SEAL_NAME).read_text("utf-8"))
    digests.pop(TRAINER_STATE_NAME, None)
    _write_seal(whole_checkpoints[-1], digests)
    write_atomically(state_file, json.dumps(state, indent=2) + "\n")
    seal(whole_checkpoints[-1])


def _digest(path: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
