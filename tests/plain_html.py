"""The text of an HTML page, for tests of what it says."""

from __future__ import annotations

import re
from html import unescape


def plain_text(page: str) -> str:
    """Returns the text, cells of a row parted by ` | `, headings of sections after `## `."""
    text = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    text = re.sub(r"</t[dh]><t[dh][^>]*>", " | ", text.replace("<h2>", "## "))
    return unescape(re.sub(r"<[^>]+>", "", text))
