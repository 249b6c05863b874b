"""None"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.base.files import write_atomically

SUFFIX = ".manifest.json"


PULLED = "models"
"""Folder of pulled models in the data folder; it has a folder for each repository."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """One file of a model.

    Attributes:
        path: Its path in the repository.
        sha256: In hex; the hub published it and the download was checked against it.
        changed_ns: Modification time when it was checked; a different time means that the file was changed since.
    """

    path: str
    size: int
    sha256: str
    changed_ns: int = 0

    @property
    def name(self) -> str:
        """File name on disk; all files of a repository are in one folder."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One pulled model.

    Attributes:
        name: In the catalogue.
        hub: Address of the hub, without a key.
        revision: Commit of the repository.
        licence: As the repository names it; empty where it names none.
        pulled_at: ISO 8601, UTC.
        files: The parts of a split model in order, else one.
    """

    name: str
    hub: str
    repository: str
    revision: str
    licence: str
    pulled_at: str
    files: tuple[PartFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def write(self, folder: Path) -> Path:
        """Writes it beside its files, in one step; returns the path of the first of them."""
        first = folder / self.files[0].name
        path = manifest_path(first)
        write_atomically(path, json.dumps(asdict(self), indent=1, sort_keys=True))
        return first

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """Raises ValueError, KeyError or TypeError for what is no manifest."""
        content: dict[str, Any] = json.loads(text)
        files = tuple(PartFile(**file) for file in content.pop("files"))
        found = cls(**content, files=files)
        if not files or not all(isinstance(file.size, int) and file.name for file in files):
            raise ValueError("no file is named in it")
        return found


def manifest_path(file: Path) -> Path:
    """The path of a model's manifest, given its first file."""
    return file.with_suffix(SUFFIX)


def read_manifest(file: Path) -> Manifest | None:
    """The manifest of a model, given its first file; None if there is none or it cannot be read."""
    path = manifest_path(file)
    try:
        return Manifest.parse(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        logging.getLogger(__name__).warning("the manifest %s cannot be read: %s", path, error)
        return None


def pulled_models(data: Path) -> list[tuple[Path, Manifest]]:
    """First file and manifest of every model that was pulled into a data folder, by name."""
    found = []
    for path in (data / PULLED).glob(f"*/*{SUFFIX}"):
        file = path.with_name(path.name.removesuffix(SUFFIX) + ".gguf")
        manifest = read_manifest(file)
        if manifest is not None:
            found.append((file, manifest))
    return sorted(found, key=lambda pair: (pair[1].name, str(pair[0])))


def known_sha256(file: Path) -> str | None:
    """The checksum of a pulled file; None if it has no manifest or was changed since."""
    manifest = read_manifest(file)
    if manifest is None:
        return None
    first = manifest.files[0]
    status = file.stat()
    unchanged = (status.st_size, status.st_mtime_ns) == (first.size, first.changed_ns)
    return first.sha256 if unchanged else None


def delete_pulled(file: Path, manifest: Manifest) -> None:
    """Deletes the files of a model and its manifest, and their folder where it is empty then."""
    for one in manifest.files:
        (file.parent / one.name).unlink(missing_ok=True)
    manifest_path(file).unlink(missing_ok=True)
    if not any(file.parent.iterdir()):
        file.parent.rmdir()
