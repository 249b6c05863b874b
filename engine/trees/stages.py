"""The stage that grows response trees for the selected conversations, each at one chosen place of its log or at every
place where the assistant answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from engine.base.conversation import Message, render_log
from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import conversations
from engine.jobs.contract import OnProgress, Progress, blocks
from engine.model.catalog import LoadableModel
from engine.model.process.process import ModelProcess
from engine.model.stages import BlockStage
from engine.project.project import Project
from engine.trees import tables as trees
from engine.trees.growth import Budget
from engine.trees.measures import measure
from engine.trees.model_requests import Grow, GrownTree, Place, find_places
from engine.trees.records import TreeConfig, TreeOptions, TreePlace, TreeRow, options_frame
from engine.trees.tables import TreeEntry


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place of a conversation where a tree is to grow; if `place` is None, `reason` says why none grows."""

    conversation_id: int
    place: Place | None
    reason: str = ""


class TreeStage(BlockStage[int, TreeEntry]):
    """Grows the trees that this configuration does not have yet, in the order of conversation ids.

    Attributes:
        grown: Number of trees that were stored in this run.
        without: Number of entries that were stored with a reason in place of a tree, one for each such conversation or
            place.
    """

    name = "trees"
    work_title = "Growing response trees"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        options: TreeOptions,
        place: TreePlace,
        *,
        selection: Selection = ALL,
        nodes: int | None = None,
    ) -> None:
        """Prepares a run.

        Args:
            options: Alpha, mode and limits of the trees.
            place: The place of the log: `last-answer`, `end` or `every`.
            selection: The conversations whose trees are grown.
            nodes: Most nodes that are read of a tree, as a mean over the trees of a block; None sets no limit.
        """
        super().__init__(project, process, model)
        self._options, self._place_option = options, place
        self._selection, self._nodes = selection, nodes
        self._nodes_read = self.grown = self.without = 0

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the trees, without the selection of conversations."""
        return {
            **options_frame(self._options),
            "at": self._place_option,
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
        yield Progress(0, len(missing), "loading the model")
        self._work.load()
        model = self._work.model
        config = TreeConfig(
            config_hash=key,
            alpha=self._options.alpha,
            mode=self._options.mode,
            place=self._place_option,
            model=model.label,
            adapter=model.adapter_name,
        )
        self._project.write(lambda conn: trees.register(conn, config))
        yield from self._in_blocks(run_id, blocks(selected_ids, chars), missing)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Grew {counted(self.grown, 'response tree')} with {self._work.model.label}"
        text += (
            f"; {counted(self.without, 'place has', 'places have')} none." if self.without else "."
        )
        return text + self._work.spent()

    def _key_of(self, entry: TreeEntry) -> int:
        """Returns the conversation that an entry is of."""
        return entry.row.conversation_id

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[TreeEntry]) -> None:
        """Stores the entries of a block, with the run that grew them and the configuration."""
        with_run = [replace(entry, row=replace(entry.row, run_id=run_id)) for entry in entries]
        trees.add(conn, self.config_hash, with_run)

    def _tally(self, entries: Sequence[TreeEntry]) -> None:
        """Counts the entries of a stored block."""
        self._nodes_read += sum(entry.row.nodes for entry in entries)
        self.grown += sum(1 for entry in entries if entry.frame is not None)
        self.without += sum(1 for entry in entries if entry.frame is None)

    def _progress(self, done: int, total: int, missing: int, count: int) -> Progress:
        """Returns the progress within a block; `count` is the number of nodes that were read of it, not of
        conversations."""
        return Progress(done, total, f"{self._nodes_read + count:,} nodes read")

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[TreeEntry]:
        """Returns the entries of a block: its trees, and the reasons of conversations that have none."""
        block_messages = self._project.read(conversations.conversations_for, block)
        spots = [
            spot
            for conversation_id, messages in block_messages
            for spot in self._find_spots(conversation_id, messages)
        ]
        places = [spot.place for spot in spots if spot.place is not None]
        grown = iter(
            self._work.each(places, partial(self._ask, report=report), lambda reason: reason)
        )
        return [_entry(spot, next(grown) if spot.place else spot.reason) for spot in spots]

    def _find_spots(self, conversation_id: int, messages: Sequence[Message]) -> list[_Spot]:
        """Returns a spot for each place in a log where a tree is to grow, or one that says why there is none."""
        try:
            log_places = find_places(render_log(messages), self._place_option)
        except UsageError as error:
            return [_Spot(conversation_id, None, error.message)]
        return [_Spot(conversation_id, place) for place in log_places]

    def _ask(self, places: Sequence[Place], report: OnProgress) -> Sequence[GrownTree | str]:
        """Returns the tree of each place."""
        budget = Budget(None if self._nodes is None else self._nodes * len(places))
        return self._work.process.ask(Grow(places, self._options, budget), report)


def _entry(spot: _Spot, tree_or_reason: GrownTree | str) -> TreeEntry:
    """Returns the tree of a spot, or the reason why it has none, as it is stored."""
    step = spot.place.step if spot.place else 0
    if isinstance(tree_or_reason, str):
        row = TreeRow(spot.conversation_id, step, config_hash="", run_id=0, reason=tree_or_reason)
        return TreeEntry(row, None)
    frame = {**tree_or_reason.frame, **answer_frame(tree_or_reason)}
    return TreeEntry(tree_row(spot.conversation_id, step, tree_or_reason), frame)


def answer_frame(grown: GrownTree) -> dict[str, Any]:
    """Returns the recorded answer in the JSON of a stored tree: its tokens that have a log-probability, whose path
    screens show, and these natural log-probabilities, which validation compares with the measures."""
    log_probs = grown.answer_log_probs
    return {
        "answer": list(grown.answer[: len(log_probs)]),
        "answer_log_probs": list(log_probs),
    }


def tree_row(conversation_id: int, step: int, grown: GrownTree) -> TreeRow:
    """Returns the row of measures of a grown tree; its run and its configuration are filled in when it is stored."""
    tree = grown.tree
    return TreeRow(
        conversation_id=conversation_id,
        step=step,
        config_hash="",
        run_id=0,
        reason=None,
        prompt_tokens=grown.prompt_tokens,
        note=grown.note,
        nodes=len(tree.nodes),
        answer_log_prob=sum(grown.answer_log_probs) if grown.answer_log_probs else None,
        answer_tokens=len(grown.answer_log_probs),
        answer_held=len(tree.path_of(grown.answer)),
        seconds=grown.seconds,
        alpha=tree.options.alpha,
        mode=tree.options.mode,
        **asdict(measure(tree)),
    )
