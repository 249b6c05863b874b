"""How well the requests of joined conversations are found again: `python -m tests.benchmarks.requests FILE FOLDER`.

Joins pairs of conversations of different goals, from a uniform file with `truth.goal`, scores them with the built-in
model and compares where further requests are found with where the second conversation begins. A place counts as found
only if it is that message. Then it clusters the pairs with other conversations and compares the goals of their requests
with the known ones.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import v_measure_score

from engine.base.conversation import Message
from engine.completeness.requests import MIN_SCORE_FALL, starts_by_curve
from engine.completeness.tables import requests, scores
from engine.completeness.tables.requests import requests_of
from engine.conversations.filters import ListQuery
from engine.conversations.tables import conversations
from engine.conversations.tables.conversations import truth_by_conversation
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from workbench.cli import main

PAIRS = 40
LONGEST = 2_500
"""Characters of a conversation; longer ones are left out, so that a pair is read in seconds."""
SEED = 7
DRAWS = 2_000
PLAIN = 100
"""Conversations of one goal that are clustered with the joined ones."""

Found = Callable[[Sequence[Message], Mapping[int, float]], Sequence[int]]


def joined(path: Path) -> Iterator[dict[str, Any]]:
    """Yields records of two conversations, with the index of the message that begins the second as `truth.joint`."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    rng = random.Random(SEED)
    usable = [one for one in found if _usable(one)]
    rng.shuffle(usable)
    number = 0
    while usable and number < PAIRS:
        first = usable.pop(0)
        goal = first["truth"].get("goal")
        at = next((at for at, one in enumerate(usable) if one["truth"].get("goal") != goal), None)
        if at is None:
            return
        second = usable.pop(at)
        rest = [one for one in second["messages"] if one["role"] != "system"]
        yield {
            "id": f"{first['id']}+{second['id']}",
            "messages": first["messages"] + rest,
            "truth": {"joint": len(first["messages"])},
        }
        number += 1


def _usable(record: Mapping[str, Any]) -> bool:
    texts = [str(one.get("content") or "") for one in record["messages"]]
    turns = sum(one["role"] == "user" for one in record["messages"])
    ended = record["truth"].get("complete") is not False
    return ended and turns >= 2 and sum(map(len, texts)) < LONGEST


def high_score(least: float) -> Found:
    """A request begins wherever the score at the boundary before is high."""

    def found(messages: Sequence[Message], curve: Mapping[int, float]) -> list[int]:
        starts = [at for at, one in enumerate(messages) if one.role == "user"]
        before = {at: [curve[one] for one in curve if one < at] for at in starts}
        return [at for at in starts if before[at] and before[at][-1] >= least]

    return found


RULES: Mapping[str, Found] = {
    f"the score falls by more than {MIN_SCORE_FALL} (`requests find`)": starts_by_curve,
    "it falls by more than .3": lambda messages, curve: starts_by_curve(messages, curve, 0.3),
    "it falls by more than .1": lambda messages, curve: starts_by_curve(messages, curve, 0.1),
    "it is at least .5 before": high_score(0.5),
    "it is at least .2 before": high_score(0.2),
    "every message": high_score(0.0),
}


def measured(project: Path) -> list[str]:
    """A line for each rule: precision, recall and F1 with 95% intervals, by resampling conversations."""
    with Project.open(project, read_only=True) as opened, opened.reading() as conn:
        joints = {key: truth["joint"] for key, truth in truth_by_conversation(conn)}
        texts = dict(conversations.conversations_for(conn, list(joints)))
        curves = {
            key: {one.message: one.p_end_normalised for one in row.curve}
            for key, row in scores.current(conn, list(joints)).items()
        }
    lines = []
    for name, rule in RULES.items():
        counts = []
        for key, curve in curves.items():
            found = rule(texts[key], curve)
            hit = joints[key] in found
            counts.append((hit, len(found) - hit, not hit))
        table = np.array(counts, dtype=float)
        draws = np.random.default_rng(SEED).integers(len(table), size=(DRAWS, len(table)))
        drawn = [_figures(table[rows].sum(axis=0)) for rows in draws]
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        figures = _figures(table.sum(axis=0))
        cells = [
            f"{value:.2f} ({least:.2f} to {most:.2f})"
            for value, least, most in zip(figures, low, high, strict=True)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def goals_measured(file: Path, project: Path) -> list[str]:
    """A line for the requests of the joined conversations, and one for the conversations of one goal that are clustered
    with them: how many there are, how many are in no goal, and V-measure of the others against `truth.goal`."""
    pairs = list(joined(file))
    with gzip.open(file, "rt", encoding="utf-8") as opened:
        records = {one["id"]: one for one in map(json.loads, opened) if one["truth"].get("goal")}
    gold = {key: str(one["truth"]["goal"]) for key, one in records.items()}
    if not project.exists():
        used = {key for pair in pairs for key in pair["id"].split("+")}
        plain = sorted(records.keys() - used)
        random.Random(SEED).shuffle(plain)
        source = project.with_suffix(".jsonl")
        lines = [json.dumps(one) + "\n" for one in [*map(records.get, plain[:PLAIN]), *pairs]]
        source.write_text("".join(lines), encoding="utf-8")
        main(["import", str(project), str(source)])
        main(["run", "cluster", str(project), "--no-labels", "--decide", "auto"])
        with Project.open(project) as written:
            joints = {one["id"]: one["truth"]["joint"] for one in pairs}
            ids = ConversationService(written).ids(ListQuery())
            rows = ConversationService(written).rows(ids)
            found = [
                (row.id, [joints[row.external_id]]) for row in rows if row.external_id in joints
            ]
            written.write(lambda conn: requests.put_found(conn, found))
        main(["requests", "goals", str(project)])
    kinds: dict[str, list[tuple[str, str | None]]] = {"requests": [], "conversations": []}
    with Project.open(project, read_only=True) as read, read.reading() as conn:
        names = {
            row.id: row.external_id
            for row in ConversationService(read).rows(ConversationService(read).ids(ListQuery()))
        }
        for key, parts in requests_of(conn, list(names)):
            known = zip(names[key].split("+"), parts, strict=True)
            kinds["requests" if len(parts) > 1 else "conversations"] += [
                (gold[one], part.goal) for one, part in known
            ]
    lines = []
    for kind, every in kinds.items():
        placed = [(one, goal) for one, goal in every if goal is not None]
        agreement = v_measure_score(*zip(*placed, strict=True))
        lines.append(f"| {kind} | {len(every)} | {len(every) - len(placed)} | {agreement:.2f} |")
    return lines


def _figures(counts: Sequence[float]) -> tuple[float, float, float]:
    """Precision, recall and F1 of hits, false ones and missed ones."""
    hits, false, missed = counts
    precision = hits / (hits + false) if hits + false else 0.0
    return precision, hits / (hits + missed), 2 * hits / (2 * hits + false + missed)


def run() -> None:
    """Joins, scores and measures; what is there already is not made again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    name = arguments.file.name.partition(".")[0]
    project = arguments.folder / f"{name}.wb"
    if not project.exists():
        records = arguments.folder / f"{name}.jsonl"
        lines = [json.dumps(record) + "\n" for record in joined(arguments.file)]
        records.write_text("".join(lines), encoding="utf-8")
        main(["import", str(project), str(records)])
        main(["run", "complete", str(project), "--mode", "probe", "--no-remaining"])
    print("\n".join(measured(project)))
    print("\n".join(goals_measured(arguments.file, arguments.folder / f"{name}-goals.wb")))


if __name__ == "__main__":
    run()
