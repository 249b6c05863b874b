"""Paths as a screen shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.folders import shown_path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/people/me/project/runs/first/adapter.gguf", "runs/first/adapter.gguf"),
        ("/people/me/models/large.gguf", "~/models/large.gguf"),
        ("/people/mean/large.gguf", "/people/mean/large.gguf"),
        ("/models/large.gguf", "/models/large.gguf"),
    ],
)
def test_as_short_as_it_can_be(path: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path in the folder of the project begins there, one in the home folder with `~`; any other is whole."""
    monkeypatch.setenv("HOME", "/people/me")
    assert shown_path(Path(path), Path("/people/me/project")) == shown
