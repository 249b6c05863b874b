"""Finds the fastest faithful format of a model's weights, and the best number of threads, on this machine.

Runs in the model process. A format is the type of number in which a GGUF file holds weights, such as BF16 (16 bits) or
Q4_0 (4 bits); F32 is the most exact. A format is faithful if the most probable next token agrees with the F32 expansion
of the same weights at least as often as the shipped file's does, and in at least 97% of places. The agreement of a
format is that share of places.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import Cancelled
from engine.base.files import create_private_folder, temporary_private_folder
from engine.model.interface import LoadOptions, Span, TokenModel
from engine.model.llamacpp.files import gpu_offload, quantize
from engine.model.llamacpp.model import LlamaModel
from engine.model.memory_plan import is_machine_busy, system_memory

AS_SHIPPED = "as is"
"""Name of the format of the file as shipped, whatever it is."""

MIN_AGREEMENT = 0.97
"""Least share of places in a text where a format must have the most probable token of F32 to be faithful."""

CANDIDATES = ("bf16", "f16", "q8_0", "q4_0")
"""Formats that tuning measures besides the file as shipped. F16 is the fastest faithful one on processors without BF16;
F32 was the fastest on none (`docs/lab/experiments.md`). Formats for which llama.cpp has kernels it repacks while
loading, such as Q4_0 on AVX2."""

SPEED_TOKENS = 256
"""Tokens of the text on which the speed of a model is measured."""

AGREEMENT_TOKENS = 384
"""Tokens of the text on which formats are compared with F32."""

TUNING_CONTEXT = 2048
"""Tokens of the context of a model while it is measured."""

NOISE_TOKENS = 64
"""Tokens on which the batch noise is measured."""

CLEAR_GAIN = 1.1
"""Ratio of two speeds from which on the difference is taken for more than chance."""

THREAD_ROUNDS = 3
"""Rounds in which two numbers of threads are compared."""

ROUNDS = 3
"""Number of rounds in which all formats are measured, so that a round in which another program slows one format is
outvoted."""

MAX_F32_SHARE = 0.4
"""Largest share of memory, and of free disk, that the model expanded to F32 may take; larger models keep their
format."""


def measure_speed(
    model: TokenModel,
    tokens: Sequence[int],
    *,
    rounds: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Returns the prompt tokens a second: the best of some rounds over the same `SPEED_TOKENS` tokens. A shorter text
    is read again and again.

    Each batch asks for the logits of its last token only, as scoring asks for those of few.

    Args:
        clock: In seconds; `time.process_time` for tokens a second of processor time.
    """
    batch = model.capacity.batch
    read_tokens = list(islice(cycle(tokens), SPEED_TOKENS)) if tokens else []
    best = 0.0
    for _ in range(rounds):
        model.clear()
        start = clock()
        for position in range(0, len(read_tokens), batch):
            chunk = read_tokens[position : position + batch]
            model.decode([Span(chunk, position, (0,), (len(chunk) - 1,))])
        best = max(best, len(read_tokens) / (clock() - start))
    model.clear()
    return best


def measure_noise(model: TokenModel, tokens: Sequence[int]) -> float:
    """Returns the largest change of any next-token probability when the same tokens are decoded one by one.

    Kernels differ by batch size, so two correct scores of the same text can differ by this much.
    """
    sample = list(tokens[:NOISE_TOKENS])
    model.clear()
    together = _softmax(model.decode([Span(sample, 0, (0,), tuple(range(len(sample))))]))
    model.clear()
    largest_change = 0.0
    for position, token in enumerate(sample):
        (alone,) = _softmax(model.decode([Span([token], position, (0,), (0,))]))
        largest_change = max(largest_change, float(np.abs(alone - together[position]).max()))
    model.clear()
    return largest_change


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the probabilities for rows of logits; both have the shape (rows, vocabulary)."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float32)


def _top_tokens(model: TokenModel, tokens: Sequence[int]) -> NDArray[np.int64]:
    """Returns the most probable next token after each token of a text, shape (tokens,)."""
    step = min(model.capacity.batch, model.capacity.rows)
    tops: list[int] = []
    model.clear()
    for start in range(0, len(tokens), step):
        chunk = tokens[start : start + step]
        rows = model.decode([Span(chunk, start, (0,), tuple(range(len(chunk))))])
        tops += rows.argmax(axis=1).tolist()
    model.clear()
    return np.array(tops)


def tune(
    source: Path,
    folder: Path,
    text: str,
    *,
    cancelled: Callable[[], bool],
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Measures formats and thread counts and leaves the fastest faithful file in `folder`.

    Args:
        source: The GGUF file as shipped.
        folder: Cache folder; gets `<stem>-<format>.gguf` for the chosen format only.
        text: Real text, some thousand tokens.
        cancelled: Returns whether the work is to stop; asked before each measurement.
        report: Called with the name of each step when it begins.

    See `by_turns` for how speeds are compared, and `choose_format` for what is chosen.

    Returns:
        `candidates` (a list of `format`, `tokens_per_s`, `agreement`, `bytes`, `verdict`), `chosen`, `file` (name in
        `folder`, or None for the file as shipped), `threads`, `tokens_per_s` of the chosen one, `gain` (its speed over
        that of the shipped file) and `noise` (see `measure_noise`).

    Raises:
        Cancelled: `cancelled` said so.
    """
    create_private_folder(folder)
    cores = os.cpu_count() or 1
    is_busy = is_machine_busy(cores)  # before this program makes load itself
    with temporary_private_folder(folder) as unfinished:
        comparison = _Comparison(source, unfinished, text, cores, cancelled, report)
        candidates = comparison.make_candidates(expandable=_expandable(source, folder))
        faithful = [candidate for candidate in candidates if candidate["verdict"] == "faithful"]
        best, gain = by_turns(faithful, comparison.measure)
        tuned_file = comparison.keep(best["format"], folder)
        report("choosing the number of threads")
        threads, speed, noise = _best_threads(tuned_file or source, text, cores, is_busy, cancelled)
        # The rounds measured the format on all cores too, so the best of both is its speed.
        speed = max(speed, best["tokens_per_s"]) if threads == cores else speed
        return {
            "candidates": candidates,
            "chosen": best["format"],
            "file": tuned_file.name if tuned_file else None,
            "threads": threads,
            "tokens_per_s": speed,
            "gain": gain,
            "noise": noise,
        }


@dataclass(slots=True)
class _Comparison:
    """Makes and measures the files of one model in all formats.

    Attributes:
        folder: Gets the files.
        cores: Number of threads that convert.
        source, text, cancelled, report: See `tune`.
        _files, _candidates: The files that were made, by format, and their candidates.
    """

    source: Path
    folder: Path
    text: str
    cores: int
    cancelled: Callable[[], bool]
    report: Callable[[str], None]
    _files: dict[str, Path] = field(default_factory=dict)
    _candidates: list[dict[str, Any]] = field(default_factory=list)

    def make_candidates(self, *, expandable: bool) -> list[dict[str, Any]]:
        """Makes the file of each format and returns a candidate for each, without its speed; see `tune`.

        Args:
            expandable: Whether there is room for F32; if not, the file as shipped is the only candidate.
        """
        f32_tokens = self._tokens_of_f32() if expandable else None
        shipped = self._candidate(AS_SHIPPED, f32_tokens, 0.0)
        self._candidates = [shipped]
        if f32_tokens is not None:
            least_agreement = max(shipped["agreement"], MIN_AGREEMENT)
            self._candidates += [
                self._candidate(name, f32_tokens, least_agreement) for name in CANDIDATES
            ]
        return self._candidates

    def _tokens_of_f32(self) -> NDArray[np.int64]:
        """Expands the weights to F32 and returns the most probable token after each token of the text, shape
        (tokens,)."""
        self.report("expanding to F32")
        reference = self.folder / "f32.gguf"
        quantize(self.source, reference, "f32", self.cores)
        model = _load(reference, self.cancelled)
        f32_tokens = _top_tokens(model, model.tokenize(self.text)[:AGREEMENT_TOKENS])
        model.close()
        return f32_tokens

    def _candidate(
        self, weight_format: str, f32_tokens: NDArray[np.int64] | None, least_agreement: float
    ) -> dict[str, Any]:
        """Makes the file of a format and returns its candidate, which is faithful from `least_agreement` on."""
        self.report(f"comparing {weight_format} with F32")
        file = self.source
        if weight_format != AS_SHIPPED:
            file = self.folder / f"{weight_format}.gguf"
            quantize(self.source, file, weight_format, self.cores)
        self._files[weight_format] = file
        agreement = None
        if f32_tokens is not None:
            model = _load(file, self.cancelled)
            top_tokens = _top_tokens(model, model.tokenize(self.text)[: len(f32_tokens)])
            agreement = float((top_tokens == f32_tokens).mean())
            model.close()
        is_faithful = agreement is None or agreement >= least_agreement
        return {
            "format": weight_format,
            "tokens_per_s": None,
            "agreement": agreement,
            "bytes": file.stat().st_size,
            "verdict": "faithful" if is_faithful else "changes too many answers",
        }

    def measure(self, weight_format: str) -> float:
        """Measures the speed of a format once; keeps the best tokens a second in its candidate, and returns the speed
        to compare formats by."""
        self.report(f"measuring {weight_format}")
        model = _load(self._files[weight_format], self.cancelled)
        tokens = model.tokenize(self.text)
        (candidate,) = (entry for entry in self._candidates if entry["format"] == weight_format)
        candidate["tokens_per_s"] = max(
            candidate["tokens_per_s"] or 0.0, measure_speed(model, tokens, rounds=1)
        )
        # What other programs do changes how long a reading takes, and much less how much work it is.
        clock = time.perf_counter if gpu_offload() else time.process_time
        speed = measure_speed(model, tokens, rounds=1, clock=clock)
        model.close()
        return speed

    def keep(self, weight_format: str, folder: Path) -> Path | None:
        """Moves the file of the chosen format to the cache folder; returns its path, None for the file as shipped."""
        if weight_format == AS_SHIPPED:
            return None
        tuned_file = folder / f"{self.source.stem}-{weight_format}.gguf"
        self._files[weight_format].replace(tuned_file)
        return tuned_file


def _expandable(source: Path, folder: Path) -> bool:
    """Whether the weights of a file in F32 take at most `MAX_F32_SHARE` of the memory and of the free disk of a
    folder."""
    # Four bits a weight is the least that is shipped, so eight times the file is the most F32 can take.
    need = source.stat().st_size * 8
    free_on_disk = shutil.disk_usage(folder).free
    return need < min(system_memory() or free_on_disk, free_on_disk) * MAX_F32_SHARE


def _load(path: Path, cancelled: Callable[[], bool]) -> LlamaModel:
    """Loads a model to measure; raises `Cancelled` in place of that if it was asked to stop."""
    if cancelled():
        raise Cancelled("Tuning was cancelled.")
    return LlamaModel(path, LoadOptions(context=TUNING_CONTEXT), cancelled)


def by_turns(
    candidates: Sequence[dict[str, Any]], measure: Callable[[str], float]
) -> tuple[dict[str, Any], float]:
    """Measures formats by turns, forth and back, so that what other programs do meanwhile slows all alike, and chooses
    one by the median speed of each; see `choose_format`.

    Args:
        candidates: Faithful formats, the file as shipped first, as `tune` returns them.
        measure: Measures the speed of a format.

    Returns:
        The chosen candidate, and the median over the rounds of its speed over that of the file as shipped.
    """
    formats = [candidate["format"] for candidate in candidates]
    rounds: list[dict[str, float]] = []
    for number in range(ROUNDS if len(formats) > 1 else 1):
        order = formats if number % 2 == 0 else formats[::-1]
        rounds.append({name: measure(name) for name in order})
    chosen = choose_format(
        [
            {
                **candidate,
                "tokens_per_s": statistics.median(speeds[candidate["format"]] for speeds in rounds),
            }
            for candidate in candidates
        ]
    )["format"]
    gain = statistics.median(speeds[chosen] / speeds[formats[0]] for speeds in rounds)
    return candidates[formats.index(chosen)], gain


def choose_format(candidates: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the fastest faithful candidate, or the most faithful of those that are not clearly slower.

    Differences below `CLEAR_GAIN` may be chance, so they do not pay for other answers.

    Args:
        candidates: As `tune` returns them; those that change too many answers have no speed.
    """
    faithful = [candidate for candidate in candidates if candidate["tokens_per_s"]]
    fastest = max(candidate["tokens_per_s"] for candidate in faithful)
    fast_enough = [
        candidate for candidate in faithful if candidate["tokens_per_s"] * CLEAR_GAIN >= fastest
    ]
    return max(
        fast_enough,
        key=lambda candidate: (candidate["agreement"] or 0.0, candidate["tokens_per_s"]),
    )


def choose_threads(speed: Callable[[int], float], cores: int, *, is_busy: bool) -> int:
    """Returns the number of threads to use: one on every core, or on every second where that is clearly faster.

    Cores that share their execution units can be faster when half of them are used. Both numbers are measured in turn,
    so that what another program does meanwhile slows both. Under load fewer threads look better than they are once the
    load is gone, so then nothing is compared.

    Args:
        speed: Measures tokens a second with a number of threads.
    """
    half = max(1, cores // 2)
    if half == cores or is_busy:
        return cores
    rounds = [(speed(cores), speed(half)) for _ in range(THREAD_ROUNDS)]
    half_always_faster = all(with_half > with_all for with_all, with_half in rounds)
    best_with_all, best_with_half = (max(speeds) for speeds in zip(*rounds, strict=True))
    clearly_faster = half_always_faster and best_with_half > CLEAR_GAIN * best_with_all
    return half if clearly_faster else cores


def _best_threads(
    path: Path, text: str, cores: int, is_busy: bool, cancelled: Callable[[], bool]
) -> tuple[int, float, float]:
    """Returns the number of threads, its speed in tokens a second and the noise; see `measure_noise`."""
    model = _load(path, cancelled)
    tokens = model.tokenize(text)
    noise = measure_noise(model, tokens)
    best_speeds: dict[int, float] = {}

    def speed(threads: int) -> float:
        """Measures the tokens a second with a number of threads, and keeps the best speed of each number."""
        if cancelled():
            raise Cancelled("Tuning was cancelled.")
        model.use_threads(threads)
        tokens_per_s = measure_speed(model, tokens, rounds=1)
        best_speeds[threads] = max(tokens_per_s, best_speeds.get(threads, 0.0))
        return tokens_per_s

    try:
        threads = choose_threads(speed, cores, is_busy=is_busy)
        if threads not in best_speeds:
            speed(threads)
    finally:
        model.close()
    return threads, best_speeds[threads], noise
