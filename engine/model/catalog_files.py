"""The files of the catalog: the manifests of pulled models, and the file with added models and measurements.

The manifest of a pulled model names its source, checksum and license. It is stored beside the file of the model. A file
with a manifest is a model of the catalog, so a pull changes no file that another process may be writing.

Measurements hold for the machine they were made on, and for the content of a file, not for its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from engine.base.errors import ModelFileError
from engine.base.files import create_private_folder, write_atomically

MANIFEST_SUFFIX = ".manifest.json"
"""Ending of the name of a manifest, in place of the ending of the file of its model."""

PULLED = "models"
"""Folder of pulled models in the data folder; it has a folder for each repository."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """The file of a model in a repository.

    Attributes:
        path: Path of the file in the repository.
        size: Number of bytes.
        sha256: Checksum in hex, as the hub publishes it; a download is checked against it.
        changed_ns: Modification time of the pulled file when its checksum was right, in nanoseconds since the epoch; 0
            before that. Another time on disk means that the file was changed since.
    """

    path: Annotated[str, msgspec.Meta(pattern="[^/]$")]
    size: int
    sha256: str
    changed_ns: int = 0

    @property
    def name(self) -> str:
        """The file name on disk; all files of a repository are in one folder."""
        _, _, name = self.path.rpartition("/")
        return name


@dataclass(frozen=True, slots=True)
class Manifest:
    """One pulled model.

    Attributes:
        name: Name of the model in the catalog.
        hub: URL of the hub, without a key.
        repository: OWNER/NAME of the repository.
        revision: Commit of the repository.
        license: License that the repository names; empty if it names none.
        pulled_at: Time of the pull, ISO 8601, UTC.
        file: The file as the repository has it.
    """

    name: str
    hub: str
    repository: str
    revision: str
    license: str
    pulled_at: str
    file: HubFile

    def write(self, folder: Path) -> None:
        """Writes the manifest beside the file of the model, in one step."""
        path = manifest_path(folder / self.file.name)
        write_atomically(path, json.dumps(asdict(self), indent=1, sort_keys=True))

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """Returns the manifest that a text holds; raises ValueError for any other text."""
        # Not `msgspec.json`, which refuses half a surrogate pair: the license that a hub names may have one.
        return msgspec.convert(json.loads(text), cls)


def manifest_path(file: Path) -> Path:
    """Returns the path of the manifest of a model, given its file."""
    return file.with_suffix(MANIFEST_SUFFIX)


def read_manifest(file: Path) -> Manifest | None:
    """Returns the manifest of a model, given its file; None if there is none or it cannot be read."""
    path = manifest_path(file)
    try:
        return Manifest.parse(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logging.getLogger(__name__).warning("the manifest %s cannot be read: %s", path, error)
        return None


def pulled_models(data: Path) -> list[tuple[Path, Manifest]]:
    """Returns the file and the manifest of every model that was pulled into a data folder, by name."""
    models = []
    for path in (data / PULLED).glob(f"*/*{MANIFEST_SUFFIX}"):
        file = path.with_name(path.name.removesuffix(MANIFEST_SUFFIX) + ".gguf")
        manifest = read_manifest(file)
        if manifest is not None:
            models.append((file, manifest))
    return sorted(models, key=lambda model: (model[1].name, str(model[0])))


def known_sha256(file: Path) -> str | None:
    """Returns the checksum of a pulled file in hex; None if it has no manifest or was changed since."""
    manifest = read_manifest(file)
    if manifest is None:
        return None
    status, pulled = file.stat(), manifest.file
    unchanged = (status.st_size, status.st_mtime_ns) == (pulled.size, pulled.changed_ns)
    return pulled.sha256 if unchanged else None


def delete_pulled(file: Path) -> None:
    """Deletes the file of a pulled model and its manifest, and also their folder if it is empty then."""
    file.unlink(missing_ok=True)
    manifest_path(file).unlink(missing_ok=True)
    if not any(file.parent.iterdir()):
        file.parent.rmdir()


Measured = Literal["tuning", "speed"]
"""What is measured of a model: its fastest format, and its speed."""


class CatalogFile:
    """The JSON file with the paths of added models and adapters, their checksums, and measurements of them.

    It is read once. Call `save` after a change of `models`, `adapters` or `adapters_used`; `record` and `sha256` save
    what they add.

    Attributes:
        models, adapters: Paths of added files by name.
        adapters_used: Paths of adapters that were loaded, by SHA-256.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            ModelFileError: It cannot be read.
        """
        self._path = path
        self._content: dict[str, dict[str, Any]] = {
            "models": {}, "tuning": {}, "hashes": {}, "speed": {}, "adapters": {}, "adapters_used": {},
        }  # fmt: skip
        try:
            self._content.update(json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise ModelFileError(
                f"The model catalog {path} cannot be read: {error}.",
                "Move it away; models can be added again.",
            ) from error
        self.models: dict[str, str] = self._content["models"]
        self.adapters: dict[str, str] = self._content["adapters"]
        self.adapters_used: dict[str, str] = self._content["adapters_used"]

    def save(self) -> None:
        """Writes the file; raises OSError if it cannot be written."""
        create_private_folder(self._path.parent)
        write_atomically(self._path, json.dumps(self._content, indent=1, sort_keys=True))

    def save_if_possible(self) -> None:
        """Writes the file if it can be written; if not, checksums are computed again each time."""
        with contextlib.suppress(OSError):
            self.save()

    def sha256(self, path: Path) -> str:
        """Returns the SHA-256 of a file in hex. It is cached under path, size and time of change.

        Raises:
            ModelFileError: The file cannot be read.
        """
        hashes = self._content["hashes"]
        try:
            status = path.stat()
            key = f"{path}:{status.st_size}:{status.st_mtime_ns}"
            if key in hashes:
                return str(hashes[key])
            hashes[key] = known_sha256(path) or file_sha256(path)
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error
        self.save_if_possible()
        return str(hashes[key])

    def measured(self, what: Measured, path: Path) -> dict[str, Any] | None:
        """Returns the measurement of a file with this content on this machine; None if there is none.

        Raises:
            ModelFileError: The file cannot be read.
        """
        figures: dict[str, Any] | None = self._content[what].get(self._machine_key(path))
        return figures

    def record(self, what: Measured, path: Path, figures: dict[str, Any]) -> None:
        """Stores figures of a file on this machine, by name; earlier figures of other names stay.

        Raises:
            ModelFileError: The file cannot be read.
        """
        key = self._machine_key(path)
        self._content[what][key] = {**self._content[what].get(key, {}), **figures}
        self.save()

    def _machine_key(self, path: Path) -> str:
        """Returns the key of measurements of a file on this machine: its content, the processor and its cores."""
        return f"{self.sha256(path)}:{platform.machine()}:{cpu_name()}:{os.cpu_count()}"


def file_sha256(path: Path) -> str:
    """Returns the SHA-256 of a file in hex, computed now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cpu_name() -> str:
    """Returns the name of the processor, as the operating system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                _, _, name = line.partition(":")
                return name.strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
