"""The stage that generates remaining tasks: what, by the model, is left to do in conversations below the threshold.

A model that follows instructions is asked for open requests in fields; another one goes on with a list after a prompt,
whose lines are read.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec

from engine.base.conversation import STEP_OPENING, Message, count_pinned, render_log
from engine.base.number_format import counted
from engine.completeness.records import NO_OPEN_REQUEST, NO_TASK, NO_TASK_BUT_A_STEP, RemainingTasks
from engine.completeness.tables import scores
from engine.conversations.selection import Selection
from engine.conversations.tables import conversations
from engine.jobs.contract import OnProgress, Progress, blocks
from engine.model.catalog import LoadableModel
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.stages import BlockStage, without_result
from engine.model.structured_replies import ask, fenced_log
from engine.project.project import Project

MAX_TASKS_PER_CONVERSATION = 8
"""Largest number of remaining tasks that are taken from one reply."""


class TasksOrReason(NamedTuple):
    """The remaining tasks of one conversation.

    Attributes:
        tasks: The tasks, one a line; empty where there are none.
        reason: Why there are none; None where there are some.
    """

    tasks: str
    reason: str | None


class OpenRequest(msgspec.Struct):
    """A request that is still open."""

    request: Annotated[
        str,
        msgspec.Meta(
            max_length=200, description="what is left to do, a verb first, in at most 20 words"
        ),
    ]
    step: Annotated[int, msgspec.Meta(ge=0, description="number of the STEP that asks for it")]


class OpenRequests(msgspec.Struct):
    """The reply of a model that follows instructions: what is left to do."""

    open: Annotated[
        list[OpenRequest],
        msgspec.Meta(
            max_length=MAX_TASKS_PER_CONVERSATION,
            description="the open requests, an empty list if none is open",
        ),
    ]


def tasks_of_requests(reply: OpenRequests) -> TasksOrReason:
    """Returns the open requests in a reply as tasks, each with the step that asks for it."""
    if not reply.open:
        return TasksOrReason("", NO_OPEN_REQUEST)
    lines = (f"{' '.join(request.request.split())} (step {request.step})" for request in reply.open)
    return TasksOrReason("\n".join(dict.fromkeys(lines)), None)


def remaining_tasks(prompt: Prompt, reply: str, *, cut: bool) -> TasksOrReason:
    """Returns the remaining tasks in a generated reply.

    Args:
        reply: Text that the model wrote after `prompt.reply`.
        cut: Whether the reply reached the length limit. Its last line is then unfinished unless it ends in a line
            break, and is left out unless it is the only one with words.
    """
    if not _has_words(reply):
        return TasksOrReason("", NO_TASK)
    # An adapter that learned only whether a conversation continues writes the header of the next step and no content.
    if prompt.reply.endswith(STEP_OPENING) and not _has_words(reply.partition(":")[2]):
        return TasksOrReason("", NO_TASK_BUT_A_STEP)
    # The last line of `prompt.reply` begins the first task (a list bullet, words, or a step header); alone it is none.
    opening = prompt.reply.rsplit("\n", 1)[-1]
    first, *others = reply.splitlines()
    lines = [opening + first if _has_words(first) else "", *others]
    unfinished = lines.pop().rstrip() if cut and not reply.endswith("\n") else ""
    tasks = list(dict.fromkeys(line.rstrip() for line in lines if _has_words(line)))
    # Without a finished task the words of the reply are in its unfinished line.
    tasks = tasks[:MAX_TASKS_PER_CONVERSATION] or [f"{unfinished} …"]
    return TasksOrReason("\n".join(tasks), None)


def _has_words(text: str) -> bool:
    """Returns whether a text has a letter or a digit."""
    return any(map(str.isalnum, text))


class RemainingStage(BlockStage[int, RemainingTasks]):
    """Generates the remaining tasks that are missing for the scores of one configuration, in id order.

    `BlockStage` calls `_answer` with the ids of each block, `_store` with its entries in the transaction that also
    counts the block, and `_tally` after that; `_key_of` says whose an entry is.

    Attributes:
        written: Number of conversations whose remaining tasks this run wrote.
    """

    name = "remaining"
    work_title = "Writing remaining tasks"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        prompt: Prompt,
        scores_hash: Callable[[], str],
        *,
        unfinished: Selection | None = None,
        where_end_not_written: bool = False,
        by_fields: bool = False,
    ) -> None:
        """Prepares a run.

        Args:
            scores_hash: Returns the config hash of the scores that the tasks belong to. Called whenever the stage
                needs it, since it may follow from what an earlier stage of the run has written by then.
            unfinished: Generate for these conversations, such as those that a question calls open, instead of those
                below the threshold.
            where_end_not_written: Generate for the conversations after which the model does not write the end tag,
                instead of those below the threshold.
            by_fields: Whether the tasks are the fields of a reply to `remaining-json`.
        """
        super().__init__(project, process, model)
        self._prompt, self._scores_hash = prompt, scores_hash
        self._unfinished, self._where_end_not_written = unfinished, where_end_not_written
        self._by_fields = by_fields
        self.written = 0
        self._reasons: Counter[str] = Counter()  # of the conversations of this run without tasks

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine an answer."""
        # the prompt tells whether the tasks are fields
        return {"prompt": self._prompt.as_params(), "scores": self._scores_hash()}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Generates block by block; each is one transaction, with the run's counter.

        Raises:
            ModelError: The model cannot be loaded.
            Cancelled: The run was cancelled.
        """
        if self._asks_again:
            self._project.write(lambda conn: scores.forget_no_remaining(conn, self.config_hash))
        with self._project.reading() as conn:
            candidates, missing = self.waiting(conn)
            # Tasks belong to a score, and a filter also matches what has none under this configuration.
            missing -= set(scores.ids_without_score(conn, self._scores_hash()))
            chars = conversations.chars(conn, candidates)
        # Blocks are cut from all candidates, not from those missing: a run that goes on has the same batches and bits.
        yield from self._load_and_answer(run_id, blocks(candidates, chars), missing)

    def waiting(self, conn: sqlite3.Connection) -> tuple[Sequence[int], set[int]]:
        """Returns the ids of the conversations that call for remaining tasks, rising, and the ids of those of them for
        which neither tasks nor a reason for none are stored."""
        # The hash of this stage is that of the remaining tasks.
        scores_hash, tasks_hash = self._scores_hash(), self.config_hash
        candidates: Sequence[int]
        if self._unfinished is not None:
            candidates = self._unfinished.ids(conn)
        elif self._where_end_not_written:
            candidates = scores.ids_that_go_on(conn, scores_hash)
        else:
            candidates = scores.below_threshold(conn, scores_hash)
        return candidates, set(candidates) - scores.ids_with_remaining(conn, tasks_hash)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Wrote the remaining tasks of {counted(self.written, 'conversation')}"
        return f"{text}{without_result(self._reasons, 'none')}.{self._work.spent()}"

    def tasks_of(self, messages: Sequence[Message]) -> TasksOrReason:
        """Returns the remaining tasks of one conversation; stores nothing.

        Raises:
            ModelError: The model cannot be loaded.
        """
        self._work.load()
        return self._ask([remaining_item(messages)], lambda _count, _note: None)[0]

    def _key_of(self, entry: RemainingTasks) -> int:
        """Returns the id of a conversation, which is the key of its entry."""
        return entry.conversation_id

    def _store(
        self, conn: sqlite3.Connection, run_id: int, entries: Sequence[RemainingTasks]
    ) -> None:
        """Stores tasks, or the reason for none, under the scores that they belong to."""
        scores.add_remaining(conn, self.config_hash, self._scores_hash(), run_id, entries)

    def _tally(self, entries: Sequence[RemainingTasks]) -> None:
        """Counts tasks written, and the reasons for none."""
        self._reasons.update(entry.reason for entry in entries if entry.reason)
        self.written += sum(1 for entry in entries if not entry.reason)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[RemainingTasks]:
        """Returns the entry of each conversation of a block; where it cannot be asked about, its reason says why."""
        rows = self._project.read(conversations.conversations_for, block)
        items = [remaining_item(messages) for _, messages in rows]
        answers = self._work.each(
            items, partial(self._ask, report=report), lambda reason: TasksOrReason("", reason)
        )
        return [
            RemainingTasks(conversation_id, *answer)
            for (conversation_id, _), answer in zip(rows, answers, strict=True)
        ]

    def _ask(
        self, items: Sequence[tuple[tuple[str, ...], int]], report: OnProgress
    ) -> list[TasksOrReason]:
        """Returns the remaining tasks after each log; an item is what `remaining_item` returns."""
        if self._by_fields:
            room = self._work.room(self._prompt)
            logs = [fenced_log(texts, pinned, room)[0] for texts, pinned in items]
            return [
                TasksOrReason("", reply.failure)
                if reply.fields is None
                else tasks_of_requests(reply.fields)
                for reply in ask(self._work.process, self._prompt, OpenRequests, logs, report)
            ]
        return [
            remaining_tasks(self._prompt, reply.text, cut=reply.stopped == "length")
            for reply in self._work.replies(items, self._prompt, report)
        ]


def remaining_item(messages: Sequence[Message]) -> tuple[tuple[str, ...], int]:
    """Returns the pieces of a log, and the number of leading ones that every window keeps."""
    pieces = render_log(messages)
    return tuple(piece.text for piece in pieces), count_pinned(pieces)
