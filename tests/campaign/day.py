"""A watch over 24 simulated hours: a file grows by a turn each minute, and the program is killed again and again.

    python -m tests.campaign.day --hours 24 --kills 20 --seed 3

Once an hour the watch ends, other conversations are imported, everything is scored, some get verdicts, and the same
process watches again. The clock is passed in and runs as fast as the model reads (one layer of the built-in one). The
program that is killed also lets the file grow, so that a kill falls between a turn and its report as it would from
outside; a line that the kill cut apart is completed, as its writer would. At the end every turn of the file must have
been reported, none twice but those that were reported just before a kill; memory, open files and the size of the
project are given by hour.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.base.conversation import Conversation, Verdict
from engine.base.errors import UsageError
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage
from engine.conversations.stages import ImportStage
from engine.conversations.tables import conversations
from engine.jobs.contract import Stage
from engine.jobs.runner import JobDone, JobRunner, RunOutcome
from engine.model.catalog import LoadableModel, embedded_model
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.project.project import Project
from engine.questions.tables import answers
from engine.results.watch.watched_inputs import WatchedFiles
from engine.results.watch.watching import Event, WatchStage
from engine.simulate.demo.samples import sample_conversations, write_jsonl
from tests.engine.completeness import scored
from tests.engine.model.weights import ALL_BUT_FIRST, write_shallow

PAST = 24
BEGINNING = 5
"""Messages that are kept of each sample: instructions, and so many more that it could end in two places."""
MORE = 5
"""Conversations that are imported, and get verdicts, in an hour beside those that are watched."""

BEGIN = 1_790_000_000.0
"""The moment at which the day begins, in seconds since 1970."""
MINUTE = 60.0
IDLE = 10 * MINUTE
TURNS = 4
AT_ONCE = 3
"""Conversations that run at the same time; one that ended is followed by another."""
TALK = (
    ("Do you have blue paint?", "Yes, two kinds."),
    ("How much is it?", "Nine a litre."),
    ("I take two.", "They are in your basket."),
    ("Thank you.", "You are welcome."),
)


def line(minute: int) -> str:
    """The line of a minute: one of the conversations that run, so far."""
    place, turn = minute % AT_ONCE, minute // AT_ONCE % TURNS
    name = f"talk-{minute // (AT_ONCE * TURNS)}-{place}"
    messages = [
        {"role": role, "content": f"{text} ({name})" if role == "user" else text}
        for said in TALK[: turn + 1]
        for role, text in zip(("user", "assistant"), said, strict=True)
    ]
    return json.dumps({"id": name, "messages": messages}) + "\n"


def turns(minutes: int) -> set[tuple[str, int]]:
    """What has to be reported: each conversation with each of its turns."""
    found = (json.loads(line(minute)) for minute in range(minutes))
    return {(one["id"], len(one["messages"]) // 2) for one in found}


class WatchedDay(WatchedFiles):
    """A file that grows by a line a minute of a clock of its own, which stands while the model works.

    Attributes:
        minute: Minutes since the day began, one for each whole line.
    """

    def __init__(self, file: Path, minutes: int) -> None:
        super().__init__([str(file)])
        self._file, self._minutes = file, minutes
        text = file.read_text(encoding="utf-8")
        self.minute = text.count("\n")
        self._append(line(self.minute)[len(text) - text.rfind("\n") - 1 :])

    @property
    def is_finished(self) -> bool:
        return self.minute >= self._minutes

    def clock(self) -> float:
        """Seconds since 1970."""
        return BEGIN + self.minute * MINUTE

    def wait(self, interrupted: threading.Event, seconds: float) -> bool:
        """A minute passes."""
        self._append(line(self.minute))
        return interrupted.is_set()

    def _append(self, text: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            half = len(text) // 2  # in two writes, so that a kill and a look can fall between them
            file.write(text[:half])
            file.flush()
            file.write(text[half:])
        self.minute += 1


@dataclass
class Outcome:
    """What a simulated day gave.

    Attributes:
        killed: Kills while the program ran.
        lost: Turns that were never reported.
        again: Events that came more than once.
        hours: By simulated hour, what the program held: `minute`, `rss` and `model_rss` in MB, `allocated`, which is
            what the C library has given out of it in MB, `files` that were open, `project` in MB.
    """

    killed: int = 0
    lost: set[tuple[str, int]] = field(default_factory=set)
    again: int = 0
    hours: list[dict[str, float]] = field(default_factory=list)


def day(minutes: int, kills: int, seed: int, every: int = 60) -> Outcome:
    """Simulates so many minutes; each `every` of them figures are taken, and the watch begins anew after other work."""
    random_ = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), minutes // every)
        outcome = Outcome()
        moments = sorted(random_.sample(range(1, minutes), kills))
        while True:
            command = [sys.executable, "-m", "tests.campaign.day", "--child", folder]
            command += ["--minutes", str(minutes), "--every", str(every)]
            child = subprocess.Popen(command, start_new_session=True)
            while child.poll() is None:
                grown = (Path(folder) / "live.jsonl").read_bytes().count(b"\n")
                if moments and grown > moments[0]:
                    time.sleep(random_.random() * 0.3)
                    os.killpg(child.pid, signal.SIGKILL)
                    outcome.killed += 1
                    moments = [one for one in moments if one >= grown]
                    break
                time.sleep(0.01)
            if child.wait() == 0:
                break
            assert child.returncode == -signal.SIGKILL, child.returncode
        events = _lines(Path(folder) / "events.jsonl")
        outcome.hours = _lines(Path(folder) / "figures.jsonl")
        reported = {(one["conversation"], one["turn"]) for one in events if not one["ended"]}
        outcome.lost = turns(minutes) - reported
        outcome.again = sum(n - 1 for n in Counter(one["event"] for one in events).values())
        return outcome


def _lines(path: Path) -> list[Any]:
    """The lines of a file that are whole."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            continue  # the kill cut it apart; the event comes again
    return found


def prepare(folder: Path, hours: int) -> None:
    """Weights, a project with past conversations, an empty file, and files to import on the way."""
    write_shallow(embedded_model(), folder / "weights.gguf", ALL_BUT_FIRST)
    samples = [
        each for each in sample_conversations(120, seed=3) if len(each.messages) >= BEGINNING
    ]
    samples.sort(key=lambda one: sum(len(message.seen) for message in one.messages[:BEGINNING]))
    past = [
        Conversation(f"past-{at}", one.messages[:BEGINNING])
        for at, one in enumerate(samples[:PAST])
    ]
    write_jsonl(past, folder / "past.jsonl")
    for hour in range(hours + 1):
        more = sample_conversations(MORE, seed=100 + hour)
        short = [
            Conversation(f"more-{hour}-{n}", one.messages[:BEGINNING]) for n, one in enumerate(more)
        ]
        write_jsonl(short, folder / f"more-{hour}.jsonl")
    with Project.open(folder / "p.wb", create=True) as project:
        JobRunner(project, lambda event: None).run(
            ImportStage(project, [str(folder / "past.jsonl")])
        )
    for name in ("live.jsonl", "events.jsonl", "figures.jsonl"):
        (folder / name).touch()


def child(folder: Path, minutes: int, every: int) -> int:
    """Watches until the day is over."""
    os.environ[scored.WEIGHTS] = str(folder / "weights.gguf")
    file = folder / "live.jsonl"
    process = ModelProcess(folder / "model.log")
    model = replace(scored.model(), options=LoadOptions(context=1024, threads=1))
    outcome: RunOutcome | None = None
    with (
        (folder / "events.jsonl").open("a") as events,
        (folder / "figures.jsonl").open("a") as figures,
    ):
        events.write("\n")  # ends a line that a kill cut apart

        def emit(event: Event) -> None:
            events.write(json.dumps(event) + "\n")
            events.flush()

        def not_clustered() -> list[Stage]:
            raise UsageError("Nothing was clustered yet.", "Cluster.")

        with Project.open(folder / "p.wb") as project:
            while (begun := file.read_text("utf-8").count("\n")) < minutes:
                hour = begun // every
                work_between(project, process, model, folder / f"more-{hour}.jsonl")
                watched_input = WatchedDay(file, min(minutes, (hour + 1) * every))
                stage = WatchStage(
                    project,
                    watched_input,
                    ReadingStage(project, process, model),
                    not_clustered,
                    emit,
                    idle=IDLE,
                    clock=watched_input.clock,
                    wait=watched_input.wait,
                )
                outcome = JobRunner(project, lambda event: None).run(stage)
                if not isinstance(outcome, JobDone):
                    break
                now = {"minute": watched_input.minute, **held(folder / "p.wb")}
                figures.write(json.dumps(now) + "\n")
                figures.flush()
    process.close()
    return 0 if isinstance(outcome, JobDone) else 1


def work_between(project: Project, process: ModelProcess, model: LoadableModel, file: Path) -> None:
    """What a person does beside a watch: imports a file, scores everything, and gives verdicts on what was imported."""
    reading = ReadingStage(project, process, model)
    for stage in (
        ImportStage(project, [str(file)]),
        reading,
        FittingStage(project, "states", model=model, states_key=lambda: reading.config_hash),
    ):
        done = JobRunner(project, lambda event: None).run(stage)
        assert isinstance(done, JobDone), done
    names = [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()]
    with project.reading() as conn:
        found = [key for name in names for key in conversations.by_name(conn, name)]
    for number, key in enumerate(found):
        verdict = Verdict.YES if number % 2 else Verdict.NO
        project.write(lambda conn, key=key, verdict=verdict: answers.give(conn, key, verdict))  # type: ignore[misc]


def held(project: Path) -> dict[str, float]:
    """What this process and its children hold; see `Outcome.hours`. Linux only."""
    own = _rss(os.getpid())
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "rss": own,
        "allocated": allocated(),
        "model_rss": sum(_rss(int(one)) for one in children),
        "files": len(os.listdir("/proc/self/fd")),
        "project": round(project.stat().st_size / 1e6, 2),
    }


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def allocated() -> float:
    """MB that the C library has given out and not got back, Python's own arenas for small objects not counted; NaN
    where it does not tell, as before glibc 2.33."""
    try:
        tell = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return math.nan
    tell.restype = _MallInfo
    info = tell()
    return float(round((info.uordblks + info.hblkhd) / 1e6, 1))


def _rss(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", type=Path)
    parser.add_argument("--minutes", type=int)
    parser.add_argument("--every", type=int, default=60)
    asked = parser.parse_args()
    if asked.child is not None:
        return child(asked.child, asked.minutes, asked.every)
    began = time.monotonic()
    outcome = day(round(asked.hours * 60), asked.kills, asked.seed)
    for hour in outcome.hours:
        print(json.dumps(hour))
    print(
        f"{asked.hours:g} hours in {time.monotonic() - began:.0f} s; killed {outcome.killed} times;"
        f" {len(outcome.lost)} turns lost, {outcome.again} events reported again"
    )
    return 1 if outcome.lost else 0


if __name__ == "__main__":
    sys.exit(main())
