"""The stage that generates remaining tasks: what, by the model, is left to do in conversations below the threshold."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from engine.base.conversation import Message, render_log
from engine.base.number_format import counted
from engine.completeness.records import RemainingTasks
from engine.completeness.remaining_tasks import remaining_tasks
from engine.completeness.scoring import WrittenOn
from engine.completeness.tables import scores
from engine.conversations.tables import conversations
from engine.jobs.contract import OnProgress, Progress, blocks
from engine.model.catalog import LoadableModel
from engine.model.process.process import ModelProcess
from engine.model.process.requests import WrittenReply
from engine.model.prompt_files import Prompt
from engine.model.stages import BlockStage
from engine.project.project import Project


class RemainingStage(BlockStage[int, RemainingTasks]):
    """Generates the remaining tasks that are missing for the scores of one configuration, in id order.

    `BlockStage` calls `_answer` with the ids of each block and then `_store` and `_tally` with its entries, in one
    transaction.

    Attributes:
        written: Number of conversations whose remaining tasks this run wrote.
        empty: Number of conversations for which the model named none.
    """

    name = "remaining"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        prompt: Prompt,
        scores_key: Callable[[], str],
        *,
        as_generated: bool = False,
    ) -> None:
        """Prepares a run.

        Args:
            scores_key: Returns the config hash of the scores that the tasks belong to; called when the stage starts.
            as_generated: Generate for the conversations after which the model does not write the end tag, instead of
                those below the threshold.
        """
        super().__init__(project, process, model)
        self._prompt, self._scores_key, self._as_generated = prompt, scores_key, as_generated
        self.written = self.empty = 0

    @property
    def prompt(self) -> Prompt:
        """The prompt for remaining tasks."""
        return self._prompt

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"Writing remaining tasks with {self._work.model.label}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine an answer."""
        return {"prompt": self._prompt.as_params(), "scores": self._scores_key()}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Generates block by block; each is one transaction, with the run's counter.

        Raises:
            ModelError: The model cannot be loaded.
            Cancelled: The run was cancelled.
        """
        with self._project.reading() as conn:
            scores_key, tasks_key = self._scores_key(), self.config_hash
            if self._as_generated:
                candidates: Sequence[int] = scores.ids_that_go_on(conn, scores_key)
                missing = set(scores.ids_that_go_on(conn, scores_key, without_remaining=tasks_key))
            else:
                candidates = scores.below_threshold(conn, scores_key)
                missing = set(scores.ids_without_remaining(conn, tasks_key, scores_key))
            chars = conversations.chars(conn, candidates)
        yield from self._load_and_answer(run_id, blocks(candidates, chars), missing)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Wrote the remaining tasks of {counted(self.written, 'conversation')}"
        text += f", the model named none for {self.empty:,}." if self.empty else "."
        return text + self._work.spent()

    def tasks_of(self, messages: Sequence[Message]) -> tuple[str, str | None]:
        """Returns the remaining tasks of one conversation, one a line, and None; or an empty text and the reason why
        there are none. Stores nothing.

        Raises:
            ModelError: The model cannot be loaded.
        """
        self._work.load()
        return self._ask([remaining_item(messages)], lambda _count, _note: None)[0]

    def _tasks_in(self, reply: WrittenOn | WrittenReply) -> tuple[str, str | None]:
        """Returns the remaining tasks in a reply and None, or an empty text and the reason why there are none."""
        return remaining_tasks(self._prompt, reply.text, cut=reply.stopped == "length")

    def _key_of(self, entry: RemainingTasks) -> int:
        return entry.conversation_id

    def store_written(
        self, conn: sqlite3.Connection, run_id: int, written: Mapping[int, WrittenOn]
    ) -> None:
        """Stores the tasks that the scoring stage wrote in the same pass."""
        entries = [
            RemainingTasks(conversation_id, *self._tasks_in(reply))
            for conversation_id, reply in written.items()
        ]
        self._store(conn, run_id, entries)
        self._tally(entries)

    def _store(
        self, conn: sqlite3.Connection, run_id: int, entries: Sequence[RemainingTasks]
    ) -> None:
        """Writes the remaining tasks of a block, in the transaction that also counts it."""
        scores.add_remaining(conn, self.config_hash, self._scores_key(), run_id, entries)

    def _tally(self, entries: Sequence[RemainingTasks]) -> None:
        """Counts a block after it was stored."""
        self.empty += sum(1 for entry in entries if not entry.text)
        self.written += sum(1 for entry in entries if entry.text)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[RemainingTasks]:
        """Returns the entries of the conversations of one block; those that cannot be asked have the reason."""
        with self._project.reading() as conn:
            rows = conversations.conversations_for(conn, block)
        items = [remaining_item(messages) for _, messages in rows]
        answers = self._work.each(
            items, partial(self._ask, report=report), lambda reason: ("", reason)
        )
        return [
            RemainingTasks(conversation_id, text, reason)
            for (conversation_id, _), (text, reason) in zip(rows, answers, strict=True)
        ]

    def _ask(
        self, items: Sequence[tuple[tuple[str, ...], int]], report: OnProgress
    ) -> list[tuple[str, str | None]]:
        """Returns the remaining tasks after each log, or an empty text and the reason why there are none."""
        replies = self._work.replies(items, self._prompt, report)
        return [self._tasks_in(reply) for reply in replies]


def remaining_item(messages: Sequence[Message]) -> tuple[tuple[str, ...], int]:
    """Returns the pieces of a log, and the number of leading ones that every window keeps: 1 for a system message,
    else 0."""
    pieces = render_log(messages)
    kept = int(bool(pieces) and pieces[0].role in ("system", "developer"))
    return tuple(piece.text for piece in pieces), kept
