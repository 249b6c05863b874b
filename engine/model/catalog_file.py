"""The file of the catalogue: paths of added models and adapters, their checksums, and measurements of them.

Measurements hold for the machine they were made on, and for the content of a file, not for its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any, Literal

from engine.base.errors import ModelFileError
from engine.base.files import create_private_folder, write_atomically
from engine.model.catalog_files import known_sha256

Measured = Literal["tuning", "speed"]


class CatalogFile:
    """One JSON file, read once. Call `save` after a change of `models` or `adapters`.

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
        """SHA-256 of a file in hex. It is cached under path, size and time of change.

        Raises:
            ModelFileError: The file cannot be read.
        """
        known = self._content["hashes"]
        try:
            status = path.stat()
            key = f"{path}:{status.st_size}:{status.st_mtime_ns}"
            if key in known:
                return str(known[key])
            known[key] = known_sha256(path) or file_sha256(path)
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error
        self.save_if_possible()
        return str(known[key])

    def measured(self, what: Measured, path: Path) -> dict[str, Any] | None:
        """The measurement of a file with this content on this machine; None if there is none.

        Raises:
            ModelFileError: The file cannot be read.
        """
        found: dict[str, Any] | None = self._content[what].get(self._machine_key(path))
        return found

    def measure(self, what: Measured, path: Path, found: dict[str, Any]) -> None:
        """Stores a measurement; earlier ones with other keys stay."""
        key = self._machine_key(path)
        self._content[what][key] = {**self._content[what].get(key, {}), **found}
        self.save()

    def _machine_key(self, path: Path) -> str:
        return f"{self.sha256(path)}:{platform.machine()}:{cpu_name()}:{os.cpu_count()}"


def file_sha256(path: Path) -> str:
    """SHA-256 of a file in hex, computed now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cpu_name() -> str:
    """The name of the processor, as the operating system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
