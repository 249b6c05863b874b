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
import ctypes
import io
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

from engine.base.errors import FilterError, WorkbenchError
from engine.conversations.filter_fields import FIELDS
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.tables import selecting
from engine.formats.inputs import open_inputs
from engine.formats.mappings.mapping import load_mapping
from engine.model.catalog import embedded_model
from engine.model.embedders.embedder import HttpEmbedder
from engine.model.endpoints import pacing
from engine.model.endpoints.client import EndpointClient, parse_address, served_models
from engine.model.endpoints.model import EndpointModel
from engine.model.endpoints.probe import probe
from engine.model.endpoints.sender import RequestSender
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.model.process.requests import Generate
from engine.opener.exports import export_lines
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.questions.question import tag_question
from engine.questions.service.answer_tables import import_file_answers
from engine.questions.service.answers import import_answers
from engine.simulate.demo import sample_conversations, write_jsonl
from engine.training.history import RunHistory
from engine.training.run_directory import RunDirectory
from engine.training.run_files import runs_folder
from screens.training.formatting import about_content, headline, summary_content, tail_content
from screens.training.screen import loss_lines, validation_lines
from tests.campaign.stopping import until_stopped
from tests.engine.formats.test_golden import INPUTS
from tests.engine.formats.test_hostile import check
from tests.engine.model.endpoints.test_replies import CHAT, LOGS, RAW
from tests.engine.model.endpoints.toy_endpoint import at_once, capabilities
from tests.engine.model.endpoints.toy_peer import Handler, Manner, running
from tests.screens.training.training_runs import finish, write_run
from workbench.cli import main as workbench
from workbench.commands import train

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


MANNERS: tuple[Manner, ...] = get_args(Manner)

HEADERS = (
    "Retry-After: 1e999", "Retry-After: -5", "Retry-After: \x1b[2J", "Content-Encoding: gzip", "Content-Encoding: br",
    "Transfer-Encoding: chunked", "Location: http://127.0.0.1:9/", "Content-Type: text/html; charset=\x00", ": x",
    "Content-Type: application/json; charset=utf-7", "x-ratelimit-remaining-requests: 0",
    "x-ratelimit-reset-requests: 9999999999999999h", "Set-Cookie: a=b",
)  # fmt: skip
"""Lines of headers that mean something to a client."""

STORED: tuple[Any, ...] = (
    None, "", 0, -1, 1, 2**63 - 1, -(2**63), 1e308, float("inf"), "x", "\x1b[2J", b"", b"\xff\xfe", "[]", "{}", "null",
    "[" * 2_000, '{"a": NaN}', "2026-01-01T00:00:00+00:00", "9999-99-99",
)  # fmt: skip
"""Values that are put into columns of a project."""

SCHEMAS = (
    "CREATE TRIGGER t AFTER INSERT ON verdict BEGIN DELETE FROM conversation; END",
    "CREATE TRIGGER t AFTER UPDATE ON setting BEGIN DELETE FROM conversation; END",
    "CREATE TEMP TABLE conversation (id)",
    "CREATE VIEW v AS SELECT load_extension('x')",
    "CREATE TABLE more (a, b)",
    "CREATE INDEX more ON conversation (external_id)",
    "ALTER TABLE conversation ADD COLUMN more",
    "ALTER TABLE verdict RENAME TO verdicts",
    "DROP TABLE verdict",
    "DROP TABLE setting",
    "PRAGMA application_id = 7",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 3",
    "PRAGMA user_version = 999999",
    "PRAGMA user_version = -1",
    "PRAGMA journal_mode = DELETE",
)  # fmt: skip
"""Changes of a file that no version of the program makes."""


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


class DamagedAnswers(Handler):
    """Answers as the toy servers do, and with vectors, some damaged: another status, other values in the JSON, or other
    bytes anywhere, the headers included."""

    seed = ""

    def do_POST(self) -> None:
        if self.path == "/v1/embeddings":
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            rows = [{"index": at, "embedding": [len(t), 1.0]} for at, t in enumerate(body["input"])]
            self.say(200, {"data": rows})
        else:
            super().do_POST()

    def say(self, code: int, what: Any, headers: dict[str, str] | None = None) -> None:
        """Sends an answer, damaged or not as the seed and the path decide, whatever the order of the requests."""
        raw = json.dumps(what).encode()
        choice = random.Random(f"{self.seed} {self.path} {zlib.crc32(raw)}")
        kind = choice.random()
        if kind < 0.1:
            code = choice.choice((100, 204, 206, 301, 304, 400, 401, 404, 429, 500, 503, 599, 999))
        if 0.1 < kind < 0.4:
            raw = mutated(raw, choice)
        lines = [f"HTTP/1.1 {code} OK", f"Content-Length: {len(raw)}", "Connection: close"]
        if kind < 0.2:
            lines.insert(1, choice.choice(HEADERS))
        answer = "\r\n".join([*lines, "", ""]).encode() + raw
        if kind > 0.95:
            answer = flipped(answer, choice)
        self.close_connection = True
        with suppress(OSError):  # the client has hung up
            self.wfile.write(answer)


class Fuzz:
    """The inputs that are mutated, and a small project. Each method makes an input and returns what reads it."""

    def __init__(self, folder: Path, samples: Path | None, servers: ExitStack) -> None:
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
            "succeeded": "yes",
            "note": "x",
            "annotator": "ann",
            "tags": ["t"],
            "repeats": ["unsure"],
        }
        verdicts = [{"id": name, **known, "others": []} for name in ids]
        self.verdicts = "\n".join(map(json.dumps, verdicts)).encode()
        self.scores = "\n".join(["id,score", *(f"{name},0.5" for name in ids)]).encode()
        self.stored = self.project.read_bytes()
        with closing(sqlite3.connect(self.project)) as conn:
            self.columns = conn.execute(
                "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
                " WHERE m.type = 'table' AND m.name NOT LIKE '%fts%'"
            ).fetchall()
        self.run = finish(write_run(folder / "runs.wb", "run", 30)).path
        self.open = Project.open(self.project)
        # The clean answers first: what a server can do decides what it is asked.
        self.can = {manner: capabilities(manner) for manner in MANNERS}
        self.peers = {manner: servers.enter_context(running(manner)) for manner in MANNERS}
        for peer in self.peers.values():
            peer.server.RequestHandlerClass = type("Bound", (DamagedAnswers,), {"peer": peer})
        servers.enter_context(patch.object(pacing, "LONGEST_WAIT", 0.0))

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
                selecting.ids(conn, ListQuery(wanted))

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
        """A table of answers."""
        path = folder / "scores.csv"
        path.write_bytes(mutated(self.scores, choice))

        def read() -> None:
            import_file_answers(self.open, path, tag_question("good"), dry_run=True)

        return read

    def file(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """A project file: opened, listed, exported."""
        path = folder / "p.wb"
        path.write_bytes(flipped(self.stored, choice))

        def read() -> None:
            with OpenProject(path, read_only=choice.random() < 0.5) as workspace:
                with workspace.project.reading() as conn:
                    for kind in ("conversations", "table", "answers"):
                        for _ in islice(export_lines(conn, kind), MOST_RECORDS):
                            pass
                workspace.conversations.counts()

        return read

    def values(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """A project file that is sound, with values, objects or a header that no version of the program writes."""
        path = folder / "p.wb"
        path.write_bytes(self.stored)
        with closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute("PRAGMA ignore_check_constraints = ON")
            for _ in range(choice.randint(1, 4)):
                with suppress(sqlite3.Error):  # a constraint that SQLite itself keeps
                    self._change(conn, choice)

        def read() -> None:
            with OpenProject(path, read_only=choice.random() < 0.5) as workspace:
                with workspace.project.reading() as conn:
                    for kind in ("conversations", "table", "answers", "scores"):
                        for _ in islice(export_lines(conn, kind), MOST_RECORDS):
                            pass
                listed = workspace.conversations
                listed.counts()
                listed.rows(listed.ids(ListQuery(parse_filter(""))))

        return read

    def _change(self, conn: sqlite3.Connection, choice: random.Random) -> None:
        if choice.random() < 0.1:
            conn.execute(choice.choice(SCHEMAS))
            return
        table, column = choice.choice(self.columns)
        value = choice.choice((*STORED, choice.randbytes(1 << choice.randint(0, 22))))
        conn.execute(
            f'UPDATE "{table}" SET "{column}" = ? WHERE rowid % ? = 0',
            (value, choice.randint(1, 5)),
        )

    def training(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """The files of a training run: its events, most often, its settings, or what its data was made of."""
        project = folder / "p.wb"
        project.write_bytes(self.stored)
        run = RunDirectory(runs_folder(project) / "run")
        shutil.copytree(self.run, run.path)
        names = ("events.jsonl",) * 6 + ("config.json", "manifest.json", "log.txt")
        path = run.path / choice.choice(names)
        path.write_bytes(mutated(path.read_bytes(), choice))

        def read() -> None:
            history = RunHistory(run)
            detail = history.detail()
            history.speed()
            loss_lines(detail), validation_lines(detail)
            shown = [
                headline(detail.run, None),
                summary_content([detail.run], False, "", ""),
                about_content(detail, 80),
                tail_content(detail),
            ]
            printed = io.StringIO()
            with redirect_stdout(printed):
                for name in ("run", None):
                    train.status(argparse.Namespace(project=project, run_name=name, json=False))
            if "\x1b" in "".join([printed.getvalue(), *(content.plain for content in shown)]):
                raise AssertionError("a control byte is shown")

        return read

    def http(self, choice: random.Random, folder: Path) -> Callable[[], None]:
        """The answers of an endpoint: to a probe, or to requests for replies or a tree."""
        manner = choice.choice(MANNERS)
        peer, what = (
            self.peers[manner],
            choice.choice(("probe", "models", "embed", "write")),
        )
        peer.server.RequestHandlerClass.seed = str(choice.random())  # type: ignore[attr-defined]
        address = parse_address(peer.url)
        asker = EndpointClient(address, sleep=at_once, attempts=2, seconds=2)
        prompt = choice.choice((RAW, CHAT))
        (folder / "asked.txt").write_text(f"{manner} {what} {prompt.name}")

        def read() -> None:
            if what == "models":
                served_models(asker)
                return
            if what == "embed":
                HttpEmbedder(peer.url, sleep=at_once).embed(["one", "and two", ""])
                return
            if what == "probe":
                probe(address)
                return
            model = EndpointModel("toy", RequestSender(asker), self.can[manner])
            model.load(Path(), LoadOptions())
            for reply in model.ask(Generate(LOGS, prompt)):
                f"{reply.text}{reply.note}".encode()

        return read


TARGETS: dict[str, Callable[[Fuzz, random.Random, Path], Callable[[], None]]] = {
    "readers": Fuzz.readers,
    "filters": Fuzz.filters,
    "model": Fuzz.model,
    "mapping": Fuzz.mapping,
    "answers": Fuzz.answers,
    "outside": Fuzz.outside,
    "project": Fuzz.file,
    "values": Fuzz.values,
    "training": Fuzz.training,
    "http": Fuzz.http,
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
    # Threads get no heaps of their own, each of which reserves 64 MB of addresses.
    ctypes.CDLL(None).mallopt(-8, 1)
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
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name, ExitStack() as servers:
        folder = Path(name)
        fuzz = Fuzz(folder, samples, servers)
        place = folder / "input"
        try:
            for number in until_stopped(range(inputs)):
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
    for name in dict.fromkeys(only):
        print(
            f"{name:<10}{outcome.inputs[name]:>10,}{outcome.refused[name]:>10,}{outcome.slowest.get(name, 0):>8.1f} s"
        )
    seconds = time.monotonic() - began
    print(f"{outcome.inputs.total():,} inputs, {len(outcome.failures)} failures, {seconds:.0f} s")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
