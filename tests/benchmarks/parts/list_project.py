"""Creates a project of any size for the bench of the list: different conversations with scores, verdicts and tags."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, islice
from pathlib import Path

from engine.base.conversation import Conversation, Message, Role, Verdict
from engine.completeness.records import CurvePoint
from engine.completeness.tables import score_sets, scores
from engine.conversations.tables import imports
from engine.formats.records import Parsed
from engine.project import runs
from engine.project.project import Project
from engine.questions.records import Act
from engine.questions.service.triage import TriageService

RARE_WORD, COMMON_WORD = "zeppelin", "please"
"""A word of about one conversation in a hundred, and one of about every second."""
SOURCES = ("chat.jsonl", "mail.jsonl", "phone.jsonl", "web.jsonl")
TAG = "odd"

_CONFIG = "0123456789abcdef"
_BATCH = 2_000
_ROLES: tuple[Role, Role] = ("user", "assistant")


def write_list_project(
    path: Path, rows: int, progress: Callable[[str], None], seed: int = 7
) -> int:
    """Makes a project of `rows` conversations of 8 messages on average through the store, as an import and a
    scoring run do; the same for the same seed.

    Returns:
        The number of messages.
    """
    rng = random.Random(seed)
    made = _conversations(rng)
    messages = 0
    with Project.open(path, create=True) as project:
        run_id = _begin(project)
        size = min(_BATCH, -(-rows // len(SOURCES)))
        for start in range(0, rows, size):
            if start % 100_000 < size:
                progress(f"writing {rows:,} conversations, {start:,} done")
            batch = list(islice(made, min(size, rows - start)))
            messages += sum(len(record.conversation.messages) for record in batch)
            _add(project, SOURCES[start * len(SOURCES) // rows], batch)
            entries = _scores(rng, start + 1, len(batch))
            project.write(partial(scores.add, config_hash=_CONFIG, run_id=run_id, entries=entries))
        _judge(project, rng, rows)
        project.write(lambda conn: runs.finish(conn, run_id, "done", "generated"))
    return messages


def _begin(project: Project) -> int:
    config = score_sets.ScoreConfig(_CONFIG, "base", "generated")
    project.write(lambda conn: score_sets.register(conn, config))
    project.write(lambda conn: score_sets.replace_keeping_rule(conn, _CONFIG))
    return project.write(
        lambda conn: runs.create(
            conn, stage="complete", config_hash=_CONFIG, params={}, fingerprints={},
            code_version="bench",
        )
    )  # fmt: skip


def _add(project: Project, label: str, batch: list[Parsed]) -> None:
    source = project.write(
        lambda conn: imports.put_source(conn, f"/{label}", label, "uniform", "generated")
    )
    project.write(lambda conn: imports.add_records(conn, source, batch))


def _conversations(rng: random.Random) -> Iterator[Parsed]:
    """Conversations without end; their words are as unevenly frequent as those of a language."""
    words = [
        "".join(rng.choices("abcdefghiklmnoprstuvwz", k=rng.randint(2, 9))) for _ in range(4000)
    ]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    sentences = [
        " ".join(rng.choices(words, cum_weights=weights, k=rng.randint(4, 16))).capitalize() + "."
        for _ in range(10_000)
    ]
    lengths = [2 + int(rng.expovariate(1 / 6.5)) for _ in range(1000)]
    first = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    number = 0
    while True:
        number += 1
        texts = [
            " ".join(rng.choices(sentences, k=1 + (n & 1))) for n in range(rng.choice(lengths))
        ]
        texts[0] = f"Case {number}. {texts[0]}"
        if rng.random() < 0.5:
            texts[0] += f" {COMMON_WORD.capitalize()}!"
        if rng.random() < 0.01:
            texts[-1] += f" {RARE_WORD}"
        taken = first + datetime.timedelta(minutes=rng.randrange(1_000_000))
        conversation = Conversation(
            f"case-{rng.randrange(10**9):09}",
            tuple(Message(_ROLES[n & 1], text) for n, text in enumerate(texts)),
            created_at=taken.isoformat() if rng.random() < 0.95 else None,
        )
        yield Parsed(number, json.dumps(texts).encode(), conversation)


def _scores(rng: random.Random, first: int, count: int) -> list[scores.ScoreEntry]:
    """Scores of most of the conversations from the id `first` on, more of them near 0 and 1 than between."""
    found = []
    for key in range(first, first + count):
        kind = rng.random()
        if kind < 0.02:
            found.append(scores.ScoreEntry(key, (), "longer than the context", 10))
        elif kind < 0.96:
            p_first, p_last = 0.3 * rng.random(), rng.betavariate(0.6, 0.6)
            points = (
                CurvePoint(1, 2, 1, p_first, 1 - p_first),
                CurvePoint(3, 4, 2, p_last, 1 - p_last),
            )
            found.append(scores.ScoreEntry(key, points, None, 400))
    return found


def _judge(project: Project, rng: random.Random, rows: int) -> None:
    """A few thousand verdicts at most, as many as a person gives, and a tag on about as many."""
    triage = TriageService(project)
    some = min(rows // 50 + 1, 5_000)
    for key in rng.sample(range(1, rows + 1), some):
        triage.give(key, rng.choice(list(Verdict)), "seen" if rng.random() < 0.1 else "")
    triage.answer([Act(key, TAG, "yes") for key in rng.sample(range(1, rows + 1), some)])
