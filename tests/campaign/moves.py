"""Moves, links, deletes and overwrites a project while a program writes it, and looks for what was stored.

    python -m tests.campaign.moves --rounds 200 --seed 7 [--only "mv,cp over"]

In each round a program writes `p.wb`: one that has it open and stores value after value, as screens and scripts do, or
an import of conversations or of verdicts. At a random moment something happens to the file (`ACTIONS`), and then
another command writes to each name that there is. When all have ended, every project file must open and be sound, what
was acknowledged (a write that returned, a command with exit code 0) must be in a file, and a project that was put in
the place of another must be as it was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from engine.base.errors import ProjectError, ProjectMoved
from engine.project import settings
from engine.project.project import Project
from engine.simulate.demo.samples import sample_conversations, write_jsonl
from tests.campaign.forked import ForkedCommand, run_here
from tests.campaign.stopping import until_stopped

WRITERS = ("open", "import", "verdicts")
COUNT = 60
"""Conversations of each import."""

LONGEST_S = 60.0
NOT_PROJECTS = ("-wal", "-shm", ".lock", ".overwritten-wal")


def rename(p: Path) -> list[Path]:
    """To another name in its folder."""
    return [p.rename(p.with_name("u.wb"))]


def rename_elsewhere(p: Path) -> list[Path]:
    """To another folder."""
    (p.parent / "sub").mkdir()
    return [p.rename(p.parent / "sub" / "p.wb")]


def rename_and_back(p: Path) -> list[Path]:
    """Away for a moment, and back."""
    p.rename(p.with_name("u.wb"))
    time.sleep(0.01)
    return [p.with_name("u.wb").rename(p)]


def link(p: Path) -> list[Path]:
    """A second name in its folder."""
    os.link(p, p.with_name("u.wb"))
    return [p, p.with_name("u.wb")]


def move_folder(p: Path) -> list[Path]:
    """The folder gets another name."""
    return [p.parent.rename(p.parent.with_name("moved")) / p.name]


def delete(p: Path) -> list[Path]:
    """The file is deleted."""
    p.unlink()
    return [p]


def move_over(p: Path) -> list[Path]:
    """Another project is moved to its name."""
    return [p.with_name("other.wb").rename(p)]


def swap(p: Path) -> list[Path]:
    """It is renamed, and another project moved to its name."""
    p.rename(p.with_name("u.wb"))
    p.with_name("other.wb").rename(p)
    return [p, p.with_name("u.wb")]


def copy_over(p: Path) -> list[Path]:
    """The content of another project is copied into the file."""
    shutil.copyfile(p.with_name("other.wb"), p)
    return [p]


def copy_older_over(p: Path) -> list[Path]:
    """An earlier copy of the file is copied into it."""
    shutil.copyfile(p.with_name("older.wb.copy"), p)
    return [p]


def touch(p: Path) -> list[Path]:
    """The file gets another time."""
    os.utime(p)
    return [p]


def nothing(p: Path) -> list[Path]:
    """Nothing happens, but for the command that follows."""
    return [p]


ACTIONS: dict[str, Callable[[Path], list[Path]]] = {
    "mv": rename, "mv elsewhere": rename_elsewhere, "mv and back": rename_and_back, "ln": link,
    "mv folder": move_folder, "rm": delete, "mv over": move_over, "swap": swap, "cp over": copy_over,
    "cp older over": copy_older_over, "touch": touch, "restore": nothing, "backup": nothing,
}  # fmt: skip
"""What happens to a project file; each returns the names that there are then."""

GONE = ("rm", "mv over", "cp over", "cp older over")
"""After these what was in the file is gone, but for what the program saves that has it open."""

PUT_IN = ("mv over", "swap", "cp over")
"""These put another project in its place."""


@dataclass
class Outcome:
    """What a campaign saw.

    Attributes:
        rounds: Rounds by action.
        stopped: Those in which the first program was refused a write because of it.
        refused: Commands after the action that were refused, by action.
        stored: Number of writes that were acknowledged.
        failures: A sentence for each failure, with the seed that shows it again.
    """

    rounds: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    stored: int = 0
    failures: list[str] = field(default_factory=list)


class OpenWriter:
    """A process that has a project open, and stores values until it is stopped or refused.

    The numbers of those that were stored stand in the file `stored`; `saved.wb` is what it saves when its file is gone.
    """

    def __init__(self, path: Path, notes: Path, seed: int) -> None:
        self._notes = notes
        self.pid = os.fork()
        if not self.pid:
            self._be(path, random.Random(seed))

    def _be(self, path: Path, choice: random.Random) -> NoReturn:
        code = 1
        try:
            code = self._write(path, choice)
        except BaseException:  # noqa: BLE001 - nothing of the campaign may go on in here
            (self._notes / "stderr.txt").write_text(traceback.format_exc(), "utf-8")
        finally:
            os._exit(code)

    def _write(self, path: Path, choice: random.Random) -> int:
        with Project.open(path) as project, (self._notes / "stored").open("a") as stored:
            nth = 0
            while not (self._notes / "stop").exists():
                text = choice.randbytes(choice.choice((10, 1_000, 100_000))).hex()
                try:
                    project.write(lambda conn, n=nth, t=text: settings.put(conn, f"w{n}", t))  # type: ignore[misc]
                except ProjectMoved as moved:
                    if moved.where is None and not moved.overwritten:
                        project.save_copy(str(self._notes / "saved.wb"))
                    return 3
                stored.write(f"{nth} {time.monotonic()}\n")
                stored.flush()
                nth += 1
        return 0

    def stored(self, until: float = float("inf")) -> set[str]:
        """The names of the values that were stored until a moment."""
        lines = (self._notes / "stored").read_text().splitlines()
        return {f"w{line.split()[0]}" for line in lines if float(line.split()[1]) <= until}

    def end(self) -> int:
        """Stops it and returns its exit code: 3 where it was refused a write."""
        (self._notes / "stop").touch()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Moves:
    """The projects that all rounds begin with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        home = folder / "home"
        home.mkdir()
        self._environment = {
            "HOME": str(home),
            "WORKBENCH_DATA": str(home / "data"),
            "WORKBENCH_CACHE": str(home / "cache"),
        }
        self._template = folder / "template"
        self._template.mkdir()
        for nth, name in enumerate(("talks", "other", "first")):
            write_jsonl(sample_conversations(COUNT, seed=nth), self._template / f"{name}.jsonl")
        self._name_apart("talks", "other", "first")
        self.ids = self._ids("talks")
        judged = [{"id": name, "succeeded": "yes"} for name in self._ids("first")]
        lines = "\n".join(map(json.dumps, judged))
        (self._template / "verdicts.jsonl").write_text(lines, "utf-8")
        talk = {"id": "late", "messages": [{"role": "user", "content": "hi"}]}
        (self._template / "late.jsonl").write_text(json.dumps(talk) + "\n", "utf-8")
        for project, name in (("p", "first"), ("other", "other")):
            paths = (self._template / f"{project}.wb", self._template / f"{name}.jsonl")
            words = ["import", *map(str, paths)]
            if code := run_here(words, self._environment, folder):
                raise RuntimeError(f"the import of {name} ended with {code}")
        shutil.copy(self._template / "p.wb", self._template / "older.wb.copy")

    def _name_apart(self, *names: str) -> None:
        for name in names:
            path = self._template / f"{name}.jsonl"
            records = map(json.loads, path.read_text("utf-8").splitlines())
            apart = [json.dumps({**one, "id": f"{name} {one['id']}"}) for one in records]
            path.write_text("\n".join(apart) + "\n", "utf-8")

    def _ids(self, name: str) -> list[str]:
        lines = (self._template / f"{name}.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line)["id"] for line in lines]

    def round(self, action: str, writer: str, choice: random.Random, outcome: Outcome) -> str:
        """Runs one round; returns what is wrong, empty when nothing is."""
        top = self._folder / "round"
        folder = shutil.copytree(self._template, top / "here")
        notes = top / "notes"
        notes.mkdir()
        try:
            return self._round(action, writer, choice, outcome, folder, notes)
        finally:
            shutil.rmtree(top)

    def _round(
        self,
        action: str,
        writer: str,
        choice: random.Random,
        outcome: Outcome,
        folder: Path,
        notes: Path,
    ) -> str:
        path = folder / "p.wb"
        opened: OpenWriter | None = None
        if writer == "open":
            opened = OpenWriter(path, notes, choice.randrange(1 << 30))
            while not (notes / "stored").exists():
                time.sleep(0.005)
        else:
            words = {"import": ["import", str(path), str(folder / "talks.jsonl")],
                     "verdicts": ["answers", str(path), "succeeded", "--import",
                                  str(folder / "verdicts.jsonl")]}  # fmt: skip
            command = ForkedCommand(words[writer], self._environment, notes)
            end = time.monotonic() + 5
            # before, the command does not know the file
            while not has_content(folder / "p.wb.lock") and time.monotonic() < end:
                time.sleep(0.002)
        time.sleep(choice.uniform(0, 0.25))
        before = opened.stored() if opened else set()
        names = ACTIONS[action](path)
        happened = time.monotonic()
        if opened:
            time.sleep(choice.uniform(0, 0.2))
        late = self._write_late(action, names, notes, outcome)
        if opened:
            code = opened.end()
            stored = opened.stored()
            outcome.stopped[action] += code == 3
            wrong = "" if code in (0, 3) else (notes / "stderr.txt").read_text("utf-8")[-800:]
            if action in ("cp over", "cp older over"):
                # one write may be under way while the file is copied
                extra = len(stored - opened.stored(happened)) - 1
                wrong = wrong or (f"{extra} writes were stored after it" if extra > 0 else "")
        else:
            code = command.wait(LONGEST_S)
            stored = set[str]()
            said = (notes / "stderr.txt").read_text("utf-8")
            outcome.stopped[action] += "while it was open" in said
            wrong = f"{writer} ended with {code}: {said[-800:]}" if code not in (0, 1, 3) else ""
            if "Traceback" in said:
                wrong = said[-800:]
            if code in (0, 3):
                stored = set(self.ids) if writer == "import" else {"verdicts"}
        outcome.stored += len(stored) + len(late)
        return wrong or self._check(action, folder.parent, stored | before, late, names)

    def _write_late(
        self, action: str, names: list[Path], notes: Path, outcome: Outcome
    ) -> list[Path]:
        """Runs a command on each name; returns those where it ended well."""
        if action == "restore":
            older = names[0].with_name("older.wb.copy")
            words = [["restore", str(names[0]), str(older)]]
        elif action == "backup":
            words = [["backup", str(names[0])]]
        else:
            inputs = next(names[0].parent.parent.rglob("late.jsonl"))
            words = [["import", str(name), str(inputs)] for name in names]
        done = []
        for name, line in zip(names, words, strict=True):
            code = ForkedCommand(line, self._environment, notes).wait(LONGEST_S)
            outcome.refused[action] += code == 1
            if code not in (0, 1, 3):
                raise RuntimeError(f"{line[0]} ended with {code}")
            if code == 0 and line[0] == "import":
                done.append(name)
        return done

    def _check(
        self, action: str, top: Path, stored: set[str], late: list[Path], names: list[Path]
    ) -> str:
        """What is wrong with the files of a round."""
        has: dict[Path, set[str]] = {}
        for path in sorted(top.rglob("*.wb*")):
            if path.name.endswith(NOT_PROJECTS) or not path.stat().st_size:
                continue
            try:
                has[path] = content(path)
            except (ProjectError, sqlite3.Error, ValueError) as error:
                return f"{path.relative_to(top)} does not open: {error}"
        for path in late:
            # what came late is gone with the file that was put there before
            if "late" not in has.get(path, set()):
                return f"{path.name}: an import that ended well is lost"
        if action not in GONE or (top / "notes" / "saved.wb").exists():
            lost = stored - set[str]().union(*has.values())
            if lost:
                return (
                    f"{len(lost)} of {len(stored)} that were stored are lost, such as {min(lost)}"
                )
        if action in PUT_IN:
            mixed = {name for name in has[names[0]] if name.startswith(("first", "w", "talks"))}
            if mixed or len(has[names[0]]) < COUNT:
                return f"{names[0].name} is mixed: it has {min(mixed, default='too few')}"
        return ""


def has_content(path: Path) -> bool:
    """Whether there is such a file, and something in it."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def content(path: Path) -> set[str]:
    """Ids of the conversations of a project, names of the stored values, and `verdicts` if all are there.

    Raises:
        ProjectError: It does not open.
        ValueError: It is not sound.
    """
    with Project.open(path, read_only=True) as project, project.reading() as conn:
        found = {name for (name,) in conn.execute("SELECT external_id FROM conversation")}
        found |= {name for (name,) in conn.execute("SELECT key FROM setting WHERE key LIKE 'w%'")}
        (verdicts,) = conn.execute("SELECT count(*) FROM answer").fetchone()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
        said = conn.execute("PRAGMA integrity_check").fetchone()[0]
    if said != "ok":
        raise ValueError(f"integrity_check: {said}")
    return found | {"verdicts"} if verdicts == COUNT else found


def campaign(
    rounds: int, seed: int, only: list[str], say: Callable[[str], None] = lambda line: None
) -> Outcome:
    """Runs so many rounds: the actions by turns, the writers by turns of all actions."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="moves-") as made:
        moves = Moves(Path(made))
        for number in until_stopped(range(rounds)):
            action = only[number % len(only)]
            writer = WRITERS[(number // len(only)) % len(WRITERS)]
            try:
                wrong = moves.round(action, writer, random.Random(f"{seed} {number}"), outcome)
            except (Exception, subprocess.TimeoutExpired) as error:  # noqa: BLE001 - a campaign goes on
                wrong = f"{type(error).__name__}: {error}"
            outcome.rounds[action] += 1
            if wrong:
                outcome.failures.append(f"{action}, {writer}, round {number}: {wrong}")
                say(outcome.failures[-1])
    return outcome


def main() -> int:
    """Runs the campaign of the command line and prints its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", help=f"actions with commas between them, of: {', '.join(ACTIONS)}"
    )
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else list(ACTIONS)
    began = time.monotonic()
    outcome = campaign(arguments.rounds, arguments.seed, only, lambda line: print(line, flush=True))
    print(f"\n{'action':<16}{'rounds':>8}{'stopped':>9}{'refused':>9}")
    for name in outcome.rounds:
        counts = (outcome.rounds[name], outcome.stopped[name], outcome.refused[name])
        print(f"{name:<16}{counts[0]:>8}{counts[1]:>9}{counts[2]:>9}")
    print(
        f"{outcome.rounds.total()} rounds, {outcome.stored:,} writes stored,"
        f" {len(outcome.failures)} failures, {time.monotonic() - began:.0f} s"
    )
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
