"""What `workbench --version` prints."""

from __future__ import annotations

import platform
from importlib import metadata

from engine.base.folders import version


def version_line() -> str:
    """The version, and what it runs on: the questions of every report of a fault."""
    llama = metadata.version("llama-cpp-python")
    python = f"Python {platform.python_version()}"
    return f"{version()} ({python}, llama-cpp-python {llama}, {platform.system()} {platform.machine()})"
