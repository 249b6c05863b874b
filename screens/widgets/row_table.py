"""The table of all lists, and what it shares with the view of a tree: a cursor on one of many lines.

The table is virtual: ids are in memory, and pages of rows are read by id.

An order of a million rows is eight megabytes of ids; only the rows of visible pages are ever read. The project file is
read off the UI thread, and a line whose row has not arrived is drawn as a placeholder. The cursor belongs to an id, so
it stays on its row when the order changes.

An index is the place of a row in the order shown, from 0; its id is what `fetch` reads it by. Line 0 of the widget is
the header, so the row with index 0 is drawn on line 1. Widths are cells.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from engine.base.errors import WorkbenchError
from engine.base.text import display_safe
from screens.widgets.background import background
from screens.widgets.formatting import TONES
from screens.widgets.keyed import Keyed, movement

RowT = TypeVar("RowT")
"""Type of the rows."""
Piece = tuple[str, str]
"""Text and the component class it is drawn in, empty for the plain style."""

NO_VALUE: Sequence[Piece] = [("–", "tone--muted")]
"""A cell without a value."""
PAGE = 200
"""Rows that are read in one go."""
FRESH_PAGES = 20
"""Most pages that are remembered as freshly read."""
CACHED_ROWS = (FRESH_PAGES + 1) * PAGE
"""Most rows in memory: enough for all rows of the fresh pages and of the one that is being read."""
GAP = 2
"""Cells between two columns."""
MARK = "▌"
"""Stands before a marked row."""


@dataclass(frozen=True)
class Column(Generic[RowT]):
    """One column.

    Attributes:
        key: Name of the column in messages and for the sort mark.
        title: Its name in the header.
        width: Its width; of a flexible column the least width.
        cell: Returns the pieces of a row's cell, as imported: the table makes them safe.
        flexible: Whether it takes the width that is left, in equal parts with the others that do; one column must.
        right: Whether the cell and the title are aligned to the right.
        value: Returns what an `ItemTable` is ordered by, or None where a row has no value; a column without this
            function cannot be sorted by.
        order: Name of the order by this column, where the title does not tell it.
        descending: Whether the largest value comes first when the order is chosen.
        keep: Where the table is narrow, the column with the lowest number is dropped first.
    """

    key: str
    title: str
    width: int
    cell: Callable[[RowT], Sequence[Piece]]
    flexible: bool = False
    right: bool = False
    value: Callable[[RowT], float | str | None] | None = None
    order: str = ""
    descending: bool = False
    keep: int = 9


class CursorView(Keyed, ScrollView, can_focus=True, inherit_bindings=False):
    """Base of a list that is drawn line by line, with a cursor on one of its items; an item has one line.

    Attributes:
        cursor_index: Index of the item under the cursor; 0 in an empty list.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = TONES
    DEFAULT_CSS = "CursorView { overflow-x: hidden; overflow-y: auto; }"
    HEADER_LINES: ClassVar[int] = 0
    """Lines above the first item, which do not scroll."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor_index = 0

    # To be defined by a subclass

    @property
    def item_count(self) -> int:
        """Number of items."""
        raise NotImplementedError

    def post_highlighted(self) -> None:
        """Posts that the cursor moved to another item."""
        raise NotImplementedError

    # Movement

    def action_move(self, delta: int) -> None:
        """Moves the cursor by `delta` items."""
        self._go(self.cursor_index + delta)

    def action_page(self, direction: int) -> None:
        """Moves the cursor by a screenful, down (1) or up (-1): one item less than are in sight."""
        self._go(self.cursor_index + direction * max(1, self.size.height - self.HEADER_LINES - 1))

    def action_move_to(self, index: int) -> None:
        """Moves the cursor to an item, counted from the end when negative."""
        self._go(index if index >= 0 else self.item_count + index)

    def _go(self, index: int) -> None:
        """Moves the cursor to an item, the nearest one where there is none."""
        if not self.item_count:
            return
        index = min(max(index, 0), self.item_count - 1)
        if index != self.cursor_index:
            # A whole screen takes ten times as long as the two lines that change; scrolling refreshes by itself.
            for changed in (self.cursor_index, index):
                self.refresh_line(changed + self.HEADER_LINES)
            self.cursor_index = index
            self._reveal()
            self.post_highlighted()

    def _reveal(self) -> None:
        """Scrolls until the item under the cursor is in sight."""
        shown = max(1, self.size.height - self.HEADER_LINES)
        top = round(self.scroll_offset.y)
        if self.cursor_index < top:
            self.scroll_to(y=self.cursor_index, animate=False)
        elif self.cursor_index >= top + shown:
            self.scroll_to(y=self.cursor_index - shown + 1, animate=False)

    def on_resize(self) -> None:
        """Keeps the cursor in sight."""
        self._measure()
        self._reveal()

    def _measure(self) -> None:
        """Tells the scroll bar how many lines there are."""
        self.virtual_size = Size(self.size.width, self.item_count + self.HEADER_LINES)

    # Drawing

    def _base_style(self, index: int) -> Style:
        """Returns the style of an item's line, which the styles of its parts are added to."""
        if index != self.cursor_index:
            return self.rich_style
        name = "tone--cursor" if self.has_focus else "tone--cursor-blurred"
        return self.rich_style + self.get_component_rich_style(name)

    def _tone(self, name: str, index: int) -> Style:
        """Returns the style of a tone in an item's line; muted text is readable under the cursor."""
        if not name:
            return Style.null()
        style = self.get_component_rich_style(name, partial=True)
        is_cursor = index == self.cursor_index
        return style.without_color if is_cursor and name == "tone--muted" else style


class RowTable(CursorView, Generic[RowT]):
    """A table with a row cursor, whose rows are read by their ids."""

    PLACE = "table"
    HEADER_LINES = 1
    BINDINGS: ClassVar[list[BindingType]] = [
        *movement("Row"),
        Binding("enter", "open", "Open", show=True),
    ]

    class Highlighted(Message):
        """The cursor moved to another row."""

        def __init__(self, table: RowTable[RowT], row_id: int) -> None:
            super().__init__()
            self.table, self.row_id = table, row_id

    class Opened(Highlighted):
        """A row was opened by key or click."""

    class HeaderPressed(Message):
        """The title of a column was clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Failed(Message):
        """A page could not be read."""

        def __init__(self, error: WorkbenchError) -> None:
            super().__init__()
            self.error = error

    def __init__(
        self,
        columns: Sequence[Column[RowT]],
        fetch: Callable[[Sequence[int]], list[RowT]],
        row_id: Callable[[RowT], int],
        *,
        marked: Container[int] = frozenset(),
        reads_project: bool = False,
        id: str | None = None,
    ) -> None:
        """Shows nothing yet.

        Args:
            fetch: Returns the rows of these ids; it may leave out ids that are gone.
            row_id: Returns the id of a row.
            marked: The ids of the rows that are drawn with a mark; call `refresh` after they changed.
            reads_project: Whether `fetch` reads the project file, so that it is called off the UI thread; else it reads
                memory, and rows are drawn at once.
        """
        super().__init__(id=id)
        self._reads_project = reads_project
        self._marked = marked
        self._columns = columns
        self._fetch = fetch
        self._row_id = row_id
        self._ids = array("q")
        self._rows: OrderedDict[int, RowT] = OrderedDict()
        self._fresh_pages: dict[int, None] = {}  # pages read since the last change, oldest first
        self._failed_pages: set[int] = set()  # those of them that could not be read
        self._wanted_pages: list[int] = []
        self._loading = False
        self._sort: tuple[str, bool] | None = None  # key of a column, descending

    @property
    def ids(self) -> array[int]:
        """The ids in the order shown; not to be changed."""
        return self._ids

    @property
    def item_count(self) -> int:
        """Number of rows."""
        return len(self._ids)

    @property
    def cursor_id(self) -> int | None:
        """Id of the row under the cursor; None in an empty table."""
        return self._ids[self.cursor_index] if self._ids else None

    def show(
        self,
        ids: array[int],
        sort: tuple[str, bool] | None = None,
        first: Sequence[RowT] = (),
    ) -> None:
        """Shows these ids; rows that were read before are drawn as they were until they are read again.

        Args:
            ids: The ids in the order to show.
            sort: Key of the column to mark in the header, and whether the order is descending.
            first: The rows of the first page, if they were read together with the ids.
        """
        before = self.cursor_id
        self._ids, self._sort = ids, sort
        self._fresh_pages.clear()
        self._failed_pages.clear()
        self._wanted_pages.clear()
        if first:
            self._remember(first, 0)
        if before is not None and not self._holds(self.cursor_index, before):
            try:
                self.cursor_index = ids.index(before)
            except ValueError:
                self.cursor_index = min(self.cursor_index, max(0, len(ids) - 1))
        self._measure()
        self._reveal()
        self.refresh()
        if self.cursor_id != before:
            self.post_highlighted()

    def show_columns(self, columns: Sequence[Column[RowT]]) -> None:
        """Shows other columns of the same rows."""
        self._columns = columns
        self.refresh()

    @property
    def hidden_titles(self) -> list[str]:
        """Titles of the columns for which there is no room."""
        shown = {column.key for column, _ in self._shown_columns(self.size.width)}
        return [column.title for column in self._columns if column.key not in shown]

    def move_to_id(self, row_id: int) -> None:
        """Puts the cursor on the row with this id, if it is shown."""
        if not self._holds(self.cursor_index, row_id) and row_id in self._ids:
            self._go(self._ids.index(row_id))

    def _holds(self, index: int, row_id: int) -> bool:
        """Returns whether the row at this index has this id."""
        return index < len(self._ids) and self._ids[index] == row_id

    def action_open(self) -> None:
        """Opens the row under the cursor."""
        if self.cursor_id is not None:
            self.post_message(self.Opened(self, self.cursor_id))

    def post_highlighted(self) -> None:
        """Posts `Highlighted`, unless the table is empty."""
        if self.cursor_id is not None:
            self.post_message(self.Highlighted(self, self.cursor_id))

    def on_click(self, event: events.Click) -> None:
        """Moves the cursor to the clicked row, or opens the row under the cursor; a title posts `HeaderPressed`."""
        if event.y < self.HEADER_LINES:
            key = self._column_at(event.x)
            if key is not None:
                self.post_message(self.HeaderPressed(key))
            return
        index = event.y - self.HEADER_LINES + round(self.scroll_offset.y)
        if index >= len(self._ids):
            return
        if index == self.cursor_index:
            self.action_open()
        self._go(index)

    # Drawing

    def _shown_columns(self, width: int) -> list[tuple[Column[RowT], int]]:
        """Returns the columns that fit the width, each with its cells."""
        columns = list(self._columns)
        while len(columns) > 1:
            needed = sum(column.width + GAP for column in columns)
            if needed <= width:
                break
            columns.remove(min(columns, key=lambda column: column.keep))
        spare = max(0, width - sum(column.width + GAP for column in columns))
        share = spare // max(1, sum(column.flexible for column in columns))
        return [(column, column.width + (share if column.flexible else 0)) for column in columns]

    def _column_at(self, x: int) -> str | None:
        """Returns the key of the column at a cell of the header; None between columns."""
        column_start = 1  # after the cell of the mark
        for column, width in self._shown_columns(self.size.width):
            if column_start <= x < column_start + width:
                return column.key
            column_start += width + GAP
        return None

    def render_line(self, y: int) -> Strip:
        """Returns one line: the header, a row, or nothing below the last row."""
        width = self.size.width
        base = self.rich_style
        if y < self.HEADER_LINES:
            return self._header(width, base)
        index = y - self.HEADER_LINES + round(self.scroll_offset.y)
        if index >= len(self._ids):
            return Strip.blank(width, base)
        page = index // PAGE
        if page not in self._fresh_pages:
            self._fetch_page(page)
        base = self._base_style(index)
        row = self._rows.get(self._ids[index])
        if row is None:
            text = "…" if page not in self._fresh_pages else "no longer in the project"
            if page in self._failed_pages:
                text = "could not be read"
            style = base + self._tone("tone--muted", index)
            return Strip([Segment(" " + text, style)]).crop_extend(0, width, base)
        mark = Segment(" ", base)
        if self._ids[index] in self._marked:
            mark = Segment(MARK, base + self._tone("tone--accent", index))
        segments = [mark]
        for column, cells in self._shown_columns(width):
            pieces = [
                Segment(display_safe(text), base + self._tone(tone, index))
                for text, tone in column.cell(row)
            ]
            segments.extend(_fitted(pieces, cells, base, column.right))
            segments.append(Segment(" " * GAP, base))
        return Strip(segments).crop_extend(0, width, base)

    def _header(self, width: int, base: Style) -> Strip:
        """Returns the line with the titles of the columns and the mark of the sort."""
        sort_key, descending = self._sort or (None, False)
        style = base + self.get_component_rich_style("tone--header", partial=True)
        segments = [Segment(" ", style)]
        for column, cells in self._shown_columns(width):
            title = column.title
            if column.key == sort_key:
                title += " ▾" if descending else " ▴"
            segments.extend(_fitted([Segment(title, style)], cells, style, column.right))
            segments.append(Segment(" " * GAP, style))
        return Strip(segments).crop_extend(0, width, style)

    # Pages

    def _fetch_page(self, page: int) -> None:
        """Reads a page of rows: from memory at once, from the project file in the background."""
        if not self._reads_project:
            self._remember(self._fetch(self._ids[page * PAGE : (page + 1) * PAGE]), page)
            return
        if page in self._wanted_pages:
            return
        self._wanted_pages.append(page)
        if not self._loading:
            self._loading = True
            self.call_next(self._load_next)

    def _load_next(self) -> None:
        """Reads the page that was asked for last; pages that left the screen, or were read, meanwhile are not read."""
        top = round(self.scroll_offset.y)
        visible = range(top // PAGE, (top + self.size.height) // PAGE + 1)
        # A page is asked for again by each drawing until it is there.
        unread = [page for page in self._wanted_pages if page not in self._fresh_pages]
        pages = [page for page in unread if page in visible]
        self._wanted_pages = pages[:-1]
        self._loading = bool(pages)
        if not pages:
            return
        page = pages[-1]
        ids = self._ids
        page_ids = ids[page * PAGE : (page + 1) * PAGE]

        def on_result(rows: list[RowT]) -> None:
            """Remembers the rows; where another order is shown meanwhile, they are no page of it."""
            self._remember(rows, page if ids is self._ids else None)
            on_done()

        def on_failure(error: WorkbenchError) -> None:
            """Counts the page as read, so that it is not tried again at each drawing."""
            self.post_message(self.Failed(error))
            if ids is self._ids:
                self._remember((), page)
                self._failed_pages.add(page)
            on_done()

        def on_done() -> None:
            """Draws what came and reads the next page."""
            self.refresh()
            self.call_next(self._load_next)

        background(self, lambda: self._fetch(page_ids), on_result, on_failure, group="page")

    def _remember(self, rows: Sequence[RowT], page: int | None) -> None:
        """Remembers rows, as the rows of a page or of none; the oldest rows and pages make room for them."""
        for row in rows:
            self._rows[self._row_id(row)] = row
            self._rows.move_to_end(self._row_id(row))
        while len(self._rows) > CACHED_ROWS:
            self._rows.popitem(last=False)
        if page is not None:
            self._fresh_pages[page] = None
            self._failed_pages.discard(page)
            if len(self._fresh_pages) > FRESH_PAGES:
                del self._fresh_pages[next(iter(self._fresh_pages))]


class ItemTable(RowTable[RowT]):
    """A table of items in memory; the cursor stays on an item with the same key when others are shown.

    A key may be of any type, and the id of a row is a number: each new key gets the next one, and keeps it.

    Attributes:
        sort: Key of the column that orders the items, and whether it is descending; None for their own order.
    """

    def __init__(
        self,
        columns: Sequence[Column[RowT]],
        key: Callable[[RowT], Hashable],
        *,
        sort: tuple[str, bool] | None = None,
        id: str | None = None,
    ) -> None:
        """Shows nothing yet; `key` returns what tells an item from the others."""
        self.sort = sort
        self._key = key
        self._numbers: dict[Hashable, int] = {}
        self._items: dict[int, RowT] = {}
        super().__init__(
            columns,
            lambda numbers: [self._items[number] for number in numbers],
            lambda item: self._numbers[key(item)],
            id=id,
        )

    def show_items(self, items: Iterable[RowT]) -> None:
        """Shows these items in this order; the header marks the column of `sort`."""
        self._items = {
            self._numbers.setdefault(self._key(item), len(self._numbers)): item for item in items
        }
        self.show(array("q", self._items), self.sort)

    @property
    def items(self) -> Sequence[RowT]:
        """The items in the order shown."""
        return [*self._items.values()]

    def orders(self) -> list[tuple[str, str]]:
        """Returns the key of each column that can order the items, and what its order is called."""
        return [(col.key, col.order or col.title) for col in self._columns if col.value is not None]

    def sort_by(self, key: str) -> None:
        """Sets the order to that by a column, or reverses it where it is that already.

        The caller shows the items again. A column that cannot be sorted by changes nothing.
        """
        column = next((col for col in self._columns if col.key == key and col.value), None)
        if column is not None:
            sorted_by, descending = self.sort or ("", False)
            self.sort = (key, not descending if sorted_by == key else column.descending)

    def ordered(self, items: Iterable[RowT]) -> list[RowT]:
        """Returns items in the order of `sort`: those without a value come last, and equal ones keep their order."""
        items = list(items)
        key, descending = self.sort or ("", False)
        value = next((col.value for col in self._columns if col.key == key), None)
        if value is None:
            return items
        pairs = [(value(item), item) for item in items]
        valued = [(known, item) for known, item in pairs if known is not None]
        valued.sort(key=lambda pair: pair[0], reverse=descending)
        return [*(item for _, item in valued), *(item for known, item in pairs if known is None)]

    def item(self, number: int | None) -> RowT | None:
        """Returns the item of a row by the row's id; None where it is not shown."""
        return None if number is None else self._items.get(number)

    @property
    def cursor_item(self) -> RowT | None:
        """The item under the cursor; None in an empty table."""
        return self.item(self.cursor_id)

    def move_to_key(self, key: Hashable) -> bool:
        """Puts the cursor on the item with this key; returns whether it is shown."""
        number = self._numbers.get(key)
        if number is None or number not in self._items:
            return False
        self.move_to_id(number)
        return True


def _fitted(pieces: list[Segment], width: int, pad: Style, right: bool) -> list[Segment]:
    """Returns the pieces in exactly `width` cells, cut with an ellipsis where they are longer.

    Args:
        pad: Style of the cells that fill up the width.
        right: Whether the pieces are aligned to the right.
    """
    strip = Strip(pieces)
    if strip.cell_length > width:
        cut = strip.crop(0, max(0, width - 1))
        style = pieces[-1].style if pieces else pad
        return [*Strip([*cut, Segment("…", style)]).adjust_cell_length(width, pad)]
    padding = Segment(" " * (width - strip.cell_length), pad)
    return [padding, *pieces] if right else [*pieces, padding]
