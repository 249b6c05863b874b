"""The site that mkdocs makes of the pages in docs/."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
FETCHED = re.compile(
    r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\"'> ]*"
)
"""What a browser fetches by itself; a link is followed by a person."""


def test_it_is_built_and_fetches_nothing(tmp_path: Path) -> None:
    """The site is built without a warning, has every page and a search, and asks no other server for anything."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            str(tmp_path),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 50
    for page in [*pages, *(REPOSITORY / "docs" / "screenshots").glob("*.svg")]:
        found = FETCHED.findall(page.read_text(encoding="utf-8"))
        assert [one for one in found if "canonical" not in one] == [], page
        assert "cdnjs" not in page.read_text(encoding="utf-8"), page
    assert (tmp_path / "search" / "search_index.json").stat().st_size > 100_000
