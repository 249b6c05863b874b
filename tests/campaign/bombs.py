"""Imports small files that are huge inside, or never end, and measures memory and time of each import.

    python -m tests.campaign.bombs [--only cell,line] [--tree FOLDER]

Each file is made, imported by a command of its own into a new project, and removed. Memory is the most that the command
had resident (`ru_maxrss`), time is processor time. A failure is more than `MEMORY`, or an import that is not over after
`SECONDS` of elapsed time.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests import bombs
from tests.campaign.stopping import until_stopped

MEMORY = 600_000_000
SECONDS = 1_800
GIB = 1 << 30

INPUTS: Mapping[str, tuple[str, Callable[[Path], None]]] = {
    "a Parquet cell of 900 MB": ("a.parquet", partial(bombs.parquet_cell, size=900_000_000)),
    "the same among four conversations": (
        "a.parquet",
        partial(bombs.parquet_cell, size=900_000_000, rows=5),
    ),
    "100 million equal Parquet rows": (
        "a.parquet",
        partial(bombs.parquet_equal_rows, count=100_000_000),
    ),
    "five records, 4 GiB of zeros, xz": (
        "a.jsonl.xz",
        partial(bombs.zeros_after_records, size=4 * GIB, packing="xz"),
    ),
    "the same, gzip": (
        "a.jsonl.gz",
        partial(bombs.zeros_after_records, size=4 * GIB, packing="gz"),
    ),
    "the same, bzip2": (
        "a.jsonl.bz2",
        partial(bombs.zeros_after_records, size=4 * GIB, packing="bz2"),
    ),
    "the same, zstd": (
        "a.jsonl.zst",
        partial(bombs.zeros_after_records, size=4 * GIB, packing="zst"),
    ),
    "1 GiB of zeros in a zip archive, LZMA": (
        "a.zip",
        partial(bombs.zip_of_zeros, size=GIB, method=zipfile.ZIP_LZMA),
    ),
    "15 million equal lines, xz": ("a.jsonl.xz", partial(bombs.equal_lines, count=15_000_000)),
    "a JSON text of 1.5 GiB": ("a.json", partial(bombs.long_string, size=3 * GIB // 2)),
    "a line of 1 GiB": ("a.jsonl", partial(bombs.long_line, size=GIB)),
    "the same as the first line": ("a.jsonl", partial(bombs.long_line, size=GIB, before=0)),
    "a hole of 200 GiB in a tar archive": ("a.tar", partial(bombs.sparse_tar, size=200 * GIB)),
    "100,000 columns of one name": ("a.csv", partial(bombs.equal_columns, count=100_000)),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an import took: bytes of the file and of memory, seconds, its exit code, and what it said of the file."""

    size: int
    memory: int
    seconds: float
    code: int
    said: str


def measure(name: str, tree: Path, most_seconds: float = SECONDS) -> Outcome:
    """Imports one of the inputs with the program of a work tree."""
    file, _ = INPUTS[name]
    with tempfile.TemporaryDirectory(prefix="bombs-") as folder:
        path = Path(folder) / file
        # by a process of its own: one that is started has at first the memory of the one that starts it
        make = [sys.executable, "-m", __spec__.name, "--make", str(path), "--only", name]
        subprocess.run(make, check=True)
        words = [sys.executable, "-m", "workbench", "import", f"{folder}/p.wb", str(path)]
        with open(f"{folder}/said", "w+b") as said:
            child = subprocess.Popen(
                words,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(tree)},
                cwd=folder,
            )
            code, used = _ended(child, most_seconds)
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        seconds = used.ru_utime + used.ru_stime
        return Outcome(path.stat().st_size, used.ru_maxrss << 10, seconds, code, _reason(text))


def _ended(child: subprocess.Popen[bytes], most: float) -> tuple[int, resource.struct_rusage]:
    """Waits for a process, or kills it; its exit code and what it used."""
    until = time.monotonic() + most
    while True:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, used
        if time.monotonic() > until:
            child.kill()
            until = float("inf")
        time.sleep(0.1)


def _reason(text: str) -> str:
    found = re.search(
        r"record is larger than[^(\n]*|it (?:unpacks|computes)[^(\n]*|holds no conversations[^\n]*",
        text,
    )
    return found[0].strip(" .,;…") if found else text.strip().rpartition("\n")[2]


def main() -> int:
    """Measures the inputs of the command line and prints their table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="parts of the names of inputs, with commas")
    parser.add_argument("--tree", type=Path, default=Path.cwd(), help="of the program")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="most elapsed time of each")
    parser.add_argument("--make", type=Path, help="make the first of the inputs there, and end")
    arguments = parser.parse_args()
    only = [arguments.only] if arguments.only in INPUTS else arguments.only.split(",")
    names = [name for name in INPUTS if any(part in name for part in only)]
    if arguments.make:
        INPUTS[only[0]][1](arguments.make)
        return 0
    failures = 0
    print("| input | bytes | memory, MB | processor time, s | exit | said |")
    print("|---|--:|--:|--:|--:|---|")
    for number in until_stopped(range(len(names))):
        name = names[number]
        found = measure(name, arguments.tree, arguments.seconds)
        failures += found.memory > MEMORY or found.code < 0
        print(
            f"| {name} | {found.size:,} | {found.memory / 1e6:,.0f} | {found.seconds:.1f}"
            f" | {found.code} | {found.said} |",
            flush=True,
        )
    print(f"\n{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
