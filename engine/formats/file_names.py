"""What names of files tell.

Tells which files may hold logs, says in words what a folder or an archive of a known program holds, and takes the
endings off a name.
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
from collections.abc import Iterable
from typing import NamedTuple

from engine.base.files import UNFINISHED_PREFIX, is_in_use
from engine.base.number_format import counted
from engine.formats.opening.containers import is_no_log

LOG_SUFFIXES = frozenset((
    ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".db", ".sqlite", ".sqlite3", ".vtt", ".xlsx",
    ".xls", ".xlsb", ".ods", ".traj", ".eval",
))  # fmt: skip
"""File name endings of logs. A file with such an ending, in a folder or an archive, that fits no format is reported as
refused."""

_COMPRESSION_ENDINGS = (".gz", ".bz2", ".xz", ".zst")
"""Endings of compressed files, which are no part of the name of what is in them."""
_KNOWN_ENDINGS = LOG_SUFFIXES.union((".txt", ".md", ".log", ".zip", ".tar", ".tgz"))
"""Endings that `stem` takes off: those of logs, of transcripts and of archives."""


def logs_in(folder: str) -> tuple[list[str], list[str]]:
    """Returns the files of a folder and of the folders in it, sorted: those that may be logs, and the other ones.

    A named pipe, a socket or a device is not among the logs: reading it would wait for somebody who writes. Linked
    folders are among the other files and are not looked into; folders that are not finished are in neither list.
    """
    logs: list[str] = []
    others: list[str] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(UNFINISHED_PREFIX)]
        paths = [os.path.join(parent, name) for name in folders]
        others += filter(os.path.islink, paths)  # they are not followed: they may lead back here
        for name in names:
            path = os.path.join(parent, name)
            if is_no_log(os.path.relpath(path, folder)) or _is_special(path):
                others.append(path)
            else:
                logs.append(path)
    return sorted(logs), sorted(others)


def _is_special(path: str) -> bool:
    """Returns whether a path leads to something other than a file or a folder: a named pipe, a socket or a device."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # a link that leads nowhere is reported when it is opened
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def suffix(name: str) -> str:
    """Returns the ending of a file name in lower case, without that of a compression: `.json` of `A.JSON.gz`."""
    lower = name.lower()
    for ending in _COMPRESSION_ENDINGS:
        lower = lower.removesuffix(ending)
    _, ending = os.path.splitext(lower)  # a folder has thousands of files, and pathlib is slow
    return ending


def stem(name: str) -> str:
    """Returns a file name without the ending of a compression and one of `_KNOWN_ENDINGS`: `a` of `a.json.gz`."""
    base = name
    for ending in _COMPRESSION_ENDINGS:
        base = base[: -len(ending)] if base.lower().endswith(ending) else base
    return base[: -len(suffix(base))] if suffix(base) in _KNOWN_ENDINGS else base


_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""Pattern of a UUID in lower case."""


class _Layout(NamedTuple):
    """How a program names its files.

    Attributes:
        program: Name of the program, or of its export.
        file: Matches the path of a file. Its one group is what several files belong to; it is read of all files, so
            that one is there also where files belong to nothing.
        unit: What a file is, such as `session`.
        group: What the group is, such as `project`; empty if files belong to nothing.
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
"""How known programs name their files; the first layout that matches a file is taken."""


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
        _count_in_words(layout, count, len(groups)) for layout, (count, groups) in counts.items()
    )


def _count_in_words(layout: _Layout, count: int, groups: int) -> str:
    """Returns a number of files of a layout in words."""
    of_groups = f" of {counted(groups, layout.group)}" if layout.group else ""
    return f"{counted(count, layout.unit)}{of_groups} of {layout.program}"


def _names_in(path: str) -> Iterable[str]:
    """Yields the paths of the files in a folder, with its own name, or in a zip archive; none of another file."""
    if os.path.isdir(path):
        above = os.path.dirname(os.path.abspath(path))
        for parent, _, files in os.walk(os.path.abspath(path)):
            yield from (os.path.relpath(os.path.join(parent, file), above) for file in files)
    elif path.lower().endswith(".zip") and not is_in_use(path) and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from archive.namelist()
