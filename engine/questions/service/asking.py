"""The stages in which patterns or a model answer a question, the runs that they are part of, and what these cost."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import msgspec

from engine.base import request_options as options
from engine.base.conversation import Message
from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.base.text import short_name
from engine.conversations.filters import FILTER, Filter
from engine.conversations.selection import Selection
from engine.conversations.tables import conversations
from engine.jobs.contract import CpuStage, OnProgress, Progress, Stage, blocks
from engine.jobs.runner import JobRunner
from engine.model.catalog import DEFAULT_MODEL, LoadableModel
from engine.model.interface import CHARS_PER_TOKEN, Sampling
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.records import ModelRequest
from engine.model.reply_forms import form_request
from engine.model.service.run_setup import RunSetup
from engine.model.stages import BlockStage
from engine.model.structured_replies import ask
from engine.project.project import Project
from engine.project.records import Estimate
from engine.questions.model_answers import (
    LABELED,
    MAX_EXPLANATION,
    answer_of_reply,
    count_votes,
    explain_refusal,
    join_part_answers,
    log_parts,
    question_prompt,
    reply_form,
)
from engine.questions.pattern_matching import PatternMatcher
from engine.questions.question import Question
from engine.questions.records import Answerer, MachineAnswer
from engine.questions.tables import machine_answers

BATCH = 1_000
"""Number of conversations whose answers are committed together."""

MAX_ANSWERS_SHOWN = 12
"""Most answers that a summary names: texts and numbers may have as many as there are conversations."""

PATTERNS_PER_SECOND = 5_000
"""Conversations that patterns read in a second, roughly."""

WRITING_COST = 5
"""Tokens that a model reads in the time in which it writes one: an assumption, since only reading is measured here. A
prompt is read many tokens at a time, a reply is written one after the other, several replies side by side."""


class PatternStage(CpuStage):
    """Lets the patterns of a question answer it on what they have not answered in its present text, in id order.

    Attributes:
        counts: Number of conversations by answer; None stands for no answer.
        by: The name under which the patterns answer.
    """

    name = "ask"
    by = "pattern"

    def __init__(self, project: Project, question: Question, selection: Selection) -> None:
        """Reads nothing yet.

        Args:
            selection: The conversations that are asked about.

        Raises:
            UsageError: The question has no pattern that can be read.
        """
        super().__init__(project)
        self.counts: Counter[str | None] = Counter()
        self._question, self._selection = question, selection
        self._matcher = PatternMatcher(question)

    @property
    def title(self) -> str:
        """The question that is asked."""
        return f"Asking {self._question.name}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The question with its patterns; its words change no answer."""
        patterns = msgspec.to_builtins(self._question.patterns)
        return {
            "question": self._question.name,
            "kind": self._question.kind,
            "patterns": patterns,
            "otherwise": self._question.otherwise,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Commits the answers batch by batch.

        Raises:
            Cancelled: `interrupt` was called.
        """
        ids = unanswered_ids(self._project, self.config_hash, self._selection)
        answerer = Answerer(self.config_hash, self._question.name, "pattern", self.by)
        self._project.write(lambda conn: machine_answers.renew(conn, answerer.config_hash))

        def put(conn: sqlite3.Connection, answers: Sequence[MachineAnswer]) -> None:
            """Stores the answers of a batch."""
            machine_answers.put(conn, answerer, run_id, answers)

        yield from self._run_batches(run_id, ids, BATCH, self._read_answers, put)

    def _read_answers(self, conn: sqlite3.Connection, ids: Sequence[int]) -> list[MachineAnswer]:
        """Returns the answers on conversations, and counts them."""
        answers = []
        for key, messages in conversations.conversations_for(conn, ids):
            value, cites = self._matcher.answer(messages)
            self.counts[value] += 1
            answers.append(MachineAnswer(key, value, cites=cites))
        return answers

    def summary(self) -> str:
        """Returns how often each answer was given, in one sentence."""
        return f"{_counts_text(self.counts)}."


class ModelAnswerStage(BlockStage[int, MachineAnswer]):
    """Lets a model answer a question on what it has not answered yet, in id order.

    Attributes:
        counts: Number of conversations by answer; None stands for no answer.
    """

    name = "ask"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        question: Question,
        prompt: Prompt,
        selection: Selection,
    ) -> None:
        """Reads nothing yet.

        Args:
            question: With the number of votes, and what is read of long logs.
            prompt: Stands around a log and the question.
            selection: The conversations that are asked about.
        """
        super().__init__(project, process, model)
        self.counts: Counter[str | None] = Counter()
        self._question, self._selection = question, selection
        self._prompt = question_prompt(prompt, question)
        self._form = reply_form(question)
        self._changed_logs = 0  # logs that did not fit, and were read in parts or shortened

    @property
    def by(self) -> str:
        """The name under which the model answers."""
        return self._work.model.name

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"Asking {self._work.model.label}: {self._question.name}"

    @property
    def params(self) -> Mapping[str, Any]:
        """The question without its patterns, and the prompt."""
        question = msgspec.structs.replace(self._question, patterns=(), otherwise="")
        return {
            "question": msgspec.to_builtins(question),
            "prompt": self._prompt.as_params(),
            "context": self._work.model.options.context,
        }

    def local_tokens(self, ids: Sequence[int]) -> tuple[int, int]:
        """Returns roughly how many tokens a model of this machine reads, and how many it writes, to answer on
        conversations."""
        chars = sum(self._project.read(conversations.chars, ids))
        around = len(self._prompt.before + self._prompt.question + form_request(self._form))
        votes = self._question.votes
        read = votes * (chars + around * len(ids)) / CHARS_PER_TOKEN
        return round(read), round(votes * MAX_EXPLANATION * len(ids) / CHARS_PER_TOKEN)

    def run(self, run_id: int) -> Iterator[Progress]:
        """Commits the answers block by block.

        Raises:
            ModelError: The model cannot be loaded, or cannot answer.
            Cancelled: `interrupt` was called.
        """
        key = self.config_hash
        self._project.write(lambda conn: machine_answers.renew(conn, key))
        if self._asks_again:
            self._project.write(lambda conn: machine_answers.forget_failures(conn, key))
        with self._project.reading() as conn:
            ids = self._selection.ids(conn)
            chars = conversations.chars(conn, ids)
        yield from self._load_and_answer(
            run_id, blocks(ids, chars), set(unanswered_ids(self._project, key, self._selection))
        )

    def summary(self) -> str:
        """Returns how often each answer was given, and what was left out, in sentences."""
        text = f"{_counts_text(self.counts)}."
        if self.counts[None]:
            text += (
                f" `workbench answers PROJECT {self._question.name}` says why there is no answer."
            )
        if self._changed_logs:
            text += (
                f" {counted(self._changed_logs, 'log')} did not fit: read in parts, or shortened."
            )
        return text + self._work.spent()

    def _key_of(self, entry: MachineAnswer) -> int:
        """Returns the id of the conversation of an answer."""
        return entry.conversation_id

    def _store(
        self, conn: sqlite3.Connection, run_id: int, entries: Sequence[MachineAnswer]
    ) -> None:
        """Stores the answers of a block."""
        answerer = Answerer(self.config_hash, self._question.name, "model", self.by)
        machine_answers.put(conn, answerer, run_id, entries)

    def _tally(self, entries: Sequence[MachineAnswer]) -> None:
        """Counts the answers of a block after they were stored."""
        self.counts.update(entry.value for entry in entries)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[MachineAnswer]:
        """Returns the answer on each conversation of a block, or why there is none."""
        rows = self._project.read(conversations.conversations_for, block)
        answers = self._work.each(
            rows,
            partial(self._ask, report=report),
            lambda reason: MachineAnswer(0, None, note=reason),
        )
        return [
            replace(answer, conversation_id=key)
            for (key, _), answer in zip(rows, answers, strict=True)
        ]

    def _ask(
        self, rows: Sequence[tuple[int, Sequence[Message]]], report: OnProgress
    ) -> list[MachineAnswer]:
        """Returns the answer on each conversation, by all its parts and all votes."""
        question, room = self._question, self._work.room(self._prompt)
        last = question.windows == "last"
        parts = [log_parts(messages, room, last=last) for _, messages in rows]
        flat = [part for several in parts for part in several]
        self._changed_logs += sum(len(several) > 1 or bool(several[0].note) for several in parts)
        votes: list[list[MachineAnswer]] = [[] for _ in rows]
        for vote in range(question.votes):
            replies = iter(
                ask(
                    self._work.process,
                    self._prompt,
                    self._form,
                    [part.text for part in flat],
                    report,
                    probability_of="value" if question.kind in LABELED else "",
                    refusal=lambda index, reply: explain_refusal(question, flat[index], reply),
                    seed=vote if question.votes > 1 else None,
                )
            )
            for index, (key, _) in enumerate(rows):
                answers = [
                    answer_of_reply(key, question, part, next(replies)) for part in parts[index]
                ]
                votes[index].append(join_part_answers(question, answers))
        return [_note_empty_choice(count_votes(question, several)) for several in votes]


def unanswered_ids(project: Project, config_hash: str, selection: Selection) -> list[int]:
    """Returns the conversations of a selection that a configuration has not answered on, rising."""
    with project.reading() as conn:
        known = frozenset(machine_answers.answered(conn, config_hash))
        return [key for key in selection.ids(conn) if key not in known]


def _note_empty_choice(answer: MachineAnswer) -> MachineAnswer:
    """Returns an answer; without a value, and with a note, where none of several labels was chosen."""
    note = ", ".join(filter(None, ["none of the labels was chosen", answer.note]))
    return replace(answer, value=None, note=note) if answer.value == "" else answer


def _counts_text(counts: Counter[str | None]) -> str:
    """Returns how often each answer was given."""
    given = ", ".join(
        f"{short_name(value or 'no answer')} {count:,}"
        for value, count in counts.most_common(MAX_ANSWERS_SHOWN)
    )
    if len(counts) > MAX_ANSWERS_SHOWN:
        given += f", {len(counts) - MAX_ANSWERS_SHOWN:,} other answers"
    read = counted(counts.total(), "conversation")
    return f"{read} read{given and ': '}{given}"


@dataclass(frozen=True, slots=True)
class AskRequest:
    """A request for a run that asks a question of conversations. Patterns use only `by`, `filter` and `limit`.

    Attributes:
        by: Who answers.
        model: Name or path; None is the one that the project uses for questions.
        filter: Selects the conversations.
        limit: Most conversations that are asked about, the first ones; None sets no limit.
        votes, windows: Override the question's own values, see `Question`; None keeps them.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        max_cost, fresh: See `engine.model.interface.Spending`.
        anyway: Asks the built-in model too.

    Raises:
        UsageError: A value cannot be used.
    """

    by: Literal["pattern", "model"] = "pattern"
    model: str | None = options.declare_option(None, options.MODEL)
    filter: Filter = options.declare_option(Filter(), FILTER)
    limit: int | None = options.whole_number(None, "ask of the first N only")
    votes: int | None = options.whole_number(
        None,
        "ask the model N times and take the answer of most",
        words="that of the question, or 1",
    )
    windows: Literal["all", "last"] | None = options.choice(
        None,
        "what a model reads of a log that does not fit: all of it in parts, or the last part",
        ("all", "last"),
        words="that of the question, or all",
    )
    context: int | None = options.whole_number(
        None, "longest log in tokens; longer ones are read in parts (default 8,192 at most)"
    )
    max_cost: float | None = options.declare_option(None, options.MAX_COST)
    fresh: bool = options.declare_option(False, options.FRESH)
    anyway: bool = options.switch("ask the built-in model too, whose answers are not trustworthy")

    def __post_init__(self) -> None:
        options.check(self)


AnswerStage = PatternStage | ModelAnswerStage
"""A stage that answers a question; its `counts` say how often which answer was given."""


class AskingRuns:
    """Makes the runs in which the patterns of a question or a model answer it."""

    def __init__(self, project: Project, runner: JobRunner, setup: Callable[[], RunSetup]) -> None:
        """`setup` is called when a model is asked: what it needs takes long to import."""
        self._project, self._runner, self._setup = project, runner, setup

    def stages(
        self, question: Question, request: AskRequest
    ) -> tuple[AnswerStage, Sequence[Stage]]:
        """Returns the stage that answers a question, and all stages of the run.

        The answering stage is the last one. A stage before it tunes a model that was never tuned on this machine.

        Raises:
            UsageError: The question has no pattern that can be read, the model cannot be asked (see `_model_for`), or
                votes are asked for on texts.
        """
        selection = Selection(request.filter, limit=request.limit)
        if request.by == "pattern":
            by_pattern = PatternStage(self._project, question, selection)
            return by_pattern, [by_pattern]
        setup = self._setup()
        model = self._model_for(setup, request)
        question = msgspec.structs.replace(
            question,
            votes=request.votes or question.votes,
            windows=request.windows or question.windows,
        )
        if question.kind == "text" and question.votes > 1:
            raise UsageError("Votes on texts cannot be counted.", "Ask once, or make it a choice.")
        prompt = setup.prompts.prompt("ask-json")
        stage = ModelAnswerStage(setup.project, setup.process, model, question, prompt, selection)
        return stage, [*setup.tuning_before(model), stage]

    @staticmethod
    def _model_for(setup: RunSetup, request: AskRequest) -> LoadableModel:
        """Returns the model that answers a request.

        Raises:
            UsageError: There is no such model, it cannot reply in JSON, or it is the built-in one without `anyway`.
        """
        model = setup.models.resolve(
            ModelRequest(
                "questions",
                request.model,
                context=request.context,
                max_cost=request.max_cost,
                fresh=request.fresh,
            )
        )
        if model.entry is not None and model.entry.name == DEFAULT_MODEL and not request.anyway:
            raise UsageError(
                "The built-in model is too small to answer questions: on all that were tried it is near chance.",
                "Name a larger GGUF file or an endpoint (`workbench models add`). `workbench ask --anyway` asks it all"
                " the same.",
            )
        # The schema follows from the question later; here any schema stands for it.
        setup.endpoints.check_chat(model, Sampling(json_schema="{}"))
        return model

    def start(self, question: Question, request: AskRequest) -> int:
        """Starts a run in the background; returns the job id.

        Raises:
            UsageError: As `stages` does.
        """
        return self._runner.start(self.stages(question, request)[1])

    def estimate(self, question: Question, request: AskRequest) -> Estimate:
        """Returns what asking costs, without asking.

        A cost over endpoints is estimated from the requests for a sample, a time from the speed measured on this
        machine.

        Raises:
            UsageError: As `stages` does.
        """
        stage, _ = self.stages(question, request)
        selection = Selection(request.filter, limit=request.limit)
        ids = unanswered_ids(self._project, stage.config_hash, selection)
        if isinstance(stage, PatternStage):
            return Estimate(len(ids), None, None, len(ids) / PATTERNS_PER_SECOND, "its patterns")
        model = stage.model
        if model.endpoint:
            cost = stage.estimate(ids)
            return Estimate(len(ids), cost.read, None, None, model.label, costs=(cost,))
        read, written = stage.local_tokens(ids)
        speed = model.tokens_per_s
        seconds = (read + WRITING_COST * written) / speed if speed else None
        return Estimate(len(ids), read + written, speed, seconds, model.label)
