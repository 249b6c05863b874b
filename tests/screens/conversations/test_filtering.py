"""The filter line of the list: written, completed, corrected."""

from __future__ import annotations

import pytest

from engine.base.errors import WorkbenchError
from tests.screens.conversations.listing import filtered, strip, table
from tests.screens.driving import lines, opened, press, text
from tests.screens.project import project
from tests.screens.stand_ins import raising


class TestSearch:
    async def test_search_and_clear(self) -> None:
        """Slash, words and enter leave what holds all of them, which is highlighted in the openings; escape brings
        everything back."""
        async with opened(project()) as pilot:
            await press(pilot, "slash", *"boston", "enter")
            assert lines(pilot)[1].split()[:3] == ["6", "of", "36"]
            assert len(table(pilot).ids) == 6
            assert lines(pilot)[2].split() == ["▽", "boston"]
            assert pilot.app.focused is table(pilot)
            assert "flight to Boston" in lines(pilot)[4]  # brought into sight
            found = [segment for segment in strip(pilot, 4) if segment.text == "Boston"]
            assert [bool(s.style and s.style.bold and s.style.underline) for s in found] == [True]

            await press(pilot, "escape")
            assert len(table(pilot).ids) == 36
            assert "▽" not in text(pilot)

    async def test_refused_search_is_told_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A search that is refused is told under the line, not in a dialog over the typing, as long as the line
        holds it; the list stays."""
        support = project()
        async with opened(support) as pilot:
            await filtered(pilot, "lamp")
            error = WorkbenchError("The search has too many words.", "Use fewer.")
            monkeypatch.setattr(support.conversations, "ids", raising(error))
            await filtered(pilot, " desk")

            for leaving in ("enter", "escape"):
                assert "The search has too many words. Use fewer." in text(pilot)
                assert len(table(pilot).ids) == 6
                await press(pilot, "f", leaving)
            assert "The search has too many words. Use fewer." in text(pilot)


class TestFilterLine:
    async def test_mistake_with_its_place(self) -> None:
        """A mistake is told with a caret under the place, and the list stays as it was."""
        async with opened(project()) as pilot:
            await filtered(pilot, "turns>5")
            await filtered(pilot, " turs:3")
            assert lines(pilot)[3].index("^") == lines(pilot)[2].index("turs")
            assert "There is no field “turs”." in text(pilot)
            assert len(table(pilot).ids) == 25

            await press(pilot, "escape")
            assert lines(pilot)[2].split() == ["▽", "turns>5"]
            assert "no field" not in text(pilot)

    async def test_completion_and_leaving(self) -> None:
        """Fields and then their values are offered; tab takes one, and the list follows. The first escape leaves the
        line with its filter in force, the second clears it, a third the marks."""
        async with opened(project()) as pilot:
            await press(pilot, "space", "f", *"st")
            assert "did it end, by its score" in lines(pilot)[3]
            await press(pilot, "tab")
            assert "broken-off" in text(pilot)
            await press(pilot, "down", "down", "tab", "enter")
            assert lines(pilot)[2].split() == ["▽", "state:broken-off"]
            assert len(table(pilot).ids) == 12

            await press(pilot, "f", "escape")
            assert len(table(pilot).ids) == 12
            assert pilot.app.focused is table(pilot)
            await press(pilot, "escape")
            assert len(table(pilot).ids) == 36
            assert "1 marked" in lines(pilot)[1]
            await press(pilot, "escape")
            assert "marked" not in lines(pilot)[1]
