"""Writes lines as JSON Lines or CSV, to a stream or to a file."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from engine.errors import ProjectError
from engine.text import as_json, display_safe


def write_lines(lines: Iterable[dict[str, Any]], out: TextIO, kind: str) -> int:
    """Writes lines as JSON Lines or CSV (nested values as JSON) and returns how many.

    CSV knows no escapes, so a terminal gets it made safe; a file and a pipe get the text as it is.
    """
    count = 0
    shown = out.isatty()
    writer: Any = None
    for line in lines:
        count += 1
        if kind == "jsonl":
            out.write(as_json(line) + "\n")
            continue
        flat = {
            key: as_json(value) if isinstance(value, list | dict) else value
            for key, value in line.items()
        }
        if writer is None:
            writer = csv.DictWriter(out, list(flat), lineterminator="\n")
            writer.writeheader()
        if shown:
            flat = {k: display_safe(v) if isinstance(v, str) else v for k, v in flat.items()}
        writer.writerow(flat)
    return count


def write_file(lines: Iterable[dict[str, Any]], path: Path, kind: str) -> int:
    """Writes a file completely or not at all, and returns how many lines.

    Raises:
        ProjectError: The file cannot be written.
    """
    with written_beside(path) as part, part.open("w", encoding="utf-8", newline="") as out:
        return write_lines(lines, out, kind)


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Gives the path of a file beside the target, which takes its place at the end, so that an interrupted export
    leaves no partial file.

    Raises:
        ProjectError: The file cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        raise ProjectError(
            f"{path} cannot be written: {error.strerror}.", "Choose another place."
        ) from error
    finally:
        part.unlink(missing_ok=True)
