"""A project file with response trees of the toy model, stored as a run stores them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from engine.project import runs
from engine.project.project import Project
from engine.trees import tables as trees
from engine.trees.growth import Grower, Job
from engine.trees.model_requests import GrownTree
from engine.trees.records import TreeConfig, TreeOptions
from engine.trees.stages import answer_frame, tree_row
from engine.trees.tables import TreeEntry
from engine.trees.tree import Tree, frame_of
from tests.engine.model.toy import ToyModel, next_logits
from tests.engine.project.support import fill, talk

STOPS = frozenset({0, 257})
HOSTILE = "[/x]\x1b]52;c;AAAA\x07 ‮gip"
"""Closes markup, sets a clipboard, turns the line round."""
CONFIG = TreeConfig("cafe", 0.02, "path", "last-answer", "toy")


class WordModel(ToyModel):
    """The toy with words for bytes: text that a person would see, and hostile and split characters among it."""

    WORDS = (
        b"two ", b"years", b" from", b" the", b" purchase", b".", b"\n", b"\xe2\x82", b"\xac",
        b"one ", b"month", b" batteries", HOSTILE.encode(), b" \xf0\x9f", b"\x91", b"\x8d", b" and ",
    )  # fmt: skip

    def token_bytes(self, token: int) -> bytes:
        """A word for each of the first 256 tokens."""
        return self.WORDS[token % len(self.WORDS)] if token < 256 else b""


def grown(prompt: bytes, options: TreeOptions, answer: Sequence[int] = ()) -> GrownTree:
    """A tree of the toy model, and the recorded answer on the same pass."""
    model = WordModel()
    tree = Tree(options, STOPS, model.token_bytes)
    job = Job(tree, tuple(prompt), tuple(answer))
    Grower(model).grow([job])
    return GrownTree(
        frame_of(tree), tuple(answer), tuple(job.answer_log_probs), len(prompt), None, 0.25
    )


def likely(prompt: bytes, length: int) -> list[int]:
    """The tokens that the toy finds most probable one after the other, none of which ends the answer."""
    tokens: list[int] = []
    while len(tokens) < length:
        logits = next_logits([*prompt, *tokens]).copy()
        logits[list(STOPS)] = -1e9
        tokens.append(int(logits.argmax()))
    return tokens


def imported(path: Path, count: int) -> Project:
    """A project with conversations and no tree."""
    project = Project.open(path, create=True)
    asked = "How long is the warranty of order {}?"
    fill(
        project,
        [
            talk(f"warranty/{number:03d}", asked.format(number), "Two years from purchase.")
            for number in range(1, count + 1)
        ],
    )
    return project


def store(project: Project, entries: Sequence[TreeEntry], config: TreeConfig = CONFIG) -> None:
    """Stores trees as a run does, with the run."""

    def write(conn: sqlite3.Connection) -> None:
        trees.register(conn, config)
        trees.add(conn, config.config_hash, entries)

    project.write(write)


def run_of(project: Project, config: TreeConfig) -> int:
    """A run that may have grown trees."""
    return project.write(
        lambda conn: runs.create(
            conn,
            stage="trees",
            config_hash=config.config_hash,
            params={"context": None},
            fingerprints={"model": "toy", "model_sha256": "00"},
        )
    )


def entry(
    conversation_id: int,
    tree: GrownTree,
    run_id: int,
    config: TreeConfig = CONFIG,
    step: int = 2,
) -> TreeEntry:
    """A grown tree as a stage stores it."""
    row = tree_row(conversation_id, step, tree)
    row = replace(row, run_id=run_id, config_hash=config.config_hash)
    return TreeEntry(row, {**frame_of(tree.tree), **answer_frame(tree)})


def with_trees(path: Path, count: int = 12) -> Project:
    """A project in which every conversation has a tree, the answer of which begins inside it."""
    project = imported(path, count)
    run_id = run_of(project, CONFIG)
    entries = []
    for number in range(1, count + 1):
        prompt = f"Order {number}?".encode()
        options = TreeOptions(0.02 / number**0.5, max_tokens=6)
        entries.append(
            entry(number, grown(prompt, options, answer=[*likely(prompt, 2), 5, 5]), run_id)
        )
    store(project, entries)
    return project


def give_trees(project: Project, figures: Mapping[int, tuple[int, float]]) -> None:
    """Stores a tree for each conversation with this number of leaves and best log-probability."""
    one = entry(1, grown(b"a", TreeOptions(0.2, max_tokens=2)), run_of(project, CONFIG))
    store(
        project,
        [
            replace(
                one, row=replace(one.row, conversation_id=key, leaves=leaves, max_log_prob=best)
            )
            for key, (leaves, best) in figures.items()
        ],
    )


def with_turns(path: Path) -> Project:
    """A project in which three conversations have trees at steps 2, 4 and 6; that at step 4 is the largest."""
    project = imported(path, 3)
    config = replace(CONFIG, place="every")
    run_id = run_of(project, config)
    entries = []
    for number in range(1, 4):
        for step in (2, 4, 6):
            alpha = 0.002 if step == 4 else 0.1
            tree = grown(f"Order {number}, {step}?".encode(), TreeOptions(alpha, max_tokens=6))
            entries.append(entry(number, tree, run_id, config, step))
    store(project, entries, config)
    return project
