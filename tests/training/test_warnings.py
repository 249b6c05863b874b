"""Warnings of libraries in the log of a training run."""

from __future__ import annotations

import subprocess
import sys


def test_announcements_of_libraries_are_not_in_the_log() -> None:
    """A FutureWarning of a library, about which a person can do nothing, is not written."""
    code = (
        "import warnings; from training.__main__ import main; main([]);"
        "warnings.warn('will change', FutureWarning); warnings.warn('look', UserWarning)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "will change" not in done.stderr
    assert "look" in done.stderr
