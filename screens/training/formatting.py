"""Writes training runs as text, as Textual `Content`, and as columns of their list. Without widgets.

Display-safe text has no character that could act on the terminal: it can be drawn as it is. Functions that end in
`_content` return styled text, whose styles are variables of the theme (`$tone-muted`); pieces of a column name the
component class of the same color (`tone--muted`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.content import Content

from engine.base import number_format
from engine.base.text import ERROR_LIMIT, NOTICE_LIMIT, one_line
from engine.training.records import RunDetail, RunState, SampleRow, TrainingRun
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import Look, date_and_minute
from screens.widgets.row_table import Column, Piece

MAX_NAME_CHARACTERS = 40
"""Most characters that are shown of the name of a run."""
MAX_RECIPE_CHARACTERS, MAX_BASE_CHARACTERS = 20, 30
"""Most characters of the names of the recipe and the base in the headline, so that the figures fit, too."""
MAX_PROBLEM_CHARACTERS = 600
"""Most characters that are shown of why a run failed, and of what to do."""
TEXT_MARGIN_CELLS = 28
"""Cells of a line that are not for the end of the log: what follows it, and quotation marks."""
WRITTEN_MARGIN_CELLS = 42
"""Cells of a line that are not for the text that the model wrote: the figures before it, and quotation marks."""
MIN_TEXT_CELLS = 20
"""Fewest cells of either text, however narrow the terminal is."""
RUN_STATE_LOOKS: dict[RunState, Look] = {
    "new": Look("·", "new", "muted"),
    "running": Look("▸", "running", "accent"),
    "interrupted": Look("◌", "interrupted", "borderline"),
    "stopped": Look("–", "stopped", "muted"),
    "finished": Look("✓", "finished", "complete"),
    "failed": Look("✗", "failed", "incomplete"),
}
IN_USE_SIGN = "◉"
"""Stands before the run whose adapter is used for scoring."""
DASH = "–"
"""Stands for a figure that is unknown."""


def name_of(run: TrainingRun) -> str:
    """Returns the name of a run on one line, display-safe, cut to `MAX_NAME_CHARACTERS`."""
    return one_line(run.name, MAX_NAME_CHARACTERS)


def loss_text(value: float | None) -> str:
    """Returns a loss with three significant digits, `2.31` or `.041`; a dash for None; `inf` and `nan` as they are."""
    if value is None:
        return DASH
    if not math.isfinite(value):
        return str(value)
    return f"{value:.2f}" if value >= 1 else number_format.probability(value, 3)


def score_text(value: float | None) -> str:
    """Returns an AUROC or F1 with three digits; a dash where it is None or not finite."""
    return number_format.probability(value, 3) if _is_finite(value) else DASH


def _is_finite(value: float | None) -> bool:
    """Returns whether a figure is a finite number: a run that diverged writes others."""
    return value is not None and math.isfinite(value)


def state_word(run: TrainingRun) -> str:
    """Returns the state in a word: what a running run does at present, if it says that."""
    return run.phase or RUN_STATE_LOOKS[run.state].word


def state_content(run: TrainingRun) -> Content:
    """Returns the glyph and the word of the state, and the id of the process if one runs."""
    look = RUN_STATE_LOOKS[run.state]
    pid = f" (pid {run.pid})" if run.pid is not None else ""
    return Content.styled(f"{look.glyph} {state_word(run)}{pid}", f"bold {look.tone_variable}")


def progress_parts(run: TrainingRun, memory_limit: int | None) -> list[str]:
    """Returns progress, time and memory of a run, each in a few words.

    Args:
        run: The run.
        memory_limit: How much memory a run may use, in bytes; None if unknown.
    """
    parts = []
    if run.epoch is not None and run.epochs is not None and _is_finite(run.epoch + run.epochs):
        epoch_number = min(int(run.epoch) + 1, max(1, round(run.epochs)))
        parts.append(f"epoch {epoch_number}/{run.epochs:g}")
    if run.step is not None:
        of_steps = f"/{run.steps:,}" if run.steps is not None else ""
        parts.append(f"step {run.step:,}{of_steps}")
    if run.state == "running":
        if run.tokens_per_s is not None:
            parts.append(f"{run.tokens_per_s:,.0f} tok/s")
        if _is_finite(run.seconds_left) and run.step != run.steps:
            parts.append(f"{number_format.duration(run.seconds_left)} left")
    else:
        parts.append(number_format.duration(run.seconds))
    if run.memory is not None:
        of_limit = f" of {number_format.size(memory_limit)}" if memory_limit is not None else ""
        parts.append(f"memory {number_format.size(run.memory)}{of_limit}")
    return parts


def headline(run: TrainingRun, memory_limit: int | None) -> Content:
    """Returns one line on a run, with the most important facts first, since a narrow terminal cuts the others."""
    origin = [one_line(run.recipe, MAX_RECIPE_CHARACTERS), one_line(run.base, MAX_BASE_CHARACTERS)]
    facts = " · ".join([*origin, *progress_parts(run, memory_limit)])
    parts: list[Content | tuple[str, str] | str] = [
        state_content(run),
        "  ",
        (name_of(run), "bold"),
        f" · {facts}",
    ]
    if run.in_use:
        parts.append((f"  {IN_USE_SIGN} in use", "$tone-accent"))
    return Content.assemble(*parts)


def problem_content(run: TrainingRun) -> Content | None:
    """Returns why a run failed or was interrupted, and what to do; None for other runs."""
    if run.state != "failed" and not run.problem:
        return None
    cause = (
        one_line(run.problem, MAX_PROBLEM_CHARACTERS)
        or "It ended without an error; log.txt in its folder has what it printed."
    )
    lines = [Content.styled(cause, RUN_STATE_LOOKS[run.state].tone_variable)]
    if run.hint:
        lines.append(Content.styled(one_line(run.hint, MAX_PROBLEM_CHARACTERS), "$tone-accent"))
    return Content("\n").join(lines)


def end_probability(sample: SampleRow) -> float:
    """Returns how probable the model finds the end of the log: p_end / (p_end + p_continue), or 0.5 without a number.

    The other tokens that may follow do not count: they say neither that the log ends nor that it goes on.
    """
    total = sample.p_end + sample.p_continue
    return sample.p_end / total if total > 0 and math.isfinite(total) else 0.5


def first_and_newest(samples: Sequence[SampleRow]) -> list[tuple[SampleRow, SampleRow | None]]:
    """Returns the first and the newest sample of each sampled boundary; None for the newest where there is one sample.

    A boundary is a place in a log where it could end; samples of one were taken at several steps of training.
    """
    samples_by_boundary: dict[tuple[str, str, bool], list[SampleRow]] = {}
    for sample in samples:
        samples_by_boundary.setdefault((sample.id, sample.text, sample.ends), []).append(sample)
    pairs = []
    for of_boundary in samples_by_boundary.values():
        by_step = sorted(of_boundary, key=lambda sample: sample.step)
        first, *later = by_step
        pairs.append((first, later[-1] if later else None))
    return pairs


def sample_content(samples: Sequence[SampleRow], width: int) -> list[Content]:
    """Returns lines with what the model writes at each sampled boundary, before training and now.

    Args:
        samples: All samples of a run.
        width: Cells of a line.
    """
    lines: list[Content] = []
    for first, newest in first_and_newest(samples):
        tail = " ".join(first.text.split())
        room = max(MIN_TEXT_CELLS, width - TEXT_MARGIN_CELLS)
        if len(tail) > room:
            tail = "…" + tail[-(room - 1) :]
        truth = "the log ends here" if first.ends else "the log goes on"
        lines.append(
            Content.assemble(
                (f"“{one_line(tail, room + 1)}” ", "$tone-bright"), (truth, "$tone-muted")
            )
        )
        lines += [_sample_line(sample, width) for sample in (first, newest) if sample is not None]
    return lines


def _sample_line(sample: SampleRow, width: int) -> Content:
    """Returns when a sample was taken, how probable the end is, whether that is correct, and what the model writes."""
    when = "before" if sample.step == 0 else f"step {sample.step:,}"
    probability = end_probability(sample)
    is_correct = (probability >= 0.5) == sample.ends
    generated = one_line(sample.generated, max(MIN_TEXT_CELLS, width - WRITTEN_MARGIN_CELLS))
    written = f"“{generated}”" if generated else "the end"
    return Content.assemble(
        (f"  {when:<11}", "$tone-muted"),
        ("end ", "$tone-muted"),
        f"{number_format.bar(probability)} {number_format.small_probability(probability):>4} ",
        ("✓" if is_correct else "✗", "$tone-complete" if is_correct else "$tone-incomplete"),
        (" writes ", "$tone-muted"),
        (written, "$tone-model"),
    )


def about_content(detail: RunDetail, width: int) -> Content:
    """Returns the samples in lines of `width` cells, and the last three warnings."""
    lines = sample_content(detail.samples, width)
    if not lines and detail.run.state == "running":
        lines.append(Content.styled("Samples of what the model writes come here.", "$tone-muted"))
    lines += [
        Content.styled(f"! {one_line(warning, ERROR_LIMIT)}", "$tone-borderline")
        for warning in detail.warnings[-3:]
    ]
    return Content("\n").join(lines)


def tail_content(detail: RunDetail) -> Content:
    """Returns the last lines of the log under a title; nothing for an empty log."""
    lines = [
        Content.styled(one_line(line, ERROR_LIMIT), "$tone-muted") for line in detail.last_lines
    ]
    return Content("\n").join([Content.styled("log", "bold"), *lines]) if lines else Content("")


def ending_text(run: TrainingRun) -> str:
    """Returns the result of a run that has just ended, or why it failed; display-safe."""
    if run.state in ("failed", "interrupted"):
        return one_line(f"{run.problem} {run.hint}", NOTICE_LIMIT)
    return f"{state_word(run)}; AUROC {score_text(run.auroc)} on the selection part"


def summary_content(
    runs: Sequence[TrainingRun],
    starting: bool,
    missing: str,
    hint: str,
) -> Content:
    """Returns the line above the list of runs.

    Args:
        runs: The runs of the project.
        starting: Whether a new run is being started now.
        missing: Why nothing can be trained here; else empty.
        hint: What to do about that; else empty.
    """
    parts: list[tuple[str, str] | str] = [(number_format.counted(len(runs), "run"), "bold")]
    running = next((run for run in runs if run.state == "running"), None)
    if starting:
        parts.append((" · writing the data of the new run …", "$tone-accent"))
    elif running is not None:
        parts.append(f" · {name_of(running)} is running; it goes on when you quit")
    in_use = next((run for run in runs if run.in_use), None)
    if in_use is not None:
        parts.append((f" · {IN_USE_SIGN} {name_of(in_use)} is used for scoring", "$tone-muted"))
    if missing and runs:
        reason = f"{one_line(missing, ERROR_LIMIT)} {one_line(hint, ERROR_LIMIT)}"
        parts.append((f" · {reason}", "$tone-incomplete"))
    return Content.assemble(*parts)


def empty_state(missing: str, hint: str, conversations: int | None) -> EmptyState:
    """Returns what the screen says without runs: how to start one, or why training is not possible here.

    Args:
        missing: Why nothing can be trained here; else empty.
        hint: What to do about that; else empty.
        conversations: How many the project has; None while they are counted.
    """
    message = (
        "No training runs yet.\n\n"
        "A run adapts a local model to your conversations: it learns where they end,\n"
        "so that “did it end?” is measured on your own logs.\n"
        "Nothing leaves this machine; the run goes on when you quit."
    )
    if missing:
        message += f"\n\n{one_line(missing, ERROR_LIMIT)}\n{one_line(hint, ERROR_LIMIT)}"
        return EmptyState(message, enter_label="shows the reason", action="new")
    choices = "the conversations" if conversations is None else f"{conversations:,} conversations"
    enter_label = f"chooses out of {choices}, and says first what it costs"
    return EmptyState(message, enter_label, action="new")


def run_columns() -> list[Column[TrainingRun]]:
    """Returns the columns of the list: name, state, recipe, base, conversations, scores, start and running time.

    Columns with the lowest `keep` leave first where the terminal is narrow.
    """

    def name_pieces(run: TrainingRun) -> Sequence[Piece]:
        """Returns the name after the sign of the run in use."""
        sign = f"{IN_USE_SIGN} " if run.in_use else ""
        return [(sign, "tone--accent"), (one_line(run.name), "")]

    def state_pieces(run: TrainingRun) -> Sequence[Piece]:
        """Returns the state; of a running run the share of steps that are done."""
        look = RUN_STATE_LOOKS[run.state]
        word = state_word(run)
        if word == "running" and run.step is not None and run.steps:
            word = f"{100 * run.step / run.steps:.0f}%"
        return [(f"{look.glyph} {word}", look.tone_class)]

    def score_pieces(value: float | None) -> Sequence[Piece]:
        """Returns a figure of the validation."""
        return [(score_text(value), "" if value is not None else "tone--muted")]

    return [
        Column("name", "run", 16, name_pieces, flexible=True),
        Column("state", "state", 13, state_pieces),
        Column("recipe", "recipe", 10, lambda run: [(one_line(run.recipe), "")], keep=4),
        Column("base", "base", 22, lambda run: [(one_line(run.base), "tone--muted")], keep=1),
        Column("trained", "trained on", 10, lambda run: [(f"{run.conversations:,}", "")],
               right=True, keep=3),
        Column("auroc", "AUROC", 5, lambda run: score_pieces(run.auroc), right=True, keep=8),
        Column("f1", "F1", 5, lambda run: score_pieces(run.f1), right=True, keep=7),
        Column("when", "started (UTC)", 16, lambda run: [(date_and_minute(run.created_at), "tone--muted")],
               keep=2),
        Column("time", "time", 10,
               lambda run: [(number_format.duration(run.seconds) if run.seconds else DASH, "")],
               right=True, keep=5),
    ]  # fmt: skip
