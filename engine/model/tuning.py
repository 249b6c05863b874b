"""Finds the fastest faithful format of a model's weights, and the best number of threads, on this machine.

Runs in the model process. A format is faithful if the most probable next token agrees with the F32 expansion of
the same weights at least as often as the shipped file's does, and in at least 97% of places.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import Cancelled, OutOfMemory
from engine.base.files import create_private_folder, temporary_private_folder
from engine.model.gguf_file import read_gguf
from engine.model.interface import SPEED_TOKENS, LoadOptions, Span, TokenModel
from engine.model.llamacpp import LlamaModel, gpu_offload, quantize
from engine.model.memory_plan import busy

MIN_AGREEMENT = 0.97
"""Least share of places where a faithful format has the most probable token of F32."""

CANDIDATES = ("bf16", "f16", "q8_0", "q4_0")
"""Formats beside the file as shipped. F16 is the fastest faithful one on processors without BF16. F32 never was on any
(`docs/lab/experiments.md`). What llama.cpp has kernels for it repacks while loading, as Q4_0 on AVX2."""
AGREEMENT_TOKENS = 384
"""Tokens of the text on which formats are compared with F32."""

SCREENED_TOKENS, MIN_SCREENED_AGREEMENT = 128, 0.9
"""A format whose agreement over the first tokens is lower is not measured further."""
LONG_TOKENS = 2048
"""Tokens of the second measurement, which shows the cost of attention on a long text."""
NOISE_TOKENS = 64
"""Tokens on which the batch noise is measured."""

CLEAR_GAIN = 1.1
"""Ratio of two speeds from which the difference is no chance."""

THREAD_ROUNDS = 3
"""Rounds in which two numbers of threads are compared."""

DECIDING_LEAD, MAX_ROUNDS = 2, 7
"""Formats are measured by turns until one was the choice of so many rounds more than any other, or so often."""
MAX_SLOWDOWN = 1.3
"""A format is measured further only if it was at most this many times slower than the best in one of the rounds."""
MAX_F32_SHARE = 0.4
"""The F32 expansion may take this share of memory and of free disk; larger models keep their format."""


def speed_of(
    model: TokenModel,
    tokens: Sequence[int],
    *,
    rounds: int = 2,
    length: int = SPEED_TOKENS,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Returns the prompt tokens a second: the best of some rounds over the same tokens, one row wanted per batch.

    Args:
        length: How many of the tokens are read; a shorter text is read again and again.
        clock: In seconds; `time.process_time` for tokens a second of processor time.
    """
    batch = model.capacity.batch
    read_tokens = list(islice(cycle(tokens), length)) if tokens else []
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


def noise_of(model: TokenModel, tokens: Sequence[int]) -> float:
    """Returns the largest change of any next-token probability when the same tokens are decoded one by one.

    Kernels differ by batch size, so two correct scores of the same text can differ by this much.
    """
    sample = list(tokens[:NOISE_TOKENS])
    model.clear()
    together = _softmax(model.decode([Span(sample, 0, (0,), tuple(range(len(sample))))]))
    model.clear()
    largest_change = 0.0
    for position, token in enumerate(sample):
        alone = _softmax(model.decode([Span([token], position, (0,), (0,))]))[0]
        largest_change = max(largest_change, float(np.abs(alone - together[position]).max()))
    model.clear()
    return largest_change


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float32)


def _top_tokens(model: TokenModel, tokens: Sequence[int]) -> NDArray[np.int64]:
    """Returns the most probable next token after each token of a text."""
    step = min(model.capacity.batch, model.capacity.rows)
    model.clear()
    tops = []
    for position in range(0, len(tokens), step):
        chunk = tokens[position : position + step]
        tops.append(
            model.decode([Span(chunk, position, (0,), tuple(range(len(chunk))))]).argmax(axis=1)
        )
    model.clear()
    return np.concatenate(tops)


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

    See `by_turns` for how speeds are compared, and `choose_format` for what is chosen.

    Returns:
        `candidates` (a list of `format`, `tokens_per_s`, `agreement`, `bytes`, `verdict`), `chosen`, `settled` (whether
        the rounds agreed on it), `file` (name in `folder`, or None for the file as shipped), `threads`, `gain` (speed
        over the shipped file) and `noise`.
    """
    create_private_folder(folder)
    cores = os.cpu_count() or 1
    is_busy = busy(cores)  # before this program makes load itself
    candidates: list[dict[str, Any]] = []
    files: dict[str, Path] = {"as is": source}
    with temporary_private_folder(folder) as unfinished:
        reference = unfinished / "f32.gguf"
        expandable = _expandable(source, folder)
        if expandable:
            report("expanding to F32")
            expand(source, reference)
            model = _load(reference, cancelled)
            tokens = model.tokenize(text)[:AGREEMENT_TOKENS]
            f32_tokens = _top_tokens(model, tokens)
            model.close()
        shipped_agreement = 1.0
        for weight_format in ("as is", *(CANDIDATES if expandable else ())):
            report(f"comparing {weight_format} with F32")
            if weight_format != "as is":
                files[weight_format] = unfinished / f"{weight_format}.gguf"
                quantize(source, files[weight_format], weight_format, cores)
            agreement = None
            if expandable:
                model = _load(files[weight_format], cancelled)
                tokens = model.tokenize(text)
                agreement = _agreement(model, tokens, f32_tokens, weight_format != "as is")
                model.close()
                if weight_format == "as is":
                    shipped_agreement = agreement
            faithful = (
                agreement is None
                or weight_format == "as is"
                or agreement >= max(shipped_agreement, MIN_AGREEMENT)
            )
            candidates.append(
                {
                    "format": weight_format,
                    "tokens_per_s": None,
                    "agreement": agreement,
                    "bytes": files[weight_format].stat().st_size,
                    "verdict": "faithful" if faithful else "changes too many answers",
                }
            )
        racing = [candidate for candidate in candidates if candidate["verdict"] == "faithful"]

        def measure(weight_format: str) -> float:
            report(f"measuring {weight_format}")
            model = _load(files[weight_format], cancelled)
            tokens = model.tokenize(text)
            (candidate,) = (
                candidate for candidate in racing if candidate["format"] == weight_format
            )
            candidate["tokens_per_s"] = max(
                candidate["tokens_per_s"] or 0.0, speed_of(model, tokens, rounds=1)
            )
            # What other programs do changes how long a reading takes, and much less how much work it is.
            clock = time.perf_counter if gpu_offload() else time.process_time
            compared = speed_of(model, tokens, rounds=1, clock=clock)
            model.close()
            return compared

        best, settled, gain = by_turns(racing, measure)
        tuned_file = None
        if best["format"] != "as is":
            tuned_file = folder / f"{source.stem}-{best['format']}.gguf"
            files[best["format"]].replace(tuned_file)
        report("choosing the number of threads")
        threads, speed, noise = _best_threads(tuned_file or source, text, cores, is_busy, cancelled)
        speed = max(speed, best["tokens_per_s"]) if threads == cores else speed
        return {
            "candidates": candidates,
            "chosen": best["format"],
            "settled": settled,
            "file": tuned_file.name if tuned_file else None,
            "threads": threads,
            "tokens_per_s": speed,
            "gain": gain,
            "noise": noise,
        }


def expand(source: Path, target: Path) -> None:
    """Writes the weights of `source` in F32, the yardstick for all other formats of them.

    Raises:
        ModelFileError: The file is missing or no GGUF file.
        ModelError: They take too much of memory or disk, or llama.cpp could not write them.
    """
    read_gguf(source)
    if not _expandable(source, target.parent):
        raise OutOfMemory(
            f"{source.name} takes too much memory or disk in F32.",
            f"It may take {MAX_F32_SHARE:.0%} of each.",
        )
    quantize(source, target, "f32", os.cpu_count() or 1)


def _agreement(
    model: TokenModel, tokens: Sequence[int], f32_tokens: NDArray[np.int64], screen: bool
) -> float:
    """Returns the share of places where the most probable token is that of the F32 expansion."""
    if screen:
        first_tokens = _top_tokens(model, tokens[:SCREENED_TOKENS])
        agreement = float((first_tokens == f32_tokens[: len(first_tokens)]).mean())
        if agreement < MIN_SCREENED_AGREEMENT:
            return agreement
    return float((_top_tokens(model, tokens[: len(f32_tokens)]) == f32_tokens).mean())


def _expandable(source: Path, folder: Path) -> bool:
    # Four bits a weight is the least that is shipped, so eight times the file is the most F32 can take.
    need = source.stat().st_size * 8
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return need < min(memory, shutil.disk_usage(folder).free) * MAX_F32_SHARE


def _load(path: Path, cancelled: Callable[[], bool], threads: int | None = None) -> LlamaModel:
    if cancelled():
        raise Cancelled("Tuning was cancelled.")
    return LlamaModel(path, LoadOptions(context=2048, threads=threads), cancelled)


def by_turns(
    candidates: Sequence[dict[str, Any]], measure: Callable[[str], float]
) -> tuple[dict[str, Any], bool, float]:
    """Returns the choice among formats that are measured by turns, so that what other programs do meanwhile slows all
    alike.

    Each round measures every format once, forth and back. The rounds end when one format was chosen `DECIDING_LEAD`
    times more often than any other. If that does not come within `MAX_ROUNDS`, it is the most faithful of those that
    were chosen.

    Args:
        candidates: Faithful formats, the file as shipped first, as `tune` returns them.
        measure: Measures the speed of a format.

    Returns:
        The chosen candidate, whether the rounds agreed on it, and the median over the rounds of its speed over that of
        the file as shipped.
    """
    if len(candidates) == 1:
        measure(candidates[0]["format"])
        return candidates[0], True, 1.0
    rounds: list[dict[str, float]] = []
    choices: Counter[str] = Counter()
    racing = list(candidates)
    settled = False
    while not settled and len(rounds) < MAX_ROUNDS:
        order = racing if len(rounds) % 2 == 0 else racing[::-1]
        speeds = {candidate["format"]: measure(candidate["format"]) for candidate in order}
        rounds.append(speeds)
        of_round = [
            {**candidate, "tokens_per_s": speeds[candidate["format"]]} for candidate in racing
        ]
        choices[choose_format(of_round)["format"]] += 1
        if len(rounds) == DECIDING_LEAD:
            racing = [
                candidate
                for candidate in racing
                if candidate is candidates[0] or _may_win(candidate, rounds)
            ]
        first, second = [*choices.most_common(2), ("", 0)][:2]
        settled = first[1] - second[1] >= DECIDING_LEAD
    chosen_once = [candidate for candidate in candidates if candidate["format"] in choices]
    chosen = max(chosen_once, key=lambda candidate: candidate["agreement"] or 0.0)
    if settled:
        (chosen,) = (candidate for candidate in chosen_once if candidate["format"] == first[0])
    chosen_format, shipped = chosen["format"], candidates[0]["format"]
    gains = [
        speeds[chosen_format] / speeds[shipped] for speeds in rounds if chosen_format in speeds
    ]
    return chosen, settled, statistics.median(gains)


def _may_win(candidate: dict[str, Any], rounds: Sequence[dict[str, float]]) -> bool:
    """Whether a format was not far behind the fastest in one of the rounds."""
    return any(
        speeds[candidate["format"]] * MAX_SLOWDOWN >= max(speeds.values()) for speeds in rounds
    )


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
    better = all(fewer > every for every, fewer in rounds)
    best_every, best_half = (max(speeds) for speeds in zip(*rounds, strict=True))
    return half if better and best_half > CLEAR_GAIN * best_every else cores


def _best_threads(
    path: Path, text: str, cores: int, is_busy: bool, cancelled: Callable[[], bool]
) -> tuple[int, float, float]:
    """Returns the number of threads, its speed in tokens a second and the noise."""
    model = _load(path, cancelled)
    tokens = model.tokenize(text)
    noise = noise_of(model, tokens)
    measured: dict[int, float] = {}

    def speed(threads: int) -> float:
        if cancelled():
            raise Cancelled("Tuning was cancelled.")
        model.use_threads(threads)
        tokens_per_s = speed_of(model, tokens, rounds=1)
        measured[threads] = max(tokens_per_s, measured.get(threads, 0.0))
        return tokens_per_s

    try:
        threads = choose_threads(speed, cores, is_busy=is_busy)
        if threads not in measured:
            speed(threads)
    finally:
        model.close()
    return threads, measured[threads], noise
