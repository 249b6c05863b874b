"""The stage that grows response trees for every conversation, at a chosen place of its log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, cast

from engine.base.conversation import render_log
from engine.base.errors import NotFound, UsageError
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import conversations
from engine.jobs.contract import OnProgress, Progress, ThreadedWork, blocks
from engine.model.catalog import LoadableModel
from engine.model.process.process import ModelProcess
from engine.model.stages import BlockStage, ModelStage
from engine.project import runs
from engine.project.project import Project
from engine.trees import tables as trees
from engine.trees.growth import Budget, Work
from engine.trees.measures import measure
from engine.trees.model_requests import Grow, GrownTree, GrowOn, Place, places
from engine.trees.options import TreeOptions, options_frame
from engine.trees.records import At, TreeConfig, TreeRow
from engine.trees.tables import TreeEntry
from engine.trees.tree import TreeRecord

ANSWER_KEYS = ("answer", "answer_log_probs")
"""Keys of the recorded answer in a stored tree."""


NODES_IN_FIRST_PART = 32
"""Nodes read before the tree is stored for the first time. Each later part is twice as long, because the prompt is read
again for each part."""

MAX_NODES_PER_PART = 4096
"""Most nodes in one part, so that the stored tree is never far behind."""


@dataclass(frozen=True, slots=True)
class _Spot:
    """One tree to grow; if `place` is None, `reason` says why there is none."""

    conversation_id: int
    place: Place | None
    reason: str | None = None


class TreeStage(BlockStage[int, TreeEntry]):
    """Grows the trees that this configuration does not have yet, in the order of conversation ids.

    Attributes:
        grown: Trees that were stored in this run.
        without: Entries stored with a reason in place of a tree.
    """

    name = "trees"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        options: TreeOptions,
        at: At,
        *,
        selection: Selection = ALL,
        nodes: int | None = None,
    ) -> None:
        """Prepares a run.

        Args:
            options: Alpha, mode and limits of the trees.
            at: The place of the log: `last-answer`, `end` or `every`.
            selection: The conversations whose trees are grown.
            nodes: Most nodes of a tree, averaged over a block; None sets no limit.
        """
        super().__init__(project, process, model)
        self._options, self._at = options, at
        self._selection, self._nodes = selection, nodes
        self._read = 0
        self.grown = 0
        self.without = 0

    @property
    def title(self) -> str:
        """The name of the run on screens and in progress lines."""
        return f"Growing response trees with {self._work.model.label}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the trees, without the selection of conversations."""
        return {
            **options_frame(self._options),
            "at": self._at,
            "nodes": self._nodes,
            "context": self._work.model.options.context,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Grows block by block; each is one transaction, with the run's counter. Yields how many conversations are
        done.

        Raises:
            ModelError: The model cannot be loaded or cannot fork sequences.
            Cancelled: `interrupt` was called.
        """
        key = self.config_hash
        with self._project.reading() as conn:
            selected_ids = self._selection.ids(conn)
            missing = set(trees.ids_without_tree(conn, key)).intersection(selected_ids)
            chars = conversations.chars(conn, selected_ids)
        total = len(missing)
        yield Progress(0, total, "loading the model")
        self._work.load()
        model = self._work.model
        adapter = model.adapter_name
        config = TreeConfig(
            config_hash=key,
            alpha=self._options.alpha,
            mode=self._options.mode,
            place=self._at,
            model=model.label,
            adapter=adapter,
        )
        self._project.write(lambda conn: trees.register(conn, config))
        yield from self._in_blocks(run_id, blocks(selected_ids, chars), missing)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Grew {self.grown:,} response trees with {self._work.model.label}"
        text += f"; {self.without:,} conversations have none." if self.without else "."
        return text + self._work.spent()

    def _key_of(self, entry: TreeEntry) -> int:
        """Returns the conversation that an entry is of."""
        return entry.row.conversation_id

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[TreeEntry]) -> None:
        """Stores the entries of a block, with the run that grew them."""
        named = [replace(entry, row=replace(entry.row, run_id=run_id)) for entry in entries]
        trees.add(conn, self.config_hash, named)

    def _tally(self, entries: Sequence[TreeEntry]) -> None:
        """Counts the entries of a stored block."""
        self._read += sum(entry.row.nodes for entry in entries)
        self.grown += sum(1 for entry in entries if entry.frame is not None)
        self.without += sum(1 for entry in entries if entry.frame is None)

    def _progress(self, done: int, total: int, wanted: int, count: int) -> Progress:
        """Returns the progress within a block, of which `count` nodes were read."""
        return Progress(done, total, f"{self._read + count:,} nodes read")

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[TreeEntry]:
        """Returns the entries of a block: its trees, and the reasons of conversations that have none."""
        with self._project.reading() as conn:
            block_messages = conversations.conversations_for(conn, block)
        spots = [spot for key_, messages in block_messages for spot in self._spots(key_, messages)]
        growable = [spot.place for spot in spots if spot.place is not None]
        results = iter(
            self._work.each(
                growable,
                partial(self._ask, report=report),
                lambda reason: reason,
            )
        )
        entries = []
        for spot in spots:
            result = next(results) if spot.place is not None else spot.reason or ""
            entries.append(_entry(spot, result))
        return entries

    def _spots(self, conversation_id: int, messages: Sequence[Any]) -> list[_Spot]:
        """Returns a spot for each place in a log where a tree is to grow, or one that says why there is none."""
        try:
            log_places = places(render_log(messages), self._at)
        except UsageError as error:
            return [_Spot(conversation_id, None, error.message)]
        return [_Spot(conversation_id, place) for place in log_places]

    def _ask(
        self, growable: Sequence[Place], report: OnProgress
    ) -> list[tuple[GrownTree, float] | str]:
        """Returns a tree for each place with its share of the seconds, or a reason."""
        budget = Budget(None if self._nodes is None else self._nodes * len(growable))
        grown, work = self._work.process.ask(Grow(growable, self._options, budget), report)
        nodes = sum(len(result.tree.nodes) for result in grown)
        return [(result, work.seconds * len(result.tree.nodes) / nodes) for result in grown]


def _entry(spot: _Spot, result: tuple[GrownTree, float] | str) -> TreeEntry:
    """Returns the tree of a spot, or the reason why it has none, as it is stored."""
    step = spot.place.step if spot.place else 0
    if isinstance(result, str):
        return TreeEntry(TreeRow(spot.conversation_id, step, "", 0, result), None)
    grown, seconds = result
    row = tree_row(spot.conversation_id, step, grown, seconds)
    return TreeEntry(row, {**grown.record.as_frame(), **answer_frame(grown)})


def answer_frame(grown: GrownTree) -> dict[str, Any]:
    """Returns the recorded answer in the JSON of a stored tree: its tokens, whose path screens show, and their natural
    log-probabilities, which validation compares with the measures."""
    log_probs = grown.answer_log_probs
    values = list(grown.answer[: len(log_probs)]), list(log_probs)
    return dict(zip(ANSWER_KEYS, values, strict=True))


def tree_row(
    conversation_id: int,
    step: int,
    grown: GrownTree,
    seconds: float,
    run_id: int = 0,
    key: str = "",
) -> TreeRow:
    """Returns the row of measures of a grown tree; `key` is its config hash, whose columns are left empty."""
    tree = grown.tree
    return TreeRow(
        conversation_id=conversation_id,
        step=step,
        config_hash=key,
        run_id=run_id,
        reason=None,
        prompt_tokens=grown.prompt_tokens,
        note=grown.note,
        nodes=len(tree.nodes),
        answer_log_prob=sum(grown.answer_log_probs) if grown.answer_log_probs else None,
        answer_tokens=len(grown.answer_log_probs),
        answer_held=tree.prefix_length_in_tree(list(grown.answer)),
        seconds=seconds,
        alpha=tree.options.alpha,
        mode=tree.options.mode,
        **asdict(measure(tree)),
    )


@dataclass(frozen=True, slots=True)
class LoweredAlpha:
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
        model: LoadableModel,
        row: TreeRow,
        below: LoweredAlpha | None = None,
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
        nodes, finished = NODES_IN_FIRST_PART, False
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
                answer = {key: frame[key] for key in ANSWER_KEYS}
                frame = {**grown.record.as_frame(), **answer}
                self._project.write(
                    partial(self._commit, run_id=run_id, grown=grown, frame=frame, work=work)
                )
            finished, nodes = work.finished, min(2 * nodes, MAX_NODES_PER_PART)
            yield Progress(self._read, None, f"{len(grown.tree.nodes):,} in the tree")

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return f"Read {self._read:,} more nodes; what has grown is kept."

    def _stored(self) -> tuple[Place, dict[str, Any]]:
        """Returns the place and the JSON of the stored tree; raises NotFound or UsageError if one of them is gone."""
        row = self._row
        with self._project.reading() as conn:
            messages = conversations.conversations_for(conn, [row.conversation_id])
            frame = trees.frame(conn, row.conversation_id, row.step, row.config_hash)
        if not messages or frame is None:
            raise NotFound("The tree is no longer in the project.")
        log_places = places(render_log(messages[0][1]), cast(At, row.place))
        at_step = [place for place in log_places if place.step == row.step]
        if not at_step:
            raise UsageError("The conversation has changed where the tree was grown.")
        return at_step[0], frame

    def _ask(
        self, place: Place, frame: dict[str, Any], nodes: int, report: OnProgress
    ) -> tuple[GrownTree, Work]:
        """Returns the tree after so many more nodes, and the work that they took."""
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
        """Stores the tree as it has grown."""
        row = self._row
        seconds = row.seconds + work.seconds
        grown = replace(grown, answer=tuple(frame["answer"]))
        new_row = tree_row(row.conversation_id, row.step, grown, seconds, run_id, row.config_hash)
        self._row = replace(
            new_row, answer_log_prob=row.answer_log_prob, answer_tokens=row.answer_tokens
        )
        trees.add(conn, row.config_hash, [TreeEntry(self._row, frame)])
        runs.count(conn, run_id, self._read, None)
