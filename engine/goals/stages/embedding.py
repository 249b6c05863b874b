"""The stages that make goal texts and their vectors: a model summarizes what the user of each conversation wants, and
an embedder computes a vector of each text.

An embedder such as TF-IDF has to be *fitted*: it learns from all texts of a run what it needs to compute vectors. That
is done once, and its state is stored in the project.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.base.conversation import Message, count_pinned, render_log
from engine.base.errors import NotYet, UsageError
from engine.base.number_format import counted
from engine.conversations.selection import ALL, Selection
from engine.conversations.shared_text import NOTHING_SHARED, SharedText
from engine.conversations.tables import conversations, earlier_states, shared_text
from engine.goals.questions import SUMMARY_PROMPT, GoalSummary
from engine.goals.records import subject_of_reasons
from engine.goals.tables import texts as goals
from engine.goals.tables import vectors
from engine.goals.tables.texts import GoalEntry, TextSource
from engine.goals.tables.vectors import VectorConfig, digest_of
from engine.jobs.contract import CpuStage, Lane, OnProgress, Progress, blocks
from engine.model.catalog import LoadableModel
from engine.model.embedders.embedder import Embedder, embedder_from_state
from engine.model.embedders.vectors import Vectors, has_vector
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.stages import BlockStage, without_result
from engine.model.structured_replies import ask, fenced_log
from engine.project import runs
from engine.project.project import Project

NO_KNOWN_WORD = "the embedder knows none of its words"
"""Reason of a conversation whose text has no vector."""


class _Summary(NamedTuple):
    """What a model says that a user wants.

    Attributes:
        text: One sentence, or in the paper's form the whole reply; the reply as it came where that says no goal.
        reason: Why it says no goal; None where it says one.
        shortened: Whether the model read a part of the log only.
    """

    text: str
    reason: str | None
    shortened: bool


SummaryItem = tuple[tuple[str, ...], int]
"""The pieces of a log, and the number of leading ones that are kept when the middle is cut out."""


class SummarizeStage(BlockStage[int, GoalEntry]):
    """Summarizes the conversations that have no summary under this configuration, in id order.

    Attributes:
        written: Number of conversations that this run summarized.
    """

    name = "summarize"
    work_title = "Summarizing goals"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        prompt: Prompt,
        *,
        selection: Selection = ALL,
    ) -> None:
        """Reads nothing yet.

        Args:
            prompt: The prompt `paper-summary`, whose whole reply is the summary, or `summary-json`, with the context
                paragraph of the project in front.
            selection: The conversations to summarize.
        """
        super().__init__(project, process, model)
        self._prompt, self._selection = prompt, selection
        self.written = self._shortened = 0
        self._reasons: Counter[str] = Counter()

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine each summary."""
        return {"prompt": self._prompt.as_params(), "context": self._work.model.options.context}

    def waiting(self) -> list[int]:
        """Returns the ids of the conversations that a run would summarize now, rising."""
        with self._project.reading() as conn:
            missing = set(goals.ids_without_summary(conn, self.config_hash))
            return sorted(missing.intersection(self._selection.ids(conn)))

    def run(self, run_id: int) -> Iterator[Progress]:
        """Summarizes block by block; each in one transaction with the counter of the run.

        Raises:
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        key = self.config_hash
        self._project.write(lambda conn: goals.register(conn, key, self._work.model.label))
        if self._asks_again:
            self._project.write(lambda conn: goals.forget_failures(conn, key))
        with self._project.reading() as conn:
            selected = self._selection.ids(conn)
            chars = conversations.chars(conn, selected)
        yield from self._load_and_answer(run_id, blocks(selected, chars), set(self.waiting()))

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Summarized {counted(self.written, 'conversation')} with {self._work.model.label}"
        text += without_result(self._reasons, "no summary")
        if self._shortened:
            text += f"; of {self._shortened:,} it read a part"
        text += "."
        return text + self._work.spent()

    def _key_of(self, entry: GoalEntry) -> int:
        """Returns the id of the conversation of an entry."""
        return entry.conversation_id

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[GoalEntry]) -> None:
        """Stores the summaries of a block."""
        goals.add(conn, self.config_hash, run_id, entries)

    def _tally(self, entries: Sequence[GoalEntry]) -> None:
        """Counts the summaries of a block after they were stored."""
        self._reasons.update(entry.reason for entry in entries if entry.reason)
        self.written += sum(1 for entry in entries if not entry.reason)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[GoalEntry]:
        """Returns the summary of each conversation of a block, or the reason why there is none."""
        rows = self._project.read(conversations.conversations_for, block)
        answers = self._work.each(
            [summary_item(messages) for _, messages in rows],
            partial(self._ask, report=report),
            lambda reason: _Summary("", reason, False),
        )
        self._shortened += sum(answer.shortened for answer in answers)
        return [
            GoalEntry(conversation_id, answer.text, answer.reason)
            for (conversation_id, _), answer in zip(rows, answers, strict=True)
        ]

    def _ask(self, items: Sequence[SummaryItem], report: OnProgress) -> list[_Summary]:
        """Returns the summary of each log."""
        prompt = self._prompt
        if prompt.name == SUMMARY_PROMPT:
            return [
                _summary((prompt.reply + reply.text).strip(), reply.text, reply.note is not None)
                for reply in self._work.replies(items, prompt, report)
            ]
        room = self._work.room(prompt)
        logs = [fenced_log(pieces, pinned, room) for pieces, pinned in items]
        replies = ask(self._work.process, prompt, GoalSummary, [log for log, _ in logs], report)
        return [
            _summary(
                " ".join(reply.fields.goal.split()) if reply.fields else "",
                reply.text,
                note is not None or reply.note is not None,
                reply.error or "",
            )
            for (_, note), reply in zip(logs, replies, strict=True)
        ]


def _summary(goal: str, reply: str, shortened: bool, error: str = "") -> _Summary:
    """Returns the summary of a log.

    Args:
        goal: What the model says that the user wants; without letters and digits it says no goal.
        reply: The reply as it came.
        shortened: Whether the model read a part of the log only.
        error: Why the reply has no fields; empty where it has.
    """
    if any(map(str.isalnum, goal)):
        return _Summary(goal, None, shortened)
    return _Summary(reply, error or "the model named no goal", shortened)


def summary_item(messages: Sequence[Message]) -> SummaryItem:
    """Returns a log as the model is asked about it. The first step of the user is kept if it is the first piece or
    follows the system message, because people state their goal at the beginning."""
    pieces = render_log(messages)
    opening = next((i for i, piece in enumerate(pieces[:2]) if piece.role == "user"), None)
    pinned = count_pinned(pieces) if opening is None else opening + 1
    return tuple(piece.text for piece in pieces), pinned


QUICK_BATCH, SERVED_BATCH, SLOW_BATCH = 4_096, 1_024, 256
"""Texts in one transaction: for TF-IDF, for an endpoint, which is sent several requests side by side, and for a neural
model here, which takes a hundred times as long as TF-IDF."""


@dataclass(frozen=True, slots=True)
class Vectorizer:
    """An embedder and where it runs.

    Attributes:
        name: The name that the user gave, e.g. `tfidf`.
        embedder: The embedder.
        lane: `model` if it runs in the model process.
        cancel: Ends a request to that process, or to an endpoint.
        spent: Returns what requests to an endpoint have cost, in words; "" if they cost only time.
    """

    name: str
    embedder: Embedder
    lane: Lane = "cpu"
    cancel: Callable[[], None] = lambda: None
    spent: Callable[[], str] = lambda: ""

    @property
    def title(self) -> str:
        """The name for screens: of a GGUF file without its folder."""
        return Path(self.name).name if self.name.endswith(".gguf") else self.name


class EmbedStage(CpuStage):
    """Embeds the conversations that have no vector under this configuration, in id order.

    Attributes:
        embedded, without: Number of conversations for which this run made a vector, and of those that got none.
    """

    name = "embed"

    def __init__(
        self,
        project: Project,
        vectorizer: Vectorizer,
        source: Callable[[], TextSource],
        *,
        selection: Selection = ALL,
        vector_config: str | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            source: Returns the source of the texts; called when the stage begins.
            selection: The conversations to embed.
            vector_config: Config hash of stored vectors, which are added to with the embedder that made them; None
                makes a new set.
        """
        super().__init__(project)
        self._vectorizer, self._embedder = vectorizer, vectorizer.embedder
        self._get_source = source
        self._selection, self._vector_config = selection, vector_config
        self.lane = vectorizer.lane
        self.embedded = self.without = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"Embedding goals with {self._vectorizer.title}"

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the vectors. The vectors of a fitted embedder depend on all conversations that
        it is fitted on. Where an import replaced texts there are new vectors: earlier clusterings keep theirs."""
        if self._vector_config is not None:
            return {"into": self._vector_config}
        params: dict[str, Any] = {
            "text": self._source.kind,
            "goals": self._source.goal_config,
            "embedder": self._vectorizer.name,
        }
        if self._left_out:
            params["without"] = self._left_out.digest
        if subject_of_reasons(self._source.kind):  # answers may have come since
            params["texts"] = self._digest_of_texts()
        with self._project.reading() as conn:
            if replaced := earlier_states.count_replaced_texts(conn):
                params["replaced"] = replaced
        return params if self._embedder.fitted else {**params, "fitted_on": digest_of(self.ids)}

    @property
    def fingerprints(self) -> Mapping[str, Any]:
        """The recipe of the embedder."""
        return {"embedder": self._embedder.recipe}

    @property
    def vector_key(self) -> str:
        """The config hash of the vectors."""
        return self.config_hash if self._vector_config is None else self._vector_config

    @cached_property
    def ids(self) -> Sequence[int]:
        """Ids of the conversations of this run, in id order."""
        return self._project.read(self._selection.ids)

    @cached_property
    def _source(self) -> TextSource:
        """The source of the texts; asked for when it is first needed, because a stage before may write them."""
        return self._get_source()

    @cached_property
    def _left_out(self) -> SharedText:
        """The shared text that is left out: that of the stored vectors, or the project's."""
        if self._vector_config is None and (
            self._source.kind == "summary" or subject_of_reasons(self._source.kind)
        ):
            return NOTHING_SHARED
        with self._project.reading() as conn:
            if self._vector_config is not None:
                return shared_text.of_vectors(conn, self._vector_config)
            return shared_text.stored(conn)

    def _digest_of_texts(self) -> str:
        """Returns a hash of all texts of the run, 16 hex digits."""
        digest = hashlib.sha256()
        with self._project.reading() as conn:
            for entry in self._source.each(conn, self.ids, NOTHING_SHARED):
                digest.update(f"{entry.conversation_id} {entry.text}\n".encode())
        return digest.hexdigest()[:16]

    def interrupt(self) -> None:
        """Abandons the batch that is being computed."""
        super().interrupt()
        self._vectorizer.cancel()

    def run(self, run_id: int) -> Iterator[Progress]:
        """Fits the embedder if needed, then embeds batch by batch; each in one transaction with the counter of the run.

        Raises:
            UsageError: No conversation has a text, or the embedder differs from that of the stored vectors.
            Cancelled: `interrupt` was called.
        """
        self._raise_if_cancelled()
        config, missing = self._read_stored()
        embedder = self._embedder
        if config is not None and config.state is not None:
            embedder = embedder_from_state(config.embedder, config.state)
        total, done = len(missing), 0
        if not embedder.fitted:
            yield from self._run_on_thread(
                partial(self._fit, embedder),
                lambda count, _note: Progress(0, total, f"fitting, {count:,} texts read"),
            )
        if config is not None and config.fingerprint != embedder.fingerprint:
            raise UsageError(
                f"The stored vectors are of another embedder, {config.fingerprint} and not {embedder.fingerprint}.",
                "Embed all conversations with one embedder.",
            )

        def progress(_count: int, _note: str) -> Progress:
            """Returns the progress after the batches so far."""
            return Progress(done, total)

        textless: list[GoalEntry] = []  # stored once the length of a vector is known
        size = {"tfidf": QUICK_BATCH, "http": SERVED_BATCH}.get(embedder.kind, SLOW_BATCH)
        for start in range(0, len(self.ids), size):
            batch = self.ids[start : start + size]
            missing_ids = missing.intersection(batch)
            if not missing_ids:
                continue
            self._raise_if_cancelled()
            embed_batch = partial(self._embed, embedder, batch)
            entries, rows = yield from self._run_on_thread(embed_batch, progress)
            done += len(missing_ids)
            _, dimensions = rows.shape  # 0 where no conversation of the batch has a text
            if config is None:
                if not dimensions:
                    textless += entries
                    continue
                config = self._new_config(embedder, dimensions)
            if not dimensions:
                rows = np.zeros((len(entries), config.dimensions), dtype=np.float32)
            is_missing = np.array([entry.conversation_id in missing_ids for entry in entries])
            no_vectors = np.zeros((len(textless), config.dimensions), dtype=np.float32)
            self._project.write(
                partial(
                    self._commit,
                    config=config,
                    run_id=run_id,
                    entries=[*textless, *compress(entries, is_missing)],
                    rows=np.concatenate([no_vectors, rows[is_missing]]),
                    done=done,
                    total=total,
                )
            )
            textless = []
            yield Progress(done, total)
        if config is None:
            raise NotYet("No conversation has a text to go by.", "Choose another --text.")

    def _read_stored(self) -> tuple[VectorConfig | None, set[int]]:
        """Returns the configuration of the vectors, None before the first are stored; and the ids of the conversations
        of this run that are still to embed."""
        with self._project.reading() as conn:
            config = vectors.config(conn, self.vector_key)
            missing = set(self.ids)
            if config is not None:
                missing.intersection_update(vectors.ids_without_vector(conn, self.vector_key))
        return config, missing

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Made vectors of {self.embedded:,} goal texts with {self._vectorizer.title}"
        text += f"; {self.without:,} have no vector." if self.without else "."
        cost = self._vectorizer.spent()
        return f"{text} {cost}." if cost else text

    def _new_config(self, embedder: Embedder, dimensions: int) -> VectorConfig:
        """Returns the configuration of the vectors that this run makes, with the state of the fitted embedder."""
        return VectorConfig(
            self.vector_key,
            self._source.kind,
            self._source.goal_config,
            self._vectorizer.name,
            embedder.fingerprint,
            dimensions,
            embedder.state(),
        )

    def _fit(self, embedder: Embedder, report: OnProgress) -> None:
        """Fits the embedder on all texts of the run; runs on a thread of its own."""
        with self._project.reading() as conn:
            embedder.fit(self._texts(conn, report))

    def _texts(self, conn: sqlite3.Connection, report: OnProgress) -> Iterator[str]:
        """Yields the texts that the embedder is fitted on, empty where there is none."""
        for count, entry in enumerate(self._source.each(conn, self.ids, self._left_out)):
            if count % 1_000 == 0:
                report(count, "")
            yield "" if entry.reason else entry.text

    def _embed(
        self, embedder: Embedder, batch: Sequence[int], _report: OnProgress
    ) -> tuple[list[GoalEntry], Vectors]:
        """Returns the texts of a batch and their vectors, shape (batch, d); runs on a thread of its own."""
        entries = self._project.read(self._source.read, batch, self._left_out)
        return entries, embedder.embed(["" if entry.reason else entry.text for entry in entries])

    def _commit(
        self,
        conn: sqlite3.Connection,
        *,
        config: VectorConfig,
        run_id: int,
        entries: Sequence[GoalEntry],
        rows: Vectors,
        done: int,
        total: int,
    ) -> None:
        """Stores the vectors of entries, a reason for each without one, and the counter of the run.

        Args:
            rows: Vectors of the entries, shape (entries, d); zeros for one without a vector.
        """
        nonzero = has_vector(rows)
        reasons = {
            entry.conversation_id: entry.reason or NO_KNOWN_WORD
            for entry, has in zip(entries, nonzero, strict=True)
            if not has
        }
        ids = [entry.conversation_id for entry, has in zip(entries, nonzero, strict=True) if has]
        vectors.register(conn, config)
        if self._left_out:
            shared_text.put_of_vectors(conn, config.config_hash, self._left_out)
        vectors.add(
            conn, config.config_hash, run_id, ids, rows[nonzero].astype("<f4").tobytes(), reasons
        )
        runs.count(conn, run_id, done, total)
        self.embedded += len(ids)
        self.without += len(reasons)
