"""The LLM-only baseline of the paper."""

from __future__ import annotations

from collections.abc import Sequence

from engine.goals.paper import FIRST, NEXT, categorise, read_categories


def test_the_two_prompts() -> None:
    """The first sample is asked for a category; later ones are offered each earlier answer on a line, may have several,
    and an answer in another spelling is the earlier category.
    """
    replies = iter(["Book a Flight", "- book a flight\n- Check weather", "Book a flight.", "..."])
    asked: list[tuple[str, str]] = []

    def ask(name: str, pieces: Sequence[str]) -> str:
        asked.append((name, "".join(pieces)))
        return next(replies)

    found = list(categorise(ask, [["log 1"], ["log ", "2"], ["log 3"], ["log 4"]]))
    flight, weather = "Book a Flight", "Check weather"
    assert found == [(flight,), (flight, weather), (flight,), ()]
    assert asked[0] == (FIRST, "[USER INPUT LOG]\nlog 1")
    assert asked[1] == (NEXT, f"- {flight}\n[USER INPUT LOG]\nlog 2")
    assert asked[3] == (NEXT, f"- {flight}\n- {flight}, {weather}\n[USER INPUT LOG]\nlog 4")


def test_no_category() -> None:
    """A model that goes on with the log, or writes a long sentence, names no category."""
    assert read_categories("TURN 3, STEP 5, user chat:\nThanks") == []
    assert read_categories("I would say that the user wants to know what the weather is like") == []
    assert read_categories("1. Check weather\n2. **Book a flight**") == [
        "Check weather",
        "Book a flight",
    ]
