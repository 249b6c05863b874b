"""The stage that grows one stored tree further: below a node to a lower alpha, or everywhere to its own alpha."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from engine.base.conversation import render_log
from engine.base.errors import NotFound, UsageError
from engine.conversations.tables import conversations
from engine.jobs.contract import Progress
from engine.jobs.threaded_work import (
    OnProgress,
    ThreadedWork,
)
from engine.model.block_stage import ModelStage
from engine.model.model_work import (
    RunModel,
)
from engine.model.process.process import (
    ModelProcess,
)
from engine.project import runs
from engine.project.project import Project
from engine.trees import tables as trees
from engine.trees.growth import Budget, Work
from engine.trees.model_requests import GrownTree, GrowOn
from engine.trees.places import At, Place, places
from engine.trees.record import TreeRecord
from engine.trees.records import TreeRow
from engine.trees.stages.growing import ANSWER_KEYS, tree_row
from engine.trees.tables import TreeEntry

FIRST_NODES = 32
"""Nodes read before the tree is stored for the first time. Each later part is twice as long, because the prompt is read
again for each part."""

MOST_NODES = 4096
"""Most nodes in one part, so that the stored tree is never far behind."""


@dataclass(frozen=True, slots=True)
class Below:
    """The node below which a tree is grown further, and the alpha to which."""

    node: int
    alpha: float


class GrowOnStage(ModelStage):
    """Grows a stored tree further, part by part; the stored tree is replaced after each part, so stopping loses
    little."""

    name = "grow"
    unit = "nodes"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: RunModel,
        row: TreeRow,
        below: Below | None = None,
    ) -> None:
        """Prepares a run.

        Args:
            model: The model that the tree was grown with.
            row: The stored tree.
            below: Where to grow; None grows everywhere, to the tree's own alpha.
        """
        super().__init__(project, process, model)
        self._row, self._below = row, below
        self._read = 0

    @property
    def title(self) -> str:
        """The name of the run on screens and in progress lines."""
        return f"Growing a tree on with {self._work.model.label}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The tree and the request."""
        below = self._below
        return {
            "tree": [self._row.conversation_id, self._row.step, self._row.config_hash],
            "below": None if below is None else below.node,
            "alpha": self._row.alpha if below is None else below.alpha,
            "context": self._work.model.options.context,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Grows part by part; each is one transaction, with the run's counter.

        Raises:
            ModelError: The model cannot be loaded.
            UsageError: The tree is not there.
        """
        place, frame = self._stored()
        yield Progress(0, None, "loading the model")
        self._work.load()
        nodes, finished = FIRST_NODES, False
        while not finished:
            self._work.check()
            part = ThreadedWork(partial(self._ask, place, frame, nodes))
            try:
                for count, _ in part.reports():
                    yield Progress(self._read + count, None, "")
            finally:
                # Also when the runner closes this generator on a cancel: the finished part is stored first.
                grown, work = part.result()
                self._read += work.nodes
                answer = {key: frame[key] for key in ANSWER_KEYS if key in frame}
                frame = {**grown.record.as_frame(), **answer}
                self._project.write(
                    partial(self._commit, run_id=run_id, grown=grown, frame=frame, work=work)
                )
            finished, nodes = work.finished, min(2 * nodes, MOST_NODES)
            yield Progress(self._read, None, f"{len(grown.tree.nodes):,} in the tree")

    def summary(self) -> str:
        """The result in one sentence with counts."""
        return f"Read {self._read:,} more nodes; what has grown is kept."

    def _stored(self) -> tuple[Place, dict[str, Any]]:
        row = self._row
        with self._project.reading() as conn:
            found = conversations.conversations_for(conn, [row.conversation_id])
            frame = trees.frame(conn, row.conversation_id, row.step, row.config_hash)
        if not found or frame is None:
            raise NotFound("The tree is no longer in the project.")
        wanted = places(render_log(found[0][1]), cast(At, row.place))
        at_step = [place for place in wanted if place.step == row.step]
        if not at_step:
            raise UsageError("The conversation has changed where the tree was grown.")
        return at_step[0], {"answer": [], **frame}

    def _ask(
        self, place: Place, frame: dict[str, Any], nodes: int, report: OnProgress
    ) -> tuple[GrownTree, Work]:
        below = self._below
        request = GrowOn(
            place,
            TreeRecord.from_frame(frame),
            Budget(nodes),
            alpha=None if below is None else below.alpha,
            below=None if below is None else below.node,
        )
        return self._work.process.ask(request, report)

    def _commit(
        self,
        conn: sqlite3.Connection,
        *,
        run_id: int,
        grown: GrownTree,
        frame: dict[str, Any],
        work: Work,
    ) -> None:
        row = self._row
        seconds = row.seconds + work.seconds
        grown = replace(grown, answer=tuple(frame["answer"]))
        found = tree_row(row.conversation_id, row.step, grown, seconds, run_id, row.config_hash)
        self._row = replace(
            found, answer_log_prob=row.answer_log_prob, answer_tokens=row.answer_tokens
        )
        trees.add(conn, row.config_hash, [TreeEntry(self._row, frame)])
        runs.count(conn, run_id, self._read, None)
