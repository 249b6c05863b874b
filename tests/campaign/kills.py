"""Kills commands at random moments, and holds what they leave against a run that nobody disturbed.

    python -m tests.campaign.kills --kills 200 --seed 7 [--only import,score] [--keep FOLDER]

Each round copies a prepared project and starts a command in a fork of this process (`tests/campaign/forked.py`). After
a random part of the time that it takes undisturbed SIGKILL goes to the command, to one of its children, or to all of
them at once. Then the file must open and pass `PRAGMA integrity_check`, the same command must end well, and the project
must have what the undisturbed run gave: every exported value bit for bit, and as many rows in every table, so that
nothing is there twice.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.model.catalog import embedded_model
from engine.opener.exports import export_lines
from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl
from engine.training.history import RunHistory
from engine.training.run_directory import RunDirectory
from tests.campaign.forked import ForkedCommand, run_here
from tests.campaign.stopping import until_stopped
from tests.engine.model.tuned import tune
from tests.engine.model.weights import ALL_BUT_FIRST, write_shallow
from tests.workbench.test_simulating import PLUMS

COUNT = 40
"""Conversations of the projects."""

ENDS = (0, 3)
"""Exit codes of a command that did its work; 3 says that something could not be taken or scored."""

VOLATILE = ("given_at", "seconds", "timestamp")
"""Fields of exports that say when something was done, and how long it took."""

PLAYED = ("created_at", "date")
"""Fields that say when a simulated conversation was played."""

UNCOUNTED = {"run", "sqlite_sequence", "setting", "reply"}
"""Tables whose rows also say how often a command ran."""


@dataclass(frozen=True)
class Operation:
    """A command, and what it needs before.

    Attributes:
        command: Words after `workbench`; `{p}` is the project, `{f}` the folder of the round.
        before: Commands that prepare the project.
        kinds: What is exported and compared.
        output: A file that it writes in the folder of the round: whole or not there after a kill.
        events: Whether it prints events, none of which may be lost; those of a killed run count too.
        volatile: Further fields of exports that say when something was done.
        goes_on: What makes a run directory complete, where the command itself would begin another one.
    """

    command: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    kinds: tuple[str, ...] = ("conversations", "table")
    output: str = ""
    events: bool = False
    volatile: tuple[str, ...] = ()
    goes_on: tuple[str, ...] = ()


IMPORT = ("import", "{p}", "{f}/talks.jsonl")
SCORE = ("run", "complete", "{p}", "--mode", "probe", "--no-remaining")
CLUSTER = ("run", "cluster", "{p}", "--decide", "none", "--no-labels")
WATCH = ("watch", "{p}", "{f}/grown.jsonl", "--once")
DECISIONS = ("goals", "decide", "{p}", "--merge-above", ".1")
TREES = ("run", "trees", "{p}", "--limit", "4", "--nodes", "60", "--max-tokens", "12")
RUN_FOLDER = "p.training/r"
TRAIN = (
    "train", "{p}", "--base", "{f}/base", "--set", "batch=4", "--set", "valid_every=2", "--set", "precision=f32",
    "--set", "max_tokens=400", "--set", "rank=4", "--set", "threads=1",
    "--set", "epochs=2", "--limit", "12", "--name", "r",
)  # fmt: skip
RECSIM = (
    "simulate", "recsim", "{p}", "--limit", "2", "--turns", "2", "--context", "2048",
)  # fmt: skip
SHARDED = (
    "simulate", "sharded", "{p}", "{f}/plums.json", "--max-tokens", "12", "--context", "2048",
    "--conditions", "full,sharded,recap",
)  # fmt: skip

OPERATIONS = {
    "import": Operation(IMPORT),
    "import again": Operation(("import", "{p}", "{f}/grown.jsonl"), (IMPORT,)),
    "check": Operation(("run", "check", "{p}"), (IMPORT,)),
    "score": Operation(SCORE, (IMPORT,), ("scores", "table")),
    "trees": Operation(TREES, (IMPORT,), ("trees", "table")),
    "cluster": Operation(CLUSTER, (IMPORT,), ("clusters", "table")),
    "decisions": Operation(DECISIONS, (IMPORT, CLUSTER), ("clusters", "decisions")),
    "verdicts": Operation(
        ("answers", "{p}", "succeeded", "--import", "{f}/verdicts.jsonl"), (IMPORT,), ("answers", "table")
    ),
    "scores": Operation(
        ("answers", "{p}", "good", "--import", "{f}/judge.jsonl", "--replace"), (IMPORT,), ("answers", "table")
    ),
    "export": Operation(("export", "{p}", "table", "--force", "-o", "{f}/out.csv"), (IMPORT,), output="out.csv"),
    "watch": Operation(WATCH, (IMPORT, SCORE), ("conversations",), events=True),
    "report": Operation(("report", "{p}", "-o", "{f}/out.html"), (IMPORT,), output="out.html"),
    "recsim": Operation(RECSIM, (IMPORT,), volatile=PLAYED),
    "sharded": Operation(SHARDED, (IMPORT,), volatile=PLAYED),
    "train": Operation(
        TRAIN, (IMPORT,), ("conversations",), f"{RUN_FOLDER}/adapter.gguf",
        goes_on=("train", "{p}", "--resume", "r"),
    ),
}  # fmt: skip


@dataclass
class Outcome:
    """What a campaign saw.

    Attributes:
        rounds: Rounds by operation.
        killed: Those in which the command was still running.
        failures: A sentence for each failure, with the seed that shows it again.
    """

    rounds: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class Campaign:
    """Prepared projects, and the environment of all commands.

    Attributes:
        folder: Where projects and inputs lie.
        keep: Where what a failure left behind is copied to.
        environment: Environment of all commands.
    """

    def __init__(self, folder: Path, keep: Path | None = None) -> None:
        self.folder, self.keep = folder, keep
        home = folder / "home"
        home.mkdir(parents=True)
        self.environment = {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith("XDG_") and key != "PYTHONDONTWRITEBYTECODE"
            },
            "HOME": str(home),
            "WORKBENCH_DATA": str(home / "data"),
            "WORKBENCH_CACHE": str(home / "cache"),
            "WORKBENCH_OFFLINE": "1",
        }
        shallow = folder / "shallow.gguf"
        write_shallow(embedded_model(), shallow, ALL_BUT_FIRST)
        tune(shallow, home / "data", home / "cache")
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        self._write_inputs()

    def _write_inputs(self) -> None:
        write_jsonl(sample_conversations(COUNT, seed=3), self.inputs / "talks.jsonl")
        lines = (self.inputs / "talks.jsonl").read_text("utf-8").splitlines()
        grown = []
        for line in lines:
            record = json.loads(line)
            record["messages"] += [
                {"role": "user", "content": "And now?"},
                {"role": "assistant", "content": "Done."},
            ]
            grown.append(json.dumps(record))
        (self.inputs / "grown.jsonl").write_text(
            "\n".join([*grown[: COUNT // 2], *lines[COUNT // 2 :]]) + "\n", "utf-8"
        )
        ids = [json.loads(line)["id"] for line in lines]
        judged = [
            {
                "id": name,
                "succeeded": "yes" if n % 3 else "no",
                "annotator": "ann",
                "tags": ["seen"],
            }
            for n, name in enumerate(ids)
        ]
        (self.inputs / "verdicts.jsonl").write_text("\n".join(map(json.dumps, judged)), "utf-8")
        rated = [{"id": name, "score": n / COUNT} for n, name in enumerate(ids)]
        (self.inputs / "judge.jsonl").write_text("\n".join(map(json.dumps, rated)), "utf-8")
        (self.inputs / "plums.json").write_text(json.dumps([PLUMS]), "utf-8")

    def run(self, words: tuple[str, ...], folder: Path) -> ForkedCommand:
        """Starts a command in a session of its own."""
        with (folder / "stdout.jsonl").open("ab") as out:
            out.write(b"\n")  # after a line that a kill cut
        return ForkedCommand([*_filled(words, folder), "--json"], self.environment, folder)

    def prepared(self, name: str) -> Path:
        """A folder with inputs and project as they are before the command of an operation; made once."""
        folder = self.folder / name
        if not folder.exists():
            shutil.copytree(self.inputs, folder)
            if name == "train":
                from tests.training.tiny_runs import tiny_base  # with torch every fork takes longer

                tiny_base(folder)
            for words in OPERATIONS[name].before:
                code = self._prepare(words, folder)
                if code not in ENDS:
                    raise RuntimeError(
                        f"{words} ended with {code}: {(folder / 'stderr.txt').read_text()[-400:]}"
                    )
        return folder

    def _prepare(self, words: tuple[str, ...], folder: Path) -> int:
        """Runs a command to its end in this process, so that its forks have what it read."""
        return run_here([*_filled(words, folder), "--json"], self.environment, folder)

    def fresh(self, name: str, to: str) -> Path:
        """A copy of `prepared`."""
        return Path(shutil.copytree(self.prepared(name), self.folder / to))

    def reference(self, name: str) -> tuple[float, Any]:
        """Seconds and result of the command when nobody disturbs it."""
        self._prepare(OPERATIONS[name].command, self.fresh(name, "round"))
        shutil.rmtree(self.folder / "round")
        folder = self.fresh(name, "round")
        began = time.monotonic()
        code = self.run(OPERATIONS[name].command, folder).wait()
        seconds = time.monotonic() - began
        if code not in ENDS:
            raise RuntimeError(
                f"{name} ended with {code}: {(folder / 'stderr.txt').read_text()[-400:]}"
            )
        found = result(folder, OPERATIONS[name])
        shutil.rmtree(folder)
        return seconds, found

    def round(
        self, name: str, seconds: float, expected: Any, choice: random.Random
    ) -> tuple[float | None, str]:
        """The seconds after which the command ended before it was killed, None where it was still running; and what is
        wrong afterwards, else empty."""
        folder = self.fresh(name, "round")
        began = time.monotonic()
        child = self.run(OPERATIONS[name].command, folder)
        try:
            child.wait(choice.uniform(0, 1.1 * seconds))
            took: float | None = time.monotonic() - began
        except subprocess.TimeoutExpired:
            took = None
            kill(child, choice)
        wrong = self.after(name, folder, expected)
        if wrong and self.keep is not None:
            shutil.copytree(folder, self.keep / f"{name}-{time.time_ns()}")
        shutil.rmtree(folder)
        return took, wrong

    def after(self, name: str, folder: Path, expected: Any) -> str:
        """What is wrong in a folder after a kill, and after the command ran again; empty when nothing is."""
        operation = OPERATIONS[name]
        path = folder / "p.wb"
        # a kill before the first write leaves an empty file, which the program calls that and writes to
        if path.exists() and path.stat().st_size and (said := integrity(path)) != "ok":
            return f"integrity_check: {said}"
        output = folder / operation.output
        if operation.output and output.exists():
            if digest_of_file(output) != expected["output"]:
                return f"{operation.output} is not whole"
            if not operation.goes_on:  # what is complete is not made again
                output.unlink()
        code = self.again(operation, folder)
        if code not in ENDS:
            return f"the next run ended with {code}: {(folder / 'stderr.txt').read_text('utf-8')[-600:]}"
        found = result(folder, operation)
        return "" if found == expected else difference(expected, found)

    def again(self, operation: Operation, folder: Path) -> int:
        """The exit code of the same command, or of the one that goes on with what it began."""
        begun = folder / RUN_FOLDER
        if not operation.goes_on or not begun.is_dir():
            return self.run(operation.command, folder).wait()
        history = RunHistory(RunDirectory(begun.resolve()))
        # A trainer goes on when the program that started it is killed.
        deadline = time.monotonic() + 120
        while history.row().state == "running" and time.monotonic() < deadline:
            time.sleep(0.1)
        if history.row().state == "finished":
            return 0
        return self.run(operation.goes_on, folder).wait()


def _filled(words: tuple[str, ...], folder: Path) -> list[str]:
    """Returns the words of a command with the paths of a round in them."""
    return [word.format(p=folder / "p.wb", f=folder) for word in words]


def kill(child: ForkedCommand, choice: random.Random) -> None:
    """Kills a command, one of its children (the command then ends by itself), or all at once."""
    children = descendants(child.pid)
    target = choice.choice(["command", "child", "all"]) if children else "command"
    if target == "child":
        os.kill(choice.choice(children), signal.SIGKILL)
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            for pid in (child.pid, *descendants(child.pid)):
                os.kill(pid, signal.SIGKILL)
            child.wait()
            raise RuntimeError("the command hangs after its child was killed") from None
        return
    if target == "command":
        os.kill(child.pid, signal.SIGKILL)
    else:
        for pid in (child.pid, *children):  # each has a session of its own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 30
    # a worker whose parent died ends by itself
    while any(is_running(pid) and not is_trainer(pid) for pid in children):
        if time.monotonic() > deadline:
            raise RuntimeError(f"children are still there after 30 s: {children}")
        time.sleep(0.05)


def descendants(pid: int) -> list[int]:
    """Ids of the processes that a process started, and those that these did."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            words = task.read_text().split()
        except OSError:
            continue
        for word in words:
            found += [int(word), *descendants(int(word))]
    return found


def is_trainer(pid: int) -> bool:
    """Whether a process trains, which goes on when its parent dies."""
    try:
        return b"\0training\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def is_running(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def integrity(path: Path) -> str:
    """What `PRAGMA integrity_check` says of a file, opened as the program does."""
    # a file in which the first table was not made yet is called empty unless the opener may create
    with Project.open(path, create=True) as project, project.reading() as conn:
        return str(conn.execute("PRAGMA integrity_check").fetchone()[0])


def result(folder: Path, operation: Operation) -> dict[str, Any]:
    """All that is compared: exported lines, rows of each table, and the file that was written."""
    found: dict[str, Any] = {"output": ""}
    if operation.output:
        found["output"] = digest_of_file(folder / operation.output)
    if operation.goes_on:
        run = RunHistory(RunDirectory((folder / RUN_FOLDER).resolve())).detail()
        found["curves"] = [repr(run.loss), repr(run.valid)]
    with Project.open(folder / "p.wb", read_only=True) as project, project.reading() as conn:
        found["events"] = events(folder / "stdout.jsonl") if operation.events else {}
        for kind in operation.kinds:
            found[kind] = [
                json.dumps(without(line, VOLATILE + operation.volatile), sort_keys=True)
                for line in export_lines(conn, kind)  # type: ignore[arg-type]
            ]
        found["rows"] = dict(rows_of_tables(conn))
    return found


def events(path: Path) -> dict[str, Any]:
    """Conversation and turn of each event by its name, over all runs in a folder; a line that was cut is none."""
    found: dict[str, Any] = {}
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("event"):
            place = [event["conversation"], event.get("turn"), event["ended"]]
            if found.setdefault(event["event"], place) != place:
                raise RuntimeError(
                    f"{event['event']} is the name of {place} and of {found[event['event']]}"
                )
    return found


def digest_of_file(path: Path) -> str:
    """A file's content, without the places where it says when and of which project it was written."""
    if path.suffix == ".gguf":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    text = path.read_text("utf-8")
    return "".join(line for line in text.splitlines() if "UTC" not in line and "/p.wb" not in line)


def without(line: Any, fields: tuple[str, ...]) -> Any:
    """A line of an export without some fields, however deep they are."""
    if isinstance(line, list):
        return [without(value, fields) for value in line]
    if not isinstance(line, dict):
        return line
    return {key: without(value, fields) for key, value in line.items() if key not in fields}


def rows_of_tables(conn: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    names = conn.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    ).fetchall()
    for (name,) in names:
        if name not in UNCOUNTED and "_fts" not in name:
            yield name, conn.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]


def difference(expected: dict[str, Any], found: dict[str, Any]) -> str:
    """The first difference of two results."""
    for key, value in expected.items():
        if value == found[key]:
            continue
        if isinstance(value, str):
            return f"the file that {key} names differs"
        if key == "events":
            lost = [value[name] for name in value if name not in found[key]]
            return f"{len(lost)} of {len(value)} events lost: {lost[:5]}; {len(found[key])} found"
        if isinstance(value, dict):
            rows = {
                name: (count, found[key].get(name))
                for name, count in value.items()
                if found[key].get(name) != count
            }
            return f"rows of tables (expected, found): {rows}"
        if len(value) != len(found[key]):
            return f"{key}: {len(value)} lines expected, {len(found[key])} found"
        first, other = next((a, b) for a, b in zip(value, found[key], strict=True) if a != b)
        one, two = json.loads(first), json.loads(other)
        fields = {name: (one[name], two.get(name)) for name in one if one[name] != two.get(name)}
        return f"{key} of {one.get('id')} (expected, found): {str(fields)[:600]}"
    return "differs"


def campaign(
    kills: int,
    seed: int,
    only: list[str],
    keep: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Runs `kills` rounds, the operations by turns."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        made = Campaign(Path(folder) / "c", keep)
        references: dict[str, Any] = {}
        seconds: dict[str, float] = {}
        for number in until_stopped(range(kills)):
            name = only[number % len(only)]
            if name not in references:
                seconds[name], references[name] = made.reference(name)
                say(f"{name}: {seconds[name]:.1f} s undisturbed")
                gc.collect()
                gc.freeze()  # a collection in a fork would copy what it looks at
            choice = random.Random(f"{seed} {number}")
            took: float | None = None
            try:
                took, wrong = made.round(name, seconds[name], references[name], choice)
            except Exception as error:  # noqa: BLE001 - a campaign goes on; what happened is what it is for
                wrong = f"{type(error).__name__}: {error}"
                shutil.rmtree(made.folder / "round", ignore_errors=True)
            outcome.rounds[name] += 1
            outcome.killed[name] += took is None
            if took is not None:  # other work on the machine comes and goes
                seconds[name] = took
            if not outcome.rounds.total() % 50:
                say(f"{outcome.rounds.total()} rounds, {outcome.killed.total()} killed")
            if wrong:
                outcome.failures.append(f"{name}, seed {seed}, round {number}: {wrong}")
                say(outcome.failures[-1])
    return outcome


def main() -> int:
    """Runs the campaign of the command line and prints its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", help=f"operations with commas between them, of: {', '.join(OPERATIONS)}"
    )
    parser.add_argument("--keep", type=Path, help="folder for what a failure left behind")
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else list(OPERATIONS)
    began = time.monotonic()
    outcome = campaign(
        arguments.kills, arguments.seed, only, arguments.keep, lambda line: print(line, flush=True)
    )  # fmt: skip
    print(f"\n{'operation':<14}{'rounds':>8}{'killed':>8}")
    for name in outcome.rounds:
        print(f"{name:<14}{outcome.rounds[name]:>8}{outcome.killed[name]:>8}")
    total, killed = outcome.rounds.total(), outcome.killed.total()
    print(
        f"{'all':<14}{total:>8}{killed:>8}  {len(outcome.failures)} failures, {time.monotonic() - began:.0f} s"
    )
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
