"""The virtual table: only visible pages are read, and the cursor belongs to an id."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from textual import events
from textual._compositor import Compositor
from textual.app import App, ComposeResult

from engine.base.errors import WorkbenchError
from screens.widgets.row_table import MARK, PAGE, Column, RowTable
from tests.screens.driving import lines, press, render_update, settle

Row = tuple[int, str]


@pytest.fixture(autouse=True)
def every_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every frame is drawn: a table reads the pages that it draws."""
    monkeypatch.setattr(Compositor, "render_update", render_update)


class TableApp(App[None]):
    """One table of numbered rows that remembers what was fetched."""

    def __init__(self, count: int, *, stored: bool = True) -> None:
        super().__init__()
        self.count = count
        self.fetched: list[int] = []
        self.gone: set[int] = set()
        self.broken = False
        self.heard: list[object] = []
        self.marked: set[int] = set()
        self.columns = [
            Column[Row]("id", "id", 8, lambda row: [(str(row[0]), "")], right=True),
            Column[Row]("name", "name", 10, lambda row: [(row[1], "")], flexible=True),
            Column[Row]("extra", "extra", 30, lambda row: [("more", "")], keep=1),
        ]
        self.table = RowTable[Row](
            self.columns, self.fetch, lambda row: row[0], marked=self.marked, reads_project=stored
        )

    def compose(self) -> ComposeResult:
        yield self.table

    def on_mount(self) -> None:
        self.table.show(array("q", range(self.count)))
        self.table.focus()

    def fetch(self, ids: Sequence[int]) -> list[Row]:
        if self.broken:
            raise WorkbenchError("cannot be read")
        self.fetched.extend(ids)
        return [(row_id, f"row {row_id}") for row_id in ids if row_id not in self.gone]

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        self.heard.append(message.row_id)

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        self.heard.append(("opened", message.row_id))

    def on_row_table_failed(self, message: RowTable.Failed) -> None:
        self.heard.append(message.error.message)


class TestPages:
    async def test_100_000_rows_read_only_what_is_seen(self) -> None:
        """Going to the end of 100,000 rows reads the first and the last page and nothing between."""
        app = TableApp(100_000)
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            assert set(app.fetched) == set(range(PAGE))

            await press(pilot, "end")
            assert "99999" in lines(pilot)[-1]
            assert set(app.fetched) == set(range(PAGE)) | set(range(100_000 - PAGE, 100_000))

    async def test_placeholder_until_the_page_is_there(self) -> None:
        """A line whose row has not arrived is a placeholder, never a blank or a block."""
        app = TableApp(10)
        app.gone = {3}
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)

            assert "row 2" in lines(pilot)[3]
            assert "no longer in the project" in lines(pilot)[4]

    async def test_rows_in_memory_are_drawn_at_once(self) -> None:
        """Rows that need not be read from the project file are there in the first frame, also after a long way down;
        so are those that came with the ids. No line is a placeholder meanwhile."""
        app = TableApp(1_000, stored=False)
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            app.table.action_move_to(-1)
            assert "row 999" in app.table.render_line(app.table.size.height - 1).text
            app.table.show(array("q", range(2_000, 2_500)))
            app.table.action_move_to(0)
            assert "row 2000" in app.table.render_line(1).text

        app = TableApp(10)
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            first = [(row_id, f"early {row_id}") for row_id in range(50, 60)]
            app.table.show(array("q", range(50, 60)), first=first)
            assert "early 50" in app.table.render_line(1).text
            await settle(pilot)
            assert 50 not in app.fetched

    async def test_failure_is_told_once(self) -> None:
        """A page that cannot be read is told, once, and not asked for again and again."""
        app = TableApp(50)
        app.broken = True
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)

            assert app.heard.count("cannot be read") == 1


class TestCursor:
    async def test_keys(self) -> None:
        """Arrows, pages, home and end move the cursor and keep it in sight."""
        app = TableApp(1_000)
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            places = []
            for key in ("down", "pagedown", "pagedown", "up", "pageup", "end", "home"):
                await press(pilot, key)
                places.append(app.table.cursor_index)
                top = round(app.table.scroll_offset.y)
                assert top <= app.table.cursor_index < top + 23

            assert places == [1, 23, 45, 44, 22, 999, 0]

    async def test_cursor_follows_its_id(self) -> None:
        """After a refresh the cursor is on the same id wherever it went."""
        app = TableApp(1_000)
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            app.table.action_move_to(500)
            app.table.show(array("q", reversed(range(1_000))))
            await settle(pilot)

            assert app.table.cursor_id == 500
            assert any("row 500" in line for line in lines(pilot))

    async def test_cursor_of_a_vanished_id_stays_in_place(self) -> None:
        """When its id is gone the cursor keeps its place, or goes to the last row."""
        app = TableApp(10)
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            app.table.action_move_to(9)
            app.table.show(array("q", range(5)))
            await settle(pilot)
            assert app.table.cursor_id == 4

            app.table.show(array("q"))
            await settle(pilot)
            before = list(app.heard)
            await press(pilot, "down", "enter", "end")
            assert app.heard == before

    async def test_mouse(self) -> None:
        """A click moves the cursor, a second one opens, the wheel scrolls without moving it."""
        app = TableApp(1_000)
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            await pilot.click(RowTable, offset=(5, 4))
            await settle(pilot)
            assert app.table.cursor_index == 3
            await pilot.click(RowTable, offset=(5, 4))
            await settle(pilot)
            assert app.heard[-1] == ("opened", 3)

            await pilot._post_mouse_events([events.MouseScrollDown], RowTable)
            await settle(pilot)
            assert app.table.scroll_offset.y > 0
            assert app.table.cursor_index == 3


class TestColumns:
    async def test_least_kept_column_goes_first(self) -> None:
        """Where there is no room the column with the lowest number is dropped, the flexible one takes the rest."""
        app = TableApp(3)
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            assert "extra" in lines(pilot)[0]

            await pilot.resize_terminal(40, 24)
            await settle(pilot)
            assert "extra" not in lines(pilot)[0]
            assert "row 0" in lines(pilot)[1]


class TestMarks:
    async def test_marked_rows_have_a_sign(self) -> None:
        """The sign stands before the marked rows and before no others."""
        app = TableApp(5)
        app.marked.update((1, 3))
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)

            assert [line[0] == MARK for line in lines(pilot)[1:6]] == [
                False,
                True,
                False,
                True,
                False,
            ]
