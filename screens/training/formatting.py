"""Training runs as text, as Textual `Content`, and as columns of their list. Without widgets."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.content import Content

from engine.base import number_format
from engine.base.text import one_line
from engine.training.records import (
    Parity,
    RunDetail,
    RunState,
    SampleRow,
    TrainingEstimate,
    TrainingRun,
)
from engine.training.run_files import HiddenRun
from screens.widgets.empty_state import EmptyState
from screens.widgets.formatting import Look, date_and_minute
from screens.widgets.row_table import Column, Piece

NAME_CHARACTERS = 40
SAMPLE_MARGIN = 42
"""Cells of a line of a sample beside the text that the model wrote."""
LOG_CHARACTERS = 300
STATES: dict[RunState, Look] = {
    "new": Look("·", "new", "muted"),
    "running": Look("▸", "running", "accent"),
    "interrupted": Look("◌", "interrupted", "borderline"),
    "stopped": Look("–", "stopped", "muted"),
    "finished": Look("✓", "finished", "complete"),
    "failed": Look("✗", "failed", "incomplete"),
}
IN_USE = "◉"
DASH = "–"


def name_of(run: TrainingRun, limit: int = NAME_CHARACTERS) -> str:
    """The run's name on one line, display-safe."""
    return one_line(run.name, limit)


def loss(value: float | None) -> str:
    """A loss with three significant digits, `2.31` or `.041`; a dash for None, `inf` and `nan` as they are."""
    if value is None:
        return DASH
    if not math.isfinite(value):
        return str(value)
    return f"{value:.2f}" if value >= 1 else number_format.probability(value, 3)


def score(value: float | None) -> str:
    """An AUROC or F1 with three digits; a dash where it is None or not finite."""
    return number_format.probability(value, 3) if _is_number(value) else DASH


def _is_number(value: float | None) -> bool:
    """Whether it is a finite number: a run that diverged writes others."""
    return value is not None and math.isfinite(value)


def state_word(run: TrainingRun) -> str:
    """The state in a word."""
    return run.phase or STATES[run.state].word


def state_content(run: TrainingRun) -> Content:
    """Glyph and word of the state, and the id of the process."""
    look = STATES[run.state]
    pid = f" (pid {run.pid})" if run.pid is not None else ""
    return Content.styled(f"{look.glyph} {state_word(run)}{pid}", f"bold {look.tone_variable}")


def progress_parts(run: TrainingRun, available: int | None) -> list[str]:
    """Progress, time and memory of a run, each a few words; `available` is what it may use, in bytes."""
    parts = []
    if run.epoch is not None and run.epochs is not None and _is_number(run.epoch + run.epochs):
        now = min(int(run.epoch) + 1, max(1, round(run.epochs)))
        parts.append(f"epoch {now}/{run.epochs:g}")
    if run.step is not None:
        of = f"/{run.steps:,}" if run.steps is not None else ""
        parts.append(f"step {run.step:,}{of}")
    if run.to_validate:
        parts.append(f"validating {run.validated or 0:,}/{run.to_validate:,}")
    if run.state == "running":
        if run.tokens_per_s is not None:
            parts.append(f"{run.tokens_per_s:,.0f} tok/s")
        if _is_number(run.seconds_left) and (run.step != run.steps or run.to_validate):
            parts.append(f"{number_format.duration(run.seconds_left)} left")
    else:
        parts.append(number_format.duration(run.seconds))
    if run.memory is not None:
        of = f" of {number_format.size(available)}" if available is not None else ""
        parts.append(f"memory {number_format.size(run.memory)}{of}")
    return parts


def headline(run: TrainingRun, available: int | None) -> Content:
    """One line on a run: the most important first, since a narrow terminal cuts the rest."""
    made = [one_line(run.recipe, 20), one_line(run.base, 30)]
    facts = " · ".join([*made, *progress_parts(run, available)])
    parts: list[Content | tuple[str, str] | str] = [
        state_content(run),
        "  ",
        (name_of(run), "bold"),
        f" · {facts}",
    ]
    if run.in_use:
        parts.append((f"  {IN_USE} in use", "$tone-accent"))
    return Content.assemble(*parts)


def problem_content(run: TrainingRun) -> Content | None:
    """Why a run failed or was interrupted, and what to do; None for other runs."""
    if run.state != "failed" and not run.problem:
        return None
    cause = one_line(run.problem, 600) or "It ended without an error; l shows its log."
    lines = [Content.styled(cause, STATES[run.state].tone_variable)]
    if run.hint:
        lines.append(Content.styled(one_line(run.hint, 600), "$tone-accent"))
    return Content("\n").join(lines)


def share(sample: SampleRow) -> float:
    """p_end / (p_end + p_continue); one half where that is not a number."""
    whole = sample.p_end + sample.p_continue
    return sample.p_end / whole if whole > 0 and math.isfinite(whole) else 0.5


def first_and_newest(samples: Sequence[SampleRow]) -> list[tuple[SampleRow, SampleRow | None]]:
    """For each sampled boundary its first sample and its newest; None where there is only one."""
    places: dict[tuple[str, str, bool], list[SampleRow]] = {}
    for sample in samples:
        places.setdefault((sample.id, sample.text, sample.ends), []).append(sample)
    pairs = []
    for rows in places.values():
        ordered = sorted(rows, key=lambda row: row.step)
        pairs.append((ordered[0], ordered[-1] if len(ordered) > 1 else None))
    return pairs


def sample_content(samples: Sequence[SampleRow], width: int) -> list[Content]:
    """What the model writes at each sampled boundary, before training and now."""
    lines: list[Content] = []
    for first, last in first_and_newest(samples):
        tail = " ".join(first.text.split())
        room = max(20, width - 28)
        if len(tail) > room:
            tail = "…" + tail[-(room - 1) :]
        where = "the log ends here" if first.ends else "the log goes on"
        lines.append(
            Content.assemble(
                (f"“{one_line(tail, room + 1)}” ", "$tone-bright"), (where, "$tone-muted")
            )
        )
        lines += [_sample_line(sample, width) for sample in (first, last) if sample is not None]
    return lines


def _sample_line(sample: SampleRow, width: int) -> Content:
    name = "before" if sample.step == 0 else f"step {sample.step:,}"
    value = share(sample)
    right = (value >= 0.5) == sample.ends
    says = one_line(sample.generated, max(20, width - SAMPLE_MARGIN))
    written = f"“{says}”" if says else "the end"
    return Content.assemble(
        (f"  {name:<11}", "$tone-muted"),
        ("end ", "$tone-muted"),
        f"{number_format.bar(value)} {number_format.small_probability(value):>4} ",
        ("✓" if right else "✗", "$tone-complete" if right else "$tone-incomplete"),
        (" writes ", "$tone-muted"),
        (written, "$tone-model"),
    )


def parity_text(parity: Parity) -> str:
    """How well llama.cpp agrees with the trainer, display-safe."""
    if parity.top1 is None:
        return f"not checked against llama.cpp: {one_line(parity.skipped, 200)}"
    text = f"llama.cpp agrees on {100 * parity.top1:.1f}% of {number_format.counted(parity.tokens, 'token')}"
    if parity.max_dp is not None:
        text += f", probabilities within {number_format.small_probability(parity.max_dp)}"
    return text


def about_content(detail: RunDetail, width: int) -> Content:
    """Samples, agreement with llama.cpp, and warnings."""
    lines = sample_content(detail.samples, width)
    if not lines and detail.run.state == "running":
        lines.append(Content.styled("Samples of what the model writes come here.", "$tone-muted"))
    if detail.parity is not None:
        lines.append(Content.styled(parity_text(detail.parity), "$tone-muted"))
    lines += [
        Content.styled(f"! {one_line(warning, LOG_CHARACTERS)}", "$tone-borderline")
        for warning in detail.warnings[-3:]
    ]
    return Content("\n").join(lines)


def tail_content(detail: RunDetail) -> Content:
    """The last lines of the log."""
    lines = [
        Content.styled(one_line(line, LOG_CHARACTERS), "$tone-muted") for line in detail.last_lines
    ]
    return Content("\n").join([Content.styled("log", "bold"), *lines]) if lines else Content("")


def estimate_content(estimate: TrainingEstimate) -> Content:
    """What a run would cost."""
    unused = estimate.matched - estimate.train - estimate.held_out
    lines = [
        Content.assemble(
            (number_format.counted(estimate.matched, "conversation"), "bold"),
            f": {estimate.train:,} to train on, {estimate.selection:,} to select by,"
            f" {estimate.test:,} to test on",
            f", {unused:,} not used" if unused > 0 else "",
        )
    ]
    facts = []
    if estimate.tokens is not None:
        facts.append(f"{number_format.amount(estimate.tokens)} tokens an epoch")
    if estimate.steps is not None:
        facts.append(number_format.counted(estimate.steps, "step"))
    source = "as in earlier runs" if estimate.measured else "a guess: nothing was trained here yet"
    facts.append(
        f"about {number_format.duration(estimate.seconds)} ({source})"
        if estimate.seconds is not None
        else "time unknown until the first steps"
    )
    lines.append(Content(" · ".join(facts)))
    needs = (
        "memory unknown"
        if estimate.memory is None
        else f"memory {number_format.size(estimate.memory)}"
    )
    if estimate.fits:
        lines.append(Content.assemble(f"{needs} · with ", (one_line(estimate.base, 50), "bold")))
    else:
        lines.append(
            Content.styled(
                f"{needs}: more than this machine has. {one_line(estimate.advice, 160)}",
                "$tone-incomplete",
            )
        )
    lines += [Content.styled(one_line(note, 160), "$tone-borderline") for note in estimate.notes]
    return Content("\n").join(lines)


def figures_of(detail: RunDetail) -> list[tuple[str, str]]:
    """Names and values of the figures of a run, display-safe."""
    run = detail.run
    best = "" if run.best_step is None else f" at step {run.best_step:,}"
    lines = [
        ("state", state_word(run)),
        ("started (UTC)", date_and_minute(run.created_at)),
        ("running time", number_format.duration(run.seconds) if run.seconds else DASH),
        ("conversations", parts_text(run)),
        ("filter", one_line(detail.filter) or "all conversations"),
        ("steps", DASH if run.step is None else f"{run.step:,} of {run.steps or run.step:,}"),
        ("loss", loss(run.loss)),
        ("AUROC", f"{score(run.auroc)}{best}"),
        ("F1", f"{score(run.f1)}{best}"),
        ("memory", number_format.size(run.memory)),
    ]
    if run.tokens_per_s is not None:
        lines.append(("speed", f"{run.tokens_per_s:,.0f} tok/s"))
    if detail.parity is not None:
        lines.append(("llama.cpp", parity_text(detail.parity)))
    return lines


def parts_text(run: TrainingRun) -> str:
    """How many conversations are in each part of a run."""
    if run.test is None:
        return f"{run.conversations:,} trained on, {run.held_out:,} held out"
    return f"{run.conversations:,} train, {run.selection:,} select, {run.test:,} test"


def as_text(detail: RunDetail) -> str:
    """Settings and figures as lines of name and value, for the clipboard."""
    lines = [("run", detail.run.name), *figures_of(detail)]
    lines += [(setting.name, setting.value) for setting in detail.config]
    return "\n".join(f"{name}: {value}" for name, value in [*lines, ("folder", detail.folder)])


def ending(run: TrainingRun) -> str:
    """The result of a run that has just ended, or why it failed, display-safe."""
    if run.state in ("failed", "interrupted"):
        return one_line(f"{run.problem} {run.hint}", 400)
    return f"{state_word(run)}; AUROC {score(run.auroc)} on the selection part"


def summary_content(
    runs: Sequence[TrainingRun],
    starting: bool,
    missing: str,
    hint: str,
    hidden: Sequence[HiddenRun] = (),
) -> Content:
    """The line above the list of runs.

    Args:
        starting: Whether a new run is being started.
        missing, hint: Why nothing can be trained here, and what to do; else empty.
        hidden: Runs beside the project that are not its own.
    """
    parts: list[tuple[str, str] | str] = []
    parts.append((number_format.counted(len(runs), "run"), "bold"))
    running = next((run for run in runs if run.state == "running"), None)
    if starting:
        parts.append((" · writing the data of the new run …", "$tone-accent"))
    elif running is not None:
        parts.append(f" · {name_of(running)} is running; it goes on when you quit")
    used = next((run for run in runs if run.in_use), None)
    if used is not None:
        parts.append((f" · {IN_USE} {name_of(used)} is used for scoring", "$tone-muted"))
    if hidden:
        parts.append((f" · {hidden_text(hidden)}", "$tone-borderline"))
    if missing and runs:
        parts.append((f" · {one_line(missing, 300)} {one_line(hint, 300)}", "$tone-incomplete"))
    return Content.assemble(*parts)


def hidden_text(hidden: Sequence[HiddenRun]) -> str:
    """Which runs beside the project are not listed, the first by its name, display-safe."""
    others = f" and {len(hidden) - 1:,} more" if len(hidden) > 1 else ""
    return f"not listed: {hidden[0]}{others}"


def empty_state(
    missing: str, hint: str, conversations: int | None, hidden: Sequence[HiddenRun] = ()
) -> EmptyState:
    """How to start a run where there is none; why not where training is not possible here.

    Args:
        missing, hint: Why nothing can be trained here, and what to do; else empty.
        conversations: How many the project has; None while they are counted.
        hidden: Runs beside the project that are not its own.
    """
    what = (
        "No training runs yet.\n\n"
        "A run adapts a local model to your conversations: it learns where they end,\n"
        "so that “did the user get what they wanted?” is measured on your own logs.\n"
        "Nothing leaves this machine; the run goes on when you quit."
    )
    if hidden:
        what += f"\n\nBeside the project, {hidden_text(hidden)}."
    if missing:
        what += f"\n\n{one_line(missing, 300)}\n{one_line(hint, 300)}"
        return EmptyState(what, "shows the reason", "new")
    many = "the conversations" if conversations is None else f"{conversations:,} conversations"
    starts = f"chooses out of {many}, and says first what it costs"
    return EmptyState(what, starts, "new")


def run_columns() -> list[Column[TrainingRun]]:
    """Name, state, recipe, base, conversations, figures, start and running time."""

    def name(run: TrainingRun) -> Sequence[Piece]:
        used = f"{IN_USE} " if run.in_use else ""
        return [(used, "tone--accent"), (one_line(run.name, 200), "")]

    def state(run: TrainingRun) -> Sequence[Piece]:
        look = STATES[run.state]
        word = state_word(run)
        if word == "running" and run.step is not None and run.steps:
            word = f"{100 * run.step / run.steps:.0f}%"
        return [(f"{look.glyph} {word}", look.tone_class)]

    def figure(value: float | None) -> Sequence[Piece]:
        return [(score(value), "" if value is not None else "tone--muted")]

    return [
        Column("name", "run", 16, name, flexible=True),
        Column("state", "state", 13, state),
        Column("recipe", "recipe", 10, lambda run: [(one_line(run.recipe, 20), "")], keep=4),
        Column("base", "base", 22, lambda run: [(one_line(run.base, 60), "tone--muted")], keep=1),
        Column("trained", "trained on", 10, lambda run: [(f"{run.conversations:,}", "")],
               right=True, keep=3),
        Column("auroc", "AUROC", 5, lambda run: figure(run.auroc), right=True, keep=8),
        Column("f1", "F1", 5, lambda run: figure(run.f1), right=True, keep=7),
        Column("when", "started (UTC)", 16, lambda run: [(date_and_minute(run.created_at), "tone--muted")],
               keep=2),
        Column("time", "time", 10,
               lambda run: [(number_format.duration(run.seconds) if run.seconds else DASH, "")],
               right=True, keep=5),
    ]  # fmt: skip
