"""Remaining tasks: for every conversation below the threshold, what the model says is left to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from engine.completeness.remaining import remaining_tasks
from engine.conversation import render_log
from engine.jobs import Progress, config_hash
from engine.model.catalog import RunnableModel
from engine.model.interface import Sampling
from engine.model.prompting import Prompt
from engine.stages.blocks import blocks
from engine.stages.model_work import ModelWork
from engine.store import conversations, runs, scores
from engine.store.project import Project
from engine.store.scores import RemainingEntry
from engine.worker.client import ModelProcess, OnProgress

SAMPLING = Sampling()


class RemainingStage:
    """Generates what is missing for the scores of one configuration, in id order."""

    name = "remaining"
    lane: Literal["model", "cpu"] = "model"
    unit = "conversations"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        choose: Callable[[], RunnableModel],
        prompt: Prompt,
        scores_key: Callable[[], str],
    ) -> None:
        """Prepares a run.

        Args:
            choose: Names the model when the stage's turn has come.
            scores_key: Gives the config hash of the scores that the tasks belong to, then too.
        """
        self._project, self._prompt = project, prompt
        self._scores_key = scores_key
        self._work = ModelWork(process, choose)
        self.written = self.empty = 0

    @property
    def title(self) -> str:
        """What a person reads."""
        return f"Spelling out remaining tasks with {self._work.model.label}"

    @property
    def params(self) -> Mapping[str, Any]:
        """What was asked."""
        return {"prompt": self._prompt.as_params(), "scores": self._scores_key()}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """What answered."""
        return self._work.model.fingerprints

    def run(self, run_id: int) -> Iterator[Progress]:
        """Generates block by block; each is one transaction, with the run's counter.

        Raises:
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        key = config_hash(self.name, self.params, self.fingerprints)
        with self._project.reading() as conn:
            below = scores.below_threshold(conn, self._scores_key())
            missing = set(scores.lacking_remaining(conn, key, self._scores_key()))
            chars = [row.chars for row in conversations.rows(conn, below)]
        total = len(missing)
        if not total:
            return
        yield Progress(0, total, "loading the model")
        self._work.load()
        done = 0
        for block in blocks(below, chars):
            wanted = missing.intersection(block)
            if not wanted:
                continue
            self._work.check()
            found: list[RemainingEntry] = []
            for count, _ in self._work.live(partial(self._write, block), found.extend):
                yield Progress(done + min(count, len(wanted)), total)
            entries = [entry for entry in found if entry.conversation_id in wanted]
            done += len(entries)
            self._project.write(
                partial(
                    self._commit, key=key, run_id=run_id, entries=entries, done=done, total=total
                )
            )
            self.empty += sum(1 for entry in entries if not entry.text)
            self.written += sum(1 for entry in entries if entry.text)
            yield Progress(done, total)

    def interrupt(self) -> None:
        """Ends the request in flight; the block at hand is dropped."""
        self._work.interrupt()

    def summary(self) -> str:
        """What came of it in one sentence with counts."""
        text = f"Spelled out remaining tasks of {self.written:,} conversations"
        return text + (f", the model named none for {self.empty:,}." if self.empty else ".")

    def _commit(
        self,
        conn: sqlite3.Connection,
        *,
        key: str,
        run_id: int,
        entries: Sequence[RemainingEntry],
        done: int,
        total: int,
    ) -> None:
        scores.add_remaining(conn, key, self._scores_key(), run_id, entries)
        runs.count(conn, run_id, done, total)

    def _write(self, block: Sequence[int], report: OnProgress) -> list[RemainingEntry]:
        with self._project.reading() as conn:
            found = conversations.conversations_for(conn, block)
        items = []
        for _, messages in found:
            pieces = render_log(messages)
            kept = int(pieces[0].role in ("system", "developer"))
            items.append((tuple(piece.text for piece in pieces), kept))
        answers = self._work.each(
            items, partial(self._ask, report=report), lambda reason: ("", reason)
        )
        return [
            RemainingEntry(conversation_id, text, reason)
            for (conversation_id, _), (text, reason) in zip(found, answers, strict=True)
        ]

    def _ask(
        self, items: Sequence[tuple[tuple[str, ...], int]], report: OnProgress
    ) -> list[tuple[str, str | None]]:
        replies = self._work.process.generate(
            items,
            self._prompt,
            sampling=SAMPLING,
            max_tokens=self._prompt.max_tokens,
            stop=self._prompt.stop,
            progress=report,
        )
        return [
            remaining_tasks(self._prompt, reply["text"], cut=reply["stopped"] == "length")
            for reply in replies
        ]
