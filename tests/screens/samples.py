"""The conversations of the small projects that tests of screens open, and how they are stored."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.base.conversation import Conversation, Message, Role, ToolCall
from engine.completeness.records import CurvePoint, RemainingTasks
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.conversations.tables import imports, sources
from engine.formats.records import Leak, Parsed
from engine.project import runs
from engine.project.project import Project

CONFIG = "5f0c1d"
SCORED = ScoreConfig(CONFIG, "base", "SmolLM2-135M-Instruct", noise=0.006)
GOALS = (
    ("I want to exchange the desk lamp in order #W6390527 for a cheaper one.", "lamp"),
    ("Please move my flight to Boston to Thursday morning.", "flight"),
    ("How many files under /testbed end in .sh? Write the count to out.txt.", "files"),
    ("My policy covers three locations, can you add the one in Leeds?", "policy"),
    ("Book a table for four, vegetarian, tonight at eight.", "table"),
    ("Which customers ordered twice in March? I need the SQL too.", "SQL query"),
)
SCORES = (0.93, 0.07, 0.52, None, 0.88, 0.31, 0.97, 0.44, 0.12, 0.9, 0.99, 0.02)
"""Scores of the conversations, which repeat; None is unscored."""


@dataclass
class Sample:
    """One conversation of a project that a test is about to make.

    Attributes:
        curve: Index of the last message before each boundary, and the normalized score there; empty when unscored.
        reason: Why it is unscored, or what is special about its score.
    """

    name: str
    messages: list[Message]
    curve: list[tuple[int, float]] = field(default_factory=list)
    source: str = "support.jsonl"
    reason: str | None = None
    remaining: str | None = None
    leaks: list[Leak] = field(default_factory=list)
    original: bytes | None = None
    created_at: str | None = None


def conversation(number: int, p_end: float | None, turns: int = 4) -> Sample:
    """A conversation of `turns` user turns about one of the goals, scored `p_end` at its end."""
    goal, word = GOALS[number % len(GOALS)]
    messages: list[Message] = []

    def say(role: Role, text: str, calls: tuple[ToolCall, ...] = ()) -> None:
        messages.append(Message(role, text, tool_calls=calls))

    say("system", "\n".join(f"Rule {line}: be helpful, ask before changing." for line in range(9)))
    sample = Sample(f"support/{number:04d}", messages)
    for turn in range(2, turns + 2):
        say("user", goal if turn == 2 else f"Yes, the {word}, please go on ({turn}).")
        call = ToolCall("get_details", f'{{"what": "{word}", "case": {number}}}')
        say("assistant", "", (call,))
        say("tool", "\n".join(f'{{"line": {line}, "about": "{word}"}}' for line in range(42)))
        say(
            "assistant",
            f"I looked at the {word}. There are two possibilities, and I would like your decision "
            "before anything is changed: the first one costs less, the second one is ready today.",
        )
        if p_end is not None:
            last = turn == turns + 1
            p = p_end if last else min(0.95, 0.08 * ((turn * 7 + number) % 6))
            sample.curve.append((len(messages) - 1, p))
    if p_end is None:
        sample.reason = "longer than the context"
    elif p_end < 0.55:
        sample.remaining = (
            f"· confirm the change of the {word}\n· tell the customer when it takes effect"
        )
    return sample


def samples(count: int = 36) -> list[Sample]:
    """The conversations of a project in all states, by id from 1."""
    return [
        conversation(number, SCORES[number % len(SCORES)], 3 + number % 7)
        for number in range(1, count + 1)
    ]


def store(file: Project, found: Sequence[Sample], config: ScoreConfig = SCORED) -> None:
    """Imports conversations and stores the run that scored them."""

    def work(conn: sqlite3.Connection) -> None:
        (before,) = conn.execute("SELECT count(*) FROM conversation").fetchone()
        for label, group in itertools.groupby(found, lambda sample: sample.source):
            source = sources.put_source(conn, label, label, "uniform", "it looked like it")
            imports.add_records(conn, source, [_parsed(sample) for sample in group])
        if not before:
            _register(conn, config)
        numbered = list(enumerate(found, before + 1))
        entries = [_entry(key, sample) for key, sample in numbered if sample.curve or sample.reason]
        scores.add_scores(conn, CONFIG, 1, entries)
        left = [
            RemainingTasks(key, sample.remaining) for key, sample in numbered if sample.remaining
        ]
        scores.add_remaining(conn, CONFIG, CONFIG, 1, left)

    file.write(work)


def _register(conn: sqlite3.Connection, config: ScoreConfig) -> None:
    """Stores the run that the scores are of, as of one day."""
    prompt = {"name": "base", "question": "What remains to be done?"}
    run = runs.create(
        conn,
        stage="complete",
        config_hash=CONFIG,
        params={"mode": "base", "prompt": prompt, "context": 8192},
        fingerprints={"model_sha256": "ab" * 32, "engine": "llama.cpp 0.3.35"},
    )
    runs.count(conn, run, 812, 812)
    runs.finish(conn, run, "done", "scored")
    conn.execute(
        "UPDATE run SET started_at = '2026-10-01T10:00:00Z', finished_at = '2026-10-01T10:12:00Z'"
    )
    score_sets.register(conn, config)
    score_sets.replace_keeping_rule(conn, CONFIG)


def _parsed(sample: Sample) -> Parsed:
    content = Conversation(sample.name, tuple(sample.messages), created_at=sample.created_at)
    original = sample.original if sample.original is not None else sample.name.encode()
    return Parsed(None, original, content, tuple(sample.leaks))


def _entry(key: int, sample: Sample) -> ScoreEntry:
    boundaries = tuple(
        boundary(message, nth, p) for nth, (message, p) in enumerate(sample.curve, 2)
    )
    return ScoreEntry(key, boundaries, sample.reason, 10)


def boundary(message: int, turn: int, p_end: float) -> CurvePoint:
    """The score after a message, whose normalized P(end) is `p_end`."""
    return CurvePoint(message, message + 1, turn, p_end * 0.8, (1 - p_end) * 0.8)
