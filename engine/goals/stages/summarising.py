"""The stage that summarises: a model writes what the user of each conversation wants, in one sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from engine.base.conversation import Message, render_log
from engine.base.number_format import counted
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import conversations
from engine.goals.questions.questions import read_summary
from engine.goals.tables import texts as goals
from engine.goals.tables.texts import GoalEntry
from engine.jobs.contract import OnProgress, Progress, blocks
from engine.model.model_work import RunModel
from engine.model.process.process import (
    ModelProcess,
)
from engine.model.prompt_files import Prompt
from engine.model.stages import (
    BlockStage,
)
from engine.project.project import Project

Item = tuple[tuple[str, ...], int]


class SummariseStage(BlockStage[int, GoalEntry]):
    """Summarises the conversations that have no summary under this configuration, in id order."""

    name = "summarise"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: RunModel,
        prompt: Prompt,
        *,
        selection: Selection = ALL,
        whole: bool = False,
    ) -> None:
        """Reads nothing yet.

        Args:
            prompt: The prompt, with the context paragraph of the project in front.
            selection: The conversations to summarise.
            whole: Whether the whole reply is the summary, all its parts; else its first sentence.
        """
        super().__init__(project, process, model)
        self._prompt, self._selection, self._whole = prompt, selection, whole
        self.written = self.without = 0

    @property
    def title(self) -> str:
        """Name of the work, as it is shown."""
        return f"Summarizing goals with {self._work.model.label}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine each summary."""
        context = self._work.model.options.context
        params = {"prompt": self._prompt.as_params(), "context": context}
        return {**params, "whole": True} if self._whole else params

    def run(self, run_id: int) -> Iterator[Progress]:
        """Summarises block by block; each in one transaction with the counter of the run.

        Raises:
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        key = self.config_hash
        self._project.write(lambda conn: goals.register(conn, key, self._work.model.label))
        with self._project.reading() as conn:
            every = self._selection.ids(conn)
            missing = set(goals.ids_without_summary(conn, key)).intersection(every)
            chars = conversations.chars(conn, every)
        if not missing:
            return
        yield Progress(0, len(missing), "loading the model")
        self._work.load()
        yield from self._in_blocks(run_id, blocks(every, chars), missing)

    def summary(self) -> str:
        """The result in one sentence with counts."""
        text = f"Summarized {counted(self.written, 'conversation')} with {self._work.model.label}"
        text += f"; the model named no goal for {self.without:,}." if self.without else "."
        return text + self._work.spent()

    def _key_of(self, entry: GoalEntry) -> int:
        return entry.conversation_id

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[GoalEntry]) -> None:
        goals.add(conn, self.config_hash, run_id, entries)

    def _tally(self, entries: Sequence[GoalEntry]) -> None:
        self.without += sum(1 for entry in entries if entry.reason)
        self.written += sum(1 for entry in entries if not entry.reason)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[GoalEntry]:
        with self._project.reading() as conn:
            found = conversations.conversations_for(conn, block)
        answers = self._work.each(
            [summary_item(messages) for _, messages in found],
            partial(self._ask, report=report),
            lambda reason: ("", "", reason),
        )
        return [
            GoalEntry(conversation_id, reply if reason else text, reason)
            for (conversation_id, _), (text, reply, reason) in zip(found, answers, strict=True)
        ]

    def _ask(self, items: Sequence[Item], report: OnProgress) -> list[tuple[str, str, str | None]]:
        """(goal, reply as written, reason why it is no goal) for each log."""
        replies = self._work.replies(items, self._prompt, report)
        answers = []
        for reply in replies:
            cut = reply.stopped == "length"
            text, reason = read_summary(self._prompt, reply.text, cut=cut, whole=self._whole)
            answers.append((text, reply.text, reason))
        return answers


def summary_item(messages: Sequence[Message]) -> Item:
    """(pieces of the log, number of leading pieces that are kept when the middle is cut out). The first step of the
    user is kept if it is the first piece or follows the system message, because people state their goal at the
    beginning."""
    pieces = render_log(messages)
    opening = next((at for at, piece in enumerate(pieces[:2]) if piece.role == "user"), None)
    system = int(bool(pieces) and pieces[0].role in ("system", "developer"))
    return tuple(piece.text for piece in pieces), system if opening is None else opening + 1
