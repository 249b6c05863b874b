"""Installed packages add formats by entry points."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.formats import registry as readers
from engine.formats.registry import unusable_formats
from tests.engine.formats.reading import opened, parsed

MAPPING = """name = "harbour"
when = ["wires[].sender", "wires[].telegram"]

[roles]
captain = "user"
office = "assistant"

[[messages]]
each = "wires[]"
role = "sender"
text = "telegram"
"""
RECORD = (
    b'{"wires": [{"sender": "captain", "telegram": "Where to?"},'
    b' {"sender": "office", "telegram": "To the west."}]}'
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with a format, and with one whose file is missing."""
    (tmp_path / "harbour.toml").write_text(MAPPING)
    (tmp_path / "harbour_formats.py").write_text(
        f"LOG = {str(tmp_path / 'harbour.toml')!r}\nGONE = {str(tmp_path / 'gone.toml')!r}\n"
    )
    info = tmp_path / "harbour_formats-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: harbour-formats\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[conversation_workbench.formats]\nharbour = harbour_formats:LOG\ngone = harbour_formats:GONE\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    readers._package_readers.cache_clear()
    yield
    readers._package_readers.cache_clear()


@pytest.mark.usefixtures("package")
def test_format_of_a_package_is_recognised() -> None:
    """A mapping file that an entry point names reads the files that it fits, and one that cannot be used is named."""
    assert opened(RECORD).detection.format == "harbour"
    (record,) = parsed(RECORD)
    assert [(one.role, one.content) for one in record.conversation.messages] == [
        ("user", "Where to?"),
        ("assistant", "To the west."),
    ]
    (error,) = unusable_formats()
    assert "The format gone of an installed package cannot be used" in error.message
