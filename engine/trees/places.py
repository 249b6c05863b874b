"""The places in a conversation where trees are grown: the prompt before the root, and the answer recorded there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.base.conversation import LogPiece
from engine.base.errors import UsageError

At = Literal["last-answer", "end", "every"]


@dataclass(frozen=True, slots=True)
class Place:
    """One prompt for a tree.

    Attributes:
        texts: Pieces of the log before the root; the last one is the header of the recorded step, without content.
        kept: Leading pieces that a window keeps.
        step: Number of the step that was recorded there; of the last step at the end of the log.
        answer: Text of the recorded step; empty at the end of the log.
    """

    texts: tuple[str, ...]
    kept: int
    step: int
    answer: str


def places(pieces: Sequence[LogPiece], at: At) -> list[Place]:
    """Returns the places of a log: before the last assistant step, before every assistant step, or after the last step.

    Raises:
        UsageError: The log has no assistant step to grow a tree at, or no step at all.
    """
    if not pieces:
        raise UsageError("The conversation has no step that a model sees.")
    kept = int(pieces[0].role in ("system", "developer"))
    if at == "end":
        return [Place(tuple(piece.text for piece in pieces), kept, pieces[-1].step, "")]
    found = [
        _before(pieces, index, kept) for index, p in enumerate(pieces) if _answers(pieces, index)
    ]
    if not found:
        raise UsageError(
            "The conversation has no assistant step that follows another step.",
            "Grow the tree at its end.",
        )
    return found if at == "every" else found[-1:]


def _answers(pieces: Sequence[LogPiece], index: int) -> bool:
    return index > 0 and pieces[index].role == "assistant"


def _before(pieces: Sequence[LogPiece], index: int, kept: int) -> Place:
    piece = pieces[index]
    separator = piece.text[: len(piece.text) - len(piece.text.lstrip("\n"))]
    header, _, content = piece.text[len(separator) :].partition("\n")
    before = tuple(p.text for p in pieces[:index])
    return Place((*before, f"{separator}{header}\n"), kept, piece.step, content)
