"""What was drawn to check machines, and what machines answer a question."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from engine.project import settings
from engine.questions.answer_check import AnswerCheck
from engine.questions.records import MachineAnswer
from engine.questions.tables import example_probes, machine_answers

EXAMPLES = "examples"
"""Stands for a probe fitted to examples among those who answer."""


def answers_by_machine(
    conn: sqlite3.Connection, question: str
) -> Iterator[tuple[str, str, list[MachineAnswer]]]:
    """Yields (name, configuration, answers that have a value) of what answered a question, the newest first, and at
    last the probe, if its test is better than chance."""
    for answerer, _ in machine_answers.answerers(conn, question):
        rows = machine_answers.of_answerer(conn, answerer.config_hash)
        yield answerer.name, answerer.config_hash, rows
    probe = example_probes.get(conn, question)
    if probe is not None and probe.tells:
        yield EXAMPLES, EXAMPLES, example_probes.predictions(conn, question)


def of_question(conn: sqlite3.Connection, question: str) -> dict[str, AnswerCheck]:
    """Returns the checks of a question by configuration, the newest last."""
    stored = settings.get(conn, f"check.{question}", {})
    return {config: msgspec.convert(check, AnswerCheck) for config, check in stored.items()}


def newest(conn: sqlite3.Connection, question: str) -> AnswerCheck | None:
    """Returns the check that was begun last; None before any."""
    return next(reversed(of_question(conn, question).values()), None)


def put(
    conn: sqlite3.Connection, question: str, config_hash: str, check: AnswerCheck | None
) -> None:
    """Stores a check as the newest one, in place of that of the same configuration; None only deletes that."""
    checks = of_question(conn, question)
    checks.pop(config_hash, None)
    if check is not None:
        checks[config_hash] = check
    settings.put(conn, f"check.{question}", msgspec.to_builtins(checks))
