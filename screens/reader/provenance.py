"""Two dialogs about one conversation: where its score comes from, and its record as imported."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import BindingType

from engine.base import number_format
from engine.base.conversation import with_calls
from engine.base.text import display_safe, one_line
from engine.completeness.records import ProbeFeatures, ScoreSet, mode_in_words
from engine.completeness.service.sets import ScoreSets, reliability
from engine.opener.conversations import ConversationService
from engine.opener.jobs import JobService
from engine.project.records import RunRow
from screens.shell.reading_dialogs import ReadingDialog, reading_keys
from screens.widgets.background import background
from screens.widgets.evidence import Facts
from screens.widgets.text_pane import TextPane

Lines = list[tuple[str, str]]
"""Names and values, display-safe; a value may have several lines."""

PROMPT_CHARS = 4_000
"""Most characters that are shown of a prompt."""


class ProvenanceDialog(ReadingDialog):
    """The run, model and rule behind a score, and what the leak guard hid from the model."""

    TITLE = "Where this number comes from"
    WHAT = "the provenance"
    BINDINGS: ClassVar[list[BindingType]] = reading_keys("W")

    def __init__(self, facts: Facts, jobs: JobService, score_sets: ScoreSets) -> None:
        super().__init__()
        self._facts, self._jobs, self._score_sets = facts, jobs, score_sets

    def on_mount(self) -> None:
        """Reads the run and the test of the scores, and shows all that is known."""

        def read() -> str:
            """Returns the names and values of each section as text."""
            score = self._facts.score
            sections = [score_lines(self._facts)]
            if score is not None:
                sections.append(reliability_lines(score.config_hash, self._score_sets.all()))
                sections.append(run_lines(self._jobs.run(score.run_id)))
            sections.append(kept_lines(self._facts))
            return "\n\n".join(_table(lines) for lines in sections if lines)

        background(self, read, self.query_one(TextPane).show, self.show_error, group="provenance")


class OriginalDialog(ReadingDialog):
    """The record byte for byte, shown safe, and below it the earlier texts that imports replaced."""

    WHAT = "the record"
    TITLE = "The record as imported"
    BINDINGS: ClassVar[list[BindingType]] = reading_keys("o")

    def __init__(self, conversations: ConversationService, conversation_id: int) -> None:
        super().__init__()
        self._conversations = conversations
        self._conversation_id = conversation_id

    def on_mount(self) -> None:
        """Reads the record."""
        background(
            self,
            lambda: record_text(self._conversations, self._conversation_id),
            self.query_one(TextPane).show,
            self.show_error,
            group="original",
        )


def record_text(conversations: ConversationService, conversation_id: int) -> str:
    """Returns the record as imported, and each earlier text with the time of its end, its source and its score."""
    texts = [conversations.original(conversation_id).decode("utf-8", errors="replace")]
    for state in conversations.earlier_states(conversation_id):
        score = "" if state.score is None else f", score {number_format.probability(state.score)}"
        had = number_format.counted(len(state.messages), "message")
        log = "\n\n".join(
            f"{line.role}: "
            + (with_calls(line.content, line.tool_calls) if line.tool_calls else line.content)
            for line in state.messages
        )
        texts.append(
            f"Until {state.replaced_at[:16].replace('T', ' ')} UTC, from {state.source}:"
            f" {had}{score}\n\n{log}"
        )
    return "\n\n".join(texts)


def score_lines(facts: Facts) -> Lines:
    """Returns the names and values of what made the score."""
    score = facts.score
    if score is None:
        return [("score", "none yet: no run has reached this conversation")]
    digits = facts.digits
    rule = facts.rule
    lines = [("state", score.state.word)]
    if score.reason:
        lines.append(("reason", one_line(score.reason)))
    shown = facts.shown(score.p_end_normalised)
    if score.features is not None:
        lines.append(
            ("score", f"{shown}  probability that it ends here, by a probe that never saw it")
        )
    else:
        raw = "p of the end tag"
        lines.append(("score", f"{shown}  {raw} / ({raw} + p of going on)"))
        lines.append((raw, number_format.probability(score.p_end, digits)))
    if score.generated is not None:
        text = "the end tag: ended" if score.generated else "something else: broken off"
        lines.append(("written next", f"{text}, as Soroka et al. decide"))
    lines += [
        (
            "rule",
            f"ended from {number_format.probability(rule.threshold)}, "
            f"open within {number_format.probability(rule.band)} of it",
        ),
        ("mode", mode_in_words(score.mode, score.features)),
        ("model", one_line(score.model) or "none: words are read without a model"),
        ("adapter", one_line(score.adapter) if score.adapter else "none"),
        ("noise", format_noise(score.noise, score.features)),
        ("configuration", one_line(score.config_hash, 64)),
    ]
    if facts.remaining is not None:
        lines.append(("remaining tasks", one_line(facts.remaining.config_hash, 64)))
    return lines


def reliability_lines(config_hash: str, sets: Sequence[ScoreSet]) -> Lines:
    """Returns how far scores of this set can be relied on, and what would help; nothing where the set is gone."""
    score_set = next(
        (score_set for score_set in sets if score_set.config_hash == config_hash), None
    )
    if score_set is None:
        return []
    judgment = reliability(score_set, sets)
    lines = [("reliability", judgment.test)]
    if judgment.doubt:
        lines.append(("", judgment.doubt))
    if judgment.remedy:
        lines.append(("would help", judgment.remedy))
    return lines


def run_lines(run: RunRow | None) -> Lines:
    """Returns the names and values of the run that made the score: when, with what code and model, asked what."""
    if run is None:
        return [("run", "no longer in the project")]
    lines = [
        ("run", f"{run.id}, {run.stage}, {run.state}"),
        ("started", one_line(run.started_at)),
        ("finished", one_line(run.finished_at or "not yet")),
        ("code version", one_line(run.code_version)),
    ]
    for name, value in run.fingerprints.items():
        lines.append((one_line(name.replace("_", " "), 30), _value(value)))
    for name, value in run.params.items():
        if isinstance(value, Mapping):
            for inner, part in value.items():
                lines.append((one_line(f"{name} {inner}", 30), _value(part)))
        else:
            lines.append((one_line(name, 30), _value(value)))
    return lines


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return display_safe(text[:PROMPT_CHARS].strip())


def format_noise(noise: float | None, features: ProbeFeatures | None) -> str:
    """Returns the noise of a score, where it comes from, and what follows for the figures.

    Args:
        features: What a probe reads; None for other modes.
    """
    if noise is None:
        return "not measured on this model"
    between = "batch sizes" if features is None else "repeats of the fit"
    return f"± {noise:.3f} between {between}; digits below it are not shown"


def kept_lines(facts: Facts) -> Lines:
    """Returns what the leak guard kept from the model."""
    return [
        (
            "kept from the model" if number == 0 else "",
            f"{one_line(leak.found, 80)}  ({one_line(leak.rule, 30)}, "
            + ("a field)" if leak.message is None else f"message {leak.message + 1})"),
        )
        for number, leak in enumerate(facts.leaks[:50])
    ]


def _table(lines: Lines) -> str:
    """Returns names and values in two columns."""
    width = max(len(name) for name, _ in lines) + 2
    return "\n".join(
        f"{name:<{width}}" + value.replace("\n", "\n" + " " * width) for name, value in lines
    )
