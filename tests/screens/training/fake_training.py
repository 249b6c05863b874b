"""The port `Training` in memory: runs that are given, and what was asked of them."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import ProjectReadOnly, UsageError, WorkbenchError
from engine.records.interval import Interval
from engine.records.validation import Classification, CompletenessTable, TruncationRow
from engine.services.training.records import (
    LossPoint,
    Offer,
    Parity,
    RunDetail,
    SampleRow,
    Setting,
    TrainingEstimate,
    TrainingOffers,
    TrainingRequest,
    TrainingRun,
    ValidPoint,
)

OFFERS = TrainingOffers(
    recipes=(
        Offer("boundary", "boundary", "At every place where a conversation could end, does it?"),
        Offer("paper", "paper", "The last answer and the end tag."),
        Offer("no-end-tag", "no end tag", "The last answer alone, to see what the tag is worth."),
    ),
    presets=(
        Offer("cpu", "CPU, 8 GB", "One conversation at a time, plain AdamW."),
        Offer("8g", "GPU with 8 GB", "Four bits for the base, activations computed twice."),
        Offer("24g", "GPU with 24 GB", "bfloat16, eight conversations at a time."),
    ),
    preset="cpu",
    bases=(
        Offer("SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct", "Comes with the program."),
        Offer("Qwen3-0.6B", "Qwen3-0.6B", "Added on 2026-10-02."),
    ),
    settings=(
        Offer("epochs", "epochs", "Times that every conversation is read."),
        Offer("learning_rate", "learning_rate", "Highest step size of AdamW."),
        Offer("rank", "rank", "Rank of the adapter's matrices."),
    ),
    memory=24_000_000_000,
    device="CPU",
)


def run(name: str = "support-v3", **given: object) -> TrainingRun:
    """A finished run, changed as given."""
    finished = TrainingRun(
        name, "finished", "boundary", "SmolLM2-135M-Instruct", 18, 18, "2026-10-30T09:12:00Z", 412.0,
        step=640, steps=640, epoch=3.0, epochs=3.0, loss=0.041, tokens_per_s=1840.0, seconds_left=0.0,
        memory=7_100_000_000, auroc=0.981, f1=0.94, best_step=400, adapter=True,
    )  # fmt: skip
    return replace(finished, **given)  # type: ignore[arg-type]


def running(name: str = "support-v4", step: int = 412) -> TrainingRun:
    """A run that works."""
    return run(
        name, state="running", step=step, epoch=step / 640 * 3, seconds_left=360.0, pid=4711,
        best_step=400, created_at="2026-10-31T08:00:00Z", adapter=False,
    )  # fmt: skip


FAILED = run(
    "too-big", state="failed", base="Qwen3-0.6B", step=3, auroc=None, f1=None, best_step=None,
    adapter=False, loss=2.4, seconds=30.0, problem="The GPU has no memory left: 25.1 GB were asked for.",
    hint="Lower rows (now 8), or set recompute=true.", created_at="2026-10-29T08:00:00Z",
)  # fmt: skip
SAMPLES = (
    SampleRow(0, "tau-0132", "May I have your order number?", False, 0.01, 0.6, "TURN 2, STEP 3, user"),
    SampleRow(0, "tau-0132", "Your order is confirmed.", True, 0.02, 0.64, "TURN 5, STEP 9, user"),
    SampleRow(400, "tau-0132", "May I have your order number?", False, 0.001, 0.9, "TURN 2, STEP 3"),
    SampleRow(400, "tau-0132", "Your order is confirmed.", True, 0.93, 0.04, ""),
)  # fmt: skip


def detail(of: TrainingRun) -> RunDetail:
    """Curves up to the run's step, samples, a few lines of log."""
    last = of.step or 0
    loss = tuple(
        LossPoint(step, 2.3 / (1 + step / 12) + 0.03 + (step * 7 % 5) / 90)
        for step in range(1, last + 1, 3)
    )
    valid = tuple(
        ValidPoint(
            step, 0.5 / (1 + step / 60) + 0.03, min(0.981, 0.6 + step / 900), min(0.94, step / 420),
            18, step <= 400,
        )
        for step in range(25, last + 1, 25)
    )  # fmt: skip
    return RunDetail(
        of,
        loss,
        valid,
        samples=SAMPLES if last >= 400 else SAMPLES[:2] if last else (),
        resumed=(120,) if last > 120 else (),
        warnings=("2 conversations were longer than 2,048 tokens; their beginning was cut.",),
        parity=Parity(0.997, 0.004, 612) if of.state == "finished" else None,
        last_lines=("loading SmolLM2-135M-Instruct", f"step {last}: loss .041"),
        config=(
            Setting("recipe", of.recipe, "What is learned."),
            Setting(
                "learning_rate", "0.0002" if of.name == "support-v3" else "0.0005", "Step size."
            ),
            Setting("rank", "16", "Rank of the adapter's matrices."),
        ),
        filter="turns>2",
        folder=f"support-october.training/{of.name}",
    )


class FakeTraining:
    """Runs by name, newest first; `log_text` and `fail_next` are a test's to change."""

    def __init__(self, *runs: TrainingRun) -> None:
        self.given = list(runs)
        self.offered = OFFERS
        self.read_only: str | None = None
        self.fail_next: WorkbenchError | None = None
        self.fail_reading: WorkbenchError | None = None
        self.wished: list[TrainingRequest] = []
        self.estimated: list[TrainingRequest] = []
        self.done: list[tuple[str, str | None]] = []
        self.read = 0
        self.log_text = "first line\nsecond line"
        self.details: dict[str, RunDetail] = {}

    def change(self, name: str, **given: object) -> None:
        """Changes a run as a process would."""
        self.given = [
            replace(one, **given) if one.name == name else one  # type: ignore[arg-type]
            for one in self.given
        ]

    def _find(self, name: str) -> TrainingRun:
        for one in self.given:
            if one.name == name:
                return one
        raise UsageError(f"There is no run {name}.")

    def _write(self, what: str, name: str | None) -> None:
        if self.read_only is not None:
            raise ProjectReadOnly(self.read_only)
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error
        self.done.append((what, name))

    # The port

    def offers(self) -> TrainingOffers:
        return self.offered

    def runs(self) -> list[TrainingRun]:
        self.read += 1
        if self.fail_reading is not None:
            raise self.fail_reading
        return list(self.given)

    def detail(self, name: str) -> RunDetail:
        return self.details.get(name) or detail(self._find(name))

    def log(self, name: str) -> str:
        self._find(name)
        return self.log_text

    def estimate(self, wish: TrainingRequest) -> TrainingEstimate:
        self.estimated.append(wish)
        if wish.name in [one.name for one in self.given]:
            raise UsageError(f"There is a run {wish.name} already.", "Give it another name.")
        matched = 36 if not wish.filter else 12
        train = min(wish.limit or matched, round(matched * (1 - wish.held_out)))
        fits = wish.preset != "24g"
        return TrainingEstimate(
            wish.name or f"run-{len(self.given) + 1}", matched, train, round(matched * wish.held_out),
            48_200, 21, 3_100_000_000 if fits else 31_000_000_000, fits, 190.0, True,
            wish.base or "SmolLM2-135M-Instruct", "" if fits else "Lower rows, or choose 8g.",
        )  # fmt: skip

    def start(self, wish: TrainingRequest) -> str:
        name = wish.name or f"run-{len(self.given) + 1}"
        self._write("start", name)
        self.wished.append(wish)
        new = TrainingRun(name, "running", wish.recipe, "SmolLM2-135M-Instruct", 18, 18,
                          "2026-11-01T08:00:00Z", 0.0, pid=99)  # fmt: skip
        self.given.insert(0, new)
        return name

    def stop(self, name: str) -> None:
        self._write("stop", name)
        self.change(name, stopping=True)

    def resume(self, name: str) -> None:
        self._write("resume", name)
        self.change(name, state="running", pid=100)

    def delete(self, name: str) -> None:
        self._write("delete", name)
        self.given = [one for one in self.given if one.name != name]

    def use(self, name: str | None) -> None:
        self._write("use", name)
        self.given = [replace(one, in_use=one.name == name) for one in self.given]

    def table(self, name: str | None) -> CompletenessTable:
        if self.fail_next is not None:
            raise self.fail_next
        rows = (
            TruncationRow("tuned support-v3", "scores", 18, _found(0.981), "tuned"),
            TruncationRow("base", "scores", 18, _found(0.48), "base"),
            TruncationRow("keyword rule", "keywords", 18, _found(0.7)),
        )
        return CompletenessTable(name, 0, 0.5, 20, 2, 18, rows, ())


def _found(auroc: float) -> Classification:
    best = Interval(auroc, max(0.0, auroc - 0.05), min(1.0, auroc + 0.012))
    other = Interval(auroc - 0.04, auroc - 0.1, auroc)
    return Classification(other, other, other, other, best, best, Interval(0.03, 0.01, 0.06))
