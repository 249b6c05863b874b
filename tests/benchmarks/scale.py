"""What a large project costs: a made-up one, then commands on it, each with its processor time and its most memory.

    python -m tests.benchmarks.scale /tmp/scale.wb 1000000            # makes the project, then runs the commands
    python -m tests.benchmarks.scale /tmp/scale.wb 0 --only report    # one command on a project made before
    python -m tests.benchmarks.scale /tmp/b.wb 50000 --skip 50000 --only    # the second part of a job, no command

Conversations have four short messages about one of ten goals: two sentences of a hundred that its goal has, and words
drawn at random. They are stored as an import stores them, without its checks. Hidden states are drawn at random, as
large as those of the default model, and those at ends differ a little; `run complete` takes them for states that were
read, so that it groups, fits, tests and scores as ever.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from pathlib import Path

import numpy as np

from engine.base.conversation import Conversation, Message, render_log
from engine.completeness.scoring import log_item
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.tables import hidden_states
from engine.completeness.tables.hidden_states import BoundaryPlace, StateEntry
from engine.conversations.tables import imports
from engine.formats.records import Parsed
from engine.opener.open_project import OpenProject
from engine.project import runs

DIMENSIONS = 576
"""Numbers in a hidden state of the default model."""
TOLD = 8
"""How many of them tell an end from another boundary."""
GOALS = (
    "refund",
    "parcel",
    "booking",
    "invoice",
    "password",
    "seat",
    "menu",
    "visa",
    "loan",
    "repair",
)
SENTENCES, WORDS = 100, 3_000
BATCH = 5_000

COMMANDS: dict[str, Sequence[str]] = {
    "status": ("status", "{}", "--json"),
    "words": ("run", "complete", "{}", "--mode", "words"),
    "probe": ("run", "complete", "{}", "--mode", "probe", "--no-tune", "--no-remaining"),
    "cluster": ("run", "cluster", "{}", "--no-labels", "--decide", "auto"),
    "list": ("list", "{}", "--filter", 'state:incomplete turns>1 "parcel"', "--limit", "5"),
    "report": ("report", "{}", "-o", "{}.html", "--force", "--no-validation"),
}


def conversations(seed: int) -> Iterator[Parsed]:
    """Conversations without end, the same for the same seed."""
    draw = random.Random(seed)
    words = [
        "".join(draw.choices("abcdefghiklmnoprstuvw", k=draw.randint(3, 9))) for _ in range(WORDS)
    ]
    weights = list(accumulate(1 / rank for rank in range(1, WORDS + 1)))

    def some(count: int) -> str:
        return " ".join(draw.choices(words, cum_weights=weights, k=count))

    sentences = {goal: [f"{goal} {some(7)}." for _ in range(SENTENCES)] for goal in GOALS}
    number = 0
    while True:
        number += 1
        goal = draw.choice(GOALS)
        texts = (
            f"My {goal} {number}: {draw.choice(sentences[goal])}",
            f"{some(8)}?",
            f"{some(10)}.",
            f"{draw.choice(sentences[goal])} {some(4)}.",
        )
        messages = tuple(
            Message("assistant" if at % 2 else "user", text) for at, text in enumerate(texts)
        )
        raw = json.dumps(texts).encode()
        yield Parsed(number, raw, Conversation(f"made-{number}", messages))


def make(path: Path, count: int, states: bool, skipped: int, seed: int = 7) -> None:
    """Makes a project of so many conversations, with hidden states at their two boundaries if asked for.

    Args:
        skipped: Conversations of the same seed that come before them, for parts of one job.
    """
    made = islice(conversations(seed), skipped, None)
    numbers = np.random.default_rng(seed)
    with OpenProject(path, create=True) as workspace:
        project = workspace.project
        request = ScoringRequest(mode="probe", remaining=False, tune=False)
        run = workspace.scoring_runs.make_run(request)
        assert run.reading is not None
        key, label = run.reading.stage.config_hash, run.reading.model.label
        source = project.write(
            lambda conn: imports.put_source(conn, "/made", "made", "uniform", "made up")
        )
        project.write(lambda conn: hidden_states.register_config(conn, key, label, None))
        begin = partial(
            runs.create,
            stage="read",
            config_hash=key,
            params={},
            fingerprints={},
            code_version="made",
        )
        run_id = project.write(begin)
        for first in range(1, count + 1, BATCH):
            batch = list(islice(made, min(BATCH, count + 1 - first)))
            project.write(partial(imports.add_records, source_id=source, records=batch))
            if not states:
                continue
            entries = [
                _states(first + at, record.conversation, numbers) for at, record in enumerate(batch)
            ]
            project.write(
                partial(hidden_states.add, config_hash=key, run_id=run_id, entries=entries)
            )
        project.write(lambda conn: runs.finish(conn, run_id, "done", "made up"))


def _states(key: int, conversation: Conversation, numbers: np.random.Generator) -> StateEntry:
    pieces = render_log(conversation.messages)
    ends = log_item(pieces).boundaries
    chars = list(accumulate(len(piece.text) for piece in pieces))
    places = tuple(
        BoundaryPlace(
            pieces[at].message, pieces[at].step, pieces[at].turn, chars[at], len(pieces[at].text)
        )
        for at in ends
    )
    states = numbers.standard_normal((len(ends), DIMENSIONS), dtype=np.float32)
    states[-1, :TOLD] += 0.6
    return StateEntry(key, places, states.astype("<f2").tobytes(), None, chars[-1] // 4)


def measure(name: str, words: Sequence[str]) -> None:
    """Runs a command and prints its processor seconds and its most memory.

    Raises:
        SystemExit: It failed.
    """
    began = time.monotonic()
    command = [sys.executable, "-m", "workbench", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise SystemExit(f"{name} failed with {running.returncode}")
    print(
        f"{name:<10} {used.ru_utime + used.ru_stime:8.1f} s of processor time,"
        f" {used.ru_maxrss * 1024 / 1e6:8.0f} MB, {time.monotonic() - began:8.1f} s in all",
        flush=True,
    )


def main() -> None:
    """Makes the project where conversations are asked for, then measures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("project", type=Path)
    parser.add_argument("conversations", type=int, help="0: the project is there already")
    parser.add_argument("--only", nargs="*", choices=COMMANDS, help="commands to measure")
    parser.add_argument("--skip", type=int, default=0, help="conversations that another part has")
    parser.add_argument("--no-states", action="store_true", help="make no hidden states")
    arguments = parser.parse_args()
    if arguments.conversations:
        began = time.process_time()
        make(arguments.project, arguments.conversations, not arguments.no_states, arguments.skip)
        print(f"{'making it':<10} {time.process_time() - began:8.1f} s of processor time")
    for name in COMMANDS if arguments.only is None else arguments.only:
        measure(name, [word.format(arguments.project) for word in COMMANDS[name]])
    print(f"{arguments.project.stat().st_size / 1e6:,.0f} MB on disk")


if __name__ == "__main__":
    main()
