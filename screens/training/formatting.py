"""What the training screens say of a run, as texts and `Content`. Without widgets."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.content import Content

from engine import number_format
from engine.services.training.records import (
    Parity,
    RunDetail,
    RunState,
    SampleRow,
    TrainingEstimate,
    TrainingRun,
)
from engine.text import one_line
from screens.widgets.states import Look

NAME_CHARACTERS = 40
SAID_AT = 42
"""Cells of a line before and around what the model says."""
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


def when(created_at: str) -> str:
    """A time as it is shown: date and minute, display-safe."""
    return one_line(created_at[:16].replace("T", " "))


def loss(value: float | None) -> str:
    """A loss in three digits that mean something, `2.31`, `.041`; a dash for None, `inf` and `nan` as they are."""
    if value is None:
        return DASH
    if not math.isfinite(value):
        return str(value)
    return f"{value:.2f}" if value >= 1 else number_format.probability(value, 3)


def score(value: float | None) -> str:
    """An AUROC or F1 in three digits; a dash for None."""
    return number_format.probability(value, 3) if _is_number(value) else DASH


def _is_number(value: float | None) -> bool:
    """Whether it is there and finite: a run that went wrong writes others."""
    return value is not None and math.isfinite(value)


def state_word(run: TrainingRun) -> str:
    """The state in a word or two."""
    return run.phase or STATES[run.state].word


def state_content(run: TrainingRun) -> Content:
    """Glyph, word and process."""
    look = STATES[run.state]
    pid = f" (pid {run.pid})" if run.pid is not None else ""
    return Content.styled(f"{look.glyph} {state_word(run)}{pid}", f"bold {look.tone_variable}")


def progress_parts(run: TrainingRun, available: int | None) -> list[str]:
    """How far a run is and what it takes, each a few words; `available` is the memory there is, in bytes."""
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
    """Everything that is true of a run now, in the order in which it gives way."""
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
    """Why a run failed or broke off and what to do; None where there is nothing to say."""
    if run.state != "failed" and not run.problem:
        return None
    cause = one_line(run.problem, 600) or "It ended without saying why; l shows its log."
    lines = [Content.styled(cause, STATES[run.state].tone_variable)]
    if run.hint:
        lines.append(Content.styled(one_line(run.hint, 600), "$tone-accent"))
    return Content("\n").join(lines)


def share(sample: SampleRow) -> float:
    """The probability of the end among the end and going on; one half where neither has any, or is a number."""
    whole = sample.p_end + sample.p_continue
    return sample.p_end / whole if whole > 0 and math.isfinite(whole) else 0.5


def pairs(samples: Sequence[SampleRow]) -> list[tuple[SampleRow, SampleRow | None]]:
    """For each place the first sample and the newest, None where there is one only."""
    places: dict[tuple[str, str, bool], list[SampleRow]] = {}
    for sample in samples:
        places.setdefault((sample.id, sample.text, sample.ends), []).append(sample)
    found = []
    for rows in places.values():
        ordered = sorted(rows, key=lambda row: row.step)
        found.append((ordered[0], ordered[-1] if len(ordered) > 1 else None))
    return found


def sample_content(samples: Sequence[SampleRow], width: int) -> list[Content]:
    """What the model said at each place, before and now."""
    lines: list[Content] = []
    for first, last in pairs(samples):
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
        lines += [_said(sample, width) for sample in (first, last) if sample is not None]
    return lines


def _said(sample: SampleRow, width: int) -> Content:
    name = "before" if sample.step == 0 else f"step {sample.step:,}"
    value = share(sample)
    right = (value >= 0.5) == sample.ends
    says = one_line(sample.says, max(20, width - SAID_AT))
    told = f"“{says}”" if says else "the end"
    return Content.assemble(
        (f"  {name:<11}", "$tone-muted"),
        ("end ", "$tone-muted"),
        f"{number_format.bar(value)} {number_format.small_probability(value):>4} ",
        ("✓" if right else "✗", "$tone-complete" if right else "$tone-incomplete"),
        (" says ", "$tone-muted"),
        (told, "$tone-model"),
    )


def parity_words(parity: Parity) -> str:
    """How well both programs agree, display-safe."""
    if parity.top1 is None:
        return f"not checked against llama.cpp: {one_line(parity.skipped, 200)}"
    told = f"llama.cpp agrees on {100 * parity.top1:.1f}% of {number_format.counted(parity.tokens, 'token')}"
    if parity.max_dp is not None:
        told += f", probabilities within {number_format.small_probability(parity.max_dp)}"
    return told


def about_content(detail: RunDetail, width: int) -> Content:
    """Samples, what became of the check, warnings: what stands below the curves."""
    lines = sample_content(detail.samples, width)
    if not lines and detail.run.state == "running":
        lines.append(
            Content.styled("What the model says at held-out boundaries comes here.", "$tone-muted")
        )
    if detail.parity is not None:
        lines.append(Content.styled(parity_words(detail.parity), "$tone-muted"))
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
    """What a run would cost, in words."""
    unused = estimate.matched - estimate.train - estimate.held_out
    lines = [
        Content.assemble(
            (number_format.counted(estimate.matched, "conversation"), "bold"),
            f": {estimate.train:,} to train on, {estimate.held_out:,} held out",
            f", {unused:,} not used" if unused > 0 else "",
        )
    ]
    facts = []
    if estimate.tokens is not None:
        facts.append(f"{number_format.amount(estimate.tokens)} tokens an epoch")
    if estimate.steps is not None:
        facts.append(number_format.counted(estimate.steps, "step"))
    guess = "as measured here" if estimate.measured else "a guess: nothing was trained here yet"
    facts.append(
        f"about {number_format.duration(estimate.seconds)} ({guess})"
        if estimate.seconds is not None
        else "time unknown"
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
                f"{needs}: more than there is. {one_line(estimate.advice, 160)}", "$tone-incomplete"
            )
        )
    lines += [Content.styled(one_line(note, 160), "$tone-borderline") for note in estimate.notes]
    return Content("\n").join(lines)


def figures_of(detail: RunDetail) -> list[tuple[str, str]]:
    """Names and values of what came of a run, display-safe."""
    run = detail.run
    best = "" if run.best_step is None else f" at step {run.best_step:,}"
    lines = [
        ("state", state_word(run)),
        ("begun (UTC)", when(run.created_at)),
        ("worked", number_format.duration(run.seconds) if run.seconds else DASH),
        ("conversations", f"{run.conversations:,} trained on, {run.held_out:,} held out"),
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
        lines.append(("check", parity_words(detail.parity)))
    return lines


def as_text(detail: RunDetail) -> str:
    """Settings and figures as lines of name and value, for the clipboard."""
    lines = [("run", detail.run.name), *figures_of(detail)]
    lines += [(setting.name, setting.value) for setting in detail.config]
    return "\n".join(f"{name}: {value}" for name, value in [*lines, ("folder", detail.folder)])
