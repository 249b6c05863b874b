"""A fresh project for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.store.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty project that is closed after the test."""
    with Project.open(tmp_path / "p.wb", create=True) as opened:
        yield opened
