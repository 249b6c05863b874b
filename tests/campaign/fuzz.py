"""Feeds damaged input to everything that reads input, and counts what is not a plain refusal.

    python -m tests.campaign.fuzz --inputs 100000 --seed 7 [--only readers,filters] [--samples FOLDER] [--keep FOLDER]

Every input is a valid one with some places changed: bytes flipped, spans taken out, doubled or moved, values of JSON
replaced, telling bytes put in. What is read must be storable, and what is refused must be refused with an error of the
program's own. A failure is any other exception, more than `SECONDS` of processor time for one input, or more than
`MEMORY` bytes beyond those that the process had before.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from engine.errors import WorkbenchError
from engine.filters import FIELDS, FilterError, ListQuery, parse_filter
from engine.formats.inputs import open_inputs
from engine.formats.mappings.mapping import load_mapping
from engine.model.catalog import embedded_model
from engine.model.gguf_file import read_gguf
from engine.services.exports import export_lines
from engine.services.scoring.outside import import_scores
from engine.services.triage.answers import import_answers
from engine.services.workspace import Workspace
from engine.simulate.samples import sample_conversations, write_jsonl
from engine.store import conversations
from engine.store.project import Project
from tests.engine.formats.test_golden import INPUTS
from tests.engine.formats.test_hostile import check
from workbench.cli import main as workbench

SECONDS = 10
MEMORY = 1 << 30
MOST_RECORDS = 200
"""Records that are looked at of one input."""

LARGEST = 300_000
"""Bytes of the samples that are mutated; larger ones say nothing more and take long."""

TELLING = (
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r", b"{", b"}", b"[", b"]", b'"', b"\\u0000", b"\\ud800", b"\x1b[2J",
    b"-1", b"1e999", b"9" * 400, b"NaN", b"null", b"true", b"[" * 2_000, b'{"a":' * 500, b"\xf0\x9f\x98\x80", b",",
)  # fmt: skip
"""Bytes that readers have stumbled over somewhere."""

JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**400, "", "user", "\ud800", "\x00", "a" * 5_000, [], {}, [[]], [None], {"": None},
    {"role": 5}, {"role": "user", "content": None}, {"type": "text"}, ["x", 1, {}], 1e308,
)  # fmt: skip


WORDS = (
    "any", "none", "complete", "2026-01", "0.5", "1..2", '"a b"', "x*", "-", "(", "\x00", "\ud800", "'", "%", "*",
)  # fmt: skip
"""Words and signs of filters."""


class TooSlow(Exception):
    """One input took longer than `SECONDS`."""


def flipped(data: bytes, choice: random.Random) -> bytes:
    """The bytes with one to twenty of them changed, sometimes cut: what was after a place still is where it was."""
    changed = bytearray(data)
    for _ in range(choice.randint(1, 20)):
        changed[int(len(changed) * choice.random() ** 3)] = choice.choice(
            (0, 1, 0x7F, 0xFF, choice.randrange(256))
        )
    return bytes(changed[: choice.randrange(len(changed))] if choice.random() < 0.1 else changed)


def mutated(data: bytes, choice: random.Random) -> bytes:
    """The bytes with one to six places changed; of JSON sometimes its values."""
    if choice.random() < 0.4:
        found = mutated_json(data, choice)
        if found is not None:
            return found
    changed = bytearray(data)
    for _ in range(choice.randint(1, 6)):
        at = choice.randrange(len(changed) + 1)
        end = min(len(changed), at + choice.choice((1, 2, 8, 100, 5_000)))
        kind = choice.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << choice.randrange(8)
        elif kind == 1:
            del changed[at:end]
        elif kind == 2:
            changed[at:at] = changed[at:end] * choice.choice((1, 2, 20))
        elif kind == 3:
            changed[at:at] = choice.choice(TELLING)
        elif kind == 4:
            del changed[at:]
        else:
            there = choice.randrange(len(changed) + 1)
            changed[there:there] = changed[at:end]
    return bytes(changed[: 4 * LARGEST])


def mutated_json(data: bytes, choice: random.Random) -> bytes | None:
    """JSON or JSON Lines with one to four values replaced or taken out; None where it is neither."""
    try:
        try:
            values = [json.loads(data)]
        except ValueError:
            values = [json.loads(line) for line in data.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None
    for _ in range(choice.randint(1, 4)):
        parent, key = values, choice.randrange(len(values)) if values else None
        while (
            key is not None
            and isinstance(parent[key], dict | list)
            and parent[key]
            and choice.random() < 0.8
        ):
            parent = parent[key]
            key = (
                choice.choice(list(parent))
                if isinstance(parent, dict)
                else choice.randrange(len(parent))
            )
        if key is None:
            break
        if choice.random() < 0.3:
            del parent[key]
        else:
            parent[key] = copy.deepcopy(choice.choice(JSON_VALUES))
    return b"\n".join(json.dumps(value).encode("utf-8", "surrogatepass") for value in values)


class Fuzz:
    """The inputs that are mutated, and a small project. Each method makes an input and returns what reads it."""

    def __init__(self, folder: Path, samples: Path | None) -> None:
        given = sorted(samples.rglob("*")) if samples is not None else []
        self.inputs = [
            path for path in (*INPUTS, *given) if path.is_file() and path.stat().st_size <= LARGEST
        ]
        self.mappings = sorted(Path("engine/formats/mappings").rglob("*.toml"))
        with embedded_model().open("rb") as file:
            self.gguf = file.read(1 << 21)
            self.gguf_size = os.fstat(file.fileno()).st_size
        talks = folder / "talks.jsonl"
        write_jsonl(sample_conversations(12, seed=5), talks)
        self.project = folder / "p.wb"
        workbench(["import", str(self.project), str(talks), "--json"])
        ids = [json.loads(line)["id"] for line in talks.read_text("utf-8").splitlines()]
        known = {
            "verdict": "complete",
            "note": "x",
            "annotator": "ann",
            "tags": ["t"],
            "repeats": ["unsure"],
        }
        verdicts = [{"id": name, **known, "others": []} for name in ids]
        self.verdicts = "\n".join(map(json.dumps, verdicts)).encode()
        self.scores = "\n".join(["id,score", *(f"{name},0.5" for name in ids)]).encode()
        self.stored = self.project.read_bytes()
        self.open = Project.open(self.project)

    def readers(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """A log in any format."""
        source = choice.choice(self.inputs)
        path = folder / source.name
        path.write_bytes(mutated(source.read_bytes(), choice))

        def read() -> None:
            for found in open_inputs([str(path)]):
                for record in islice(found.records(), MOST_RECORDS):
                    check(record)

        return read

    def filters(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """A line of the filter language."""
        fields = [*FIELDS, "meta.x", "truth.reward", "nothing"]
        signs = (":", "<", ">=", "", "::", "..")
        terms = []
        for _ in range(choice.randint(1, 6)):
            word = choice.choice(WORDS)
            if choice.random() < 0.8:
                word = (
                    choice.choice(("", "-")) + choice.choice(fields) + choice.choice(signs) + word
                )
            terms.append(word)
        line = choice.choice((" ", "  ", "")).join(terms)
        (folder / "filter.txt").write_text(line, "utf-8", errors="surrogatepass")

        def read() -> None:
            try:
                wanted = parse_filter(line)
            except FilterError as error:
                if not 0 <= error.at <= len(line):
                    raise AssertionError(f"the error is at {error.at} of {line!r}") from error
                return
            if parse_filter(str(wanted)) != wanted:
                raise AssertionError(
                    f"{line!r} is written as {str(wanted)!r}, which is another filter"
                )
            with self.open.reading() as conn:
                conversations.ids(conn, ListQuery(wanted))

        return read

    def model(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """The header of a model file."""
        path = folder / "m.gguf"
        path.write_bytes(choice.choice((flipped, mutated))(self.gguf, choice))
        if choice.random() < 0.9:  # as long as the real one, with a hole for the weights
            os.truncate(path, self.gguf_size)

        def read() -> None:
            read_gguf(path)

        return read

    def mapping(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """A mapping file, and the sample that it reads."""
        source = choice.choice(self.mappings)
        path = folder / "m.toml"
        path.write_bytes(mutated(source.read_bytes(), choice))

        def read() -> None:
            load_mapping(path)

        return read

    def answers(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """A file of verdicts."""
        path = folder / "verdicts.jsonl"
        path.write_bytes(mutated(self.verdicts, choice))

        def read() -> None:
            import_answers(self.open, path, dry_run=True)

        return read

    def outside(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """A file of scores."""
        path = folder / "scores.csv"
        path.write_bytes(mutated(self.scores, choice))

        def read() -> None:
            import_scores(self.open, path, dry_run=True)

        return read

    def file(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """A project file: opened, listed, exported."""
        path = folder / "p.wb"
        path.write_bytes(flipped(self.stored, choice))

        def read() -> None:
            with Workspace(path, read_only=choice.random() < 0.5) as workspace:
                with workspace.project.reading() as conn:
                    for kind in ("conversations", "table", "verdicts"):
                        for _ in islice(export_lines(conn, kind), MOST_RECORDS):
                            pass
                workspace.services().conversations.counts()

        return read


TARGETS: dict[str, Callable[[Fuzz, random.Random, Path], Callable[[], None]]] = {
    "readers": Fuzz.readers,
    "filters": Fuzz.filters,
    "model": Fuzz.model,
    "mapping": Fuzz.mapping,
    "answers": Fuzz.answers,
    "outside": Fuzz.outside,
    "project": Fuzz.file,
}


@dataclass
class Outcome:
    """What a campaign saw.

    Attributes:
        inputs: Inputs by target.
        refused: Those that were refused with an error of the program's own.
        slowest: Seconds of the slowest input by target.
        failures: A sentence for each failure, with what shows it again.
    """

    inputs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


@contextmanager
def limited() -> Iterator[None]:
    """Raises `TooSlow` after `SECONDS` of processor time."""

    def stop(number: int, frame: object) -> None:
        raise TooSlow(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def limit_memory() -> None:
    """From here on the process gets at most `MEMORY` bytes more: beyond that, `MemoryError`."""
    (pages, *_) = Path("/proc/self/statm").read_text().split()
    resource.setrlimit(resource.RLIMIT_AS, (int(pages) * resource.getpagesize() + MEMORY,) * 2)


def campaign(
    inputs: int,
    seed: int,
    only: list[str],
    samples: Path | None = None,
    keep: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Reads `inputs` damaged inputs, the targets by turns."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        fuzz = Fuzz(folder, samples)
        place = folder / "input"
        try:
            for number in range(inputs):
                target = only[number % len(only)]
                place.mkdir()
                choice = random.Random(f"{seed} {number}")
                read = TARGETS[target](fuzz, choice, place)
                began = time.monotonic()
                wrong = attempt(read, outcome, target)
                seconds = time.monotonic() - began
                outcome.slowest[target] = max(seconds, outcome.slowest.get(target, 0))
                outcome.inputs[target] += 1
                if wrong:
                    outcome.failures.append(f"{target}, seed {seed}, input {number}: {wrong}")
                    say(outcome.failures[-1])
                    if keep is not None:
                        shutil.copytree(place, keep / f"{target}-{seed}-{number}")
                shutil.rmtree(place)
        finally:
            fuzz.open.close()
    return outcome


def attempt(read: Callable[[], None], outcome: Outcome, target: str) -> str:
    """Reads an input; returns what went wrong, empty where it was read or refused."""
    try:
        with limited():
            read()
    except WorkbenchError as error:
        outcome.refused[target] += 1
        return "" if error.message.strip() else "an error without a word"
    except Exception as error:  # noqa: BLE001 - what it is for
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = (
            f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where is not None else ""
        )
        return f"{type(error).__name__}: {str(error)[:200]} at {place}"
    return ""


def main() -> int:
    """Runs the campaign of the command line and prints its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", help=f"targets with commas between them, of: {', '.join(TARGETS)}"
    )
    parser.add_argument("--samples", type=Path, help="folder with further logs to mutate")
    parser.add_argument("--keep", type=Path, help="folder for inputs that failed")
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else list(TARGETS)
    limit_memory()
    began = time.monotonic()
    outcome = campaign(
        arguments.inputs,
        arguments.seed,
        only,
        arguments.samples,
        arguments.keep,
        lambda line: print(line, flush=True),
    )
    print(f"\n{'target':<10}{'inputs':>10}{'refused':>10}{'slowest':>10}")
    for name in only:
        print(
            f"{name:<10}{outcome.inputs[name]:>10,}{outcome.refused[name]:>10,}{outcome.slowest.get(name, 0):>8.1f} s"
        )
    seconds = time.monotonic() - began
    print(f"{outcome.inputs.total():,} inputs, {len(outcome.failures)} failures, {seconds:.0f} s")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
