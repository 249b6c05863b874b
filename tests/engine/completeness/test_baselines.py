"""The keyword rule: which last words sound like an end."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Conversation, LogPiece, Message, Role, render_log
from engine.completeness.boundaries import boundaries
from engine.completeness.truncation import cut_at, sounds_complete
from engine.formats.leaks import guard
from tests.shared_data import shared_file


def log(*said: tuple[Role, str]) -> list[LogPiece]:
    """The log of these messages."""
    return render_log([Message(role, text) for role, text in said])


@pytest.mark.parametrize(
    ("user", "assistant"),
    [
        ("Thanks, that's all", "Have a great day!"),
        ("ok", "You are welcome."),
        ("thank you bye", "Is there anything else that I can do for you?"),
        ("No, that will be everything.", "Very well."),
        ("Yes, book it", "Right, your flight is now reserved!"),
        ("find a lamp", "click[Buy Now]"),
        ("Who was it?", "Thought: I know.\nAction: finish"),
        ("When?", "On Monday. If you need any further help, feel free to ask!"),
    ],
)
def test_ends(user: str, assistant: str) -> None:
    """A leave-taking, a farewell, a completed task and an agent's last act sound complete."""
    assert sounds_complete(log(("user", user), ("assistant", assistant)))


@pytest.mark.parametrize(
    ("user", "assistant"),
    [
        ("I need a flight", "When would you like to fly?"),
        ("Thanks! And on Tuesday?", "May I have your name, please?"),
        ("find a lamp", "click[Next >]"),
        ("list the files", "ls -l"),
    ],
)
def test_goes_on(user: str, assistant: str) -> None:
    """Questions and intermediate steps do not."""
    assert not sounds_complete(log(("user", user), ("assistant", assistant)))


def _balanced_accuracy(path: Path, count: int = 200) -> float:
    """The balanced accuracy of the rule on whole and cut conversations."""
    wholes = cuts = n = 0
    with gzip.open(path) as lines:
        for line in islice(lines, count):
            steps, name = _steps(json.loads(line))
            ends = boundaries(steps)
            place = cut_at(0, name, len(ends))
            if place is not None:
                n += 1
                wholes += sounds_complete(steps[: ends[-1] + 1])
                cuts += sounds_complete(steps[: ends[place] + 1])
    return (wholes / n + 1 - cuts / n) / 2


def _steps(record: dict[str, Any]) -> tuple[list[LogPiece], str]:
    messages = tuple(Message(one["role"], one["content"] or "") for one in record["messages"])
    guarded, _ = guard(Conversation(record["id"], messages))
    return render_log(guarded.messages), record["id"]


REAL = [
    (path, least)
    for name, least in (("star", 0.85), ("kvret", 0.93), ("sgd", 0.92), ("react_webshop", 0.9))
    if (path := shared_file(name))
]


@pytest.mark.parametrize(("path", "least"), REAL, ids=[path.stem for path, _ in REAL])
def test_it_is_no_straw_man(path: Path, least: float) -> None:
    """On real dialogues the rule reaches the accuracy that is known for closing words."""
    assert _balanced_accuracy(path) >= least
