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

FAITHFUL = 0.97
CANDIDATES = ("bf16", "f16", "q8_0", "q4_0")
"""Formats beside the file as shipped. F16 is the fastest faithful one on processors without BF16. F32 never was on any
(`docs/lab/experiments.md`). What llama.cpp has kernels for it repacks while loading, as Q4_0 on AVX2."""
AGREEMENT_TOKENS = 384
SCREENED_TOKENS, HOPELESS = 128, 0.9
"""A format whose agreement over the first tokens is lower is not measured further."""
LONG_TOKENS = 2048
"""Tokens of the second measurement, which shows the cost of attention on a long text."""
NOISE_TOKENS = 64
CLEAR_GAIN = 1.1
THREAD_ROUNDS = 3
LEAD, MOST_ROUNDS = 2, 7
"""Formats are measured by turns until one was the choice of so many rounds more than any other, or so often."""
HOPE = 1.3
"""A format is measured further only if it was at most this many times slower than the best in one of the rounds."""
F32_LIMIT = 0.4
"""The F32 expansion may take this share of memory and of free disk; larger models keep their format."""


def speed_of(
    model: TokenModel,
    tokens: Sequence[int],
    *,
    rounds: int = 2,
    length: int = SPEED_TOKENS,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Prompt tokens a second: the best of some rounds over the same tokens, one row wanted per batch.

    Args:
        length: How many of the tokens are read; a shorter text is read again and again.
        clock: In seconds; `time.process_time` for tokens a second of processor time.
    """
    batch = model.capacity.batch
    some = list(islice(cycle(tokens), length)) if tokens else []
    best = 0.0
    for _ in range(rounds):
        model.clear()
        start = clock()
        for at in range(0, len(some), batch):
            chunk = some[at : at + batch]
            model.decode([Span(chunk, at, (0,), (len(chunk) - 1,))])
        best = max(best, len(some) / (clock() - start))
    model.clear()
    return best


def noise_of(model: TokenModel, tokens: Sequence[int]) -> float:
    """Largest change of any next-token probability when the same tokens are decoded one by one.

    Kernels differ by batch size, so two correct scores of the same text can differ by this much.
    """
    some = list(tokens[:NOISE_TOKENS])
    model.clear()
    together = _softmax(model.decode([Span(some, 0, (0,), tuple(range(len(some))))]))
    model.clear()
    worst = 0.0
    for at, token in enumerate(some):
        alone = _softmax(model.decode([Span([token], at, (0,), (0,))]))[0]
        worst = max(worst, float(np.abs(alone - together[at]).max()))
    model.clear()
    return worst


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float32)


def _top_tokens(model: TokenModel, tokens: Sequence[int]) -> NDArray[np.int64]:
    """The most probable next token after each token of a text."""
    step = min(model.capacity.batch, model.capacity.rows)
    model.clear()
    tops = []
    for at in range(0, len(tokens), step):
        chunk = tokens[at : at + step]
        tops.append(model.decode([Span(chunk, at, (0,), tuple(range(len(chunk))))]).argmax(axis=1))
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
            truth = _top_tokens(model, tokens)
            model.close()
        shipped = 1.0
        for kind in ("as is", *(CANDIDATES if expandable else ())):
            report(f"comparing {kind} with F32")
            if kind != "as is":
                files[kind] = unfinished / f"{kind}.gguf"
                quantize(source, files[kind], kind, cores)
            agreement = None
            if expandable:
                model = _load(files[kind], cancelled)
                tokens = model.tokenize(text)
                agreement = _agreement(model, tokens, truth, kind != "as is")
                model.close()
                if kind == "as is":
                    shipped = agreement
            faithful = agreement is None or kind == "as is" or agreement >= max(shipped, FAITHFUL)
            candidates.append(
                {
                    "format": kind,
                    "tokens_per_s": None,
                    "agreement": agreement,
                    "bytes": files[kind].stat().st_size,
                    "verdict": "faithful" if faithful else "changes too many answers",
                }
            )
        racing = [one for one in candidates if one["verdict"] == "faithful"]

        def measure(kind: str) -> float:
            report(f"measuring {kind}")
            model = _load(files[kind], cancelled)
            tokens = model.tokenize(text)
            (one,) = (one for one in racing if one["format"] == kind)
            one["tokens_per_s"] = max(one["tokens_per_s"] or 0.0, speed_of(model, tokens, rounds=1))
            # What other programs do changes how long a reading takes, and much less how much work it is.
            clock = time.perf_counter if gpu_offload() else time.process_time
            compared = speed_of(model, tokens, rounds=1, clock=clock)
            model.close()
            return compared

        best, settled, gain = by_turns(racing, measure)
        kept = None
        if best["format"] != "as is":
            kept = folder / f"{source.stem}-{best['format']}.gguf"
            files[best["format"]].replace(kept)
        report("choosing the number of threads")
        threads, speed, noise = _best_threads(kept or source, text, cores, is_busy, cancelled)
        speed = max(speed, best["tokens_per_s"]) if threads == cores else speed
        return {
            "candidates": candidates,
            "chosen": best["format"],
            "settled": settled,
            "file": kept.name if kept else None,
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
            f"It may take {F32_LIMIT:.0%} of each.",
        )
    quantize(source, target, "f32", os.cpu_count() or 1)


def _agreement(
    model: TokenModel, tokens: Sequence[int], truth: NDArray[np.int64], screened: bool
) -> float:
    """Share of places where the most probable token is that of the F32 expansion."""
    if screened:
        first = _top_tokens(model, tokens[:SCREENED_TOKENS])
        agreement = float((first == truth[: len(first)]).mean())
        if agreement < HOPELESS:
            return agreement
    return float((_top_tokens(model, tokens[: len(truth)]) == truth).mean())


def _expandable(source: Path, folder: Path) -> bool:
    # Four bits a weight is the least that is shipped, so eight times the file is the most F32 can take.
    need = source.stat().st_size * 8
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return need < min(memory, shutil.disk_usage(folder).free) * F32_LIMIT


def _load(path: Path, cancelled: Callable[[], bool], threads: int | None = None) -> LlamaModel:
    if cancelled():
        raise Cancelled("Tuning was cancelled.")
    return LlamaModel(path, LoadOptions(context=2048, threads=threads), cancelled)


def by_turns(
    candidates: Sequence[dict[str, Any]], measure: Callable[[str], float]
) -> tuple[dict[str, Any], bool, float]:
    """The choice among formats that are measured by turns, so that what other programs do meanwhile slows all alike.

    Each round measures every format once, forth and back. The rounds end when one format was chosen `LEAD` times more
    often than any other. If that does not come within `MOST_ROUNDS`, it is the most faithful of those that were chosen.

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
    while not settled and len(rounds) < MOST_ROUNDS:
        order = racing if len(rounds) % 2 == 0 else racing[::-1]
        speeds = {one["format"]: measure(one["format"]) for one in order}
        rounds.append(speeds)
        of_round = [{**one, "tokens_per_s": speeds[one["format"]]} for one in racing]
        choices[choose_format(of_round)["format"]] += 1
        if len(rounds) == LEAD:
            racing = [one for one in racing if one is candidates[0] or _hopeful(one, rounds)]
        first, second = [*choices.most_common(2), ("", 0)][:2]
        settled = first[1] - second[1] >= LEAD
    chosen_once = [one for one in candidates if one["format"] in choices]
    chosen = max(chosen_once, key=lambda one: one["agreement"] or 0.0)
    if settled:
        (chosen,) = (one for one in chosen_once if one["format"] == first[0])
    kind, shipped = chosen["format"], candidates[0]["format"]
    gains = [speeds[kind] / speeds[shipped] for speeds in rounds if kind in speeds]
    return chosen, settled, statistics.median(gains)


def _hopeful(one: dict[str, Any], rounds: Sequence[dict[str, float]]) -> bool:
    """Whether a format was not far behind the fastest in one of the rounds."""
    return any(speeds[one["format"]] * HOPE >= max(speeds.values()) for speeds in rounds)


def choose_format(candidates: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fastest faithful candidate, or the most faithful of those that are not clearly slower.

    Differences below `CLEAR_GAIN` may be chance, so they do not pay for other answers.

    Args:
        candidates: As `tune` returns them; those that change too many answers have no speed.
    """
    faithful = [one for one in candidates if one["tokens_per_s"]]
    fastest = max(one["tokens_per_s"] for one in faithful)
    close = [one for one in faithful if one["tokens_per_s"] * CLEAR_GAIN >= fastest]
    return max(close, key=lambda one: (one["agreement"] or 0.0, one["tokens_per_s"]))


def choose_threads(speed: Callable[[int], float], cores: int, *, is_busy: bool) -> int:
    """The number of threads to use: one on every core, or on every second where that is clearly faster.

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
    best_every, best_half = (max(one) for one in zip(*rounds, strict=True))
    return half if better and best_half > CLEAR_GAIN * best_every else cores


def _best_threads(
    path: Path, text: str, cores: int, is_busy: bool, cancelled: Callable[[], bool]
) -> tuple[int, float, float]:
    """The number of threads, its speed in tokens a second and the noise."""
    model = _load(path, cancelled)
    tokens = model.tokenize(text)
    noise = noise_of(model, tokens)
    measured: dict[int, float] = {}

    def speed(threads: int) -> float:
        if cancelled():
            raise Cancelled("Tuning was cancelled.")
        model.use_threads(threads)
        found = speed_of(model, tokens, rounds=1)
        measured[threads] = max(found, measured.get(threads, 0.0))
        return found

    try:
        threads = choose_threads(speed, cores, is_busy=is_busy)
        if threads not in measured:
            speed(threads)
    finally:
        model.close()
    return threads, measured[threads], noise
