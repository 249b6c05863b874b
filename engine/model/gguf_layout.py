"""Checks the layout of the tensors of a GGUF file: whole blocks, aligned, no overlap, all inside the file."""

from __future__ import annotations

import math
from collections.abc import Sequence

BLOCKS: dict[int, tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}  # fmt: skip
"""llama.cpp's formats by number: numbers in a block, and bytes of a block."""


class Unsound(ValueError):
    """The header is invalid; the message continues "it is damaged: "."""


def bytes_of(shape: Sequence[int], kind: int) -> int | None:
    """Bytes of a tensor; None for a format that this program does not know.

    Raises:
        Unsound: A size is 0, or a row is no whole number of blocks.
    """
    if min(shape, default=1) < 1:
        raise Unsound("a tensor in it has no size")
    if kind not in BLOCKS:
        return None
    block, width = BLOCKS[kind]
    row = shape[0] if shape else 1
    if row % block:
        raise Unsound(f"a tensor in it has rows of {row:,} numbers, no whole blocks of {block}")
    return math.prod(shape) // block * width


def check_layout(
    tensors: Sequence[tuple[Sequence[int], int, int]], alignment: int, room: int
) -> None:
    """Checks the positions of tensors.

    The size of a tensor in an unknown format is not checked, so that newer files stay readable; llama.cpp refuses
    formats that it does not know.

    Args:
        tensors: Shape, format and first byte of each, counted from the beginning of the data section.
        room: Bytes of the data section.

    Raises:
        Unsound: The layout is invalid.
    """
    end = 0
    for shape, kind, offset in sorted(tensors, key=lambda tensor: tensor[2]):
        if offset % alignment:
            raise Unsound("a tensor in it is not aligned")
        if offset < end:
            raise Unsound("a tensor in it lies over another")
        end = offset + (bytes_of(shape, kind) or 1)
        if end > room:
            raise Unsound(
                f"it ends before its tensors do, {end - max(room, 0):,} bytes are missing"
            )
