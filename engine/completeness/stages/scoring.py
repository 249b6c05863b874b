"""The stage that scores completeness: a model gives the probability of the end at every boundary of each conversation.

The stage serves the modes that ask a local model without fitting a probe, `base` and `tuned`; what reads logs with a
model in other modes uses its functions. A log is a conversation as text, cut into steps; a boundary is a place where it
could end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.conversation import LogPiece, render_log
from engine.base.number_format import counted
from engine.completeness.boundaries import BOUNDARY_RULE_VERSION, no_boundary_reason
from engine.completeness.model_requests import Score
from engine.completeness.records import CurvePoint, Mode
from engine.completeness.scoring import ItemScore, LogItem, Question, log_item
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import conversations
from engine.jobs.contract import OnProgress, Progress, blocks
from engine.model.catalog import LoadableModel
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Measure
from engine.model.prompt_files import Prompt
from engine.model.stages import BlockStage, ModelWork
from engine.project import runs
from engine.project.project import Project

NOISE_CONVERSATIONS = 8
"""Conversations on which the noise of a model is measured."""

OnMeasured = Callable[[LoadableModel, float, float], None]
"""Called with a model, its speed (tokens per second) and its batch noise, after these had to be measured."""


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one conversation.

    Attributes:
        id: Id of the conversation.
        pieces: The steps of the log as text.
        item: What a model reads of it.
    """

    id: int
    pieces: list[LogPiece]
    item: LogItem


def question_for(mode: Mode, prompt: Callable[[str], Prompt]) -> Question:
    """Returns the question that a mode asks at each boundary; `prompt` returns the prompt of a name."""
    if mode in ("tuned", "probe"):
        return Question(None, states=mode == "probe")
    return Question(prompt(mode))


class ScoringStage(BlockStage[int, ScoreEntry]):
    """Scores the conversations that have no score under this configuration, in id order.

    Attributes:
        scored, unscored: Number of conversations that this run scored, and that have a reason for no score instead.
        skipped: Number of selected conversations that were scored before this run.
    """

    name = "complete"
    work_title = "Scoring"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        mode: Mode,
        question: Question,
        *,
        selection: Selection = ALL,
        on_measured: OnMeasured | None = None,
    ) -> None:
        """Prepares a run.

        Args:
            selection: The conversations to score.
            on_measured: Called with the model, its speed (tokens per second) and its batch noise, if the model was not
                measured before.
        """
        super().__init__(project, process, model)
        self._mode, self._question = mode, question
        self._selection, self._on_measured = selection, on_measured
        self._tokens = 0
        self.scored = self.unscored = self.skipped = 0

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine a score, without the selection of conversations."""
        prompt = self._question.prompt
        return {
            "mode": self._mode,
            "prompt": None if prompt is None else prompt.as_params(),
            "context": self._work.model.options.context,
            "boundaries": BOUNDARY_RULE_VERSION,
        }

    def waiting(self, conn: sqlite3.Connection) -> set[int]:
        """Returns the ids of the conversations that a run would score now."""
        return set(scores.ids_without_score(conn, self.config_hash)).intersection(
            self._selection.ids(conn)
        )

    def run(self, run_id: int) -> Iterator[Progress]:
        """Scores block by block; each is one transaction, with the run's counter.

        Raises:
            ModelError: The model cannot be loaded or cannot answer this mode's question.
            Cancelled: The run was cancelled.
        """
        key = self.config_hash
        if self._asks_again:
            self._project.write(lambda conn: scores.forget_failures(conn, key))
        with self._project.reading() as conn:
            selected_ids = self._selection.ids(conn)
            missing = self.waiting(conn)
            chars = conversations.chars(conn, selected_ids)
        self.skipped = len(selected_ids) - len(missing)
        total = len(missing)
        yield Progress(0, total, "loading the model")
        self._work.load()
        model = self._work.model
        noise = noise_of(self._project, self._work, selected_ids, self._on_measured)
        config = ScoreConfig(
            config_hash=key,
            mode=self._mode,
            model=model.label,
            adapter=model.adapter_name,
            noise=noise,
        )
        self._project.write(lambda conn: _begin(conn, config, run_id, total))
        yield from self._in_blocks(run_id, blocks(selected_ids, chars), missing)
        self._project.write(lambda conn: score_sets.put_in_force_if_due(conn, key))

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Scored {counted(self.scored, 'conversation')} with {self._work.model.label}"
        if self.unscored:
            text += f", {self.unscored:,} have no honest score"
        if self.skipped:
            text += f", {self.skipped:,} were scored before"
        return f"{text}."

    def _progress(self, done: int, total: int, missing: int, count: int) -> Progress:
        """Returns the progress when the block that is being read has read `count` tokens; `missing` is not used."""
        return Progress(done, total, f"{self._tokens + count:,} tokens read")

    def _key_of(self, entry: ScoreEntry) -> int:
        """Returns the id of the conversation of an entry."""
        return entry.conversation_id

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[ScoreEntry]) -> None:
        """Writes the scores of a block, in the transaction that also counts it."""
        scores.add_scores(conn, self.config_hash, run_id, entries)

    def _tally(self, entries: Sequence[ScoreEntry]) -> None:
        """Counts a block after it was stored."""
        self._tokens += sum(entry.tokens for entry in entries)
        self.unscored += sum(1 for entry in entries if not entry.curve)
        self.scored += sum(1 for entry in entries if entry.curve)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[ScoreEntry]:
        """Scores a block of conversations; called on a thread of its own."""
        logs = logs_of(self._project, block)
        item_scores = score_logs(self._work, logs, self._question, report)
        return [
            ScoreEntry(log.id, curve_of(log, score), score.unscored or score.note, score.tokens)
            for log, score in zip(logs, item_scores, strict=True)
        ]


def logs_of(project: Project, ids: Sequence[int]) -> list[Log]:
    """Returns the logs of these conversations, in their order."""
    rows = project.read(conversations.conversations_for, ids)
    logs = [(conversation_id, render_log(messages)) for conversation_id, messages in rows]
    return [Log(conversation_id, pieces, log_item(pieces)) for conversation_id, pieces in logs]


def noise_of(
    project: Project, work: ModelWork, ids: Sequence[int], on_measured: OnMeasured | None
) -> float | None:
    """Returns the batch noise of a loaded model: the largest change of a probability seen when the batch changes.

    If it never was measured, it is measured now, with the speed, on the first of these conversations; None without a
    conversation to measure it on.
    """
    model = work.model
    if not ids or model.noise is not None:
        return model.noise
    text = "".join(
        piece.text for log in logs_of(project, ids[:NOISE_CONVERSATIONS]) for piece in log.pieces
    )
    speed, noise = work.process.ask(Measure(text))
    if on_measured:
        on_measured(model, speed, noise)
    return noise


def score_logs(
    work: ModelWork, logs: Sequence[Log], question: Question, report: OnProgress | None = None
) -> list[ItemScore]:
    """Returns what a loaded model says of each log at its boundaries.

    A log without a boundary is not sent to the model: it is unscored with the reason, and so is a log on which the
    process of the model dies.

    Raises:
        ModelError: The model cannot answer this kind of question, or its process dies on every log.
    """
    item_scores = iter(
        work.each(
            [log.item for log in logs if log.item.boundaries],
            lambda items: work.process.ask(Score(items, question), report),
            lambda reason: ItemScore((), 0, unscored=reason),
        )
    )
    return [
        next(item_scores)
        if log.item.boundaries
        else ItemScore((), 0, unscored=no_boundary_reason(log.pieces))
        for log in logs
    ]


def curve_of(log: Log, score: ItemScore) -> tuple[CurvePoint, ...]:
    """Returns the points of the boundaries of a log, in order; none where it is unscored."""
    if not score.curve:
        return ()
    pieces = [log.pieces[boundary] for boundary in log.item.boundaries]
    return tuple(
        CurvePoint(
            piece.message,
            piece.step,
            piece.turn,
            reading.p_end,
            reading.p_continue,
            reading.generated,
        )
        for piece, reading in zip(pieces, score.curve, strict=True)
    )


def _begin(conn: sqlite3.Connection, config: ScoreConfig, run_id: int, total: int) -> None:
    """Registers how the scores are made, puts their set in force where it is due, and counts the work of the run."""
    score_sets.register(conn, config)
    score_sets.put_in_force_if_due(conn, config.config_hash)
    runs.count(conn, run_id, 0, total)
