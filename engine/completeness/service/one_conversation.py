"""Scores one conversation that is given as messages and stored nowhere."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.base.conversation import Message, State, render_log
from engine.base.errors import FormatError, NotFound
from engine.completeness import bundled_probe
from engine.completeness.boundaries import no_boundary_reason
from engine.completeness.probe import Probe
from engine.completeness.records import (
    BUNDLED_PROBE_ADAPTER,
    CurvePoint,
    DecisionRule,
    Mode,
    normalized,
)
from engine.completeness.scoring import ItemScore, log_item
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.runs import ModelReading, ScoringRun, ScoringRuns
from engine.completeness.stages.remaining import RemainingStage
from engine.completeness.stages.scoring import Log, curve_of, score_logs
from engine.formats.records import Rejected
from engine.formats.registry import parse_own_record
from engine.model.service.run_setup import RunSetup
from engine.model.stages import ModelWork


@dataclass(frozen=True, slots=True)
class ConversationScore:
    """How complete one conversation is.

    Attributes:
        p: The normalized score at its last boundary, from 0 to 1; None where it is unscored.
        state: By the default threshold of .5 with its band of .1; a project may have another threshold.
        reason: Why it is unscored, or what is special about the score (a window); None otherwise.
        curve: A point for each boundary, in order.
        remaining: The remaining tasks, one a line; None where they were not asked for, where `p` is not below .5,
            or where the model named none.
        leaks: Number of things that give the ending away and were kept from the model.
        mode, model, adapter: What scored it; `adapter` is `samples` for the bundled probe.
        own_adapter: Whether an adapter was named or chosen by a person; False for everything that comes with the
            program, which was not tuned to these conversations.
    """

    p: float | None
    state: State
    reason: str | None
    curve: tuple[CurvePoint, ...]
    remaining: str | None
    leaks: int
    mode: Mode
    model: str
    adapter: str | None
    own_adapter: bool

    @property
    def how(self) -> str:
        """What scored the conversation, and how far that can be relied on, in one line."""
        name = " · ".join([self.mode, self.model, *([self.adapter] if self.adapter else [])])
        if self.own_adapter:
            return f"{name} (an adapter of your own)"
        scorer = "a model that was not trained for this"
        if self.mode == "probe":
            scorer = "the probe that comes with the program"
        return f"{name} ({scorer}, not tuned to your conversations)"


class ConversationScorer:
    """Scores conversations one at a time, as a scoring run scores those of a project. Any thread may ask."""

    def __init__(self, setup: RunSetup, runs: ScoringRuns) -> None:
        """Loads nothing yet; `runs` makes the run whose model and question are used."""
        self._setup, self._runs = setup, runs
        self._guard = threading.Lock()  # one model is loaded at a time

    def score(
        self, messages: Sequence[Mapping[str, Any]], request: ScoringRequest
    ) -> ConversationScore:
        """Scores a conversation at every boundary.

        In mode `probe` this is the bundled probe, which reads the built-in model only: a probe of its own needs a
        project. The model is used as it is, tuned if it was tuned on this machine before.

        Args:
            messages: In the shape of any chat API; markers that give the ending away are kept from the model.
            request: Mode, model, adapter, context, and whether remaining tasks are written.

        Raises:
            FormatError: The messages cannot be read.
            ModelError: The model cannot be loaded, or cannot answer this mode's question.
            UsageError: There is no such model or adapter, or no probe for the model.
        """
        readable, leaks = read_messages(messages)
        mode = self._runs.mode_for(request)
        run = self._runs.make_run(replace(request, mode=mode, tune=False))
        if run.reading is None:
            raise _no_probe("words")
        model, states = run.reading.model, run.reading.question.states
        probe = bundled_probe.bundled_probe_for(model) if states else None
        if states and probe is None:
            raise _no_probe(model.label)
        pieces = render_log(readable)
        log = Log(0, pieces, log_item(pieces))  # it is stored nowhere and has no id
        with self._guard:
            score = self._read(log, run.reading)
            points = _curve_of(log, score, probe)
            p_last = normalized(points[-1].p_end, points[-1].p_continue) if points else None
            remaining = None
            if p_last is not None and p_last < DecisionRule().threshold:
                remaining = self._remaining(run, readable)
        return ConversationScore(
            p=p_last,
            state=DecisionRule().state(p_last),
            reason=score.unscored or score.note,
            # Where neither answer has a probability there is no score to show.
            curve=tuple(point for point in points if point.p_end + point.p_continue > 0),
            remaining=remaining,
            leaks=leaks,
            mode=mode,
            model=model.label,
            adapter=BUNDLED_PROBE_ADAPTER if probe else model.adapter_name,
            own_adapter=model.adapter is not None,
        )

    def _read(self, log: Log, reading: ModelReading) -> ItemScore:
        """Returns what the model of a run says of a log at each boundary, or the reason why it says nothing.

        Raises:
            ModelError: The model cannot be loaded, or cannot answer this mode's question.
        """
        if not log.item.boundaries:
            return ItemScore((), 0, unscored=no_boundary_reason(log.pieces))
        work = ModelWork(self._setup.process, reading.model)
        work.load()
        (score,) = score_logs(work, [log], reading.question)
        return score

    def _remaining(self, run: ScoringRun, messages: Sequence[Message]) -> str | None:
        """Returns the remaining tasks of a conversation; None where the run writes none, or the model named none."""
        stage = next((stage for stage in run.stages if isinstance(stage, RemainingStage)), None)
        if stage is None:
            return None
        return stage.tasks_of(messages).tasks or None


def _curve_of(log: Log, score: ItemScore, probe: Probe | None) -> tuple[CurvePoint, ...]:
    """Returns the points of the boundaries of a log, in order: by the probe where there is one, else by the model."""
    points = curve_of(log, score)
    if probe is None or score.states is None:
        return points
    states = score.states.astype("<f2").astype(np.float32)  # as projects keep them
    return tuple(
        replace(point, p_end=p, p_continue=1 - p, generated=None)
        for point, p in zip(points, probe.p(states).tolist(), strict=True)
    )


def _no_probe(features: str) -> NotFound:
    """Returns the error for a probe that only a project has, on words or on the states of a model."""
    return NotFound(
        f"There is no probe for {features} outside a project.",
        "Score with mode base or tuned, or score a project.",
    )


def read_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[tuple[Message, ...], int]:
    """Reads messages as an import does; returns them, and the number of leaks that are kept from models.

    Raises:
        FormatError: They cannot be read.
    """
    hint = 'Give a list such as [{"role": "user", "content": "…"}, …].'
    try:
        parsed = parse_own_record([dict(message) for message in messages], "messages", "messages")
    except (TypeError, ValueError) as error:
        raise FormatError(f"The messages are not JSON: {error}.", hint) from error
    if isinstance(parsed, Rejected):
        raise FormatError(f"The messages cannot be read: {parsed.reason}.", hint)
    return parsed.conversation.messages, len(parsed.leaks)
