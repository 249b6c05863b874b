"""Where the real conversations lie that are too large or not ours to keep here; tests on them run where they exist."""

from __future__ import annotations

from pathlib import Path

_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_file(name: str) -> Path | None:
    """The uniform file of this name (without suffix), None where it is absent."""
    path = _DATA / f"{name}.jsonl.gz"
    return path if path.exists() else None


def shared_samples() -> list[Path]:
    """Samples of log formats, those of at most 10 MB, sorted; empty where the folder is absent."""
    files = (path for path in (_DATA / "formats").rglob("*") if path.is_file())
    return sorted(path for path in files if path.stat().st_size <= 10_000_000)


def original_folder(name: str) -> Path | None:
    """Samples in their native formats from this folder, None where it is absent."""
    path = _DATA / "original" / name
    return path if path.is_dir() else None


def original_files(*folders: str) -> list[Path]:
    """Samples in their native formats from these folders, sorted; empty where they are absent."""
    return sorted(
        path
        for folder in folders
        for path in (_DATA / "original" / folder).glob("*")
        if path.suffix in (".json", ".jsonl")
    )
