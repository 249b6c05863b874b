"""Where a conversation can end."""

from __future__ import annotations

from collections.abc import Sequence

from engine.conversation import LogPiece


def boundaries(pieces: Sequence[LogPiece]) -> list[int]:
    """Indices of the pieces after which the conversation could end, rising.

    A boundary is the end of an assistant or tool step that is followed by a user step or by the end of the log.
    """
    ends = []
    for index, piece in enumerate(pieces):
        if piece.role not in ("assistant", "tool"):
            continue
        if index + 1 == len(pieces) or pieces[index + 1].role == "user":
            ends.append(index)
    return ends
