"""A small project whose conversations are clustered: its file is made once a test process, copied for each test."""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from engine.goals.clustering_request import ClusteringRequest
from engine.goals.records import ClusterName
from engine.goals.stages.embedding import EmbedStage
from engine.goals.tables import clusterings, measurements
from engine.goals.tables.clusterings import Cluster, Member
from engine.goals.tables.vectors import read_vectors
from engine.goals.views.decision_log import DecisionLog
from engine.project import runs
from engine.project.project import Project
from tests.engine.goals.service.goal_project import run, stages_of
from tests.engine.project.support import fill, give_scores, talk
from tests.screens.project import ScreenProject, open_copy

TOPICS = {
    "Exchange a damaged lamp": (7, "please exchange my damaged desk lamp for a new one"),
    "Move a flight to another day": (5, "move my flight to another day, a later day"),
    "Return a damaged lamp": (4, "please return my damaged desk lamp for a refund"),
    "Book a flight": (4, "book a flight ticket, book a plane seat"),
    "Count files": (4, "count the files in the folder, count them all"),
    "Book a table": (3, "book a table in a restaurant for dinner"),
    "Move a table booking": (2, "move a table booking, dinner at another restaurant"),
}
"""The number of conversations and the wording of each goal. The first two labels share most of their words."""
OUTLIER_TEXTS = (
    "exchange my damaged desk lamp for a new one, please, rome",
    "exchange my damaged desk lamp for a new one, please, oslo",
    "count the files, count all files, lima",
)
"""Texts of conversations in no group, whose nearest neighbors are in the first and the fifth."""
LABELS = list(TOPICS)
PLACES = ("rome", "oslo", "lima", "cairo", "kyoto", "quito", "delhi")
MEMBERS: dict[str, list[int]] = {label: [] for label in LABELS}
"""Ids of the conversations of each goal, which take turns."""
OUTLIERS = [30, 31, 32]
STABILITY = (0.9, 0.85, 0.5, 0.8, 0.95, 0.7, 0.55)
SCORES = (0.93, 0.07, 0.52, None, 0.88, 0.31, 0.97, 0.44, 0.12, 0.9, 0.99, 0.02)


def _texts() -> list[str]:
    texts: list[str] = []
    for nth, place in enumerate(PLACES):
        for label, (size, wording) in TOPICS.items():
            if nth < size:
                texts.append(f"{wording}, {place}")
                if len(MEMBERS[label]) < size:
                    MEMBERS[label].append(len(texts))
    return [*texts, *OUTLIER_TEXTS, "..."]


TEXTS = _texts()
"""What the users wrote, by id of the conversation from 1; the last wrote no word."""


def build(path: Path, payload: str = "") -> None:
    """Makes a project file, with `payload` before every name, text and label."""
    with Project.open(path, create=True) as project:
        records = [
            talk(
                f"{payload}support/{number:02d}",
                f"{payload} {text}".strip(),
                "Done.",
                created_at="2026-09-02" if number <= len(TEXTS) // 2 else "2026-10-02",
            )
            for number, text in enumerate(TEXTS, 1)
        ]
        fill(project, records[: len(TEXTS) // 2], "first.jsonl")
        fill(project, records[len(TEXTS) // 2 :], "second.jsonl")
        give_scores(project, {n: SCORES[n % len(SCORES)] for n in range(1, len(TEXTS))})
        options = ClusteringRequest(text="first-user", k=7, labels=False)
        embed, *_ = stages_of(project).cluster_stages(options)
        assert isinstance(embed, EmbedStage)
        run(project, [embed])
        _add_clustering(project, embed.config_hash, payload)


def _add_clustering(project: Project, vector_config: str, payload: str) -> None:
    """Stores one cluster for each goal, with its label and stability, whatever k-means would find."""
    ids, rows = project.read(read_vectors, vector_config, range(1, len(TEXTS) + 1))
    at = {int(key): row for key, row in zip(ids, rows, strict=True)}
    clusters, members = [], list[Member]((key, None, 0.9) for key in OUTLIERS)
    centers = [np.mean([at[key] for key in own], axis=0) for own in MEMBERS.values()]
    for number, own in enumerate(MEMBERS.values()):
        direction = centers[number] / np.linalg.norm(centers[number])
        distances = [float(1 - at[key] @ direction) for key in own]
        members += [(key, number, away) for key, away in zip(own, distances, strict=True)]
        center = centers[number].astype("<f4").tobytes()
        clusters.append(Cluster(number, len(own), (f"word{number}",), center))
    run_id = project.write(
        lambda conn: runs.create(
            conn,
            stage="cluster",
            config_hash="c0ffee",
            params={},
            fingerprints={},
        )
    )
    names = {
        number: ClusterName(f"{payload} {label}".strip(), f"Users want: {label}.")
        for number, label in enumerate(LABELS)
    }
    key = DecisionLog(project).add_clustering(
        config_hash="c0ffee", run_id=run_id, vector_config=vector_config, k=7, seed=0,
        clusters=clusters, members=members,
    )  # fmt: skip

    def add_labels(conn: sqlite3.Connection) -> None:
        clusterings.show_labels(conn, key, "labels")
        clusterings.add_labels(conn, key, "labels", run_id, names)
        jaccard = dict(enumerate(STABILITY))
        measurements.add_repetition(conn, key, "stable", run_id, ("bootstrap", 0), 0.8, jaccard)
        runs.finish(conn, run_id, "done", "clustered")

    project.write(add_labels)


@cache
def template() -> Path:
    """The project file that tests copy."""
    folder = Path(tempfile.mkdtemp(prefix="clustered-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    build(folder / "clustered.wb")
    return folder / "clustered.wb"


def clustered() -> ScreenProject:
    """An open project with seven groups of conversations, some of them similar."""
    return open_copy(template())


def group_id(project: ScreenProject, label: str) -> str:
    """The id of the group with this label."""
    return next(group.id for group in project.goals.groups() if group.label == label)


def kinds(project: ScreenProject) -> list[str]:
    """The kinds of the decisions that were not undone, oldest first."""
    return [given.kind for given in reversed(project.merge_review.history()) if given.active]
