"""A real project with hostile text wherever text from outside can be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.base.conversation import Verdict
from engine.completeness.records import CurvePoint, RemainingTasks
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.conversations.stages import ImportStage
from engine.conversations.tables import conversations
from engine.jobs.runner import JobRunner
from engine.project import runs
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from tests.engine.project.support import mark
from tests.terminal.payloads import NAME, PAYLOADS

CONFIG = "hostile"
MANY = 100_000


def conversation(name: str, payload: str) -> dict[str, Any]:
    """A conversation in the uniform form; the payload is its id and is in every field of its messages."""
    call = {"id": payload, "name": payload, "arguments": json.dumps({payload: payload})}
    return {
        "id": f"{name} {payload}",
        "created_at": payload,
        "messages": [
            {"role": "system", "content": payload},
            {"role": "user", "content": payload, "name": payload},
            {"role": "assistant", "content": payload, "tool_calls": [call]},
            {"role": "tool", "content": payload, "name": payload, "tool_call_id": payload},
            {"role": "assistant", "content": f"{name}\n{payload}\n{payload}"},
            {"role": "user", "content": f"and then {payload} ###STOP###"},
            {"role": "assistant", "content": payload},
        ],
    }


def make(path: Path, folder: Path, records: Iterator[dict[str, Any]] | None = None) -> None:
    """Imports the records, by default one for each payload, and gives each a score, remaining tasks, verdicts, tags."""
    source = folder / f"{NAME}.jsonl"
    if records is None:
        records = (conversation(*item) for item in PAYLOADS.items())
    source.write_text(
        "".join(json.dumps(record) + "\n" for record in records) + "{broken \x1b[5n\n"
    )
    with Project.open(path, create=True) as project:
        JobRunner(project, lambda event: None).run(ImportStage(project, [str(source)]))
        with project.reading() as conn:
            ids = [row[0] for row in conversations.export_conversations(conn)]
        score(project, ids)
        payloads = list(PAYLOADS.values())
        for number, key in enumerate(ids[: len(payloads)]):
            text = payloads[number].encode("utf-8", "replace").decode()
            mark(project, key, "tag", text[:300])
            triage = TriageService(project)
            if number % 3 == 0:
                triage.give(key, Verdict.UNSURE, text)
            else:
                triage.note(key, text)


def score(project: Project, ids: list[int]) -> None:
    """Scores all, most of them near the threshold, with hostile names, reasons and remaining tasks."""
    payloads = [text.encode("utf-8", "replace").decode() for text in PAYLOADS.values()]

    def work(conn: Any) -> None:
        run_id = runs.create(
            conn, stage="complete", config_hash=CONFIG, params={NAME: NAME},
            fingerprints={NAME: NAME},
        )  # fmt: skip
        score_sets.register(conn, ScoreConfig(CONFIG, "base", NAME, NAME, 0.01))
        score_sets.replace_keeping_rule(conn, CONFIG)
        entries, left = [], []
        for number, key in enumerate(ids):
            text = payloads[number % len(payloads)]
            p = 0.3 + 0.01 * (number % 30)
            curve = (CurvePoint(1, 2, 1, 0.1, 0.9), CurvePoint(4, 5, 2, p, 1 - p))
            entries.append(ScoreEntry(key, () if number % 9 == 8 else curve, text, 10))
            left.append(RemainingTasks(key, text, None if number % 2 else text))
        scores.add_scores(conn, CONFIG, run_id, entries)
        scores.add_remaining(conn, CONFIG, CONFIG, run_id, left)
        runs.finish(conn, run_id, "interrupted", NAME)

    project.write(work)
