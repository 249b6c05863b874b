"""The stage that asks a model whether the groups of a pair are one goal, in the order of the merge queue.

A model that follows instructions gives a *judgment*, with reasons for and against. As in the paper (Soroka et al.) any
model replies freely.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.goals.merges.merge_state import MergeState
from engine.goals.questions import (
    MERGE_PROMPT,
    PAPER_EXAMPLES,
    VERDICT_EXAMPLES,
    MergeQuestion,
    MergeVerdict,
    clean_label,
    draw_sample,
    numbered_lists,
    paper_lists,
    read_description,
    read_merge,
)
from engine.goals.records import Clustering, Pair, PairAnswer
from engine.goals.stages.clustering import ClusterStage, GroupForecast, OnClustering
from engine.goals.tables import decisions
from engine.goals.tables.clusterings import source_of
from engine.goals.tables.decisions import AnswerEntry
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import OnProgress, Progress
from engine.model.catalog import LoadableModel
from engine.model.endpoints.model import EndpointModel
from engine.model.process.process import ModelProcess
from engine.model.prompt_files import Prompt
from engine.model.stages import ModelStage, ModelWork
from engine.model.structured_replies import StructuredReply, ask
from engine.project import runs
from engine.project.project import Project
from engine.project.records import StageCost

SURE = 0.1
"""A probability of yes this close to 0 or to 1 is sure, so that the reverse order is not asked about."""

MIN_PAIRS_PER_BLOCK = 4
"""Pairs in one block of questions, if as many are left and the model does not answer more at the same time."""


class PairQuestions:
    """Asks about pairs of groups of one clustering.

    A model gives a judgment with reasons for and against, in the reverse order too where the first is not sure, or is a
    word without a probability. As in the paper, it is asked once, about texts that are drawn for this question, and
    replies freely, with the description of the merged group after its yes.

    The requests about a block of pairs are its own, and so are those that read the texts of a group. So no answer
    depends on the questions before it.
    """

    def __init__(
        self, project: Project, stored: Clustering, prompt: Prompt, work: ModelWork
    ) -> None:
        """Sends nothing yet.

        Args:
            stored: The clustering.
            prompt: The prompt `paper-merge` for a clustering as in the paper, else `merge-json`.
            work: Asks the model.
        """
        self._project, self._source, self._seed = project, source_of(stored).shown, stored.seed
        self._prompt, self._work = prompt, work

    def params(self) -> dict[str, Any]:
        """Returns the parameters that determine the answers, besides the model and the members."""
        return {
            "text": self._source.kind,
            "goals": self._source.goal_config,
            "merge": self._prompt.as_params(),
            "seed": self._seed,
        }

    def answer_pairs(
        self, state: MergeState, pairs: Sequence[Pair], report: OnProgress
    ) -> list[AnswerEntry]:
        """Returns an answer on each of a block of pairs of current groups, in order."""
        start_time = time.monotonic()
        questions = self._read_questions(state, pairs)
        answers = _ask_questions(self._work, self._prompt, questions, report)
        seconds_per_pair = (time.monotonic() - start_time) / len(pairs)
        return [
            AnswerEntry(
                state.sides_key(*pair),
                replace(answer, model=self._work.model.label, prompt=self._prompt.version),
                requests,
                seconds_per_pair,
            )
            for pair, (answer, requests) in zip(pairs, answers, strict=True)
        ]

    def body(self, state: MergeState, pair: Pair) -> str:
        """Returns the lists of the question on a pair, not as in the paper."""
        (question,) = self._read_questions(state, [pair])
        return _question_lists(question, self._work.room(self._prompt))

    def _read_questions(self, state: MergeState, pairs: Sequence[Pair]) -> list[MergeQuestion]:
        """Returns the texts in the question on each pair."""
        samples_by_pair = [self._draw_samples(state, pair) for pair in pairs]
        texts = self._read_texts([sample for samples in samples_by_pair for sample in samples])
        return [
            MergeQuestion(*(tuple(texts[key] for key in sample) for sample in samples))
            for samples in samples_by_pair
        ]

    def _draw_samples(
        self, state: MergeState, pair: Pair
    ) -> tuple[list[int], list[int], list[int]]:
        """Returns the conversations that the question on a pair shows: of both groups, and of neither. A group shows
        the same ones in all questions, so that a model reads them once; as in the paper each question draws anew."""
        seed = self._seed
        if _is_paper(self._prompt):
            seed ^= int(state.sides_key(*pair)[:8], 16)
        first, second = (self._sample(state.members(key).tolist(), seed) for key in pair)
        members = np.concatenate([state.members(key) for key in pair])
        others = np.setdiff1d(state.conversation_ids, members, assume_unique=True)
        return first, second, self._sample(others.tolist(), seed)

    def _sample(self, ids: Sequence[int], seed: int) -> list[int]:
        """Returns a random sample of these conversations, the same for the same ids and seed."""
        return draw_sample(ids, _most_examples(self._prompt), seed)

    def _read_texts(self, samples: Sequence[Sequence[int]]) -> Mapping[int, str]:
        """Returns the texts of all conversations of some samples, by id."""
        ids = sorted({key for sample in samples for key in sample})
        with self._project.reading() as conn:
            return {entry.conversation_id: entry.text for entry in self._source.read(conn, ids)}


def _is_paper(prompt: Prompt) -> bool:
    """Returns whether a prompt asks in the words of the paper."""
    return prompt.name == MERGE_PROMPT


def _most_examples(prompt: Prompt) -> int:
    """Returns the most texts of each list in a question with a prompt."""
    return PAPER_EXAMPLES if _is_paper(prompt) else VERDICT_EXAMPLES


def _ask_questions(
    work: ModelWork, prompt: Prompt, questions: Sequence[MergeQuestion], report: OnProgress
) -> list[tuple[PairAnswer, int]]:
    """Returns the model's answer to each question and the number of requests for it."""
    answers_to = _paper_answers if _is_paper(prompt) else _judgment_answers
    return answers_to(work, prompt, questions, report)


def _paper_answers(
    work: ModelWork, prompt: Prompt, questions: Sequence[MergeQuestion], report: OnProgress
) -> list[tuple[PairAnswer, int]]:
    """Returns what the model replies to each question as in the paper, each in one request."""
    bodies = list(map(_paper_question_lists, questions))
    answers = []
    for reply in work.free_replies(bodies, prompt, report):
        is_one_goal, description = read_merge(reply)
        text = read_description(reply)
        answer = (
            PairAnswer(reason=f"neither yes nor no: {text}" if text else "an empty reply")
            if is_one_goal is None
            else PairAnswer(yes=float(is_one_goal), reason=text, label=description, spoken=True)
        )
        answers.append((answer, 1))
    return answers


def _judgment_answers(
    work: ModelWork, prompt: Prompt, questions: Sequence[MergeQuestion], report: OnProgress
) -> list[tuple[PairAnswer, int]]:
    """Returns the judgment on each question and the number of requests for it; with the reason why there is none where
    the reply cannot be read."""
    max_chars = work.room(prompt)

    def ask_for_judgments(
        asked_questions: Sequence[MergeQuestion],
    ) -> list[StructuredReply[MergeVerdict]]:
        """Returns the replies to some of the questions."""
        bodies = [_question_lists(question, max_chars) for question in asked_questions]
        return ask(work.process, prompt, MergeVerdict, bodies, report, probability_of="same_goal")

    replies = ask_for_judgments(questions)
    unsure = [index for index, reply in enumerate(replies) if _is_unsure(reply)]
    reversed_questions = [questions[index].reversed for index in unsure]
    reversed_replies = ask_for_judgments(reversed_questions) if unsure else []
    yes_reversed = {
        index: _yes_probability(reply)
        for index, reply in zip(unsure, reversed_replies, strict=True)
    }
    return [
        (_judgment_answer(reply, yes_reversed.get(index)), 1 + (index in yes_reversed))
        for index, reply in enumerate(replies)
    ]


def _question_lists(question: MergeQuestion, max_chars: int) -> str:
    """Returns the lists of a question, each cut so that all have at most this many characters."""
    return numbered_lists(
        max_chars, not_in_group=question.others, group_1=question.first, group_2=question.second
    )


def _paper_question_lists(question: MergeQuestion) -> str:
    """Returns the lists of a question as the paper prints them."""
    return paper_lists(
        ("GROUP 1", question.first),
        ("GROUP 2", question.second),
        ("NOT IN GROUP", question.others),
    )


def _is_unsure(reply: StructuredReply[MergeVerdict]) -> bool:
    """Returns whether a judgment is not sure, so that the reverse order is asked about too."""
    return reply.fields is not None and (
        reply.probability is None or SURE < reply.probability < 1 - SURE
    )


def _judgment_answer(
    reply: StructuredReply[MergeVerdict], yes_reversed: float | None
) -> PairAnswer:
    """Returns the answer that a reply gives; `yes_reversed` is the probability of yes in the reverse order."""
    if reply.fields is None:
        return PairAnswer(reason=reply.failure)
    return PairAnswer(
        yes=_yes_probability(reply),
        yes_reversed=yes_reversed,
        reason=reply.fields.reason_for.strip(),
        label=clean_label(reply.fields.label),
        reason_against=reply.fields.reason_against.strip(),
        spoken=reply.probability is None,
    )


def _yes_probability(reply: StructuredReply[MergeVerdict]) -> float | None:
    """Returns the probability of yes, or 1 or 0 for what was said; None where the reply cannot be read."""
    if reply.fields is None:
        return None
    p = 1.0 if reply.probability is None else reply.probability
    return p if reply.fields.same_goal else 1 - p


class ProposeStage(OnClustering, ModelStage):
    """Asks about the undecided pairs that were not asked about yet, in the order of the merge queue.

    The queue is read again before each block, so it follows decisions that a person makes meanwhile. Answers are stored
    under a hash of the members of both groups, so they are found again when a decision is undone.

    A block of pairs is answered by these calls, each of which makes the next:

        ask_block: stores the answers.
        _answer_side_by_side: gives each pair a thread if an endpoint is asked.
        _answer_together: puts the reason of a failure in place of an answer.
        PairQuestions.answer_pairs: reads the texts of the groups.
        _ask_questions: takes the words of the paper, or those that ask for a judgment.
        _paper_answers or _judgment_answers: sends the requests and reads the replies.

    `OnClustering` gives `_stored`, the clustering; `ModelStage` gives `_asks_again` and `_cost`, and its base
    `config_hash`, under which answers are stored.
    """

    name = "propose"
    unit = "pairs"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: LoadableModel,
        queue_cache: MergeQueueCache,
        prompt: Prompt,
        *,
        limit: int | None = None,
        cluster: ClusterStage | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            queue_cache: Reads the merge queue.
            prompt: The prompt of the question; see `PairQuestions`.
            limit: Most pairs to ask about; None asks about all.
            cluster: The stage before that makes the clustering; None takes the one that is open.
        """
        super().__init__(project, process, model)
        self._queue_cache, self._prompt = queue_cache, prompt
        self._limit, self._cluster = limit, cluster
        self.asked = 0

    @property
    def title(self) -> str:
        """The title of the run, for screens and logs."""
        return f"Asking {self._work.model.label} about merges"

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the answers, besides the model and the members of the groups."""
        return {**self._questions.params(), "context": self._work.model.options.context}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Asks block by block, each in a transaction of its own with the counter of the run; yields the pairs asked
        about.

        Raises:
            UsageError: Nothing was clustered yet.
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        self.show_answers()
        if self._asks_again:
            key = self.config_hash
            self._project.write(lambda conn: decisions.forget_failures(conn, key))
        waiting = self.waiting()
        if not waiting:
            return
        yield Progress(0, self._total(waiting), "loading the model")
        self.load()
        while waiting and (self._limit is None or self.asked < self._limit):
            self._work.check()
            block_size = max(MIN_PAIRS_PER_BLOCK, self._work.process.parallel)
            if self._limit is not None:
                block_size = min(block_size, self._limit - self.asked)
            yield from self.ask_block(run_id, waiting[:block_size], self._total(waiting))
            waiting = self.waiting()

    def estimate_waiting(self) -> StageCost:
        """Returns what asking endpoints about the undecided pairs costs; sends nothing."""
        pairs = self.waiting()[: self._limit]
        return self.estimate(pairs, len(pairs))

    def estimate(self, pairs: Sequence[Pair], least: int) -> StageCost:
        """Returns what asking endpoints about `least` to all of these pairs costs; sends nothing."""
        state = self._state()
        sample_requests = [
            partial(self._answer_together, state, [pair], lambda _count, _note: None)
            for pair in pairs
        ]
        return self._cost_of_pairs(sample_requests, least, len(pairs))

    def estimate_ahead(self, groups: GroupForecast) -> StageCost:
        """Returns what asking endpoints costs before there are groups; sends nothing."""
        least, most = (count * (count - 1) // 2 for count in (groups.least, groups.most))
        if self._limit is not None:
            least, most = min(least, self._limit), min(most, self._limit)
        return self.estimate_pairs_ahead(groups, least, most)

    def estimate_pairs_ahead(self, groups: GroupForecast, least: int, most: int) -> StageCost:
        """Returns what asking endpoints about `least` to `most` pairs costs, before there are groups; sends nothing."""
        limit = _most_examples(self._prompt)
        members = tuple(groups.texts_of(1, limit))
        others = tuple(groups.texts_of(max(0, groups.middling - 2), limit))
        question = MergeQuestion(members, members, others)
        asking = partial(
            _ask_questions, self._work, self._prompt, [question], lambda _count, _note: None
        )
        return self._cost_of_pairs([asking], least, most)

    def _cost_of_pairs(
        self, sample_requests: Sequence[Callable[[], object]], least: int, most: int
    ) -> StageCost:
        """Returns what asking about `least` to `most` pairs costs, by functions that each ask about one."""
        least_per_pair, most_per_pair = self._bounds_of_requests_per_pair()
        # the share of the most requests that will surely be made
        certain = least * least_per_pair / (most * most_per_pair) if most else 1.0
        return self._cost(sample_requests, most * most_per_pair, certain)

    def _bounds_of_requests_per_pair(self) -> tuple[float, float]:
        """Returns the least and the most requests about a pair: one, and one for the reverse order where the first is
        not sure. As in the paper it is one; once the model has answered, both are the mean so far."""
        if _is_paper(self._prompt):
            return 1, 1
        client = self._work.process
        assert isinstance(client, EndpointModel)
        mean = self._project.read(decisions.requests_per_pair, self._work.model.label)
        if mean is not None:
            return mean, mean
        return (1 if client.can.reads_verdicts else 2), 2

    def bodies(self, count: int) -> dict[str, str]:
        """Returns the lists of the questions on the first pairs of the merge queue, by the labels of both groups."""
        self.load()
        state = self._state()
        pairs = self._queue_cache.snapshot(self._stored.id).ordered_pairs()[:count]
        return {
            f"{number}. {' / '.join(state.groups[key].label for key in pair)}": self._questions.body(
                state, pair
            )
            for number, pair in enumerate(pairs, 1)
        }

    def show_answers(self) -> None:
        """Makes the answers of this configuration those that the merge queue shows."""
        key, clustering_id = self.config_hash, self._stored.id
        self._project.write(lambda conn: decisions.show_answers(conn, clustering_id, key))

    def load(self) -> None:
        """Loads the model unless it is loaded already."""
        self._work.load()

    def waiting(self) -> list[Pair]:
        """Returns the undecided pairs that were not asked about, the next first."""
        return self._queue_cache.snapshot(self._stored.id).unasked_pairs()

    def ask_block(
        self, run_id: int, block: Sequence[Pair], total: int | None
    ) -> Iterator[Progress]:
        """Asks about a block of pairs and stores the answers; the model must be loaded.

        Args:
            total: Number of pairs of the run; None leaves the counter of the run as it is.
        """
        state = self._state()
        entries: list[AnswerEntry] = []
        for _ in self._work.live(partial(self._answer_side_by_side, state, block), entries.extend):
            yield Progress(self.asked, total)
        self.asked += len(block)

        def commit(conn: sqlite3.Connection) -> None:
            """Stores the answers, and the counter of the run unless `total` is None."""
            decisions.add_answers(conn, self.config_hash, run_id, entries)
            runs.measure_replies(conn, run_id, self._work.tokens_per_reply)
            if total is not None:
                runs.count(conn, run_id, self.asked, total)

        self._project.write(commit)
        yield Progress(self.asked, total)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        text = f"Asked {self._work.model.label} about {counted(self.asked, 'pair')} of groups."
        return text + self.spent()

    def spent(self) -> str:
        """Returns the cost of the requests as a sentence; see `ModelWork.spent`."""
        return self._work.spent()

    def _state(self) -> MergeState:
        """Returns the groups that are asked about."""
        return self._queue_cache.decision_log.state(self._stored.id)

    @cached_property
    def _questions(self) -> PairQuestions:
        """The questions about the clustering; made when it is first needed, because the stage before must have made
        it."""
        return PairQuestions(self._project, self._stored, self._prompt, self._work)

    def _answer_side_by_side(
        self, state: MergeState, block: Sequence[Pair], report: OnProgress
    ) -> list[AnswerEntry]:
        """Returns an entry for each pair: the model's answer, or the reason why there is none. Endpoints are asked
        about all pairs side by side."""
        if self._work.model.endpoint:
            with ThreadPoolExecutor(len(block), "asking") as threads:
                entries = threads.map(
                    lambda pair: self._answer_together(state, [pair], report), block
                )
                return [entry for (entry,) in entries]
        return self._answer_together(state, block, report)

    def _answer_together(
        self, state: MergeState, block: Sequence[Pair], report: OnProgress
    ) -> list[AnswerEntry]:
        """Returns an entry for each pair of a block that is asked about together."""

        def ask_about(pairs: Sequence[Pair]) -> Sequence[AnswerEntry | str]:
            """Returns an entry for each pair."""
            return self._questions.answer_pairs(state, pairs, report)

        # where the model could not be asked about a pair, the reason takes the place of its entry
        entries = []
        for pair, entry in zip(block, self._work.each(block, ask_about, str), strict=True):
            if isinstance(entry, str):
                failure = PairAnswer(reason=entry, model=self._work.model.label)
                entry = AnswerEntry(state.sides_key(*pair), failure, 0, 0.0)
            entries.append(entry)
        return entries

    def _total(self, waiting: Sequence[Pair]) -> int:
        """Returns the number of pairs that this run will have asked about, if nobody decides any."""
        total = self.asked + len(waiting)
        return total if self._limit is None else min(self._limit, total)
