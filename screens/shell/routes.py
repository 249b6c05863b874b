"""How a screen opens a screen of another folder without importing it: the app provides the functions that make them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from textual.screen import Screen

from engine.conversations.filters import Filter


class ReadingOrder(NamedTuple):
    """Ids of conversations in order, and the index of the one to read first."""

    order: array[int]
    at: int


class NamedConversations(NamedTuple):
    """Ids of conversations, and what they have in common in words, such as the label of their goal.

    Attributes:
        back: The mode to go back to from triage; empty to stay there.
    """

    name: str
    ids: tuple[int, ...]
    back: str = ""


@dataclass(frozen=True, slots=True)
class Routes:
    """Makes the screens that several folders open. `mode` is that of the screen they are opened from.

    Attributes:
        reader: `(order, at, mode, words)`: reads through conversations by id from index `at`, with words
            highlighted; answers with the id of the conversation that was read last.
        tree: `(conversation_id, step, mode)`: the response tree at one step of a conversation.
        calibration: `(mode)`: what the verdicts say about the scores.
        conversations: `(filter, mode)`: lists the conversations behind a figure.
        members: `(group_id, mode)`: the conversations of a goal group, or with None the outliers.
        similar: `(conversation_id, name)`: a dialog with the conversations of the nearest goals; answers with them
            and the one to read, or None.
    """

    reader: Callable[[array[int], int, str, Sequence[str]], Screen[int]]
    tree: Callable[[int, int, str], Screen[Any]]
    calibration: Callable[[str], Screen[Any]]
    conversations: Callable[[Filter, str], Screen[Any]]
    members: Callable[[str | None, str], Screen[Any]]
    similar: Callable[[int, str], Screen[ReadingOrder | None]]
