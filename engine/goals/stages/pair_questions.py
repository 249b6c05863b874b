"""The questions to a model about a pair of groups: whether they are one goal, in both orders; the likelihood ratio of
their texts; and a reason with a label for the merged group."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.goals.merges.merge_state import MergeState
from engine.goals.questions.questions import (
    EXAMPLES,
    REASON_GRAMMAR,
    Asker,
    LogProb,
    MergeQuestion,
    ask_merges,
    choose,
    likelihood_ratios,
    merge_body,
    read_mixed,
    read_reason,
)
from engine.goals.records import Pair
from engine.goals.tables.answers import PairAnswer
from engine.goals.views.goal_inputs import TextSource
from engine.model.prompt_files import Prompt
from engine.project.project import Project

CALLS = 3
"""Requests for each pair: yes or no, likelihood ratio, reason."""


class PairQuestions:
    """Asks about pairs of groups of one clustering.

    Each block of pairs has requests of its own, and so have the texts that are read once for each group. So no answer
    depends on the questions before it.
    """

    def __init__(
        self,
        project: Project,
        source: TextSource,
        merge: Prompt,
        reason: Prompt,
        *,
        seed: int,
        model: str,
    ) -> None:
        """Sends nothing yet.

        Args:
            merge, reason: Prompts `merge` and `merge-reason`.
            seed: Seed of the sample of texts that the model reads.
            model: Name of the model.
        """
        self._project, self._source = project, source
        self._merge, self._reason = merge, reason
        self._seed, self._model = seed, model
        self._mixed: dict[tuple[int, ...], list[LogProb]] = {}

    def params(self) -> dict[str, Any]:
        """The parameters that determine the answers, besides the model and the members."""
        return {
            "text": self._source.kind,
            "goals": self._source.goal_config,
            "merge": self._merge.as_params(),
            "reason": self._reason.as_params(),
            "seed": self._seed,
        }

    def ask(self, asker: Asker, state: MergeState, pairs: Sequence[Pair]) -> list[PairAnswer]:
        """Asks about a block of pairs of current groups; returns an answer for each, in order."""
        began = time.monotonic()
        sides = sorted({key for pair in pairs for key in pair})
        chosen = {key: self._some(state.members(key).tolist()) for key in sides}
        outside = {key: self._outside(state, (key,)) for key in sides}
        others = [self._outside(state, pair) for pair in pairs]
        texts = self._texts([*chosen.values(), *outside.values(), *others])

        def texts_of(ids: Sequence[int]) -> list[str]:
            return [texts[key] for key in ids]

        questions = [
            MergeQuestion(
                tuple(texts_of(chosen[a])), tuple(texts_of(chosen[b])), tuple(texts_of(rest))
            )
            for (a, b), rest in zip(pairs, others, strict=True)
        ]
        yes = ask_merges(asker, self._merge, questions)
        own = {key: texts_of(ids) for key, ids in chosen.items()}
        mixed = {
            key: self._after_mixed(asker, key, chosen[key], own[key], texts_of(outside[key]))
            for key in sides
        }
        ratios = likelihood_ratios(asker, pairs, own, mixed)
        replies = asker.generate(
            self._reason,
            [merge_body(q.first, q.second, q.others) for q in questions],
            grammar=REASON_GRAMMAR,
        )
        each = (time.monotonic() - began) / len(pairs)
        answers = []
        for pair, both, ratio, reply in zip(pairs, yes, ratios, replies, strict=True):
            named = read_reason(self._reason, reply.text)
            answers.append(
                PairAnswer(
                    state.sides_key(*pair), ratio, *both, named.reason, named.label,
                    named.description, self._model, CALLS, each,
                )
            )  # fmt: skip
        return answers

    def given_up(self, state: MergeState, pair: Pair, reason: str) -> PairAnswer:
        """The answer that is stored for a pair that the model could not be asked about."""
        key = state.sides_key(*pair)
        return PairAnswer(key, None, None, None, reason, "", "", self._model, 0, 0.0)

    def _after_mixed(
        self,
        asker: Asker,
        key: str,
        members: Sequence[int],
        own: Sequence[str],
        outside: Sequence[str],
    ) -> list[LogProb]:
        """Log-probabilities of the texts of a group after a mixed list, read once for each group."""
        known = self._mixed.get(tuple(members))
        if known is None:
            known = read_mixed(asker, {key: outside}, {key: own})[key]
            self._mixed[tuple(members)] = known
        return known

    def _some(self, ids: Sequence[int]) -> list[int]:
        return choose(ids, EXAMPLES, self._seed)

    def _outside(self, state: MergeState, but: Sequence[str]) -> list[int]:
        """A sample of the conversations that are in none of the groups `but`."""
        inside = np.concatenate([state.members(key) for key in but])
        return self._some(np.setdiff1d(state.conversation_ids, inside, assume_unique=True).tolist())

    def _texts(self, wanted: Sequence[Sequence[int]]) -> Mapping[int, str]:
        ids = sorted({key for some in wanted for key in some})
        with self._project.reading() as conn:
            return {entry.conversation_id: entry.text for entry in self._source.read(conn, ids)}
