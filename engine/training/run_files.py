"""Finds, creates and deletes the run directories of a project, and reads their manifests.

The *manifest* of a run says from what its data was made: the project, the filter, and the external ids of the
conversations in each part.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.base import files
from engine.base.errors import NameTaken, NotFound, NotYet, ProjectError, UsageError
from engine.base.folders import version
from engine.base.text import one_line
from engine.completeness.training_data import Split, TrainableConversation, items
from engine.model.catalog_files import cpu_name
from engine.project import settings
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.training.config import TrainConfig
from engine.training.run_directory import RunDirectory, lock_run

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Matches a name that a run can have, which is the name of a folder."""

_RUNS_FOLDER_SUFFIX = ".training"
"""Ending of the folder with the runs of a project; it replaces the ending of the project file."""


@dataclass(frozen=True, slots=True)
class DataPlan:
    """The data of a run, before it is written.

    Attributes:
        split: The conversations to train on and those to hold out.
        filter: The filter as text, empty for all conversations.
        matched: Number of conversations that match the filter.
        seed: Seed of the split.
        held_out: Requested share of held-out conversations.
        limit: Most conversations to train on; None for all.
    """

    split: Split
    filter: str
    matched: int
    seed: int = 0
    held_out: float = 0.5
    limit: int | None = None


def runs_folder(project: Path) -> Path:
    """Returns the folder of the runs of a project, which need not exist."""
    real_path = Path(os.path.realpath(project))
    return real_path.with_name(f"{real_path.stem}{_RUNS_FOLDER_SUFFIX}")


def all_runs(project: Path) -> list[RunDirectory]:
    """Returns the runs of a project, newest first.

    A run belongs to the project whose id its manifest has, so runs are also found in the folders of earlier names of
    the project file. Of two runs with the same name the one in the present folder is returned.
    """
    try:
        with Project.open(project, read_only=True) as opened, opened.reading() as conn:
            project_key = settings.project_id(conn)
    except ProjectError:
        return []
    home = runs_folder(project)
    runs: dict[str, RunDirectory] = {}
    for folder in dict.fromkeys([home, *sorted(home.parent.glob(f"*{_RUNS_FOLDER_SUFFIX}"))]):
        for path in sorted(_subfolders(folder)):
            run = RunDirectory(path)
            owner = manifest_summary(run).get("project")
            # a run whose manifest cannot be read belongs to the project after whose file its folder is named
            is_ours = owner.get("id") == project_key if isinstance(owner, dict) else folder == home
            if is_ours and run.config.exists():
                runs.setdefault(path.name, run)
    return sorted(runs.values(), key=_created, reverse=True)


def only_run(project: Path) -> str | None:
    """Returns the name of a project's only training run; None when it has none or several."""
    runs_of_project = all_runs(project)
    return runs_of_project[0].path.name if len(runs_of_project) == 1 else None


def run_named(project: Path, name: str) -> RunDirectory:
    """Returns the run of a project with this name.

    Raises:
        UsageError: There is no such run.
    """
    runs = {run.path.name: run for run in all_runs(project)}
    if name not in runs:
        known = f"There are {', '.join(runs)}." if runs else "There are none yet."
        raise NotFound(f"There is no training run {one_line(name)!r}.", one_line(known))
    return runs[name]


def free_name(project: Path, stem: str) -> str:
    """Returns the first name of `stem-1`, `stem-2`, ... that no run has."""
    names = _used_names(project)
    return next(f"{stem}-{n}" for n in range(1, len(names) + 2) if f"{stem}-{n}" not in names)


def check_name(project: Path, name: str) -> None:
    """Checks the name of a new run.

    Raises:
        UsageError: It cannot be the name of a folder, or a run has it already.
    """
    if not _RUN_NAME.fullmatch(name):
        raise UsageError(
            f"{one_line(name)!r} cannot name a run.",
            "Use letters, digits, dots, dashes and underscores, at most 64.",
        )
    if name in _used_names(project):
        raise NameTaken(f"There is a run {name!r} already.", "Choose another name.")


def _used_names(project: Path) -> set[str]:
    """Returns the names that a new run cannot have: those of runs of the project, and of other folders beside them."""
    folder_names = {path.name for path in _subfolders(runs_folder(project))}
    return folder_names | {run.path.name for run in all_runs(project)}


def create_run(project: Project, name: str, config: TrainConfig, plan: DataPlan) -> RunDirectory:
    """Creates a run directory with config, data and manifest, completely or not at all.

    Raises:
        UsageError: The name cannot be used, or `check_data` refuses the data.
        ProjectError: The folder cannot be written.
    """
    home = Path(project.path)
    check_name(home, name)
    check_data(plan)
    target = runs_folder(home) / name
    try:
        files.create_private_folder(target.parent)
        with files.temporary_private_folder(target.parent) as folder:
            part = folder / name
            part.mkdir()
            _write(project, RunDirectory(part), config, plan)
            files.sync_tree(part)
            part.rename(target)
    except OSError as error:
        if files.is_disk_full(error):
            raise files.disk_full_error(f"the run {name} in {target.parent}") from error
        raise ProjectError(
            f"The run cannot be written to {target}: {error.strerror or error}.",
            "Make room there, or allow writing beside the project file.",
        ) from error
    return RunDirectory(target)


def check_data(plan: DataPlan) -> None:
    """Checks that there are conversations to train on, and enough held-out ones to select a checkpoint and to test it.

    Raises:
        UsageError: There are not.
    """
    if not plan.split.train:
        raise NotYet(
            f"Of {plan.matched:,} conversations none is left to train on.",
            "Choose more with the filter, or hold out less. A conversation needs an answer, and equal ones count once.",
        )
    if not plan.split.selection:
        raise NotYet(
            "Fewer than two conversations of two turns or more are held out: one part of them selects the checkpoint,"
            " another tests it.",
            "Choose more with the filter, or hold out more.",
        )


def delete(run: RunDirectory) -> None:
    """Deletes a run with all its files.

    Raises:
        UsageError: The run is running.
        ProjectError: The files cannot be deleted.
    """
    with lock_run(run) as has_lock:
        if not has_lock:
            raise UsageError(f"{run.path.name} is running.", "Stop it first.")
        try:
            with files.temporary_private_folder(run.path.parent) as folder:
                # renamed first, so that a half-deleted run is never listed
                shutil.rmtree(run.path.rename(folder / run.path.name))
        except OSError as error:
            raise ProjectError(f"{run.path.name} cannot be deleted: {error.strerror}.") from error


def manifest_of(run: RunDirectory) -> Mapping[str, Any]:
    """Returns the manifest of a run; {} if there is none or it cannot be read."""
    try:
        manifest = json.loads(run.manifest.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def held_out_by(run: RunDirectory) -> frozenset[str]:
    """Returns the external ids of the conversations that a run holds out.

    Raises:
        UsageError: The manifest does not name them.
    """
    return _ids_in_manifest(run, "held_out", "held out")


def part_to_test(run: RunDirectory) -> frozenset[str]:
    """Returns the external ids of the conversations that a run is tested on.

    Raises:
        UsageError: The manifest does not name them.
    """
    return _ids_in_manifest(run, "test", "tests on")


def _ids_in_manifest(run: RunDirectory, part: str, words: str) -> frozenset[str]:
    """Returns the external ids of a part of the conversations, as the manifest of a run has them.

    Args:
        part: Key of the part in the manifest.
        words: Words for an error that say what the run does with these conversations.

    Raises:
        UsageError: The manifest does not name them.
    """
    ids = manifest_of(run).get(part)
    if not isinstance(ids, list) or not ids:
        raise UsageError(
            f"The manifest of the run {run.path.name} does not name the conversations that it {words}.",
            "Leave out the run to take all conversations.",
        )
    return frozenset(map(str, ids))


def manifest_summary(run: RunDirectory) -> Mapping[str, Any]:
    """Returns the manifest of a run without the ids of conversations, of which there may be a million; {} if there is
    none.

    It is read anew only after the file has changed.
    """
    try:
        status = run.manifest.stat()
    except OSError:
        return {}
    return _cached_summary(run, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _cached_summary(run: RunDirectory, changed_ns: int, size: int) -> Mapping[str, Any]:
    """Returns the manifest without the ids of conversations; time and size of the file belong to the key of the
    cache."""
    parts = ("train", "valid", "test", "held_out")
    return {key: value for key, value in manifest_of(run).items() if key not in parts}


def machine_name() -> str:
    """Returns a name of this kind of machine; a measured speed holds only for machines with the same name."""
    return f"{platform.machine()}:{cpu_name()}:{os.cpu_count()}"


def _subfolders(folder: Path) -> list[Path]:
    """Returns the folders in a folder that are not hidden; none if the folder cannot be read."""
    try:
        return [path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
    except OSError:
        return []


def _created(run: RunDirectory) -> tuple[str, str]:
    """Returns the sort key of a run: the time of its creation, then its name."""
    return str(manifest_summary(run).get("created_at", "")), run.path.name


def _write(project: Project, run: RunDirectory, config: TrainConfig, plan: DataPlan) -> None:
    """Writes the data, the config and the manifest of a new run."""
    split = plan.split
    with project.reading() as conn, snapshot(conn):
        project_key = settings.project_id(conn)
        train_sha256 = _write_logs(conn, run.train, split.train)
        valid_sha256 = _write_logs(conn, run.valid, split.selection)
    config.save(run.config)
    manifest = {
        "version": 1,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "project": {"id": project_key, "name": Path(project.path).name},
        "code_version": version(),
        "machine": machine_name(),
        "filter": plan.filter,
        "seed": plan.seed,
        "held_out_share": plan.held_out,
        "limit": plan.limit,
        "train_sha256": train_sha256,
        "valid_sha256": valid_sha256,
        "counts": {
            "matched": plan.matched,
            "train": len(split.train),
            "valid": len(split.selection),
            "test": len(split.test),
            "held_out": len(split.held_out),
            "twins": split.twins,
            "beyond": split.beyond,
        },
        "train": [conversation.name for conversation in split.train],
        "valid": [conversation.name for conversation in split.selection],
        "test": split.test_names(),
        "held_out": split.held_out_names(),
    }
    run.manifest.write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")


def _write_logs(conn: sqlite3.Connection, path: Path, part: Sequence[TrainableConversation]) -> str:
    """Writes the logs of conversations into a data file, one a line, and returns its SHA-256."""
    names = {conversation.key: conversation.name for conversation in part}
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for key, log in items(conn, list(names)):
            line = {
                "id": names[key],
                "texts": log.texts,
                "boundaries": log.boundaries,
                "kept": log.pinned_pieces,
            }
            data = json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n"
            digest.update(data)
            file.write(data)
    return digest.hexdigest()
