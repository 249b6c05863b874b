"""The number of threads and the format that tuning chooses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.gguf_file import F32, read_gguf
from engine.model.llamacpp.files import quantize
from engine.model.tuning import choose_format, choose_threads
from tests.engine.model.tiny import write_sliding


def measured(speeds: dict[int, float], slowdowns: list[float]) -> Callable[[int], float]:
    """Measures these speeds, each measurement slowed by the next factor."""
    factors = iter(slowdowns)
    return lambda threads: speeds[threads] * next(factors)


@given(st.lists(st.floats(0.3, 1.0), min_size=6, max_size=6))
def test_load_alone_does_not_halve_the_threads(slowdowns: list[float]) -> None:
    """Where all cores are twice as fast, half of them are chosen only if every single comparison says so by chance."""
    chosen = choose_threads(measured({8: 200.0, 4: 100.0}, slowdowns), 8, is_busy=False)
    turned = all(
        100 * slowdowns[at + 1] > 200 * slowdowns[at] for at in range(0, len(slowdowns), 2)
    )
    assert chosen == 8 or turned


def test_nothing_is_compared_under_load() -> None:
    """On a busy machine all cores are used, and nothing is measured for it; so on a single core."""

    def never(threads: int) -> float:
        raise AssertionError(threads)

    assert choose_threads(never, 8, is_busy=True) == 8
    assert choose_threads(never, 1, is_busy=False) == 1


def candidate(kind: str, speed: float | None, agreement: float | None) -> dict[str, Any]:
    """A format as tuning measured it."""
    return {"format": kind, "tokens_per_s": speed, "agreement": agreement}


@pytest.mark.parametrize(
    ("bf16", "f16", "q8_0", "chosen"),
    [
        (46.0, 60.0, 63.0, "f16"),  # AVX2: a twentieth is no reason for other answers
        (320.0, 230.0, None, "bf16"),  # AVX-512 with BF16
        (46.0, 60.0, 70.0, "q8_0"),  # clearly faster
    ],
)
def test_of_formats_as_fast_the_most_faithful_is_chosen(
    bf16: float, f16: float, q8_0: float | None, chosen: str
) -> None:
    """A format wins by speed where it is clearly faster, otherwise by its agreement with F32."""
    rows = [("as is", 36.0, 0.971), ("bf16", bf16, 0.984), ("f16", f16, 0.997)]
    found = choose_format([candidate(*row) for row in [*rows, ("q8_0", q8_0, 0.971)]])
    assert found["format"] == chosen


def test_expand(tmp_path: Path) -> None:
    """Weights in fewer bits are written in F32."""
    narrow, wide = tmp_path / "q8.gguf", tmp_path / "f32.gguf"
    quantize(write_sliding(tmp_path / "tiny.gguf"), narrow, "q8_0", 1)
    quantize(narrow, wide, "f32", 1)
    kinds = [{info.kind for info in read_gguf(path).tensors.values()} for path in (narrow, wide)]
    assert kinds[0] != kinds[1] == {F32}
