"""Preferences that hold for all projects: theme, name and recent projects, in one small JSON file.

A file that cannot be read does not keep the program from starting: the problem is shown, defaults are used, and the
first change moves the old file aside instead of overwriting it. Two programs that write at the same time lose at most
one entry, never the file.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.base.files import make_folder, write_atomically

MOST_RECENT = 20


@dataclass(frozen=True, slots=True)
class Opened:
    """A project, and when it was opened last, as ISO 8601 in UTC."""

    path: str
    at: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """The content of the file.

    Attributes:
        theme: The colors of the screens (`T`); None until one was chosen.
        annotator: Name of the person, stored with their verdicts (`@`); empty without one.
        recent: Projects that were opened, the last one first, at most 20; each has `path` and `at`.
    """

    theme: str | None = None
    annotator: str = ""
    recent: tuple[Opened, ...] = field(default=())


class Preferences:
    """The file and what is in it; every change is written at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[Chosen, str | None]:
        """The content of the file, and a message when it cannot be read, else None."""
        try:
            return _parsed(json.loads(self.path.read_text("utf-8"))), None
        except FileNotFoundError:
            return Chosen(), None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            return Chosen(), (
                f"The preferences in {self.path} cannot be read ({error}); defaults are used."
                " Correct the file or delete it."
            )

    def choose_theme(self, name: str) -> None:
        """Remembers a theme."""
        self._change(lambda chosen: replace(chosen, theme=name))

    def choose_annotator(self, name: str) -> None:
        """Remembers the name of the person who judges."""
        self._change(lambda chosen: replace(chosen, annotator=name))

    def opened(self, path: Path, now: datetime | None = None) -> None:
        """Remembers that a project was opened; it becomes the first of the recent ones."""
        whole = os.path.abspath(os.path.expanduser(path))
        at = (now or datetime.now(UTC)).isoformat(timespec="seconds")

        def first(chosen: Chosen) -> Chosen:
            others = tuple(entry for entry in chosen.recent if entry.path != whole)
            return replace(chosen, recent=(Opened(whole, at), *others)[:MOST_RECENT])

        self._change(first)

    def forget(self, path: str) -> None:
        """Takes a project off the recent ones."""
        self._change(
            lambda chosen: replace(chosen, recent=tuple(e for e in chosen.recent if e.path != path))
        )

    def _change(self, change: Callable[[Chosen], Chosen]) -> None:
        """Writes a change; a folder that cannot be written is logged, and the session goes on."""
        chosen, problem = self.read()
        try:
            make_folder(self.path.parent)
            if problem is not None:
                os.replace(self.path, self.path.with_suffix(".broken"))
            write_atomically(self.path, json.dumps(asdict(change(chosen)), indent=2) + "\n")
        except OSError as error:
            logging.getLogger(__name__).warning("preferences were not written: %s", error)


def _parsed(content: dict[str, Any]) -> Chosen:
    theme = content.get("theme")
    recent = tuple(Opened(str(e["path"]), str(e["at"])) for e in content.get("recent", ()))
    annotator = str(content.get("annotator") or "")
    return Chosen(str(theme) if theme is not None else None, annotator, recent)
