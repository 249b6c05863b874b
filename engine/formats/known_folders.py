"""Tells by the names of files what a folder or an archive is that a program keeps its conversations in."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable
from typing import NamedTuple

from engine.base.files import is_in_use
from engine.base.number_format import counted

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class _Layout(NamedTuple):
    """How a program names its files.

    Attributes:
        program: Name of the program, or of its export.
        file: Matches the path of a file; its group is what several files belong to.
        unit: What a file is.
        group: What the group is; empty if files belong to nothing.
    """

    program: str
    file: re.Pattern[str]
    unit: str
    group: str = ""


_LAYOUTS = tuple(
    _Layout(program, re.compile(rf"(?:^|/){file}$"), unit, group)
    for program, file, unit, group in (
        ("Claude Code", rf"([^/]+)/{_UUID}\.jsonl", "session", "project"),
        ("Codex", r"(\d{4}/\d\d/\d\d)/rollout-[^/]+\.jsonl", "session", "day"),
        ("Gemini CLI", r"([^/]+)/chats/session-[^/]+\.jsonl?", "session", "project"),
        ("Copilot CLI", rf"({_UUID})/events\.jsonl", "session", ""),
        ("opencode", r"session/([^/]+)/ses_[^/]+\.json", "session", "project"),
        ("VS Code", r"([^/]+)/chatSessions/[^/]+\.jsonl?", "session", "workspace"),
        ("Cursor", r"([^/]+)/state\.vscdb", "workspace", ""),
        ("Cline", r"tasks/(\d+)/api_conversation_history\.json", "task", ""),
        ("Jan", r"threads/([^/]+)/messages\.jsonl", "thread", ""),
        ("Slack", r"([^/]+)/\d{4}-\d\d-\d\d\.json", "day", "channel"),
        ("OpenHands", r"([^/]+)/events/event-\d+-[^/]+\.json", "event", "conversation"),
        ("OpenHands", r"()event_\d{6}_[^/]+\.json", "event", ""),
        ("Inspect", r"()[^/]+\.eval", "log", ""),
        ("an export of ChatGPT, Claude or the like", r"()conversations(?:-\d+)?\.json", "file", ""),
    )
)  # fmt: skip
"""The layouts that are known; the first that a file has is taken."""


def folder_in_words(path: str) -> str:
    """Returns what a folder or a zip archive has, as `27 sessions of 3 projects of Claude Code`, by the names of its
    files alone; empty for another file, and where no name is known."""
    counts: dict[_Layout, tuple[int, set[str]]] = {}
    for name in _names_in(path):
        for layout in _LAYOUTS:
            if match := layout.file.search(name):
                count, groups = counts.get(layout, (0, set()))
                counts[layout] = count + 1, groups | {match[1]}
                break
    return ", ".join(
        _in_words(layout, count, len(groups)) for layout, (count, groups) in counts.items()
    )


def _in_words(layout: _Layout, count: int, groups: int) -> str:
    """Returns a number of files of a layout in words."""
    of_groups = f" of {counted(groups, layout.group)}" if layout.group else ""
    return f"{counted(count, layout.unit)}{of_groups} of {layout.program}"


def _names_in(path: str) -> Iterable[str]:
    """Returns the paths of the files in a folder, with its own name, or in a zip archive."""
    if os.path.isdir(path):
        above = os.path.dirname(os.path.abspath(path))
        for parent, _, files in os.walk(os.path.abspath(path)):
            yield from (os.path.relpath(os.path.join(parent, file), above) for file in files)
    elif path.lower().endswith(".zip") and not is_in_use(path) and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from archive.namelist()
